/* Attention over the ranks of a context, as layers of a job run it (worker/model/halves/context.h), alone: one
 * slot with made-up queries, keys and values. A rank is a process with a GPU, or, with the device
 * "lazy", a thread with a device of tests/support/lazy_device.h. What fails ends the program with a
 * message. */
#ifndef CS_TESTS_BENCH_CONTEXT_LAB_H
#define CS_TESTS_BENCH_CONTEXT_LAB_H

#include <stdbool.h>
#include <stdint.h>

enum { CS_CONTEXT_LAB_RANKS = 8, CS_CONTEXT_LAB_LAYOUTS = 3 };

/* "causal": one document of text. "packed": three documents, text in turn with pictures of 729 rows that
 * see themselves. "video": text with one span of half of the rows that sees itself. */
extern const char *const cs_context_lab_layouts[CS_CONTEXT_LAB_LAYOUTS];

struct cs_context_lab {
    const char *device;    /* "cuda", "lazy" */
    const char *precision; /* "bf16", "fp32" */
    const char *layout;
    const char *rule;    /* of balance, as plan.context */
    bool moves_heads;    /* as plan.context_exchange: heads go between ranks, not keys */
    bool own_first;      /* tiles of the own keys before those that come */
    int ranks, groups;   /* groups of heads; 0: as in jobs */
    int64_t group_bytes; /* with groups: as of struct cs_context */
    int32_t tokens, heads, kv_heads, dim;
    int warm, rounds;
};

/* (tokens, heads * dim) of o and dq, (tokens, kv_heads * dim) of dk and dv; NULL: not kept */
struct cs_context_lab_values {
    float *o, *dq, *dk, *dv;
};

struct cs_context_lab_result {
    double fwd_ms, bwd_ms; /* medians, of the slowest rank */
    int64_t pairs;         /* that the mask allows */
    int64_t rank_pairs[CS_CONTEXT_LAB_RANKS], rank_rows[CS_CONTEXT_LAB_RANKS];
};

/* n of one device, precision and number of ranks, one after the other; values: NULL, or (n) arrays to
 * fill, from cs_context_lab_new_values; out (n) */
void cs_context_lab_run(const struct cs_context_lab *lab, int n,
                        struct cs_context_lab_values *values, struct cs_context_lab_result *out);
/* memory that all ranks share */
struct cs_context_lab_values cs_context_lab_new_values(const struct cs_context_lab *lab);
void cs_context_lab_free_values(const struct cs_context_lab *lab,
                                struct cs_context_lab_values *values);
/* GPUs that are there; 0 without a plugin or a driver. In a process of its own. */
int cs_context_lab_gpus(void);

#endif
