/* The longest path, event by event. Where cores or links are shared, nodes leave a heap in
 * the order in which they become ready (ties: lower node), so that cores are given out in time
 * order; a message joins its links when its latency is over, and its end is only known when it
 * leaves them. With nothing shared the order does not matter, and a queue takes the place of the
 * heap. */
#include "core/sched/sim/engine.h"

#include <string.h>

#include "core/base/system/stop.h"
#include "core/plan/groups.h"
#include "core/sched/proof/find_cycle.h"
#include "core/sched/sim/links.h"

enum { ASK_EVERY = 4096 /* actions: whether to go on */ };

enum kind { LEAVES, JOINS, STARTS };

struct event {
    double time;
    uint32_t node, stamp;
    uint8_t kind;
};

struct engine {
    const struct cs_precedence *graph;
    const struct cs_engine_input *in;
    struct cs_arena *arena;
    struct cs_links links;
    bool is_timed;       /* something is shared */
    double *start, *end; /* (n_nodes) start: until it runs, latest end of the predecessors seen */
    uint32_t *open, *cause; /* (n_nodes) predecessors left; the one that decided the start */
    struct event *heap;
    uint32_t *queue; /* (n_nodes) instead of the heap when nothing is shared */
    uint32_t n_heap, cap_heap, n_queue, n_done;
    double *core_free;
    uint32_t *core_last;
};

static bool comes_before(const struct event *a, const struct event *b)
{
    if (a->time < b->time || a->time > b->time)
        return a->time < b->time;
    return a->kind != b->kind ? a->kind < b->kind : a->node < b->node;
}

static void push(struct engine *e, struct event new)
{
    if (e->n_heap == e->cap_heap) {
        uint32_t cap = e->cap_heap ? 2 * e->cap_heap : 1024;
        struct event *grown = CS_NEW_ARRAY(e->arena, struct event, cap);
        if (e->n_heap > 0)
            memcpy(grown, e->heap, e->n_heap * sizeof *grown);
        e->heap = grown;
        e->cap_heap = cap;
    }
    uint32_t i = e->n_heap++;
    for (; i > 0 && comes_before(&new, &e->heap[(i - 1) / 2]); i = (i - 1) / 2)
        e->heap[i] = e->heap[(i - 1) / 2];
    e->heap[i] = new;
}

static struct event pop(struct engine *e)
{
    struct event top = e->heap[0], last = e->heap[--e->n_heap];
    uint32_t i = 0;
    for (;;) {
        uint32_t child = 2 * i + 1;
        if (child + 1 < e->n_heap && comes_before(&e->heap[child + 1], &e->heap[child]))
            child++;
        if (child >= e->n_heap || !comes_before(&e->heap[child], &last))
            break;
        e->heap[i] = e->heap[child];
        i = child;
    }
    e->heap[i] = last;
    return top;
}

static void make_ready(struct engine *e, uint32_t node)
{
    if (e->is_timed)
        push(e, (struct event){.time = e->start[node], .node = node, .kind = STARTS});
    else
        e->queue[e->n_queue++] = node;
}

static const struct cs_action *action_of(const struct engine *e, const struct cs_precedence_node *n)
{
    return &e->graph->program->rank[n->rank].actions[n->action];
}

/* actions of the COMM stream cost nothing to post, but those that meet ranks with the same program; their
 * meeting costs what its sender or its most expensive member says */
static double cost_of(const struct engine *e, uint32_t node)
{
    const struct cs_precedence *graph = e->graph;
    const struct cs_precedence_node *n = &graph->node[node];
    double most = 0;
    if (!n->is_meeting) {
        const struct cs_action *a = action_of(e, n);
        return cs_op_stream((enum cs_op)a->op) == CS_STREAM_COMPUTE ||
                       cs_group_runs_one_program((enum cs_group_kind)cs_op_table[a->op].group)
                   ? e->in->cost(e->in->user, graph->program, n->rank, a)
                   : 0;
    }
    if (action_of(e, n)->op == CS_OP_SEND)
        return e->in->cost(e->in->user, graph->program, n->rank, action_of(e, n));
    for (uint32_t i = 0; i < n->n_preds; i++) {
        const struct cs_precedence_node *member = &graph->node[graph->preds[n->first_pred + i]];
        double cost = member->is_meeting ? 0
                                         : e->in->cost(e->in->user, graph->program, member->rank,
                                                       action_of(e, member));
        most = cost > most ? cost : most;
    }
    return most;
}

static bool takes_core(const struct engine *e, uint32_t node, double cost)
{
    return e->in->cores > 0 && cost > 0 && !e->graph->node[node].is_meeting;
}

