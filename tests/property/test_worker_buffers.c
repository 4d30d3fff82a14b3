/* Rows between stages never meet in a buffer, and nothing waits for one: programs of all schedules
 * and layouts are run in random orders of events, with random slots without rows, ranks that hurry
 * or dawdle and messages that take long and are not begun before both ends are there. Every buffer
 * is looked at when it is first written to and when it was read. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

#include "core/base/arena.h"
#include "core/sched/lower/lower.h"
#include "support/random_plan.h"
#include "worker/memory/plan.h"

enum { MAX_RANKS = 8, MAX_SLOTS = 32, ROUNDS = 600, ORDERS = 3, FLOWS = 2 };

static uint64_t seed = 5;

static int below(int n)
{
    return cs_test_random(&seed, n);
}

/* ---- plans ---- */

enum layout { PARALLEL, FIRST, COLOCATED, N_LAYOUTS };

struct shape {
    const char *schedule;
    enum layout layout;
    int ranks, chunks, n_encoders; /* ranks of the LLM */
    int stages[2];                 /* of every encoder */
    bool trains[3];                /* encoders, the LLM last */
};

static void connect(struct cs_test_random_plan *m, int from, int to)
{
    m->edge[m->plan.n_edges] = (struct cs_edge){
        .id = m->plan.n_edges,
        .from = from,
        .to = to,
        .width = 8,
        .max_rows = 4,
        .has_grad = m->stage[from].has_backward && m->stage[to].has_backward,
    };
    m->plan.n_edges++;
}

static void add_branch(struct cs_test_random_plan *m, const struct shape *s, int branch, int n)
{
    const bool is_llm = branch == s->n_encoders;
    m->first[branch] = m->plan.n_stages;
    m->count[branch] = n;
    for (int i = 0; i < n; i++) {
        const int rank = is_llm                   ? i % s->ranks
                         : s->layout == FIRST     ? 0
                         : s->layout == COLOCATED ? i
                                                  : m->plan.n_ranks++;
        m->stage[m->plan.n_stages] = (struct cs_stage){.name = "stage",
                                                       .id = m->plan.n_stages,
                                                       .branch = branch,
                                                       .index = i,
                                                       .rank = rank,
                                                       .fwd_ns = 1 + below(5),
                                                       .bwd_input_ns = s->trains[branch] ? 3 : 0,
                                                       .bwd_weight_ns = s->trains[branch] ? 3 : 0,
                                                       .has_backward = s->trains[branch]};
        m->plan.n_stages++;
    }
    for (int i = 0; i + 1 < n; i++)
        connect(m, m->first[branch] + i, m->first[branch] + i + 1);
}

/* the LLM's ranks come first */
static void make_plan(struct cs_test_random_plan *m, const struct shape *s)
{
    memset(m, 0, sizeof *m);
    m->plan = (struct cs_plan){
        .stages = m->stage, .edges = m->edge, .schedule = s->schedule, .n_ranks = s->ranks};
    for (int b = 0; b < s->n_encoders; b++)
        add_branch(m, s, b, s->stages[b]);
    add_branch(m, s, s->n_encoders, s->ranks * s->chunks);
    m->n_branches = s->n_encoders + 1;
    m->plan.embed_stage = m->first[s->n_encoders];
    m->plan.head_stage = m->plan.n_stages - 1;
    for (int b = 0; b < s->n_encoders; b++)
        connect(m, m->first[b] + m->count[b] - 1, m->plan.embed_stage);
}

static const char *const schedules[] = {"1f1b", "zb-h1", "zb-h2", "interleaved", "gpipe"};

static struct shape random_shape(int round)
{
    struct shape s = {
        .schedule = schedules[round % 5],
        .layout = (enum layout)(round / 5 % N_LAYOUTS),
        .n_encoders = below(3),
        .chunks = 1,
        .trains = {below(2), below(2), true}
    };
    const bool is_cut = strcmp(s.schedule, "interleaved") == 0;
    if (is_cut) {
        s.chunks = 2 + below(2);
        s.layout = PARALLEL;
    }
    for (int b = 0; b < s.n_encoders; b++)
        s.stages[b] = s.layout == PARALLEL ? 1 + below(2) : 1;
    const int others = s.layout == PARALLEL ? s.stages[0] + s.stages[1] : 0;
    const int most = is_cut ? 4 : MAX_RANKS - others;
    s.ranks = 2 + below(most - 1);
    for (int b = 0; s.layout == COLOCATED && b < s.n_encoders; b++)
        s.stages[b] = s.ranks;
    return s;
}

