/* Programs and actions in words. */
#include "core/sched/program.h"

#include "core/plan/primitive.h"

const char *cs_program_letter(enum cs_op op)
{
    return cs_op_letter(op == CS_OP_BWD_INPUT ? CS_OP_BWD : op);
}

void cs_program_text(const struct cs_program *program, int stage, struct cs_buf *out)
{
    const struct cs_rank_program *rank = &program->rank[program->plan->stages[stage].rank];
    bool is_first = true;
    for (uint32_t i = 0; i < rank->n_fifo[CS_STREAM_COMPUTE]; i++) {
        const struct cs_action *a = &rank->actions[rank->fifo[CS_STREAM_COMPUTE][i]];
        if (a->stage != stage || a->slot < 0)
            continue;
        cs_buf_addf(out, "%s%s%d%s", is_first ? "" : " ", cs_program_letter((enum cs_op)a->op),
                    a->slot, a->lead ? "'" : "");
        is_first = false;
    }
}

static void add_edge(const struct cs_plan *plan, const struct cs_action *a, struct cs_buf *out)
{
    const enum cs_edge_flow flow = a->is_grad ? CS_FLOW_GRADIENTS : CS_FLOW_ROWS;
    cs_buf_addf(out, " %s of edge %s -> %s", a->is_grad ? "grad" : "rows",
                plan->stages[plan->edges[a->edge].from].name,
                plan->stages[plan->edges[a->edge].to].name);
    if (cs_edge_is_cut(plan, a->edge, flow))
        cs_buf_addf(out, " (%s)", cs_primitive_name(cs_edge_primitive(plan, a->edge, flow)));
}

void cs_action_text(const struct cs_program *program, int rank, uint32_t id, struct cs_buf *out)
{
    const struct cs_plan *plan = program->plan;
    const struct cs_action *a = &program->rank[rank].actions[id];
    cs_buf_addf(out, "rank %d: %s", rank,
                a->op < CS_OP_COUNT ? cs_op_table[a->op].words : "unknown operation");
    if (a->edge >= 0 && a->edge < plan->n_edges)
        add_edge(plan, a, out);
    else if (a->stage >= 0 && a->stage < plan->n_stages)
        cs_buf_addf(out, " of %s", plan->stages[a->stage].name);
    if (a->slot >= 0)
        cs_buf_addf(out, ", slot %d%s", a->slot, a->lead ? " of the next step" : "");
}
