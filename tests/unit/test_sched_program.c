/* Programs of real plans: messages, end of step, evaluation; damaged programs are refused with the
 * actions named, and stall when they are simulated all the same. */
#include "core/plan/json/plan_json.h"
#include "core/plan/plan_schedule.h"
#include "core/sched/lower/lower.h"
#include "core/sched/proof/verify.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

#include "core/sched/sim/predict.h"
#include "tests/support/planned.h"

enum { SLOTS = 4 };

struct made {
    struct cs_test_planned job;
    struct cs_program *program;
    struct cs_err err;
};

static const struct cs_cluster *cpu_cluster(struct cs_cluster *cluster)
{
    *cluster = (struct cs_cluster){cs_device_class_find("cpu"), 1, 16};
    return cluster;
}

static void make(struct made *m, const struct cs_test_spec *options, int slots, bool is_eval)
{
    struct cs_cluster cluster;
    json_t *root = cs_test_spec_json(options);
    *m = (struct made){.job = cs_test_plan_json(root, cpu_cluster(&cluster))};
    if (cs_program_make(m->job.plan, m->job.graph, slots, is_eval, m->job.arena, &m->program,
                        &m->err) != CS_OK)
        fail_msg("%s", m->err.text);
}

static void done(struct made *m)
{
    cs_test_planned_free(&m->job);
}

static int count(const struct made *m, int rank, enum cs_op op, int is_grad)
{
    int n = 0;
    for (uint32_t i = 0; i < m->program->rank[rank].n_actions; i++) {
        const struct cs_action *a = &m->program->rank[rank].actions[i];
        n += a->op == op && a->is_grad == is_grad;
    }
    return n;
}

/* the n-th action of a kind */
static struct cs_action *find(const struct made *m, int rank, enum cs_op op, int is_grad, int nth)
{
    for (uint32_t i = 0; i < m->program->rank[rank].n_actions; i++) {
        struct cs_action *a = &m->program->rank[rank].actions[i];
        if (a->op == op && a->is_grad == is_grad && nth-- == 0)
            return a;
    }
    fail_msg("rank %d has no such action", rank);
    return NULL;
}

static const struct cs_test_spec both = {.llm_pp = 2};

static void messages_follow_edges_and_gradients(void **state)
{
    (void)state;
    struct made m;
    make(&m, &both, SLOTS, false); /* vision.0, llm.0, llm.1 */
    static const int want[3][4] = {
        {4, 0, 0, 4},
        {4, 4, 4, 4},
        {0, 4, 4, 0}
    };
    for (int r = 0; r < 3; r++) {
        assert_int_equal(count(&m, r, CS_OP_SEND, 0), want[r][0]);
        assert_int_equal(count(&m, r, CS_OP_RECV, 0), want[r][1]);
        assert_int_equal(count(&m, r, CS_OP_SEND, 1), want[r][2]);
        assert_int_equal(count(&m, r, CS_OP_RECV, 1), want[r][3]);
        assert_int_equal(count(&m, r, CS_OP_NORM, 0), 1);
        assert_int_equal(count(&m, r, CS_OP_STEP, 0), 1);
        assert_int_equal(count(&m, r, CS_OP_MARK, 0), 1);
        assert_int_equal(count(&m, r, CS_OP_TIED, 0), 0);
    }
    done(&m);
}

static void frozen_encoder_gets_no_message_back(void **state)
{
    (void)state;
    struct made m;
    make(&m, &(struct cs_test_spec){.vision_pp = 2, .llm_pp = 2, .rules = "train:vision.projector"},
         SLOTS, false);
    assert_int_equal(count(&m, 0, CS_OP_RECV, 1), 0);
    assert_int_equal(count(&m, 0, CS_OP_BWD, 0), 0);
    assert_int_equal(count(&m, 1, CS_OP_SEND, 1), 0);
    assert_int_equal(count(&m, 1, CS_OP_RECV, 1), SLOTS);
    assert_int_equal(count(&m, 2, CS_OP_SEND, 1), SLOTS);
    done(&m);
}

