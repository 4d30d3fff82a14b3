/* What a step does differently where rows of the LLM are split over ranks, and what it tells of it. */
#include "worker/train/trainer_context.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/system/environment.h"
#include "core/wire/wire.h"
#include "worker/layer/share.h"
#include "worker/slot/split.h"

/* the first stage of a branch: all have one shape */
static int32_t stage_of(const struct cs_plan *plan, int32_t branch)
{
    int32_t s = 0;
    while (s < plan->n_stages - 1 && plan->stages[s].branch != branch)
        s++;
    return s;
}

/* where this rank stands among those of a branch; false: it has no stage of it */
static bool stands_in(const struct cs_trainer *t, int32_t branch, struct cs_rank_at *at)
{
    const struct cs_plan *plan = t->config.plan;
    for (int32_t s = 0; s < plan->n_stages; s++)
        if (plan->stages[s].branch == branch && cs_plan_rank_at(plan, s, t->config.rank, at))
            return true;
    return false;
}

/* this rank's part of those that share the items of an encoder, -1: it has none */
static int32_t part_in(const struct cs_trainer *t, int32_t branch)
{
    const struct cs_plan *plan = t->config.plan;
    const int32_t stage = stage_of(plan, branch);
    struct cs_rank_at at;
    if (!stands_in(t, branch, &at))
        return -1;
    return at.dp % cs_plan_lanes(plan, stage) * cs_plan_shape(plan, stage).cp + at.cp;
}

/* of the vocabulary, on a rank of the LLM that shares them; at NULL: it is none */
static struct cs_tp_share words_of(const struct cs_trainer *t, const struct cs_rank_at *at)
{
    const struct cs_plan *plan = t->config.plan;
    const int32_t ranks = cs_plan_shape(plan, plan->head_stage).tp;
    if (ranks < 2 || at == NULL)
        return (struct cs_tp_share){0, 0};
    return cs_tp_share(t->tables->vocab, (struct cs_tp){.ranks = ranks, .at = at->tp});
}

/* Whether tiles of the own keys come first: as the plan says, for tests and comparisons as the environment does. */
static bool has_own_first(bool is_planned)
{
    return is_planned ? !cs_variable_is(CS_VAR_CONTEXT_OWN_FIRST, "0")
                      : cs_variable_is(CS_VAR_CONTEXT_OWN_FIRST, "1");
}

enum cs_status cs_trainer_split_rows(struct cs_trainer *t, struct cs_err *err)
{
    const struct cs_plan *plan = t->config.plan;
    const struct cs_graph *graph = t->config.graph;
    for (int32_t b = 0; b < graph->n_branches; b++) {
        if (graph->branches[b].encoder < 0)
            continue;
        struct cs_slot_encoder *enc = &t->tables->enc[graph->branches[b].encoder];
        const int32_t stage = stage_of(plan, b);
        enc->ranks = cs_plan_lanes(plan, stage) * cs_plan_shape(plan, stage).cp;
        enc->place = part_in(t, b);
        enc->most_slots = cs_plan_item_slots(plan, stage);
    }
    struct cs_rank_at at = {0};
    const bool is_llm = stands_in(t, graph->llm, &at);
    t->tables->context.lanes = cs_plan_side_by_side(plan);
    t->tables->context.lane = at.dp % cs_plan_side_by_side(plan);
    t->tables->words = words_of(t, is_llm ? &at : NULL);
    const struct cs_rank_shape shape = cs_plan_shape(plan, plan->head_stage);
    struct cs_split_config config = {
        .ranks = shape.cp,
        .place = is_llm ? at.cp : -1,
        .rows_each = plan->context_rows,
        .how = t->config.spec->context,
        .moves_heads = plan->moves_heads,
        .own_first = has_own_first(plan->keys_own_first),
        .tp = {.ranks = shape.tp, .at = at.tp}
    };
    return cs_split_tables(t->tables, &config, err);
}

enum cs_status cs_trainer_check_items(const struct cs_trainer *t, struct cs_err *err)
{
    const struct cs_plan *plan = t->config.plan;
    const bool is_host = t->config.device->mem == NULL; /* its ranks have sockets */
    if (is_host || t->config.items != NULL)
        return CS_OK;
    for (int32_t s = 0; s < plan->n_stages; s++) {
        const struct cs_stage_model *stage = cs_exec_stage(t->exec, s);
        if (stage == NULL || stage->encoder < 0)
            continue;
        const int32_t host = plan->stages[s].rank, context = cs_plan_rank_shape(plan, host).cp;
        for (int32_t i = 0; i < plan->stages[s].n_layers; i++)
            if (cs_layer_shares_with_all(&stage->layer[i], t->tables, context))
                return cs_fail(err, CS_PLAN,
                               "what stage %s makes goes to all %d ranks that it is on, and the "
                               "plan has no communicator of them: make the plan anew, with this "
                               "version",
                               plan->stages[s].name, cs_plan_width(plan, host));
    }
    return CS_OK;
}

