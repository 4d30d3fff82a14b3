/* The replayed order of a plan against the programs that would run, simulated: the same makespan
 * and the same live slots, for every placement, schedule and message time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

#include "core/sched/lower/lower.h"
#include "core/sched/sim/sim.h"
#include "core/sched/traits.h"
#include "core/search/trial.h"

enum { ENC = 3, LLM = 9 };

struct model {
    struct cs_search_layer layer[3][LLM];
    struct cs_search_option option[3];
    struct cs_search_problem problem;
};

static uint64_t state_of;

static int64_t draw(int64_t low, int64_t high)
{
    state_of = state_of * 6364136223846793005u + 1442695040888963407u;
    return low + (int64_t)((state_of >> 33) % (uint64_t)(high - low + 1));
}

/* encoders a and v and an LLM; what trains is drawn, and flows downstream */
static void draw_model(struct model *m)
{
    static const char *const names[] = {"a", "v", "llm"};
    bool feeds = false;
    memset(m, 0, sizeof(*m));
    m->problem =
        (struct cs_search_problem){.n_branches = 3, .llm = 2, .n_ranks = 64, .ranks_per_node = 64};
    m->problem.link_bytes_per_s = draw(0, 1) ? 1000000000 : 0;
    m->problem.link_latency_ns = 3;
    m->problem.net_bytes_per_s = 1000000000;
    for (int b = 0; b < 3; b++) {
        bool trains = b == 2 && feeds;
        int n = b == 2 ? LLM : ENC;
        for (int i = 0; i < n; i++) {
            struct cs_search_layer *l = &m->layer[b][i];
            l->fwd_ns = draw(1, 20);
            l->needs_input_grad = trains;
            l->is_trained = draw(0, 2) == 0;
            trains = trains || l->is_trained;
            l->bwd_input_ns = l->needs_input_grad ? draw(1, 20) : 0;
            l->bwd_weight_ns = l->is_trained ? draw(1, 20) : 0;
            l->saved_bytes = l->bwd_input_ns + l->bwd_weight_ns > 0 ? draw(1, 9) : 0;
        }
        feeds = feeds || trains;
        m->option[b] = (struct cs_search_option){
            .tp = 1, .cp = 1, .recompute = CS_RECOMPUTE_NONE, .layer = m->layer[b]};
        m->problem.branch[b] = (struct cs_search_branch){.name = names[b],
                                                         .n_layers = n,
                                                         .n_options = 1,
                                                         .option = &m->option[b],
                                                         .inner_bytes = draw(0, 9),
                                                         .out_bytes = b == 2 ? 0 : draw(0, 9)};
    }
}

static int64_t stage_cost(void *user, const struct cs_program *program, int rank,
                          const struct cs_action *a)
{
    const struct cs_trial *t = user;
    (void)rank;
    return a->op == CS_OP_SEND ? t->hop[CS_FLOWS * a->edge + (a->is_grad ? 1 : 0)]
                               : cs_action_work_ns(program->plan, a);
}

/* Slots between the halves of split backwards: one byte each, of the stages that have both halves. */
static void expect_equal_halves(const struct cs_trial *t, const struct cs_program *program,
                                const struct cs_replay *replay, const int32_t *each,
                                struct cs_arena *arena)
{
    const int32_t n = t->plan->n_stages;
    struct cs_replay_kept *one = CS_NEW_ARRAY(arena, struct cs_replay_kept, n);
    int32_t *slots = CS_NEW_ARRAY(arena, int32_t, n), *inputs = CS_NEW_ARRAY(arena, int32_t, n),
            *weights = CS_NEW_ARRAY(arena, int32_t, n);
    int64_t *bytes = CS_NEW_ARRAY(arena, int64_t, t->plan->n_ranks);
    for (int32_t s = 0; s < n; s++)
        one[s].held = 1;
    cs_replay_peaks(replay, each, one, slots, bytes, arena);
    for (int32_t r = 0; r < program->n_ranks; r++)
        for (uint32_t i = 0; i < program->rank[r].n_actions; i++) {
            const struct cs_action *a = &program->rank[r].actions[i];
            if (a->op == CS_OP_BWD_INPUT)
                inputs[a->stage]++;
            if (a->op == CS_OP_BWD_WEIGHT)
                weights[a->stage]++;
        }
    for (int32_t r = 0; r < program->n_ranks; r++) {
        int64_t now = 0, most = 0;
        for (uint32_t i = 0; i < program->rank[r].n_actions; i++) {
            const struct cs_action *a = &program->rank[r].actions[i];
            if (a->stage < 0 || inputs[a->stage] == 0 || weights[a->stage] == 0)
                continue;
            now += (a->op == CS_OP_BWD_INPUT) - (a->op == CS_OP_BWD_WEIGHT);
            most = now > most ? now : most;
        }
        assert_int_equal(bytes[r], most);
    }
}