/* zb-h2 warms up twice the longest way */
static int fewest_slots(const struct shape *s)
{
    int longest = 0;
    for (int b = 0; b < s->n_encoders; b++)
        longest = s->stages[b] > longest ? s->stages[b] : longest;
    return strcmp(s->schedule, "zb-h2") == 0 ? 2 * (longest + s->ranks) - 1 : 1;
}

/* ---- running them ---- */

struct agent {
    bool is_busy;
    uint32_t next;
    int patience; /* 0: it is asked for all it can do; else once in so many times */
};

/* The messages of one rank to another, in order. */
struct channel {
    struct agent agent;
    int from, to;
    const struct cs_action **send;
    uint32_t n;
};

struct world {
    const struct cs_program *program;
    const struct cs_plan *plan;
    int32_t **buffer; /* (n_ranks) as planned */
    int32_t ***holds; /* (n_ranks, n_edges) per buffer: slot * 2 + is_grad + 1, 0: free */
    bool **done;      /* (n_ranks, n_actions) */
    struct agent *rank;
    struct channel *channel;
    uint32_t **receive; /* (n_edges * n_slots * 2) action of the receiving rank */
    int n_channels;
    bool *is_empty;      /* (branches, n_slots) */
    int64_t taken, made; /* fillings, buffers */
    int64_t collisions;
};

static bool is_missing(const struct world *w, int edge, int slot)
{
    const int branch = w->plan->stages[w->plan->edges[edge].from].branch;
    return w->is_empty[branch * w->program->n_slots + slot];
}

static size_t key_of(const struct world *w, int edge, int slot, int is_grad)
{
    return ((size_t)edge * (size_t)w->program->n_slots + (size_t)slot) * FLOWS + (size_t)is_grad;
}

static int32_t *place_of(const struct world *w, int rank, int edge, int slot, int is_grad)
{
    const int32_t n = w->buffer[rank][key_of(w, edge, slot, is_grad)];
    assert_true(n >= 0);
    return &w->holds[rank][edge][n];
}

static void fill(struct world *w, int rank, int edge, int slot, int is_grad)
{
    int32_t *held = place_of(w, rank, edge, slot, is_grad);
    w->collisions += *held != 0;
    *held = slot * 2 + is_grad + 1;
}

static void empty(struct world *w, int rank, int edge, int slot, int is_grad)
{
    int32_t *held = place_of(w, rank, edge, slot, is_grad);
    w->collisions += *held != slot * 2 + is_grad + 1;
    *held = 0;
}

static bool has_input_half(const struct cs_rank_program *p, const struct cs_action *of)
{
    for (uint32_t i = 0; i < p->n_actions; i++)
        if (p->actions[i].op == CS_OP_BWD_INPUT && p->actions[i].stage == of->stage)
            return true;
    return false;
}

/* what a compute action writes when it begins, or has read when it ends */
static void touch(struct world *w, int rank, const struct cs_action *a, bool is_begin)
{
    const bool is_fwd = a->op == CS_OP_FWD;
    const bool is_bwd = a->op == CS_OP_BWD || a->op == CS_OP_BWD_INPUT ||
                        (a->op == CS_OP_BWD_WEIGHT && !has_input_half(&w->program->rank[rank], a));
    for (int e = 0; (is_fwd || is_bwd) && e < w->plan->n_edges; e++) {
        const struct cs_edge *edge = &w->plan->edges[e];
        if (is_missing(w, e, a->slot) || (is_bwd && !edge->has_grad))
            continue;
        if (is_begin && (is_fwd ? edge->from : edge->to) == a->stage)
            fill(w, rank, e, a->slot, is_bwd);
        if (!is_begin && (is_fwd ? edge->to : edge->from) == a->stage)
            empty(w, rank, e, a->slot, is_bwd);
    }
}

static bool is_ready(const struct world *w, int rank, const struct cs_action *a)
{
    const struct cs_rank_program *p = &w->program->rank[rank];
    for (uint32_t d = 0; d < a->n_deps; d++)
        if (!w->done[rank][p->deps[a->first_dep + d]])
            return false;
    return true;
}

