/* Every pipeline layout gives the bits of one rank: losses, norms, weights; replicas agree with
 * each other to the bit and with one rank to 1e-5. Ranks are threads that talk through the socket
 * transport. */
#include "core/plan/groups.h"
#include "worker/train/trainer.h"

#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

#include "support/device.h"
#include "support/lazy_device.h"
#include "support/need.h"
#include "support/planned.h"
#include "support/ranks.h"
#include "support/step.h"

enum {
    MAX_RANKS = CS_TEST_MAX_RANKS,
    MAX_PARAMS = 256,
    N_STEPS = 4,
    N_SLOTS = 3,
    REPLICA_SLOTS = 4,
    N_SOURCES = 3 /* of tests/support/step.c */
};

struct outcome {
    double loss[N_STEPS], norm[N_STEPS];
    char hash[MAX_PARAMS][33];
    char before[MAX_PARAMS][33];
    char tied_copy[33];       /* the head's copy of the embedding, "": there is none */
    float *value[MAX_PARAMS]; /* of replica 0 at the end, where they are kept */
    bool keeps_values;
    int n_params;
    int64_t messages, bytes; /* as sent */
    int64_t sends;           /* as the programs say, without those of zero rows */
    size_t saved[MAX_RANKS]; /* peak activations of the last step */
    int64_t eval_samples, eval_exact;
    double eval_loss;
    struct cs_source_loss source[N_SOURCES]; /* of the evaluation */
    double alone[N_SOURCES]; /* the loss when only labels of the source are there; one rank */
    int n_ranks;
};

struct job {
    struct cs_test_planned made;
    struct cs_test_step step[N_STEPS];
};

struct run {
    struct job job;
    struct outcome *outcome; /* of all ranks */
    bool is_lazy;            /* devices with streams (support/lazy_device.h) */
};

static const int single[16]; /* every stage on rank 0 */

/* messages with rows that a rank's program sends in this step */
static int64_t count_sends(const struct cs_trainer *t, const struct cs_program *program)
{
    const struct cs_rank_program *p = &program->rank[t->config.rank % program->n_ranks];
    int64_t n = 0;
    for (uint32_t i = 0; i < p->n_actions; i++) {
        const struct cs_action *a = &p->actions[i];
        if (a->op != CS_OP_SEND)
            continue;
        const struct cs_edge *edge = &t->config.plan->edges[a->edge];
        const int32_t branch = t->config.plan->stages[edge->from].branch;
        const int32_t e = t->config.graph->branches[branch].encoder;
        n += (e < 0 ? t->inputs[a->slot].n_tokens : t->inputs[a->slot].n_rows[e]) > 0;
    }
    return n;
}

static pthread_mutex_t outcome_lock = PTHREAD_MUTEX_INITIALIZER;

/* Of what ranks of a stage have in pieces, the hash is that of the first. */
static bool is_elsewhere(const struct cs_trainer *t, const struct cs_shard *tensor)
{
    return t->params->tp.at > 0 && tensor->part->dim >= 0;
}

/* replicas have the same values */
static void hash_all(const struct cs_trainer *t, char (*out)[33])
{
    for (int32_t i = 0; i < t->params->n; i++) {
        const struct cs_shard *tensor = &t->params->shard[i];
        char hash[33];
        if (!tensor->is_counted || is_elsewhere(t, tensor))
            continue;
        CS_ASSERT(cs_params_hash(t->params, tensor, hash, NULL) == CS_OK);
        pthread_mutex_lock(&outcome_lock);
        char *known = out[tensor->param->id];
        CS_ASSERT(known[0] == '\0' || strcmp(known, hash) == 0);
        memcpy(known, hash, sizeof hash);
        pthread_mutex_unlock(&outcome_lock);
    }
}

static enum cs_status keep_values(const struct cs_trainer *t, struct outcome *o, struct cs_err *err)
{
    for (int32_t i = 0; o->keeps_values && t->params->replica == 0 && i < t->params->n; i++) {
        const struct cs_shard *tensor = &t->params->shard[i];
        const float *values;
        if (!tensor->is_counted)
            continue;
        CS_TRY(cs_params_values(t->params, tensor, &values, err));
        const size_t n = (size_t)tensor->whole->count;
        pthread_mutex_lock(&outcome_lock);
        float **copy = &o->value[tensor->param->id];
        if (*copy == NULL)
            *copy = malloc(n * sizeof **copy);
        CS_ASSERT(*copy != NULL);
        if (tensor->part != NULL)
            cs_tp_put(tensor->part, tensor->whole, values, *copy);
        else
            memcpy(*copy, values, n * sizeof **copy);
        pthread_mutex_unlock(&outcome_lock);
    }
    return CS_OK;
}

/* replicas have the same copy */
static enum cs_status keep_tied_copy(const struct cs_trainer *t, struct outcome *o,
                                     struct cs_err *err)
{
    char hash[33];
    if (t->params->tied == NULL || t->params->embed != NULL)
        return CS_OK;
    CS_TRY(cs_params_hash(t->params, t->params->tied, hash, err));
    pthread_mutex_lock(&outcome_lock);
    CS_ASSERT(o->tied_copy[0] == '\0' || strcmp(o->tied_copy, hash) == 0);
    memcpy(o->tied_copy, hash, sizeof hash);
    pthread_mutex_unlock(&outcome_lock);
    return CS_OK;
}

static void add_sources(struct outcome *o, const struct cs_step_result *result)
{
    double sum = 0;
    int64_t tokens = 0;
    for (int k = 0; k < CS_SOURCES_MAX; k++) {
        CS_ASSERT(k < N_SOURCES || result->source[k].tokens == 0);
        sum += result->source[k].sum;
        tokens += result->source[k].tokens;
        if (k >= N_SOURCES)
            continue;
        o->source[k].sum += result->source[k].sum;
        o->source[k].tokens += result->source[k].tokens;
    }
    CS_ASSERT(tokens == result->trained_tokens);
    CS_ASSERT(fabs(sum - result->loss_sum) <= 1e-9 * fabs(result->loss_sum));
}

/* The evaluation once more, without the labels of other sources. */
static enum cs_status eval_alone(const struct run *r, struct cs_trainer *t, int source,
                                 struct cs_err *err)
{
    const struct cs_test_step *step = &r->job.step[0];
    struct cs_manifest eval = step->manifest;
    struct cs_step_result result;
    int32_t *kept[N_SLOTS + 1] = {0};
    eval.kind = CS_STEP_EVAL;
    eval.trained_tokens = 0;
    for (int i = 0; i < eval.n_slots; i++) {
        const struct cs_slot *slot = &step->slot[i];
        const size_t n = (size_t)slot->head->n_tokens;
        CS_ASSERT(i < N_SLOTS + 1 && (kept[i] = malloc((n + 1) * sizeof(int32_t))) != NULL);
        memcpy(kept[i], slot->labels, n * sizeof(int32_t));
        for (size_t k = 0; k < n; k++) {
            const bool is_other = slot->sample_sources[slot->doc[k]] != source;
            slot->head->n_labels -= is_other && slot->labels[k] >= 0;
            slot->labels[k] = is_other ? -1 : slot->labels[k];
        }
        cs_manifest_note(&eval, i, slot);
        eval.trained_tokens += slot->head->n_labels;
    }
    enum cs_status status = cs_trainer_step(t, &eval, step->slot, NULL, &result, err);
    r->outcome->alone[source] = status == CS_OK ? result.loss_sum : (double)NAN;
    for (int i = 0; i < eval.n_slots; i++) {
        const struct cs_slot *slot = &step->slot[i];
        memcpy(slot->labels, kept[i], (size_t)slot->head->n_tokens * sizeof(int32_t));
        slot->head->n_labels = step->manifest.n_labels[i];
        free(kept[i]);
    }
    return status;
}