static void expect_equal(struct cs_trial *t, struct cs_arena *arena)
{
    struct cs_program *program = NULL;
    struct cs_replay *replay = NULL;
    struct cs_sim_result sim;
    struct cs_err err = {.text = ""};
    struct cs_program_options how = {.n_slots = t->slots, .share = t->share};
    if (cs_program_make_with(t->plan, NULL, &how, arena, &program, &err) != CS_OK ||
        cs_simulate(program, &(struct cs_sim_options){.cost = stage_cost, .user = t}, arena, &sim,
                    &err) != CS_OK ||
        cs_trial_replay(t, t->slots, &replay, &err) != CS_OK)
        fail_msg("%s: %s", t->plan->schedule, err.text);
    int64_t *end = CS_NEW_ARRAY(arena, int64_t, cs_replay_scratch(replay, 0));
    int64_t makespan = cs_replay_run(replay, cs_trial_costs(t, replay), t->hop, NULL, end);
    if (makespan != sim.makespan_ns)
        fail_msg("%s, encoders %s and %s: replayed %lld, simulated %lld", t->plan->schedule,
                 cs_placement_table[t->c->place[0]].name, cs_placement_table[t->c->place[1]].name,
                 (long long)makespan, (long long)sim.makespan_ns);
    int32_t *each = CS_NEW_ARRAY(arena, int32_t, t->plan->n_stages);
    int32_t *slots = CS_NEW_ARRAY(arena, int32_t, t->plan->n_stages);
    int64_t *bytes = CS_NEW_ARRAY(arena, int64_t, t->plan->n_ranks);
    struct cs_replay_kept *saved = CS_NEW_ARRAY(arena, struct cs_replay_kept, t->plan->n_stages);
    for (int32_t s = 0; s < t->plan->n_stages; s++) {
        each[s] = s;
        saved[s].saved = t->plan->stages[s].saved_bytes = t->kept[s].saved; /* the simulator's */
    }
    expect_equal_halves(t, program, replay, each, arena);
    cs_replay_peaks(replay, each, saved, slots, bytes, arena);
    if (cs_simulate(program, &(struct cs_sim_options){.cost = stage_cost, .user = t}, arena, &sim,
                    &err) != CS_OK)
        fail_msg("%s", err.text);
    for (int32_t s = 0; s < t->plan->n_stages; s++)
        assert_int_equal(slots[s], sim.peak[s]);
    for (int32_t r = 0; r < t->plan->n_ranks; r++)
        assert_int_equal(bytes[r], sim.peak_bytes[r]);
}

static int try_plan(struct model *m, const int place[2], int schedule, int32_t chunks)
{
    struct cs_found found = {.schedule = (enum cs_schedule_id)schedule, .chunks = chunks};
    struct cs_search_options options = {.batch_slots = 12, .zeros = 2, .dp = 1};
    struct cs_candidate *c = &found.candidate;
    struct cs_trial t;
    struct cs_err err;
    struct cs_arena *arena = cs_arena_new(0);
    int32_t pp = (int32_t)draw(chunks > 1 ? 2 : 1, 3);
    *c = (struct cs_candidate){
        .dp = 1, .zero = {1, 1, 1}
    };
    for (int b = 0; b < 3; b++) {
        c->place[b] = b < 2 ? (uint8_t)place[b] : CS_PLACE_OWN;
        c->pp[b] = (int16_t)(b == 2 ? pp : place[b] == CS_PLACE_OWN ? draw(1, 2) : 1);
        c->own_dp[b] = c->place[b] == CS_PLACE_COLOCATED ? pp : 1;
    }
    cs_trial_start(&t, &m->problem, &options, &found, arena);
    if (cs_trial_cut(&t, arena, &err) != CS_OK)
        fail_msg("%s", err.text);
    cs_trial_lower(&t);
    struct cs_replay *replay = NULL;
    bool works = cs_trial_replay(&t, t.slots, &replay, &err) == CS_OK;
    if (works)
        expect_equal(&t, arena);
    cs_arena_free(arena);
    return works;
}

static void replayed_is_simulated(void **state)
{
    int n[CS_SCHEDULES][CS_SEARCHED_PLACEMENTS * CS_SEARCHED_PLACEMENTS] = {{0}};
    (void)state;
    state_of = 5;
    for (int trial = 0; trial < 40; trial++) {
        struct model m;
        draw_model(&m);
        for (int s = 0; s < CS_SCHEDULES; s++)
            for (int p = 0; p < CS_SEARCHED_PLACEMENTS * CS_SEARCHED_PLACEMENTS; p++) {
                int place[2] = {p % CS_SEARCHED_PLACEMENTS, p / CS_SEARCHED_PLACEMENTS};
                bool is_cut = cs_plan_schedule(s)->layout == CS_LAYOUT_CHUNKS;
                n[s][p] += try_plan(&m, place, s, is_cut ? (int32_t)draw(2, 3) : 1);
            }
    }
    for (int s = 0; s < CS_SCHEDULES; s++) { /* what the search relies on was there */
        const unsigned takes = cs_plan_schedule(s)->takes;
        if ((takes & (1u << CS_PLACE_OWN)))
            assert_true(n[s][0] > 30);
        if ((takes & (1u << CS_PLACE_COLOCATED)) && !(takes & (1u << CS_PLACE_OWN)))
            assert_true(n[s][CS_PLACE_COLOCATED * (CS_SEARCHED_PLACEMENTS + 1)] > 30);
        if ((takes & (1u << CS_PLACE_OWN)) && (takes & (1u << CS_PLACE_REPLICATED)))
            assert_true(n[s][CS_PLACE_REPLICATED] > 30);
    }
    assert_true(n[0][CS_PLACE_COLOCATED] > 30); /* own and colocated, 1f1b */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(replayed_is_simulated),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
