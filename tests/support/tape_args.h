/* Arguments of operator calls that are all different: argument i is the number 1000 + i, one of them another.
 * For tests of what is written down of a call (test_worker_tape.c, tape_mixers.c). */
#ifndef CS_SUPPORT_TAPE_ARGS_H
#define CS_SUPPORT_TAPE_ARGS_H

#include <stdint.h>

#include "kernels/ops.h"

struct tape_args {
    const struct cs_ops *ops;
    struct cs_ctx ctx;
    int other; /* argument that differs, -1: none */
    int n;     /* arguments so far */
};

static inline int64_t num(struct tape_args *a)
{
    const int i = a->n++;
    return 1000 + i + (i == a->other ? 5000 : 0);
}

static inline int32_t num32(struct tape_args *a)
{
    return (int32_t)num(a);
}

static inline void *ptr(struct tape_args *a)
{
    return (void *)(uintptr_t)(num(a) * 16);
}

static inline float real(struct tape_args *a)
{
    return (float)num(a) + 0.25f;
}

typedef void tape_call(struct tape_args *a);

/* of layers that mix rows and of experts */
enum { TAPE_MIXERS = 17 };

extern tape_call *const tape_mixers[TAPE_MIXERS];

#endif
