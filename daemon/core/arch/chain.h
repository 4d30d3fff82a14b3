/* What happens to the rows of an encoder behind its blocks: a chain of small steps. An encoder has
 * one as its last layer (most: a norm), a projector is one, and a tap, which gives rows of a middle
 * block to the LLM, is one. A chain is data; the worker has one interpreter for all. */
#ifndef CS_ARCH_CHAIN_H
#define CS_ARCH_CHAIN_H

#include <stdbool.h>
#include <stdint.h>

enum cs_chain_op {
    CS_CHAIN_DROP_CLASS, /* rows that are no class row */
    CS_CHAIN_NORM,       /* by the chain's kind, of rows as wide as they are now */
    CS_CHAIN_CONCAT,     /* the rows of a group side by side */
    CS_CHAIN_WEAVE,      /* the same, element by element: all rows' first values come first */
    CS_CHAIN_MEAN,       /* the mean of a group, times the chain's scale */
    CS_CHAIN_AFFINE,     /* (x - SHIFT) * SCALE, which never train */
    CS_CHAIN_LINEAR,     /* the next of the chain's matrices */
    CS_CHAIN_ACT,        /* stands behind LINEAR only */
    CS_CHAIN_FILL,       /* rows of the LLM: each one of these, a learned row, or a blend */
    CS_CHAIN_OPS
};

enum { CS_CHAIN_STEPS = 8, CS_CHAIN_LINEARS = 4 };

struct cs_chain {
    enum cs_chain_op op[CS_CHAIN_STEPS];
    int32_t n;
    int32_t group;                    /* rows that one joining step joins; 1 */
    int32_t in_width;                 /* of the rows that enter */
    int32_t linear[CS_CHAIN_LINEARS]; /* width behind each matrix */
    float scale;
    int act;            /* enum cs_arch_act */
    bool is_transposed; /* matrices are stored (in, out) */
    bool has_newline;   /* a learned row, as wide as the last matrix, for FILL */
};

/* The rows in front of a step: how many for one that leaves the chain, and how wide. step n: those
 * that leave. */
struct cs_chain_rows {
    int32_t rows, width;
    int32_t n_linears; /* matrices before */
};

/* A letter a step: D drops class rows, N norms, C concatenates, W weaves, M means, F is the
 * affine step, L multiplies, A activates. Joining steps of single rows are left away, and so is what
 * stands behind the last of n_linears matrices. Widths of matrices are the caller's to set. */
void cs_chain_make(const char *steps, int32_t n_linears, int32_t group, int32_t in_width,
                   struct cs_chain *out);
struct cs_chain_rows cs_chain_at(const struct cs_chain *chain, int32_t step);
/* It gives fewer rows than it takes, class rows aside. */
bool cs_chain_joins(const struct cs_chain *chain);

/* For every row that leaves: values of its own input; statistics and inputs of norms, what
 * activations are given, inputs of matrices (the chain's own input not again); multiply-adds. */
struct cs_chain_sums {
    int64_t in, stats, norms, acts, linears, products;
};

struct cs_chain_sums cs_chain_sums(const struct cs_chain *chain);

#endif
