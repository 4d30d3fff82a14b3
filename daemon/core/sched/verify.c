/* The proof that a program is complete and cannot hang; see program.h. Three parts: every rank has
 * the actions its stages ask for, with their dependencies; ranks meet pairwise and in groups; the
 * precedence graph has no circle. */
#include "core/sched/program.h"

#include <stdio.h>

#include "core/sched/net.h"

#define NONE CS_NET_NONE

struct checker {
    const struct cs_program *program;
    const struct cs_plan *plan;
    struct cs_arena *arena;
    struct cs_err *err;
    /* action ids on the rank of the stage or edge end, NONE: absent */
    uint32_t *fwd, *bwd;   /* (n_stages, n_slots) */
    uint32_t *send, *recv; /* (n_edges, 2, n_slots) */
};

static size_t stage_at(const struct checker *c, int32_t stage, int32_t slot)
{
    return (size_t)stage * (size_t)c->program->n_slots + (size_t)slot;
}

static size_t edge_at(const struct checker *c, int32_t edge, int is_grad, int32_t slot)
{
    return ((size_t)edge * 2 + (size_t)is_grad) * (size_t)c->program->n_slots + (size_t)slot;
}

static enum cs_status refuse(const struct checker *c, int32_t rank, uint32_t id, const char *what)
{
    struct cs_buf text = {0};
    cs_action_text(c->program, rank, id, &text);
    enum cs_status status =
        cs_fail(c->err, CS_PLAN, "program refused: %s %s", cs_buf_str(&text), what);
    cs_buf_free(&text);
    return status;
}

static uint32_t *cell_of(const struct checker *c, const struct cs_action *a)
{
    switch ((enum cs_op)a->op) {
    case CS_OP_FWD:
        return &c->fwd[stage_at(c, a->stage, a->slot)];
    case CS_OP_BWD:
        return &c->bwd[stage_at(c, a->stage, a->slot)];
    case CS_OP_SEND:
        return &c->send[edge_at(c, a->edge, a->is_grad, a->slot)];
    case CS_OP_RECV:
        return &c->recv[edge_at(c, a->edge, a->is_grad, a->slot)];
    case CS_OP_BWD_INPUT:
    case CS_OP_BWD_WEIGHT:
    case CS_OP_TIED:
    case CS_OP_NORM:
    case CS_OP_STEP:
    case CS_OP_MARK:
    case CS_OP_COUNT:
        break;
    }
    return NULL;
}

/* a message stands on the rank of its end of the edge and names the rank of the other end */
static bool is_at_its_end(const struct checker *c, int32_t rank, const struct cs_action *a)
{
    const struct cs_edge *edge = &c->plan->edges[a->edge];
    int32_t from = c->plan->stages[edge->from].rank, to = c->plan->stages[edge->to].rank;
    bool at_producer = (a->op == CS_OP_SEND) != (a->is_grad != 0);
    return rank == (at_producer ? from : to) && a->peer == (at_producer ? to : from);
}

static enum cs_status register_rank(struct checker *c, int32_t rank)
{
    const struct cs_rank_program *rp = &c->program->rank[rank];
    for (uint32_t id = 0; id < rp->n_actions; id++) {
        const struct cs_action *a = &rp->actions[id];
        if (a->op == CS_OP_BWD_INPUT || a->op == CS_OP_BWD_WEIGHT)
            return refuse(c, rank, id, "belongs to schedules that split the backward");
        if ((a->op == CS_OP_SEND || a->op == CS_OP_RECV) && !is_at_its_end(c, rank, a))
            return refuse(c, rank, id, "is not at its end of the edge");
        uint32_t *cell = cell_of(c, a);
        if (!cell)
            continue;
        if (*cell != NONE)
            return refuse(c, rank, id, "is there twice");
        *cell = id;
    }
    return CS_OK;
}

static bool depends_on(const struct cs_rank_program *rp, uint32_t id, uint32_t on)
{
    for (uint32_t d = 0; d < rp->actions[id].n_deps; d++)
        if (rp->deps[rp->actions[id].first_dep + d] == on)
            return true;
    return false;
}