static enum cs_status train(const struct run *r, struct cs_trainer *t, struct cs_err *err)
{
    struct outcome *o = r->outcome;
    CS_TRY(cs_params_load(t->params, r->job.made.spec->seed, err));
    int64_t allocs = 0;
    hash_all(t, o->before);
    for (int s = 0; s < N_STEPS; s++) {
        struct cs_step_result result;
        const struct cs_program *program;
        const struct cs_test_step *step = &r->job.step[s];
        CS_TRY(cs_trainer_step(t, &step->manifest, step->slot, NULL, &result, err));
        allocs = s == 0 ? t->config.device->n_allocs : allocs;
        CS_ASSERT(t->config.device->n_allocs == allocs); /* all of it is planned */
        CS_TRY(cs_trainer_program(t, step->manifest.n_slots, false, &program, err));
        pthread_mutex_lock(&outcome_lock);
        if (result.has_loss) {
            o->loss[s] += result.loss_sum;
            o->norm[s] = result.grad_norm;
        }
        o->messages += result.counts.messages_sent;
        o->bytes += result.counts.bytes_sent;
        o->sends += count_sends(t, program);
        o->saved[t->config.rank] = result.counts.saved_bytes;
        pthread_mutex_unlock(&outcome_lock);
    }
    struct cs_step_result result;
    struct cs_manifest eval = r->job.step[0].manifest;
    eval.kind = CS_STEP_EVAL;
    CS_TRY(cs_trainer_step(t, &eval, r->job.step[0].slot, NULL, &result, err));
    if (result.has_loss) {
        pthread_mutex_lock(&outcome_lock);
        o->eval_samples += result.n_samples;
        o->eval_exact += result.n_exact;
        o->eval_loss += result.loss_sum;
        add_sources(o, &result);
        pthread_mutex_unlock(&outcome_lock);
    }
    for (int k = 0; k < N_SOURCES && cs_plan_world(r->job.made.plan) == 1; k++)
        CS_TRY(eval_alone(r, t, k, err));
    hash_all(t, o->hash);
    CS_TRY(keep_values(t, o, err));
    return keep_tied_copy(t, o, err);
}

static enum cs_status run_rank(void *user, int rank, const int *fds, struct cs_err *err)
{
    const struct run *r = user;
    const struct cs_test_planned *made = &r->job.made;
    struct cs_device *device = r->is_lazy ? cs_lazy_device_new() : cs_test_device();
    struct cs_comm *comm = NULL;
    struct cs_channels *channels = NULL;
    struct cs_context_comm *context = NULL;
    struct cs_replicas *replicas = NULL;
    struct cs_trainer *t = NULL;
    enum cs_status status = CS_OK;
    const int n = cs_plan_world(made->plan);
    if (n > 1)
        status = cs_comm_socket_new(rank, n, fds, &comm, err);
    if (status == CS_OK && r->is_lazy && made->plan->n_ranks > 1)
        status = cs_channels_new(device, made->plan, rank, comm, 60000, &channels, err);
    if (status == CS_OK)
        status = cs_context_comm_new(device, made->plan, rank, comm, 60000, &context, err);
    if (status == CS_OK)
        status = cs_replicas_new(device, made->plan, rank, comm, 60000, &replicas, err);
    const struct cs_trainer_config config = {
        .spec = made->spec,
        .graph = made->graph,
        .plan = made->plan,
        .device = device,
        .comm = comm,
        .channels = channels,
        .context = context,
        .replicas = replicas,
        .rank = rank,
        .deadline_ms = 60000,
    };
    if (status == CS_OK)
        status = cs_trainer_new(&config, &t, err);
    if (status == CS_OK)
        status = train(r, t, err);
    cs_replicas_free(replicas);
    cs_trainer_free(t);
    cs_context_comm_free(context);
    cs_channels_free(channels);
    if (r->is_lazy)
        cs_lazy_device_free(device);
    if (comm != NULL)
        comm->table->free(comm);
    return status;
}

/* ranks: of every stage, NULL: as planned */
static void open_job(struct job *job, const struct cs_test_spec *options, const int *ranks)
{
    *job = (struct job){.made = cs_test_plan(options)};
    if (ranks != NULL) {
        job->made.plan->n_ranks = 1;
        for (int i = 0; i < job->made.plan->n_stages; i++) {
            job->made.plan->stages[i].rank = ranks[i];
            if (ranks[i] >= job->made.plan->n_ranks)
                job->made.plan->n_ranks = ranks[i] + 1;
        }
        cs_plan_make_groups(job->made.plan, job->made.arena);
    }
    assert_true(job->made.graph->n_params < MAX_PARAMS - 1);
    /* samples with and without pictures; step 2 has none at all, its last slot is empty */
    for (int s = 0; s < N_STEPS; s++) {
        cs_test_step_new(&job->step[s], &job->made.plan->budget,
                         options->slots == REPLICA_SLOTS ? REPLICA_SLOTS : N_SLOTS, s);
        cs_test_step_random(&job->step[s], (uint64_t)s + 5, 199, s == 2 ? 0 : 60);
    }
}

static void run_job_on(bool is_lazy, const struct cs_test_spec *options, const int *ranks,
                       struct outcome *out)
{
    struct run run = {.outcome = out, .is_lazy = is_lazy};
    struct job *const job = &run.job;
    memset(out, 0, sizeof *out);
    out->keeps_values = options->slots == REPLICA_SLOTS;
    open_job(job, options, ranks);
    const int n = cs_plan_world(job->made.plan);
    cs_test_run_ranks(n, run_rank, &run);
    out->n_params = job->made.graph->n_params;
    out->n_ranks = n;
    const bool is_apart = job->made.plan->is_tied_across &&
                          job->made.plan->stages[job->made.plan->embed_stage].rank !=
                              job->made.plan->stages[job->made.plan->head_stage].rank;
    if (is_apart) /* both ends of a tied embedding stay one */
        assert_string_equal(out->tied_copy, out->hash[job->made.graph->tied_param]);
    else
        assert_string_equal(out->tied_copy, "");
    for (int i = 0; i < job->made.graph->n_params; i++) {
        const bool is_same = strcmp(out->before[i], out->hash[i]) == 0;
        if (is_same == job->made.graph->params[i].is_trainable)
            fail_msg("%s %s changed", job->made.graph->params[i].name,
                     is_same ? "is trained and has not" : "is frozen and has");
    }
    for (int s = 0; s < N_STEPS; s++)
        cs_test_step_free(&job->step[s]);
    cs_test_planned_free(&job->made);
}

static void run_job(const struct cs_test_spec *options, const int *ranks, struct outcome *out)
{
    run_job_on(false, options, ranks, out);
}