static void evaluation_runs_forward_only(void **state)
{
    (void)state;
    struct made m;
    make(&m, &(struct cs_test_spec){.llm_pp = 2, .is_tied = true}, SLOTS, true);
    for (int r = 0; r < 3; r++) {
        assert_int_equal(count(&m, r, CS_OP_FWD, 0), SLOTS);
        assert_int_equal(count(&m, r, CS_OP_BWD, 0), 0);
        assert_int_equal(count(&m, r, CS_OP_SEND, 1), 0);
        assert_int_equal(count(&m, r, CS_OP_NORM, 0) + count(&m, r, CS_OP_STEP, 0), 0);
        assert_int_equal(count(&m, r, CS_OP_TIED, 0), 0);
        assert_int_equal(count(&m, r, CS_OP_MARK, 0), 1);
    }
    done(&m);
}

static void tied_embedding_is_exchanged_once_unless_frozen(void **state)
{
    (void)state;
    struct made m;
    make(&m, &(struct cs_test_spec){.llm_pp = 2, .is_tied = true}, SLOTS, false);
    assert_int_equal(count(&m, 0, CS_OP_TIED, 0), 0);
    assert_int_equal(find(&m, 1, CS_OP_TIED, 0, 0)->peer, 2);
    assert_int_equal(find(&m, 2, CS_OP_TIED, 0, 0)->peer, 1);
    done(&m);
    make(&m,
         &(struct cs_test_spec){.llm_pp = 2, .is_tied = true, .rules = "train:vision.projector"},
         SLOTS, false);
    for (int r = 0; r < 3; r++)
        assert_int_equal(count(&m, r, CS_OP_TIED, 0), 0);
    done(&m);
}

static void one_rank_has_no_messages(void **state)
{
    (void)state;
    struct made m;
    make(&m, &(struct cs_test_spec){.n_encoders = 2, .modality = "encoder-colocated"}, SLOTS,
         false);
    assert_int_equal(m.program->n_ranks, 1);
    assert_int_equal(count(&m, 0, CS_OP_SEND, 0) + count(&m, 0, CS_OP_RECV, 0), 0);
    struct cs_buf text = {0};
    cs_program_text(m.program, 2, &text);
    assert_string_equal(cs_buf_str(&text), "F0 B0 F1 B1 F2 B2 F3 B3");
    cs_buf_free(&text);
    assert_int_equal(find(&m, 0, CS_OP_FWD, 0, 0)->stage, 0);
    assert_int_equal(find(&m, 0, CS_OP_FWD, 0, 2)->stage, 2);
    assert_int_equal(find(&m, 0, CS_OP_BWD, 0, 0)->stage, 2);
    done(&m);
}

static void hashes_tell_programs_apart(void **state)
{
    (void)state;
    struct made a, b;
    make(&a, &both, SLOTS, false);
    make(&b, &both, SLOTS, false);
    assert_int_equal(strlen(a.program->hash), 64);
    assert_string_equal(a.program->hash, b.program->hash);
    done(&b);
    make(&b, &both, SLOTS + 1, false);
    assert_string_not_equal(a.program->hash, b.program->hash);
    done(&b);
    make(&b, &both, SLOTS, true);
    assert_string_not_equal(a.program->hash, b.program->hash);
    done(&b);
    done(&a);
}

static void check_says(const struct made *m, const char *const *words)
{
    for (; *words; words++)
        if (!strstr(m->err.text, *words))
            fail_msg("\"%s\" does not say \"%s\"", m->err.text, *words);
}

static void check_refused(struct made *m, const char *const *words)
{
    assert_int_equal(cs_program_verify(m->program, &m->err), CS_PLAN);
    check_says(m, words);
}

static void check_stalls(struct made *m, const char *word)
{
    struct cs_sim_options options = {.hop_ns = 1};
    struct cs_sim_result r;
    assert_int_equal(cs_simulate(m->program, &options, m->job.arena, &r, &m->err), CS_PLAN);
    check_says(m, (const char *const[]){"dead-lock", word, NULL});
}

static void swap_ids(struct cs_rank_program *rp, enum cs_stream stream, uint32_t a, uint32_t b)
{
    for (uint32_t i = 0; i < rp->n_fifo[stream]; i++) {
        uint32_t *id = &rp->fifo[stream][i];
        *id = *id == a ? b : *id == b ? a : *id;
    }
}

