/* Plans and simulates one variant, and sorts out what its screens show: bubbles, memory, path. */
#include "console/whatif/preview.h"

#include <stdio.h>
#include <string.h>

#include "core/base/str.h"
#include "core/plan/cost/basis/bytes.h"
#include "core/sched/sim/predict.h"
#include "core/sched/span_keys.h"

static const char *const held_names[CS_PREVIEW_HELD] = {"weights",     "gradients", "optimizer",
                                                        "activations", "workspace", "boundary"};

const char *cs_preview_held_name(enum cs_preview_held held)
{
    return held_names[held];
}

void cs_preview_clear(struct cs_preview *preview)
{
    cs_arena_free(preview->arena);
    *preview = (struct cs_preview){0};
}

/* --- memory ----------------------------------------------------------------------------------- */

/* The state is gradients and what the optimizer keeps, in a fixed proportion. */
static void add_state(int64_t state, const struct cs_state_bytes *of, struct cs_preview_memory *m)
{
    const int64_t grads = state / of->all * of->grad;
    m->bytes[CS_PREVIEW_GRADS] += grads;
    m->bytes[CS_PREVIEW_OPTIMIZER] += state - grads;
}

static void count_memory(struct cs_preview *p, const struct cs_state_bytes *state)
{
    p->memory = CS_NEW_ARRAY(p->arena, struct cs_preview_memory, p->forecast.n_ranks + 1);
    for (int32_t r = 0; r < p->forecast.n_ranks; r++) {
        const struct cs_rank_needs *needs = &p->forecast.rank[r].needs;
        struct cs_preview_memory *m = &p->memory[r];
        m->bytes[CS_PREVIEW_WEIGHTS] = needs->weights;
        m->bytes[CS_PREVIEW_ACTIVATIONS] = needs->activations;
        m->bytes[CS_PREVIEW_WORKSPACE] = needs->scratch + needs->windows;
        m->bytes[CS_PREVIEW_BOUNDARY] = needs->boundary;
        add_state(needs->state, state, m);
        m->total = cs_rank_needs_bytes(needs);
    }
}

/* --- spans for Gantt rows --------------------------------------------------------------------- */

static bool is_compute(const struct cs_forecast_action *a)
{
    return cs_op_stream((enum cs_op)a->op) == CS_STREAM_COMPUTE && a->end_ns > a->start_ns;
}

static struct cs_span span_of(int32_t rank, const struct cs_forecast_action *a)
{
    return (struct cs_span){
        .start_ns = a->start_ns,
        .end_ns = a->end_ns,
        .rank = rank,
        .action = a->id,
        .key = {.stage = a->stage,
                .peer = a->peer,
                .slot = a->slot,
                .letter = cs_op_letter((enum cs_op)a->op)[0],
                .is_compute = true,
                .is_grad = a->is_grad}
    };
}

static int32_t list_spans(struct cs_preview *p, bool is_critical, struct cs_span *out,
                          int32_t *first)
{
    int32_t n = 0;
    for (int32_t r = 0; r < p->forecast.n_ranks; r++) {
        const struct cs_forecast_rank *rank = &p->forecast.rank[r];
        first[r] = n;
        for (uint32_t i = 0; i < rank->n_actions; i++)
            if (is_compute(&rank->action[i]) && (!is_critical || rank->action[i].is_critical)) {
                if (out)
                    out[n] = span_of(r, &rank->action[i]);
                n++;
            }
    }
    first[p->forecast.n_ranks] = n;
    return n;
}

static struct cs_span *make_spans(struct cs_preview *p, bool is_critical, int32_t **first)
{
    *first = CS_NEW_ARRAY(p->arena, int32_t, p->forecast.n_ranks + 1);
    int32_t n = list_spans(p, is_critical, NULL, *first);
    struct cs_span *spans = CS_NEW_ARRAY(p->arena, struct cs_span, n + 1);
    list_spans(p, is_critical, spans, *first);
    return spans;
}

