/* What the programs around attention share: the plugin, device memory, random masks of every rule
 * in every order of rows, and the GPU's lists of them. */
#ifndef CS_TESTS_GPU_ATTENTION_LAB_H
#define CS_TESTS_GPU_ATTENTION_LAB_H

#include "core/base/arena.h"
#include "core/mask/cells.h"
#include "kernels/device.h"
#include "kernels/ops.h"

struct att_lab {
    const struct cs_ops *bf16, *f32;
    const struct cs_device_ops *dev;
    void *handle, *stream;
    struct cs_ctx ctx; /* its workspace is all of WORKSPACE */
    uint64_t seed;
    int passed, failed;
};

/* How the rows of a mask lie. */
enum att_order {
    ATT_PLAIN,    /* tiles without a gap, keys are the queries */
    ATT_RESTART,  /* tiles start at documents */
    ATT_ZIGZAG,   /* context parallelism: queries of rank 0 of 2, keys of both ranks in turn */
    ATT_SHUFFLED, /* every row anywhere, tiles of any length, other numbers of keys */
    ATT_ORDERS
};

struct att_mask {
    struct cs_arena *arena;
    struct cs_mask_plan plan, keys; /* host; keys: empty where they are the queries */
    struct cs_mask_plan dev, dev_keys;
    int32_t *q_row, *k_row, n_q, n_k;
    struct cs_mask_cells cells; /* device */
    void *tokens, *lists;       /* device memory of the two */
    size_t list_bytes;
    int32_t n_keys; /* rows of k and v */
};

void att_must(enum cs_status status, const struct cs_err *err); /* exits with the error's text */
void att_open(struct att_lab *lab, const char *plugin);         /* exits 77 without a GPU */
void att_close(struct att_lab *lab);
void *att_alloc(struct att_lab *lab, size_t bytes);
void att_free(struct att_lab *lab, void *p);
void att_copy(struct att_lab *lab, void *to, const void *from, size_t bytes);
void att_fill(struct att_lab *lab, void *p, int byte, size_t bytes);
void att_sync(struct att_lab *lab);
/* Errors of operators so far: prints them, ends the program (they stick to the handle). */
void att_no_errors(struct att_lab *lab);

/* What is launched between record and recorded is not run, but by every replay. */
void att_record(struct att_lab *lab);
void *att_recorded(struct att_lab *lab);
void att_replay(struct att_lab *lab, void *graph);

int32_t att_between(struct att_lab *lab, int32_t lo, int32_t hi);
const char *att_order_name(enum att_order order);

/* A random mask of about the given number of query rows (exactly for PLAIN and RESTART), its tokens
 * on the device and room for its lists, which are poisoned. */
void att_mask_make(struct att_lab *lab, enum cs_mask_kind kind, int32_t tokens,
                   enum att_order order, struct att_mask *out);
/* The queries of whole against its keys [begin, end): a mask of its own with plain tiles, whose
 * tokens are those of whole (which has keys, and must outlive it). */
void att_mask_part(struct att_lab *lab, const struct att_mask *whole, int32_t begin, int32_t end,
                   struct att_mask *out);
/* The tokens of other become those of mask, here and on the device; as many, order plain. The rule
 * stays: a recorded launch has it in its arguments. */
void att_mask_take_tokens(struct att_lab *lab, struct att_mask *mask, const struct att_mask *other);
void att_mask_build(struct att_lab *lab, struct att_mask *mask);
void att_mask_free(struct att_lab *lab, struct att_mask *mask);

/* attention_mask.c: the builder against the CPU twin */
void att_test_builder(struct att_lab *lab);

#endif