static void swapped_sends_are_refused_and_stall(void **state)
{
    (void)state;
    struct made m;
    make(&m, &both, SLOTS, false);
    swap_ids(&m.program->rank[0], CS_STREAM_COMM, find(&m, 0, CS_OP_SEND, 0, 1)->id,
             find(&m, 0, CS_OP_SEND, 0, 2)->id);
    check_refused(&m, (const char *const[]){"rank 0: send rows of edge vision.0 -> llm.0, slot 2",
                                            "rank 1: recv rows of edge vision.0 -> llm.0, slot 1",
                                            NULL});
    check_stalls(&m, "rank 1: forward of llm.0, slot 1");
    done(&m);
}

static void swapped_receives_are_refused_and_stall(void **state)
{
    (void)state;
    struct made m;
    make(&m, &both, SLOTS, false);
    swap_ids(&m.program->rank[1], CS_STREAM_COMM, find(&m, 1, CS_OP_RECV, 1, 0)->id,
             find(&m, 1, CS_OP_RECV, 1, 3)->id);
    check_refused(&m,
                  (const char *const[]){"rank 2: send grad of edge llm.0 -> llm.1, slot 0",
                                        "rank 1: recv grad of edge llm.0 -> llm.1, slot 3", NULL});
    check_stalls(&m, "rank 1: backward of llm.0, slot 0");
    done(&m);
}

/* out of the list, with every later id moved down */
static void drop(struct cs_rank_program *rp, uint32_t id)
{
    for (uint32_t i = id; i + 1 < rp->n_actions; i++) {
        rp->actions[i] = rp->actions[i + 1];
        rp->actions[i].id = i;
    }
    rp->n_actions--;
    for (uint32_t d = 0; d < rp->n_deps; d++)
        rp->deps[d] -= rp->deps[d] > id;
    for (int s = 0; s < CS_STREAM_COUNT; s++) {
        uint32_t n = 0;
        for (uint32_t i = 0; i < rp->n_fifo[s]; i++)
            if (rp->fifo[s][i] != id)
                rp->fifo[s][n++] = rp->fifo[s][i] - (rp->fifo[s][i] > id);
        rp->n_fifo[s] = n;
    }
}

static void dropped_receive_is_refused_and_stalls(void **state)
{
    (void)state;
    struct made m;
    make(&m, &both, SLOTS, false);
    drop(&m.program->rank[2], find(&m, 2, CS_OP_RECV, 0, 3)->id);
    check_refused(&m, (const char *const[]){"rank 2: recv rows of edge llm.0 -> llm.1, slot 3",
                                            "is missing", NULL});
    check_stalls(&m, "rank 1: send rows of edge llm.0 -> llm.1, slot 3");
    done(&m);
}

static void dropped_work_is_refused(void **state)
{
    (void)state;

    static const struct {
        enum cs_op op;
        int is_grad;
        const char *words;
    } rows[] = {
        {CS_OP_SEND, 1, "rank 1: send grad of edge vision.0 -> llm.0, slot 0 is missing"},
        {CS_OP_FWD,  0, "rank 1: forward of llm.0, slot 0 is missing"                   },
        {CS_OP_BWD,  0, "rank 1: backward of llm.0, slot 0 is missing"                  },
        {CS_OP_NORM, 0, "rank 1 has 0 gradient norms"                                   },
        {CS_OP_STEP, 0, "rank 1 has 1 gradient norms, 0 optimizer steps"                },
        {CS_OP_MARK, 0, "0 ends of step"                                                },
    };

    for (size_t i = 0; i < CS_ARRAY_LEN(rows); i++) {
        struct made m;
        make(&m, &both, SLOTS, false);
        drop(&m.program->rank[1], find(&m, 1, rows[i].op, rows[i].is_grad, 0)->id);
        check_refused(&m, (const char *const[]){rows[i].words, NULL});
        done(&m);
    }
}

/* gradients over replicas before their norm, weights after the update; nothing of it without
 * them */
