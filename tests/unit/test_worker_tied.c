/* A tied embedding whose ends are on two ranks is two copies of one table. They must stay equal to
 * the bit, also with replicas whose communicators add in different orders, and also where state in
 * bf16 is rounded stochastically. Ranks are threads that talk through the socket transport; a
 * transport around it changes the last bits of what one end receives. */
#include "worker/train/trainer.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

#include "kernels/round.h"
#include "support/device.h"
#include "support/need.h"
#include "support/planned.h"
#include "support/ranks.h"
#include "support/step.h"

enum { MAX_RANKS = CS_TEST_MAX_RANKS, N_STEPS = 6, N_SLOTS = 4, DEADLINE_MS = 60000 };

/* What the head's ranks receive with another last bit. */
enum noise {
    NOISE_NONE,
    NOISE_SUMS,    /* gradients of replicas: their communicator rounds in its own way */
    NOISE_EXCHANGE /* the other end's gradient: the copies must part, or nothing is tested here */
};

struct job {
    struct cs_test_planned made;
    struct cs_test_step step[N_STEPS];
    enum noise noise;
};

struct rank {
    struct cs_comm comm; /* what the trainer talks to */
    struct cs_comm *inner;
    struct job *job;
    struct cs_trainer *trainer;
    int rank;
    float *table[N_STEPS]; /* after every step, its copy of the embedding; NULL: it has none */
    double norm[N_STEPS];
    int64_t n_changed; /* numbers that the transport changed */
};

/* ---- a transport that changes the last bit ---- */

static struct rank *rank_of(struct cs_comm *comm)
{
    return (struct rank *)(void *)((char *)comm - offsetof(struct rank, comm));
}

static enum cs_status noisy_post(struct cs_comm *comm, struct cs_xfer *xfer, struct cs_err *err)
{
    struct cs_comm *inner = rank_of(comm)->inner;
    return inner->table->post(inner, xfer, err);
}

static enum cs_status noisy_progress(struct cs_comm *comm, int wake_fd, int deadline_ms,
                                     struct cs_err *err)
{
    struct cs_comm *inner = rank_of(comm)->inner;
    return inner->table->progress(inner, wake_fd, deadline_ms, err);
}

static bool is_weight(const struct rank *r, const void *p)
{
    const char *first = r->trainer->params->weights, *at = p;
    return at >= first && at < first + r->trainer->params->weight_bytes;
}

static void change(struct rank *r, const struct cs_xfer *x)
{
    uint32_t *bits = x->data;
    for (size_t i = 0; i < x->bytes / sizeof *bits; i++)
        bits[i] ^= 1;
    r->n_changed += (int64_t)(x->bytes / sizeof *bits);
}

static enum cs_status noisy_exchange(struct cs_comm *comm, struct cs_xfer *xfer, int n,
                                     int deadline_ms, struct cs_err *err)
{
    struct rank *r = rank_of(comm);
    const struct job *job = r->job;
    const bool is_head = r->trainer != NULL && r->trainer->params->tied != NULL;
    CS_TRY(r->inner->table->exchange(r->inner, xfer, n, deadline_ms, err));
    for (int i = 0; is_head && i < n; i++) {
        const bool is_own =
            xfer[i].peer / job->made.plan->n_ranks == r->rank / job->made.plan->n_ranks;
        const bool is_hit = job->noise == NOISE_SUMS       ? !is_own && !is_weight(r, xfer[i].data)
                            : job->noise == NOISE_EXCHANGE ? is_own
                                                           : false;
        if (is_hit && !xfer[i].is_send)
            change(r, &xfer[i]);
    }
    return CS_OK;
}

static enum cs_status noisy_allgather(struct cs_comm *comm, const void *mine, void *all,
                                      const size_t *bytes, int deadline_ms, struct cs_err *err)
{
    struct cs_comm *inner = rank_of(comm)->inner;
    return inner->table->allgather(inner, mine, all, bytes, deadline_ms, err);
}

static const struct cs_comm_table noisy = {.name = "noisy",
                                           .post = noisy_post,
                                           .progress = noisy_progress,
                                           .exchange = noisy_exchange,
                                           .allgather = noisy_allgather};

/* ---- jobs ---- */

static struct cs_shard *table_of(const struct cs_params *params)
{
    return params->embed != NULL ? params->embed : params->tied;
}

