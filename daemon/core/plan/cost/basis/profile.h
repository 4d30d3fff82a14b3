/* Measured costs: per (module, layer kind, kind of attention, tp, cp) quadratics in the rows of a slot, and what a
 * step needs beside its layers.
 *
 *   {"schema": "cornstarch.profile/1", "key": HASH, "device": "h100-80g", "precision": "bf16",
 *    "layers": [
 *     {"module": "llm", "kind": "block", "tp": 1, "cp": 1,
 *      "fwd": [a, b, c], "fwd_input": [a, b, c], "fwd_weight": [a, b, c],
 *      "bwd_input": [a, b, c], "bwd_weight": [a, b, c], "bwd_weight_bf16": [a, b, c],
 *      "prepare": [a, b, c]}, ...],
 *    "step": {"clear": [a, b, c], "norm": [a, b, c], "update": [a, b, c]},
 *    "step_bf16": {"clear": [a, b, c], "norm": [a, b, c], "update": [a, b, c]},
 *    "links": [{"op": "all-reduce", "ranks": 2, "latency_ns": 30000, "bytes_per_s": 1000000000,
 *               "points": [[65536, 95000], [1048576, 1300000]], "beside_bytes_per_s": 800000000, "slows": 0.15}, ...]}
 *
 * A row of a block whose attention is not of the model's first kind has "attention": its kind.
 *
 * tp above 1: what the first of so many ranks that share the layer's matrices (core/model/tensor_parallel.h) computes; "sp": true where they split rows
 * between products too. The others were not there: sums over tensors and rows on their way are in no row, plans add
 * them. What goes between the ranks of a context is in a row with cp above 1. Rows with tp may be absent (older files,
 * more ranks than there were devices): planners then take the tp-th part of what one rank takes.
 *
 * time = a x^2 + b x + c nanoseconds. x of a layer: the rows of the slot that pass it, of a head
 * those with a label. fwd: of a layer that is frozen with nothing trainable before it; fwd_input
 * comes on top where a gradient passes it (what is kept; of a head the gradient itself, which its
 * loss makes), fwd_weight where it trains too. bwd_input is the backward of a frozen layer that
 * passes a gradient on, bwd_weight what training adds. prepare, of the layer that a branch begins
 * with: what is done for every slot before its first action (checks, tables, copies).
 *
 * x of a step's parts: parameters that train on the rank. clear: gradients to 0; norm: their sum of
 * squares; update: the optimizer.
 *
 * bwd_weight_bf16 and step_bf16 are the same with optimizer.state "bf16": gradients and moments in
 * bf16, no masters. bwd_weight and step are with fp32.
 *
 * links: exchanges of a group of ranks take latency_ns + bytes / bytes_per_s, of the bytes of a message, or of the
 * whole vector; between the sizes of points, [bytes, nanoseconds], what lies between these (at most four, smaller ones
 * first; absent: the line). While the device computes their bytes go at beside_bytes_per_s, and computing loses the part slows of its
 * speed (core/plan/cost/links/beside.h). Both of them may be absent: nothing was measured beside computing, as of CPU ranks,
 * whose exchanges do not run beside it, and in older files. "copy_engines" true: of a "shift" or "send" between GPUs, which
 * copy engines moved, else NCCL. From the first "all-reduce" of the largest group follows what rings take (core/plan/cost/links/links.h).
 *
 * fwd_input, fwd_weight, prepare, step, links and precision may be absent: nothing was measured, and
 * planners take 0, or for the step its bytes. So may what was measured with state in bf16 (older
 * files, devices that compute in fp32): its times are then those with fp32, of a step in proportion
 * to the bytes that move. The key says what was measured: shapes of the
 * modules, the LLM's mask and the device, so a profile of another model is refused. */
#ifndef CS_PLAN_COST_PROFILE_H
#define CS_PLAN_COST_PROFILE_H

#include "core/model/spec.h"
#include "core/plan/plan.h"

/* Times of one layer for a slot. */
struct cs_layer_cost {
    int64_t fwd_ns, bwd_input_ns, bwd_weight_ns;
};

struct cs_quadratic {
    double a, b, c;
};

struct cs_profile_row {
    const char *module;
    enum cs_layer_kind kind;
    int32_t attention; /* of a block, in the module's arch.attention; else 0 */
    int32_t tp, cp;
    bool sp; /* rows are split between products, over tp ranks */
    struct cs_quadratic fwd, fwd_input, fwd_weight, bwd_input, bwd_weight, prepare;
    struct cs_quadratic bwd_weight_bf16; /* state in bf16; all 0: not measured */
};

