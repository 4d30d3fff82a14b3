/* Times the forward and the halves of the backward of one layer, alone on its device. */
#include "worker/measure/measure_layer.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/philox.h"
#include "core/base/system/clock.h"
#include "worker/layer/tensors.h"

enum { BLOCK = 1 << 20, ITEMS_OF_SLOT = 8 };

static const uint64_t lcg_mul = UINT64_C(6364136223846793005), lcg_add = 1442695040888963407u;

/* ---- time ---- */

static int64_t now_of(const struct cs_device *device)
{
    return device->mem != NULL ? cs_now_ns() : cs_thread_cpu_ns();
}

static enum cs_status begin(struct cs_subject *s, int64_t *since, struct cs_err *err)
{
    s->lent_ns = 0;
    CS_TRY(cs_device_sync(s->config.device, err));
    *since = now_of(s->config.device);
    return CS_OK;
}

static enum cs_status end(struct cs_subject *s, int64_t since, int64_t *ns, struct cs_err *err)
{
    CS_TRY(cs_device_sync(s->config.device, err));
    *ns = now_of(s->config.device) - since - s->lent_ns;
    return CS_OK;
}

/* Rows of other ranks, on a host: own ones once more. Memory as it lies may hold numbers that are too small to be
 * normal, with which a host computes many times as long. */
static void lend_rows(void *user, int32_t which, const struct cs_context_exchange *x)
{
    struct cs_subject *s = user;
    const int64_t since = now_of(s->config.device);
    const struct cs_device_move *own = NULL;
    (void)which;
    for (int i = 0; i < x->n && own == NULL; i++)
        own = x->move[i].is_send ? &x->move[i] : NULL;
    for (int i = 0; i < x->n; i++) {
        const struct cs_device_move *to = &x->move[i];
        const size_t bytes = own == NULL || own->bytes > to->bytes ? to->bytes : own->bytes;
        if (to->is_send)
            continue;
        memset(to->data, 0, to->bytes);
        if (own != NULL)
            memcpy(to->data, own->data, bytes);
    }
    s->lent_ns += now_of(s->config.device) - since;
}

static void have_lent(void *user, int32_t which)
{
    (void)user;
    (void)which;
}

/* ---- its slot ---- */

/* Blocks of an LLM attend by its mask, so items are there: as many of the budget's as it has of the
 * slot's rows, spread evenly over the document. */
static void place_items(struct cs_subject *s, int64_t rows)
{
    const struct cs_slot_budget *budget = s->config.budget;
    int64_t room = rows, n = 0, items[CS_MAX_ENCODERS] = {0};
    for (int32_t e = 0; e < budget->n_encoders; e++) {
        const int64_t share = budget->enc[e].items * rows / budget->seq_tokens;
        items[e] =
            share * budget->enc[e].item_rows <= room ? share : room / budget->enc[e].item_rows;
        room -= items[e] * budget->enc[e].item_rows;
        n += items[e];
    }
    int64_t at = 0;
    for (int32_t e = 0; e < budget->n_encoders; e++) {
        const struct cs_item_shape shape = cs_slot_largest_item(budget, e);
        for (int64_t i = 0; i < items[e]; i++) {
            int32_t first = 0;
            CS_ASSERT(cs_slot_add_item(&s->slot, budget, e, &shape, &first) != NULL);
            at += room / (n + 1); /* text before every item */
            for (int32_t r = 0; r < shape.rows; r++)
                s->slot.rows[e][first + r] = (int32_t)at++;
        }
    }
}

struct cs_item_shape cs_subject_item(const struct cs_slot_budget *budget, int32_t encoder)
{
    const int32_t eighth = budget->enc[encoder].rows / ITEMS_OF_SLOT;
    if (budget->enc[encoder].height > 0 || eighth < 1)
        return cs_slot_largest_item(budget, encoder);
    return cs_slot_smaller_item(budget, encoder, eighth);
}

/* Labels are words that this rank has: nobody else is asked. */
static int32_t words_of(const struct cs_input_tables *tables)
{
    return tables->words.end > 0 ? (int32_t)tables->words.end : tables->vocab;
}

