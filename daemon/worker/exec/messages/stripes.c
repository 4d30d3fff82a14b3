/* Puts stripes together over the link of the ranks that share a stage's matrices. */
#include "worker/exec/messages/stripes.h"

#include "core/plan/primitive.h"
#include "worker/exec/state/boundary.h"
#include "worker/layer/exchange.h"

static struct cs_tp_share stripe_of(const struct cs_context *sharers, int place, int64_t rows)
{
    return cs_tp_share(rows, (struct cs_tp){.ranks = sharers->n, .at = place});
}

/* all (rows, width): every sharer has its stripe of it */
static void join(struct cs_run *run, int64_t rows, int64_t width, void *all)
{
    const struct cs_context *c = run->tensors;
    const struct cs_tp_share own = stripe_of(c, c->place, rows);
    const struct cs_exchange e = cs_exchange_new(run, run->tensors);
    for (int behind = 1; behind < c->n; behind++) {
        const int to = (c->place + behind) % c->n, from = (c->place + c->n - behind) % c->n;
        const struct cs_tp_share theirs = stripe_of(c, from, rows);
        cs_exchange_add_acts(&e, to, cs_run_at(run, all, own.begin * width),
                             (own.end - own.begin) * width, true);
        cs_exchange_add_acts(&e, from, cs_run_at(run, all, theirs.begin * width),
                             (theirs.end - theirs.begin) * width, false);
    }
    cs_exchange_move(&e);
}

void cs_exec_join_stripes(struct cs_exec *exec, struct cs_run *run, const struct cs_action *action,
                          enum cs_edge_flow flow)
{
    const struct cs_plan *plan = exec->config.plan;
    const bool is_grad = flow == CS_FLOW_GRADIENTS;
    for (int32_t i = 0; i < plan->n_edges; i++) {
        const struct cs_edge *edge = &plan->edges[i];
        if ((is_grad ? edge->from : edge->to) != action->stage || (is_grad && !edge->has_grad) ||
            cs_edge_primitive(plan, i, flow) != CS_PRIMITIVE_STRIPED)
            continue;
        void *rows = cs_boundary_at(exec->boundary, i, action->slot, is_grad);
        if (rows != NULL)
            join(run, cs_exec_edge_rows(exec, i, action->slot, is_grad), edge->width, rows);
    }
}

bool cs_exec_leaves_parts(const struct cs_exec *exec, const struct cs_action *action,
                          enum cs_edge_flow flow)
{
    const struct cs_plan *plan = exec->config.plan;
    for (int32_t i = 0; i < plan->n_edges; i++) {
        const struct cs_edge *edge = &plan->edges[i];
        if ((flow == CS_FLOW_ROWS ? edge->from : edge->to) == action->stage && edge->feed < 0 &&
            cs_edge_primitive(plan, i, flow) == CS_PRIMITIVE_NARROW)
            return true;
    }
    return false;
}
