/* What exchanges of a rank take while its device computes, and what computing takes meanwhile: both share the device's
 * multiprocessors and the bandwidth of its memory.
 *
 * While both run an exchange goes on at its rate beside computing, and computing loses the part `slows` of its speed;
 * when one ends the other goes on alone. So computing of c ns and an exchange that begins with it, of e ns beside
 * computing and a ns alone, take
 *
 *   c + slows e                                 where the exchange ends first: e <= c / (1 - slows)
 *   c / (1 - slows) + a - a c / (1 - slows) / e where computing does. */
#ifndef CS_PLAN_COST_BESIDE_H
#define CS_PLAN_COST_BESIDE_H

#include "core/plan/cluster.h"

struct cs_beside {
    int64_t alone_ns, beside_ns;
    double slows; /* 0 to 1 */
};

/* Of n ranks, of so many bytes (cs_exchange_ns): as the profile measured them beside products. Where it did not, they
 * are as fast as alone, and computing loses the multiprocessors that a communicator of replicas holds, of other kinds
 * than those of replicas nothing: what messages hold stages never have (core/plan/cost/stage/stages.c). */
struct cs_beside cs_exchange_beside(const struct cs_device_class *device, enum cs_link_op op,
                                    int64_t n, int64_t bytes);
/* until both are over; works_ns >= 0 */
int64_t cs_beside_ns(int64_t works_ns, struct cs_beside exchange);

enum { CS_LANES_QUEUE = 8 };

/* Two streams of a device: one computes, exchanges follow each other on the other. Zeroed it is at time 0. */
struct cs_lanes {
    double now_ns; /* of the stream that computes */
    struct cs_beside queue[CS_LANES_QUEUE];
    double left;         /* of the first in the queue, 1 to 0 */
    int64_t begun, over; /* exchanges so far */
};

/* From now on, behind all others; where too many are on their way computing waits for the first. Returns its number,
 * from 1. */
int64_t cs_lanes_exchange(struct cs_lanes *lanes, struct cs_beside exchange);
void cs_lanes_compute(struct cs_lanes *lanes, int64_t ns);
/* Computing waits until the exchange of that number is over; 0: for none. */
void cs_lanes_await(struct cs_lanes *lanes, int64_t number);

#endif
