/* The arena of a rank: what is planned before the first step is what a full step takes, nothing is
 * allocated afterwards, and a device that is too small is named before anything is trained. */
#include "worker/memory/plan.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

#include "core/model/keeps.h"
#include "core/plan/cost/basis/bytes.h"
#include "core/plan/cost/stage/scratch.h"
#include "core/sched/lower/lower.h"
#include "core/sched/orders/kept.h"
#include "core/sched/proof/kept.h"
#include "support/lazy_device.h"
#include "support/need.h"
#include "support/planned.h"
#include "support/step.h"
#include "worker/exec/arena.h"
#include "worker/train/trainer.h"

enum { VOCAB = 199, SLOTS = 4 };

/* ---- a job on one rank ---- */

struct job {
    struct cs_test_planned made;
    struct cs_device host, *device;
    struct cs_trainer *trainer;
};

static struct cs_trainer_config config_of(const struct job *j)
{
    return (struct cs_trainer_config){
        .spec = j->made.spec, .graph = j->made.graph, .plan = j->made.plan, .device = j->device};
}

/* device NULL: the host; every stage is on one rank */
static void open_job(struct job *j, const struct cs_test_spec *options, struct cs_device *device)
{
    *j = (struct job){.made = cs_test_plan(options)};
    cs_test_put_on_one_rank(j->made.plan);
    cs_device_cpu(&j->host);
    j->device = device != NULL ? device : &j->host;
}

static void start(struct job *j)
{
    struct cs_err err = {0};
    const struct cs_trainer_config config = config_of(j);
    need(cs_trainer_new(&config, &j->trainer, &err), &err);
    need(cs_params_load(j->trainer->params, j->made.spec->seed, &err), &err);
}

static void close_job(struct job *j)
{
    cs_trainer_free(j->trainer);
    cs_test_planned_free(&j->made);
}

/* slots as full as their budgets allow: pictures first, every n-th row has a label */
static void fill_labelled(struct cs_test_step *step, const struct job *j, int n_slots, int every)
{
    const int n = j->made.plan->budget.seq_tokens, items = j->made.plan->budget.enc[0].items;
    const int rows = items * j->made.plan->budget.enc[0].item_rows;
    int32_t *id = calloc((size_t)n, sizeof *id), *label = calloc((size_t)n, sizeof *label);
    int8_t *encoder = calloc((size_t)n, sizeof *encoder);
    assert_true(rows <= n && j->made.plan->budget.n_encoders == 1);
    for (int i = 0; i < n; i++) {
        id[i] = (i * 7 + 1) % VOCAB;
        label[i] = i % every == 0 ? id[i] : -1;
        encoder[i] = i < rows ? 0 : -1;
    }
    cs_test_step_new(step, &j->made.plan->budget, n_slots, 0);
    for (int s = 0; s < n_slots; s++)
        cs_test_step_add(step, s, n, id, label, encoder);
    free(id);
    free(label);
    free(encoder);
}

static void fill_step(struct cs_test_step *step, const struct job *j, int n_slots)
{
    fill_labelled(step, j, n_slots, 1);
}

static void run_step(struct job *j, const struct cs_test_step *step, bool is_eval)
{
    struct cs_err err = {0};
    struct cs_step_result result;
    struct cs_manifest manifest = step->manifest;
    manifest.kind = is_eval ? CS_STEP_EVAL : CS_STEP_TRAIN;
    need(cs_trainer_step(j->trainer, &manifest, step->slot, NULL, &result, &err), &err);
    assert_true(result.loss_sum > 0.0);
}

/* ---- what is planned is what is taken ---- */

