/* Proves which rows between stages may lie in the same buffer.
 *
 * Why this cannot hang: a buffer is not waited for. Which buffer rows lie in is fixed before the
 * step and adds no dependency to the program, whose graph was proved free of circles with a buffer
 * for every slot (sched/proof/verify.c). With the same graph, whatever order of events was
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
 * rank of A's reader it is the one behind it, and where what the reader sends goes the action that reads
 * that. If A was read by a message it is, on the rank where
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
 * Looked at from the other end, messages of B's slot say what was done when B is made: a mark per rank, the last
 * compute action that is known to have begun by then. B follows A where on any rank A's clock is not behind
 * B's mark.
 *
 * Where several ranks run one program each of them is such a rank, and so are its opposites, as long as
 * everybody has messages with one opposite. Between stages that different numbers of ranks share that is
 * not so: some neither send nor are sent to, and nothing is proved about them; there all rows have
 * buffers of their own. */
#include "core/sched/buffers.h"

#include <stdlib.h>

/* With more ranks than NEAR only messages between the two ends of an edge are looked at: of long chains they prove as
 * much, of chunks that go round many ranks less. */
enum { FLOWS = 2 /* rows, gradients */, NEAR = 32 };

#define NEVER INT32_MAX

/* Rows of an edge, or their gradient, of one slot: places of the actions that make and read them in
 * the compute streams of their ranks. NEVER: not in this step. */
struct cs_crossing {
    int32_t made, read;
};

/* Of ranks that are looked at (near). One that is not there follows nothing and nothing follows it: made -1, read NEVER. */
struct cs_crossing_message {
    int32_t from, to, made, read;
};

/* One filling of a buffer of a rank. */
struct use {
    const struct cs_crossing *rows;
    int32_t slot, from, to; /* ranks */
    int is_grad;
    int32_t at;             /* place of the action of this rank */
    int32_t buffer;         /* result */
    int32_t before;         /* use[] that lies there too, the last one; -1: none */
    int32_t *clock, *mark;  /* (n_near) what messages of its own slot prove, */
    uint32_t clocks, marks; /* of which ranks, by bits: NEAR at most */
};

struct search {
    const struct cs_buffers *of;
    int32_t rank;
    bool is_apart;   /* all rows of the edge have buffers of their own */
    struct use *use; /* (2 n_slots) of the edge */
    int32_t n_uses;
    int32_t *near; /* (n_ranks) index of ranks that are looked at, -1: it is not */
    int32_t n_near;
    int32_t *beside; /* (n_edges) edges between these with rows of the same branch */
    int32_t n_beside;
    const struct cs_crossing_message *message; /* (n_slots, FLOWS n_beside) */
    int32_t *latest;  /* (n_uses, n_near) of each buffer the latest clocks of all that lie there */
    uint32_t *clocks; /* (n_uses) of which ranks, by bits */
    int32_t *last;    /* (n_uses) of each buffer the use[] that was put there last, -1: none */
};

static int32_t rank_of(const struct cs_buffers *of, int32_t stage)
{
    return of->plan->stages[stage].rank;
}

static struct cs_crossing *crossing_at(const struct cs_buffers *of, int32_t edge, int32_t slot,
                                       int is_grad)
{
    return &of->crossing[((int64_t)edge * of->n_slots + slot) * FLOWS + is_grad];
}

/* ---- who makes and reads what ---- */

/* A gradient is read and made by the first of a slot's backwards on a stage: the whole one, the
 * input half, or the weight half where there is no other. */