/* The next event of a rank's compute stream: an action begins or ends. false: none can happen. */
static bool advance_rank(struct world *w, int rank)
{
    const struct cs_rank_program *p = &w->program->rank[rank];
    struct agent *agent = &w->rank[rank];
    if (agent->next == p->n_fifo[CS_STREAM_COMPUTE])
        return false;
    const struct cs_action *a = &p->actions[p->fifo[CS_STREAM_COMPUTE][agent->next]];
    if (!agent->is_busy && !is_ready(w, rank, a))
        return false;
    touch(w, rank, a, !agent->is_busy);
    if (agent->is_busy) {
        w->done[rank][a->id] = true;
        agent->next++;
    }
    agent->is_busy = !agent->is_busy;
    return true;
}

static bool advance_channel(struct world *w, struct channel *l)
{
    while (l->agent.next < l->n &&
           is_missing(w, l->send[l->agent.next]->edge, l->send[l->agent.next]->slot))
        l->agent.next++;
    if (l->agent.next == l->n)
        return false;
    const struct cs_action *a = l->send[l->agent.next];
    if (!l->agent.is_busy) {
        if (!is_ready(w, l->from, a))
            return false;
        fill(w, l->to, a->edge, a->slot, a->is_grad);
    } else {
        empty(w, l->from, a->edge, a->slot, a->is_grad);
        w->done[l->from][a->id] = true;
        w->done[l->to][w->receive[l->to][key_of(w, a->edge, a->slot, a->is_grad)]] = true;
        l->agent.next++;
    }
    l->agent.is_busy = !l->agent.is_busy;
    return true;
}

/* Messages without rows are over before they begin; what follows the backwards has no rows. */
static void begin_step(struct world *w)
{
    for (int i = 0; i < 3 * w->program->n_slots; i++)
        w->is_empty[i] = below(4) == 0;
    for (int r = 0; r < w->program->n_ranks; r++) {
        w->rank[r] = (struct agent){.patience = below(3) * below(60)};
        for (uint32_t i = 0; i < w->program->rank[r].n_actions; i++) {
            const struct cs_action *a = &w->program->rank[r].actions[i];
            w->done[r][i] = cs_op_stream((enum cs_op)a->op) == CS_STREAM_COMM &&
                            (a->edge < 0 || is_missing(w, a->edge, a->slot));
        }
    }
    for (int i = 0; i < w->n_channels; i++)
        w->channel[i].agent = (struct agent){.patience = below(3) * below(60)};
}

static bool is_over(const struct world *w)
{
    for (int r = 0; r < w->program->n_ranks; r++)
        if (w->rank[r].next < w->program->rank[r].n_fifo[CS_STREAM_COMPUTE])
            return false;
    return true;
}

/* asked in turn from a random one on; false: nobody could do anything */
static bool turn(struct world *w, bool asks_all)
{
    const int n = w->program->n_ranks + w->n_channels, from = below(n);
    bool has_moved = false;
    for (int k = 0; k < n; k++) {
        const int i = (from + k) % n - w->program->n_ranks;
        struct agent *agent = i < 0 ? &w->rank[i + w->program->n_ranks] : &w->channel[i].agent;
        if (!asks_all && agent->patience > 0 && below(agent->patience) > 0)
            continue;
        while (i < 0 ? advance_rank(w, i + w->program->n_ranks)
                     : advance_channel(w, &w->channel[i])) {
            has_moved = true;
            if (agent->patience > 0)
                break;
        }
    }
    return has_moved;
}

static void run(struct world *w)
{
    begin_step(w);
    while (!is_over(w))
        if (!turn(w, false) && !turn(w, true))
            fail_msg("%s with %d slots stands still", w->plan->schedule, w->program->n_slots);
}

static void open_channel(struct world *w, int from, int to, struct cs_arena *arena)
{
    const struct cs_rank_program *p = &w->program->rank[from];
    struct channel *l = &w->channel[w->n_channels];
    *l = (struct channel){.from = from, .to = to};
    l->send = CS_NEW_ARRAY(arena, const struct cs_action *, p->n_actions + 1);
    for (uint32_t i = 0; i < p->n_actions; i++)
        if (p->actions[i].op == CS_OP_SEND && p->actions[i].peer == to)
            l->send[l->n++] = &p->actions[i];
    w->n_channels += l->n > 0;
}

