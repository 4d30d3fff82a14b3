/* Programs and actions in words. */
#include "core/sched/program.h"

static const char *const words[] = {
    [CS_OP_FWD] = "forward",
    [CS_OP_BWD] = "backward",
    [CS_OP_BWD_INPUT] = "input backward",
    [CS_OP_BWD_WEIGHT] = "weight backward",
    [CS_OP_SEND] = "send",
    [CS_OP_RECV] = "recv",
    [CS_OP_TIED] = "exchange of the tied embedding",
    [CS_OP_NORM] = "gradient norm",
    [CS_OP_STEP] = "optimizer step",
    [CS_OP_MARK] = "end of step",
    [CS_OP_COPIES] = "sum of gradients over the copies",
    [CS_OP_REDUCE] = "sum of gradients over the replicas",
    [CS_OP_GATHER] = "weights from the replicas",
};
_Static_assert(CS_ARRAY_LEN(words) == CS_OP_COUNT, "one word per operation");

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

void cs_action_text(const struct cs_program *program, int rank, uint32_t id, struct cs_buf *out)
{
    const struct cs_plan *plan = program->plan;
    const struct cs_action *a = &program->rank[rank].actions[id];
    cs_buf_addf(out, "rank %d: %s", rank, a->op < CS_OP_COUNT ? words[a->op] : "unknown operation");
    if (a->edge >= 0 && a->edge < plan->n_edges)
        cs_buf_addf(out, " %s of edge %s -> %s", a->is_grad ? "grad" : "rows",
                    plan->stages[plan->edges[a->edge].from].name,
                    plan->stages[plan->edges[a->edge].to].name);
    else if (a->stage >= 0 && a->stage < plan->n_stages)
        cs_buf_addf(out, " of %s", plan->stages[a->stage].name);
    if (a->slot >= 0)
        cs_buf_addf(out, ", slot %d%s", a->slot, a->lead ? " of the next step" : "");
}
