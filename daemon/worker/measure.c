/* See measure.h. */
#include "worker/measure.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/data/slot.h"
#include "core/plan/costs.h"
#include "worker/stage.h"

enum { POINTS = 4, SAMPLES = 5, MAX_REPEATS = 64, LEAST_NS = 3 * 1000 * 1000, MAX_ROWS = 64 };

/* the three parts of a layer's time */
enum part { FWD, BWD_INPUT, BWD_WEIGHT, PARTS };

struct measuring {
    struct cs_device *device;
    struct cs_arena *arena;
    struct cs_spec *spec;
    struct cs_graph *graph;
    struct cs_slot_budget budget;
    struct cs_input_tables *tables;
    struct cs_profile *profile;
};

/* One layer alone, at some number of rows. */
struct subject {
    const struct cs_layer *layer;
    struct cs_stage alone;
    struct cs_plan plan;
    struct cs_params *params;
    struct cs_stage_model *stage;
    struct cs_scratch scratch;
    struct cs_saved saved;
    void *x, *y, *dy, *dx;
    size_t x_bytes, y_bytes;
    void *slot_memory;
    struct cs_slot slot;
    struct cs_input input;
};

/* The same model with everything trained, nothing tied, and weights of its own. */
static json_t *measured_document(const json_t *document)
{
    json_t *copy = json_deep_copy(document), *module;
    json_t *model = json_object_get(copy, "model");
    size_t i;
    json_object_set_new(model, "rules", json_pack("[{s:s, s:s}]", "op", "train", "glob", "*"));
    json_array_foreach(json_object_get(model, "modules"), i, module)
    {
        json_t *config = json_object_get(module, "config");
        if (json_is_object(config) && json_object_get(config, "tie_word_embeddings") != NULL)
            json_object_set_new(config, "tie_word_embeddings", json_false());
        if (json_object_get(module, "init") != NULL)
            json_object_set_new(module, "init", json_string("random"));
    }
    return copy;
}

static int32_t encoder_of(const struct measuring *m, const struct cs_layer *layer)
{
    return m->graph->branches[m->graph->modules[layer->module].branch].encoder;
}

static int64_t most_rows(const struct measuring *m, const struct cs_layer *layer)
{
    const int32_t e = encoder_of(m, layer);
    return e < 0 ? m->budget.seq_tokens
                 : (int64_t)m->budget.enc[e].items * m->budget.enc[e].item_rows;
}

/* A slot of one document, or of whole items; a share of its rows has labels as planners assume. */
static void fill_slot(const struct measuring *m, struct subject *s, int64_t rows, int64_t labels,
                      struct cs_manifest *manifest)
{
    const int32_t e = encoder_of(m, s->layer);
    *manifest = (struct cs_manifest){.n_slots = 1, .n_samples = 1};
    if (e >= 0) {
        s->slot.head->n_items[e] = (int32_t)(rows / m->budget.enc[e].item_rows);
        manifest->n_items[0][e] = s->slot.head->n_items[e];
        return;
    }
    const int64_t every = labels > 0 ? rows / labels : 0;
    int32_t n = 0;
    for (int64_t r = 0; r < rows; r++) {
        const bool is_label = every > 0 && r % every == every - 1 && n < labels;
        s->slot.ids[r] = (int32_t)((r * 7919 + 13) % m->tables->vocab);
        s->slot.doc[r] = 0;
        s->slot.pos[r] = (int32_t)r;
        s->slot.labels[r] = is_label ? (int32_t)((r * 104729 + 7) % m->tables->vocab) : -1;
        n += is_label;
    }
    s->slot.head->n_samples = 1;
    s->slot.head->n_tokens = manifest->n_tokens[0] = (int32_t)rows;
    s->slot.head->n_labels = manifest->n_labels[0] = n;
    s->slot.sample_rows[1] = (int32_t)rows;
}

