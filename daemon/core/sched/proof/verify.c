/* The proof that a program is complete and cannot hang, in three parts: every rank has the actions
 * that its stages ask for, with their dependencies; ranks meet pairwise and in groups; the precedence
 * graph has no cycle. */
#include "core/sched/proof/verify.h"

#include <stdio.h>
#include <string.h>

#include "core/sched/proof/find_cycle.h"
#include "core/sched/traits.h"

#define NONE CS_PRECEDENCE_NONE

enum flow { ROWS, GRAD, LEAD_ROWS, N_FLOWS };

struct checker {
    const struct cs_program *program;
    const struct cs_plan *plan;
    const struct cs_stage_traits *traits;
    struct cs_arena *arena;
    struct cs_err *err;
    /* action ids on the rank of the stage or edge end, NONE: absent */
    uint32_t *work;        /* (n_stages, N_WORKS, n_slots) */
    uint32_t *send, *recv; /* (n_edges, N_FLOWS, n_slots) */
    int32_t *sums;         /* (n_ranks) copies whose gradients are summed */
};

enum work { FORWARD, LEAD_FORWARD, WHOLE, INPUT, WEIGHT, N_WORKS };

static uint32_t *work_at(const struct checker *c, int32_t stage, enum work work, int32_t slot)
{
    return &c->work[((size_t)stage * N_WORKS + (size_t)work) * (size_t)c->program->n_slots +
                    (size_t)slot];
}

