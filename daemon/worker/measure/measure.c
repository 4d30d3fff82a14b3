/* Measures what a profile holds: layers at several sizes, the update, copies, and the curves
 * through them. */
#include "worker/measure/measure.h"

#include <math.h>
#include <string.h>

#include "core/model/tensor_parallel.h"
#include "core/plan/cost/basis/bytes.h"
#include "core/plan/cost/tensor_share.h"
#include "core/plan/make/planner.h"
#include "worker/measure/fit.h"
#include "worker/measure/measure_layer.h"
#include "worker/measure/timing.h"

enum {
    POINTS = 3,
    CHAIN =
        4, /* layers in a row on a GPU: weights of one may stay in its cache, a model's do not */
    MOST_TP = 8,
    MAX_KINDS = 64,
    MAX_ROWS = MAX_KINDS * 7, /* one rank, and 2, 4 and 8 that split rows between products or not */
    MOST_WAYS = 2
};

/* the ways a layer runs: forward alone, keeping for a gradient that passes, keeping to train */
enum part {
    FWD,
    FWD_PASSING,
    BWD_PASSING,
    FWD_TRAINED,
    BWD_TRAINED,
    FWD_TRAINED_BF16, /* state in bf16 */
    BWD_TRAINED_BF16,
    PARTS
};

enum step_part { CLEAR, NORM, UPDATE, STEP_PARTS };

struct curve {
    int n, main;  /* points, the one that counts most */
    int unknowns; /* 3 where attention is over all rows, else 2: time is linear in them */
    double x[POINTS], pairs[POINTS], y[PARTS][POINTS];
};

/* a step's parts on the parameters of every subject, with one state */
struct steps {
    double x[MAX_KINDS], y[STEP_PARTS][MAX_KINDS];
    int n;
};

struct measuring {
    struct cs_device *device;
    struct cs_arena *arena;
    struct cs_spec *spec;
    struct cs_graph *trained, *passing; /* everything trains; nothing does, but gradients pass */
    struct cs_slot_budget budget;
    struct cs_input_tables *tables;
    struct cs_profile *profile;
    struct steps steps, steps_bf16;
    int32_t tp_ranks;
    const struct cs_effort *effort;
};

/* which of the two states the device keeps now */
static struct steps *steps_of(struct measuring *m)
{
    return cs_device_keeps_bf16(m->device) ? &m->steps_bf16 : &m->steps;
}

/* The same model, trained or frozen whole, nothing tied, and weights of its own. */
static json_t *measured_document(const json_t *document, bool is_trained)
{
    json_t *copy = json_deep_copy(document), *module;
    json_t *model = json_object_get(copy, "model");
    size_t i;
    json_object_set_new(
        model, "rules",
        json_pack("[{s:s, s:s}]", "op", is_trained ? "train" : "freeze", "glob", "*"));
    json_object_del(json_object_get(copy, "plan"), "profile");
    json_array_foreach(json_object_get(model, "modules"), i, module)
    {
        json_t *config = json_object_get(module, "config");
        const char *kind = json_string_value(json_object_get(module, "kind"));
        const bool is_llm = kind != NULL && strcmp(kind, "llm") == 0; /* some are tied unsaid */
        if (json_is_object(config) &&
            (is_llm || json_object_get(config, "tie_word_embeddings") != NULL))
            json_object_set_new(config, "tie_word_embeddings", json_false());
        if (json_object_get(module, "init") != NULL)
            json_object_set_new(module, "init", json_string("random"));
    }
    return copy;
}

static int32_t encoder_of(const struct measuring *m, const struct cs_layer *layer)
{
    return m->trained->branches[m->trained->modules[layer->module].branch].encoder;
}

/* ---- fits ---- */

static struct cs_quadratic fit_part(const struct curve *curve, enum part part)
{
    return cs_fit_times(curve->n, curve->main, curve->unknowns, curve->x, curve->pairs,
                        curve->y[part]);
}