static void open_world(struct world *w, const struct cs_program *program, struct cs_arena *arena)
{
    const struct cs_plan *plan = program->plan;
    const int n = program->n_ranks, n_edges = plan->n_edges;
    const size_t n_keys = (size_t)n_edges * (size_t)program->n_slots * FLOWS;
    struct cs_err err = {.text = ""};
    *w = (struct world){.program = program, .plan = plan};
    w->buffer = CS_NEW_ARRAY(arena, int32_t *, n);
    w->holds = CS_NEW_ARRAY(arena, int32_t **, n);
    w->done = CS_NEW_ARRAY(arena, bool *, n);
    w->rank = CS_NEW_ARRAY(arena, struct agent, n);
    w->channel = CS_NEW_ARRAY(arena, struct channel, n * n + 1);
    w->receive = CS_NEW_ARRAY(arena, uint32_t *, n);
    w->is_empty = CS_NEW_ARRAY(arena, bool, 3 * program->n_slots);
    for (int r = 0; r < n; r++) {
        const struct cs_rank_program *p = &program->rank[r];
        int32_t *n_buffers = CS_NEW_ARRAY(arena, int32_t, n_edges + 1);
        w->buffer[r] = CS_NEW_ARRAY(arena, int32_t, n_keys + 1);
        w->receive[r] = CS_NEW_ARRAY(arena, uint32_t, n_keys + 1);
        w->holds[r] = CS_NEW_ARRAY(arena, int32_t *, n_edges + 1);
        w->done[r] = CS_NEW_ARRAY(arena, bool, p->n_actions + 1);
        if (cs_memory_buffers(program, r, w->buffer[r], n_buffers, &err) != CS_OK)
            fail_msg("%s", err.text);
        for (int e = 0; e < n_edges; e++) {
            w->holds[r][e] = CS_NEW_ARRAY(arena, int32_t, n_buffers[e] + 1);
            w->made += n_buffers[e];
        }
        for (size_t i = 0; i < n_keys; i++)
            w->taken += w->buffer[r][i] >= 0;
        for (uint32_t i = 0; i < p->n_actions; i++)
            if (p->actions[i].op == CS_OP_RECV)
                w->receive[r][key_of(w, p->actions[i].edge, p->actions[i].slot,
                                     p->actions[i].is_grad)] = i;
        for (int to = 0; to < n; to++)
            open_channel(w, r, to, arena);
    }
}

static struct cs_program *make_program(struct cs_test_random_plan *m, const struct shape *s,
                                       int n_slots, bool is_eval, struct cs_arena *arena)
{
    struct cs_program *program = NULL;
    struct cs_err err = {.text = ""};
    make_plan(m, s);
    if (cs_program_make(&m->plan, NULL, n_slots, is_eval, arena, &program, &err) != CS_OK)
        fail_msg("%s: %s", s->schedule, err.text);
    return program;
}

/* ---- claims ---- */

static void rows_never_meet_and_nobody_waits(void **state)
{
    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        const struct shape s = random_shape(round);
        struct cs_test_random_plan m;
        struct cs_arena *arena = cs_arena_new(0);
        struct world w;
        const int fewest = fewest_slots(&s), n_slots = fewest + below(MAX_SLOTS - fewest + 1);
        open_world(&w, make_program(&m, &s, n_slots, below(6) == 0, arena), arena);
        for (int i = 0; i < ORDERS; i++)
            run(&w);
        if (w.collisions > 0)
            fail_msg("%s, layout %d, %d ranks, %d slots: rows met in a buffer", s.schedule,
                     (int)s.layout, m.plan.n_ranks, w.program->n_slots);
        cs_arena_free(arena);
    }
}

/* Two buffers of a rank become one. false: no edge has two. */
static bool merge_two(struct world *w, const struct shape *s)
{
    const int r = below(w->program->n_ranks);
    const size_t per_edge = (size_t)w->program->n_slots * FLOWS;
    for (int e = 0; e < w->plan->n_edges; e++) {
        int32_t *buffer = w->buffer[r] + (size_t)e * per_edge, last = 0;
        for (size_t i = 0; i < per_edge; i++)
            last = buffer[i] > last ? buffer[i] : last;
        for (size_t i = 0; last > 0 && i < per_edge; i++)
            buffer[i] = buffer[i] == last ? 0 : buffer[i];
        if (last > 0 && s->trains[w->plan->stages[w->plan->edges[e].from].branch])
            return true;
    }
    return false;
}