static void assert_took_the_plan(const struct job *j)
{
    const struct cs_exec *exec = j->trainer->exec;
    const struct cs_memory_plan *m = exec->planned;
    size_t scratch = 0;
    assert_int_equal(exec->scratch.n_chunks, 1);
    for (int32_t s = 0; s < m->n_stages; s++) {
        size_t keep = 0, held = 0;
        for (int32_t i = 0; i < exec->n_spare[s]; i++) {
            const struct cs_saved *saved = exec->spare[s][i];
            assert_int_equal(saved->memory.n_chunks, 1);
            assert_int_equal(saved->held.n_chunks, 1);
            keep = saved->memory.peak > keep ? saved->memory.peak : keep;
            held = saved->held.peak > held ? saved->held.peak : held;
        }
        assert_int_equal(keep, m->stage[s].keep);
        assert_int_equal(held, m->stage[s].held);
        scratch = m->stage[s].scratch > scratch ? m->stage[s].scratch : scratch;
    }
    assert_int_equal(scratch, m->scratch);
    assert_int_equal(exec->scratch.peak, m->scratch);
}

/* Rows that are picked by their labels lie beside the others, and take no more than all rows would. */
static void assert_labels_take_no_more(struct job *j, int every)
{
    struct cs_exec *exec = j->trainer->exec;
    const struct cs_memory_plan *m = exec->planned;
    struct cs_test_step step;
    fill_labelled(&step, j, SLOTS, every);
    exec->scratch.peak = 0;
    run_step(j, &step, false);
    assert_true(exec->scratch.peak > 0 && exec->scratch.peak <= m->scratch);
    assert_true(cs_exec_keeps_plan(exec));
    cs_test_step_free(&step);
}

static void a_full_step_takes_what_was_planned(void **state)
{
    static const char *const rules[] = {"train:*", "train:vision.projector", "train:* freeze:llm*",
                                        "train:* freeze:vision.encoder*", "train:llm*"};
    static const char *const schedules[] = {"1f1b", "gpipe", "zb-h1"};
    static const char *const levels[] = {"none", "selective", "full"};
    (void)state;
    for (size_t i = 0; i < CS_ARRAY_LEN(rules) * 9; i++) {
        const struct cs_test_spec options = {.rules = rules[i / 9],
                                             .llm_keys =
                                                 i / 9 == 0 && i % 3 < 2 ? CS_TEST_GEMMA4 : NULL,
                                             .schedule = schedules[i / 3 % 3],
                                             .recompute = levels[i % 3],
                                             .is_tied = i % 2 == 0,
                                             .is_recurrent = i % 5 == 1,
                                             .has_experts = i % 5 == 2,
                                             .is_qwen3 = i % 5 == 3,
                                             .vision_pp = 2,
                                             .llm_pp = 2};
        struct job j;
        struct cs_test_step step;
        open_job(&j, &options, NULL);
        start(&j);
        fill_step(&step, &j, SLOTS);
        run_step(&j, &step, false);
        assert_took_the_plan(&j);
        for (int every = 2; every <= 4; every++)
            assert_labels_take_no_more(&j, every);
        j.trainer->exec->scratch.peak = 0;
        run_step(&j, &step, true);
        assert_int_equal(j.trainer->exec->scratch.peak, j.trainer->exec->planned->scratch);
        assert_int_equal(j.trainer->exec->planned->kept, 0);
        cs_test_step_free(&step);
        close_job(&j);
    }
}

static void split_backwards_hold_memory_where_weights_train(void **state)
{
    struct cs_test_spec options = {.schedule = "zb-h1", .llm_pp = 2, .rules = "train:*"};
    struct job j;
    (void)state;
    open_job(&j, &options, NULL);
    start(&j);
    const struct cs_exec *exec = j.trainer->exec;
    const struct cs_memory_plan *full = exec->memory_plan[exec->n_memory_plans - 1];
    for (int32_t s = 0; s < j.made.plan->n_stages; s++)
        if (j.made.plan->stages[s].branch == j.made.graph->llm)
            assert_true(full->stage[s].held > 0);
    close_job(&j);
    options.rules = "train:vision*";
    open_job(&j, &options, NULL);
    start(&j);
    exec = j.trainer->exec;
    full = exec->memory_plan[exec->n_memory_plans - 1];
    for (int32_t s = 0; s < j.made.plan->n_stages; s++)
        if (j.made.plan->stages[s].branch == j.made.graph->llm) {
            assert_true(full->stage[s].keep > 0);
            assert_int_equal(full->stage[s].held, 0);
        }
    close_job(&j);
}

