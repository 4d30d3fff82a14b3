/* Builds the precedence graph; see net.h. */
#include "core/sched/net.h"

#include <stdlib.h>
#include <string.h>

struct entry { /* one message action */
    int32_t from, to;
    uint32_t is_recv, place; /* place in its rank's stream */
    uint32_t action;
};

struct arc {
    uint32_t from, to;
};

struct builder {
    struct cs_net *net;
    struct cs_arena *arena;
    struct entry *entry;
    uint32_t n_entries;
    struct arc *arc;
    uint32_t n_arcs, cap_arcs;
};

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
    bool is_message = a->op == CS_OP_SEND || a->op == CS_OP_RECV;
    bool is_compute = a->op == CS_OP_FWD || a->op == CS_OP_BWD || a->op == CS_OP_BWD_INPUT ||
                      a->op == CS_OP_BWD_WEIGHT;
    if (a->id != id)
        return "its id is not its index";
    if (a->op >= CS_OP_COUNT)
        return "no such operation";
    if (a->stage < -1 || a->stage >= plan->n_stages || a->edge < -1 || a->edge >= plan->n_edges ||
        a->peer < -1 || a->peer >= program->n_ranks || a->comm < -1 || a->comm >= CS_COMM_COUNT ||
        a->slot < -1 || a->slot >= program->n_slots || a->is_grad > 1 || a->lead > 1)
        return "an index is out of range";
    if (is_message && (a->edge < 0 || a->peer < 0 || a->peer == rank || a->slot < 0))
        return "a message needs an edge, a slot and another rank";
    if (is_compute && (a->stage < 0 || a->slot < 0 || plan->stages[a->stage].rank != rank))
        return "it needs a slot and a stage of this rank";
    if ((a->op == CS_OP_NORM || a->op == CS_OP_TIED) != (a->comm >= 0))
        return "collectives, and nothing else, belong to a group";
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

enum cs_status cs_net_check_shape(const struct cs_program *program, bool is_complete,
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
    if (b->n_arcs == b->cap_arcs) {
        b->cap_arcs *= 2;
        struct arc *grown = CS_NEW_ARRAY(b->arena, struct arc, b->cap_arcs);
        memcpy(grown, b->arc, b->n_arcs * sizeof *grown);
        b->arc = grown;
    }
    b->arc[b->n_arcs++] = (struct arc){from, to};
}

static uint32_t add_meeting(struct builder *b, int32_t rank, uint32_t action, bool is_dead)
{
    b->net->node[b->net->n_nodes] = (struct cs_net_node){
        .rank = rank, .action = action, .is_meeting = true, .is_dead = is_dead};
    return b->net->n_nodes++;
}

static void join(struct builder *b, int32_t rank, uint32_t action, uint32_t meeting)
{
    uint32_t node = b->net->base[rank] + action;
    add_arc(b, node, meeting);
    b->net->done[node] = meeting;
}

static int by_channel(const void *left, const void *right)
{
    const struct entry *a = left, *b = right;
    if (a->from != b->from)
        return a->from < b->from ? -1 : 1;
    if (a->to != b->to)
        return a->to < b->to ? -1 : 1;
    if (a->is_recv != b->is_recv)
        return a->is_recv < b->is_recv ? -1 : 1;
    return a->place < b->place ? -1 : a->place > b->place;
}

static void list_messages(struct builder *b)
{
    const struct cs_program *program = b->net->program;
    b->entry = CS_NEW_ARRAY(b->arena, struct entry, b->net->n_actions + 1);
    for (int32_t r = 0; r < program->n_ranks; r++) {
        const struct cs_rank_program *rp = &program->rank[r];
        for (uint32_t i = 0; i < rp->n_fifo[CS_STREAM_COMM]; i++) {
            const struct cs_action *a = &rp->actions[rp->fifo[CS_STREAM_COMM][i]];
            bool is_recv = a->op == CS_OP_RECV;
            if (is_recv || a->op == CS_OP_SEND)
                b->entry[b->n_entries++] =
                    (struct entry){is_recv ? a->peer : r, is_recv ? r : a->peer, is_recv, i, a->id};
        }
    }
    qsort(b->entry, b->n_entries, sizeof *b->entry, by_channel);
}

static bool tags_agree(const struct cs_action *a, const struct cs_action *b)
{
    return a->edge == b->edge && a->slot == b->slot && a->is_grad == b->is_grad &&
           a->part == b->part && a->lead == b->lead;
}

/* Messages of one pair in one direction complete in order: each meeting waits for the one before.
 */
