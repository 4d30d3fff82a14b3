/* The whole training step on a GPU against another computation of the same numbers: our CPU path
 * (steps.c) or PyTorch (full.c). A job is a specification, its graph and a plan on one rank; a
 * subject is a trainer of that job on one device; checks are counted. */
#ifndef CS_TESTS_GPU_PARITY_H
#define CS_TESTS_GPU_PARITY_H

#include <limits.h>

#include "worker/train/trainer.h"

/* What is built: SigLIP + two-layer MLP + Llama at the widths of so400m and 3.2-1B. */
struct parity_shape {
    const char *name;
    int image, vision_layers, llm_layers, vocab; /* image: pixels of a side, patches are 14 */
    int seq_tokens, slots;
    double lr;
    const char *dir; /* DIR/encoder, DIR/projector, DIR/llm are loaded; NULL: random weights */
    bool is_encoder_frozen, is_projector_frozen, is_llm_frozen;
};

struct parity_job {
    struct cs_arena *arena;
    json_t *root;
    struct cs_spec *spec;
    struct cs_graph *graph;
    struct cs_plan *plan;
};

/* Errors end the program: there is nothing to compare without a job. */
void parity_must(enum cs_status status, const struct cs_err *err);
void parity_job_open(struct parity_job *job, const struct parity_shape *shape);
void parity_job_close(struct parity_job *job);

struct parity_subject {
    const char *label;
    struct cs_spec spec; /* the job's, but for the state */
    struct cs_device device;
    struct cs_trainer *trainer;
};

/* state: what training keeps (optimizer.state) */
void parity_subject_open(struct parity_subject *s, const struct parity_job *job, const char *label,
                         const char *device, const char *precision, const char *state);
void parity_subject_close(struct parity_subject *s);
/* Random weights, the same for every subject: N(0, 0.02), norms around 1, biases not 0. */
void parity_fill_weights(struct parity_subject *s);

/* The slots of one step in memory of their own. */
struct parity_batch {
    struct cs_manifest manifest;
    struct cs_slot slot[4];
    struct cs_slot_counts counts[4]; /* of the manifest */
    char *memory;
};

void parity_batch_new(struct parity_batch *b, const struct cs_slot_budget *budget, int slots);
void parity_batch_free(struct parity_batch *b);
/* Append a sample of n rows to a slot. label: unshifted, -1 where nothing is to be learnt; the
 * shift is made here. is_image: 1 at rows that the encoder fills, whole pictures, whose pixels
 * follow in pixels (may be NULL: left as they are). */
void parity_add_sample(struct parity_batch *b, const struct cs_slot_budget *budget, int slot, int n,
                       const int32_t *id, const int32_t *label, const uint8_t *is_image,
                       const uint8_t *pixels);

/* What steps and states train: slots of 512 rows, pictures of 224 px. Fills in all but the
 * layers. */
void parity_small_shape(struct parity_shape *shape, int vocab);

struct parity_tally {
    int passed, failed;
};

/* Counts; a failure is printed. */
void parity_check(struct parity_tally *tally, bool is_good, const char *fmt, ...) CS_PRINTF(3, 4);

/* two vectors, in fp64 */
struct parity_diff {
    double got, want; /* norms */
    double off;       /* |got - want| */
    double cosine;
};

struct parity_diff parity_diff(int64_t n, const float *got, double scale, const float *want);

/* What a subject's gradients may differ by. Anything that is not a number fails. */
struct parity_limits {
    double series;   /* losses and gradient norms, relative */
    double relative; /* a tensor's difference to its norm */
    double cosine;   /* at least */
    double norm;     /* norm of a tensor's gradient, relative */
    /* The gradient of a key's bias is 0 where nothing rotates, because it shifts a row of scores:
     * rounding noise against the norm of the query's bias. */
    double key_bias;
};

/* The worst of a subject, with the tensor it was seen at. */
struct parity_worst {
    double relative, cosine, norm, key_bias;
    char relative_at[160], cosine_at[160], norm_at[160];
    int n;
};

/* Where the gradient to compare with comes from: fp32 of param->count; false: there is none. */
typedef bool parity_want(void *user, const struct cs_param *param, const float **out);

/* Every gradient of the subject, times scale. Each tensor is one check. */
void parity_gradients(struct parity_tally *tally, const struct parity_job *job,
                      struct parity_subject *s, double scale, parity_want *want, void *user,
                      const struct parity_limits *limits, struct parity_worst *worst);
void parity_print_worst(const char *label, const struct parity_worst *worst);

extern const struct parity_limits parity_limits_f32, parity_limits_bf16;

struct parity_options {
    char device[16];    /* compared with the CPU, or with PyTorch's figures */
    char dir[PATH_MAX]; /* of full, absolute */
    int steps, short_steps, vocab, only, threads;
    bool is_fp32_only, has_bf16_state;
};

void parity_steps(struct parity_tally *tally, const struct parity_options *options);
void parity_full(struct parity_tally *tally, const struct parity_options *options);
/* State kept in bf16 through checkpoints; nothing where the device does not compute in bf16. */
void parity_states(struct parity_tally *tally, const struct parity_options *options);

#endif