/* the planner's figures come from formulas: activations of live slots, and what a split backward
 * holds */
static void planners_foresee_what_is_kept(void **state)
{
    static const char *const rules[] = {"train:*", "train:vision.projector", "train:* freeze:llm*"};
    static const char *const schedules[] = {"1f1b", "gpipe", "zb-h1"};
    static const char *const levels[] = {"none", "selective", "full"};
    (void)state;
    for (size_t i = 0; i < CS_ARRAY_LEN(rules) * 9; i++) {
        const struct cs_test_spec options = {.rules = rules[i / 9],
                                             .llm_keys =
                                                 i / 9 == 0 && i % 3 < 2 ? CS_TEST_GEMMA4 : NULL,
                                             .schedule = schedules[i / 3 % 3],
                                             .recompute = levels[i % 3],
                                             .llm_layers = 6,
                                             .vision_layers = 4,
                                             .llm_width = 192,
                                             .is_recurrent = i % 5 == 1,
                                             .has_experts = i % 5 == 2,
                                             .vision_width = 96,
                                             .batch_samples = SLOTS};
        const struct cs_program *program;
        struct cs_err err = {0};
        struct job j;
        open_job(&j, &options, NULL);
        start(&j);
        need(cs_trainer_program(j.trainer, SLOTS, false, &program, &err), &err);
        int64_t *held = CS_NEW_ARRAY(j.made.arena, int64_t, j.made.plan->n_stages + 1);
        for (int32_t s = 0; s < j.made.plan->n_stages; s++)
            held[s] = cs_stage_held_bytes(j.made.graph, j.made.plan, s, 4);
        const struct cs_kept_of kept_of = cs_program_kept_of(program, held, j.made.arena);
        const double planned =
            (double)cs_program_kept_bytes(program, &kept_of, 0, NULL, j.made.arena);
        const double taken = (double)cs_exec_memory(j.trainer->exec).kept;
        if (!(planned > 0.93 * taken && planned < 1.07 * taken))
            fail_msg("%s %s %s: %.0f bytes planned, %.0f taken", options.rules, options.schedule,
                     options.recompute, planned, taken);
        close_job(&j);
    }
}

/* What plans say that boundaries take is what workers take for them, on every rank: encoders of their own, copies
 * on all ranks of the LLM, those that take turns at the slots; with gradients that come back and without. */
static void planners_foresee_boundaries(void **state)
{
    /* clang-format off */
    static const struct cs_test_spec layouts[] = {
        {.schedule = "1f1b", .modality = "encoder-parallel"},
        {.schedule = "1f1b", .modality = "encoder-colocated"},
        {.schedule = "1f1b", .modality = "encoder-replicated"},
        {.schedule = "gpipe", .modality = "encoder-colocated"},
        {.schedule = "zb-h1", .modality = "encoder-parallel"},
        {.schedule = "zb-h1", .modality = "encoder-colocated"},
        {.schedule = "zb-h2", .modality = "encoder-parallel"},
        {.schedule = "interleaved", .modality = "encoder-parallel"},
        {.schedule = "three-phase", .modality = "encoder-colocated"},
        {.schedule = "anchors", .modality = "encoder-colocated"},
        {.schedule = "1f1b", .modality = "encoder-parallel", .dp = 2, .vision_dp = 1},
    };
    /* clang-format on */
    static const char *const rules[] = {"train:*", "train:llm*", "train:vision.projector"};
    (void)state;
    for (size_t i = 0; i < CS_ARRAY_LEN(layouts) * CS_ARRAY_LEN(rules); i++) {
        struct cs_test_spec options = layouts[i / CS_ARRAY_LEN(rules)];
        options.rules = rules[i % CS_ARRAY_LEN(rules)];
        options.n_encoders = 2;
        options.llm_pp = 3;
        options.llm_layers = 6;
        options.slots = options.dp > 1 ? 12 : 13;
        options.depth_dp = options.vision_dp;
        struct cs_test_planned made = cs_test_plan(&options);
        const struct cs_plan *plan = made.plan;
        const int32_t n_slots = cs_plan_own_slots(plan, plan->slots);
        struct cs_program *program = NULL;
        int64_t *kept = CS_NEW_ARRAY(made.arena, int64_t, plan->n_ranks + 1);
        int32_t *planned = CS_NEW_ARRAY(made.arena, int32_t, 2 * plan->n_edges + 1);
        need(cs_orders_kept(plan, n_slots, NULL, kept, planned, &made.err), &made.err);
        need(cs_program_make(plan, made.graph, n_slots, false, made.arena, &program, &made.err),
             &made.err);
        int32_t *buffer = CS_NEW_ARRAY(made.arena, int32_t, 2 * n_slots * plan->n_edges + 1);
        int32_t *n_buffers = CS_NEW_ARRAY(made.arena, int32_t, plan->n_edges + 1);
        for (int32_t r = 0; r < plan->n_ranks; r++) {
            int64_t taken = 0;
            need(cs_memory_buffers(program, r, buffer, n_buffers, &made.err), &made.err);
            for (int32_t e = 0; e < plan->n_edges; e++)
                taken += n_buffers[e] * cs_edge_bytes(&plan->edges[e], 4);
            const int64_t said = cs_rank_boundary_bytes(plan, r, planned, 4);
            if (said != taken)
                fail_msg("%s, %s, %s, rank %d: %lld bytes planned, %lld taken", options.schedule,
                         options.modality, options.rules, r, (long long)said, (long long)taken);
        }
        cs_test_planned_free(&made);
    }
}

