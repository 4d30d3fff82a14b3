/* Reads the GPUs in a thread of its own: a driver that takes its time, or hangs, holds up nobody.
 * The event loop asks for a reading, is told by a descriptor that there is one, and takes a copy. */
#ifndef CS_SERVER_GPU_WATCH_H
#define CS_SERVER_GPU_WATCH_H

#include "gpus/gpus.h"

struct cs_gpu_watch;

/* takes gpus over, also when it fails: nobody else may read them any more (their number, names and
 * UUIDs stay as they are) */
enum cs_status cs_gpu_watch_open(struct cs_gpus *gpus, struct cs_gpu_watch **out,
                                 struct cs_err *err) CS_NODISCARD;
/* Ends the thread and closes the GPUs; accepts NULL. A thread that is in the driver for longer than
 * a second is left to the end of the process, with its GPUs open. */
void cs_gpu_watch_close(struct cs_gpu_watch *watch);
/* one reading, soon; while one is under way: one more after it */
void cs_gpu_watch_ask(struct cs_gpu_watch *watch);
/* readable when there is a reading to take */
int cs_gpu_watch_fd(const struct cs_gpu_watch *watch);
/* the newest reading, of cs_gpus_count GPUs; false: none since the last one taken */
bool cs_gpu_watch_take(struct cs_gpu_watch *watch, struct cs_gpu out[CS_GPUS_MAX]);

#endif
