/* Proves which rows between stages may lie in the same buffer.
 *
 * Why this cannot hang: a buffer is not waited for. Which buffer rows lie in is fixed before the
 * step and adds no dependency to the program, whose graph was proved free of circles with a buffer
 * for every slot (core/sched/proof/verify.c). With the same graph, whatever order of events was
 * possible with a buffer for every slot is possible now, and no other.
 *
 * What has to be proved instead: rows B may lie where rows A lay only when every order of events
 * has A read to its end before B is written at all. The proof uses what the interpreter does on
 * every device:
 *  - compute actions of a rank run one behind the other, in the order of its compute stream;
 *  - rows are sent after the action that makes them has ended, and the action that reads them
 *    begins after they have arrived. Nothing arrives before the send has begun; what has arrived as
 *    a whole has been read as a whole where it came from.
 * Hence a clock per rank: the first compute action that is known to begin after A was read. On the
 * rank of A's reader it is the one behind it. If A was read by a message it is, on the rank where
 * the message went, the action that reads it there. Any message that an action at or after the
 * clock of its rank has made sets the clock of the rank where it goes to the action that reads it.
 * B is safe when the action that makes it - here, or on the rank that sends it - is at or after the
 * clock of its rank.
 *
 * Messages without rows do not happen and order nothing. Which they are differs from step to step,
 * and the plan holds for every step; so only messages count that must be there when both A and B
 * have rows: those of their two slots on edges with rows of the same branch. Order of messages of
 * one channel is not used, nor any wait that only some device has.
 *
 * Where several ranks run one program each of them is such a rank, and so are its opposites, as long as
 * everybody has messages with one opposite. Between stages that different numbers of ranks share that is
 * not so: some neither send nor are sent to, and nothing is proved about them; there all rows have
 * buffers of their own. */
#include <stdlib.h>

#include "worker/memory/plan.h"

enum { FLOWS = 2 }; /* rows, gradients */

#define NEVER UINT32_MAX

/* Rows of an edge, or their gradient, of one slot: places of the actions that make and read them in
 * the compute streams of their ranks. NEVER: not in this program. */
struct crossing {
    uint32_t made, read;
};

/* One filling of a buffer of this rank. */
struct use {
    const struct crossing *rows;
    int32_t slot, from, to; /* ranks */
    int is_grad;
    uint32_t at;     /* place of the action of this rank */
    int32_t buffer;  /* result */
    uint32_t *clock; /* (n_ranks) what messages of its own slot prove */
};

struct search {
    const struct cs_program *program;
    int rank;
    struct crossing *crossing; /* (n_edges, n_slots, 2) */
    struct use *use;           /* (2 n_slots) of one edge */
    uint32_t n_uses;
    uint32_t *clocks; /* (2 n_slots + 1, n_ranks) */
    uint32_t *clock;  /* of the pair that is looked at */
    int32_t *beside;  /* (n_edges) edges between ranks with rows of the same branch */
    int32_t n_beside;
    bool is_uneven; /* some of them are between stages that different numbers of ranks share */
};

static int32_t rank_of(const struct search *s, int32_t stage)
{
    return s->program->plan->stages[stage].rank;
}

static struct crossing *crossing_at(const struct search *s, int32_t edge, int32_t slot, int is_grad)
{
    return &s->crossing[((size_t)edge * (size_t)s->program->n_slots + (size_t)slot) * FLOWS +
                        (size_t)is_grad];
}

/* ---- who makes and reads what ---- */

/* A gradient is read and made by the first of a slot's backwards on a stage: the whole one, the
 * input half, or the weight half where there is no other. */