/* ---- what is taken is what the table of kept arrays says ---- */

static size_t aligned(int64_t bytes)
{
    return ((size_t)bytes + 255) / 256 * 256;
}

static size_t bytes_of(const struct cs_keep_row *row, const struct cs_graph *graph,
                       const struct cs_layer *layer, int64_t rows, int element)
{
    if (row->memory == CS_KEEP_SLOT)
        return 0;
    if (row->memory == CS_KEEP_ONCE)
        return aligned(4 * cs_keep_columns(cs_layer_arch(graph, layer), layer, row->columns));
    return aligned(rows * cs_keep_columns(cs_layer_arch(graph, layer), layer, row->columns) *
                   (row->memory == CS_KEEP_F32 ? 4 : element));
}

/* of all layers of the stage that have a backward */
static size_t kept_of(const struct job *j, const struct cs_stage *s, int element)
{
    size_t bytes = 0;
    for (int32_t i = s->first_layer; i < s->first_layer + s->n_layers; i++) {
        const struct cs_layer *layer = &j->made.graph->layers[i];
        const int64_t rows = cs_layer_work(j->made.graph, layer, &j->made.plan->budget).tokens;
        const struct cs_keep_rows table = cs_keep_rows(cs_layer_arch(j->made.graph, layer), layer);
        for (int k = 0; (layer->needs_input_grad || layer->needs_weight_grad) && k < table.n; k++)
            if (cs_keep_is_kept(table.row[k], layer, (enum cs_recompute)s->recompute))
                bytes += bytes_of(table.row[k], j->made.graph, layer, rows, element);
    }
    return bytes;
}

/* of a stage of blocks: gradients, and what the level of recompute did not keep */
static size_t held_of(const struct job *j, const struct cs_stage *s, int element)
{
    size_t bytes = 0;
    for (int32_t i = s->first_layer; i < s->first_layer + s->n_layers; i++) {
        const struct cs_layer *layer = &j->made.graph->layers[i];
        const struct cs_arch *arch = cs_layer_arch(j->made.graph, layer);
        const int64_t rows = cs_layer_work(j->made.graph, layer, &j->made.plan->budget).tokens;
        const struct cs_keep_rows made = cs_keep_rows(arch, layer),
                                  held = cs_keep_held_rows(arch, layer);
        for (int k = 0; layer->needs_weight_grad && k < held.n; k++)
            bytes += bytes_of(held.row[k], j->made.graph, layer, rows, element);
        for (int k = 0; layer->needs_weight_grad && k < made.n; k++)
            if (!cs_keep_is_kept(made.row[k], layer, (enum cs_recompute)s->recompute))
                bytes += bytes_of(made.row[k], j->made.graph, layer, rows, element);
    }
    return bytes;
}