static void replicas_sum_gradients_and_gather_weights(void **state)
{
    static const struct cs_test_spec twice = {.llm_pp = 2, .dp = 2, .is_tied = true};

    static const struct {
        enum cs_op op;
        const char *words;
    } rows[] = {
        {CS_OP_REDUCE, "rank 1 sums gradients over replicas 0 times and gathers weights 1"},
        {CS_OP_GATHER, "rank 1 sums gradients over replicas 1 times and gathers weights 0"},
    };

    (void)state;
    struct made m;
    make(&m, &twice, SLOTS / 2, false);
    assert_int_equal(cs_plan_world(m.job.plan), 2 * m.program->n_ranks);
    for (int r = 0; r < m.program->n_ranks; r++) {
        const uint32_t reduce = find(&m, r, CS_OP_REDUCE, 0, 0)->id;
        const uint32_t gather = find(&m, r, CS_OP_GATHER, 0, 0)->id;
        assert_int_equal(count(&m, r, CS_OP_REDUCE, 0), 1);
        assert_int_equal(count(&m, r, CS_OP_GATHER, 0), 1);
        assert_true(reduce < find(&m, r, CS_OP_NORM, 0, 0)->id);
        assert_true(find(&m, r, CS_OP_STEP, 0, 0)->id < gather);
        if (count(&m, r, CS_OP_TIED, 0)) /* each end's own sum, then the exchange of parts */
            assert_true(reduce < find(&m, r, CS_OP_TIED, 0, 0)->id);
    }
    struct cs_program *eval;
    assert_int_equal(cs_program_make(m.job.plan, m.job.graph, 2, true, m.job.arena, &eval, &m.err),
                     CS_OK);
    m.program = eval;
    assert_int_equal(count(&m, 0, CS_OP_REDUCE, 0) + count(&m, 0, CS_OP_GATHER, 0), 0);
    done(&m);
    for (size_t i = 0; i < CS_ARRAY_LEN(rows); i++) {
        make(&m, &twice, SLOTS / 2, false);
        drop(&m.program->rank[1], find(&m, 1, rows[i].op, 0, 0)->id);
        check_refused(&m, (const char *const[]){rows[i].words, NULL});
        done(&m);
    }
    make(&m, &twice, SLOTS / 2, false);
    find(&m, 1, CS_OP_GATHER, 0, 0)->n_deps = 0;
    check_refused(&m, (const char *const[]){"rank 1: updated weights of the replicas",
                                            "does not wait for the optimizer step", NULL});
    done(&m);
    make(&m, &twice, SLOTS / 2, false);
    find(&m, 1, CS_OP_TIED, 0, 0)->n_deps = 1; /* of its last backward */
    check_refused(&m, (const char *const[]){"rank 1: exchange of the tied embedding",
                                            "does not wait for the sum over the replicas", NULL});
    done(&m);
    make(&m, &both, SLOTS, false);
    assert_int_equal(count(&m, 1, CS_OP_REDUCE, 0) + count(&m, 1, CS_OP_GATHER, 0), 0);
    done(&m);
}

static void missing_collective_member_stalls(void **state)
{
    (void)state;
    struct made m;
    make(&m, &both, SLOTS, false);
    drop(&m.program->rank[1], find(&m, 1, CS_OP_NORM, 0, 0)->id);
    check_stalls(&m, "rank 0: gradient norm");
    done(&m);
}

static void swapped_collectives_are_refused_and_stall(void **state)
{
    (void)state;
    struct made m;
    make(&m, &(struct cs_test_spec){.llm_pp = 2, .is_tied = true}, SLOTS, false);
    struct cs_action *norm = find(&m, 1, CS_OP_NORM, 0, 0);
    uint32_t tied = find(&m, 1, CS_OP_TIED, 0, 0)->id;
    swap_ids(&m.program->rank[1], CS_STREAM_COMM, norm->id, tied);
    check_refused(&m, (const char *const[]){"would hang", "rank 1: gradient norm",
                                            "rank 1: exchange of the tied embedding", NULL});
    check_stalls(&m, "rank 1: gradient norm");
    done(&m);
}

static void cycle_across_ranks_names_them(void **state)
{
    (void)state;
    struct made m;
    make(&m, &both, SLOTS, false);
    /* llm.0 wants the gradient of slot 0 before it computes slot 0 of llm.1's input */
    swap_ids(&m.program->rank[1], CS_STREAM_COMPUTE, find(&m, 1, CS_OP_FWD, 0, 0)->id,
             find(&m, 1, CS_OP_BWD, 0, 0)->id);
    check_refused(&m, (const char *const[]){"would hang", "rank 1: backward of llm.0, slot 0",
                                            "waits for", NULL});
    check_stalls(&m, "rank 1: backward of llm.0, slot 0");
    done(&m);
}

