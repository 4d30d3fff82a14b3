/* Cases of attention on the GPU against the naive kernels. */
#ifndef CS_TESTS_GPU_ATTENTION_CASES_H
#define CS_TESTS_GPU_ATTENTION_CASES_H

#include "gpu/attention_lab.h"
#include "gpu/attention_oracle.h"

enum att_path {
    ATT_LISTS, /* bf16 over the lists of the mask: the kernels of the card */
    ATT_MMA,   /* the same, but the kernels that every card since 8.0 can run */
    ATT_RULE,  /* bf16 without lists: the portable kernels */
    ATT_F32,   /* fp32: the portable kernels */
    ATT_PATHS
};

struct att_case {
    enum cs_mask_kind kind;
    int32_t tokens, dim, group; /* query heads of a key head */
    enum att_order order;
    enum att_path path;
    bool is_capped, has_sinks, is_deterministic;
    bool is_tight; /* no gaps between rows */
    bool is_steep; /* scores so far apart that the largest of a row grows from step to step */
};

/* Every byte of dsink before it is added to: 0.747... */
enum { ATT_DSINK = 0x3f };

/* Everything of one case, in device memory. */
struct att_setup {
    struct att_case c;
    struct att_mask mask;
    struct cs_mask_plan plan; /* as the operators get it */
    struct cs_attention_shape shape;
    const struct cs_ops *ops;
    char *q, *kv, *o, *d_o, *dq, *dkv; /* kv: rows of k and v side by side */
    float *lse;
    float *sink, *dsink;                                /* (heads), also of a case without sinks */
    size_t q_bytes, kv_bytes, o_bytes, lse_bytes, v_at; /* v_at: bytes from k to v in a row */
};

void att_describe(const struct att_case *c);
void att_set_up(struct att_lab *lab, const struct att_case *c, struct att_setup *out);
void att_tear_down(struct att_lab *lab, struct att_setup *s);
/* Poison outputs and workspace, run forward and backward. */
void att_run(struct att_lab *lab, const struct att_setup *s);

/* Outputs against the references: o and dq, or dk and dv; prints what is off. */
bool att_check_side(struct att_oracle *oracle, const struct att_setup *s, bool is_key,
                    const struct att_reference *exact, const struct att_reference *eager);
/* dsink, of a case with sinks, after one run of the backward pass */
bool att_check_sinks(struct att_lab *lab, struct att_oracle *oracle, const struct att_setup *s,
                     const struct att_reference *exact, const struct att_reference *eager);
struct att_operands att_operands_of(const struct att_setup *s);
void att_verdict(struct att_lab *lab, const struct att_case *c, bool is_good);

/* Parts of the test program */
void att_test_oracle(struct att_lab *lab);  /* the naive kernels against the CPU operator */
void att_test_pairs(struct att_lab *lab);   /* pairwise covering set of everything */
void att_test_product(struct att_lab *lab); /* every rule, length up to 512, size, group */
void att_test_mma(struct att_lab *lab); /* the kernels of every card: pairs and a part of product */
void att_test_portable(struct att_lab *lab); /* the portable kernels */
void att_test_steep(struct att_lab *lab); /* online softmax: maxima grow in some rows of a warp */
void att_test_cut(struct att_lab *lab);   /* full masks, the last round cut along the keys */
void att_test_same(struct att_lab *lab);  /* deterministic: equal to the bit over 20 runs */
void att_test_merge(struct att_lab *lab); /* parts of the keys, merged */
void att_test_graph(struct att_lab *lab); /* recorded and replayed */
void att_test_small(struct att_lab *lab); /* few and short, not compared: for compute-sanitizer */

#endif
