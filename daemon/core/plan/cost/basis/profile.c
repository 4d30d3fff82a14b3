/* Reads, checks and writes profiles, and looks up what they measured of a layer. */
#include "core/plan/cost/basis/profile.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "core/base/buf.h"
#include "core/base/hash.h"
#include "core/plan/cost/basis/bytes.h"
#include "core/plan/cost/basis/profile_keys.h"

static const char *const kind_names[CS_LAYER_KINDS] = {"embed", "block",     "tap",
                                                       "norm",  "projector", "head"};

/* Of a layer for a slot, half an hour: sums over layers and slots stay far below what an int64_t
 * holds. No coefficient is larger either. */
#define MOST_NS 2e12

int64_t cs_quadratic_ns(const struct cs_quadratic *q, int64_t rows)
{
    double x = (double)rows, ns = (q->a * x + q->b) * x + q->c;
    return ns > 0 ? llround(fmin(ns, MOST_NS)) : 0;
}

/* What kinds of attention do otherwise than the first does, and masks beside causal and full. */
static void add_attention(struct cs_buf *text, int32_t kind, const struct cs_attention *a)
{
    if (kind > 0)
        cs_buf_addf(text, "attention %d %d %d %d\n", kind, a->n_heads, a->n_kv_heads, a->head_dim);
    if (a->rule.kind != CS_MASK_FULL && a->rule.kind != CS_MASK_CAUSAL)
        cs_buf_addf(text, "mask %d %d %d\n", (int)a->rule.kind, a->rule.window, a->rule.prefix);
}

/* what blocks have in the place of attention and of an MLP */
static void add_halves(struct cs_buf *text, const struct cs_arch *a)
{
    const struct cs_recurrent *r = &a->recurrent;
    if (r->n_heads > 0)
        cs_buf_addf(text, "delta %d %d %d %d %d\n", r->n_heads, r->n_key_heads, r->key_dim,
                    r->value_dim, r->taps);
    if (a->experts.n > 0)
        cs_buf_addf(text, "experts %d %d %d\n", a->experts.n, a->experts.top_k, a->experts.width);
    if (a->has_output_gate)
        cs_buf_adds(text, "gate\n");
}

void cs_profile_key(const struct cs_graph *graph, const struct cs_device_class *device,
                    char key[65])
{
    struct cs_buf text = {0};
    cs_buf_addf(&text, "%s\n", device->name);
    for (int32_t m = 0; m < graph->n_modules; m++) {
        const struct cs_arch *a = &graph->modules[m].arch;
        const struct cs_attention *first = &a->attention[0];
        cs_buf_addf(&text, "%s %s %d %d %d %d %d %d %d %d %d %d %d %d\n", graph->modules[m].name,
                    a->family, a->width, a->in_width, first->n_heads, first->n_kv_heads,
                    first->head_dim, a->ffn_width, a->is_gated_mlp, (int)a->norm, (int)a->act,
                    a->vocab, a->patch_size, a->image_size);
        for (int32_t k = 0; k < a->n_attentions; k++)
            add_attention(&text, k, &a->attention[k]);
        add_halves(&text, a);
    }
    cs_sha256_hex(cs_buf_str(&text), text.len, key);
    cs_buf_free(&text);
}

/* is_more: what one way takes more than another, which may be less */
static enum cs_status read_quadratic(const json_t *row, const char *key, const char *where,
                                     bool is_more, struct cs_quadratic *out, struct cs_err *err)
{
    const json_t *list = json_object_get(row, key);
    double *part[] = {&out->a, &out->b, &out->c};
    if (json_array_size(list) != 3)
        return cs_fail(err, CS_INVALID, "profile.%s.%s must be three numbers [a, b, c]", where,
                       key);
    for (size_t i = 0; i < 3; i++) {
        const json_t *number = json_array_get(list, i);
        *part[i] = json_number_value(number);
        if (!json_is_number(number))
            return cs_fail(err, CS_INVALID, "profile.%s.%s[%zu] is not a number", where, key, i);
        if (!(*part[i] >= (is_more ? -MOST_NS : 0) && *part[i] <= MOST_NS))
            return cs_fail(err, CS_INVALID,
                           "profile.%s.%s[%zu] is %g: times are nanoseconds from 0 to %g", where,
                           key, i, *part[i], MOST_NS);
    }
    return CS_OK;
}