static enum cs_status missing(const struct checker *c, const char *op, int32_t rank,
                              const char *subject, const char *other, int32_t slot,
                              const char *what)
{
    return cs_fail(c->err, CS_PLAN, "program refused: rank %d: %s %s%s%s, slot %d %s", rank, op,
                   subject, other ? " -> " : "", other ? other : "", slot, what);
}

static enum cs_status check_stage(const struct checker *c, const struct cs_stage *stage,
                                  int32_t slot)
{
    uint32_t fwd = c->fwd[stage_at(c, stage->id, slot)], bwd = c->bwd[stage_at(c, stage->id, slot)];
    bool wants = stage->has_backward && !c->program->is_eval;
    if (fwd == NONE)
        return missing(c, "forward of", stage->rank, stage->name, NULL, slot, "is missing");
    if (wants && bwd == NONE)
        return missing(c, "backward of", stage->rank, stage->name, NULL, slot, "is missing");
    if (!wants && bwd != NONE)
        return refuse(c, stage->rank, bwd, "is not wanted: the stage has no backward");
    if (wants && !depends_on(&c->program->rank[stage->rank], bwd, fwd))
        return refuse(c, stage->rank, bwd, "does not depend on its forward");
    return CS_OK;
}

/* one direction of an edge for one slot: producer -> send, recv -> consumer, or a local dependency
 */
static enum cs_status check_flow(const struct checker *c, const struct cs_edge *edge, int is_grad,
                                 int32_t slot)
{
    const struct cs_stage *from = &c->plan->stages[is_grad ? edge->to : edge->from];
    const struct cs_stage *to = &c->plan->stages[is_grad ? edge->from : edge->to];
    const char *a = c->plan->stages[edge->from].name, *b = c->plan->stages[edge->to].name;
    const struct cs_rank_program *source = &c->program->rank[from->rank];
    const struct cs_rank_program *sink = &c->program->rank[to->rank];
    uint32_t send = c->send[edge_at(c, edge->id, is_grad, slot)];
    uint32_t recv = c->recv[edge_at(c, edge->id, is_grad, slot)];
    uint32_t made = (is_grad ? c->bwd : c->fwd)[stage_at(c, from->id, slot)];
    uint32_t used = (is_grad ? c->bwd : c->fwd)[stage_at(c, to->id, slot)];
    bool wants = !is_grad || (edge->has_grad && !c->program->is_eval);
    if (wants && (made == NONE || used == NONE))
        return missing(c, "gradient of edge", from->rank, a, b, slot,
                       "flows, but one of the stages has no backward");
    if (!wants || from->rank == to->rank) {
        if (send != NONE)
            return refuse(c, from->rank, send, "is not wanted");
        if (recv != NONE)
            return refuse(c, to->rank, recv, "is not wanted");
        return !wants || depends_on(sink, used, made)
                   ? CS_OK
                   : refuse(c, to->rank, used, "does not depend on what it consumes");
    }
    if (send == NONE)
        return missing(c, is_grad ? "send grad of edge" : "send rows of edge", from->rank, a, b,
                       slot, "is missing");
    if (recv == NONE)
        return missing(c, is_grad ? "recv grad of edge" : "recv rows of edge", to->rank, a, b, slot,
                       "is missing");
    if (!depends_on(source, send, made))
        return refuse(c, from->rank, send, "does not depend on its producer");
    return depends_on(sink, used, recv) ? CS_OK
                                        : refuse(c, to->rank, used, "does not wait for its rows");
}

static enum cs_status check_work(const struct checker *c)
{
    for (int32_t slot = 0; slot < c->program->n_slots; slot++) {
        for (int32_t s = 0; s < c->plan->n_stages; s++)
            CS_TRY(check_stage(c, &c->plan->stages[s], slot));
        for (int32_t e = 0; e < c->plan->n_edges; e++)
            for (int is_grad = 0; is_grad < 2; is_grad++)
                CS_TRY(check_flow(c, &c->plan->edges[e], is_grad, slot));
    }
    return CS_OK;
}