static void a_buffer_less_is_noticed(void **state)
{
    int n = 0, noticed = 0;
    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        const struct shape s = random_shape(round);
        struct cs_test_random_plan m;
        struct cs_arena *arena = cs_arena_new(0);
        struct world w;
        const int fewest = fewest_slots(&s), n_slots = fewest + below(MAX_SLOTS - fewest + 1);
        open_world(&w, make_program(&m, &s, n_slots, false, arena), arena);
        if (merge_two(&w, &s)) {
            for (int i = 0; i < 8 * ORDERS && w.collisions == 0; i++)
                run(&w);
            n++;
            noticed += w.collisions > 0;
        }
        cs_arena_free(arena);
    }
    assert_in_range(n, ROUNDS / 2, ROUNDS);
    assert_in_range(noticed, 2 * n / 3, n);
}

/* With gradients that come back, rows of as many slots are under way as a stage keeps activations
 * of, however many slots a step has. */
static void buffers_are_as_many_as_slots_alive(void **state)
{
    static const int factor[] = {1, 1, 2}; /* 1f1b, zb-h1, zb-h2 */
    (void)state;
    for (int i = 0; i < 3 * MAX_RANKS * 2; i++) {
        const struct shape s = {.schedule = schedules[i % 3],
                                .ranks = 2 + i / 3 % (MAX_RANKS - 1),
                                .chunks = 1,
                                .trains = {true}};
        const int n_slots = i < 3 * MAX_RANKS ? MAX_SLOTS / 2 : MAX_SLOTS;
        struct cs_arena *arena = cs_arena_new(0);
        struct cs_test_random_plan m;
        struct cs_err err = {.text = ""};
        if (fewest_slots(&s) <= n_slots) {
            const struct cs_program *program = make_program(&m, &s, n_slots, false, arena);
            int32_t *n = CS_NEW_ARRAY(arena, int32_t, m.plan.n_edges);
            int32_t *buffer = CS_NEW_ARRAY(arena, int32_t, m.plan.n_edges * n_slots * FLOWS);
            for (int r = 0; r < s.ranks; r++) {
                assert_int_equal(cs_memory_buffers(program, r, buffer, n, &err), CS_OK);
                for (int e = 0; e < m.plan.n_edges; e++)
                    assert_int_equal(n[e],
                                     e == r || e == r - 1 ? factor[i % 3] * (s.ranks - e) : 0);
            }
        }
        cs_arena_free(arena);
    }
}

/* Different numbers of ranks share two stages: some ranks send nothing, or are sent nothing, so that no
 * message proves that rows were read. */
static void rows_between_stages_of_other_widths_share_no_buffer(void **state)
{
    const struct shape s = {.schedule = "1f1b", .ranks = 3, .chunks = 1, .trains = {true}};
    (void)state;
    for (int32_t tp = 1; tp <= 2; tp++) {
        struct cs_arena *arena = cs_arena_new(0);
        struct cs_test_random_plan m;
        struct cs_err err = {.text = ""};
        const struct cs_program *program = make_program(&m, &s, MAX_SLOTS, false, arena);
        int32_t *n = CS_NEW_ARRAY(arena, int32_t, m.plan.n_edges);
        int32_t *buffer = CS_NEW_ARRAY(arena, int32_t, m.plan.n_edges * MAX_SLOTS * FLOWS);
        m.stage[2].shape.tp = tp;
        assert_int_equal(cs_memory_buffers(program, 0, buffer, n, &err), CS_OK);
        assert_int_equal(n[0], tp == 1 ? s.ranks : MAX_SLOTS * FLOWS);
        for (int i = 0; tp > 1 && i < MAX_SLOTS * FLOWS; i++)
            for (int k = 0; k < i; k++)
                assert_int_not_equal(buffer[i], buffer[k]);
        cs_arena_free(arena);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_never_meet_and_nobody_waits),
        cmocka_unit_test(a_buffer_less_is_noticed),
        cmocka_unit_test(buffers_are_as_many_as_slots_alive),
        cmocka_unit_test(rows_between_stages_of_other_widths_share_no_buffer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