static void note_edge(const struct cs_buffers *of, int32_t edge, int32_t stage)
{
    const struct cs_edge *e = &of->plan->edges[edge];
    const struct cs_kept_order *order = &of->order[rank_of(of, stage)];
    for (uint32_t i = 0; i < order->n; i++) {
        const struct cs_kept_item *a = &order->item[i];
        const bool is_fwd = cs_op_does((enum cs_op)a->op, CS_PART_FORWARD),
                   is_bwd = cs_op_does((enum cs_op)a->op, CS_PART_BACKWARD);
        if (a->stage != stage || (!is_fwd && !(e->has_grad && is_bwd)))
            continue;
        struct cs_crossing *c = crossing_at(of, edge, a->slot, !is_fwd);
        int32_t *place = (stage == e->from) == is_fwd ? &c->made : &c->read;
        *place = *place == NEVER ? (int32_t)i : *place;
    }
}

static int32_t branch_of(const struct cs_plan *plan, int32_t edge)
{
    return plan->stages[plan->edges[edge].from].branch;
}

static void list_edges(const struct cs_buffers *of)
{
    for (int32_t r = 0; r < of->plan->n_ranks; r++)
        of->first_from[r] = of->near[r] = -1;
    for (int32_t e = of->plan->n_edges; e-- > 0;) {
        int32_t *first = &of->first_from[rank_of(of, of->plan->edges[e].from)];
        of->next_from[e] = *first;
        *first = e;
    }
}

struct cs_buffers cs_buffers_make(const struct cs_plan *plan, const struct cs_kept_order *order,
                                  int32_t n_slots, struct cs_arena *scratch)
{
    const int64_t n = (int64_t)plan->n_edges * n_slots * FLOWS;
    struct cs_buffers of = {
        .plan = plan,
        .order = order,
        .n_slots = n_slots,
        .crossing = CS_NEW_ARRAY(scratch, struct cs_crossing, n + 1),
        .is_apart = CS_NEW_ARRAY(scratch, bool, plan->n_edges + 1),
        .first_from = CS_NEW_ARRAY(scratch, int32_t, plan->n_ranks + 1),
        .next_from = CS_NEW_ARRAY(scratch, int32_t, plan->n_edges + 1),
        .near = CS_NEW_ARRAY(scratch, int32_t, plan->n_ranks + 1),
        .beside = CS_NEW_ARRAY(scratch, int32_t, plan->n_edges + 1),
        .message = CS_NEW_ARRAY(scratch, const struct cs_crossing_message *, plan->n_edges + 1),
        .scratch = scratch};
    for (int64_t i = 0; i < n; i++)
        of.crossing[i] = (struct cs_crossing){NEVER, NEVER};
    list_edges(&of);
    for (int32_t e = 0; e < plan->n_edges; e++) {
        note_edge(&of, e, plan->edges[e].from);
        note_edge(&of, e, plan->edges[e].to);
        of.is_apart[e] = e > 0 && branch_of(plan, e) == branch_of(plan, e - 1)
                             ? of.is_apart[e - 1]
                             : cs_plan_is_uneven(plan, e);
    }
    return of;
}

/* ---- what is known to come after what ---- */

/* Those that a slot may have: rows along the chain first, then gradients against it, so that what one lets another rank
 * send stands behind it. */
static void list_messages(const struct search *s, int32_t slot, struct cs_crossing_message *out)
{
    for (int32_t k = 0; k < FLOWS * s->n_beside; k++) {
        const int is_grad = k >= s->n_beside;
        const int32_t edge = s->beside[is_grad ? FLOWS * s->n_beside - 1 - k : k];
        const struct cs_edge *e = &s->of->plan->edges[edge];
        const int32_t from = s->near[rank_of(s->of, e->from)], to = s->near[rank_of(s->of, e->to)];
        const struct cs_crossing *at = crossing_at(s->of, edge, slot, is_grad);
        const bool is_there = at->made != NEVER && at->read != NEVER;
        out[k] =
            (struct cs_crossing_message){is_grad ? to : from, is_grad ? from : to,
                                         is_there ? at->made : -1, is_there ? at->read : NEVER};
    }
}