static void assert_same(const struct outcome *a, const struct outcome *b)
{
    assert_int_equal(a->n_params, b->n_params);
    for (int s = 0; s < N_STEPS; s++) {
        assert_true(isfinite(a->loss[s]) && a->loss[s] > 0.0);
        assert_memory_equal(&a->loss[s], &b->loss[s], sizeof(double));
        assert_memory_equal(&a->norm[s], &b->norm[s], sizeof(double));
    }
    for (int i = 0; i < a->n_params; i++) {
        assert_int_equal(strlen(a->hash[i]), 32);
        assert_string_equal(a->before[i], b->before[i]);
        assert_string_equal(a->hash[i], b->hash[i]);
    }
    assert_memory_equal(&a->eval_loss, &b->eval_loss, sizeof(double));
    assert_memory_equal(a->source, b->source, sizeof a->source);
    assert_int_equal(a->eval_samples, b->eval_samples);
    assert_int_equal(a->eval_exact, b->eval_exact);
    assert_true(a->eval_samples > 0);
}

static void layouts_equal_one_rank(struct cs_test_spec options)
{
    static const int layouts[][2] = {
        {1, 1},
        {1, 2},
        {2, 2},
        {3, 3}
    };
    struct outcome one, many;
    run_job(&options, single, &one);
    assert_int_equal(one.n_ranks, 1);
    assert_int_equal(one.messages, 0);
    for (size_t i = 0; i < CS_ARRAY_LEN(layouts); i++) {
        options.vision_pp = layouts[i][0];
        options.llm_pp = layouts[i][1];
        run_job(&options, NULL, &many);
        assert_int_equal(many.n_ranks, options.vision_pp + options.llm_pp);
        assert_same(&one, &many);
        assert_int_equal(many.messages, many.sends);
        assert_true(many.messages > 0);
    }
}

static void free_values(struct outcome *o)
{
    for (int i = 0; i < MAX_PARAMS; i++)
        free(o->value[i]);
}

/* What is told under a source is the loss of its labels. */
static void losses_by_source_are_those_of_their_labels(void **state)
{
    struct cs_test_spec options = {.seed = 21};
    struct outcome one, many;
    (void)state;
    run_job(&options, single, &one);
    for (int k = 0; k < N_SOURCES; k++) {
        assert_true(one.source[k].tokens > 0);
        assert_true(fabs(one.source[k].sum - one.alone[k]) <= 1e-5 * one.alone[k]);
        assert_true(k == 0 || fabs(one.source[k].sum - one.source[0].sum) > 1e-3);
    }
    options = (struct cs_test_spec){.seed = 21, .llm_pp = 2, .dp = 2, .slots = REPLICA_SLOTS};
    run_job(&options, NULL, &many);
    free_values(&many);
    options.dp = options.llm_pp = 0;
    run_job(&options, single, &one);
    free_values(&one);
    for (int k = 0; k < N_SOURCES; k++) {
        assert_int_equal(many.source[k].tokens, one.source[k].tokens);
        assert_true(fabs(many.source[k].sum - one.source[k].sum) <= 1e-4 * one.source[k].sum);
    }
}

static void untied_layouts_equal_one_rank(void **state)
{
    (void)state;
    layouts_equal_one_rank((struct cs_test_spec){.seed = 3});
}

static void tied_layouts_equal_one_rank(void **state)
{
    (void)state;
    layouts_equal_one_rank((struct cs_test_spec){.seed = 4, .is_tied = true, .is_qwen2 = true});
}

static void gpipe_layouts_equal_one_rank(void **state)
{
    (void)state;
    layouts_equal_one_rank(
        (struct cs_test_spec){.seed = 5, .is_tied = true, .is_qwen3 = true, .schedule = "gpipe"});
}

static void layouts_of_other_families_equal_one_rank(void **state)
{
    (void)state;
    layouts_equal_one_rank((struct cs_test_spec){
        .seed = 7, .is_tied = true, .llm_keys = CS_TEST_GEMMA4, .mask = "image_window"});
    layouts_equal_one_rank((struct cs_test_spec){.seed = 8, .llm_keys = CS_TEST_PHI3});
}

/* Recurrent blocks, and experts with their balancing loss, which knows the rows of the step. */
static void other_halves_equal_one_rank(void **state)
{
    static const char *const schedules[] = {"1f1b", "zb-h1"};
    static const char *const rules[] = {"train:*", "train:* freeze:llm.layers.0",
                                        "train:vision.projector"};
    (void)state;
    for (size_t i = 0; i < 2 * CS_ARRAY_LEN(rules); i++) {
        struct cs_test_spec options = {.seed = 12,
                                       .is_recurrent = i % 2 == 0,
                                       .has_experts = i % 2 == 1,
                                       .rules = rules[i / 2]};
        struct outcome one, many;
        run_job(&options, single, &one);
        for (size_t k = 0; k < CS_ARRAY_LEN(schedules); k++)
            for (options.llm_pp = 2; options.llm_pp <= 3; options.llm_pp++) {
                options.schedule = schedules[k];
                for (const char *const *level =
                         (const char *const[]){"none", "selective", "full", NULL};
                     *level; level++) {
                    options.recompute = *level;
                    run_job(&options, NULL, &many);
                    assert_same(&one, &many);
                }
            }
    }
}

static void frozen_layouts_equal_one_rank(void **state)
{
    static const char *const rules[] = {
        "train:vision.projector",
        "train:* freeze:vision.encoder*",
        "train:* freeze:llm*",
        "train:llm*",
        "train:vision.encoder* train:llm.layers.1",
        "train:llm.head",
        "train:llm.embed",
    };
    (void)state;
    for (size_t i = 0; i < CS_ARRAY_LEN(rules); i++) {
        layouts_equal_one_rank((struct cs_test_spec){.seed = 6, .rules = rules[i]});
        layouts_equal_one_rank(
            (struct cs_test_spec){.seed = 6, .rules = rules[i], .is_tied = true});
    }
}

/* Input and weight gradients as two actions, several stages on a rank, against whole backwards on
 * one rank. */
static void other_schedules_equal_one_rank(void **state)
{
    static const char *const rules[] = {
        "train:*",
        "train:vision.projector",
        "train:* freeze:vision.encoder*",
        "train:* freeze:llm*",
        "train:vision.encoder* train:llm.layers.1",
        "train:llm.head",
        "train:llm.embed",
    };

    static const struct {
        const char *name;
        int vision, llm;
    } schedules[] = {
        {"zb-h1",       2, 3},
        {"zb-h2",       1, 1},
        {"interleaved", 1, 2},
    };

    (void)state;
    for (size_t i = 0; i < CS_ARRAY_LEN(rules); i++) {
        struct cs_test_spec options = {.seed = 9,
                                       .is_tied = i % 2 == 0,
                                       .rules = rules[i],
                                       .llm_keys = i % 3 == 0 ? CS_TEST_GEMMA4 : NULL};
        struct outcome one, many;
        run_job(&options, single, &one);
        for (size_t k = 0; k < CS_ARRAY_LEN(schedules); k++) {
            options.schedule = schedules[k].name;
            options.vision_pp = schedules[k].vision;
            options.llm_pp = schedules[k].llm;
            run_job(&options, NULL, &many);
            assert_same(&one, &many);
            assert_int_equal(many.messages, many.sends);
        }
    }
}