enum cs_status cs_trainer_gather_correct(struct cs_trainer *t, struct cs_input *in,
                                         struct cs_err *err)
{
    const struct cs_input_split *s = in->split;
    struct cs_comm *comm = t->config.comm;
    const struct cs_plan *plan = t->config.plan;
    if (s == NULL)
        return CS_OK;
    const int step = cs_plan_shape(plan, plan->head_stage).tp;
    const int first = t->config.rank - s->place * step;
    if (s->place > 0) {
        struct cs_xfer x = {
            .peer = first, .data = in->correct, .bytes = (size_t)in->n_labels, .is_send = 1};
        return comm->table->exchange(comm, &x, 1, t->config.deadline_ms, err);
    }
    uint8_t *theirs = cs_scratch_take(&in->memory, (size_t)s->n_labels + 1);
    cs_split_take_correct(in, 0, in->correct);
    for (int r = 1; r < s->ranks; r++) {
        struct cs_xfer x = {.peer = first + r * step,
                            .data = theirs,
                            .bytes = (size_t)cs_split_count_labels(in, r)};
        CS_TRY(comm->table->exchange(comm, &x, 1, t->config.deadline_ms, err));
        cs_split_take_correct(in, r, theirs);
    }
    return CS_OK;
}

struct cs_context_figures cs_trainer_context_figures(const struct cs_trainer *t, int64_t wait_ns)
{
    const struct cs_input_context *c = &t->tables->context;
    struct cs_context_figures f = {.is_split = c->ranks > 1 && c->place >= 0, .wait_ns = wait_ns};
    for (int32_t s = 0; f.is_split && s < t->own.n_slots; s++) {
        const struct cs_context_load *load = &t->inputs[s].split->load[c->place];
        f.rows += load->rows;
        f.pairs += load->pairs;
        f.flops += load->work;
    }
    return f;
}

static double work_of(const struct cs_input *in)
{
    double work = 0;
    for (int32_t r = 0; r < in->split->ranks; r++)
        work += in->split->load[r].work;
    return work;
}

/* of slots that are split, as all are that a rank of a context prepares */
static const struct cs_input *heaviest(const struct cs_trainer *t)
{
    const struct cs_input *most = NULL;
    for (int32_t s = 0; s < t->own.n_slots; s++)
        if (most == NULL || work_of(&t->inputs[s]) > work_of(most))
            most = &t->inputs[s];
    return most != NULL && most->n_tokens > 0 ? most : NULL;
}

/* whole numbers: short in a journal */
static json_t *scaled(const double *value, int32_t n, double unit)
{
    json_t *list = json_array();
    for (int32_t i = 0; i < n; i++)
        json_array_append_new(list, json_integer((json_int_t)(value[i] * unit + 0.5)));
    return list;
}

static json_t *sequence_json(const struct cs_context_view *view, const char *rule)
{
    json_t *loads = json_object();
    for (int how = 0; how < CS_BALANCE_HOWS; how++)
        json_object_set_new(loads, cs_balance_how_name((enum cs_balance_how)how),
                            scaled(view->load[how], view->ranks, 1e4));
    return json_pack("{s:i, s:i, s:i, s:s, s:o, s:s, s:o, s:o}", "rows", (int)view->n_rows, "block",
                     (int)view->block, "docs", (int)view->n_docs, "what", view->what, "work",
                     scaled(view->work, view->n_cells, 1e3), "rule", rule, "even",
                     cs_json_num(view->even), "loads", loads);
}

json_t *cs_trainer_context_sequence(const struct cs_trainer *t)
{
    const struct cs_plan *plan = t->config.plan;
    const int32_t first = plan->stages[plan->embed_stage].rank;
    struct cs_context_view view;
    struct cs_err err;
    json_t *json = NULL;
    if (t->tables->context.ranks < 2 || t->tables->context.place != 0 ||
        cs_plan_rank_in_replica(plan, t->config.rank) != first)
        return NULL;
    const struct cs_input *in = heaviest(t);
    if (in == NULL)
        return NULL;
    struct cs_arena *arena = cs_arena_new(0);
    if (cs_split_view(in, arena, &view, &err) == CS_OK) /* else nothing is shown of it */
        json = sequence_json(&view, cs_balance_how_name(t->tables->context.how));
    cs_arena_free(arena);
    return json;
}

int64_t cs_trainer_labels_here(const struct cs_trainer *t)
{
    int64_t n = 0;
    for (int32_t s = 0; s < t->own.n_slots; s++)
        n += t->inputs[s].n_labels;
    return n;
}