/* What one way takes more than another, a gradient that is made besides: at least a sixteenth of
 * it. On a busy machine a difference of two times can come out as anything, and none is free. */
static struct cs_quadratic fit_more(const struct curve *curve, enum part more, enum part than)
{
    double y[POINTS];
    for (int i = 0; i < curve->n; i++)
        y[i] = fmax(curve->y[more][i] - curve->y[than][i], curve->y[more][i] / 16);
    return cs_fit_times(curve->n, curve->main, curve->unknowns, curve->x, curve->pairs, y);
}

static struct cs_quadratic less(struct cs_quadratic p, struct cs_quadratic q)
{
    return (struct cs_quadratic){p.a - q.a, p.b - q.b, p.c - q.c};
}

/* ---- one kind of layer ---- */

struct point {
    int64_t rows, labels;
    int32_t documents;
};

/* of a slot's rows, in eighths, in so many documents */
struct share {
    int32_t eighths, documents;
};

/* that make up the slots of a host's block: there attention over a document does not grow by its square alone, and
 * how it grows is seen best where rows are as many and documents are not */
enum { DOCUMENTS = 8 };

/* ways: of ranks that share the layer, rows between products are whole, or split */
struct kind {
    int n_ways;
    struct point point[POINTS];
};

/* Rows of the slot up to its budget; of the head, rows with a label about what planners assume. As
 * many as there are unknowns, in eighths of the most. */
static int points_of(const struct measuring *m, const struct cs_layer *layer, struct curve *curve,
                     struct point *out)
{
    static const struct share line[] =
        {
            {4, 1},
            {8, 1}
    },
                              square[] = {{2, 1}, {4, 1}, {8, 1}},
                              packed[] = {{4, 1}, {8, 1}, {8, DOCUMENTS}},
                              head[] = {{4, 1}, {8, 1}, {16, 1}};
    const struct cs_layer_work work = cs_layer_work(m->trained, layer, &m->budget);
    const bool is_head = layer->kind == CS_LAYER_HEAD, is_square = curve->unknowns == 3;
    const struct share *share = is_head                  ? head
                                : !is_square             ? line
                                : m->device->mem == NULL ? packed
                                                         : square;
    const int32_t e = encoder_of(m, layer);
    const bool is_after = layer->kind == CS_LAYER_PROJECTOR;
    const struct cs_item_shape item =
        e < 0 ? (struct cs_item_shape){.grid = {1, 1, 1}} : cs_subject_item(&m->budget, e);
    const int64_t most = work.tokens, unit = is_after ? item.rows : cs_item_patches(&item);
    const int64_t main = is_head ? work.label_rows : most;
    int n = 0;
    for (int i = 0; i < (is_head || is_square ? 3 : 2); i++) {
        const int32_t documents = share[i].documents;
        const int64_t x = main * share[i].eighths / 8 / unit * unit;
        if (x < documents || x > most || (documents == 1 && n > 0 && (double)x <= curve->x[n - 1]))
            continue;
        if (x == main && documents == 1)
            curve->main = n;
        curve->x[n] = (double)x;
        curve->pairs[n] = (double)x * (double)x / documents;
        out[n++] = (struct point){is_head ? most : x, is_head ? x : 1, documents};
    }
    curve->n = n;
    return n;
}

static enum cs_status time_points(const struct measuring *m, struct cs_subject *s,
                                  const struct point *point, bool is_trained, struct curve *curve,
                                  struct cs_err *err)
{
    const bool is_bf16 = cs_device_keeps_bf16(m->device);
    const enum part fwd = is_bf16 ? FWD_TRAINED_BF16 : FWD_TRAINED;
    const enum part bwd = is_bf16 ? BWD_TRAINED_BF16 : BWD_TRAINED;
    for (int i = 0; i < curve->n; i++) {
        CS_TRY(cs_subject_rows(s, point[i].rows, point[i].labels, point[i].documents, err));
        if (is_trained) {
            CS_TRY(cs_time_passes(m->effort, s, &curve->y[fwd][i], &curve->y[bwd][i], err));
            continue;
        }
        CS_TRY(cs_time_passes(m->effort, s, &curve->y[FWD][i], NULL, err));
        curve->y[FWD_PASSING][i] = curve->y[FWD][i];
        if (s->layer->needs_input_grad)
            CS_TRY(cs_time_passes(m->effort, s, &curve->y[FWD_PASSING][i],
                                  &curve->y[BWD_PASSING][i], err));
    }
    return CS_OK;
}