static enum cs_status make_slot(const struct measuring *m, struct subject *s, int64_t rows,
                                struct cs_err *err)
{
    struct cs_slot_layout layout;
    struct cs_manifest manifest;
    const struct cs_layer_work work = cs_layer_work(m->graph, s->layer, &m->budget);
    cs_slot_layout_make(&m->budget, &layout);
    s->slot_memory = calloc(1, layout.bytes);
    if (s->slot_memory == NULL)
        return cs_fail(err, CS_NO_MEMORY, "no memory for a slot");
    cs_slot_view(&layout, &m->budget, s->slot_memory, &s->slot);
    const int64_t labels = work.tokens > 0 ? work.label_rows * rows / work.tokens : 0;
    fill_slot(m, s, rows, labels > 0 ? labels : 1, &manifest);
    const unsigned needs = encoder_of(m, s->layer) >= 0 ? CS_INPUT_ROWS | CS_INPUT_PIXELS
                                                        : CS_INPUT_TOKENS | CS_INPUT_LABELS;
    CS_TRY(cs_input_prepare(&s->input, m->tables, &manifest, 0, &s->slot, needs, err));
    return cs_input_place(&s->input, err);
}

/* acts of unit size that are no zeros and not alike */
static enum cs_status new_acts(struct measuring *m, int64_t n, void **out, size_t *bytes,
                               struct cs_err *err)
{
    *bytes = (size_t)n * m->device->ops->act_bytes;
    CS_TRY(cs_device_alloc(m->device, *bytes, out, err));
    float *host = malloc(((size_t)n + 1) * sizeof *host);
    uint16_t *acts = malloc(((size_t)n + 1) * sizeof *acts);
    enum cs_status status =
        host != NULL && acts != NULL ? CS_OK : cs_fail(err, CS_NO_MEMORY, "no memory for rows");
    for (int64_t i = 0; status == CS_OK && i < n; i++) {
        host[i] = (float)((i * 2654435761u >> 8) % 2048) / 1024.0f - 1.0f;
        acts[i] = cs_bf16_from_f32(host[i]);
    }
    if (status == CS_OK) {
        cs_device_copy(m->device, *out,
                       cs_device_is_f32(m->device) ? (const void *)host : (const void *)acts,
                       *bytes);
        status = cs_device_sync(m->device, err);
    }
    free(host);
    free(acts);
    return status;
}

static void close_subject(struct measuring *m, struct subject *s)
{
    cs_input_free(&s->input);
    cs_scratch_free(&s->scratch);
    cs_scratch_free(&s->saved.memory);
    free(s->saved.kept);
    free(s->saved.later.wgrad);
    cs_device_free(m->device, s->x, s->x_bytes);
    cs_device_free(m->device, s->dx, s->x_bytes);
    cs_device_free(m->device, s->y, s->y_bytes);
    cs_device_free(m->device, s->dy, s->y_bytes);
    cs_stage_free(s->stage);
    cs_params_free(s->params);
    free(s->slot_memory);
}

static enum cs_status open_subject(struct measuring *m, const struct cs_layer *layer, int64_t rows,
                                   struct subject *s, struct cs_err *err)
{
    *s = (struct subject){.layer = layer};
    s->alone = (struct cs_stage){.name = layer->path,
                                 .branch = m->graph->modules[layer->module].branch,
                                 .first_layer = layer->id,
                                 .n_layers = 1};
    s->plan = (struct cs_plan){.stages = &s->alone, .n_stages = 1, .n_ranks = 1};
    s->scratch.device = s->saved.memory.device = m->device;
    s->saved.later.held = &s->saved.memory;
    CS_TRY(cs_params_new(m->graph, &s->plan, 0, m->device, &s->params, err));
    CS_TRY(cs_params_load(s->params, 1, err));
    CS_TRY(cs_stage_new(m->graph, &s->plan, s->params, 0, &s->stage, err));
    CS_TRY(make_slot(m, s, rows, err));
    const struct cs_layer_model *l = &s->stage->layer[0];
    if (l->in_width > 0) {
        CS_TRY(new_acts(m, rows * l->in_width, &s->x, &s->x_bytes, err));
        CS_TRY(new_acts(m, rows * l->in_width, &s->dx, &s->x_bytes, err));
    }
    if (l->out_width > 0) {
        CS_TRY(new_acts(m, rows * l->out_width, &s->y, &s->y_bytes, err));
        CS_TRY(new_acts(m, rows * l->out_width, &s->dy, &s->y_bytes, err));
    }
    return CS_OK;
}