/* Where all ranks are near, edges of a branch have the same: they are kept by the first of these. */
static void find_messages(struct search *s)
{
    const struct cs_buffers *of = s->of;
    const int32_t n = FLOWS * s->n_beside;
    const struct cs_crossing_message **known = &of->message[s->n_beside > 0 ? s->beside[0] : 0];
    s->message = of->plan->n_ranks <= NEAR && n > 0 ? *known : NULL;
    if (s->message != NULL)
        return;
    struct cs_crossing_message *all =
        CS_NEW_ARRAY(of->scratch, struct cs_crossing_message, (int64_t)of->n_slots * n + 1);
    for (int32_t slot = 0; slot < of->n_slots; slot++)
        list_messages(s, slot, all + (int64_t)slot * n);
    s->message = all;
    if (of->plan->n_ranks <= NEAR && n > 0)
        *known = all;
}

static const struct cs_crossing_message *messages_of(const struct search *s, const struct use *u)
{
    return s->message + (int64_t)u->slot * FLOWS * s->n_beside;
}

static uint32_t ranks_with(const struct search *s, const int32_t *at, int32_t none)
{
    uint32_t ranks = 0;
    for (int32_t r = 0; r < s->n_near; r++)
        ranks |= (uint32_t)(at[r] != none) << r;
    return ranks;
}

/* What the action that reads the rows itself makes and sends: it has ended where that arrives. */
static void start_clock(const struct search *s, struct use *u)
{
    const bool is_sent = u->from == s->rank && u->to != s->rank;
    const int32_t reader = s->near[u->to];
    const struct cs_crossing_message *m = messages_of(s, u);
    for (int32_t r = 0; r < s->n_near; r++)
        u->clock[r] = NEVER;
    u->clock[reader] = is_sent ? u->rows->read : u->rows->read + 1;
    for (int32_t k = 0; k < FLOWS * s->n_beside; k++)
        if (m[k].from == reader && m[k].made == u->rows->read && m[k].read < u->clock[m[k].to])
            u->clock[m[k].to] = m[k].read;
}

/* All that messages of its slot prove. */
static void find_clock(const struct search *s, struct use *u)
{
    const struct cs_crossing_message *m = messages_of(s, u);
    start_clock(s, u);
    for (int32_t k = 0; k < FLOWS * s->n_beside; k++)
        if (u->clock[m[k].from] <= m[k].made && u->clock[m[k].to] > m[k].read)
            u->clock[m[k].to] = m[k].read;
    u->clocks = ranks_with(s, u->clock, NEVER);
}

static void find_mark(const struct search *s, struct use *u)
{
    const struct cs_crossing_message *m = messages_of(s, u);
    for (int32_t r = 0; r < s->n_near; r++)
        u->mark[r] = -1;
    u->mark[s->near[u->from]] = u->rows->made;
    for (int32_t k = FLOWS * s->n_beside; k-- > 0;)
        if (m[k].read <= u->mark[m[k].to] && u->mark[m[k].from] < m[k].made)
            u->mark[m[k].from] = m[k].made;
    u->marks = ranks_with(s, u->mark, -1);
}

/* On one of these ranks the clock is not behind the mark. */
static bool is_past(const int32_t *clock, const int32_t *mark, uint32_t ranks)
{
    for (; ranks != 0; ranks &= ranks - 1) {
        const int r = __builtin_ctz(ranks);
        if (clock[r] <= mark[r])
            return true;
    }
    return false;
}

/* The second one is written only after the first one was read; its mark on the rank that makes it is that action. */
static bool follows(const struct use *first, const struct use *second)
{
    return is_past(first->clock, second->mark, first->clocks & second->marks);
}

/* ---- buffers ---- */

static int by_place(const void *a, const void *b)
{
    const struct use *x = a, *y = b;
    if (x->at != y->at)
        return x->at > y->at ? 1 : -1;
    return (x->is_grad > y->is_grad) - (x->is_grad < y->is_grad);
}