/* What is made again has the bits of what is kept, and less is kept. */
static void recompute_changes_memory_only(void **state)
{
    static const char *const rules[] = {"train:*", "train:* freeze:llm*", "train:vision.projector"};
    static const char *const schedules[] = {"1f1b", "zb-h1"};
    (void)state;
    for (size_t i = 0; i < CS_ARRAY_LEN(rules) * CS_ARRAY_LEN(schedules); i++) {
        struct cs_test_spec options = {.seed = 10,
                                       .is_tied = i % 2 == 0,
                                       .is_qwen3 = i % 2 == 1,
                                       .llm_keys = i / 2 == 1 ? NULL : CS_TEST_GEMMA4,
                                       .rules = rules[i / 2],
                                       .schedule = schedules[i % 2],
                                       .llm_pp = 2};
        struct outcome kept, again;
        run_job(&options, NULL, &kept);
        size_t before = kept.saved[2];
        for (const char *const *level = (const char *const[]){"selective", "full", NULL}; *level;
             level++) {
            options.recompute = *level;
            run_job(&options, NULL, &again);
            assert_same(&kept, &again);
            if (options.schedule == schedules[0] && i / 2 == 0) {
                assert_true(again.saved[2] < before);
                before = again.saved[2];
            }
        }
    }
}

static void two_encoders_equal_one_rank(void **state)
{
    struct cs_test_spec options = {.seed = 7, .n_encoders = 2, .is_tied = true};
    struct outcome one, many;
    (void)state;
    run_job(&options, single, &one);
    options.llm_pp = 2;
    run_job(&options, NULL, &many);
    assert_int_equal(many.n_ranks, 4);
    assert_same(&one, &many);
    assert_int_equal(many.messages, many.sends);
}

/* several stages on a rank, also such that the rows come back to a rank they have been on */
static void shared_ranks_equal_one_rank(void **state)
{
    static const int places[][4] = {
        {0, 0, 1, 1},
        {0, 1, 0, 1},
        {1, 0, 1, 0},
        {0, 1, 2, 1},
        {0, 1, 2, 0},
        {1, 0, 0, 1},
    };
    struct cs_test_spec options = {.seed = 8, .vision_pp = 2, .llm_pp = 2, .is_tied = true};
    struct outcome one, many;
    (void)state;
    run_job(&options, single, &one);
    for (size_t i = 0; i < CS_ARRAY_LEN(places); i++) {
        run_job(&options, places[i], &many);
        assert_true(many.n_ranks > 1);
        assert_same(&one, &many);
        assert_int_equal(many.messages, many.sends);
    }
}

/* Frobenius norms: |a - b| <= 1e-4 |b| after some steps of AdamW, `slack` times that */
static void assert_near(const float *a, const float *b, int64_t n, const char *name, double slack)
{
    double apart = 0.0, size = 0.0;
    for (int64_t i = 0; i < n; i++) {
        apart += ((double)a[i] - (double)b[i]) * ((double)a[i] - (double)b[i]);
        size += (double)b[i] * (double)b[i];
    }
    if (!(sqrt(apart) <= slack * (1e-4 * sqrt(size) + 1e-7)))
        fail_msg("%s: %g apart, of %g", name, sqrt(apart), sqrt(size));
}

static void assert_replicas_near(const struct cs_test_spec *options, const struct outcome *one,
                                 const struct outcome *many)
{
    struct job job;
    /* strong decays of recurrent layers are differences of large sums: rounding grows; AdamW's first
     * steps are as long where a gradient is rounding only, which every row's order of keys changes */
    const bool shares = options->llm_tp > 1 || options->vision_tp > 1;
    const double slack = (options->is_recurrent ? 100 : 1) * (shares                ? 8
                                                              : options->llm_cp > 1 ? 4
                                                                                    : 1);
    open_job(&job, options, NULL);
    for (int s = 0; s < N_STEPS; s++) {
        if (!(fabs(one->loss[s] - many->loss[s]) <= slack * 1e-5 * one->loss[s]) ||
            !(fabs(one->norm[s] - many->norm[s]) <= slack * 1e-5 * one->norm[s]))
            fail_msg("step %d: loss %.9g and %.9g, norm %.9g and %.9g", s, one->loss[s],
                     many->loss[s], one->norm[s], many->norm[s]);
        cs_test_step_free(&job.step[s]);
    }
    assert_int_equal(one->eval_samples, many->eval_samples);
    assert_int_equal(one->eval_exact, many->eval_exact);
    assert_true(fabs(one->eval_loss - many->eval_loss) <= slack * 1e-5 * one->eval_loss);
    for (int i = 0; i < job.made.graph->n_params; i++)
        if (job.made.graph->params[i].role != CS_PARAM_K_B) /* gradient 0 but for rounding: AdamW
                                                          makes steps of noise of it */
            assert_near(many->value[i], one->value[i], job.made.graph->params[i].count,
                        job.made.graph->params[i].name, slack);
    cs_test_planned_free(&job.made);
}

static void replicas_agree_with_one_rank(void **state)
{
    static const struct {
        const char *rules, *schedule;
        int dp, vision, llm; /* llm 0: all on one rank */
        bool is_tied, is_recurrent, has_experts;
    } rows[] = {
        {"train:*",                        "1f1b",  2, 1, 0, true,  false, false},
        {"train:*",                        "1f1b",  4, 1, 0, false, false, false},
        {"train:*",                        "1f1b",  2, 1, 2, true,  false, false},
        {"train:*",                        "zb-h1", 2, 2, 2, true,  false, false},
        {"train:* freeze:vision.encoder*", "1f1b",  2, 1, 1, false, false, false},
        {"train:vision.projector",         "1f1b",  2, 1, 2, false, false, false},
        {"train:* freeze:llm*",            "1f1b",  2, 2, 1, true,  false, false},
        {"train:llm.embed",                "1f1b",  2, 1, 2, true,  false, false},
        {"train:*",                        "1f1b",  2, 1, 2, false, true,  false},
        {"train:*",                        "1f1b",  2, 1, 2, false, false, true },
    };

    (void)state;
    for (size_t i = 0; i < CS_ARRAY_LEN(rows); i++) {
        struct cs_test_spec options = {.seed = 11,
                                       .slots = REPLICA_SLOTS,
                                       .is_tied = rows[i].is_tied,
                                       .is_recurrent = rows[i].is_recurrent,
                                       .has_experts = rows[i].has_experts,
                                       .rules = rows[i].rules};
        struct outcome one, many;
        run_job(&options, single, &one);
        options.dp = rows[i].dp;
        options.schedule = rows[i].schedule;
        options.vision_pp = rows[i].vision;
        options.llm_pp = rows[i].llm > 0 ? rows[i].llm : 1;
        run_job(&options, rows[i].llm > 0 ? NULL : single, &many);
        assert_int_equal(many.n_ranks,
                         rows[i].dp * (rows[i].llm > 0 ? rows[i].vision + rows[i].llm : 1));
        assert_replicas_near(&options, &one, &many);
        assert_int_equal(many.messages, many.sends);
        free_values(&one);
        free_values(&many);
    }
}

struct mask {
    const char *name;
    int window, prefix;
    int like; /* rules of one number are the same here: a sample has one item of an encoder */
};

