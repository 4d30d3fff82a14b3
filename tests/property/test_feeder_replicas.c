/* A step holds the same samples however many replicas train it, under every policy: from the plan of
 * each to the slots in the pool, over steps that carry samples into the next. A plan may refuse. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

#include "core/plan/make/planner.h"
#include "core/spread/step_slots.h"
#include "feeder/slots.h"
#include "support/spec.h"

enum { STEPS = 3, MOST_REPLICAS = 7, MOST = 400, SEQ = 128 };

static const char *const policies[] = {"list2d", "lpt", "entrain", "random", "stream"};
static const char *const modalities[] = {"encoder-parallel", "encoder-colocated",
                                         "encoder-replicated", "encoder-first"};

/* Samples of one job: tokens of a slot's from..to per cent. */
struct kind {
    int batch, slots, from, to;
};

static const struct kind kinds[] = {
    {3,   4,   20, 90 }, /* fewer samples than replicas */
    {40,  4,   1,  40 },
    {64,  60,  1,  30 }, /* as many slots as there are samples, nearly */
    {252, 4,   51, 100}, /* a slot each: as many as every number of replicas divides */
    {253, 4,   51, 100},
    {300, 8,   51, 100}, /* more than a step has: some are carried */
    {400, 4,   1,  100},
    {300, 420, 51, 100}, /* a plan of more slots than a step can have */
    {400, 420, 1,  20 },
};

struct steps {
    uint64_t held[STEPS][MOST]; /* sorted */
    int n_held[STEPS], n_slots[STEPS];
    int64_t trained[STEPS];
};

struct job {
    struct cs_arena *arena;
    json_t *root;
    struct cs_spec *spec;
    struct cs_graph *graph;
    struct cs_plan *plan;
    struct cs_step_spread *spread;
    struct cs_err err;
};

static enum cs_status open_job(struct job *job, const struct kind *kind, const char *policy,
                               const char *modality, int dp, int slots)
{
    const struct cs_cluster cluster = {cs_device_class_find("cpu"), 1, 16};
    *job = (struct job){.arena = cs_arena_new(0)};
    job->root = cs_test_spec_json(&(struct cs_test_spec){.batch_samples = kind->batch,
                                                         .slots = slots,
                                                         .seq_tokens = SEQ,
                                                         .modality = modality,
                                                         .seed = 5,
                                                         .dp = dp});
    json_object_set_new(job->root, "balance", json_string(policy));
    CS_TRY(cs_spec_read(job->root, job->arena, &job->spec, &job->err));
    CS_TRY(cs_graph_build(job->spec, true, job->arena, &job->graph, &job->err));
    CS_TRY(cs_plan_make(job->spec, job->graph, &cluster, job->arena, &job->plan, &job->err));
    return cs_step_spread_new(job->spec, job->graph, job->plan, &job->spread, &job->err);
}

static void close_job(struct job *job)
{
    cs_step_spread_free(job->spread);
    cs_arena_free(job->arena);
    json_decref(job->root);
}

/* Sample number `index` of the kind: the same for every number of replicas. */
static void make_sample(const struct kind *kind, uint64_t index, struct cs_load *out)
{
    static int32_t ids[SEQ], labels[SEQ]; /* what they are does not matter */
    const int low = SEQ * kind->from / 100, high = SEQ * kind->to / 100;
    const uint64_t random = (index + 1) * UINT64_C(0x9e3779b97f4a7c15) >> 33;
    const int n = low + (int)(random % (uint64_t)(high - low + 1));
    *out = (struct cs_load){.index = index};
    out->loaded.sample =
        (struct cs_sample){.n_tokens = n < 1 ? 1 : n, .n_labels = 1, .ids = ids, .labels = labels};
    if (n > 16 && index % 3 == 0) {
        out->loaded.sample.n_items[0] = 1;
        out->loaded.sample.n_rows[0] = out->loaded.sample.n_patches[0] = 16;
    }
}