/* A slot of documents of as many rows each, or of whole items. */
static void fill_slot(struct cs_subject *s, int64_t rows, int64_t labels, int32_t documents)
{
    const struct cs_slot_budget *budget = s->config.budget;
    const int32_t e = s->encoder;
    uint64_t state = 1;
    s->manifest = (struct cs_manifest){.n_slots = 1, .n_samples = 1, .slot = &s->counts};
    if (e >= 0) {
        const struct cs_item_shape shape = cs_subject_item(budget, e);
        const bool is_after = s->layer->kind == CS_LAYER_PROJECTOR;
        for (int64_t n = rows / (is_after ? shape.rows : cs_item_patches(&shape)); n > 0; n--)
            CS_ASSERT(cs_slot_add_item(&s->slot, budget, e, &shape, NULL) != NULL);
        for (int64_t i = 0; i < s->slot.head->n_bytes[e]; i++) {
            state = state * lcg_mul + lcg_add;
            s->slot.data[e][i] = (uint8_t)(state >> 56);
        }
        const int32_t made = s->slot.head->n_rows[e], room = cs_budget_fills(budget, e);
        for (int32_t i = 0; budget->enc[e].has_sources && i < made && i < room; i++)
            cs_slot_add_fill(&s->slot, e, i, i);
        cs_manifest_note(&s->manifest, 0, &s->slot);
        return;
    }
    int32_t n = 0;
    for (int64_t r = 0; r < rows; r++) {
        const bool is_label = n < labels && (r + 1) * labels / rows > n;
        s->slot.ids[r] = (int32_t)((r * 7919 + 13) % s->config.tables->vocab);
        const int64_t document = ((r + 1) * documents - 1) / rows;
        s->slot.doc[r] = (int32_t)document;
        s->slot.pos[r] = (int32_t)(r - document * rows / documents);
        s->slot.labels[r] =
            is_label ? (int32_t)((r * 104729 + 7) % words_of(s->config.tables)) : -1;
        n += is_label;
    }
    s->slot.head->n_samples = 1;
    s->slot.head->n_tokens = (int32_t)rows;
    s->slot.head->n_labels = n;
    s->slot.sample_rows[1] = (int32_t)rows;
    if (s->layer->kind == CS_LAYER_BLOCK)
        place_items(s, rows);
    cs_manifest_note(&s->manifest, 0, &s->slot);
}

static enum cs_status make_slot(struct cs_subject *s, int64_t rows, int64_t labels,
                                int32_t documents, struct cs_err *err)
{
    struct cs_slot_layout layout;
    cs_slot_layout_make(s->config.budget, &layout);
    free(s->slot_memory);
    s->slot_memory = calloc(1, layout.bytes);
    if (s->slot_memory == NULL)
        return cs_fail(err, CS_NO_MEMORY, "no memory for a slot");
    cs_slot_view(&layout, s->config.budget, s->slot_memory, &s->slot);
    fill_slot(s, rows, labels, documents);
    CS_TRY(cs_input_prepare(&s->input, s->config.tables, &s->manifest, 0, &s->slot, s->needs, err));
    CS_TRY(cs_input_make_room(&s->input, err));
    cs_input_place(&s->input);
    return CS_OK;
}

/* random normals, a block of them repeated: making all would take longer than measuring */
static enum cs_status new_acts(struct cs_subject *s, int64_t n, void **out, size_t *bytes,
                               struct cs_err *err)
{
    struct cs_device *d = s->config.device;
    const size_t size = d->ops->act_bytes;
    const int64_t block = n < BLOCK ? n : BLOCK;
    float *host = malloc(((size_t)block + 1) * sizeof *host);
    uint16_t *acts = malloc(((size_t)block + 1) * sizeof *acts);
    *bytes = (size_t)n * size;
    enum cs_status status = host != NULL && acts != NULL
                                ? cs_device_alloc(d, *bytes, out, err)
                                : cs_fail(err, CS_NO_MEMORY, "no memory for rows");
    if (status == CS_OK) {
        cs_philox_fill_normal(3, 4, 0, block, 1.0, host);
        for (int64_t i = 0; i < block; i++)
            acts[i] = cs_bf16_from_f32(host[i]);
        const void *from = cs_device_is_f32(d) ? (const void *)host : (const void *)acts;
        for (int64_t at = 0; at < n; at += block)
            cs_device_copy(d, (char *)*out + (size_t)at * size, from,
                           (size_t)(n - at < block ? n - at : block) * size);
        status = cs_device_sync(d, err);
    }
    free(host);
    free(acts);
    return status;
}