static void duplicated_step_is_refused(void **state)
{
    (void)state;
    struct made m;
    make(&m, &both, SLOTS, false);
    struct cs_rank_program *rp = &m.program->rank[1];
    struct cs_action *more = CS_NEW_ARRAY(m.job.arena, struct cs_action, rp->n_actions + 1);
    uint32_t *fifo = CS_NEW_ARRAY(m.job.arena, uint32_t, rp->n_actions + 1);
    uint32_t n = rp->n_fifo[CS_STREAM_COMPUTE];
    memcpy(more, rp->actions, rp->n_actions * sizeof *more);
    memcpy(fifo, rp->fifo[CS_STREAM_COMPUTE], n * sizeof *fifo);
    more[rp->n_actions] = *find(&m, 1, CS_OP_STEP, 0, 0);
    more[rp->n_actions].id = rp->n_actions;
    fifo[n] = rp->n_actions;
    rp->actions = more;
    rp->fifo[CS_STREAM_COMPUTE] = fifo;
    rp->n_actions++;
    rp->n_fifo[CS_STREAM_COMPUTE]++;
    check_refused(&m, (const char *const[]){"rank 1: optimizer step is there too often", NULL});
    done(&m);
}

static void lost_dependencies_are_refused(void **state)
{
    (void)state;

    static const struct {
        enum cs_op op;
        int is_grad;
        const char *words;
    } rows[] = {
        {CS_OP_FWD,  0, "rank 1: forward of llm.0, slot 0 does not wait for its rows"        },
        {CS_OP_BWD,  0, "rank 1: backward of llm.0, slot 0 does not depend on its forward"   },
        {CS_OP_SEND, 0, "rank 1: send rows of edge llm.0 -> llm.1, slot 0 does not depend on"},
        {CS_OP_NORM, 0, "rank 1: gradient norm does not wait for the last work"              },
        {CS_OP_STEP, 0, "rank 1: optimizer step does not wait for the gradient norm"         },
    };

    for (size_t i = 0; i < CS_ARRAY_LEN(rows); i++) {
        struct made m;
        make(&m, &both, SLOTS, false);
        find(&m, 1, rows[i].op, rows[i].is_grad, 0)->n_deps = 0;
        check_refused(&m, (const char *const[]){rows[i].words, NULL});
        done(&m);
    }
}

static void wild_indices_are_refused_before_use(void **state)
{
    (void)state;
    struct made m;
    make(&m, &both, SLOTS, false);
    struct cs_action *send = find(&m, 0, CS_OP_SEND, 0, 0), kept = *send;
    struct cs_sim_options options = {0};
    struct cs_sim_result r;
    struct cs_action bad[7];
    for (int i = 0; i < 7; i++)
        bad[i] = kept;
    bad[0].peer = 99;
    bad[1].edge = 99;
    bad[2].slot = SLOTS;
    bad[3].op = CS_OP_COUNT;
    bad[4].first_dep = UINT32_MAX;
    bad[5].peer = 0;
    bad[6].id = 1000000;
    for (int i = 0; i < 7; i++) {
        *send = bad[i];
        assert_int_equal(cs_program_verify(m.program, &m.err), CS_PLAN);
        assert_int_equal(cs_simulate(m.program, &options, m.job.arena, &r, &m.err), CS_PLAN);
    }
    *send = kept;
    send->peer = 2; /* a rank, but not the other end */
    check_refused(&m, (const char *const[]){"is not at its end of the edge", NULL});
    *send = kept;
    assert_int_equal(cs_program_verify(m.program, &m.err), CS_OK);
    done(&m);
}

static void prediction_leaves_the_hash_alone(void **state)
{
    (void)state;
    struct made m;
    struct cs_cluster cluster;
    char before[65];
    make(&m, &both, SLOTS, false);
    memcpy(before, m.job.plan->hash, sizeof before);
    assert_int_equal(m.job.plan->predicted_step_ns, 0);
    assert_null(m.job.plan->predicted_bubble);
    assert_int_equal(
        cs_plan_predict(m.job.plan, m.job.graph, cpu_cluster(&cluster), m.job.arena, &m.err),
        CS_OK);
    assert_string_equal(before, m.job.plan->hash);
    for (int32_t s = 0; s < m.job.plan->n_stages; s++) {
        const struct cs_stage *st = &m.job.plan->stages[s];
        double busy =
            (double)(m.job.plan->slots * (st->fwd_ns + st->bwd_input_ns + st->bwd_weight_ns));
        double want = 1 - busy / (double)m.job.plan->predicted_step_ns;
        assert_true(m.job.plan->predicted_bubble[s] > 0 && m.job.plan->predicted_bubble[s] < 1);
        assert_true(m.job.plan->predicted_bubble[s] - want < 1e-12 &&
                    want - m.job.plan->predicted_bubble[s] < 1e-12);
    }
    struct cs_plan *read = NULL;
    json_t *json = cs_plan_json(m.job.plan, m.job.graph);
    assert_int_equal(cs_plan_read(json, m.job.graph, m.job.arena, &read, &m.err), CS_OK);
    assert_int_equal(read->predicted_step_ns, m.job.plan->predicted_step_ns);
    json_decref(json);
    done(&m);
}