static void note_edge(struct search *s, int32_t edge, int32_t stage)
{
    const struct cs_edge *e = &s->program->plan->edges[edge];
    const struct cs_rank_program *p = &s->program->rank[rank_of(s, stage)];
    for (uint32_t i = 0; i < p->n_fifo[CS_STREAM_COMPUTE]; i++) {
        const struct cs_action *a = &p->actions[p->fifo[CS_STREAM_COMPUTE][i]];
        const enum cs_op op = (enum cs_op)a->op;
        const bool is_fwd = cs_op_does(op, CS_PART_FORWARD);
        if (a->stage != stage || (!is_fwd && !(e->has_grad && cs_op_does(op, CS_PART_BACKWARD))))
            continue;
        struct crossing *c = crossing_at(s, edge, a->slot, !is_fwd);
        uint32_t *place = (stage == e->from) == is_fwd ? &c->made : &c->read;
        *place = *place == NEVER ? i : *place;
    }
}

static void note_all(struct search *s)
{
    const struct cs_plan *plan = s->program->plan;
    const size_t n = (size_t)plan->n_edges * (size_t)s->program->n_slots * FLOWS;
    for (size_t i = 0; i < n; i++)
        s->crossing[i] = (struct crossing){NEVER, NEVER};
    for (int32_t e = 0; e < plan->n_edges; e++) {
        note_edge(s, e, plan->edges[e].from);
        note_edge(s, e, plan->edges[e].to);
    }
}

/* ---- what is known to come after what ---- */

/* One message, if it is one of this program. Does the clock change? */
static bool carry(const struct search *s, int32_t edge, int32_t slot, int is_grad, uint32_t *clock)
{
    const struct cs_edge *e = &s->program->plan->edges[edge];
    const struct crossing *c = crossing_at(s, edge, slot, is_grad);
    const int32_t from = rank_of(s, is_grad ? e->to : e->from),
                  to = rank_of(s, is_grad ? e->from : e->to);
    if (c->made == NEVER || c->read == NEVER || clock[from] > c->made || clock[to] <= c->read)
        return false;
    clock[to] = c->read;
    return true;
}

/* All that messages of the two slots prove. Against the chain first: gradients come back. */
static void carry_all(const struct search *s, int32_t one, int32_t other, uint32_t *clock)
{
    bool changes = true;
    while (changes) {
        changes = false;
        for (int32_t i = 0; i < s->n_beside; i++)
            for (int k = 0; k < 2; k++) {
                const int32_t slot = k == 0 ? one : other;
                changes |= carry(s, s->beside[i], slot, 0, clock);
                changes |= carry(s, s->beside[s->n_beside - 1 - i], slot, 1, clock);
            }
    }
}

static void start_clock(const struct search *s, struct use *u)
{
    const bool is_sent = u->from == s->rank && u->to != s->rank;
    for (int r = 0; r < s->program->n_ranks; r++)
        u->clock[r] = NEVER;
    u->clock[u->to] = is_sent ? u->rows->read : u->rows->read + 1;
    carry_all(s, u->slot, u->slot, u->clock);
}

/* The second one is written only after the first one was read. */
static bool follows(const struct search *s, const struct use *first, const struct use *second)
{
    if (first->clock[second->from] <= second->rows->made)
        return true;
    for (int r = 0; r < s->program->n_ranks; r++)
        s->clock[r] = first->clock[r];
    carry_all(s, first->slot, second->slot, s->clock);
    return s->clock[second->from] <= second->rows->made;
}

/* ---- buffers ---- */

static int by_place(const void *a, const void *b)
{
    const struct use *x = a, *y = b;
    if (x->at != y->at)
        return x->at > y->at ? 1 : -1;
    return (x->is_grad > y->is_grad) - (x->is_grad < y->is_grad);
}

static void list_uses(struct search *s, int32_t edge)
{
    const struct cs_edge *e = &s->program->plan->edges[edge];
    s->n_uses = 0;
    for (int32_t i = 0; i < s->program->n_slots * FLOWS; i++) {
        const int is_grad = i % FLOWS;
        const struct crossing *c = crossing_at(s, edge, i / FLOWS, is_grad);
        struct use u = {.rows = c,
                        .slot = i / FLOWS,
                        .from = rank_of(s, is_grad ? e->to : e->from),
                        .to = rank_of(s, is_grad ? e->from : e->to),
                        .is_grad = is_grad};
        if (c->made == NEVER || c->read == NEVER)
            continue;
        u.at = u.from == s->rank ? c->made : c->read;
        s->use[s->n_uses++] = u;
    }
    qsort(s->use, s->n_uses, sizeof *s->use, by_place);
    for (uint32_t i = 0; i < s->n_uses; i++)
        s->use[i].clock = s->clocks + (size_t)i * (size_t)s->program->n_ranks;
}