static void free_acts(struct cs_subject *s)
{
    struct cs_device *d = s->config.device;
    cs_device_free(d, s->x, s->x_bytes);
    cs_device_free(d, s->dx, s->x_bytes);
    cs_device_free(d, s->y, s->y_bytes);
    cs_device_free(d, s->dy, s->y_bytes);
    s->x = s->dx = s->y = s->dy = NULL;
}

enum cs_status cs_subject_rows(struct cs_subject *s, int64_t rows, int64_t labels,
                               int32_t documents, struct cs_err *err)
{
    const struct cs_layer_model *first = &s->stage->layer[0];
    const struct cs_layer_model *last = &s->stage->layer[s->config.n_layers - 1];
    free_acts(s);
    CS_TRY(make_slot(s, rows, labels, documents, err));
    const int64_t rows_in = cs_stage_rows_in(s->stage, &s->input);
    rows = cs_stage_rows(s->stage, &s->input); /* perhaps rounded up */
    if (first->in_width > 0) {
        CS_TRY(new_acts(s, rows_in * first->in_width, &s->x, &s->x_bytes, err));
        CS_TRY(new_acts(s, rows_in * first->in_width, &s->dx, &s->x_bytes, err));
    }
    if (last->out_width > 0) {
        CS_TRY(new_acts(s, rows * last->out_width, &s->y, &s->y_bytes, err));
        CS_TRY(new_acts(s, rows * last->out_width, &s->dy, &s->y_bytes, err));
    }
    return CS_OK;
}

/* ---- its parameters ---- */

/* A block of random normals, repeated: making all of them would take longer than measuring. */
static enum cs_status fill_params(struct cs_subject *s, struct cs_err *err)
{
    struct cs_params *p = s->params;
    int64_t room = 1;
    for (int32_t i = 0; i < p->n; i++)
        room = p->shard[i].param->count > room ? p->shard[i].param->count : room;
    float *block = malloc(BLOCK * sizeof *block), *values = malloc((size_t)room * sizeof *values);
    enum cs_status status = block != NULL && values != NULL
                                ? CS_OK
                                : cs_fail(err, CS_NO_MEMORY, "no memory for parameters");
    if (status == CS_OK)
        cs_philox_fill_normal(1, 2, 0, BLOCK, 0.02, block);
    for (int32_t i = 0; status == CS_OK && i < p->n; i++) {
        struct cs_shard *t = &p->shard[i];
        const int64_t n = t->param->count;
        for (int64_t k = 0; k < n; k += BLOCK)
            memcpy(values + k, block, (size_t)(n - k < BLOCK ? n - k : BLOCK) * sizeof *values);
        for (int64_t k = 0; k < n && t->param->init != CS_INIT_NORMAL; k++)
            values[k] = t->param->init == CS_INIT_ONE ? 1.0f : 0.0f;
        status = cs_params_set(p, t, values, err);
        s->n_params += n;
    }
    free(values);
    free(block);
    return status;
}

enum cs_status cs_subject_open(const struct cs_subject_config *config, struct cs_subject *out,
                               struct cs_err *err)
{
    const struct cs_graph *graph = config->graph;
    const struct cs_layer *layer = &graph->layers[config->layer];
    const int32_t branch = graph->modules[layer->module].branch;
    *out = (struct cs_subject){
        .config = *config, .layer = layer, .encoder = graph->branches[branch].encoder};
    out->needs =
        out->encoder >= 0 ? CS_INPUT_ROWS | CS_INPUT_PIXELS : CS_INPUT_TOKENS | CS_INPUT_LABELS;
    out->alone = (struct cs_stage){.name = layer->path,
                                   .branch = branch,
                                   .first_layer = config->layer,
                                   .n_layers = config->n_layers,
                                   .shape = {.tp = config->tp}};
    out->first[1] = config->tp;
    out->plan = (struct cs_plan){
        .stages = &out->alone, .n_stages = 1, .n_ranks = 1, .first = out->first, .repeats = 1};
    out->tensors = cs_tensors_alone(config->device, config->tp);
    out->scratch.device = out->saved.memory.device = config->device;
    CS_TRY(cs_params_new(graph, &out->plan, 0, config->device, &out->params, err));
    CS_TRY(fill_params(out, err));
    CS_TRY(cs_stage_new(out->params->graph, &out->plan, out->params, 0, &out->stage, err));
    for (int32_t i = 0; i < config->n_layers; i++)
        out->stage->layer[i].picks_labels = false; /* of the kind one is measured for all */
    return CS_OK;
}