/* of the edge, whichever of its ranks asks; nothing is proved where all have buffers of their own */
static void list_uses(struct search *s, int32_t edge)
{
    const struct cs_edge *e = &s->of->plan->edges[edge];
    const int32_t most = s->of->n_slots * FLOWS, n_near = s->is_apart ? 0 : s->n_near;
    int32_t *known = CS_NEW_ARRAY(s->of->scratch, int32_t, 2 * (int64_t)most * n_near + 1);
    s->use = CS_NEW_ARRAY(s->of->scratch, struct use, most + 1);
    for (int32_t i = 0; i < most; i++) {
        const int is_grad = i % FLOWS;
        const struct cs_crossing *c = crossing_at(s->of, edge, i / FLOWS, is_grad);
        if (c->made == NEVER || c->read == NEVER)
            continue;
        struct use *u = &s->use[s->n_uses++];
        *u = (struct use){.rows = c,
                          .slot = i / FLOWS,
                          .from = rank_of(s->of, is_grad ? e->to : e->from),
                          .to = rank_of(s->of, is_grad ? e->from : e->to),
                          .is_grad = is_grad,
                          .clock = known + 2 * (int64_t)i * n_near};
        u->mark = u->clock + n_near;
        if (!s->is_apart)
            find_mark(s, u);
    }
    s->clocks = CS_NEW_ARRAY(s->of->scratch, uint32_t, s->n_uses + 1);
    s->latest = CS_NEW_ARRAY(s->of->scratch, int32_t, (int64_t)s->n_uses * n_near + 1);
    s->last = CS_NEW_ARRAY(s->of->scratch, int32_t, s->n_uses + 1);
}

/* as they follow each other on one of its ranks, with what that rank knows */
static void order_uses(struct search *s, int32_t rank)
{
    s->rank = rank;
    for (int32_t i = 0; i < s->n_uses; i++) {
        struct use *u = &s->use[i];
        u->at = u->from == rank ? u->rows->made : u->rows->read;
        s->last[i] = -1;
        if (!s->is_apart)
            find_clock(s, u);
    }
    qsort(s->use, (size_t)s->n_uses, sizeof *s->use, by_place);
}

/* The ends of an edge, the lower one first; both may be one. */
struct ends {
    int32_t rank[2];
};

static struct ends ends_of(const struct search *s, int32_t edge)
{
    const struct cs_edge *e = &s->of->plan->edges[edge];
    const int32_t from = rank_of(s->of, e->from), to = rank_of(s->of, e->to);
    return from < to ? (struct ends){{from, to}} : (struct ends){{to, from}};
}

static void list_near(struct search *s, struct ends ends)
{
    const int32_t n_ranks = s->of->plan->n_ranks;
    s->near = s->of->near;
    for (int32_t r = 0; n_ranks <= NEAR && r < n_ranks; r++)
        s->near[r] = s->n_near++;
    for (int i = 0; n_ranks > NEAR && i < 2; i++)
        if (s->near[ends.rank[i]] < 0)
            s->near[ends.rank[i]] = s->n_near++;
}

/* for the next search; of many ranks all others are -1 all the time */
static void forget_near(struct search *s, struct ends ends)
{
    if (s->of->plan->n_ranks > NEAR)
        s->near[ends.rank[0]] = s->near[ends.rank[1]] = -1;
}

static void add_beside(struct search *s, int32_t edge, int32_t other)
{
    const struct cs_plan *plan = s->of->plan;
    const int32_t from = rank_of(s->of, plan->edges[other].from),
                  to = rank_of(s->of, plan->edges[other].to);
    if (branch_of(plan, other) == branch_of(plan, edge) && s->near[from] >= 0 && s->near[to] >= 0 &&
        from != to)
        s->beside[s->n_beside++] = other;
}