static const struct mask masks[] = {
    {"causal",             0,  0,  0},
    {"packed",             0,  0,  0},
    {"cornstarch",         0,  0,  1},
    {"item",               0,  0,  1},
    {"image_bidir",        0,  0,  2},
    {"modality_bidir",     0,  0,  2},
    {"image_bidir_window", 12, 0,  5},
    {"image_window",       12, 0,  6},
    {"window",             7,  0,  3},
    {"prefix",             0,  19, 4},
};

static struct cs_test_spec with_mask(const struct mask *mask)
{
    return (struct cs_test_spec){
        .seed = 13, .mask = mask->name, .window = mask->window, .prefix = mask->prefix};
}

/* Ranks of a pipeline under every rule of the LLM's mask; the rules differ. */
static void every_mask_equals_one_rank(void **state)
{
    double loss[CS_ARRAY_LEN(masks)];
    (void)state;
    for (size_t i = 0; i < CS_ARRAY_LEN(masks); i++) {
        struct cs_test_spec options = with_mask(&masks[i]);
        struct outcome one, many;
        options.n_encoders = 2;
        run_job(&options, single, &one);
        options.llm_pp = 2;
        run_job(&options, NULL, &many);
        assert_int_equal(many.n_ranks, 4);
        assert_same(&one, &many);
        loss[i] = one.loss[0];
        for (size_t k = 0; k < i; k++)
            if ((loss[k] == loss[i]) != (masks[k].like == masks[i].like))
                fail_msg("%s and %s: losses %.9g, %.9g", masks[k].name, masks[i].name, loss[k],
                         loss[i]);
    }
}

static void replicas_agree_under_every_mask(void **state)
{
    (void)state;
    for (size_t i = 0; i < CS_ARRAY_LEN(masks); i++) {
        struct cs_test_spec options = with_mask(&masks[i]);
        struct outcome one, many;
        options.slots = REPLICA_SLOTS;
        run_job(&options, single, &one);
        options.dp = 2;
        options.llm_pp = 2;
        run_job(&options, NULL, &many);
        assert_int_equal(many.n_ranks, 6);
        assert_replicas_near(&options, &one, &many);
        free_values(&one);
        free_values(&many);
    }
}

/* Rows of a slot, or matrices, on several ranks: one rank, within rounding. */
static void agrees_over_context_on(bool is_lazy, struct cs_test_spec options, int ranks)
{
    struct cs_test_spec alone = options;
    struct outcome one, many;
    alone.llm_tp = alone.vision_tp = 1;
    alone.llm_cp = alone.dp = alone.vision_pp = alone.depth_pp = alone.llm_pp = 1;
    alone.vision_cp = alone.context_rows = 0;
    alone.modality = NULL;
    alone.schedule = alone.recompute = NULL;
    run_job(&alone, single, &one);
    run_job_on(is_lazy, &options, NULL, &many);
    assert_int_equal(many.n_ranks, ranks);
    /* no update before it; gradients of decays move as much with the number of rows in a chunk */
    const double near = options.is_recurrent ? 5e-5 : 1e-6;
    if (!(fabs(one.loss[0] - many.loss[0]) <= 1e-6 * one.loss[0]) ||
        !(fabs(one.norm[0] - many.norm[0]) <= near * one.norm[0]))
        fail_msg("seed %d: loss %.9g and %.9g, norm %.9g and %.9g", options.seed, one.loss[0],
                 many.loss[0], one.norm[0], many.norm[0]);
    assert_replicas_near(&options, &one, &many);
    free_values(&one);
    free_values(&many);
}

static void agrees_over_context(struct cs_test_spec options, int ranks)
{
    agrees_over_context_on(false, options, ranks);
}

/* every rule; rows of pictures and text, empty slots, slots shorter than the ranks have blocks */
static void contexts_agree_with_one_rank(void **state)
{
    static const char *const rules[] = {"lpt",    "best",    "exact", "uniform",
                                        "zigzag", "striped", "random"};
    (void)state;
    for (size_t i = 0; i < CS_ARRAY_LEN(rules); i++)
        for (int cp = 2; cp <= 4; cp++)
            agrees_over_context((struct cs_test_spec){.seed = 20,
                                                      .slots = REPLICA_SLOTS,
                                                      .context = rules[i],
                                                      .llm_cp = cp,
                                                      .is_tied = cp == 3},
                                1 + cp);
}

/* with stages, replicas, both halves of a backward, recompute, and what is frozen */
static void contexts_go_with_other_layouts(void **state)
{
    static const struct {
        const char *rules, *schedule, *recompute;
        int cp, dp, vision, llm;
        bool is_tied;
    } rows[] = {
        {"train:*",                                  "1f1b",        "none",      2, 1, 1, 2, true },
        {"train:*",                                  "gpipe",       "full",      3, 1, 2, 2, false},
        {"train:*",                                  "zb-h1",       "selective", 2, 1, 1, 2, true },
        {"train:*",                                  "1f1b",        "none",      2, 2, 1, 1, true },
        {"train:*",                                  "interleaved", "none",      2, 1, 1, 1, false},
        {"train:* freeze:vision.encoder*",           "1f1b",        "none",      2, 1, 1, 2, false},
        {"train:vision.projector",                   "1f1b",        "none",      3, 1, 1, 2, false},
        {"train:* freeze:llm*",                      "zb-h1",       "none",      2, 1, 2, 1, true },
        {"train:vision.encoder* train:llm.layers.1", "1f1b",        "full",      2, 1, 1, 1, false},
        {"train:llm.head",                           "1f1b",        "none",      2, 1, 1, 1, false},
        {"train:llm.embed",                          "1f1b",        "none",      2, 1, 1, 2, false},
    };

    (void)state;
    for (size_t i = 0; i < CS_ARRAY_LEN(rows); i++)
        agrees_over_context((struct cs_test_spec){.seed = 21,
                                                  .slots = REPLICA_SLOTS,
                                                  .rules = rows[i].rules,
                                                  .schedule = rows[i].schedule,
                                                  .recompute = rows[i].recompute,
                                                  .llm_cp = rows[i].cp,
                                                  .dp = rows[i].dp,
                                                  .vision_pp = rows[i].vision,
                                                  .llm_pp = rows[i].llm,
                                                  .is_tied = rows[i].is_tied},
                            rows[i].dp * (rows[i].vision + rows[i].llm * rows[i].cp));
}

/* windows, kinds of attention by layer, norms of heads, positions over axes, two encoders */
static void contexts_agree_for_masks_and_families(void **state)
{
    static const char *const keys[] = {CS_TEST_GEMMA4, CS_TEST_PHI3};
    (void)state;
    for (size_t i = 0; i < CS_ARRAY_LEN(masks); i++) {
        struct cs_test_spec options = with_mask(&masks[i]);
        options.slots = REPLICA_SLOTS;
        options.n_encoders = 2;
        options.llm_cp = 2 + (int)(i % 2);
        agrees_over_context(options, 2 + options.llm_cp);
    }
    for (size_t i = 0; i < CS_ARRAY_LEN(keys); i++)
        agrees_over_context((struct cs_test_spec){.seed = 22,
                                                  .slots = REPLICA_SLOTS,
                                                  .llm_cp = 2,
                                                  .llm_keys = keys[i],
                                                  .is_tied = i == 0,
                                                  .mask = i == 0 ? "image_window" : NULL},
                            3);
    agrees_over_context((struct cs_test_spec){.seed = 23,
                                              .slots = REPLICA_SLOTS,
                                              .llm_cp = 3,
                                              .n_encoders = -1,
                                              .is_qwen3 = true,
                                              .seq_tokens = 335},
                        3);
}