static void events_are_ordered_like_the_streams(void **state)
{
    (void)state;
    struct made m;
    struct cs_sim_options options = {.hop_ns = 500, .link_bytes_per_s = 1000000000};
    struct cs_sim_result r;
    make(&m, &both, SLOTS, false);
    assert_int_equal(cs_simulate(m.program, &options, m.job.arena, &r, &m.err), CS_OK);
    for (int rank = 0; rank < 3; rank++) {
        const struct cs_rank_program *rp = &m.program->rank[rank];
        uint64_t before = 0;
        for (uint32_t i = 0; i < rp->n_fifo[CS_STREAM_COMPUTE]; i++) {
            const struct cs_event *e = &r.events[rank][rp->fifo[CS_STREAM_COMPUTE][i]];
            assert_true(e->start_ns >= before && e->end_ns >= e->start_ns);
            assert_int_equal(e->kind, CS_EVENT_ACTION);
            before = e->end_ns;
        }
        for (uint32_t i = 0; i < rp->n_actions; i++)
            for (uint32_t d = 0; d < rp->actions[i].n_deps; d++)
                assert_true(r.events[rank][i].start_ns >=
                            r.events[rank][rp->deps[rp->actions[i].first_dep + d]].end_ns);
    }
    /* a message takes the hop and its bytes: 128 rows x 48 x 4 at 1 GB/s */
    const struct cs_event *e = &r.events[1][find(&m, 1, CS_OP_SEND, 0, 0)->id];
    assert_int_equal(e->end_ns - e->start_ns, 500 + 128 * 48 * 4);
    const struct cs_event *last =
        &r.events[r.critical[2 * r.n_critical - 2]][r.critical[2 * r.n_critical - 1]];
    assert_int_equal(last->end_ns, r.makespan_ns);
    done(&m);
}

static int64_t end_cost(void *user, const struct cs_program *program, int rank,
                        const struct cs_action *action)
{
    (void)user;
    (void)program;
    return action->op == CS_OP_NORM ? 10 * (rank + 1) : action->op == CS_OP_STEP ? 1000 : 0;
}

static void norm_is_one_meeting_of_all_ranks(void **state)
{
    (void)state;
    struct made m;
    struct cs_sim_options options = {.cost = end_cost};
    struct cs_sim_result r;
    make(&m, &both, SLOTS, false);
    assert_int_equal(cs_simulate(m.program, &options, m.job.arena, &r, &m.err), CS_OK);
    assert_int_equal(r.makespan_ns, 30 + 1000); /* the slowest member decides */
    for (int rank = 0; rank < 3; rank++) {
        const struct cs_event *norm = &r.events[rank][find(&m, rank, CS_OP_NORM, 0, 0)->id];
        assert_int_equal(norm->end_ns, 30);
    }
    done(&m);
}

/* the plan under another schedule than its own */
static void remake(struct made *m, const char *schedule)
{
    m->job.plan->schedule = schedule;
    if (cs_program_make(m->job.plan, m->job.graph, SLOTS + 2, false, m->job.arena, &m->program,
                        &m->err) != CS_OK)
        fail_msg("%s", m->err.text);
}