static size_t edge_at(const struct checker *c, int32_t edge, int flow, int32_t slot)
{
    return ((size_t)edge * N_FLOWS + (size_t)flow) * (size_t)c->program->n_slots + (size_t)slot;
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

/* where the table of the checker has the action; NULL: it is of no slot */
static uint32_t *cell_of(const struct checker *c, const struct cs_action *a)
{
    int flow = a->is_grad ? GRAD : a->lead ? LEAD_ROWS : ROWS;
    if (a->op == CS_OP_SEND)
        return &c->send[edge_at(c, a->edge, flow, a->slot)];
    if (a->op == CS_OP_RECV)
        return &c->recv[edge_at(c, a->edge, flow, a->slot)];
    if (!cs_op_is((enum cs_op)a->op, CS_OP_KIND_WORK))
        return NULL;
    const unsigned parts = cs_op_table[a->op].parts;
    return work_at(c, a->stage,
                   parts == CS_PART_FORWARD    ? a->lead ? LEAD_FORWARD : FORWARD
                   : parts == CS_PART_BACKWARD ? WHOLE
                   : parts == CS_PART_INPUT    ? INPUT
                                               : WEIGHT,
                   a->slot);
}

/* the backward that receives the gradient; NONE: absent */
static uint32_t grad_work(const struct checker *c, int32_t stage, int32_t slot)
{
    uint32_t whole = *work_at(c, stage, WHOLE, slot), input = *work_at(c, stage, INPUT, slot);
    return whole != NONE ? whole : input != NONE ? input : *work_at(c, stage, WEIGHT, slot);
}

/* the last work of the stage on the slot, which frees it; NONE: absent */
static uint32_t last_work(const struct checker *c, int32_t stage, int32_t slot)
{
    uint32_t weight = *work_at(c, stage, WEIGHT, slot), grad = grad_work(c, stage, slot);
    return weight != NONE ? weight : grad != NONE ? grad : *work_at(c, stage, FORWARD, slot);
}

/* a message stands on the rank of its end of the edge and names the rank of the other end */
static bool is_at_its_end(const struct checker *c, int32_t rank, const struct cs_action *a)
{
    const struct cs_edge *edge = &c->plan->edges[a->edge];
    int32_t from = c->plan->stages[edge->from].rank, to = c->plan->stages[edge->to].rank;
    bool at_producer = (a->op == CS_OP_SEND) != (a->is_grad != 0);
    return rank == (at_producer ? from : to) && a->peer == (at_producer ? to : from);
}

/* forwards of leading stages and what they send */
static bool may_lead(const struct checker *c, const struct cs_action *a)
{
    if (a->op == CS_OP_FWD)
        return c->traits[a->stage].leads;
    return cs_op_is((enum cs_op)a->op, CS_OP_KIND_MESSAGE) && !a->is_grad &&
           c->traits[c->plan->edges[a->edge].from].leads;
}

static enum cs_status register_rank(struct checker *c, int32_t rank)
{
    const struct cs_rank_program *rp = &c->program->rank[rank];
    for (uint32_t id = 0; id < rp->n_actions; id++) {
        const struct cs_action *a = &rp->actions[id];
        if (a->lead && !may_lead(c, a))
            return refuse(c, rank, id, "does not belong to a fully frozen encoder");
        if (cs_op_is((enum cs_op)a->op, CS_OP_KIND_MESSAGE) && !is_at_its_end(c, rank, a))
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

/* present exactly if wanted */
static enum cs_status check_presence(const struct checker *c, const struct cs_stage *stage,
                                     enum work work, int32_t slot, bool wants)
{
    static const char *const name[N_WORKS] = {"forward of", "forward for the next step of",
                                              "backward of", "input backward of",
                                              "weight backward of"};
    uint32_t id = *work_at(c, stage->id, work, slot);
    if (wants && id == NONE)
        return missing(c, name[work], stage->rank, stage->name, NULL, slot, "is missing");
    if (wants || id == NONE)
        return CS_OK;
    return refuse(c, stage->rank, id,
                  work >= WHOLE && !c->traits[stage->id].has_backward
                      ? "is not wanted: the stage has no backward"
                      : "is not wanted");
}

static enum cs_status check_stage(const struct checker *c, const struct cs_stage *stage,
                                  int32_t slot)
{
    const struct cs_stage_traits *t = &c->traits[stage->id];
    const struct cs_rank_program *rp = &c->program->rank[stage->rank];
    bool runs = cs_stage_runs(t, slot), wants = t->has_backward && runs;
    bool is_split =
        *work_at(c, stage->id, INPUT, slot) != NONE || *work_at(c, stage->id, WEIGHT, slot) != NONE;
    bool forward = runs && !cs_is_done_before(t, c->program->lead_before, slot);
    bool leads = runs && t->leads && slot < c->program->lead_after;
    CS_TRY(check_presence(c, stage, FORWARD, slot, forward));
    CS_TRY(check_presence(c, stage, LEAD_FORWARD, slot, leads));
    CS_TRY(check_presence(c, stage, WHOLE, slot, wants && !is_split));
    CS_TRY(check_presence(c, stage, INPUT, slot, wants && is_split && t->has_input_part));
    CS_TRY(check_presence(c, stage, WEIGHT, slot, wants && is_split && t->has_weight_part));
    uint32_t fwd = *work_at(c, stage->id, FORWARD, slot), grad = grad_work(c, stage->id, slot),
             last = last_work(c, stage->id, slot);
    if (wants && !depends_on(rp, grad, fwd))
        return refuse(c, stage->rank, grad, "does not depend on its forward");
    if (wants && last != grad && !depends_on(rp, last, grad))
        return refuse(c, stage->rank, last, "does not depend on its input backward");
    return CS_OK;
}

struct ends { /* of a flow for a slot: the action that makes the rows, and the one that uses them */
    const struct cs_stage *from, *to;
    uint32_t made, used; /* used NONE: by the next step */
    bool wants;
};

static struct ends ends_of(const struct checker *c, const struct cs_edge *edge, int flow,
                           int32_t slot)
{
    const struct cs_stage *a = &c->plan->stages[edge->from], *b = &c->plan->stages[edge->to];
    const struct cs_stage_traits *from = &c->traits[a->id], *to = &c->traits[b->id];
    bool runs = cs_stage_runs(from, slot) && cs_stage_runs(to, slot);
    if (flow == GRAD)
        return (struct ends){b, a, grad_work(c, b->id, slot), grad_work(c, a->id, slot),
                             runs && edge->has_grad && !c->program->is_eval};
    if (flow == LEAD_ROWS)
        return (struct ends){a, b, *work_at(c, a->id, LEAD_FORWARD, slot),
                             *work_at(c, b->id, LEAD_FORWARD, slot),
                             runs && from->leads && slot < c->program->lead_after};
    return (struct ends){a, b, *work_at(c, a->id, FORWARD, slot), *work_at(c, b->id, FORWARD, slot),
                         runs && !cs_is_done_before(from, c->program->lead_before, slot)};
}

/* rows for the next step must not overwrite rows that are still in use */
static enum cs_status check_lead_recv(const struct checker *c, const struct cs_edge *edge,
                                      int32_t slot, uint32_t recv)
{
    const struct cs_stage *to = &c->plan->stages[edge->to];
    if (depends_on(&c->program->rank[to->rank], recv, last_work(c, to->id, slot)))
        return CS_OK;
    return refuse(c, to->rank, recv, "does not wait until the rows before it are used");
}

/* one flow of an edge for one slot: producer -> send, recv -> consumer, or a local dependency */
static enum cs_status check_flow(const struct checker *c, const struct cs_edge *edge, int flow,
                                 int32_t slot)
{
    const struct ends x = ends_of(c, edge, flow, slot);
    const char *a = c->plan->stages[edge->from].name, *b = c->plan->stages[edge->to].name;
    const struct cs_rank_program *source = &c->program->rank[x.from->rank];
    const struct cs_rank_program *sink = &c->program->rank[x.to->rank];
    uint32_t send = c->send[edge_at(c, edge->id, flow, slot)];
    uint32_t recv = c->recv[edge_at(c, edge->id, flow, slot)];
    bool is_for_next = flow == LEAD_ROWS && !c->traits[x.to->id].leads;
    if (x.wants && (x.made == NONE || (x.used == NONE && !is_for_next)))
        return missing(c, "gradient of edge", x.from->rank, a, b, slot,
                       "flows, but one of the stages has no backward");
    if (!x.wants || x.from->rank == x.to->rank) {
        if (send != NONE)
            return refuse(c, x.from->rank, send, "is not wanted");
        if (recv != NONE)
            return refuse(c, x.to->rank, recv, "is not wanted");
        return !x.wants || depends_on(sink, x.used, x.made)
                   ? CS_OK
                   : refuse(c, x.to->rank, x.used, "does not depend on what it consumes");
    }
    if (send == NONE)
        return missing(c, flow == GRAD ? "send grad of edge" : "send rows of edge", x.from->rank, a,
                       b, slot, "is missing");
    if (recv == NONE)
        return missing(c, flow == GRAD ? "recv grad of edge" : "recv rows of edge", x.to->rank, a,
                       b, slot, "is missing");
    if (!depends_on(source, send, x.made))
        return refuse(c, x.from->rank, send, "does not depend on its producer");
    if (is_for_next)
        return check_lead_recv(c, edge, slot, recv);
    return depends_on(sink, x.used, recv)
               ? CS_OK
               : refuse(c, x.to->rank, x.used, "does not wait for its rows");
}

static enum cs_status check_work(const struct checker *c)
{
    for (int32_t s = 0; s < c->plan->n_stages; s++)
        for (int32_t slot = 0; slot < c->program->n_slots; slot++)
            CS_TRY(check_stage(c, &c->plan->stages[s], slot));
    for (int32_t e = 0; e < c->plan->n_edges; e++)
        for (int flow = 0; flow < N_FLOWS; flow++)
            for (int32_t slot = 0; slot < c->program->n_slots; slot++)
                CS_TRY(check_flow(c, &c->plan->edges[e], flow, slot));
    return CS_OK;
}

/* Gradients are added in slot order, or sums would depend on the schedule. */
static enum cs_status check_slot_order(const struct checker *c, int32_t rank, int32_t *last_slot)
{
    const struct cs_rank_program *rp = &c->program->rank[rank];
    for (uint32_t i = 0; i < rp->n_fifo[CS_STREAM_COMPUTE]; i++) {
        const struct cs_action *a = &rp->actions[rp->fifo[CS_STREAM_COMPUTE][i]];
        if (!cs_op_does((enum cs_op)a->op, CS_PART_WEIGHT))
            continue;
        if (a->slot < last_slot[a->stage])
            return refuse(c, rank, a->id, "comes after a later slot: gradients add in slot order");
        last_slot[a->stage] = a->slot;
    }
    return CS_OK;
}

/* sums over copies: one of every copy that has a backward, after the last of it, before NORM */
static enum cs_status check_copies(const struct checker *c, int32_t rank, uint32_t norm)
{
    const struct cs_rank_program *rp = &c->program->rank[rank];
    int32_t wants = c->sums[rank], seen = 0;
    for (uint32_t id = 0; id < rp->n_actions; id++) {
        const struct cs_action *a = &rp->actions[id];
        if (a->op != CS_OP_COPIES)
            continue;
        int32_t slot = cs_last_slot(&c->traits[a->stage], c->program->n_slots);
        if (!cs_sums_over_copies(c->plan, c->traits, a->stage))
            return refuse(c, rank, id, "is not wanted");
        for (uint32_t k = 0; k < id; k++)
            if (rp->actions[k].op == CS_OP_COPIES && rp->actions[k].stage == a->stage)
                return refuse(c, rank, id, "is there twice");
        if (slot >= 0 && !depends_on(rp, id, last_work(c, a->stage, slot)))
            return refuse(c, rank, id, "does not wait for the last backward of its stage");
        if (!depends_on(rp, norm, id))
            return refuse(c, rank, norm, "does not wait for the sum over the copies");
        seen++;
    }
    return seen == wants ? CS_OK
                         : cs_fail(c->err, CS_PLAN,
                                   "program refused: rank %d sums gradients over copies %d times, "
                                   "not %d",
                                   rank, seen, wants);
}

/* Where several ranks hold the same weights: gradients are summed before their norm, and updated weights are everywhere at the
 * end of the step. */
static enum cs_status check_replicas(const struct checker *c, int32_t rank, const uint32_t *seen,
                                     const uint32_t *at)
{
    const struct cs_rank_program *rp = &c->program->rank[rank];
    const uint32_t wants = !c->program->is_eval && cs_plan_holders(c->plan, rank) > 1 ? 1 : 0;
    if (seen[CS_OP_REDUCE] != wants || seen[CS_OP_GATHER] != wants)
        return cs_fail(c->err, CS_PLAN,
                       "program refused: rank %d sums gradients over replicas %u times and gathers "
                       "weights %u times, not %u",
                       rank, seen[CS_OP_REDUCE], seen[CS_OP_GATHER], wants);
    if (wants && seen[CS_OP_TIED] && !depends_on(rp, at[CS_OP_TIED], at[CS_OP_REDUCE]))
        return refuse(c, rank, at[CS_OP_TIED], "does not wait for the sum over the replicas");
    if (wants && !depends_on(rp, at[CS_OP_NORM], at[CS_OP_REDUCE]))
        return refuse(c, rank, at[CS_OP_NORM], "does not wait for the sum over the replicas");
    if (wants && !depends_on(rp, at[CS_OP_GATHER], at[CS_OP_STEP]))
        return refuse(c, rank, at[CS_OP_GATHER], "does not wait for the optimizer step");
    if (wants && !depends_on(rp, at[CS_OP_MARK], at[CS_OP_GATHER]))
        return refuse(c, rank, at[CS_OP_MARK], "does not wait for the weights");
    return CS_OK;
}

/* Where ranks share the matrices of their stages: one sum of what they have in parts, before replicas
 * sum and before the norm. */
static enum cs_status check_tensors(const struct checker *c, int32_t rank, const uint32_t *seen,
                                    const uint32_t *at)
{
    const struct cs_rank_program *rp = &c->program->rank[rank];
    const int32_t group =
        cs_plan_group(c->plan, CS_GROUP_TP, -1, cs_plan_rank_of(c->plan, 0, rank));
    const uint32_t wants = !c->program->is_eval && group >= 0 ? 1 : 0;
    if (seen[CS_OP_TENSORS] != wants)
        return cs_fail(c->err, CS_PLAN,
                       "program refused: rank %d sums gradients over the ranks of its stage %u "
                       "times, not %u",
                       rank, seen[CS_OP_TENSORS], wants);
    if (wants && !depends_on(rp, at[CS_OP_NORM], at[CS_OP_TENSORS]))
        return refuse(c, rank, at[CS_OP_NORM], "does not wait for the sum over the stage's ranks");
    if (wants && seen[CS_OP_REDUCE] && !depends_on(rp, at[CS_OP_REDUCE], at[CS_OP_TENSORS]))
        return refuse(c, rank, at[CS_OP_REDUCE],
                      "does not wait for the sum over the stage's ranks");
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
        if (cell_of(c, &rp->actions[id]) || op == CS_OP_COPIES)
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
    CS_TRY(check_tensors(c, rank, seen, at));
    CS_TRY(check_replicas(c, rank, seen, at));
    return check_copies(c, rank, at[CS_OP_NORM]);
}

static enum cs_status check_pairs(const struct checker *c, const struct cs_precedence *graph)
{
    for (uint32_t i = 0; i < graph->n_pairs; i++) {
        const struct cs_precedence_pair *p = &graph->pair[i];
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

static enum cs_status check_groups(const struct checker *c, const struct cs_precedence *graph)
{
    for (uint32_t i = 0; i < graph->n_groups; i++) {
        const struct cs_precedence_group *g = &graph->group[i];
        char what[64];
        if (g->absent < 0)
            continue;
        snprintf(what, sizeof what, "waits for rank %d, which never joins", g->absent);
        return refuse(c, g->rank, g->action, what);
    }
    return CS_OK;
}

static enum cs_status check_acyclic(const struct checker *c, const struct cs_precedence *graph)
{
    uint32_t *open = NULL;
    if (cs_precedence_is_acyclic(graph, c->arena, &open))
        return CS_OK;
    struct cs_buf text = {0};
    cs_precedence_cycle_text(graph, open, c->arena, &text);
    enum cs_status status =
        cs_fail(c->err, CS_PLAN, "program refused, it would hang: %s", cs_buf_str(&text));
    cs_buf_free(&text);
    return status;
}

static uint32_t *absent_ids(struct cs_arena *arena, size_t n)
{
    uint32_t *ids = CS_NEW_ARRAY(arena, uint32_t, n + 1);
    memset(ids, 0xff, n * sizeof *ids);
    return ids;
}

static enum cs_status verify(struct checker *c)
{
    const struct cs_program *program = c->program;
    size_t slots = (size_t)program->n_slots;
    CS_TRY(cs_precedence_check_shape(program, true, c->err));
    c->traits = cs_traits_make(c->plan, program->is_eval, program->share, c->arena);
    c->work = absent_ids(c->arena, (size_t)c->plan->n_stages * N_WORKS * slots);
    c->send = absent_ids(c->arena, (size_t)c->plan->n_edges * N_FLOWS * slots);
    c->recv = absent_ids(c->arena, (size_t)c->plan->n_edges * N_FLOWS * slots);
    for (int32_t r = 0; r < program->n_ranks; r++)
        CS_TRY(register_rank(c, r));
    CS_TRY(check_work(c));
    c->sums = CS_NEW_ARRAY(c->arena, int32_t, program->n_ranks + 1);
    for (int32_t s = 0; s < c->plan->n_stages && !program->is_eval; s++)
        c->sums[c->plan->stages[s].rank] += cs_sums_over_copies(c->plan, c->traits, s);
    int32_t *last_slot = CS_NEW_ARRAY(c->arena, int32_t, c->plan->n_stages + 1);
    for (int32_t r = 0; r < program->n_ranks; r++) {
        CS_TRY(check_end(c, r));
        CS_TRY(check_slot_order(c, r, last_slot));
    }
    struct cs_precedence graph;
    cs_precedence_build(program, c->arena, &graph);
    CS_TRY(check_pairs(c, &graph));
    CS_TRY(check_groups(c, &graph));
    return check_acyclic(c, &graph);
}

enum cs_status cs_program_verify(const struct cs_program *program, struct cs_err *err)
{
    struct checker c = {
        .program = program, .plan = program->plan, .arena = cs_arena_new(0), .err = err};
    enum cs_status status = verify(&c);
    cs_arena_free(c.arena);
    return status;
}
