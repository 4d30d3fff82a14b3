/* Who shares the stages of a plan. */
#include "console/whatif/groups.h"

#include <stdio.h>

#include "core/base/buf.h"
#include "core/base/str.h"
#include "core/base/units.h"

static const struct cs_stage *first_of(const struct cs_plan *plan, int32_t branch)
{
    for (int32_t s = 0; s < plan->n_stages; s++)
        if (plan->stages[s].branch == branch)
            return &plan->stages[s];
    return NULL;
}

/* what of the branch's shape is unlike one rank a stage */
static void add_branch(const struct cs_plan *plan, const struct cs_stage *stage, const char *name,
                       struct cs_buf *out)
{
    const struct cs_rank_shape shape = cs_plan_shape(plan, stage->id);

    const struct {
        const char *name;
        int32_t n, usual;
    } rows[] = {
        {"dp",   shape.dp,    cs_plan_llm_replicas(plan)},
        {"tp",   shape.tp,    1                         },
        {"cp",   shape.cp,    1                         },
        {"ep",   shape.ep,    1                         },
        {"zero", stage->zero, 1                         },
    };

    bool is_named = false;
    for (size_t i = 0; i < CS_ARRAY_LEN(rows); i++) {
        if (rows[i].n < 2 ? rows[i].usual < 2 || i > 0 : rows[i].n == rows[i].usual)
            continue;
        if (!is_named)
            cs_buf_addf(out, "%s%s", out->len > 0 ? ", " : "", name);
        is_named = true;
        cs_buf_addf(out, " %s %d", rows[i].name, rows[i].n);
    }
    if (is_named && stage->splits_rows)
        cs_buf_adds(out, " sp");
}

void cs_groups_text(const struct cs_plan *plan, const struct cs_graph *graph, char *out, size_t cap)
{
    struct cs_buf text = {0};
    if (cs_plan_llm_replicas(plan) > 1)
        cs_buf_addf(&text, "%d replica%s", cs_plan_llm_replicas(plan),
                    CS_PLURAL(cs_plan_llm_replicas(plan)));
    for (int32_t b = 0; b < graph->n_branches; b++) {
        const struct cs_stage *stage = first_of(plan, b);
        if (stage)
            add_branch(plan, stage, graph->branches[b].name, &text);
    }
    cs_str_copy(out, cap, cs_buf_str(&text));
    cs_buf_free(&text);
}

static void print_range(int32_t first, int32_t n, char *out, size_t cap)
{
    if (n > 1)
        snprintf(out, cap, "%d-%d", first, first + n - 1);
    else
        snprintf(out, cap, "%d", first);
}

void cs_groups_ranks(const struct cs_plan *plan, int32_t rank, char *out, size_t cap)
{
    print_range(cs_plan_rank_of(plan, 0, rank), cs_plan_width(plan, rank), out, cap);
}

void cs_groups_of_stage(const struct cs_plan *plan, int32_t stage, char *out, size_t cap)
{
    print_range(cs_plan_rank(plan, stage, (struct cs_rank_at){0}), cs_plan_stage_ranks(plan, stage),
                out, cap);
}