int32_t cs_preview_rank(const struct cs_preview *p, int32_t rank)
{
    return cs_plan_rank_of(p->made.plan, 0, rank);
}

struct cs_span_step cs_preview_spans(const struct cs_preview *p, int32_t rank, bool is_critical)
{
    const int32_t *first = is_critical ? p->first_critical : p->first_span;
    struct cs_span *all = is_critical ? p->critical : p->span;
    return (struct cs_span_step){.makespan_ns = p->forecast.makespan_ns,
                                 .n_ranks = p->forecast.n_ranks,
                                 .n_stages = p->forecast.n_stages,
                                 .span = all + first[rank],
                                 .n_spans = first[rank + 1] - first[rank]};
}

/* --- critical path ---------------------------------------------------------------------------- */

const struct cs_forecast_action *cs_preview_action(const struct cs_preview *p, int32_t link)
{
    const struct cs_preview_link *l = &p->link[link];
    return &p->forecast.rank[l->rank].action[l->id];
}

static bool is_message(const struct cs_forecast_action *a)
{
    return cs_op_is((enum cs_op)a->op, CS_OP_KIND_MESSAGE);
}

static bool is_collective(const struct cs_forecast_action *a)
{
    return cs_op_is((enum cs_op)a->op, CS_OP_KIND_COLLECTIVE);
}

static enum cs_preview_why why_of(const struct cs_preview *p, int32_t i)
{
    if (i == 0)
        return CS_WHY_FIRST;
    const struct cs_forecast_action *a = cs_preview_action(p, i), *b = cs_preview_action(p, i - 1);
    if (is_collective(a) || is_collective(b))
        return CS_WHY_MEETING;
    if (is_message(a))
        return CS_WHY_SENT;
    if (is_message(b))
        return CS_WHY_MESSAGE;
    return p->link[i].rank == p->link[i - 1].rank ? CS_WHY_BUSY : CS_WHY_CORE;
}

/* end of the compute action before this one on its rank; 0 where there is none */
static int64_t busy_until(const struct cs_preview *p, int32_t rank, int64_t start_ns)
{
    struct cs_span_step step = cs_preview_spans(p, rank, false);
    int32_t low = 0, high = step.n_spans; /* compute spans stand in order of their start */
    while (low < high) {
        int32_t middle = low + (high - low) / 2;
        if (step.span[middle].start_ns < start_ns)
            low = middle + 1;
        else
            high = middle;
    }
    return low > 0 ? step.span[low - 1].end_ns : 0;
}

static void make_links(struct cs_preview *p)
{
    p->n_links = p->forecast.n_critical;
    p->link = CS_NEW_ARRAY(p->arena, struct cs_preview_link, p->n_links + 1);
    for (int32_t i = 0; i < p->n_links; i++)
        p->link[i] = (struct cs_preview_link){.rank = p->forecast.critical[i].rank,
                                              .id = p->forecast.critical[i].id};
    for (int32_t i = 0; i < p->n_links; i++) {
        const struct cs_forecast_action *a = cs_preview_action(p, i);
        p->link[i].why = why_of(p, i);
        if (is_compute(a))
            p->link[i].idle_ns = a->start_ns - busy_until(p, p->link[i].rank, a->start_ns);
    }
}

static void action_text(const struct cs_preview *p, int32_t rank,
                        const struct cs_forecast_action *a, char *out, size_t cap)
{
    struct cs_span_key key = span_of(rank, a).key;
    if (is_message(a)) {
        snprintf(out, cap, "%s %d %s rank %d", a->is_grad ? "gradient" : "rows", a->slot + 1,
                 a->op == CS_OP_SEND ? "to" : "from", cs_preview_rank(p, a->peer));
    } else if (a->stage >= 0 && a->slot >= 0) {
        snprintf(out, cap, "%c%d %s", key.letter, a->slot + 1, p->forecast.stage[a->stage].name);
    } else if (a->op == CS_OP_COPIES) {
        snprintf(out, cap, "sum of %s", p->forecast.stage[a->stage].name);
    } else {
        cs_program_key_text(&key, out, cap);
    }
}

