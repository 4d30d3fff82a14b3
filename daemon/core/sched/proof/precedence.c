/* Checks the shape of a program and builds its precedence graph. */
#include "core/sched/proof/precedence.h"

#include <stdlib.h>
#include <string.h>

#include "core/sched/proof/collective.h"

/* messages of one rank to or from one peer, in FIFO order */
struct segment {
    int32_t from, to;
    uint32_t is_recv, n;
    uint32_t first; /* in the list of messages, which is sorted by segment */
};

struct builder {
    struct cs_precedence *graph;
    struct cs_arena *arena;
    struct segment *segment;
    uint32_t n_segments;
    uint32_t *message; /* action ids */
    uint32_t *last; /* (2 * n_ranks) what a rank knows of peer and direction, NONE between ranks */
    uint32_t *touched; /* (2 * n_ranks) entries of last that are not NONE */
    uint32_t n_touched;
    bool is_filling; /* arcs are walked twice: counted, then written */
    uint32_t *fill_pred, *fill_succ;
};

static bool is_message(const struct cs_action *a)
{
    return cs_op_is((enum cs_op)a->op, CS_OP_KIND_MESSAGE);
}

static enum cs_status bad(const struct cs_program *program, int32_t rank, uint32_t id,
                          const char *what, struct cs_err *err)
{
    struct cs_buf text = {0};
    cs_action_text(program, rank, id, &text);
    enum cs_status status =
        cs_fail(err, CS_PLAN, "program: %s (action %u): %s", cs_buf_str(&text), id, what);
    cs_buf_free(&text);
    return status;
}

static const char *shape_of(const struct cs_program *program, int32_t rank, uint32_t id)
{
    const struct cs_plan *plan = program->plan;
    const struct cs_rank_program *rp = &program->rank[rank];
    const struct cs_action *a = &rp->actions[id];
    if (a->id != id)
        return "its id is not its index";
    if (a->op >= CS_OP_COUNT)
        return "no such operation";
    if (a->stage < -1 || a->stage >= plan->n_stages || a->edge < -1 || a->edge >= plan->n_edges ||
        a->peer < -1 || a->peer >= program->n_ranks || a->comm < -1 || a->slot < -1 ||
        a->slot >= program->n_slots || a->is_grad > 1 || a->lead > 1)
        return "an index is out of range";
    if (is_message(a) && (a->edge < 0 || a->peer < 0 || a->peer == rank || a->slot < 0))
        return "a message needs an edge, a slot and another rank";
    if (cs_op_is((enum cs_op)a->op, CS_OP_KIND_WORK) &&
        (a->stage < 0 || a->slot < 0 || plan->stages[a->stage].rank != rank))
        return "it needs a slot and a stage of this rank";
    if (a->op == CS_OP_COPIES && (a->stage < 0 || plan->stages[a->stage].rank != rank))
        return "it needs a stage of this rank";
    const int32_t own =
        program->n_copies > 1 ? rank % (program->n_ranks / program->n_copies) : rank;
    if (a->comm != cs_collective_group(plan, a, own))
        return "collectives, and nothing else, belong to a group, each kind to its own";
    if (a->first_dep > rp->n_deps || a->n_deps > rp->n_deps - a->first_dep)
        return "its dependencies are out of range";
    for (uint32_t d = 0; d < a->n_deps; d++)
        if (rp->deps[a->first_dep + d] >= rp->n_actions)
            return "it depends on an action that does not exist";
    return NULL;
}

static enum cs_status check_fifos(const struct cs_program *program, int32_t rank, bool is_complete,
                                  struct cs_err *err)
{
    const struct cs_rank_program *rp = &program->rank[rank];
    unsigned char *seen = calloc((size_t)rp->n_actions + 1, 1);
    enum cs_status status = CS_OK;
    if (!seen)
        return cs_fail(err, CS_NO_MEMORY, "checking %u actions", rp->n_actions);
    for (int s = 0; s < CS_STREAM_COUNT; s++)
        for (uint32_t i = 0; i < rp->n_fifo[s] && status == CS_OK; i++) {
            uint32_t id = rp->fifo[s][i];
            if (id >= rp->n_actions)
                status = cs_fail(err, CS_PLAN, "program: rank %d has no action %u", rank, id);
            else if (seen[id]++)
                status = bad(program, rank, id, "it is in a stream twice", err);
            else if ((int)cs_op_stream((enum cs_op)rp->actions[id].op) != s)
                status = bad(program, rank, id, "it is in the wrong stream", err);
        }
    for (uint32_t id = 0; id < rp->n_actions && is_complete && status == CS_OK; id++)
        if (!seen[id])
            status = bad(program, rank, id, "it is in no stream", err);
    free(seen);
    return status;
}