void cs_subject_split(struct cs_subject *s, bool splits_rows)
{
    const bool is_lent = splits_rows && s->config.device->mem == NULL;
    s->alone.splits_rows = splits_rows;
    s->tensors.start = is_lent ? lend_rows : NULL;
    s->tensors.finish = is_lent ? have_lent : NULL;
    s->tensors.user = s;
}

void cs_subject_close(struct cs_subject *s)
{
    free_acts(s);
    cs_context_free(&s->tensors);
    cs_input_free(&s->input);
    cs_scratch_free(&s->scratch);
    cs_scratch_free(&s->saved.memory);
    cs_scratch_free(&s->saved.held);
    free(s->saved.kept);
    free(s->saved.later.wgrad);
    cs_stage_free(s->stage);
    cs_params_free(s->params);
    free(s->slot_memory);
}

/* ---- what is timed ---- */

static struct cs_run run_on(struct cs_subject *s, struct cs_ctx *ctx)
{
    *ctx = cs_device_ctx(s->config.device);
    return (struct cs_run){.device = s->config.device,
                           .ops = s->config.device->ops,
                           .ctx = ctx,
                           .scratch = &s->scratch,
                           .input = &s->input,
                           .tensors = s->config.tp > 1 ? &s->tensors : NULL};
}

enum cs_status cs_subject_fwd(struct cs_subject *s, int repeats, bool is_keeping, int64_t *ns,
                              struct cs_err *err)
{
    const struct cs_layer_ends ends = {.fill = {NULL}};
    struct cs_ctx ctx;
    struct cs_run run = run_on(s, &ctx);
    int64_t since;
    CS_TRY(begin(s, &since, err));
    for (int i = 0; i < repeats; i++) {
        cs_context_begin(run.tensors);
        if (is_keeping)
            cs_scratch_clear(&s->saved.memory);
        cs_stage_fwd(s->stage, &run, s->x, &ends, s->y, is_keeping ? &s->saved : NULL);
    }
    return end(s, since, ns, err);
}

enum cs_status cs_subject_bwd(struct cs_subject *s, int repeats, int64_t *ns, struct cs_err *err)
{
    const struct cs_layer_ends ends = {.fill = {NULL}};
    const bool passes = s->layer->needs_input_grad;
    struct cs_ctx ctx;
    struct cs_run run = run_on(s, &ctx);
    int64_t since;
    CS_TRY(begin(s, &since, err));
    for (int i = 0; i < repeats; i++) {
        cs_context_begin(run.tensors);
        cs_stage_bwd(s->stage, &run, s->dy, passes ? s->dx : NULL, &ends, &s->saved);
    }
    return end(s, since, ns, err);
}

enum cs_status cs_subject_prepare(struct cs_subject *s, int repeats, int64_t *ns,
                                  struct cs_err *err)
{
    int64_t since;
    CS_TRY(begin(s, &since, err));
    /* a copy of the same bytes may still read what is written again: nobody computes from it */
    for (int i = 0; i < repeats; i++) {
        CS_TRY(cs_input_prepare(&s->input, s->config.tables, &s->manifest, 0, &s->slot, s->needs,
                                err));
        CS_TRY(cs_input_make_room(&s->input, err));
        cs_input_place(&s->input);
    }
    return end(s, since, ns, err);
}

enum cs_status cs_subject_clear(struct cs_subject *s, int repeats, int64_t *ns, struct cs_err *err)
{
    int64_t since;
    CS_TRY(begin(s, &since, err));
    for (int i = 0; i < repeats; i++)
        cs_params_zero_grads(s->params);
    return end(s, since, ns, err);
}

