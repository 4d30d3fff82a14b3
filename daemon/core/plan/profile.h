/* Measured costs of layers: per (module, layer kind, tp, cp) three quadratics in the rows of a
 * slot.
 *
 *   {"schema": "cornstarch.profile/1", "key": HASH, "device": "h100-80g", "layers": [
 *     {"module": "llm", "kind": "block", "tp": 1, "cp": 1,
 *      "fwd": [a, b, c], "bwd_input": [a, b, c], "bwd_weight": [a, b, c]}, ...]}
 *
 * time = a x^2 + b x + c nanoseconds of x rows, of a layer whose parameters all train and whose
 * input needs a gradient; what is frozen leaves its part out. The key says what was measured:
 * shapes of the modules and the device, so a profile of another model is refused. */
#ifndef CS_PLAN_PROFILE_H
#define CS_PLAN_PROFILE_H

#include "core/plan/plan.h"

struct cs_quadratic {
    double a, b, c;
};

struct cs_profile_row {
    const char *module;
    enum cs_layer_kind kind;
    int32_t tp, cp;
    struct cs_quadratic fwd, bwd_input, bwd_weight;
};

struct cs_profile {
    char key[65];
    const char *device;
    struct cs_profile_row *row;
    int32_t n_rows;
};

/* whole nanoseconds, nearest, at least 0 */
int64_t cs_quadratic_ns(const struct cs_quadratic *q, int64_t rows);
/* SHA-256 over the architectures of the modules and the name of the device; nothing of freezing */
void cs_profile_key(const struct cs_graph *graph, const struct cs_device_class *device,
                    char key[65]);
/* CS_INVALID: not such a document. Strings are copied into the arena. */
enum cs_status cs_profile_read(const json_t *json, struct cs_arena *arena, struct cs_profile **out,
                               struct cs_err *err) CS_NODISCARD;
enum cs_status cs_profile_check(const struct cs_profile *profile, const struct cs_graph *graph,
                                const struct cs_device_class *device,
                                struct cs_err *err) CS_NODISCARD;
json_t *cs_profile_json(const struct cs_profile *profile);
/* false: no such row. Costs of the layer as it is frozen, of `rows` rows of a slot. */
bool cs_profile_cost(const struct cs_profile *profile, const struct cs_graph *graph,
                     const struct cs_layer *layer, int32_t tp, int32_t cp, int64_t rows,
                     struct cs_layer_cost *out);

#endif