static bool has_only_blocks(const struct job *j, const struct cs_stage *s)
{
    for (int32_t i = s->first_layer; i < s->first_layer + s->n_layers; i++)
        if (j->made.graph->layers[i].kind != CS_LAYER_BLOCK)
            return false;
    return true;
}

/* An array that a layer keeps and the table does not know, or the other way round, in any setting:
 * then plans would promise memory that a worker does not have. bf16: operators are only counted. */
static void layers_keep_the_arrays_of_the_table(void **state)
{
    static const char *const rules[] = {"train:*", "train:vision.projector", "train:* freeze:llm*",
                                        "train:* freeze:vision.encoder*", "train:llm*"};
    static const char *const schedules[] = {"1f1b", "zb-h1"};
    static const char *const levels[] = {"none", "selective", "full"};
    int n_held = 0;
    (void)state;
    for (size_t k = 0; k < CS_ARRAY_LEN(rules) * 36; k++) {
        const size_t i = k / 3;
        const struct cs_test_spec options = {.rules = rules[i / 12],
                                             .llm_keys = i / 12 % 2 ? CS_TEST_GEMMA4 : NULL,
                                             .schedule = schedules[i / 6 % 2],
                                             .recompute = levels[i % 3],
                                             .is_recurrent = k % 3 == 1,
                                             .has_experts = k % 3 == 2,
                                             .llm_layers = 6,
                                             .vision_layers = 4,
                                             .vision_pp = 3,
                                             .llm_pp = 3};
        const int element = i / 3 % 2 ? 2 : 4;
        struct cs_ops ops;
        struct job j;
        open_job(&j, &options, NULL);
        ops = *j.host.ops;
        ops.act_bytes = (size_t)element;
        j.host.ops = &ops;
        const struct cs_trainer_config config = config_of(&j);
        struct cs_err err = {0};
        need(cs_trainer_new(&config, &j.trainer, &err), &err);
        const struct cs_exec *exec = j.trainer->exec;
        const struct cs_memory_plan *m = exec->memory_plan[exec->n_memory_plans - 1];
        for (int32_t s = 0; s < m->n_stages; s++) {
            const struct cs_stage *stage = &j.made.plan->stages[s];
            if (m->stage[s].keep != kept_of(&j, stage, element))
                fail_msg("%s %s %s, %d bytes, %s: keeps %zu, the table says %zu", options.rules,
                         options.schedule, options.recompute, element, stage->name,
                         m->stage[s].keep, kept_of(&j, stage, element));
            if (i / 6 % 2 == 0 || !has_only_blocks(&j, stage))
                continue;
            n_held += m->stage[s].held > 0;
            if (m->stage[s].held != held_of(&j, stage, element))
                fail_msg("%s %s %s, %d bytes, %s: holds %zu, the table says %zu", options.rules,
                         options.schedule, options.recompute, element, stage->name,
                         m->stage[s].held, held_of(&j, stage, element));
        }
        close_job(&j);
    }
    assert_true(n_held > 0);
}

/* ---- when it is taken ---- */

static void steps_allocate_nothing(void **state)
{
    static const char *const schedules[] = {"1f1b", "zb-h1"};
    (void)state;
    for (size_t i = 0; i < CS_ARRAY_LEN(schedules); i++) {
        const struct cs_test_spec options = {
            .schedule = schedules[i], .llm_pp = 2, .recompute = i > 0 ? "selective" : "none"};
        struct cs_device *device = cs_lazy_device_new();
        struct cs_test_step step;
        struct job j;
        open_job(&j, &options, device);
        start(&j);
        const struct cs_exec_memory m = cs_exec_memory(j.trainer->exec);
        const int64_t before = device->n_allocs;
        const size_t allocated = device->allocated;
        assert_true(m.kept > 0 && m.scratch > 0 && m.boundary > 0);
        fill_step(&step, &j, SLOTS);
        run_step(&j, &step, false);
        cs_test_step_free(&step);
        for (uint64_t n = 0; n < 4; n++) {
            cs_test_step_new(&step, &j.made.plan->budget, SLOTS, (int64_t)n + 1);
            cs_test_step_random(&step, n + 5, VOCAB, n == 2 ? 0 : 60);
            run_step(&j, &step, false);
            cs_test_step_free(&step);
        }
        assert_int_equal(device->n_allocs, before);
        assert_int_equal(device->allocated, allocated);
        close_job(&j);
        cs_lazy_device_free(device);
    }
}