void cs_preview_what(const struct cs_preview *p, int32_t link, char *out, size_t cap)
{
    action_text(p, p->link[link].rank, cs_preview_action(p, link), out, cap);
}

void cs_preview_why_text(const struct cs_preview *p, int32_t link, char *out, size_t cap)
{
    const struct cs_preview_link *l = &p->link[link];
    const struct cs_forecast_action *before = link > 0 ? cs_preview_action(p, link - 1) : NULL;
    char what[64] = "";
    if (before)
        cs_preview_what(p, link - 1, what, sizeof what);
    switch (l->why) {
    case CS_WHY_FIRST:
        snprintf(out, cap, "the step starts here");
        break;
    case CS_WHY_BUSY:
        snprintf(out, cap, "its rank was busy: %s", what);
        break;
    case CS_WHY_MESSAGE:
        snprintf(out, cap, "%s from rank %d came then",
                 before && before->is_grad ? "gradient" : "rows",
                 cs_preview_rank(p, p->link[link - 1].rank));
        break;
    case CS_WHY_SENT:
        snprintf(out, cap, "sent when %s was done", what);
        break;
    case CS_WHY_MEETING:
        snprintf(out, cap, "all ranks meet, last: %s", what);
        break;
    case CS_WHY_CORE:
        snprintf(out, cap, "no core was free: %s on rank %d", what,
                 cs_preview_rank(p, p->link[link - 1].rank));
        break;
    }
}

/* --- all -------------------------------------------------------------------------------------- */

static enum cs_status simulate(struct cs_preview *p, const struct cs_variant_base *base,
                               struct cs_err *err)
{
    struct cs_variant_costs costs = {base, p->made.is_own};
    const struct cs_sim_options measured = {
        .cost = cs_variant_cost, .user = &costs, .cores = base->cores};
    const struct cs_forecast_options options = {.sim = base->measured ? &measured : NULL};
    const struct cs_plan *plan = p->made.plan;
    if ((int64_t)plan->n_stages * cs_plan_own_slots(plan, plan->slots) > CS_PREVIEW_CELLS)
        return cs_fail(err, CS_PLAN, "%d stages with %d slots are too many to simulate here",
                       plan->n_stages, p->variant.slots);
    return cs_forecast_plan(plan, base->graph, base->cluster, &options, p->arena, &p->forecast,
                            err);
}

void cs_preview_make(struct cs_preview *p, const struct cs_variant_base *base,
                     const struct cs_variant *variant)
{
    struct cs_err err = {.text = ""};
    cs_preview_clear(p);
    p->arena = cs_arena_new(0);
    p->variant = *variant;
    enum cs_status status = cs_variant_make(base, variant, p->arena, &p->made, &err);
    if (status == CS_OK)
        status = simulate(p, base, &err);
    if (status != CS_OK) {
        cs_str_copy(p->error, sizeof p->error, err.text);
        p->made = (struct cs_variant_plan){0};
        p->forecast = (struct cs_forecast){0};
        return;
    }
    const struct cs_forecast_figures figures =
        cs_forecast_figures(&p->forecast, p->made.plan, p->arena);
    p->bubble = figures.bubble;
    p->peak_rank = figures.peak_rank;
    p->rank_bubble = cs_forecast_rank_bubbles(&p->forecast, p->arena);
    const struct cs_state_bytes state =
        cs_state_bytes(base->graph->keeps_bf16, base->cluster->device);
    count_memory(p, &state);
    p->span = make_spans(p, false, &p->first_span);
    p->critical = make_spans(p, true, &p->first_critical);
    make_links(p);
}
