/* Steps of a family's test that have a file of their own. Internal to the room. */
#ifndef CS_WORKER_SELFTEST_PARTS_H
#define CS_WORKER_SELFTEST_PARTS_H

#include "store/hf/hfdir.h"
#include "store/safetensors.h"
#include "worker/selftest/selftest.h"
#include "worker/train/trainer.h"

enum { CS_GOLDEN_STEPS = 5 };

/* An open golden directory with the job that is made of it. */
struct cs_golden {
    const char *dir;
    struct cs_st_file *file; /* golden.safetensors */
    struct cs_arena *arena;
    json_t *document;
    struct cs_spec *spec;
    struct cs_graph *graph;
    struct cs_cluster cluster;
    struct cs_plan *plan;
    struct cs_device *device;
    struct cs_trainer *trainer;
    struct cs_hfdir *part[CS_MODULE_KINDS];  /* NULL: the directory has no such module */
    const struct cs_selftest_layout *layout; /* NULL: one rank, and one slot */
    void *slot_memory;
    struct cs_slot slot; /* the whole batch */
    struct cs_manifest *manifest;
    float *patches[CS_MAX_ENCODERS]; /* rows in the order of the encoder, NULL: none */
    float *patch_end;                /* of those of the first encoder */
    int64_t *patch_at;     /* (items of the first encoder) their first values in patches */
    struct cs_slot *slots; /* (manifest->n_slots) of a step, and their patches */
    const float *(*slot_patches)[CS_MAX_ENCODERS];
    void *cut_memory; /* of slots with a part of the batch */

    struct {
        const char *name; /* "logits" of the rows with a label, or "last" of a tower */
        float *values;
        int64_t dim[2];
    } after; /* what the model computes after the steps, in the arena */

    float
        balance; /* share of the experts' balancing loss in the golden's losses; 0: they are without it */
    int32_t *sources, n_sources; /* what fills each placeholder in turn, NULL: rows in turn */
    struct cs_noise *noise;      /* NULL: nothing is known of it */
};

/* ---- golden.c ---- */
/* layout: of the steps, NULL: one slot. is_spread: on the ranks of the layout, and no trainer is made;
 * else on one rank, with the slots that the layout has. */
enum cs_status cs_golden_open(const char *dir, const char *adapter,
                              const struct cs_selftest_layout *layout, bool is_spread,
                              struct cs_device *device, struct cs_golden *out,
                              struct cs_err *err) CS_NODISCARD;
/* a job without a golden, on one rank; takes document, also where it fails */
enum cs_status cs_golden_open_job(json_t *document, struct cs_device *device, struct cs_golden *out,
                                  struct cs_err *err) CS_NODISCARD;
void cs_golden_close(struct cs_golden *golden);

/* ---- arrays.c ---- */
bool cs_golden_has(const struct cs_golden *golden, const char *name);
/* fp32 values of a tensor, in the arena; count may be NULL */
enum cs_status cs_golden_floats(const struct cs_golden *golden, const char *name, float **out,
                                int64_t *count, struct cs_err *err) CS_NODISCARD;
/* whole numbers of a tensor of any integer type, in the arena */
enum cs_status cs_golden_ints(const struct cs_golden *golden, const char *name, int64_t **out,
                              int64_t *count, struct cs_err *err) CS_NODISCARD;
/* CS_NOT_FOUND names the file and the tensor */
enum cs_status cs_golden_tensor(const struct cs_golden *golden, const char *name,
                                const struct cs_st_tensor **out, struct cs_err *err) CS_NODISCARD;

/* ---- document.c: the job that trains everything that the directory holds, on one rank ---- */
struct cs_golden_job {
    const char *dir, *adapter;
    const struct cs_selftest_layout *layout; /* NULL: one stage a branch, one replica */
    int slots, replicas;                     /* of a step */
    int context, encoder_context; /* ranks that split rows of the language model, items */
    int tensors, encoder_tensors; /* ranks that share the matrices of a stage */
    int experts;                  /* ranks that share those of the language model */
    bool splits_rows;             /* and rows between products */
    int zero; /* what those with the same weights divide, where there are several */
    int32_t seq_tokens, samples; /* rows and documents of a slot */
    int64_t values;              /* of all media; an item has no more */
};
enum cs_status cs_golden_document(const struct cs_golden_job *job, json_t **out,
                                  struct cs_err *err) CS_NODISCARD;

/* ---- item.c ---- */
/* What the golden holds of one item: values of its patches in the order of file, or of its picture or
 * frames, and its grid. */
struct cs_golden_medium {
    const float *values;
    int32_t grid[3], width; /* width: pixels of a line, where it is a picture */
    int64_t plane;          /* pixels of a channel */
    int32_t time_step;      /* of a video (core/data/slot.h) */

    enum { CS_MEDIUM_PICTURE, CS_MEDIUM_READING, CS_MEDIUM_GROUPS, CS_MEDIUM_FRAMES } order;
};

/* *out: where its values go; their end */
enum cs_status cs_golden_add_item(struct cs_golden *g, const struct cs_golden_medium *medium,
                                  const struct cs_arch *encoder, float **out,
                                  struct cs_err *err) CS_NODISCARD;