/* Steps of every number of slots that a step of batch_samples can have, in any order. */
static void an_arena_never_grows_over_a_job_of_varying_slots(void **state)
{
    static const char *const schedules[] = {"1f1b", "gpipe", "zb-h1"};
    static const int slots[] = {4, 1, 8, 3, 7, 2, 6, 5, 8};
    (void)state;
    for (size_t i = 0; i < 2 * CS_ARRAY_LEN(schedules); i++) {
        const struct cs_test_spec options = {.schedule = schedules[i / 2],
                                             .llm_pp = 2,
                                             .batch_samples = 8,
                                             .rules = i % 2 ? "train:llm*" : "train:*"};
        struct cs_device *device = cs_lazy_device_new();
        struct job j;
        open_job(&j, &options, device);
        j.made.spec->has_eval = true;
        start(&j);
        const int64_t before = device->n_allocs;
        const size_t allocated = device->allocated;
        for (size_t k = 0; k < 2 * CS_ARRAY_LEN(slots); k++) {
            struct cs_test_step step;
            fill_step(&step, &j, slots[k / 2]);
            run_step(&j, &step, k % 2 != 0);
            cs_test_step_free(&step);
        }
        assert_int_equal(device->n_allocs, before);
        assert_int_equal(device->allocated, allocated);
        close_job(&j);
        cs_lazy_device_free(device);
    }
}

/* Not a step of a job: a feeder makes none with more slots than samples. */
static void a_program_that_needs_more_makes_the_arena_grow_once(void **state)
{
    const struct cs_test_spec options = {.schedule = "gpipe", .llm_pp = 2, .batch_samples = SLOTS};
    struct cs_device *device = cs_lazy_device_new();
    struct cs_test_step step;
    struct job j;
    (void)state;
    open_job(&j, &options, device);
    start(&j);
    const struct cs_exec_memory planned = cs_exec_memory(j.trainer->exec);
    fill_step(&step, &j, 2 * SLOTS);
    run_step(&j, &step, false);
    const struct cs_exec_memory grown = cs_exec_memory(j.trainer->exec);
    const int64_t allocs = device->n_allocs;
    assert_true(grown.kept > planned.kept);
    run_step(&j, &step, false);
    cs_test_step_free(&step);
    fill_step(&step, &j, SLOTS);
    run_step(&j, &step, false);
    assert_int_equal(device->n_allocs, allocs);
    assert_int_equal(cs_exec_memory(j.trainer->exec).kept, grown.kept);
    cs_test_step_free(&step);
    close_job(&j);
    cs_lazy_device_free(device);
}

enum { TAKERS = 4, TAKEN = 20000 };

static enum cs_status plain_alloc(void *handle, size_t bytes, void **out, struct cs_err *err)
{
    (void)handle;
    *out = malloc(bytes);
    return *out != NULL ? CS_OK : cs_fail(err, CS_NO_MEMORY, "no memory");
}

static void plain_free(void *handle, void *p)
{
    (void)handle;
    free(p);
}

static void *take_and_give(void *arg)
{
    struct cs_device *device = arg;
    for (int i = 0; i < TAKEN; i++) {
        void *p;
        CS_ASSERT(cs_device_alloc(device, 16, &p, NULL) == CS_OK);
        cs_device_free(device, p, 16);
    }
    return NULL;
}