/* Recurrent layers: rows in order, states from rank to rank, documents that end on other ranks than they
 * begin, slots with fewer rows than a convolution reads; between them layers of rows as they are dealt. */
static void contexts_agree_for_recurrent_layers(void **state)
{
    static const struct {
        const char *rules, *schedule, *recompute, *context;
        int seed, cp, dp, llm, encoders, tokens;
    } rows[] = {
        {"train:*",                                  "1f1b",        "none",      "lpt",     24, 2, 1, 1, 1,  0   },
        {"train:*",                                  "1f1b",        "full",      "zigzag",  25, 3, 1, 2, 1,  0   },
        {"train:*",                                  "zb-h1",       "selective", "striped", 36, 4, 1, 1, 1,  0   },
        {"train:*",                                  "zb-h1",       "none",      "best",    27, 2, 2, 1, 1,  0   },
        {"train:*",                                  "interleaved", "none",      "random",  38, 3, 1, 1, 1,  0   },
        {"train:* freeze:llm*",                      "1f1b",        "none",      "exact",   29, 2, 1, 2, 1,  0   },
        {"train:vision.projector",                   "gpipe",       "full",      "uniform", 30, 3, 1, 1, 1,  0   },
        {"train:vision.encoder* train:llm.layers.1", "zb-h1",       "none",      "lpt",     31, 2, 1, 1, 1,  0   },
        {"train:*",                                  "1f1b",        "none",      "lpt",     32, 3, 1, 1, -1, 335 },
        {"train:*",                                  "1f1b",        "none",      "zigzag",  33, 4, 1, 1, -1, 1000},
    };

    (void)state;
    for (size_t i = 0; i < CS_ARRAY_LEN(rows); i++)
        agrees_over_context((struct cs_test_spec){.seed = rows[i].seed,
                                                  .slots = REPLICA_SLOTS,
                                                  .is_recurrent = true,
                                                  .rules = rows[i].rules,
                                                  .schedule = rows[i].schedule,
                                                  .recompute = rows[i].recompute,
                                                  .context = rows[i].context,
                                                  .llm_cp = rows[i].cp,
                                                  .dp = rows[i].dp,
                                                  .llm_pp = rows[i].llm,
                                                  .n_encoders = rows[i].encoders,
                                                  .seq_tokens = rows[i].tokens},
                            rows[i].dp * ((rows[i].encoders > 0) + rows[i].llm * rows[i].cp));
}

/* Experts: their balancing loss knows all rows of a slot, of which a rank may have none. */
static void contexts_agree_for_experts(void **state)
{
    static const struct {
        const char *rules, *schedule, *recompute, *context;
        int cp, dp, llm, encoders;
    } rows[] = {
        {"train:*",                             "1f1b",  "none",      "lpt",     2, 1, 2, 1 },
        {"train:*",                             "zb-h1", "full",      "zigzag",  3, 1, 1, 1 },
        {"train:*",                             "zb-h1", "selective", "striped", 4, 1, 1, -1},
        {"train:*",                             "1f1b",  "none",      "uniform", 2, 2, 1, 1 },
        {"train:vision.projector",              "1f1b",  "none",      "lpt",     2, 1, 1, 1 },
        {"train:llm.layers.2 train:llm.embed*", "1f1b",  "none",      "lpt",     3, 1, 1, -1},
    };

    (void)state;
    for (size_t i = 0; i < CS_ARRAY_LEN(rows); i++)
        agrees_over_context((struct cs_test_spec){.seed = 40 + (int)i,
                                                  .slots = REPLICA_SLOTS,
                                                  .has_experts = true,
                                                  .rules = rows[i].rules,
                                                  .schedule = rows[i].schedule,
                                                  .recompute = rows[i].recompute,
                                                  .context = rows[i].context,
                                                  .llm_cp = rows[i].cp,
                                                  .dp = rows[i].dp,
                                                  .llm_pp = rows[i].llm,
                                                  .n_encoders = rows[i].encoders},
                            rows[i].dp * ((rows[i].encoders > 0) + rows[i].llm * rows[i].cp));
}

/* The same where exchanges are enqueued between pieces of graphs, keys stay as they arrive, rows are
 * padded, and messages of an encoder go to every rank over a channel of its own. */
static void contexts_of_devices_agree_with_the_host(void **state)
{
    static const struct {
        const char *rules, *schedule, *recompute, *mask;
        int encoders, cp, dp, llm;
        bool is_tied, is_qwen3;
    } rows[] = {
        {"train:*",                "1f1b",  "none",      "causal",      -1, 2, 1, 1, false, false},
        {"train:*",                "1f1b",  "none",      "image_bidir", 1,  2, 1, 1, false, true },
        {"train:*",                "1f1b",  "full",      "item",        2,  3, 1, 1, true,  false},
        {"train:*",                "zb-h1", "selective", "cornstarch",  1,  2, 1, 2, true,  false},
        {"train:vision.projector", "1f1b",  "none",      "packed",      1,  4, 1, 1, false, true },
        {"train:*",                "1f1b",  "none",      "image_bidir", 1,  2, 2, 1, false, false},
    };

    (void)state;
    for (size_t i = 0; i < CS_ARRAY_LEN(rows); i++) {
        const struct cs_test_spec options = {.seed = 24 + (int)i,
                                             .slots = REPLICA_SLOTS,
                                             .n_encoders = rows[i].encoders,
                                             .rules = rows[i].rules,
                                             .schedule = rows[i].schedule,
                                             .recompute = rows[i].recompute,
                                             .mask = rows[i].mask,
                                             .llm_cp = rows[i].cp,
                                             .dp = rows[i].dp,
                                             .llm_pp = rows[i].llm,
                                             .is_tied = rows[i].is_tied,
                                             .is_qwen3 = rows[i].is_qwen3};
        assert_int_equal(setenv("CORNSTARCH_CONTEXT_GROUPS", i % 2 == 0 ? "2" : "1", 1), 0);
        const int encoders = rows[i].encoders > 0 ? rows[i].encoders : 0;
        agrees_over_context_on(true, options, rows[i].dp * (encoders + rows[i].llm * rows[i].cp));
    }
    unsetenv("CORNSTARCH_CONTEXT_GROUPS");
}