/* ---- mosaic.c: pictures as the whole and tiles of a mosaic (core/data/mosaic.h) ---- */
bool cs_golden_has_mosaics(const json_t *root);
/* items, and g->sources */
enum cs_status cs_golden_add_mosaics(struct cs_golden *g, const struct cs_arch *encoder,
                                     struct cs_err *err) CS_NODISCARD;

/* ---- inputs.c: CS_UNSUPPORTED names an input that nothing reads, or a mask that hides more ---- */
enum cs_status cs_golden_check_inputs(const struct cs_golden *golden,
                                      struct cs_err *err) CS_NODISCARD;

/* ---- turn.c: what the tower is given, as items of the slot and rows of patches ---- */
enum cs_status cs_golden_add_media(struct cs_golden *golden, struct cs_err *err) CS_NODISCARD;

/* ---- probe.c: one document that the seed decides, as the slot of a job ---- */
enum cs_status cs_golden_probe(struct cs_golden *golden, uint64_t seed,
                               struct cs_err *err) CS_NODISCARD;

/* ---- forward.c: logits (n_labels, vocab) of the slot's rows with a label, in the arena ---- */
enum cs_status cs_golden_forward(struct cs_golden *golden, float **logits,
                                 struct cs_err *err) CS_NODISCARD;

/* ---- written.c: the model as it is now, with `after` in DIR/after.safetensors ---- */
enum cs_status cs_golden_write(struct cs_golden *golden, const char *dir,
                               struct cs_err *err) CS_NODISCARD;
/* ---- slots.c: the batch as the slots of a step ---- */
/* slots of a step of `batch` documents */
int cs_golden_slots(const struct cs_selftest_layout *layout, int batch);
enum cs_status cs_golden_cut(struct cs_golden *golden, struct cs_err *err) CS_NODISCARD;

/* ---- layout.c: the golden on one rank, then on those of the layout ---- */
enum cs_status cs_golden_check_layout(const struct cs_selftest_request *request,
                                      struct cs_device *device, struct cs_selftest *out,
                                      struct cs_err *err) CS_NODISCARD;

/* ---- family.c ---- */
void cs_golden_name(const struct cs_golden *golden, struct cs_selftest *out);

/* ---- text.c, tower.c: the checks of each kind ---- */
/* the batch goes to the slots */
enum cs_status cs_golden_fill(struct cs_golden *golden, struct cs_err *err) CS_NODISCARD;
enum cs_status cs_golden_check_text(struct cs_golden *golden, struct cs_selftest *out,
                                    struct cs_err *err) CS_NODISCARD;
enum cs_status cs_golden_check_tower(struct cs_golden *golden, struct cs_selftest *out,
                                     struct cs_err *err) CS_NODISCARD;

/* ---- compare.c ---- */
/* with the usual limit of what the device computes in */
struct cs_selftest_check *cs_selftest_add(const struct cs_golden *golden, struct cs_selftest *test,
                                          const char *what, double f32, double bf16);

/* What is compared at a time, and how. */
struct cs_selftest_pair {
    const char *name;

    enum cs_pair_kind {
        CS_PAIR_VALUES, /* the worst value: within 1 or a tenth of the largest; bf16: 1 - cosine */
        CS_PAIR_VECTOR, /* norm of the difference over norm + unit */
        CS_PAIR_NUMBER  /* difference in units */
    } kind;

    int64_t n;
    const float *got, *want;
    double unit;
};

/* The pair that is furthest over what is allowed of it is the check's. */
void cs_selftest_compare(const struct cs_golden *g, struct cs_selftest_check *check,
                         struct cs_selftest_pair pair);
/* a single number, in units */
void cs_selftest_number(const struct cs_golden *g, struct cs_selftest_check *check,
                        const char *name, double got, float want, double unit);
const char *cs_selftest_step(int i); /* "step 3" */
/* n acts of the device as fp32, in the arena */
enum cs_status cs_golden_fetch(struct cs_golden *golden, const void *acts, int64_t n, float **out,
                               struct cs_err *err) CS_NODISCARD;

/* ---- noise.c ---- */
/* times the noise is no deviation; in bf16 activations are rounded as well as the weights that move */
enum { CS_NOISE_ALLOWED = 2, CS_NOISE_ALLOWED_BF16 = 4 };

enum cs_noise_phase {
    CS_NOISE_KEPT,  /* what the run computes is kept for the others */
    CS_NOISE_MOVED, /* weights are moved: how far it comes from what was kept is noise */
    CS_NOISE_KNOWN  /* deviations are judged by it */
};

/* of one pair, in the order in which they are compared */
struct cs_noise_entry {
    float *got;
    double noise;
    struct cs_noise_entry *after;
};

struct cs_noise {
    struct cs_arena *arena;
    enum cs_noise_phase phase;
    struct cs_noise_entry *first, **next;
};

void cs_noise_begin(struct cs_noise *noise, enum cs_noise_phase phase);
/* NULL: nothing is known of noise */
struct cs_noise_entry *cs_noise_next(struct cs_noise *noise, const struct cs_selftest_pair *pair);
/* every weight by at most so many times half a unit of its last place: 2^-24 of itself, bf16 2^-9 */
enum cs_status cs_noise_move(struct cs_golden *golden, uint64_t seed, double units,
                             struct cs_err *err) CS_NODISCARD;

#endif
