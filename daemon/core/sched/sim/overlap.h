/* What replicas cost a step on accelerators, where sums and weights travel on a stream of their own
 * while the device computes (worker/comm/replicas.h):
 *
 *   sums     a bucket starts when the last backward has passed its layers; buckets go one after the
 *            other in the order in which they are complete, those of a tied embedding last. A step
 *            pays what is left when its last backward ends.
 *   weights  buckets go one after the other in the order of layers, after the update, while the
 *            next step is prepared and begins; a layer of its forward waits for its own bucket, and
 *            what is late delays all that follows. A step pays the longest delay.
 *   hidden   time is not free either: computing is slower beside an exchange, and an exchange beside
 *            computing (core/plan/cost/links/beside.h); what is left, or late, goes on as fast as alone.
 *
 * Where sums are made in slots (zero 2 and 3) stages have their times, and a step pays what those of its
 * last slot leave.
 *
 * The rank is taken to compute without a pause around both, in the order of its program: it then
 * has the least time to hide them in. Private to core/sched. */
#ifndef CS_SCHED_SIM_OVERLAP_H
#define CS_SCHED_SIM_OVERLAP_H

#include "core/sched/program.h"

/* The k-th bucket, by time: complete (sums), or needed (weights), and how long it is on its way. */
struct cs_overlap_item {
    int64_t at_ns, takes_ns;
};

/* One after the other in this order, none before it is complete: what is left after end_ns. */
int64_t cs_overlap_left(const struct cs_overlap_item *item, int32_t n, int64_t end_ns);
/* One after the other from 0 on: the longest time that one arrives after it is needed. */
int64_t cs_overlap_delay(const struct cs_overlap_item *item, int32_t n);

/* Exposed time of REDUCE and GATHER of a rank whose stages have buckets; begin_ns: what a rank does
 * in a step before its first action. */
int64_t cs_overlap_reduce_ns(const struct cs_program *program, int rank,
                             const struct cs_device_class *device);
int64_t cs_overlap_gather_ns(const struct cs_program *program, int rank, int64_t begin_ns,
                             const struct cs_device_class *device);

#endif