static void zero_bubble_splits_the_backward_of_a_plan(void **state)
{
    (void)state;
    static const char *const names[] = {"zb-h1", "zb-h2", "zb-h2-late"};
    for (size_t i = 0; i < CS_ARRAY_LEN(names); i++) {
        struct made m;
        make(&m, &(struct cs_test_spec){.llm_pp = 2, .is_tied = true}, SLOTS, false);
        remake(&m, names[i]);
        for (int r = 0; r < 3; r++) {
            assert_int_equal(count(&m, r, CS_OP_BWD, 0), 0);
            assert_int_equal(count(&m, r, CS_OP_BWD_INPUT, 0), SLOTS + 2);
            assert_int_equal(count(&m, r, CS_OP_BWD_WEIGHT, 0), SLOTS + 2);
        }
        /* the tied exchange and the norm come after the last weight gradient */
        uint32_t last = find(&m, 1, CS_OP_BWD_WEIGHT, 0, SLOTS + 1)->id;
        const struct cs_rank_program *rp = &m.program->rank[1];
        assert_int_equal(rp->deps[find(&m, 1, CS_OP_TIED, 0, 0)->first_dep], last);
        assert_int_equal(rp->deps[find(&m, 1, CS_OP_NORM, 0, 0)->first_dep], last);
        done(&m);
    }
}

static void damaged_zero_bubble_programs_are_refused(void **state)
{
    (void)state;

    static const struct {
        enum cs_op op;
        const char *drop_words, *deps_words;
    } rows[] = {
        {CS_OP_BWD_INPUT,  "rank 1: input backward of llm.0, slot 0 is missing",
         "rank 1: input backward of llm.0, slot 0 does not depend on its forward"        },
        {CS_OP_BWD_WEIGHT, "rank 1: weight backward of llm.0, slot 0 is missing",
         "rank 1: weight backward of llm.0, slot 0 does not depend on its input backward"},
    };

    struct made m;
    for (size_t i = 0; i < CS_ARRAY_LEN(rows); i++) {
        make(&m, &both, SLOTS, false);
        remake(&m, "zb-h1");
        find(&m, 1, rows[i].op, 0, 0)->n_deps = 0;
        check_refused(&m, (const char *const[]){rows[i].deps_words, NULL});
        remake(&m, "zb-h1");
        drop(&m.program->rank[1], find(&m, 1, rows[i].op, 0, 0)->id);
        check_refused(&m, (const char *const[]){rows[i].drop_words, NULL});
        done(&m);
    }
    make(&m, &both, SLOTS, false);
    remake(&m, "zb-h1");
    swap_ids(&m.program->rank[1], CS_STREAM_COMPUTE, find(&m, 1, CS_OP_BWD_WEIGHT, 0, 1)->id,
             find(&m, 1, CS_OP_BWD_WEIGHT, 0, 2)->id);
    check_refused(&m, (const char *const[]){"weight backward of llm.0, slot 1 comes after a later "
                                            "slot",
                                            NULL});
    remake(&m, "zb-h1");
    find(&m, 1, CS_OP_FWD, 0, 0)->lead = 1;
    check_refused(&m, (const char *const[]){"does not belong to a fully frozen encoder", NULL});
    done(&m);
}

static void frozen_plans_split_only_what_trains(void **state)
{
    (void)state;
    struct made m;
    make(&m, &(struct cs_test_spec){.vision_pp = 2, .llm_pp = 2, .rules = "train:vision.projector"},
         SLOTS, false);
    remake(&m, "zb-h1");
    assert_int_equal(count(&m, 0, CS_OP_BWD_INPUT, 0) + count(&m, 0, CS_OP_BWD_WEIGHT, 0), 0);
    assert_int_equal(count(&m, 1, CS_OP_BWD_WEIGHT, 0), SLOTS + 2);
    assert_int_equal(count(&m, 2, CS_OP_BWD_INPUT, 0), SLOTS + 2);
    assert_int_equal(count(&m, 2, CS_OP_BWD_WEIGHT, 0), 0);
    done(&m);
}

/* three ranks: encoder frozen with its projector trained on the second; the first may lead */
static void leading_rows_wait_for_the_rows_before_them(void **state)
{
    (void)state;
    struct made m;
    struct cs_program_options how = {.n_slots = SLOTS, .lead_before = 2, .lead_after = 2};
    make(&m, &(struct cs_test_spec){.vision_pp = 2, .llm_pp = 2, .rules = "train:vision.projector"},
         SLOTS, false);
    m.job.plan->schedule = "1f1b";
    assert_int_equal(
        cs_program_make_with(m.job.plan, m.job.graph, &how, m.job.arena, &m.program, &m.err),
        CS_OK);
    const struct cs_action *recv = find(&m, 1, CS_OP_RECV, 0, 2);
    assert_int_equal(find(&m, 0, CS_OP_FWD, 0, 0)->slot, 2);
    assert_int_equal(recv->lead, 1);
    assert_int_equal(recv->slot, 0);
    const struct cs_rank_program *rp = &m.program->rank[1];
    assert_int_equal(rp->deps[recv->first_dep], find(&m, 1, CS_OP_BWD, 0, 0)->id);
    find(&m, 1, CS_OP_RECV, 0, 2)->n_deps = 0;
    check_refused(&m, (const char *const[]){"of the next step does not wait until the rows before "
                                            "it are used",
                                            NULL});
    done(&m);
}