enum cs_status cs_precedence_check_shape(const struct cs_program *program, bool is_complete,
                                         struct cs_err *err)
{
    for (int32_t r = 0; r < program->n_ranks; r++) {
        for (uint32_t i = 0; i < program->rank[r].n_actions; i++) {
            const char *what = shape_of(program, r, i);
            if (what)
                return bad(program, r, i, what, err);
        }
        CS_TRY(check_fifos(program, r, is_complete, err));
    }
    return CS_OK;
}

static void add_arc(struct builder *b, uint32_t from, uint32_t to)
{
    struct cs_precedence *graph = b->graph;
    if (!b->is_filling) {
        graph->node[to].n_preds++;
        graph->first_succ[from + 1]++;
        return;
    }
    graph->preds[b->fill_pred[to]++] = from;
    graph->succs[b->fill_succ[from]++] = to;
}

static uint32_t add_meeting(struct builder *b, int32_t rank, uint32_t action, bool is_dead)
{
    b->graph->node[b->graph->n_nodes] = (struct cs_precedence_node){
        .rank = rank, .action = action, .is_meeting = true, .is_dead = is_dead};
    return b->graph->n_nodes++;
}

static void join(struct builder *b, int32_t rank, uint32_t action, uint32_t meeting)
{
    b->graph->done[b->graph->base[rank] + action] = meeting;
}

static uint32_t slot_of(const struct cs_action *a)
{
    return 2 * (uint32_t)a->peer + (a->op == CS_OP_RECV);
}

static void forget(struct builder *b)
{
    for (; b->n_touched > 0; b->n_touched--)
        b->last[b->touched[b->n_touched - 1]] = CS_PRECEDENCE_NONE;
}

static void list_segments(struct builder *b)
{
    const struct cs_program *program = b->graph->program;
    uint32_t cap = 0;
    for (int32_t r = 0; r < program->n_ranks; r++) {
        const struct cs_rank_program *rp = &program->rank[r];
        for (uint32_t i = 0; i < rp->n_fifo[CS_STREAM_COMM]; i++) {
            const struct cs_action *a = &rp->actions[rp->fifo[CS_STREAM_COMM][i]];
            if (!is_message(a))
                continue;
            if (b->last[slot_of(a)] == CS_PRECEDENCE_NONE) {
                if (b->n_segments == cap) {
                    cap = cap ? 2 * cap : 256;
                    struct segment *grown = CS_NEW_ARRAY(b->arena, struct segment, cap);
                    if (b->n_segments)
                        memcpy(grown, b->segment, b->n_segments * sizeof *grown);
                    b->segment = grown;
                }
                bool is_recv = a->op == CS_OP_RECV;
                b->touched[b->n_touched++] = slot_of(a);
                b->last[slot_of(a)] = b->n_segments;
                b->segment[b->n_segments++] =
                    (struct segment){is_recv ? a->peer : r, is_recv ? r : a->peer, is_recv, 0, 0};
            }
            b->segment[b->last[slot_of(a)]].n++;
        }
        forget(b);
    }
}

static int by_channel(const void *left, const void *right)
{
    const struct segment *a = left, *b = right;
    if (a->from != b->from)
        return a->from < b->from ? -1 : 1;
    if (a->to != b->to)
        return a->to < b->to ? -1 : 1;
    return a->is_recv < b->is_recv ? -1 : a->is_recv > b->is_recv;
}

/* every segment's messages side by side, segments by (from, to), sends before receives */
static void list_messages(struct builder *b)
{
    const struct cs_program *program = b->graph->program;
    uint32_t total = 0, *place = NULL;
    list_segments(b);
    if (b->n_segments)
        qsort(b->segment, b->n_segments, sizeof *b->segment, by_channel);
    /* segments of a rank, chained: of_rank -> next */
    uint32_t *of_rank = CS_NEW_ARRAY(b->arena, uint32_t, program->n_ranks + 1);
    uint32_t *next = CS_NEW_ARRAY(b->arena, uint32_t, b->n_segments + 1);
    place = CS_NEW_ARRAY(b->arena, uint32_t, b->n_segments + 1);
    for (int32_t r = 0; r < program->n_ranks; r++)
        of_rank[r] = CS_PRECEDENCE_NONE;
    for (uint32_t s = 0; s < b->n_segments; s++) {
        struct segment *seg = &b->segment[s];
        int32_t owner = seg->is_recv ? seg->to : seg->from;
        seg->first = place[s] = total;
        total += seg->n;
        next[s] = of_rank[owner];
        of_rank[owner] = s;
    }
    b->message = CS_NEW_ARRAY(b->arena, uint32_t, total + 1);
    for (int32_t r = 0; r < program->n_ranks; r++) {
        const struct cs_rank_program *rp = &program->rank[r];
        for (uint32_t s = of_rank[r]; s != CS_PRECEDENCE_NONE; s = next[s]) {
            const struct segment *seg = &b->segment[s];
            uint32_t slot = 2 * (uint32_t)(seg->is_recv ? seg->from : seg->to) + seg->is_recv;
            b->touched[b->n_touched++] = slot;
            b->last[slot] = s;
        }
        for (uint32_t i = 0; i < rp->n_fifo[CS_STREAM_COMM]; i++) {
            const struct cs_action *a = &rp->actions[rp->fifo[CS_STREAM_COMM][i]];
            if (is_message(a))
                b->message[place[b->last[slot_of(a)]]++] = a->id;
        }
        forget(b);
    }
    b->graph->pair = CS_NEW_ARRAY(b->arena, struct cs_precedence_pair, total + 1);
}

