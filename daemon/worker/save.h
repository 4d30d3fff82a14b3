/* Checkpoints beside training: what this rank updates of the trainable parameters is copied at the
 * end of a step, a thread of its own writes the copy. One save is under way at most; the next one
 * waits for it. A save that fails is reported and training goes on. Every replica writes its own
 * parts; ranks do not wait for each other. */
#ifndef CS_WORKER_SAVE_H
#define CS_WORKER_SAVE_H

#include "store/ckpt/checkpoint.h"
#include "worker/params/params.h"

struct cs_saver;

/* Called on the writer's thread when a save has ended: status CS_OK with two files, or an error. */
typedef void cs_save_done(void *user, int64_t step, enum cs_status status,
                          const struct cs_ckpt_file files[2], const struct cs_err *err);

enum cs_status cs_saver_new(struct cs_params *params, const char *dir, int rank, cs_save_done *done,
                            void *user, struct cs_saver **out, struct cs_err *err) CS_NODISCARD;
/* Copies, starts the writer, returns; waits for the save before this one. A copy that fails is
 * reported like any save. */
void cs_saver_start(struct cs_saver *saver, int64_t step);
void cs_saver_wait(struct cs_saver *saver); /* until nothing is under way */
void cs_saver_free(struct cs_saver *saver); /* waits; accepts NULL */

#endif