/* one NORM and one STEP per training rank, after all its backwards; one MARK, last of all */
static enum cs_status check_end(const struct checker *c, int32_t rank)
{
    const struct cs_rank_program *rp = &c->program->rank[rank];
    uint32_t wants = c->program->is_eval ? 0 : 1, seen[CS_OP_COUNT] = {0};
    uint32_t at[CS_OP_COUNT] = {0}, n = rp->n_fifo[CS_STREAM_COMPUTE];
    for (uint32_t id = 0; id < rp->n_actions; id++) {
        uint8_t op = rp->actions[id].op;
        uint32_t most = op == CS_OP_MARK || op == CS_OP_TIED ? 1 : wants;
        if (cell_of(c, &rp->actions[id]))
            continue;
        at[op] = id;
        if (++seen[op] > most)
            return refuse(c, rank, id, "is there too often");
    }
    if (seen[CS_OP_NORM] != wants || seen[CS_OP_STEP] != wants || seen[CS_OP_MARK] != 1)
        return cs_fail(c->err, CS_PLAN,
                       "program refused: rank %d has %u gradient norms, %u optimizer steps and %u "
                       "ends of step, not %u, %u, 1",
                       rank, seen[CS_OP_NORM], seen[CS_OP_STEP], seen[CS_OP_MARK], wants, wants);
    if (wants && !depends_on(rp, at[CS_OP_STEP], at[CS_OP_NORM]))
        return refuse(c, rank, at[CS_OP_STEP], "does not wait for the gradient norm");
    if (wants && n > 2 && !depends_on(rp, at[CS_OP_NORM], rp->fifo[CS_STREAM_COMPUTE][n - 3]))
        return refuse(c, rank, at[CS_OP_NORM], "does not wait for the last work of the rank");
    if (seen[CS_OP_TIED] && !depends_on(rp, at[CS_OP_NORM], at[CS_OP_TIED]))
        return refuse(c, rank, at[CS_OP_NORM], "does not wait for the tied embedding");
    if (n < 1 + wants || rp->fifo[CS_STREAM_COMPUTE][n - 1] != at[CS_OP_MARK])
        return refuse(c, rank, at[CS_OP_MARK], "is not the last of its stream");
    if (wants && rp->fifo[CS_STREAM_COMPUTE][n - 2] != at[CS_OP_STEP])
        return refuse(c, rank, at[CS_OP_STEP], "is not the last work of its stream");
    return CS_OK;
}

static enum cs_status check_pairs(const struct checker *c, const struct cs_net *net)
{
    for (uint32_t i = 0; i < net->n_pairs; i++) {
        const struct cs_net_pair *p = &net->pair[i];
        if (p->is_match)
            continue;
        if (p->recv == NONE)
            return refuse(c, p->from, p->send, "has no receive");
        if (p->send == NONE)
            return refuse(c, p->to, p->recv, "has no send");
        struct cs_buf send = {0}, recv = {0};
        cs_action_text(c->program, p->from, p->send, &send);
        cs_action_text(c->program, p->to, p->recv, &recv);
        enum cs_status status = cs_fail(c->err, CS_PLAN, "program refused: %s would meet %s",
                                        cs_buf_str(&send), cs_buf_str(&recv));
        cs_buf_free(&send);
        cs_buf_free(&recv);
        return status;
    }
    return CS_OK;
}

static enum cs_status check_groups(const struct checker *c, const struct cs_net *net)
{
    for (uint32_t i = 0; i < net->n_groups; i++) {
        const struct cs_net_group *g = &net->group[i];
        char what[64];
        if (g->absent < 0)
            continue;
        snprintf(what, sizeof what, "waits for rank %d, which never joins", g->absent);
        return refuse(c, g->rank, g->action, what);
    }
    return CS_OK;
}