/* What a slot costs before its first action, at the layer its branch begins with. */
static enum cs_status time_prepare(const struct measuring *m, struct cs_subject *s,
                                   const struct point *point, const struct curve *curve,
                                   struct cs_profile_row *row, struct cs_err *err)
{
    double y[POINTS];
    for (int i = 0; i < curve->n; i++) {
        CS_TRY(cs_subject_rows(s, point[i].rows, point[i].labels, point[i].documents, err));
        CS_TRY(cs_time_one(m->effort, s, cs_subject_prepare, &y[i], err));
    }
    row->prepare = cs_fit_times(curve->n, curve->main, 2, curve->x, NULL, y);
    return CS_OK;
}

static enum cs_status time_step(struct measuring *m, struct cs_subject *s, struct cs_err *err)
{
    struct steps *steps = steps_of(m);
    const int n = steps->n++;
    steps->x[n] = (double)s->n_params;
    CS_TRY(cs_time_one(m->effort, s, cs_subject_clear, &steps->y[CLEAR][n], err));
    CS_TRY(cs_time_one(m->effort, s, cs_subject_norm, &steps->y[NORM][n], err));
    return cs_time_one(m->effort, s, cs_subject_update, &steps->y[UPDATE][n], err);
}

/* curve, row: (kind->n_ways) */
static enum cs_status measure_one(struct measuring *m, const struct cs_subject_config *config,
                                  const struct kind *kind, struct curve *curve,
                                  struct cs_profile_row *row, struct cs_err *err)
{
    struct cs_subject s;
    const bool is_trained = config->graph == m->trained, is_alone = config->tp == 1;
    const bool is_first = config->graph->layers[config->layer].kind == CS_LAYER_EMBED;
    enum cs_status status = cs_subject_open(config, &s, err);
    for (int w = 0; status == CS_OK && w < kind->n_ways; w++) {
        cs_subject_split(&s, row[w].sp);
        status = time_points(m, &s, kind->point, is_trained, &curve[w], err);
    }
    if (status == CS_OK && !is_trained && is_first)
        status = time_prepare(m, &s, kind->point, curve, row, err);
    if (status == CS_OK && is_trained && is_alone && s.n_params > 0)
        status = time_step(m, &s, err);
    cs_subject_close(&s);
    return status == CS_OK
               ? CS_OK
               : cs_wrap(err, status, "measuring %s", config->graph->layers[config->layer].path);
}

/* one row of the profile is for both */
static bool is_same_kind(const struct cs_layer *a, const struct cs_layer *b)
{
    return a->kind == b->kind && a->module == b->module &&
           cs_layer_variant(a) == cs_layer_variant(b);
}

/* layers of one kind from this one on */
static int32_t chain_of(const struct measuring *m, int32_t layer)
{
    const struct cs_layer *list = m->trained->layers;
    const int32_t most = m->device->mem != NULL ? CHAIN : 1;
    int32_t n = 1;
    while (n < most && layer + n < m->trained->n_layers &&
           is_same_kind(&list[layer + n], &list[layer]))
        n++;
    return n;
}