static void match_channel(struct builder *b, const struct entry *entry, uint32_t n_send,
                          uint32_t n_recv)
{
    struct cs_net *net = b->net;
    uint32_t before = CS_NET_NONE;
    for (uint32_t k = 0; k < n_send || k < n_recv; k++) {
        const struct entry *send = k < n_send ? &entry[k] : NULL;
        const struct entry *recv = k < n_recv ? &entry[n_send + k] : NULL;
        struct cs_net_pair *pair = &net->pair[net->n_pairs++];
        *pair = (struct cs_net_pair){entry->from, entry->to, send ? send->action : CS_NET_NONE,
                                     recv ? recv->action : CS_NET_NONE, false};
        pair->is_match = send && recv &&
                         tags_agree(&net->program->rank[pair->from].actions[pair->send],
                                    &net->program->rank[pair->to].actions[pair->recv]);
        uint32_t meeting = add_meeting(b, send ? pair->from : pair->to,
                                       send ? pair->send : pair->recv, !pair->is_match);
        if (send)
            join(b, pair->from, pair->send, meeting);
        if (recv)
            join(b, pair->to, pair->recv, meeting);
        if (before != CS_NET_NONE)
            add_arc(b, before, meeting);
        before = meeting;
    }
}

static void match_messages(struct builder *b)
{
    list_messages(b);
    b->net->pair = CS_NEW_ARRAY(b->arena, struct cs_net_pair, b->n_entries + 1);
    for (uint32_t i = 0; i < b->n_entries;) {
        const struct entry *e = &b->entry[i];
        uint32_t n_send = 0, n_recv = 0;
        for (; i < b->n_entries && b->entry[i].from == e->from && b->entry[i].to == e->to; i++) {
            n_send += !b->entry[i].is_recv;
            n_recv += b->entry[i].is_recv;
        }
        match_channel(b, e, n_send, n_recv);
    }
}

static bool is_member(const struct cs_program *program, int32_t comm, int32_t rank)
{
    const struct cs_plan *plan = program->plan;
    return comm == CS_COMM_WORLD || rank == plan->stages[plan->embed_stage].rank ||
           rank == plan->stages[plan->head_stage].rank;
}

/* the n-th collective of the group on this rank */
static uint32_t find_collective(const struct cs_program *program, int32_t comm, int32_t rank,
                                int32_t nth)
{
    const struct cs_rank_program *rp = &program->rank[rank];
    for (uint32_t i = 0; i < rp->n_fifo[CS_STREAM_COMM]; i++)
        if (rp->actions[rp->fifo[CS_STREAM_COMM][i]].comm == comm && nth-- == 0)
            return rp->fifo[CS_STREAM_COMM][i];
    return CS_NET_NONE;
}

static int32_t count_collectives(const struct cs_program *program, int32_t comm, int32_t rank)
{
    int32_t n = 0;
    for (uint32_t i = 0; i < program->rank[rank].n_fifo[CS_STREAM_COMM]; i++)
        n += program->rank[rank].actions[program->rank[rank].fifo[CS_STREAM_COMM][i]].comm == comm;
    return n;
}

static void match_group(struct builder *b, int32_t comm, int32_t nth)
{
    struct cs_net *net = b->net;
    struct cs_net_group *group = &net->group[net->n_groups++];
    *group = (struct cs_net_group){comm, nth, -1, -1, CS_NET_NONE};
    uint32_t meeting = add_meeting(b, -1, CS_NET_NONE, false);
    for (int32_t r = 0; r < net->program->n_ranks; r++) {
        if (!is_member(net->program, comm, r))
            continue;
        uint32_t id = find_collective(net->program, comm, r, nth);
        if (id == CS_NET_NONE) {
            group->absent = r;
            net->node[meeting].is_dead = true;
            continue;
        }
        join(b, r, id, meeting);
        if (group->rank < 0) {
            group->rank = r;
            group->action = id;
        }
    }
    net->node[meeting].rank = group->rank;
    net->node[meeting].action = group->action;
}

static void match_collectives(struct builder *b)
{
    const struct cs_program *program = b->net->program;
    b->net->group = CS_NEW_ARRAY(b->arena, struct cs_net_group, b->net->n_actions + 1);
    for (int32_t comm = 0; comm < CS_COMM_COUNT; comm++) {
        int32_t most = 0;
        for (int32_t r = 0; r < program->n_ranks; r++) {
            int32_t n = is_member(program, comm, r) ? count_collectives(program, comm, r) : 0;
            most = n > most ? n : most;
        }
        for (int32_t nth = 0; nth < most; nth++)
            match_group(b, comm, nth);
    }
}

/* posting: messages after those of the same peer and direction, collectives after everything */
static void order_posts(struct builder *b, int32_t rank, uint32_t *last, uint32_t *touched)
{
    const struct cs_rank_program *rp = &b->net->program->rank[rank];
    uint32_t base = b->net->base[rank], collective = CS_NET_NONE, n_touched = 0;
    for (uint32_t i = 0; i < rp->n_fifo[CS_STREAM_COMM]; i++) {
        const struct cs_action *a = &rp->actions[rp->fifo[CS_STREAM_COMM][i]];
        if (collective != CS_NET_NONE)
            add_arc(b, b->net->done[base + collective], base + a->id);
        if (a->comm >= 0) {
            for (uint32_t t = 0; t < n_touched; t++)
                add_arc(b, base + last[touched[t]], base + a->id);
            collective = a->id;
            continue;
        }
        uint32_t channel = 2 * (uint32_t)a->peer + (a->op == CS_OP_RECV);
        if (last[channel] == CS_NET_NONE)
            touched[n_touched++] = channel;
        else
            add_arc(b, base + last[channel], base + a->id);
        last[channel] = a->id;
    }
    for (uint32_t t = 0; t < n_touched; t++)
        last[touched[t]] = CS_NET_NONE;
}