/* families, ranks with one head of keys for several, columns that do not divide; towers */
static void shared_matrices_agree_with_one_rank(void **state)
{
    static const struct {
        const char *keys;
        int tp, vision_tp;
        bool is_tied, is_qwen2, is_qwen3, is_recurrent, has_experts;
    } rows[] = {
        {NULL,                                  2, 1, true,  false, false, false, false},
        {NULL,                                  4, 1, false, false, false, false, false},
        {NULL,                                  1, 2, false, false, false, false, false},
        {NULL,                                  2, 4, true,  false, false, false, false},
        {NULL,                                  4, 1, true,  true,  false, false, false},
        {NULL,                                  2, 1, false, false, true,  false, false},
        {NULL,                                  4, 1, false, false, true,  false, false},
        {NULL,                                  2, 1, false, false, false, true,  false},
        {NULL,                                  4, 1, false, false, false, false, true },
        {CS_TEST_GEMMA4,                        4, 1, true,  false, false, false, false},
        {CS_TEST_PHI3,                          2, 1, false, false, false, false, false},
        {"{\"num_attention_heads\": 6, \"num_key_value_heads\": 3, \"head_dim\": 8, "
         "\"intermediate_size\": 50}", 3, 1, false, false, false, false, false},
        {"{\"num_attention_heads\": 6, \"num_key_value_heads\": 1, \"head_dim\": 8, "
         "\"intermediate_size\": 50}", 3, 2, false, false, false, false, false},
    };

    (void)state;
    for (size_t i = 0; i < CS_ARRAY_LEN(rows); i++)
        agrees_over_context((struct cs_test_spec){.seed = 30,
                                                  .slots = REPLICA_SLOTS,
                                                  .llm_keys = rows[i].keys,
                                                  .llm_tp = rows[i].tp,
                                                  .vision_tp = rows[i].vision_tp,
                                                  .is_tied = rows[i].is_tied,
                                                  .is_qwen2 = rows[i].is_qwen2,
                                                  .is_qwen3 = rows[i].is_qwen3,
                                                  .is_recurrent = rows[i].is_recurrent,
                                                  .has_experts = rows[i].has_experts},
                            rows[i].tp + rows[i].vision_tp);
}

/* with stages, replicas, both halves of a backward, recompute, and what is frozen */
static void shared_matrices_go_with_other_layouts(void **state)
{
    static const struct {
        const char *rules, *schedule, *recompute, *modality;
        int tp, vision_tp, dp, vision, llm;
        bool is_tied;
    } rows[] = {
        {"train:*",                                  "1f1b",        "none",      NULL,                2, 1, 1, 1, 2, true },
        {"train:*",                                  "gpipe",       "full",      NULL,                3, 2, 1, 1, 1, false},
        {"train:*",                                  "zb-h1",       "selective", NULL,                2, 2, 1, 2, 2, true },
        {"train:*",                                  "1f1b",        "none",      NULL,                2, 1, 2, 1, 1, true },
        {"train:*",                                  "1f1b",        "none",      NULL,                2, 2, 2, 1, 1, false},
        {"train:*",                                  "interleaved", "none",      NULL,                2, 1, 1, 1, 1, false},
        {"train:* freeze:vision.encoder*",           "1f1b",        "none",      NULL,                2, 2, 1, 1, 2, false},
        {"train:vision.projector",                   "1f1b",        "none",      NULL,                2, 1, 1, 1, 2, false},
        {"train:* freeze:llm*",                      "zb-h1",       "none",      NULL,                2, 2, 1, 1, 1, true },
        {"train:vision.encoder* train:llm.layers.1", "1f1b",        "full",      NULL,                4, 2, 1, 1, 1, false},
        {"train:llm.head",                           "1f1b",        "none",      NULL,                2, 1, 1, 1, 1, false},
        {"train:llm.embed",                          "1f1b",        "none",      NULL,                2, 1, 1, 1, 2, true },
        {"train:*",                                  "1f1b",        "none",      "encoder-colocated", 2, 2, 1, 2, 2, true },
    };

    (void)state;
    for (size_t i = 0; i < CS_ARRAY_LEN(rows); i++)
        agrees_over_context(
            (struct cs_test_spec){.seed = 31,
                                  .slots = REPLICA_SLOTS,
                                  .llm_keys = rows[i].tp == 3
                                                  ? "{\"num_attention_heads\": 3, "
                                                    "\"num_key_value_heads\": 3, \"head_dim\": 16}"
                                                  : NULL,
                                  .rules = rows[i].rules,
                                  .schedule = rows[i].schedule,
                                  .recompute = rows[i].recompute,
                                  .modality = rows[i].modality,
                                  .llm_tp = rows[i].tp,
                                  .vision_tp = rows[i].vision_tp,
                                  .dp = rows[i].dp,
                                  .vision_pp = rows[i].vision,
                                  .llm_pp = rows[i].llm,
                                  .is_tied = rows[i].is_tied},
            rows[i].modality != NULL
                ? rows[i].llm * rows[i].tp
                : rows[i].dp * (rows[i].vision * rows[i].vision_tp + rows[i].llm * rows[i].tp));
}

/* ranks of a context, each several that share matrices, beside encoders with as many, more or fewer */
static void shared_matrices_go_with_split_rows(void **state)
{
    static const struct {
        const char *rules, *schedule, *recompute;
        int tp, vision_tp, cp, dp, llm; /* vision_tp 0: no encoder */
        bool is_tied, is_qwen3, is_recurrent, has_experts;
    } rows[] = {
        {"train:*",                "1f1b",  "none",      2, 1, 2, 1, 1, true,  false, false, false},
        {"train:*",                "1f1b",  "full",      2, 4, 2, 1, 1, true,  false, false, false},
        {"train:*",                "gpipe", "none",      2, 0, 2, 1, 2, true,  false, false, false},
        {"train:vision.projector", "zb-h1", "selective", 2, 2, 3, 1, 1, false, false, false, false},
        {"train:*",                "1f1b",  "none",      2, 0, 2, 2, 1, false, false, false, false},
        {"train:*",                "1f1b",  "none",      4, 0, 2, 1, 1, false, true,  false, false},
        {"train:*",                "1f1b",  "none",      2, 1, 2, 1, 1, false, false, true,  false},
        {"train:*",                "1f1b",  "none",      2, 1, 3, 1, 1, false, false, false, true },
    };

    (void)state;
    for (size_t i = 0; i < CS_ARRAY_LEN(rows); i++)
        agrees_over_context((struct cs_test_spec){.seed = 32,
                                                  .slots = REPLICA_SLOTS,
                                                  .n_encoders = rows[i].vision_tp > 0 ? 1 : -1,
                                                  .rules = rows[i].rules,
                                                  .schedule = rows[i].schedule,
                                                  .recompute = rows[i].recompute,
                                                  .llm_tp = rows[i].tp,
                                                  .vision_tp = rows[i].vision_tp,
                                                  .llm_cp = rows[i].cp,
                                                  .dp = rows[i].dp,
                                                  .llm_pp = rows[i].llm,
                                                  .is_tied = rows[i].is_tied,
                                                  .is_qwen3 = rows[i].is_qwen3,
                                                  .is_recurrent = rows[i].is_recurrent,
                                                  .has_experts = rows[i].has_experts},
                            rows[i].dp *
                                (rows[i].vision_tp + rows[i].llm * rows[i].tp * rows[i].cp));
}

/* Ranks share the items of encoders: on ranks of their own, as many as the context or other numbers, or on
 * the context's. Slots have fewer items than ranks, too. */