/* the communication thread makes boundary buffers while the compute thread makes scratch */
static void memory_taken_by_several_threads_is_counted(void **state)
{
    static const struct cs_device_ops plain = {.alloc = plain_alloc, .free = plain_free};
    pthread_t thread[TAKERS];
    (void)state;
    for (int is_host = 0; is_host < 2; is_host++) {
        struct cs_device device = {.ops = cs_ops_cpu(), .mem = is_host ? NULL : &plain};
        for (int i = 0; i < TAKERS; i++)
            assert_int_equal(pthread_create(&thread[i], NULL, take_and_give, &device), 0);
        for (int i = 0; i < TAKERS; i++)
            pthread_join(thread[i], NULL);
        assert_int_equal(device.n_allocs, TAKERS * TAKEN);
        assert_int_equal(device.allocated, 0);
    }
}

/* ---- devices that are too small ---- */

static const struct cs_device_ops *whole_mem;
static size_t left;

static enum cs_status limited_alloc(void *handle, size_t bytes, void **p, struct cs_err *err)
{
    if (bytes > left)
        return cs_fail(err, CS_NO_MEMORY, "out of memory");
    left -= bytes;
    return whole_mem->alloc(handle, bytes, p, err);
}

static enum cs_status properties(int index, struct cs_device_properties *out, struct cs_err *err)
{
    (void)index;
    (void)err;
    *out = (struct cs_device_properties){.name = "Tiny 3000", .memory_bytes = (size_t)3 << 30};
    return CS_OK;
}

/* A device with that much memory. */
struct small {
    struct cs_device *lazy;
    struct cs_device_ops mem;
    struct cs_ops ops;
    struct cs_device device;
};

static void open_small(struct small *s, size_t bytes)
{
    s->lazy = cs_lazy_device_new();
    s->mem = *s->lazy->mem;
    s->ops = *s->lazy->ops;
    s->device = *s->lazy;
    whole_mem = s->lazy->mem;
    left = bytes;
    s->mem.alloc = limited_alloc;
    s->mem.properties = properties;
    s->ops.device = &s->mem;
    s->device.ops = &s->ops;
    s->device.mem = &s->mem;
}

/* no trainer on such a device; the error */
static struct cs_err refused(struct job *j, size_t bytes)
{
    struct small small;
    struct cs_err err = {0};
    open_small(&small, bytes);
    j->device = &small.device;
    const struct cs_trainer_config config = config_of(j);
    assert_int_equal(cs_trainer_new(&config, &j->trainer, &err), CS_NO_MEMORY);
    assert_null(j->trainer);
    cs_lazy_device_free(small.lazy);
    return err;
}

static void a_device_that_is_too_small_is_named_before_training(void **state)
{
    const struct cs_test_spec options = {.llm_pp = 2};
    struct job j, fits;
    (void)state;
    open_job(&fits, &options, NULL);
    start(&fits);
    const struct cs_exec_memory m = cs_exec_memory(fits.trainer->exec);
    const size_t states = fits.trainer->params->weight_bytes + fits.trainer->params->state_bytes;
    close_job(&fits);
    open_job(&j, &options, NULL);
    const struct cs_err err = refused(&j, states + m.kept);
    assert_non_null(strstr(err.text, "rank 0 needs"));
    assert_non_null(strstr(err.text, "for a step of 4 slots"));
    assert_non_null(strstr(err.text, "Tiny 3000) has 3.00 GiB"));
    assert_non_null(strstr(err.text, "Recompute selective or full"));
    close_job(&j);
}

/* With gpipe memory grows with the slots: a job starts where its usual steps fit. */
static void steps_of_the_usual_slots_fit_where_those_of_the_most_do_not(void **state)
{
    const struct cs_test_spec options = {.schedule = "gpipe", .llm_pp = 2, .batch_samples = 8};
    struct cs_device *lazy = cs_lazy_device_new();
    struct cs_test_step step;
    struct small small;
    struct job most, j;
    (void)state;
    open_job(&most, &options, lazy);
    start(&most);
    const size_t all = lazy->allocated, kept = cs_exec_memory(most.trainer->exec).kept;
    close_job(&most);
    cs_lazy_device_free(lazy);

    open_small(&small, all - kept / 4);
    open_job(&j, &options, &small.device);
    start(&j);
    assert_int_equal(cs_exec_memory(j.trainer->exec).kept, kept / 2);
    fill_step(&step, &j, SLOTS);
    run_step(&j, &step, false);
    const int64_t before = small.device.n_allocs;
    run_step(&j, &step, false);
    assert_int_equal(small.device.n_allocs, before);
    cs_test_step_free(&step);

    struct cs_step_result result;
    struct cs_err err = {0};
    left = 0;
    fill_step(&step, &j, 2 * SLOTS);
    assert_int_equal(cs_trainer_step(j.trainer, &step.manifest, step.slot, NULL, &result, &err),
                     CS_NO_MEMORY);
    cs_test_step_free(&step);
    close_job(&j);
    cs_lazy_device_free(small.lazy);
}