static enum cs_status run_norm(struct cs_subject *s, int repeats, void *sums, double *host,
                               struct cs_sumsq_tensor *list, int64_t *ns, struct cs_err *err)
{
    struct cs_device *d = s->config.device;
    struct cs_ctx ctx = cs_device_ctx(d);
    int64_t since;
    int32_t n = 0;
    for (int32_t i = 0; i < s->params->n; i++)
        if (s->params->shard[i].grad != NULL)
            list[n++] = (struct cs_sumsq_tensor){s->params->shard[i].param->count,
                                                 s->params->shard[i].grad};
    CS_TRY(begin(s, &since, err));
    for (int i = 0; i < repeats; i++) {
        d->ops->sumsq_many(&ctx, n, list, sums);
        CS_TRY(cs_device_read(d, host, sums, (size_t)n * sizeof *host, err));
    }
    return end(s, since, ns, err);
}

enum cs_status cs_subject_norm(struct cs_subject *s, int repeats, int64_t *ns, struct cs_err *err)
{
    const size_t n = (size_t)s->params->n + 1, bytes = n * sizeof(double);
    struct cs_sumsq_tensor *list = calloc(n, sizeof *list);
    double *host = malloc(bytes);
    void *sums = NULL;
    enum cs_status status = list != NULL && host != NULL
                                ? cs_device_alloc(s->config.device, bytes, &sums, err)
                                : cs_fail(err, CS_NO_MEMORY, "no memory for a norm");
    if (status == CS_OK)
        status = run_norm(s, repeats, sums, host, list, ns, err);
    cs_device_free(s->config.device, sums, bytes);
    free(list);
    free(host);
    return status;
}

/* what is updated, with one state or the other */
struct updates {
    struct cs_adamw_tensor *f32;
    struct cs_adamw_bf16_tensor *bf16;
    int32_t n;
};

static void list_updates(const struct cs_params *p, struct updates *u)
{
    for (int32_t i = 0; i < p->n; i++) {
        const struct cs_shard *t = &p->shard[i];
        if (t->exp_avg == NULL)
            continue;
        u->f32[u->n] = (struct cs_adamw_tensor){.n = t->param->count,
                                                .grad = t->grad,
                                                .master = t->master,
                                                .exp_avg = t->exp_avg,
                                                .exp_avg_sq = t->exp_avg_sq,
                                                .w = t->w};
        u->bf16[u->n++] = (struct cs_adamw_bf16_tensor){.n = t->param->count,
                                                        .key = (uint64_t)i * lcg_mul + lcg_add,
                                                        .grad = t->grad,
                                                        .w = t->w,
                                                        .exp_avg = t->exp_avg,
                                                        .exp_avg_sq = t->exp_avg_sq};
    }
}

enum cs_status cs_subject_update(struct cs_subject *s, int repeats, int64_t *ns, struct cs_err *err)
{
    const struct cs_adamw hyper = {
        .lr = 1e-6f, .beta1 = 0.9f, .beta2 = 0.999f, .eps = 1e-8f, .grad_scale = 1e-3f, .step = 1};
    const struct cs_device *d = s->config.device;
    const size_t room = (size_t)s->params->n + 1;
    struct cs_ctx ctx = cs_device_ctx(d);
    struct updates u = {.f32 = calloc(room, sizeof *u.f32), .bf16 = calloc(room, sizeof *u.bf16)};
    int64_t since = 0;
    enum cs_status status = u.f32 != NULL && u.bf16 != NULL
                                ? begin(s, &since, err)
                                : cs_fail(err, CS_NO_MEMORY, "no memory for an update");
    if (status == CS_OK)
        list_updates(s->params, &u);
    for (int i = 0; status == CS_OK && i < repeats; i++) {
        if (cs_device_keeps_bf16(d))
            d->ops->adamw_bf16_many(&ctx, u.n, u.bf16, &hyper);
        else
            d->ops->adamw_many(&ctx, u.n, u.f32, &hyper);
    }
    if (status == CS_OK)
        status = end(s, since, ns, err);
    free(u.f32);
    free(u.bf16);
    return status;
}