static void ranks_share_items_of_encoders(void **state)
{
    static const struct {
        const char *rules, *schedule, *recompute, *modality;
        int vision_cp, vision, encoders, cp, llm, dp, ranks;
    } rows[] = {
        {"train:*",                       "1f1b",  "none",      NULL,                2, 1, 1, 1, 1, 1, 3},
        {"train:*",                       "1f1b",  "none",      NULL,                3, 1, 1, 2, 1, 1, 5},
        {"train:*",                       "zb-h1", "full",      NULL,                2, 1, 1, 4, 1, 1, 6},
        {"train:*",                       "gpipe", "none",      NULL,                2, 2, 1, 2, 2, 1, 8},
        {"train:*",                       "1f1b",  "selective", NULL,                2, 1, 2, 3, 1, 1, 7},
        {"train:*",                       "1f1b",  "none",      NULL,                2, 1, 1, 2, 1, 2, 8},
        {"train:vision.projector",        "1f1b",  "none",      NULL,                2, 1, 1, 2, 1, 1, 4},
        {"train:* freeze:vision.*",       "zb-h1", "none",      NULL,                4, 1, 1, 2, 1, 1, 6},
        {"train:*",                       "1f1b",  "none",      "encoder-colocated", 0, 1, 1, 2, 1, 1, 2},
        {"train:*",                       "1f1b",  "full",      "encoder-colocated", 3, 2, 1, 3, 2, 1, 6},
        {"train:*",                       "zb-h1", "none",      "encoder-colocated", 0, 1, 2, 3, 1, 2, 6},
        {"train:* freeze:vision.encoder", "zb-h1", "selective", "encoder-colocated", 0, 1, 1, 4, 1,
         1,                                                                                            4},
        {"train:*",                       "1f1b",  "none",      "encoder-first",     0, 1, 1, 2, 2, 1, 4},
        {"train:vision.projector",        "1f1b",  "none",      "encoder-first",     0, 1, 2, 2, 3, 1, 6},
    };

    (void)state;
    for (size_t i = 0; i < CS_ARRAY_LEN(rows); i++)
        agrees_over_context((struct cs_test_spec){.seed = 50 + (int)i,
                                                  .slots = REPLICA_SLOTS,
                                                  .rules = rows[i].rules,
                                                  .schedule = rows[i].schedule,
                                                  .recompute = rows[i].recompute,
                                                  .modality = rows[i].modality,
                                                  .vision_cp = rows[i].vision_cp,
                                                  .vision_pp = rows[i].vision,
                                                  .depth_pp = rows[i].vision,
                                                  .n_encoders = rows[i].encoders,
                                                  .llm_cp = rows[i].cp,
                                                  .llm_pp = rows[i].llm,
                                                  .dp = rows[i].dp},
                            rows[i].ranks);
}

/* Hybrid context parallelism: short slots are on one rank, or on few, while the others work on other slots. */
static void slots_have_degrees_of_their_own(void **state)
{
    static const struct {
        struct cs_test_spec options;
        int ranks;
    } rows[] = {
  /* clang-format off */
        {{.llm_cp = 2, .context_rows = 100}, 3},
        {{.llm_cp = 3, .context_rows = 40, .schedule = "zb-h1", .recompute = "full"}, 4},
        {{.llm_cp = 4, .context_rows = 64, .context = "zigzag", .llm_pp = 2, .n_encoders = -1}, 8},
        {{.llm_cp = 2, .context_rows = 127, .llm_pp = 2, .dp = 2, .schedule = "gpipe", .n_encoders = -1}, 8},
        {{.llm_cp = 3, .context_rows = 30, .mask = "item", .n_encoders = 2, .is_tied = true}, 5},
        {{.llm_cp = 3, .context_rows = 50, .is_recurrent = true}, 4},
        {{.llm_cp = 4, .context_rows = 8, .is_recurrent = true, .context = "striped"}, 5},
        {{.llm_cp = 3, .context_rows = 200, .is_recurrent = true, .llm_pp = 2, .n_encoders = -1, .seq_tokens = 335}, 6},
        {{.llm_cp = 3, .context_rows = 60, .has_experts = true, .schedule = "zb-h1"}, 4},
        {{.llm_cp = 3, .context_rows = 90, .vision_cp = 2}, 5},
        {{.llm_cp = 2, .context_rows = 64, .modality = "encoder-colocated", .rules = "train:vision.projector"}, 2},
        {{.llm_cp = 3, .context_rows = 300, .context = "exact", .is_qwen3 = true, .n_encoders = -1, .seq_tokens = 1000}, 3},
  /* clang-format on */
    };

    (void)state;
    for (size_t i = 0; i < CS_ARRAY_LEN(rows); i++) {
        struct cs_test_spec options = rows[i].options;
        options.seed = 60 + (int)i;
        options.slots = REPLICA_SLOTS;
        agrees_over_context(options, rows[i].ranks);
    }
}

static void encoders_on_the_first_rank_equal_one_rank(void **state)
{
    static const char *const schedules[] = {"1f1b", "gpipe", "zb-h1"};
    struct cs_test_spec options = {.seed = 12, .is_tied = true, .n_encoders = 2};
    struct outcome one, many;
    (void)state;
    run_job(&options, single, &one);
    options.llm_pp = 3;
    options.modality = "encoder-first";
    for (size_t i = 0; i < CS_ARRAY_LEN(schedules); i++) {
        options.schedule = schedules[i];
        run_job(&options, NULL, &many);
        assert_int_equal(many.n_ranks, 3);
        assert_same(&one, &many);
    }
}

static void frozen_encoder_keeps_nothing(void **state)
{
    struct cs_test_spec options = {.rules = "train:* freeze:vision.*"};
    struct outcome frozen, trained;
    (void)state;
    run_job(&options, NULL, &frozen);
    options.rules = "train:*";
    run_job(&options, NULL, &trained);
    assert_int_equal(frozen.n_ranks, 2);
    assert_int_equal(frozen.saved[0], 0);
    assert_true(trained.saved[0] > 0);
    assert_true(frozen.saved[1] > 0);
    /* and no gradient is sent back: half the messages */
    assert_int_equal(trained.messages, 2 * frozen.messages);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(losses_by_source_are_those_of_their_labels),
        cmocka_unit_test(untied_layouts_equal_one_rank),
        cmocka_unit_test(tied_layouts_equal_one_rank),
        cmocka_unit_test(gpipe_layouts_equal_one_rank),
        cmocka_unit_test(layouts_of_other_families_equal_one_rank),
        cmocka_unit_test(other_halves_equal_one_rank),
        cmocka_unit_test(frozen_layouts_equal_one_rank),
        cmocka_unit_test(other_schedules_equal_one_rank),
        cmocka_unit_test(recompute_changes_memory_only),
        cmocka_unit_test(two_encoders_equal_one_rank),
        cmocka_unit_test(shared_ranks_equal_one_rank),
        cmocka_unit_test(encoders_on_the_first_rank_equal_one_rank),
        cmocka_unit_test(replicas_agree_with_one_rank),
        cmocka_unit_test(every_mask_equals_one_rank),
        cmocka_unit_test(replicas_agree_under_every_mask),
        cmocka_unit_test(frozen_encoder_keeps_nothing),
        cmocka_unit_test(contexts_agree_with_one_rank),
        cmocka_unit_test(contexts_go_with_other_layouts),
        cmocka_unit_test(contexts_agree_for_masks_and_families),
        cmocka_unit_test(contexts_agree_for_recurrent_layers),
        cmocka_unit_test(contexts_agree_for_experts),
        cmocka_unit_test(contexts_of_devices_agree_with_the_host),
        cmocka_unit_test(shared_matrices_agree_with_one_rank),
        cmocka_unit_test(shared_matrices_go_with_other_layouts),
        cmocka_unit_test(shared_matrices_go_with_split_rows),
        cmocka_unit_test(ranks_share_items_of_encoders),
        cmocka_unit_test(slots_have_degrees_of_their_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