static enum cs_status train(struct rank *r, struct cs_err *err)
{
    struct cs_params *p = r->trainer->params;
    const struct cs_shard *table = table_of(p);
    CS_TRY(cs_params_load(p, r->job->made.spec->seed, err));
    for (int s = 0; s < N_STEPS; s++) {
        struct cs_step_result result;
        const float *values;
        const struct cs_test_step *step = &r->job->step[s];
        CS_TRY(cs_trainer_step(r->trainer, &step->manifest, step->slot, NULL, &result, err));
        r->norm[s] = result.grad_norm;
        if (table == NULL)
            continue;
        const size_t bytes = (size_t)table->param->count * sizeof *values;
        CS_TRY(cs_params_values(p, table, &values, err));
        r->table[s] = malloc(bytes);
        CS_ASSERT(r->table[s] != NULL);
        memcpy(r->table[s], values, bytes);
    }
    return CS_OK;
}

static enum cs_status run_rank(void *user, int rank, const int *fds, struct cs_err *err)
{
    struct rank *r = (struct rank *)user + rank;
    const struct job *job = r->job;
    const int n = cs_plan_world(job->made.plan);
    struct cs_replicas *replicas = NULL;
    enum cs_status status = CS_OK;
    r->comm = (struct cs_comm){.table = &noisy, .rank = rank, .n_ranks = n};
    if (n > 1)
        status = cs_comm_socket_new(rank, n, fds, &r->inner, err);
    struct cs_comm *comm = n > 1 ? &r->comm : NULL;
    if (status == CS_OK)
        status = cs_replicas_new(cs_test_device(), job->made.plan, rank, comm, DEADLINE_MS,
                                 &replicas, err);
    const struct cs_trainer_config config = {.spec = job->made.spec,
                                             .graph = job->made.graph,
                                             .plan = job->made.plan,
                                             .device = cs_test_device(),
                                             .comm = comm,
                                             .replicas = replicas,
                                             .rank = rank,
                                             .deadline_ms = DEADLINE_MS};
    if (status == CS_OK)
        status = cs_trainer_new(&config, &r->trainer, err);
    if (status == CS_OK)
        status = train(r, err);
    cs_replicas_free(replicas);
    cs_trainer_free(r->trainer);
    if (r->inner != NULL)
        r->inner->table->free(r->inner);
    return status;
}

static struct cs_test_spec options_of(const char *rules, int dp, int llm_pp)
{
    return (struct cs_test_spec){.n_encoders = -1,
                                 .llm_layers = 2,
                                 .llm_pp = llm_pp,
                                 .dp = dp,
                                 .slots = N_SLOTS,
                                 .is_tied = true,
                                 .rules = rules,
                                 .seed = 21};
}

/* rank: (MAX_RANKS); returns how many there are */
static int run_job(const struct cs_test_spec *options, enum noise noise, struct rank *rank)
{
    struct job job = {.made = cs_test_plan(options), .noise = noise};
    memset(rank, 0, MAX_RANKS * sizeof *rank);
    for (int s = 0; s < N_STEPS; s++) {
        cs_test_step_new(&job.step[s], &job.made.plan->budget, N_SLOTS, s);
        /* the last slot of step 2 is empty: with 4 replicas one has no row */
        cs_test_step_random(&job.step[s], (uint64_t)s + 5, 199, s == 2 ? 0 : 60);
    }
    const int n = cs_plan_world(job.made.plan);
    for (int r = 0; r < n && r < MAX_RANKS; r++) {
        rank[r].job = &job;
        rank[r].rank = r;
    }
    cs_test_run_ranks(n, run_rank, rank);
    for (int s = 0; s < N_STEPS; s++)
        cs_test_step_free(&job.step[s]);
    cs_test_planned_free(&job.made);
    return n;
}

static size_t table_bytes(void)
{
    const struct cs_test_spec options = options_of("train:*", 1, 2);
    struct job job = {.made = cs_test_plan(&options)};
    const size_t bytes =
        (size_t)job.made.graph->params[job.made.graph->tied_param].count * sizeof(float);
    cs_test_planned_free(&job.made);
    return bytes;
}

