/* See profile.h. */
#include "core/plan/profile.h"

#include <math.h>
#include <string.h>

#include "core/base/buf.h"
#include "core/base/hash.h"

static const char *const kind_names[CS_LAYER_KINDS] = {"embed", "block", "norm", "projector",
                                                       "head"};

int64_t cs_quadratic_ns(const struct cs_quadratic *q, int64_t rows)
{
    double x = (double)rows, ns = (q->a * x + q->b) * x + q->c;
    return ns > 0 && ns < 9e18 ? (int64_t)llround(ns) : 0;
}

void cs_profile_key(const struct cs_graph *graph, const struct cs_device_class *device,
                    char key[65])
{
    struct cs_buf text = {0};
    cs_buf_addf(&text, "%s\n", device->name);
    for (int32_t m = 0; m < graph->n_modules; m++) {
        const struct cs_arch *a = &graph->modules[m].arch;
        cs_buf_addf(&text, "%s %s %d %d %d %d %d %d %d %d %d %d %d %d\n", graph->modules[m].name,
                    a->family, a->width, a->in_width, a->n_heads, a->n_kv_heads, a->head_dim,
                    a->ffn_width, a->is_gated_mlp, (int)a->norm, (int)a->act, a->vocab,
                    a->patch_size, a->image_size);
    }
    cs_sha256_hex(cs_buf_str(&text), text.len, key);
    cs_buf_free(&text);
}

static enum cs_status read_quadratic(const json_t *row, const char *key, size_t index,
                                     struct cs_quadratic *out, struct cs_err *err)
{
    const json_t *list = json_object_get(row, key);
    double *part[] = {&out->a, &out->b, &out->c};
    if (json_array_size(list) != 3)
        return cs_fail(err, CS_INVALID, "profile.layers[%zu].%s must be three numbers [a, b, c]",
                       index, key);
    for (size_t i = 0; i < 3; i++) {
        const json_t *number = json_array_get(list, i);
        *part[i] = json_number_value(number);
        if (!json_is_number(number) || !isfinite(*part[i]))
            return cs_fail(err, CS_INVALID, "profile.layers[%zu].%s[%zu] is not a number", index,
                           key, i);
    }
    return CS_OK;
}

static enum cs_status read_row(const json_t *json, size_t index, struct cs_arena *arena,
                               struct cs_profile_row *row, struct cs_err *err)
{
    const char *module = json_string_value(json_object_get(json, "module"));
    const char *kind = json_string_value(json_object_get(json, "kind"));
    json_int_t tp = json_integer_value(json_object_get(json, "tp"));
    json_int_t cp = json_integer_value(json_object_get(json, "cp"));
    int at = 0;
    while (kind && at < CS_LAYER_KINDS && strcmp(kind_names[at], kind) != 0)
        at++;
    if (!module || !kind || at == CS_LAYER_KINDS)
        return cs_fail(err, CS_INVALID,
                       "profile.layers[%zu] needs a module and a kind: embed, block, norm, "
                       "projector or head",
                       index);
    if (tp < 1 || tp > 4096 || cp < 1 || cp > 4096)
        return cs_fail(err, CS_INVALID, "profile.layers[%zu]: tp and cp are 1 to 4096", index);
    row->module = cs_arena_strdup(arena, module);
    row->kind = (enum cs_layer_kind)at;
    row->tp = (int32_t)tp;
    row->cp = (int32_t)cp;
    CS_TRY(read_quadratic(json, "fwd", index, &row->fwd, err));
    CS_TRY(read_quadratic(json, "bwd_input", index, &row->bwd_input, err));
    return read_quadratic(json, "bwd_weight", index, &row->bwd_weight, err);
}

enum cs_status cs_profile_read(const json_t *json, struct cs_arena *arena, struct cs_profile **out,
                               struct cs_err *err)
{
    const char *schema = json_string_value(json_object_get(json, "schema"));
    const char *key = json_string_value(json_object_get(json, "key"));
    const char *device = json_string_value(json_object_get(json, "device"));
    const json_t *layers = json_object_get(json, "layers");
    if (!schema || strcmp(schema, "cornstarch.profile/1") != 0)
        return cs_fail(err, CS_INVALID, "not a profile: its schema is not cornstarch.profile/1");
    if (!key || strlen(key) != 64 || !device || !json_is_array(layers))
        return cs_fail(err, CS_INVALID,
                       "a profile needs a key of 64 characters, a device and a list of layers");
    struct cs_profile *profile = CS_NEW(arena, struct cs_profile);
    memcpy(profile->key, key, sizeof(profile->key));
    profile->device = cs_arena_strdup(arena, device);
    profile->n_rows = (int32_t)json_array_size(layers);
    profile->row = CS_NEW_ARRAY(arena, struct cs_profile_row, profile->n_rows + 1);
    for (int32_t i = 0; i < profile->n_rows; i++)
        CS_TRY(
            read_row(json_array_get(layers, (size_t)i), (size_t)i, arena, &profile->row[i], err));
    *out = profile;
    return CS_OK;
}

enum cs_status cs_profile_check(const struct cs_profile *profile, const struct cs_graph *graph,
                                const struct cs_device_class *device, struct cs_err *err)
{
    char key[65];
    cs_profile_key(graph, device, key);
    if (strcmp(key, profile->key) == 0)
        return CS_OK;
    return cs_fail(err, CS_PLAN,
                   "the profile was measured on a %s for other shapes (key %.12s, this model on %s "
                   "has %.12s); measure again, or plan without a profile",
                   profile->device, profile->key, device->name, key);
}

static json_t *quadratic_json(const struct cs_quadratic *q)
{
    return json_pack("[f, f, f]", q->a, q->b, q->c);
}

json_t *cs_profile_json(const struct cs_profile *profile)
{
    json_t *layers = json_array();
    for (int32_t i = 0; i < profile->n_rows; i++) {
        const struct cs_profile_row *row = &profile->row[i];
        json_array_append_new(layers,
                              json_pack("{s:s s:s s:i s:i s:o s:o s:o}", "module", row->module,
                                        "kind", kind_names[row->kind], "tp", row->tp, "cp", row->cp,
                                        "fwd", quadratic_json(&row->fwd), "bwd_input",
                                        quadratic_json(&row->bwd_input), "bwd_weight",
                                        quadratic_json(&row->bwd_weight)));
    }
    return json_pack("{s:s s:s s:s s:o}", "schema", "cornstarch.profile/1", "key", profile->key,
                     "device", profile->device, "layers", layers);
}

bool cs_profile_cost(const struct cs_profile *profile, const struct cs_graph *graph,
                     const struct cs_layer *layer, int32_t tp, int32_t cp, int64_t rows,
                     struct cs_layer_cost *out)
{
    for (int32_t i = 0; profile && i < profile->n_rows; i++) {
        const struct cs_profile_row *row = &profile->row[i];
        if (row->kind != layer->kind || row->tp != tp || row->cp != cp ||
            strcmp(row->module, graph->modules[layer->module].name) != 0)
            continue;
        bool is_trained = layer->needs_weight_grad;
        *out = (struct cs_layer_cost){
            .fwd_ns = cs_quadratic_ns(&row->fwd, rows),
            .bwd_input_ns = layer->needs_input_grad ? cs_quadratic_ns(&row->bwd_input, rows) : 0,
            .bwd_weight_ns = is_trained ? cs_quadratic_ns(&row->bwd_weight, rows) : 0};
        return true;
    }
    return false;
}