/* Every twin on the core that is free first; *start: of the first, returns the end of the last. */
static double give_cores(struct engine *e, uint32_t node, double cost, double *start)
{
    const int32_t rank = e->graph->node[node].rank;
    const int32_t n = e->in->twins != NULL ? e->in->twins[rank] : 1;
    const double ready = *start;
    double end = ready;
    for (int32_t i = 0; i < n; i++) {
        int32_t best = 0;
        for (int32_t c = 1; c < e->in->cores; c++)
            if (e->core_free[c] < e->core_free[best])
                best = c;
        const double from = e->core_free[best] > ready ? e->core_free[best] : ready;
        if (i == 0 && from > ready)
            e->cause[node] = e->core_last[best];
        *start = i == 0 ? from : *start;
        e->core_free[best] = from + cost;
        e->core_last[best] = node;
        end = from + cost > end ? from + cost : end;
    }
    return end;
}

static void run_node(struct engine *e, uint32_t node, double ready)
{
    double cost = cost_of(e, node), start = ready;
    e->end[node] = takes_core(e, node, cost) ? give_cores(e, node, cost, &start) : ready + cost;
    e->start[node] = start;
    e->n_done++;
}

static void release(struct engine *e, uint32_t node)
{
    const struct cs_precedence *graph = e->graph;
    for (uint32_t i = graph->first_succ[node]; i < graph->first_succ[node + 1]; i++) {
        uint32_t next = graph->succs[i];
        uint32_t cause = e->cause[next];
        /* ties: the lower node, whatever order the nodes come in */
        if (cause == CS_PRECEDENCE_NONE || e->end[node] > e->start[next] ||
            (!(e->end[node] < e->start[next]) && node < cause)) {
            e->start[next] = e->end[node];
            e->cause[next] = node;
        }
        if (--e->open[next] == 0 && !graph->node[next].is_dead)
            make_ready(e, next);
    }
}

/* false: the node shares no links, it runs at once */
static bool start_transfer(struct engine *e, uint32_t node, double now)
{
    const struct cs_precedence_node *n = &e->graph->node[node];
    if (!e->in->node || !n->is_meeting || action_of(e, n)->op != CS_OP_SEND)
        return false;
    const struct cs_action *a = action_of(e, n);
    double whole = cost_of(e, node);
    double alone = e->in->latency ? e->in->latency(e->in->user, e->graph->program, n->rank, a) : 0;
    if (!(whole > alone))
        return false;
    e->start[node] = now;
    e->end[node] = whole - alone; /* until it ends: its work */
    push(e, (struct event){.time = now + alone, .node = node, .kind = JOINS});
    return true;
}

static void tell_end(void *user, uint32_t transfer, uint32_t stamp, double at)
{
    struct engine *e = user;
    push(e,
         (struct event){
             .time = at, .node = e->graph->n_actions + transfer, .stamp = stamp, .kind = LEAVES});
}

static void finish(struct engine *e, uint32_t node, double at)
{
    e->end[node] = at;
    e->n_done++;
    release(e, node);
}

static void step_timed(struct engine *e)
{
    struct event now = pop(e);
    const struct cs_precedence_node *n = &e->graph->node[now.node];
    uint32_t transfer = now.node - e->graph->n_actions; /* pairs are the first meetings */
    if (now.kind == JOINS) {
        cs_links_join(&e->links, transfer, n->rank, action_of(e, n)->peer, e->end[now.node],
                      now.time);
    } else if (now.kind == LEAVES) {
        if (cs_links_leave(&e->links, transfer, now.stamp, now.time))
            finish(e, now.node, now.time);
    } else if (!start_transfer(e, now.node, now.time)) {
        run_node(e, now.node, now.time);
        release(e, now.node);
    }
}

static void init(struct engine *e, struct cs_arena *arena)
{
    uint32_t n = e->graph->n_nodes;
    e->start = CS_NEW_ARRAY(arena, double, n + 1);
    e->end = CS_NEW_ARRAY(arena, double, n + 1);
    e->open = CS_NEW_ARRAY(arena, uint32_t, n + 1);
    e->cause = CS_NEW_ARRAY(arena, uint32_t, n + 1);
    if (!e->is_timed)
        e->queue = CS_NEW_ARRAY(arena, uint32_t, n + 1);
    if (e->in->node)
        cs_links_init(&e->links, e->in->node, e->in->nic, e->graph->program->n_ranks,
                      e->graph->n_pairs, e->in->is_whole, arena);
    e->links.tell = tell_end;
    e->links.user = e;
    e->core_free = CS_NEW_ARRAY(arena, double, e->in->cores > 0 ? e->in->cores : 1);
    e->core_last = CS_NEW_ARRAY(arena, uint32_t, e->in->cores > 0 ? e->in->cores : 1);
    for (uint32_t i = 0; i < n; i++) {
        e->open[i] = e->graph->node[i].n_preds;
        e->cause[i] = CS_PRECEDENCE_NONE;
        e->end[i] = -1;
        if (e->open[i] == 0 && !e->graph->node[i].is_dead)
            make_ready(e, i);
    }
}