/* The named parts of an object; those that are optional may be absent. */
struct part {
    const char *key;
    size_t offset;
    bool is_optional, is_more;
};

#define ROW(key, is_optional, is_more)                                                             \
    {                                                                                              \
#key, offsetof(struct cs_profile_row, key), is_optional, is_more                           \
    }
#define STEP(key)                                                                                  \
    {                                                                                              \
#key, offsetof(struct cs_profile_step, key), false, false                                  \
    }

static const struct part row_parts[] = {
    ROW(fwd, false, false),       ROW(fwd_input, true, true),    ROW(fwd_weight, true, true),
    ROW(bwd_input, false, false), ROW(bwd_weight, false, false), ROW(bwd_weight_bf16, true, false),
    ROW(prepare, true, true),
};
static const struct part step_parts[] = {
    STEP(clear),
    STEP(norm),
    STEP(update),
};

static enum cs_status read_parts(const json_t *json, const char *where, const struct part *part,
                                 size_t n, void *record, struct cs_err *err)
{
    for (size_t i = 0; i < n; i++)
        if (json_object_get(json, part[i].key) != NULL || !part[i].is_optional)
            CS_TRY(read_quadratic(json, part[i].key, where, part[i].is_more,
                                  (struct cs_quadratic *)(void *)((char *)record + part[i].offset),
                                  err));
    return CS_OK;
}

static enum cs_status read_step(const json_t *json, const char *key, bool *has_step,
                                struct cs_profile_step *out, struct cs_err *err)
{
    const json_t *step = json_object_get(json, key);
    *has_step = step != NULL;
    return *has_step ? read_parts(step, key, step_parts, CS_ARRAY_LEN(step_parts), out, err)
                     : CS_OK;
}

/* What comes on top of the forward must not take more away than there is. */
static enum cs_status check_forward(const struct cs_profile_row *row, const char *where,
                                    struct cs_err *err)
{
    const double sums[][3] = {
        {row->fwd.a, row->fwd_input.a, row->fwd_weight.a},
        {row->fwd.b, row->fwd_input.b, row->fwd_weight.b},
        {row->fwd.c, row->fwd_input.c, row->fwd_weight.c},
    };