/* In the order of edges. Of many ranks only what begins on one of the two is looked at. */
static void list_beside(struct search *s, int32_t edge, struct ends ends)
{
    const struct cs_plan *plan = s->of->plan;
    s->beside = s->of->beside;
    if (plan->n_ranks <= NEAR) {
        for (int32_t i = 0; i < plan->n_edges; i++)
            add_beside(s, edge, i);
        return;
    }
    int32_t a = s->of->first_from[ends.rank[0]],
            b = ends.rank[0] != ends.rank[1] ? s->of->first_from[ends.rank[1]] : -1;
    while (a >= 0 || b >= 0) {
        int32_t *next = b < 0 || (a >= 0 && a < b) ? &a : &b;
        add_beside(s, edge, *next);
        *next = s->of->next_from[*next];
    }
}

/* with all that lie there: that one follows the next and that a third does not prove that it
 * follows the third, for the one between may have no rows. Most often a rank's latest clock is not behind already. */
static bool fits(const struct search *s, const struct use *use, int32_t buffer)
{
    if (is_past(s->latest + (int64_t)buffer * s->n_near, use->mark, s->clocks[buffer] & use->marks))
        return true;
    for (int32_t i = s->last[buffer]; i >= 0; i = s->use[i].before)
        if (!follows(&s->use[i], use))
            return false;
    return true;
}

/* in this buffer, which nothing else or others have as well */
static void put(struct search *s, struct use *use, int32_t buffer, bool is_first)
{
    int32_t *latest = s->latest + (int64_t)buffer * s->n_near;
    use->buffer = buffer;
    if (s->is_apart)
        return;
    s->clocks[buffer] = is_first ? use->clocks : s->clocks[buffer] & use->clocks;
    use->before = s->last[buffer];
    s->last[buffer] = (int32_t)(use - s->use);
    for (int32_t r = 0; r < s->n_near; r++)
        if (is_first || use->clock[r] > latest[r])
            latest[r] = use->clock[r];
}

/* to be forgotten (forget_near) before another is looked at */
static struct search look_at(const struct cs_buffers *of, int32_t edge)
{
    struct search s = {.of = of, .is_apart = of->is_apart[edge]};
    const struct ends ends = ends_of(&s, edge);
    list_near(&s, ends);
    list_beside(&s, edge, ends);
    find_messages(&s);
    list_uses(&s, edge);
    return s;
}

/* Puts all of them somewhere -> how many buffers that takes on a rank. */
static int32_t share(struct search *s, int32_t rank)
{
    int32_t n = 0;
    uint32_t clocks = 0; /* ranks that any of those before says something of */
    order_uses(s, rank);
    for (int32_t i = 0; i < s->n_uses; i++) {
        struct use *use = &s->use[i];
        int32_t b = (clocks & use->marks) == 0 ? n : 0;
        while (b < n && !fits(s, use, b))
            b++;
        put(s, use, b, b == n);
        clocks |= use->clocks;
        n = b == n ? n + 1 : n;
    }
    return n;
}

int32_t cs_buffers_share(const struct cs_buffers *of, int32_t edge, int32_t rank, int32_t *buffer)
{
    struct search s = look_at(of, edge);
    const int32_t n = share(&s, rank);
    for (int32_t i = 0; buffer != NULL && i < of->n_slots * FLOWS; i++)
        buffer[i] = -1;
    for (int32_t i = 0; buffer != NULL && i < s.n_uses; i++)
        buffer[s.use[i].slot * FLOWS + s.use[i].is_grad] = s.use[i].buffer;
    forget_near(&s, ends_of(&s, edge));
    return n;
}

void cs_buffers_count(const struct cs_buffers *of, int32_t *n_buffers)
{
    for (int32_t e = 0; e < of->plan->n_edges; e++) {
        struct search s = look_at(of, e);
        const int32_t from = rank_of(of, of->plan->edges[e].from),
                      to = rank_of(of, of->plan->edges[e].to);
        n_buffers[2 * e] = share(&s, from);
        n_buffers[2 * e + 1] = from == to ? n_buffers[2 * e] : share(&s, to);
        forget_near(&s, ends_of(&s, e));
    }
}