/* The layer trained, with state in fp32 and, of one rank where the device can keep it so, in bf16. */
static enum cs_status measure_trained(struct measuring *m, const struct cs_subject_config *config,
                                      const struct kind *kind, struct curve *curve,
                                      struct cs_profile_row *row, struct cs_err *err)
{
    CS_TRY(measure_one(m, config, kind, curve, row, err));
    if (cs_device_is_f32(m->device) || config->tp > 1)
        return CS_OK;
    CS_TRY(cs_device_keep(m->device, "bf16", err));
    const enum cs_status status = measure_one(m, config, kind, curve, row, err);
    CS_TRY(cs_device_keep(m->device, "fp32", status == CS_OK ? err : NULL));
    return status;
}

static void fit_row(const struct cs_layer *l, struct curve *curve, bool has_bf16,
                    struct cs_profile_row *row)
{
    row->fwd = fit_part(curve, FWD);
    row->fwd_input = less(fit_part(curve, FWD_PASSING), row->fwd);
    row->fwd_weight = less(fit_part(curve, FWD_TRAINED), fit_part(curve, FWD_PASSING));
    if (l->needs_input_grad)
        row->bwd_input = fit_part(curve, BWD_PASSING);
    else
        memset(curve->y[BWD_PASSING], 0, sizeof curve->y[BWD_PASSING]);
    row->bwd_weight = fit_more(curve, BWD_TRAINED, BWD_PASSING);
    if (has_bf16)
        row->bwd_weight_bf16 = fit_more(curve, BWD_TRAINED_BF16, BWD_PASSING);
}

/* On so many ranks that share the layer, of which this device is the first: a row, and of blocks on several one with
 * rows that are split between products. */
static enum cs_status measure_ranks(struct measuring *m, int32_t layer, int32_t tp,
                                    struct cs_err *err)
{
    const struct cs_layer *l = &m->trained->layers[layer];
    struct cs_subject_config config = {.budget = &m->budget,
                                       .tables = m->tables,
                                       .device = m->device,
                                       .layer = layer,
                                       .n_layers = chain_of(m, layer),
                                       .tp = tp};
    const bool is_square = l->kind == CS_LAYER_BLOCK && encoder_of(m, l) < 0;
    struct curve curve[MOST_WAYS];
    struct kind kind = {.n_ways = tp > 1 && l->kind == CS_LAYER_BLOCK ? MOST_WAYS : 1};
    struct cs_profile_row *row = &m->profile->row[m->profile->n_rows];
    for (int w = 0; w < kind.n_ways; w++) {
        curve[w] = (struct curve){.unknowns = is_square ? 3 : 2};
        if (points_of(m, l, &curve[w], kind.point) == 0)
            return cs_fail(err, CS_PLAN, "a slot has no rows for %s", l->path);
        row[w] = (struct cs_profile_row){
            .module = cs_arena_strdup(m->arena, m->trained->modules[l->module].name),
            .kind = l->kind,
            .attention = cs_layer_variant(l),
            .tp = tp,
            .cp = 1,
            .sp = w > 0,
        };
    }
    m->profile->n_rows += kind.n_ways;
    m->effort = tp > 1 ? &cs_effort_brief : &cs_effort_whole;
    m->tables->words = tp > 1 ? cs_tp_share(m->tables->vocab, (struct cs_tp){.ranks = tp})
                              : (struct cs_tp_share){0, 0};
    config.graph = m->passing;
    CS_TRY(measure_one(m, &config, &kind, curve, row, err));
    config.graph = m->trained;
    CS_TRY(measure_trained(m, &config, &kind, curve, row, err));
    for (int w = 0; w < kind.n_ways; w++)
        fit_row(l, &curve[w], !cs_device_is_f32(m->device) && tp == 1, &row[w]);
    return CS_OK;
}

/* On one rank, and on as many as tp_ranks and plans can share it over. */
static enum cs_status measure_layer(struct measuring *m, int32_t layer, struct cs_err *err)
{
    const struct cs_layer *l = &m->trained->layers[layer];
    const int32_t branch = m->trained->modules[l->module].branch,
                  most = m->tp_ranks < MOST_TP ? m->tp_ranks : MOST_TP;
    CS_TRY(measure_ranks(m, layer, 1, err));
    for (int32_t tp = 2; tp <= most && cs_tensor_divides(l); tp *= 2)
        if (cs_tp_check(m->trained, branch, tp, NULL) == CS_OK)
            CS_TRY(measure_ranks(m, layer, tp, err));
    return CS_OK;
}