/* ---- places ---- */

enum { LIVES = 60, TIMES = 40, ROUNDS = 200 };

static uint32_t below(uint64_t *at, uint32_t n)
{
    *at = *at * UINT64_C(6364136223846793005) + 1442695040888963407u;
    return (uint32_t)(*at >> 33) % n;
}

static void lives_that_meet_do_not_overlap(void **state)
{
    uint64_t random = 3;
    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        struct cs_memory_life life[LIVES];
        size_t most = 0, sum = 0;
        for (int i = 0; i < LIVES; i++) {
            const uint32_t begin = below(&random, TIMES);
            life[i] = (struct cs_memory_life){.bytes = 256 * (size_t)below(&random, 20),
                                              .begin = begin,
                                              .end = begin + below(&random, TIMES / 4)};
            sum += life[i].bytes;
        }
        const size_t all = cs_memory_arrange(life, LIVES);
        for (uint32_t t = 0; t < 2 * TIMES; t++) {
            size_t alive = 0;
            for (int i = 0; i < LIVES; i++)
                alive += life[i].begin <= t && t <= life[i].end ? life[i].bytes : 0;
            most = alive > most ? alive : most;
        }
        assert_true(all >= most && all <= sum);
        for (int a = 0; a < LIVES; a++) {
            assert_true(life[a].at % 256 == 0 && life[a].at + life[a].bytes <= all);
            for (int b = 0; b < a; b++)
                if (life[a].begin <= life[b].end && life[b].begin <= life[a].end)
                    assert_true(life[a].at + life[a].bytes <= life[b].at ||
                                life[b].at + life[b].bytes <= life[a].at);
        }
    }
}

static void equal_lives_need_as_much_as_are_alive(void **state)
{
    struct cs_memory_life life[16];
    (void)state;
    for (uint32_t i = 0; i < 16; i++)
        life[i] = (struct cs_memory_life){.bytes = 1024, .begin = i, .end = i + 2};
    assert_int_equal(cs_memory_arrange(life, 16), 3 * 1024);
    /* nearly equal ones too: none waits for a gap of exactly its size */
    for (uint32_t i = 0; i < 16; i++)
        life[i].bytes = 256 * (size_t)(i % 2 == 0 ? 64 : 63);
    assert_int_equal(cs_memory_arrange(life, 16), 3 * 256 * 64);
    assert_int_equal(cs_memory_arrange(life, 0), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_full_step_takes_what_was_planned),
        cmocka_unit_test(split_backwards_hold_memory_where_weights_train),
        cmocka_unit_test(planners_foresee_what_is_kept),
        cmocka_unit_test(planners_foresee_boundaries),
        cmocka_unit_test(layers_keep_the_arrays_of_the_table),
        cmocka_unit_test(steps_allocate_nothing),
        cmocka_unit_test(an_arena_never_grows_over_a_job_of_varying_slots),
        cmocka_unit_test(a_program_that_needs_more_makes_the_arena_grow_once),
        cmocka_unit_test(memory_taken_by_several_threads_is_counted),
        cmocka_unit_test(a_device_that_is_too_small_is_named_before_training),
        cmocka_unit_test(steps_of_the_usual_slots_fit_where_those_of_the_most_do_not),
        cmocka_unit_test(lives_that_meet_do_not_overlap),
        cmocka_unit_test(equal_lives_need_as_much_as_are_alive),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