/* What is left after all removable nodes are gone contains a circle: follow predecessors. */
static enum cs_status report_circle(const struct checker *c, const struct cs_net *net,
                                    const uint32_t *open)
{
    uint32_t node = 0, steps = 0;
    struct cs_buf text = {0};
    while (open[node] == 0)
        node++;
    uint32_t *seen = CS_NEW_ARRAY(c->arena, uint32_t, net->n_nodes);
    while (!seen[node]) {
        seen[node] = ++steps;
        for (uint32_t i = 0; i < net->node[node].n_preds; i++) {
            uint32_t before = net->preds[net->node[node].first_pred + i];
            if (open[before] > 0) {
                node = before;
                break;
            }
        }
    }
    uint32_t start = node, shown = 0;
    do {
        const struct cs_net_node *n = &net->node[node];
        if (!n->is_meeting && shown++ < 8) {
            cs_buf_adds(&text, shown > 1 ? " waits for " : "");
            cs_action_text(c->program, n->rank, n->action, &text);
        }
        for (uint32_t i = 0; i < n->n_preds; i++)
            if (open[net->preds[n->first_pred + i]] > 0) {
                node = net->preds[n->first_pred + i];
                break;
            }
    } while (node != start);
    enum cs_status status = cs_fail(c->err, CS_PLAN, "program refused, it would hang: %s%s",
                                    cs_buf_str(&text), shown > 8 ? " ..." : "");
    cs_buf_free(&text);
    return status;
}

static enum cs_status check_acyclic(const struct checker *c, const struct cs_net *net)
{
    uint32_t *open = CS_NEW_ARRAY(c->arena, uint32_t, net->n_nodes + 1);
    uint32_t *ready = CS_NEW_ARRAY(c->arena, uint32_t, net->n_nodes + 1);
    uint32_t n_ready = 0, n_done = 0;
    for (uint32_t n = 0; n < net->n_nodes; n++) {
        open[n] = net->node[n].n_preds;
        if (open[n] == 0)
            ready[n_ready++] = n;
    }
    while (n_done < n_ready) {
        uint32_t n = ready[n_done++];
        for (uint32_t i = net->first_succ[n]; i < net->first_succ[n + 1]; i++)
            if (--open[net->succs[i]] == 0)
                ready[n_ready++] = net->succs[i];
    }
    return n_done == net->n_nodes ? CS_OK : report_circle(c, net, open);
}

static uint32_t *absent_ids(struct cs_arena *arena, size_t n)
{
    uint32_t *ids = CS_NEW_ARRAY(arena, uint32_t, n + 1);
    for (size_t i = 0; i < n; i++)
        ids[i] = NONE;
    return ids;
}

static enum cs_status verify(struct checker *c)
{
    const struct cs_program *program = c->program;
    size_t slots = (size_t)program->n_slots;
    CS_TRY(cs_net_check_shape(program, true, c->err));
    c->fwd = absent_ids(c->arena, (size_t)c->plan->n_stages * slots);
    c->bwd = absent_ids(c->arena, (size_t)c->plan->n_stages * slots);
    c->send = absent_ids(c->arena, 2 * (size_t)c->plan->n_edges * slots);
    c->recv = absent_ids(c->arena, 2 * (size_t)c->plan->n_edges * slots);
    for (int32_t r = 0; r < program->n_ranks; r++)
        CS_TRY(register_rank(c, r));
    CS_TRY(check_work(c));
    for (int32_t r = 0; r < program->n_ranks; r++)
        CS_TRY(check_end(c, r));
    struct cs_net net;
    cs_net_build(program, c->arena, &net);
    CS_TRY(check_pairs(c, &net));
    CS_TRY(check_groups(c, &net));
    return check_acyclic(c, &net);
}

enum cs_status cs_program_verify(const struct cs_program *program, struct cs_err *err)
{
    struct checker c = {
        .program = program, .plan = program->plan, .arena = cs_arena_new(0), .err = err};
    enum cs_status status = verify(&c);
    cs_arena_free(c.arena);
    return status;
}