    for (size_t i = 0; i < CS_ARRAY_LEN(sums); i++) {
        double least = -1e-6 * (1 + sums[i][0]), passing = sums[i][0] + sums[i][1];
        if (passing < least || passing + sums[i][2] < least)
            return cs_fail(err, CS_INVALID,
                           "profile.%s: fwd[%zu] with fwd_input and fwd_weight is below 0", where,
                           i);
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
    row->attention = (int32_t)json_integer_value(json_object_get(json, "attention"));
    row->tp = (int32_t)tp;
    row->cp = (int32_t)cp;
    row->sp = json_is_true(json_object_get(json, "sp"));
    if (row->sp && row->tp == 1)
        return cs_fail(err, CS_INVALID,
                       "profile.layers[%zu]: sp is true, rows are split over tp ranks and tp is 1",
                       index);
    char where[48];
    snprintf(where, sizeof where, "layers[%zu]", index);
    CS_TRY(read_parts(json, where, row_parts, CS_ARRAY_LEN(row_parts), row, err));
    return check_forward(row, where, err);
}

/* of bytes that grow, each with its time */
static enum cs_status read_points(const json_t *list, int32_t index, struct cs_profile_link *link,
                                  struct cs_err *err)
{
    static const int64_t most_ns = INT64_C(3600000000000);
    const size_t n = json_array_size(list);
    bool is_good = n <= CS_LINK_POINTS;
    int64_t before = 0;
    for (size_t k = 0; is_good && k < n; k++) {
        const json_t *pair = json_array_get(list, k), *bytes = json_array_get(pair, 0),
                     *ns = json_array_get(pair, 1);
        link->point[k] = (struct cs_link_point){json_integer_value(bytes), json_integer_value(ns)};
        is_good = json_array_size(pair) == 2 && json_is_integer(bytes) && json_is_integer(ns) &&
                  link->point[k].bytes > before && link->point[k].ns >= 0 &&
                  link->point[k].ns <= most_ns;
        before = link->point[k].bytes;
    }
    link->n_points = (int32_t)n;
    return is_good ? CS_OK
                   : cs_fail(err, CS_INVALID,
                             "profile.links[%d].points: at most %d pairs of bytes, which grow, and "
                             "nanoseconds, whole numbers",
                             index, CS_LINK_POINTS);
}

static enum cs_status read_links(const json_t *list, struct cs_arena *arena,
                                 struct cs_profile *profile, struct cs_err *err)
{
    profile->n_links = (int32_t)json_array_size(list);
    profile->link = CS_NEW_ARRAY(arena, struct cs_profile_link, profile->n_links + 1);
    for (int32_t i = 0; i < profile->n_links; i++) {
        const json_t *row = json_array_get(list, (size_t)i);
        const char *op = json_string_value(json_object_get(row, "op"));
        struct cs_profile_link *link = &profile->link[i];
        *link = (struct cs_profile_link){
            .op = cs_arena_strdup(arena, op != NULL ? op : ""),
            .ranks = (int32_t)json_integer_value(json_object_get(row, "ranks")),
            .latency_ns = json_integer_value(json_object_get(row, "latency_ns")),
            .bytes_per_s = json_integer_value(json_object_get(row, "bytes_per_s")),
            .beside_bytes_per_s = json_integer_value(json_object_get(row, "beside_bytes_per_s")),
            .slows = json_number_value(json_object_get(row, "slows")),
            .by_copy_engines = json_is_true(json_object_get(row, "copy_engines"))};
        if (link->op[0] == '\0' || link->ranks < 2 || link->bytes_per_s < 1)
            return cs_fail(err, CS_INVALID,
                           "profile.links[%d] needs op, ranks (2 and more) and bytes_per_s", i);
        if ((json_object_get(row, "beside_bytes_per_s") == NULL) !=
            (json_object_get(row, "slows") == NULL))
            return cs_fail(err, CS_INVALID,
                           "profile.links[%d] has one of beside_bytes_per_s and slows: what was "
                           "measured beside computing is both",
                           i);
        CS_TRY(read_points(json_object_get(row, "points"), i, link, err));
    }
    return CS_OK;
}

enum cs_status cs_profile_read(const json_t *json, struct cs_arena *arena, struct cs_profile **out,
                               struct cs_err *err)
{
    const char *schema = json_string_value(json_object_get(json, "schema"));
    const char *key = json_string_value(json_object_get(json, "key"));
    const char *device = json_string_value(json_object_get(json, "device"));
    const char *precision = json_string_value(json_object_get(json, "precision"));
    const json_t *layers = json_object_get(json, "layers");
    if (!schema || strcmp(schema, "cornstarch.profile/1") != 0)
        return cs_fail(err, CS_INVALID, "not a profile: its schema is not cornstarch.profile/1");
    if (!key || strlen(key) != 64 || !device || !json_is_array(layers))
        return cs_fail(err, CS_INVALID,
                       "a profile needs a key of 64 characters, a device and a list of layers");
    CS_TRY(cs_doc_review(
        &(struct cs_doc){.name = "profile", .where = "", .json = json, .table = &cs_profile_keys},
        NULL, err));
    struct cs_profile *profile = CS_NEW(arena, struct cs_profile);
    memcpy(profile->key, key, sizeof(profile->key));
    profile->device = cs_arena_strdup(arena, device);
    profile->precision = cs_arena_strdup(arena, precision ? precision : "");
    CS_TRY(read_step(json, "step", &profile->has_step, &profile->step, err));
    CS_TRY(read_step(json, "step_bf16", &profile->has_step_bf16, &profile->step_bf16, err));
    CS_TRY(read_links(json_object_get(json, "links"), arena, profile, err));
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
    if (strcmp(device->name, profile->device) != 0)
        return cs_fail(
            err, CS_PLAN,
            "the profile was measured on a %s, the plan is for a %s; measure again there "
            "with 'cornstarch-console profile SCRIPT --output FILE', or plan without a "
            "profile",
            profile->device, device->name);
    return cs_fail(
        err, CS_PLAN,
        "the profile was measured for modules of other shapes (key %.12s, this model on "
        "a %s has %.12s) or for another mask; measure again with 'cornstarch-console profile "
        "SCRIPT --output FILE', or plan without a profile",
        profile->key, device->name, key);
}

static json_t *quadratic_json(const struct cs_quadratic *q)
{
    return json_pack("[f, f, f]", q->a, q->b, q->c);
}

static bool is_zero(const struct cs_quadratic *q)
{
    return q->a == 0.0 && q->b == 0.0 && q->c == 0.0;
}

static void write_parts(json_t *json, const struct part *part, size_t n, const void *record)
{
    for (size_t i = 0; i < n; i++) {
        const struct cs_quadratic *q =
            (const struct cs_quadratic *)(const void *)((const char *)record + part[i].offset);
        if (!is_zero(q) || !part[i].is_optional)
            json_object_set_new(json, part[i].key, quadratic_json(q));
    }
}

static void write_step(json_t *json, const char *key, const struct cs_profile_step *step)
{
    json_t *parts = json_object();
    write_parts(parts, step_parts, CS_ARRAY_LEN(step_parts), step);
    json_object_set_new(json, key, parts);
}

static json_t *links_json(const struct cs_profile *profile)
{
    json_t *links = json_array();
    for (int32_t i = 0; i < profile->n_links; i++) {
        const struct cs_profile_link *l = &profile->link[i];
        json_t *json =
            json_pack("{s:s s:i s:I s:I}", "op", l->op, "ranks", l->ranks, "latency_ns",
                      (json_int_t)l->latency_ns, "bytes_per_s", (json_int_t)l->bytes_per_s);
        json_t *points = l->n_points > 0 ? json_array() : NULL;
        for (int32_t k = 0; k < l->n_points; k++)
            json_array_append_new(points, json_pack("[I, I]", (json_int_t)l->point[k].bytes,
                                                    (json_int_t)l->point[k].ns));
        if (points != NULL)
            json_object_set_new(json, "points", points);
        if (l->beside_bytes_per_s > 0) {
            json_object_set_new(json, "beside_bytes_per_s",
                                json_integer((json_int_t)l->beside_bytes_per_s));
            json_object_set_new(json, "slows", json_real(l->slows));
        }
        if (l->by_copy_engines)
            json_object_set_new(json, "copy_engines", json_true());
        json_array_append_new(links, json);
    }
    return links;
}

json_t *cs_profile_json(const struct cs_profile *profile)
{
    json_t *layers = json_array();
    for (int32_t i = 0; i < profile->n_rows; i++) {
        const struct cs_profile_row *row = &profile->row[i];
        json_t *json = json_pack("{s:s s:s s:i s:i}", "module", row->module, "kind",
                                 kind_names[row->kind], "tp", row->tp, "cp", row->cp);
        if (row->attention > 0)
            json_object_set_new(json, "attention", json_integer(row->attention));
        if (row->sp)
            json_object_set_new(json, "sp", json_true());
        write_parts(json, row_parts, CS_ARRAY_LEN(row_parts), row);
        json_array_append_new(layers, json);
    }
    json_t *json = json_pack("{s:s s:s s:s s:o}", "schema", "cornstarch.profile/1", "key",
                             profile->key, "device", profile->device, "layers", layers);
    if (profile->precision && profile->precision[0])
        json_object_set_new(json, "precision", json_string(profile->precision));
    if (profile->has_step)
        write_step(json, "step", &profile->step);
    if (profile->has_step_bf16)
        write_step(json, "step_bf16", &profile->step_bf16);
    if (profile->n_links > 0)
        json_object_set_new(json, "links", links_json(profile));
    return json;
}

static struct cs_quadratic times(const struct cs_quadratic *q, double factor)
{
    return (struct cs_quadratic){q->a * factor, q->b * factor, q->c * factor};
}

/* An update reads and writes 30 bytes for a parameter with a bf16 weight, an fp32 master, gradient
 * and moments, 14 where all is bf16; gradients have half as many. */
static struct cs_profile_step scaled_to_bf16(const struct cs_profile_step *step)
{
    return (struct cs_profile_step){.clear = times(&step->clear, 0.5),
                                    .norm = times(&step->norm, 0.5),
                                    .update = times(&step->update, 14.0 / 30.0)};
}

enum cs_step_source cs_profile_step(const struct cs_profile *profile, bool keeps_bf16,
                                    struct cs_profile_step *out)
{
    *out = (struct cs_profile_step){
        .clear = {0, 0, 0}
    };
    if (profile == NULL ||
        !(keeps_bf16 ? profile->has_step_bf16 || profile->has_step : profile->has_step))
        return CS_STEP_BYTES;
    if (keeps_bf16 && !profile->has_step_bf16) {
        *out = scaled_to_bf16(&profile->step);
        return CS_STEP_SCALED;
    }
    *out = keeps_bf16 ? profile->step_bf16 : profile->step;
    return CS_STEP_MEASURED;
}

int64_t cs_profile_rows(const struct cs_layer *layer, int64_t tokens, int64_t label_rows)
{
    return layer->kind == CS_LAYER_HEAD ? label_rows : tokens;
}

const struct cs_profile_row *cs_profile_find(const struct cs_profile *profile,
                                             const struct cs_graph *graph,
                                             const struct cs_layer *layer,
                                             struct cs_profile_ranks on)
{
    for (int32_t i = 0; profile && i < profile->n_rows; i++) {
        const struct cs_profile_row *row = &profile->row[i];
        if (row->kind == layer->kind && row->attention == cs_layer_variant(layer) &&
            row->tp == on.tp && row->cp == on.cp && row->sp == on.sp &&
            strcmp(row->module, graph->modules[layer->module].name) == 0)
            return row;
    }
    return NULL;
}

bool cs_profile_has_bf16(const struct cs_profile_row *row)
{
    return !is_zero(&row->bwd_weight_bf16);
}

struct cs_layer_cost cs_profile_row_cost(const struct cs_profile_row *row,
                                         const struct cs_layer *layer, bool is_bf16, int64_t rows)
{
    const bool is_trained = layer->needs_weight_grad, passes = layer->needs_input_grad;
    const struct cs_quadratic *weight = is_bf16 ? &row->bwd_weight_bf16 : &row->bwd_weight;
    struct cs_layer_cost cost = {.fwd_ns = cs_quadratic_ns(&row->fwd, rows),
                                 .bwd_input_ns =
                                     passes ? cs_quadratic_ns(&row->bwd_input, rows) : 0,
                                 .bwd_weight_ns = is_trained ? cs_quadratic_ns(weight, rows) : 0};
    if (passes || is_trained)
        cost.fwd_ns += cs_quadratic_ns(&row->fwd_input, rows);
    if (is_trained)
        cost.fwd_ns += cs_quadratic_ns(&row->fwd_weight, rows);
    return cost;
}

struct cs_layer_cost cs_profile_row_fixed(const struct cs_profile_row *row,
                                          const struct cs_layer *layer, bool is_bf16)
{
    const double weight = is_bf16 ? row->bwd_weight_bf16.c : row->bwd_weight.c;
    return (struct cs_layer_cost){
        .fwd_ns = (int64_t)fmax(0, row->fwd.c),
        .bwd_input_ns = layer->needs_input_grad ? (int64_t)fmax(0, row->bwd_input.c) : 0,
        .bwd_weight_ns = layer->needs_weight_grad ? (int64_t)fmax(0, weight) : 0};
}

bool cs_profile_cost(const struct cs_profile *profile, const struct cs_graph *graph,
                     const struct cs_layer *layer, struct cs_profile_ranks on, int64_t rows,
                     struct cs_layer_cost *out)
{
    const struct cs_profile_row *row = cs_profile_find(profile, graph, layer, on);
    if (row == NULL)
        return false;
    *out = cs_profile_row_cost(row, layer, graph->keeps_bf16 && cs_profile_has_bf16(row), rows);
    return true;
}

enum cs_status cs_spec_profile(const struct cs_spec *spec, struct cs_arena *arena,
                               struct cs_profile **out, struct cs_err *err)
{
    *out = NULL;
    if (spec->profile == NULL || json_is_null(spec->profile))
        return CS_OK;
    const enum cs_status status = cs_profile_read(spec->profile, arena, out, err);
    return status == CS_OK ? CS_OK : cs_wrap(err, status, "plan.profile");
}