/* On how many ranks a layer was measured. */
struct cs_profile_ranks {
    int32_t tp, cp;
    bool sp;
};

/* what a step takes beside its layers; x: parameters that train on the rank */
struct cs_profile_step {
    struct cs_quadratic clear, norm, update;
};

#define CS_SLOWS_MOST 0.95

/* "send", "all-gather", "reduce-scatter", "all-reduce", "all-to-all" or "shift" among so many ranks */
struct cs_profile_link {
    const char *op;
    int32_t ranks;
    int64_t latency_ns, bytes_per_s;
    struct cs_link_point point[CS_LINK_POINTS]; /* (n_points) by bytes, ascending */
    int32_t n_points;
    int64_t beside_bytes_per_s; /* while the device computes; 0: not measured */
    double slows; /* of its speed, what computing loses meanwhile: 0 to CS_SLOWS_MOST */
    bool by_copy_engines;
};

/* where times of a step come from, for a job's optimizer.state */
enum cs_step_source {
    CS_STEP_BYTES,    /* nothing was measured: what moves, at the bandwidth of the memory */
    CS_STEP_MEASURED, /* with that state */
    CS_STEP_SCALED    /* with fp32 state, in proportion to the bytes that move */
};

struct cs_profile {
    char key[65];
    const char *device;
    const char *precision; /* "bf16", "fp32"; "": not known */
    struct cs_profile_row *row;
    int32_t n_rows;
    bool has_step, has_step_bf16; /* that was measured */
    struct cs_profile_step step, step_bf16;
    struct cs_profile_link *link; /* (n_links) */
    int32_t n_links;
};

/* whole nanoseconds, nearest, from 0 to half an hour */
int64_t cs_quadratic_ns(const struct cs_quadratic *q, int64_t rows);
/* SHA-256 over the architectures of the modules, the LLM's mask and the name of the device; nothing
 * of freezing */
void cs_profile_key(const struct cs_graph *graph, const struct cs_device_class *device,
                    char key[65]);
/* CS_INVALID: not such a document, or times that are none: negative, endless. Strings are copied into the arena. */
enum cs_status cs_profile_read(const json_t *json, struct cs_arena *arena, struct cs_profile **out,
                               struct cs_err *err) CS_NODISCARD;
/* CS_PLAN: measured on another device or for other shapes; says what to do. */
enum cs_status cs_profile_check(const struct cs_profile *profile, const struct cs_graph *graph,
                                const struct cs_device_class *device,
                                struct cs_err *err) CS_NODISCARD;
/* The row of a layer; NULL: none. */
const struct cs_profile_row *cs_profile_find(const struct cs_profile *profile,
                                             const struct cs_graph *graph,
                                             const struct cs_layer *layer,
                                             struct cs_profile_ranks on);
json_t *cs_profile_json(const struct cs_profile *profile);
/* What a step of a job takes that keeps its state in bf16, or in fp32; profile may be NULL. All 0
 * where the answer is CS_STEP_BYTES. */
enum cs_step_source cs_profile_step(const struct cs_profile *profile, bool keeps_bf16,
                                    struct cs_profile_step *out);
/* The x of a layer's quadratics. */
int64_t cs_profile_rows(const struct cs_layer *layer, int64_t tokens, int64_t label_rows);
/* false: no such row. Costs of the layer as it is frozen and the graph keeps its state, of `rows`
 * (cs_profile_rows) of a slot. */
bool cs_profile_cost(const struct cs_profile *profile, const struct cs_graph *graph,
                     const struct cs_layer *layer, struct cs_profile_ranks on, int64_t rows,
                     struct cs_layer_cost *out);
/* The same of a row; is_bf16: with state in bf16, which the row has. */
bool cs_profile_has_bf16(const struct cs_profile_row *row);
struct cs_layer_cost cs_profile_row_cost(const struct cs_profile_row *row,
                                         const struct cs_layer *layer, bool is_bf16, int64_t rows);
/* what of each of its passes the shortest slot takes as well */
struct cs_layer_cost cs_profile_row_fixed(const struct cs_profile_row *row,
                                          const struct cs_layer *layer, bool is_bf16);

/* What a spec brings of measured costs, NULL: nothing. CS_INVALID: plan.profile is no profile. */
enum cs_status cs_spec_profile(const struct cs_spec *spec, struct cs_arena *arena,
                               struct cs_profile **out, struct cs_err *err) CS_NODISCARD;

#endif