static void list_beside(struct search *s, int32_t edge)
{
    const struct cs_plan *plan = s->program->plan;
    s->n_beside = 0;
    s->is_uneven = cs_plan_is_uneven(plan, edge);
    for (int32_t i = 0; i < plan->n_edges; i++)
        if (plan->stages[plan->edges[i].from].branch ==
                plan->stages[plan->edges[edge].from].branch &&
            rank_of(s, plan->edges[i].from) != rank_of(s, plan->edges[i].to))
            s->beside[s->n_beside++] = i;
}

/* with all that lie there: that one follows the next and that a third does not prove that it
 * follows the third, for the one between may have no rows */
static bool fits(const struct search *s, const struct use *use, int32_t buffer)
{
    for (const struct use *other = use; other-- > s->use;)
        if (other->buffer == buffer && !follows(s, other, use))
            return false;
    return true;
}

static int32_t share_edge(struct search *s, int32_t edge, int32_t *buffer)
{
    int32_t n = 0;
    list_beside(s, edge);
    list_uses(s, edge);
    for (uint32_t i = 0; i < s->n_uses; i++) {
        struct use *use = &s->use[i];
        int32_t b = 0;
        start_clock(s, use);
        while (b < n && (s->is_uneven || !fits(s, use, b)))
            b++;
        use->buffer = b;
        n = b == n ? n + 1 : n;
        buffer[use->slot * FLOWS + use->is_grad] = b;
    }
    return n;
}

static bool open_search(struct search *s)
{
    const size_t n_slots = (size_t)s->program->n_slots, n_ranks = (size_t)s->program->n_ranks;
    const size_t n_edges = (size_t)s->program->plan->n_edges;
    s->crossing = calloc(n_edges * n_slots * FLOWS + 1, sizeof *s->crossing);
    s->use = calloc(n_slots * FLOWS + 1, sizeof *s->use);
    s->clocks = calloc((n_slots * FLOWS + 1) * n_ranks, sizeof *s->clocks);
    s->clock = calloc(n_ranks + 1, sizeof *s->clock);
    s->beside = calloc(n_edges + 1, sizeof *s->beside);
    return s->crossing != NULL && s->use != NULL && s->clocks != NULL && s->clock != NULL &&
           s->beside != NULL;
}

static void close_search(struct search *s)
{
    free(s->crossing);
    free(s->use);
    free(s->clocks);
    free(s->clock);
    free(s->beside);
}

enum cs_status cs_memory_buffers(const struct cs_program *program, int rank, int32_t *buffer,
                                 int32_t *n_buffers, struct cs_err *err)
{
    struct search s = {.program = program, .rank = rank};
    const struct cs_plan *plan = program->plan;
    const size_t per_edge = (size_t)program->n_slots * FLOWS;
    if (!open_search(&s)) {
        close_search(&s);
        return cs_fail(err, CS_NO_MEMORY, "no memory to plan the buffers of %d slots",
                       program->n_slots);
    }
    note_all(&s);
    for (size_t i = 0; i < (size_t)plan->n_edges * per_edge; i++)
        buffer[i] = -1;
    for (int32_t e = 0; e < plan->n_edges; e++) {
        const bool is_mine =
            rank_of(&s, plan->edges[e].from) == rank || rank_of(&s, plan->edges[e].to) == rank;
        n_buffers[e] = is_mine ? share_edge(&s, e, buffer + (size_t)e * per_edge) : 0;
    }
    close_search(&s);
    return CS_OK;
}