static void add_heads(const struct engine *e, int32_t rank, struct cs_buf *text)
{
    const struct cs_precedence *graph = e->graph;
    const struct cs_rank_program *rp = &graph->program->rank[rank];
    for (int s = 0; s < CS_STREAM_COUNT; s++)
        for (uint32_t i = 0; i < rp->n_fifo[s]; i++) {
            uint32_t id = rp->fifo[s][i];
            if (!(e->end[graph->done[graph->base[rank] + id]] < 0))
                continue;
            cs_buf_adds(text, text->len ? "; " : "");
            cs_action_text(graph->program, rank, id, text);
            break;
        }
}

static enum cs_status report_stall(const struct engine *e, struct cs_err *err)
{
    struct cs_buf cycle = {0}, heads = {0};
    uint32_t *open = NULL;
    bool waits = !cs_precedence_is_acyclic(e->graph, e->arena, &open);
    if (waits)
        cs_precedence_cycle_text(e->graph, open, e->arena, &cycle);
    for (int32_t r = 0; r < e->graph->program->n_ranks && heads.len < 800; r++)
        add_heads(e, r, &heads);
    enum cs_status status = cs_fail(
        err, CS_PLAN, "dead-lock: no action can start; %s%s%swaiting: %s",
        waits ? "in a cycle: " : "", cs_buf_str(&cycle), waits ? "; " : "", cs_buf_str(&heads));
    cs_buf_free(&cycle);
    cs_buf_free(&heads);
    return status;
}

static void find_critical(const struct engine *e, uint32_t last, struct cs_arena *arena,
                          struct cs_engine_result *out)
{
    uint32_t n = 0;
    for (uint32_t i = last; i != CS_PRECEDENCE_NONE; i = e->cause[i])
        n += e->end[i] > e->start[i];
    out->critical = CS_NEW_ARRAY(arena, struct cs_engine_step, n + 1);
    out->n_critical = (int32_t)n;
    for (uint32_t i = last; i != CS_PRECEDENCE_NONE; i = e->cause[i])
        if (e->end[i] > e->start[i])
            out->critical[--n] =
                (struct cs_engine_step){e->graph->node[i].rank, e->graph->node[i].action};
}

static void collect(const struct engine *e, struct cs_arena *arena, struct cs_engine_result *out)
{
    const struct cs_precedence *graph = e->graph;
    uint32_t last = CS_PRECEDENCE_NONE;
    out->makespan = 0;
    out->start = CS_NEW_ARRAY(arena, double, graph->n_actions + 1);
    out->end = CS_NEW_ARRAY(arena, double, graph->n_actions + 1);
    for (uint32_t i = 0; i < graph->n_actions; i++) {
        out->start[i] = e->start[graph->done[i]];
        out->end[i] = e->end[graph->done[i]];
    }
    for (uint32_t i = 0; i < graph->n_nodes; i++)
        if (last == CS_PRECEDENCE_NONE || e->end[i] > e->end[last])
            last = i;
    if (last != CS_PRECEDENCE_NONE)
        out->makespan = e->end[last];
    find_critical(e, last, arena, out);
}

enum cs_status cs_engine_run(const struct cs_precedence *graph, const struct cs_engine_input *input,
                             struct cs_arena *arena, struct cs_engine_result *out,
                             struct cs_err *err)
{
    struct engine e = {.graph = graph, .in = input, .arena = arena};
    e.is_timed = input->cores > 0 || input->node;
    init(&e, arena);
    for (uint32_t i = 0; e.n_heap > 0; i++) {
        if (i % ASK_EVERY == 0)
            CS_TRY(cs_stop_check(err));
        step_timed(&e);
    }
    while (e.n_done < e.n_queue) {
        if (e.n_done % ASK_EVERY == 0)
            CS_TRY(cs_stop_check(err));
        uint32_t next = e.queue[e.n_done];
        run_node(&e, next, e.start[next]);
        release(&e, next);
    }
    if (e.n_done < graph->n_nodes)
        return report_stall(&e, err);
    collect(&e, arena, out);
    return CS_OK;
}