static void order_rank(struct builder *b, int32_t rank)
{
    const struct cs_rank_program *rp = &b->net->program->rank[rank];
    uint32_t base = b->net->base[rank];
    const uint32_t *fifo = rp->fifo[CS_STREAM_COMPUTE];
    for (uint32_t i = 1; i < rp->n_fifo[CS_STREAM_COMPUTE]; i++)
        add_arc(b, base + fifo[i - 1], base + fifo[i]);
    for (uint32_t i = 0; i < rp->n_actions; i++)
        for (uint32_t d = 0; d < rp->actions[i].n_deps; d++)
            add_arc(b, b->net->done[base + rp->deps[rp->actions[i].first_dep + d]], base + i);
}

static void make_nodes(struct builder *b)
{
    struct cs_net *net = b->net;
    const struct cs_program *program = net->program;
    net->base = CS_NEW_ARRAY(b->arena, uint32_t, program->n_ranks + 1);
    for (int32_t r = 0; r < program->n_ranks; r++)
        net->base[r + 1] = net->base[r] + program->rank[r].n_actions;
    net->n_actions = net->n_nodes = net->base[program->n_ranks];
    net->node = CS_NEW_ARRAY(b->arena, struct cs_net_node, 2 * (size_t)net->n_actions + 1);
    net->done = CS_NEW_ARRAY(b->arena, uint32_t, net->n_actions + 1);
    for (int32_t r = 0; r < program->n_ranks; r++) {
        const struct cs_rank_program *rp = &program->rank[r];
        for (uint32_t i = 0; i < rp->n_actions; i++) {
            net->node[net->base[r] + i] =
                (struct cs_net_node){.rank = r, .action = i, .is_dead = true};
            net->done[net->base[r] + i] = net->base[r] + i;
        }
        for (int s = 0; s < CS_STREAM_COUNT; s++)
            for (uint32_t i = 0; i < rp->n_fifo[s]; i++)
                net->node[net->base[r] + rp->fifo[s][i]].is_dead = false;
    }
}

/* arcs, sorted by counting, in both directions */
static void index_arcs(struct builder *b)
{
    struct cs_net *net = b->net;
    uint32_t *fill = CS_NEW_ARRAY(b->arena, uint32_t, net->n_nodes + 1);
    net->n_preds = b->n_arcs;
    net->preds = CS_NEW_ARRAY(b->arena, uint32_t, b->n_arcs + 1);
    net->succs = CS_NEW_ARRAY(b->arena, uint32_t, b->n_arcs + 1);
    net->first_succ = CS_NEW_ARRAY(b->arena, uint32_t, net->n_nodes + 1);
    for (uint32_t i = 0; i < b->n_arcs; i++) {
        net->node[b->arc[i].to].n_preds++;
        net->first_succ[b->arc[i].from + 1]++;
    }
    for (uint32_t n = 0; n < net->n_nodes; n++) {
        net->first_succ[n + 1] += net->first_succ[n];
        fill[n] = net->first_succ[n];
        if (n > 0)
            net->node[n].first_pred = net->node[n - 1].first_pred + net->node[n - 1].n_preds;
    }
    for (uint32_t i = 0; i < b->n_arcs; i++)
        net->succs[fill[b->arc[i].from]++] = b->arc[i].to;
    for (uint32_t n = 0; n < net->n_nodes; n++)
        fill[n] = net->node[n].first_pred;
    for (uint32_t i = 0; i < b->n_arcs; i++)
        net->preds[fill[b->arc[i].to]++] = b->arc[i].from;
}

void cs_net_build(const struct cs_program *program, struct cs_arena *arena, struct cs_net *net)
{
    *net = (struct cs_net){.program = program};
    struct builder b = {.net = net, .arena = arena, .cap_arcs = 1024};
    b.arc = CS_NEW_ARRAY(arena, struct arc, b.cap_arcs);
    make_nodes(&b);
    match_messages(&b);
    match_collectives(&b);
    uint32_t *last = CS_NEW_ARRAY(arena, uint32_t, 2 * program->n_ranks);
    uint32_t *touched = CS_NEW_ARRAY(arena, uint32_t, 2 * program->n_ranks);
    for (int32_t i = 0; i < 2 * program->n_ranks; i++)
        last[i] = CS_NET_NONE;
    for (int32_t r = 0; r < program->n_ranks; r++) {
        order_posts(&b, r, last, touched);
        order_rank(&b, r);
    }
    index_arcs(&b);
}