/* Time of what was enqueued since the last call. */
static enum cs_status lap(struct measuring *m, int64_t *since, int64_t *ns, struct cs_err *err)
{
    CS_TRY(cs_device_sync(m->device, err));
    const int64_t now = m->device->mem != NULL ? cs_now_ns() : cs_thread_cpu_ns();
    *ns = now - *since;
    *since = now;
    return CS_OK;
}

/* repeats times forward, input half, weight half, each part timed together */
static enum cs_status run_once(struct measuring *m, struct subject *s, int repeats,
                               int64_t ns[PARTS], struct cs_err *err)
{
    const struct cs_layer_ends ends = {.fill = {NULL}};
    struct cs_ctx ctx = cs_device_ctx(m->device);
    struct cs_run run = {.device = m->device,
                         .ops = m->device->ops,
                         .ctx = &ctx,
                         .scratch = &s->scratch,
                         .input = &s->input};
    int64_t since = 0, unused;
    cs_params_zero_grads(s->params);
    CS_TRY(lap(m, &since, &unused, err));
    for (int i = 0; i < repeats; i++) {
        cs_scratch_clear(&s->saved.memory);
        cs_stage_fwd(s->stage, &run, s->x, &ends, s->y, &s->saved);
    }
    CS_TRY(lap(m, &since, &ns[FWD], err));
    const struct cs_scratch_mark kept = cs_scratch_mark(&s->saved.memory);
    s->saved.is_split = true;
    for (int i = 0; i < repeats; i++) {
        s->saved.later.n = 0; /* the next one notes the same, in the same memory */
        cs_scratch_rewind(&s->saved.memory, kept);
        cs_stage_bwd(s->stage, &run, s->dy, s->dx, &ends, &s->saved);
    }
    CS_TRY(lap(m, &since, &ns[BWD_INPUT], err));
    const int32_t n = s->saved.later.n;
    for (int i = 0; i < repeats; i++) {
        s->saved.later.n = n;
        cs_stage_bwd_weight(&run, &s->saved);
    }
    CS_TRY(lap(m, &since, &ns[BWD_WEIGHT], err));
    s->saved.is_split = false;
    return CS_OK;
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Medians of some samples, each long enough for the clock. */
static enum cs_status time_subject(struct measuring *m, struct subject *s, double out[PARTS],
                                   struct cs_err *err)
{
    double sample[PARTS][SAMPLES];
    int64_t ns[PARTS];
    int repeats = 1;
    for (int i = 0; i < 2; i++) /* memory grows, plans are made */
        CS_TRY(run_once(m, s, 1, ns, err));
    while (repeats < MAX_REPEATS && ns[FWD] * repeats < LEAST_NS)
        repeats *= 2;
    for (int i = 0; i < SAMPLES; i++) {
        CS_TRY(run_once(m, s, repeats, ns, err));
        for (int p = 0; p < PARTS; p++)
            sample[p][i] = (double)ns[p] / repeats;
    }
    for (int p = 0; p < PARTS; p++) {
        qsort(sample[p], SAMPLES, sizeof sample[p][0], by_value);
        out[p] = sample[p][SAMPLES / 2];
    }
    return CS_OK;
}

/* Least squares over up to POINTS points, a and c only where there are enough of them: the normal
 * equations of at most three unknowns, by elimination, in x relative to its largest value. */
static struct cs_quadratic fit(int n, const double *x, const double *y)
{
    double eq[3][4] = {{0.0}}, power[3];
    const int unknowns = n < 3 ? n : 3;
    const double scale = x[n - 1];
    const int order[3] = {1, 0, 2}; /* b x, then c, then a x^2 */
    for (int i = 0; i < n; i++) {
        const double t = x[i] / scale;
        power[0] = 1.0;
        power[1] = t;
        power[2] = t * t;
        for (int r = 0; r < unknowns; r++) {
            for (int c = 0; c < unknowns; c++)
                eq[r][c] += power[order[r]] * power[order[c]];
            eq[r][3] += power[order[r]] * y[i];
        }
    }
    for (int p = 0; p < unknowns; p++)
        for (int r = 0; r < unknowns; r++) {
            const double f = eq[r][p] / eq[p][p];
            if (r == p)
                continue;
            for (int c = 0; c < 4; c++)
                eq[r][c] -= f * eq[p][c];
        }
    double value[3] = {0.0};
    for (int p = 0; p < unknowns; p++)
        value[order[p]] = eq[p][3] / eq[p][p];
    return (struct cs_quadratic){value[2] / (scale * scale), value[1] / scale, value[0]};
}

static enum cs_status measure_layer(struct measuring *m, const struct cs_layer *layer,
                                    struct cs_err *err)
{
    double x[POINTS], y[PARTS][POINTS];
    const int32_t e = encoder_of(m, layer);
    const int64_t most = most_rows(m, layer), unit = e < 0 ? 1 : m->budget.enc[e].item_rows;
    int n = 0;
    for (int i = 1; i <= POINTS; i++) {
        struct subject s;
        double part[PARTS];
        const int64_t rows = most * i / POINTS / unit * unit;
        if (rows < 1 || (n > 0 && (double)rows <= x[n - 1]))
            continue;
        enum cs_status status = open_subject(m, layer, rows, &s, err);
        if (status == CS_OK)
            status = time_subject(m, &s, part, err);
        close_subject(m, &s);
        if (status != CS_OK)
            return cs_wrap(err, status, "measuring %s with %lld rows", layer->path,
                           (long long)rows);
        x[n] = (double)rows;
        if (!layer->needs_input_grad) { /* what its input half did was for its weights */
            part[BWD_WEIGHT] += part[BWD_INPUT];
            part[BWD_INPUT] = 0.0;
        }
        for (int p = 0; p < PARTS; p++)
            y[p][n] = part[p];
        n++;
    }
    if (n == 0)
        return cs_fail(err, CS_PLAN, "a slot has no rows for %s", layer->path);
    m->profile->row[m->profile->n_rows++] = (struct cs_profile_row){
        .module = cs_arena_strdup(m->arena, m->graph->modules[layer->module].name),
        .kind = layer->kind,
        .tp = 1,
        .cp = 1,
        .fwd = fit(n, x, y[FWD]),
        .bwd_input = fit(n, x, y[BWD_INPUT]),
        .bwd_weight = fit(n, x, y[BWD_WEIGHT]),
    };
    return CS_OK;
}

static bool is_first_of_kind(const struct cs_graph *graph, int32_t layer)
{
    for (int32_t l = 0; l < layer; l++)
        if (graph->layers[l].module == graph->layers[layer].module &&
            graph->layers[l].kind == graph->layers[layer].kind)
            return false;
    return true;
}

static enum cs_status measure_all(struct measuring *m, const struct cs_device_class *class,
                                  struct cs_err *err)
{
    CS_TRY(cs_plan_budget(m->spec, m->graph, &m->budget, err));
    CS_TRY(cs_input_tables_new(m->graph, m->device, &m->budget, &m->tables, err));
    m->profile = CS_NEW(m->arena, struct cs_profile);
    m->profile->device = class->name;
    m->profile->row = CS_NEW_ARRAY(m->arena, struct cs_profile_row, MAX_ROWS);
    cs_profile_key(m->graph, class, m->profile->key);
    for (int32_t l = 0; l < m->graph->n_layers; l++) {
        if (!is_first_of_kind(m->graph, l))
            continue;
        if (m->profile->n_rows == MAX_ROWS)
            return cs_fail(err, CS_LIMIT, "more than %d kinds of layers", MAX_ROWS);
        CS_TRY(measure_layer(m, &m->graph->layers[l], err));
    }
    return CS_OK;
}

enum cs_status cs_measure(const json_t *document, const struct cs_device_class *class,
                          struct cs_device *device, struct cs_arena *arena, struct cs_profile **out,
                          struct cs_err *err)
{
    struct measuring m = {.device = device, .arena = arena};
    json_t *copy = measured_document(document);
    *out = NULL;
    enum cs_status status = cs_spec_read(copy, arena, &m.spec, err);
    if (status == CS_OK)
        status = cs_graph_build(m.spec, false, arena, &m.graph, err);
    if (status == CS_OK)
        status = measure_all(&m, class, err);
    cs_input_tables_free(m.tables);
    json_decref(copy);
    if (status == CS_OK)
        *out = m.profile;
    return status;
}
