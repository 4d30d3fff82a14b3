/* What messages and collectives take between processes' sockets: threads of this process stand for the ranks. */
#ifndef CS_WORKER_MEASURE_LINKS_H
#define CS_WORKER_MEASURE_LINKS_H

#include "core/plan/cost/profile.h"

/* Latency and bandwidth of every kind, for groups of 2 and 4; bytes are those of the whole vector. Of the host: links
 * between GPUs are not measured here. */
enum cs_status cs_measure_links(struct cs_arena *arena, struct cs_profile *profile,
                                struct cs_err *err) CS_NODISCARD;

#endif