static void plans_that_do_not_fit_a_schedule_are_refused(void **state)
{
    (void)state;

    static const struct {
        const char *schedule, *words;
        int slots;
    } rows[] = {
        {"zb-h2",       "at least 5 slots are needed", 4},
        {"three-phase", "is not one of 2 copies",      4},
        {"anchors",     "is not one of 2 copies",      4},
        {"zb-h9",       "did you mean \"zb-h1\"",      4},
    };

    for (size_t i = 0; i < CS_ARRAY_LEN(rows); i++) {
        struct made m;
        struct cs_program *none = NULL;
        make(&m, &both, SLOTS, false);
        m.job.plan->schedule = rows[i].schedule;
        assert_int_equal(cs_program_make(m.job.plan, m.job.graph, rows[i].slots, false, m.job.arena,
                                         &none, &m.err),
                         CS_PLAN);
        check_says(&m, (const char *const[]){rows[i].words, NULL});
        done(&m);
    }
}

static void schedules_of_planner_and_generators_agree(void **state)
{
    (void)state;
    static const char *const names[] = {"1f1b", "gpipe"};
    struct cs_err err;
    for (size_t i = 0; i < CS_ARRAY_LEN(names); i++) {
        struct made m;
        assert_int_equal(cs_plan_check_schedule(names[i], &err), CS_OK);
        make(&m, &(struct cs_test_spec){.schedule = names[i]}, SLOTS, false);
        struct cs_program *none = NULL;
        assert_int_equal(
            cs_program_make(m.job.plan, m.job.graph, 0, false, m.job.arena, &none, &m.err),
            CS_PLAN);
        m.job.plan->schedule = "zb-h9";
        assert_int_equal(
            cs_program_make(m.job.plan, m.job.graph, 1, false, m.job.arena, &none, &m.err),
            CS_PLAN);
        done(&m);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_follow_edges_and_gradients),
        cmocka_unit_test(frozen_encoder_gets_no_message_back),
        cmocka_unit_test(evaluation_runs_forward_only),
        cmocka_unit_test(tied_embedding_is_exchanged_once_unless_frozen),
        cmocka_unit_test(one_rank_has_no_messages),
        cmocka_unit_test(hashes_tell_programs_apart),
        cmocka_unit_test(swapped_sends_are_refused_and_stall),
        cmocka_unit_test(swapped_receives_are_refused_and_stall),
        cmocka_unit_test(dropped_receive_is_refused_and_stalls),
        cmocka_unit_test(dropped_work_is_refused),
        cmocka_unit_test(replicas_sum_gradients_and_gather_weights),
        cmocka_unit_test(missing_collective_member_stalls),
        cmocka_unit_test(swapped_collectives_are_refused_and_stall),
        cmocka_unit_test(cycle_across_ranks_names_them),
        cmocka_unit_test(duplicated_step_is_refused),
        cmocka_unit_test(lost_dependencies_are_refused),
        cmocka_unit_test(wild_indices_are_refused_before_use),
        cmocka_unit_test(prediction_leaves_the_hash_alone),
        cmocka_unit_test(events_are_ordered_like_the_streams),
        cmocka_unit_test(norm_is_one_meeting_of_all_ranks),
        cmocka_unit_test(zero_bubble_splits_the_backward_of_a_plan),
        cmocka_unit_test(damaged_zero_bubble_programs_are_refused),
        cmocka_unit_test(frozen_plans_split_only_what_trains),
        cmocka_unit_test(leading_rows_wait_for_the_rows_before_them),
        cmocka_unit_test(plans_that_do_not_fit_a_schedule_are_refused),
        cmocka_unit_test(schedules_of_planner_and_generators_agree),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