static bool tags_agree(const struct cs_action *a, const struct cs_action *b)
{
    return a->edge == b->edge && a->slot == b->slot && a->is_grad == b->is_grad &&
           a->part == b->part && a->lead == b->lead;
}

static void match_channel(struct builder *b, const struct segment *sends,
                          const struct segment *recvs)
{
    struct cs_precedence *graph = b->graph;
    const struct segment *any = sends ? sends : recvs;
    uint32_t n_send = sends ? sends->n : 0, n_recv = recvs ? recvs->n : 0;
    for (uint32_t k = 0; k < n_send || k < n_recv; k++) {
        struct cs_precedence_pair *pair = &graph->pair[graph->n_pairs++];
        *pair = (struct cs_precedence_pair){
            any->from, any->to, k < n_send ? b->message[sends->first + k] : CS_PRECEDENCE_NONE,
            k < n_recv ? b->message[recvs->first + k] : CS_PRECEDENCE_NONE, false};
        bool has_send = pair->send != CS_PRECEDENCE_NONE,
             has_recv = pair->recv != CS_PRECEDENCE_NONE;
        pair->is_match = has_send && has_recv &&
                         tags_agree(&graph->program->rank[pair->from].actions[pair->send],
                                    &graph->program->rank[pair->to].actions[pair->recv]);
        uint32_t meeting = add_meeting(b, has_send ? pair->from : pair->to,
                                       has_send ? pair->send : pair->recv, !pair->is_match);
        if (has_send)
            join(b, pair->from, pair->send, meeting);
        if (has_recv)
            join(b, pair->to, pair->recv, meeting);
    }
}

static void match_messages(struct builder *b)
{
    list_messages(b);
    for (uint32_t s = 0; s < b->n_segments;) {
        const struct segment *one = &b->segment[s++], *sends = one->is_recv ? NULL : one,
                             *recvs = one->is_recv ? one : NULL;
        if (sends && s < b->n_segments && b->segment[s].from == one->from &&
            b->segment[s].to == one->to)
            recvs = &b->segment[s++];
        match_channel(b, sends, recvs);
    }
}

/* Messages of one pair in one direction complete in order: each meeting waits for the one before
 * it. */
static void walk_pairs(struct builder *b)
{
    const struct cs_precedence *graph = b->graph;
    for (uint32_t i = 0; i < graph->n_pairs; i++) {
        const struct cs_precedence_pair *pair = &graph->pair[i];
        uint32_t meeting = graph->n_actions + i;
        if (pair->send != CS_PRECEDENCE_NONE)
            add_arc(b, graph->base[pair->from] + pair->send, meeting);
        if (pair->recv != CS_PRECEDENCE_NONE)
            add_arc(b, graph->base[pair->to] + pair->recv, meeting);
        if (i > 0 && pair[-1].from == pair->from && pair[-1].to == pair->to)
            add_arc(b, meeting - 1, meeting);
    }
}

/* members of collectives: all of them are done with a meeting that is no message */
static void walk_groups(struct builder *b)
{
    const struct cs_precedence *graph = b->graph;
    for (int32_t r = 0; r < graph->program->n_ranks; r++) {
        const struct cs_rank_program *rp = &graph->program->rank[r];
        for (uint32_t i = 0; i < rp->n_fifo[CS_STREAM_COMM]; i++) {
            uint32_t node = graph->base[r] + rp->fifo[CS_STREAM_COMM][i];
            if (graph->done[node] >= graph->n_actions + graph->n_pairs)
                add_arc(b, node, graph->done[node]);
        }
    }
}