static bool is_first_of_kind(const struct cs_graph *graph, int32_t layer)
{
    for (int32_t l = 0; l < layer; l++)
        if (is_same_kind(&graph->layers[l], &graph->layers[layer]))
            return false;
    return true;
}

/* false: nothing trains */
static bool fit_steps(const struct steps *steps, struct cs_profile_step *out)
{
    struct cs_quadratic *const part[STEP_PARTS] = {&out->clear, &out->norm, &out->update};
    int largest = 0;
    for (int i = 1; i < steps->n; i++)
        largest = steps->x[i] > steps->x[largest] ? i : largest;
    for (int p = 0; p < STEP_PARTS && steps->n > 0; p++)
        *part[p] = cs_fit_times(steps->n, largest, 2, steps->x, NULL, steps->y[p]);
    return steps->n > 0;
}

static enum cs_status measure_all(struct measuring *m, const struct cs_device_class *class,
                                  struct cs_err *err)
{
    const struct cs_graph *graph = m->trained;
    int n_kinds = 0;
    CS_TRY(cs_plan_budget(m->spec, graph, &m->budget, err));
    CS_TRY(cs_input_tables_new(graph, m->device, &m->budget, &m->tables, err));
    m->profile->device = class->name;
    m->profile->precision = cs_device_is_f32(m->device) ? "fp32" : "bf16";
    m->profile->row = CS_NEW_ARRAY(m->arena, struct cs_profile_row, MAX_ROWS);
    cs_profile_key(graph, class, m->profile->key);
    for (int32_t l = 0; l < graph->n_layers; l++) {
        if (!is_first_of_kind(graph, l))
            continue;
        if (n_kinds++ == MAX_KINDS)
            return cs_fail(err, CS_LIMIT, "more than %d kinds of layers", MAX_KINDS);
        CS_TRY(measure_layer(m, l, err));
    }
    m->profile->has_step = fit_steps(&m->steps, &m->profile->step);
    m->profile->has_step_bf16 = fit_steps(&m->steps_bf16, &m->profile->step_bf16);
    return CS_OK;
}

static enum cs_status build(const json_t *document, struct cs_arena *arena, struct cs_spec **spec,
                            struct cs_graph **graph, struct cs_err *err)
{
    CS_TRY(cs_spec_read_preview(document, arena, spec, err));
    return cs_graph_build(*spec, true, arena, graph, err);
}

enum cs_status cs_measure(const json_t *document, const struct cs_device_class *class,
                          struct cs_device *device, int32_t tp_ranks, struct cs_arena *arena,
                          struct cs_profile **out, struct cs_err *err)
{
    struct measuring m = {.device = device, .arena = arena, .tp_ranks = tp_ranks};
    struct cs_spec *frozen;
    json_t *trains = measured_document(document, true),
           *freezes = measured_document(document, false);
    *out = NULL;
    m.profile = CS_NEW(arena, struct cs_profile);
    enum cs_status status = build(trains, arena, &m.spec, &m.trained, err);
    if (status == CS_OK)
        status = build(freezes, arena, &frozen, &m.passing, err);
    /* gradients pass where they would if everything trained */
    for (int32_t l = 0; status == CS_OK && l < m.passing->n_layers; l++)
        m.passing->layers[l].needs_input_grad = m.trained->layers[l].needs_input_grad;
    if (status == CS_OK)
        status = measure_all(&m, class, err);
    cs_input_tables_free(m.tables);
    json_decref(trains);
    json_decref(freezes);
    if (status == CS_OK)
        *out = m.profile;
    return status;
}