/* the first step after which not all copies are the same, N_STEPS: none; frees them */
static int first_difference(struct rank *rank, int n, size_t bytes)
{
    int first = N_STEPS;
    for (int r = 0; r < n; r++)
        for (int s = 0; s < N_STEPS; s++) {
            assert_non_null(rank[r].table[s]);
            if (s < first && memcmp(rank[r].table[s], rank[0].table[s], bytes) != 0)
                first = s;
        }
    for (int r = 0; r < n; r++)
        for (int s = 0; s < N_STEPS; s++)
            free(rank[r].table[s]);
    return first;
}

static const char *const rules[] = {"train:*", "train:llm.embed"};

static void copies_are_equal_after_every_step(void **state)
{
    const size_t bytes = table_bytes();
    struct rank rank[MAX_RANKS];
    (void)state;
    for (int dp = 1; dp <= 4; dp *= 2)
        for (size_t i = 0; i < CS_ARRAY_LEN(rules); i++) {
            const struct cs_test_spec options = options_of(rules[i], dp, 2);
            const int n = run_job(&options, NOISE_NONE, rank);
            assert_int_equal(n, 2 * dp);
            assert_true(memcmp(rank[0].table[0], rank[0].table[1], bytes) != 0); /* it is trained */
            assert_int_equal(first_difference(rank, n, bytes), N_STEPS);
        }
}

/* As with NCCL, where two communicators of more than two ranks may add in different orders. */
static void sums_that_round_differently_do_not_part_the_copies(void **state)
{
    const size_t bytes = table_bytes();
    struct rank rank[MAX_RANKS];
    (void)state;
    for (int dp = 2; dp <= 4; dp *= 2)
        for (size_t i = 0; i < CS_ARRAY_LEN(rules); i++) {
            const struct cs_test_spec options = options_of(rules[i], dp, 2);
            const int n = run_job(&options, NOISE_SUMS, rank);
            assert_true(rank[1].n_changed > 0);
            assert_int_equal(rank[0].n_changed, 0);
            assert_int_equal(first_difference(rank, n, bytes), N_STEPS);
        }
}

static void a_sum_that_differs_parts_the_copies(void **state)
{
    const size_t bytes = table_bytes();
    struct rank rank[MAX_RANKS];
    (void)state;
    for (int dp = 1; dp <= 4; dp *= 2) {
        const struct cs_test_spec options = options_of("train:*", dp, 2);
        const int n = run_job(&options, NOISE_EXCHANGE, rank);
        assert_true(rank[1].n_changed > 0);
        assert_true(first_difference(rank, n, bytes) < N_STEPS);
    }
}

/* With nothing else trained, a table that counts twice would give sqrt(2) times the norm. */
static void the_norm_counts_the_table_once(void **state)
{
    const size_t bytes = table_bytes();
    struct rank one[MAX_RANKS], many[MAX_RANKS];
    (void)state;
    for (size_t i = 0; i < CS_ARRAY_LEN(rules); i++) {
        const struct cs_test_spec whole = options_of(rules[i], 1, 1);
        assert_int_equal(run_job(&whole, NOISE_NONE, one), 1);
        for (int dp = 1; dp <= 4; dp *= 2) {
            const struct cs_test_spec options = options_of(rules[i], dp, 2);
            const int n = run_job(&options, NOISE_NONE, many);
            for (int r = 0; r < n; r++)
                for (int s = 0; s < N_STEPS; s++)
                    if (!(fabs(many[r].norm[s] - one[0].norm[s]) <=
                          (dp > 1 ? 1e-5 : 0.0) * one[0].norm[s]) ||
                        !(one[0].norm[s] > 0.0))
                        fail_msg("%s, dp %d, rank %d, step %d: %.9g, not %.9g", rules[i], dp, r, s,
                                 many[r].norm[s], one[0].norm[s]);
            (void)first_difference(many, n, bytes);
        }
        (void)first_difference(one, 1, bytes);
    }
}

/* ---- state in bf16: updates without a transport, on a device that says it computes in bf16 --- */

struct copy {
    struct cs_params *params;
    struct cs_optim *optim;
};

static uint16_t random_bf16(uint64_t key, int64_t i, float size)
{
    const uint64_t bits = cs_round_random(key, (uint64_t)i);
    return cs_round_nearest(size * ((float)(uint32_t)bits / 4294967296.0f - 0.5f));
}