/* posting: messages after those of the same peer and direction, collectives after everything */
static void order_posts(struct builder *b, int32_t rank)
{
    const struct cs_rank_program *rp = &b->graph->program->rank[rank];
    uint32_t base = b->graph->base[rank], collective = CS_PRECEDENCE_NONE;
    for (uint32_t i = 0; i < rp->n_fifo[CS_STREAM_COMM]; i++) {
        const struct cs_action *a = &rp->actions[rp->fifo[CS_STREAM_COMM][i]];
        if (collective != CS_PRECEDENCE_NONE)
            add_arc(b, b->graph->done[base + collective], base + a->id);
        if (a->comm >= 0) {
            for (uint32_t t = 0; t < b->n_touched; t++)
                add_arc(b, base + b->last[b->touched[t]], base + a->id);
            collective = a->id;
            continue;
        }
        uint32_t channel = slot_of(a);
        if (b->last[channel] == CS_PRECEDENCE_NONE)
            b->touched[b->n_touched++] = channel;
        else
            add_arc(b, base + b->last[channel], base + a->id);
        b->last[channel] = a->id;
    }
    forget(b);
}

static void order_rank(struct builder *b, int32_t rank)
{
    const struct cs_rank_program *rp = &b->graph->program->rank[rank];
    uint32_t base = b->graph->base[rank];
    const uint32_t *fifo = rp->fifo[CS_STREAM_COMPUTE];
    for (uint32_t i = 1; i < rp->n_fifo[CS_STREAM_COMPUTE]; i++)
        add_arc(b, base + fifo[i - 1], base + fifo[i]);
    for (uint32_t i = 0; i < rp->n_actions; i++)
        for (uint32_t d = 0; d < rp->actions[i].n_deps; d++)
            add_arc(b, b->graph->done[base + rp->deps[rp->actions[i].first_dep + d]], base + i);
}

static void make_nodes(struct builder *b)
{
    struct cs_precedence *graph = b->graph;
    const struct cs_program *program = graph->program;
    graph->base = CS_NEW_ARRAY(b->arena, uint32_t, program->n_ranks + 1);
    for (int32_t r = 0; r < program->n_ranks; r++)
        graph->base[r + 1] = graph->base[r] + program->rank[r].n_actions;
    graph->n_actions = graph->n_nodes = graph->base[program->n_ranks];
    graph->node =
        CS_NEW_ARRAY(b->arena, struct cs_precedence_node, 2 * (size_t)graph->n_actions + 1);
    graph->done = CS_NEW_ARRAY(b->arena, uint32_t, graph->n_actions + 1);
    for (int32_t r = 0; r < program->n_ranks; r++) {
        const struct cs_rank_program *rp = &program->rank[r];
        for (uint32_t i = 0; i < rp->n_actions; i++) {
            graph->node[graph->base[r] + i] =
                (struct cs_precedence_node){.rank = r, .action = i, .is_dead = true};
            graph->done[graph->base[r] + i] = graph->base[r] + i;
        }
        for (int s = 0; s < CS_STREAM_COUNT; s++)
            for (uint32_t i = 0; i < rp->n_fifo[s]; i++)
                graph->node[graph->base[r] + rp->fifo[s][i]].is_dead = false;
    }
}

static void walk_arcs(struct builder *b)
{
    walk_pairs(b);
    walk_groups(b);
    for (int32_t r = 0; r < b->graph->program->n_ranks; r++) {
        order_posts(b, r);
        order_rank(b, r);
    }
}

/* between the walks: where the arcs of every node go */
static void place_arcs(struct builder *b)
{
    struct cs_precedence *graph = b->graph;
    b->fill_pred = CS_NEW_ARRAY(b->arena, uint32_t, graph->n_nodes + 1);
    b->fill_succ = CS_NEW_ARRAY(b->arena, uint32_t, graph->n_nodes + 1);
    for (uint32_t n = 0; n < graph->n_nodes; n++) {
        graph->first_succ[n + 1] += graph->first_succ[n];
        b->fill_succ[n] = graph->first_succ[n];
        graph->node[n].first_pred = b->fill_pred[n] = graph->n_preds;
        graph->n_preds += graph->node[n].n_preds;
    }
    graph->preds = CS_NEW_ARRAY(b->arena, uint32_t, graph->n_preds + 1);
    graph->succs = CS_NEW_ARRAY(b->arena, uint32_t, graph->n_preds + 1);
    b->is_filling = true;
}

void cs_precedence_build(const struct cs_program *program, struct cs_arena *arena,
                         struct cs_precedence *graph)
{
    *graph = (struct cs_precedence){.program = program};
    struct builder b = {.graph = graph, .arena = arena};
    b.last = CS_NEW_ARRAY(arena, uint32_t, 2 * program->n_ranks + 1);
    b.touched = CS_NEW_ARRAY(arena, uint32_t, 2 * program->n_ranks + 1);
    for (int32_t i = 0; i < 2 * program->n_ranks; i++)
        b.last[i] = CS_PRECEDENCE_NONE;
    make_nodes(&b);
    match_messages(&b);
    cs_precedence_match_collectives(graph, arena);
    graph->first_succ = CS_NEW_ARRAY(arena, uint32_t, graph->n_nodes + 2);
    walk_arcs(&b);
    place_arcs(&b);
    walk_arcs(&b);
}
