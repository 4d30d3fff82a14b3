/* What a program asks of its ranks against what they have. */
#ifndef CS_SCHED_PROOF_LIMITS_H
#define CS_SCHED_PROOF_LIMITS_H

#include "core/sched/program.h"

/* What the ranks have; 0: no limit. */
struct cs_program_limits {
    /* for weights, gradients, optimizer and the activations of live slots; boundary buffers, whose
     * number depends on times, are in forecasts */
    int64_t mem_bytes;
    /* peers times directions in which messages may be under way at once on a rank: on accelerators
     * each may hold a kernel that waits */
    int32_t channels;
};

/* most channels on accelerators: half the multiprocessors of a card stay free */
enum { CS_MAX_CHANNELS = 64 };

/* CS_PLAN names the first action that is over a limit, with the figures. The program must be
 * verified. */
enum cs_status cs_program_check_limits(const struct cs_program *program,
                                       const struct cs_program_limits *limits,
                                       struct cs_err *err) CS_NODISCARD;

#endif
