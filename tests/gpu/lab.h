/* A bench for comparing a GPU operator with its CPU twin. A case is a call and up to LAB_TENSORS
 * tensors; every tensor exists on both sides with the same (rounded) contents, the call runs on
 * both, then all tensors are compared, inputs and gaps between rows included. The call runs twice
 * on the GPU from the same contents, and a third time recorded into a graph: the bits must be the
 * same. */
#ifndef CS_TESTS_GPU_LAB_H
#define CS_TESTS_GPU_LAB_H

#include "kernels/device.h"
#include "kernels/ops.h"

#define LAB_TENSORS 14

enum lab_type {
    LAB_NONE,
    LAB_ACT,
    LAB_F32,
    LAB_F64,
    LAB_I32,
    LAB_U64,
    LAB_U8,
    LAB_BF16,
    LAB_I64 /* a sum of rounded numbers, compared as one */
};

struct lab_tensor {
    enum lab_type type; /* LAB_NONE: a NULL pointer is passed */
    int64_t n;
    void *host; /* LAB_ACT: float, LAB_BF16: uint16_t on both sides */
    void *dev;
    /* |gpu - cpu| <= rel |cpu| + scale max|cpu| + floor; integers: rel is the share that may
     * differ */
    double rel, scale;
    double floor; /* noise of a difference of equal sums, where the true value is 0 */
    double rare;  /* up to this share of values may miss that: by less than rare_rel |cpu| */
    double rare_rel;
};

struct lab {
    const struct cs_ops *cpu, *gpu;
    const struct cs_device_ops *device;
    void *handle, *stream;
    struct cs_ctx host_ctx, dev_ctx;
    uint64_t seed;
    int64_t most;                   /* cases of more elements are left out; 0: none */
    int passed, failed;             /* cases */
    int group_passed, group_failed; /* of the operator in work */
};

/* p: pointers of the tensors in order, on the side of ops */
typedef void lab_call(const struct cs_ops *ops, struct cs_ctx *ctx, void *const *p,
                      const void *args);

struct lab_case {
    const char *what;
    lab_call *call;
    const void *args;
    int n;
    struct lab_tensor t[LAB_TENSORS];
};

uint32_t lab_bits(struct lab *lab);
int lab_between(struct lab *lab, int lo, int hi);

/* Append a tensor. Its values: uniform in [lo, hi], for LAB_ACT, LAB_F32 and LAB_BF16. */
struct lab_tensor *lab_real(struct lab *lab, struct lab_case *c, enum lab_type type, int64_t n,
                            float lo, float hi);
struct lab_tensor *lab_output(struct lab *lab, struct lab_case *c, enum lab_type type, int64_t n,
                              double rel, double scale);
struct lab_tensor *lab_raw(struct lab *lab, struct lab_case *c, enum lab_type type, int64_t n);
void lab_null(struct lab_case *c);
/* Appends doc (rows) and segment (rows + 1) of packed documents, each of at most `longest` rows, 0: one
 * document; returns how many there are. */
int32_t lab_documents(struct lab *lab, struct lab_case *c, int32_t rows, int32_t longest);

bool lab_is_bf16(const struct lab *lab);
float lab_round(const struct lab *lab, float x); /* to the act type */
/* Run, compare, print what differs, free the tensors. */
void lab_run(struct lab *lab, struct lab_case *c);
void lab_verdict(struct lab *lab, const char *name, bool is_good); /* a case without tensors */
void lab_group(struct lab *lab, const char *name);                 /* prints the operator's line */

/* Operators on lists: one array of `total` elements in tensors of uneven sizes, some of them
 * empty. */
enum { LAB_LIST = 93 };

struct lab_list {
    int64_t total, begin[LAB_LIST + 1];
    struct cs_adamw hyper;
};

void lab_cut(struct lab *lab, struct lab_list *list, int64_t largest); /* largest: of a few */

#endif
