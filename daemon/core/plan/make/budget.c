/* What a slot has room for, from the spec and what encoders take. */
#include "core/base/units.h"
#include "core/plan/make/planning.h"

enum { MAX_ITEMS = 256, MAX_MIXED_ITEMS = 4096, TEXT_PER_ITEM = 8 };

static const struct cs_arch *encoder_arch(const struct cs_graph *graph, int32_t branch)
{
    for (int32_t m = 0; m < graph->n_modules; m++)
        if (graph->modules[m].branch == branch && graph->modules[m].kind == CS_MODULE_ENCODER)
            return &graph->modules[m].arch;
    return NULL;
}

static enum cs_status refuse_rows(const struct cs_branch *branch, int64_t rows, int64_t least,
                                  struct cs_err *err)
{
    if (rows < least)
        return cs_fail(
            err, CS_PLAN,
            "plan.encoder_rows.%s is %lld but one item has %lld row%s; give at least that",
            branch->name, (long long)rows, (long long)least, CS_PLURAL(least));
    return cs_fail(err, CS_PLAN, "plan.encoder_rows.%s is %lld: too many rows", branch->name,
                   (long long)rows);
}

/* All items alike. Default: as many as samples with one item and a few words each fill seq_tokens. */
static enum cs_status budget_like_items(const struct cs_branch *branch, int32_t seq, int64_t given,
                                        struct cs_item_budget *budget, struct cs_err *err)
{
    const int32_t rows = branch->item_rows;
    int64_t items = seq / ((int64_t)rows + TEXT_PER_ITEM);
    if (rows < 1 || rows > seq)
        return cs_fail(err, CS_PLAN,
                       "one item of %s has %d row%s but a slot has seq_tokens = %d; raise "
                       "plan.seq_tokens to %d or more",
                       branch->name, rows, CS_PLURAL(rows), seq, rows + TEXT_PER_ITEM);
    items = items < 1 ? 1 : items > MAX_ITEMS ? MAX_ITEMS : items;
    if (given > 0)
        items = given / rows;
    if (items < 1 || items > INT32_MAX / branch->item_patches)
        return refuse_rows(branch, given, rows, err);
    cs_budget_set_items(budget, (int32_t)items);
    return CS_OK;
}

/* part of a whole in proportion, rounded up */
static int64_t in_proportion(int64_t whole, int64_t part, int64_t of)
{
    return (whole * part + of - 1) / of;
}

/* Items of any size: what fits the LLM's rows fits the encoder. An item that is larger than a slot
 * never comes, so the largest is one that fills it. Sources may drop rows: twice as many are room for
 * all but the oddest pictures, which are left out and counted. */
static enum cs_status budget_any_items(const struct cs_branch *branch, int32_t seq, int64_t given,
                                       struct cs_item_budget *budget, struct cs_err *err)
{
    const struct cs_item_budget of = *budget;
    const int64_t derived = of.has_sources ? 2 * (int64_t)seq + of.item_rows : seq;
    const int64_t rows = given > 0 ? given : derived;
    const int64_t item_rows = of.item_rows < rows ? of.item_rows : rows;
    const int64_t patches = in_proportion(of.item_patches, rows, of.item_rows);
    if (rows > INT32_MAX || patches > INT32_MAX)
        return refuse_rows(branch, rows, 1, err);
    budget->rows = (int32_t)rows;
    budget->patches = (int32_t)patches;
    budget->items = rows < MAX_MIXED_ITEMS ? (int32_t)rows : MAX_MIXED_ITEMS;
    budget->bytes = in_proportion(of.item_bytes, rows, of.item_rows);
    budget->item_rows = (int32_t)item_rows;
    budget->item_patches = (int32_t)in_proportion(of.item_patches, item_rows, of.item_rows);
    budget->item_bytes = (int32_t)in_proportion(of.item_bytes, item_rows, of.item_rows);
    return CS_OK;
}

static enum cs_status budget_encoder(struct cs_planner *p, int32_t b, struct cs_err *err)
{
    const struct cs_branch *branch = &p->graph->branches[b];
    const struct cs_spec_parallel *given = cs_planner_parallel(p, b);
    const struct cs_arch *arch = encoder_arch(p->graph, b);
    const int64_t rows = given ? given->encoder_rows : 0;
    const int32_t side = arch && branch->has_one_size ? arch->image_size : 0;
    struct cs_item_budget *budget = &p->plan->budget.enc[branch->encoder];
    *budget = (struct cs_item_budget){.item_rows = branch->item_rows,
                                      .item_patches = branch->item_patches,
                                      .item_bytes = branch->item_bytes,
                                      .height = side,
                                      .width = side,
                                      .channels = arch ? arch->channels : 0,
                                      .has_sources = branch->has_sources};
    return branch->has_one_size ? budget_like_items(branch, p->spec->seq_tokens, rows, budget, err)
                                : budget_any_items(branch, p->spec->seq_tokens, rows, budget, err);
}

enum cs_status cs_planner_budget(struct cs_planner *p, struct cs_err *err)
{
    if (p->spec->seq_tokens < 1 || p->spec->slots < 1)
        return cs_fail(err, CS_PLAN, "plan.seq_tokens is %d and plan.slots %d: both start at 1",
                       p->spec->seq_tokens, p->spec->slots);
    p->plan->budget.seq_tokens = p->spec->seq_tokens;
    p->plan->budget.n_encoders = p->graph->n_encoders;
    for (int32_t b = 0; b < p->graph->n_branches; b++)
        if (p->graph->branches[b].encoder >= 0)
            CS_TRY(budget_encoder(p, b, err));
    return CS_OK;
}

enum cs_status cs_plan_budget(const struct cs_spec *spec, const struct cs_graph *graph,
                              struct cs_slot_budget *out, struct cs_err *err)
{
    struct cs_plan plan = {0};
    struct cs_planner p = {.spec = spec, .graph = graph, .plan = &plan};
    CS_TRY(cs_planner_budget(&p, err));
    *out = plan.budget;
    return CS_OK;
}