static int by_number(const void *a, const void *b)
{
    const uint64_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

/* What lies in the slots of the step, as a worker reads it. */
static void read_step(struct cs_pool *reader, const struct job *job, int step, struct steps *out)
{
    struct cs_manifest m;
    struct cs_slot slot;
    int n = 0;
    if (cs_pool_next(reader, &m, NULL, NULL) != CS_OK)
        fail_msg("no step %d", step);
    assert_int_equal(m.n_slots % cs_plan_replicas(job->plan), 0);
    assert_in_range(m.n_slots, 1, CS_STEP_MAX_SLOTS);
    for (int k = 0; k < m.n_slots; k++) {
        cs_pool_slot(reader, &m, k, &slot);
        assert_true(slot.head->n_tokens <= job->plan->budget.seq_tokens);
        for (int i = 0; i < slot.head->n_samples; i++)
            out->held[step][n++] = slot.sample_ids[i];
        cs_pool_release(reader, &m, k);
    }
    assert_int_equal(n, m.n_samples);
    qsort(out->held[step], (size_t)n, sizeof **out->held, by_number);
    out->n_held[step] = n;
    out->n_slots[step] = m.n_slots;
    out->trained[step] = m.trained_tokens;
}

/* As the feeder does it: what was carried goes first. */
static void run_steps(struct job *job, const struct kind *kind, struct steps *out)
{
    static struct cs_load batch[MOST];
    static bool is_carried[MOST];
    const struct cs_slot_budget *budget = &job->plan->budget;
    const struct cs_pool_shape shape = {
        .n_slots = CS_STEP_MAX_SLOTS, .n_manifests = 2, .n_readers = 1};
    const size_t bytes = cs_pool_bytes(&shape, budget);
    void *memory = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
    struct cs_pool *writer, *reader;
    uint64_t next = 0;
    int n_carried = 0;
    assert_non_null(memory);
    cs_pool_init(memory, &shape, budget);
    assert_int_equal(cs_pool_attach(memory, bytes, budget, -1, &writer, &job->err), CS_OK);
    assert_int_equal(cs_pool_attach(memory, bytes, budget, 0, &reader, &job->err), CS_OK);
    *out = (struct steps){0};
    for (int step = 0; step < STEPS; step++) {
        struct cs_manifest m = {.step = step, .kind = CS_STEP_TRAIN};
        for (int i = n_carried; i < kind->batch; i++)
            make_sample(kind, next++, &batch[i]);
        if (cs_slots_write(writer, budget, job->spread, batch, kind->batch,
                           cs_plan_replicas(job->plan), &m, is_carried, &job->err) != CS_OK ||
            cs_pool_publish(writer, &m, &job->err) != CS_OK)
            fail_msg("%s", job->err.text);
        free(m.slot);
        n_carried = 0;
        for (int i = 0; i < kind->batch; i++)
            if (is_carried[i])
                batch[n_carried++] = batch[i];
        read_step(reader, job, step, out);
        assert_int_equal(out->n_held[step] + n_carried, kind->batch);
    }
    cs_pool_detach(writer);
    cs_pool_detach(reader);
    free(memory);
}

static void compare(const struct kind *kind, const char *policy, const char *modality)
{
    static struct steps alone, now;
    for (int dp = 1; dp <= MOST_REPLICAS; dp++) {
        struct job job;
        /* a plan has as many slots for each */
        if (open_job(&job, kind, policy, modality, dp, (kind->slots + dp - 1) / dp * dp) != CS_OK)
            fail_msg("%s", job.err.text);
        run_steps(&job, kind, dp == 1 ? &alone : &now);
        for (int s = 0; dp > 1 && s < STEPS; s++)
            if (now.n_held[s] != alone.n_held[s] || now.trained[s] != alone.trained[s] ||
                memcmp(now.held[s], alone.held[s], sizeof now.held[s]) != 0)
                fail_msg("%s, %s, batch %d: step %d of %d replicas holds other samples (%d, %d)",
                         modality, policy, kind->batch, s, dp, now.n_held[s], alone.n_held[s]);
        close_job(&job);
    }
}

static void a_step_holds_the_same_samples_for_any_number_of_replicas(void **state)
{
    (void)state;
    for (size_t k = 0; k < CS_ARRAY_LEN(kinds); k++)
        for (size_t p = 0; p < CS_ARRAY_LEN(policies); p++)
            compare(&kinds[k], policies[p], modalities[(k + p) % CS_ARRAY_LEN(modalities)]);
}

static void a_plan_refuses_slots_that_its_replicas_cannot_share(void **state)
{
    (void)state;
    for (int dp = 1; dp <= MOST_REPLICAS; dp++) {
        struct job job;
        const enum cs_status status = open_job(&job, &kinds[1], "list2d", modalities[0], dp, 4);
        assert_int_equal(status == CS_OK, 4 % dp == 0);
        if (status != CS_OK && strstr(job.err.text, "a multiple") == NULL)
            fail_msg("%s", job.err.text);
        close_job(&job);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_step_holds_the_same_samples_for_any_number_of_replicas),
        cmocka_unit_test(a_plan_refuses_slots_that_its_replicas_cannot_share),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
