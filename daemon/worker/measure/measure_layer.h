/* Some layers of one kind alone on a device, at some number of rows: what measure.c times. */
#ifndef CS_WORKER_MEASURE_MEASURE_LAYER_H
#define CS_WORKER_MEASURE_MEASURE_LAYER_H

#include "core/data/slot.h"
#include "worker/layer/exchange.h"
#include "worker/model/stage.h"

struct cs_subject_config {
    const struct cs_graph *graph; /* what trains in it trains here */
    const struct cs_slot_budget *budget;
    const struct cs_input_tables *tables; /* words: those that this rank has */
    struct cs_device *device;
    int32_t layer, n_layers; /* graph->layers */
    int32_t
        tp; /* ranks that share them, of which this is the first and meets none; 1: it has all */
};

struct cs_subject {
    struct cs_subject_config config;
    const struct cs_layer *layer; /* the first, of config.graph */
    int32_t encoder;              /* of its branch, -1: LLM */
    int64_t n_params;             /* that this rank has */
    struct cs_stage alone;
    struct cs_plan plan;
    int32_t first[2]; /* of the plan */
    int64_t lent_ns;  /* since the clock runs: rows of other ranks, which nobody computes */
    struct cs_context tensors; /* of tp ranks */
    struct cs_params *params;
    struct cs_stage_model *stage;
    struct cs_scratch scratch;
    struct cs_saved saved;
    void *x, *y, *dy, *dx;
    size_t x_bytes, y_bytes;
    void *slot_memory;
    struct cs_slot slot;
    struct cs_manifest manifest;
    struct cs_slot_counts counts; /* of its slot */
    struct cs_input input;
    unsigned needs;
};

/* What its slots are filled with: items of the largest size, or where they differ, of an eighth of a
 * slot. */
struct cs_item_shape cs_subject_item(const struct cs_slot_budget *budget, int32_t encoder);
/* Parameters are random. close also what was not opened whole. */
enum cs_status cs_subject_open(const struct cs_subject_config *config, struct cs_subject *out,
                               struct cs_err *err) CS_NODISCARD;
void cs_subject_close(struct cs_subject *s);
/* Whether its tp ranks split rows between the products of blocks; at first they do not. */
void cs_subject_split(struct cs_subject *s, bool splits_rows);
/* That many tokens in documents (1 to rows) of as many each, labels spread evenly over them; of an encoder whole
 * items. */
enum cs_status cs_subject_rows(struct cs_subject *s, int64_t rows, int64_t labels,
                               int32_t documents, struct cs_err *err) CS_NODISCARD;
/* Each some times over, in nanoseconds of all (the device's, or CPU time of this thread): forward
 * that keeps what a backward needs, or not; backward of what the last keeping forward kept. */
enum cs_status cs_subject_fwd(struct cs_subject *s, int repeats, bool is_keeping, int64_t *ns,
                              struct cs_err *err) CS_NODISCARD;
enum cs_status cs_subject_bwd(struct cs_subject *s, int repeats, int64_t *ns,
                              struct cs_err *err) CS_NODISCARD;
/* preparing and placing the slot */
enum cs_status cs_subject_prepare(struct cs_subject *s, int repeats, int64_t *ns,
                                  struct cs_err *err) CS_NODISCARD;
/* a step's work for the parameters: gradients to 0, sum of squares as the host gets it, update */
enum cs_status cs_subject_clear(struct cs_subject *s, int repeats, int64_t *ns,
                                struct cs_err *err) CS_NODISCARD;
enum cs_status cs_subject_norm(struct cs_subject *s, int repeats, int64_t *ns,
                               struct cs_err *err) CS_NODISCARD;
enum cs_status cs_subject_update(struct cs_subject *s, int repeats, int64_t *ns,
                                 struct cs_err *err) CS_NODISCARD;

#endif