static void open_copy(struct copy *c, const struct job *job, struct cs_device *device, int rank)
{
    struct cs_err err = {0};
    need(cs_params_new(job->made.graph, job->made.plan, rank, device, &c->params, &err), &err);
    need(cs_optim_new(job->made.spec, job->made.graph, job->made.plan, c->params, device, rank,
                      &c->optim, &err),
         &err);
    const struct cs_shard *t = table_of(c->params);
    for (int64_t i = 0; i < t->param->count; i++)
        ((uint16_t *)t->w)[i] = random_bf16(1, i, 0.4f);
}

/* changed: the element whose gradient has the other sign, -1: none */
static void update_copy(const struct copy *c, int64_t step, int64_t changed)
{
    const struct cs_shard *t = table_of(c->params);
    uint16_t *grad = t->grad;
    cs_optim_begin(c->optim);
    for (int64_t i = t->own_at; i < t->own_at + t->own_n; i++)
        grad[i] = random_bf16(2 + (uint64_t)step, i, 3.0f) ^ (i == changed ? 0x8000 : 0);
    c->optim->grad_scale = 0.01f;
    cs_optim_update(c->optim, step);
}

static void close_copy(struct copy *c)
{
    cs_optim_free(c->optim);
    cs_params_free(c->params);
}

/* this replica's part: weights and both moments */
static bool is_same_part(const struct cs_shard *a, const struct cs_shard *b)
{
    const size_t bytes = (size_t)a->own_n * sizeof(uint16_t);
    assert_int_equal(a->own_at, b->own_at);
    assert_int_equal(a->own_n, b->own_n);
    return memcmp((const uint16_t *)a->w + a->own_at, (const uint16_t *)b->w + b->own_at, bytes) ==
               0 &&
           memcmp(a->exp_avg, b->exp_avg, bytes) == 0 &&
           memcmp(a->exp_avg_sq, b->exp_avg_sq, bytes) == 0;
}

/* table: (count) what replicas made of it */
static void update_replicas(int dp, bool is_changed, uint16_t *table)
{
    struct cs_ops ops = *cs_ops_cpu();
    struct cs_device device = {.ops = &ops, .grad = CS_GRAD_BF16};
    struct cs_test_spec options = options_of("train:*", dp, 2);
    struct job job = {.made = cs_test_plan(&options)};
    ops.act_bytes = sizeof(uint16_t);
    for (int k = 0; k < dp; k++) {
        struct copy embed, head;
        open_copy(&embed, &job, &device, k * job.made.plan->n_ranks);
        open_copy(&head, &job, &device, k * job.made.plan->n_ranks + 1);
        assert_non_null(embed.params->embed);
        assert_non_null(head.params->tied);
        const struct cs_shard *a = embed.params->embed, *b = head.params->tied;
        assert_true(a->own_n > 0);
        for (int64_t step = 0; step < N_STEPS; step++) {
            update_copy(&embed, step, -1);
            update_copy(&head, step, is_changed && step == 1 ? b->own_at : -1);
        }
        assert_int_equal(is_same_part(a, b), !is_changed);
        memcpy(table + a->own_at, (uint16_t *)a->w + a->own_at,
               (size_t)a->own_n * sizeof(uint16_t));
        close_copy(&embed);
        close_copy(&head);
    }
    cs_test_planned_free(&job.made);
}

static void copies_in_bf16_are_rounded_alike(void **state)
{
    const size_t n = table_bytes() / sizeof(float);
    uint16_t *one = calloc(n, sizeof *one), *many = calloc(n, sizeof *many);
    size_t n_moved = 0, n_apart = 0;
    (void)state;
    update_replicas(1, false, one);
    for (size_t i = 0; i < n; i++) {
        const uint16_t before = random_bf16(1, (int64_t)i, 0.4f);
        n_moved += one[i] != before;
        n_apart += one[i] == before;
    }
    assert_true(n_moved > 0 && n_apart > 0); /* some are rounded back to where they were */
    for (int dp = 2; dp <= 4; dp *= 2) {
        memset(many, 0, n * sizeof *many);
        update_replicas(dp, false, many);
        assert_memory_equal(one, many, n * sizeof *one);
        update_replicas(dp, true, many);
    }
    free(one);
    free(many);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(copies_are_equal_after_every_step),
        cmocka_unit_test(sums_that_round_differently_do_not_part_the_copies),
        cmocka_unit_test(a_sum_that_differs_parts_the_copies),
        cmocka_unit_test(the_norm_counts_the_table_once),
        cmocka_unit_test(copies_in_bf16_are_rounded_alike),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
