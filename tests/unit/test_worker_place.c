/* When slots go to a device: all are checked, and memory is taken, before the first action of a
 * step; each is placed when the first action that computes on it comes. On a device that keeps its
 * memory on the host (support/lazy_device.h). */
#include "worker/train/trainer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

#include "support/lazy_device.h"
#include "support/need.h"
#include "support/planned.h"
#include "support/step.h"

enum { VOCAB = 199, SLOTS = 4, MAX_PARAMS = 256 };

/* ---- a device that is watched ---- */

/* What the device was asked for since the step began. */
static struct {
    const struct cs_device_ops *whole;
    const struct cs_trainer *trainer;
    int n_records;           /* events: one of the step, then two of every action */
    int n_late;              /* pieces of memory taken after the first event */
    int n_placed;            /* slots */
    int slot[CS_TEST_SLOTS]; /* in this order */
    int records_then[CS_TEST_SLOTS];
    char where[CS_TEST_SLOTS][64]; /* the action that is enqueued then */
} seen;

static enum cs_status watched_alloc(void *handle, size_t bytes, void **p, struct cs_err *err)
{
    seen.n_late += seen.n_records > 0;
    return seen.whole->alloc(handle, bytes, p, err);
}

static enum cs_status watched_record(void *handle, void *event, void *stream, struct cs_err *err)
{
    seen.n_records++;
    return seen.whole->event_record(handle, event, stream, err);
}

static enum cs_status watched_copy(void *handle, void *stream, void *to, const void *from,
                                   size_t bytes, struct cs_err *err)
{
    for (int s = 0; seen.trainer != NULL && s < CS_TEST_SLOTS; s++) {
        const struct cs_input *in = &seen.trainer->inputs[s];
        if (to != in->placed || from != in->staging)
            continue;
        const int n = seen.n_placed++;
        assert_true(n < CS_TEST_SLOTS);
        seen.slot[n] = s;
        seen.records_then[n] = seen.n_records;
        cs_exec_where(seen.trainer->exec, seen.where[n], sizeof seen.where[n]);
    }
    return seen.whole->copy(handle, stream, to, from, bytes, err);
}

/* ---- a job on it, all stages on one rank ---- */

struct job {
    struct cs_device *lazy, device;
    struct cs_device_ops mem;
    struct cs_ops ops;
    struct cs_test_planned made;
    struct cs_trainer *trainer;
    struct cs_test_step step;
};

static void open_device(struct job *j)
{
    memset(j, 0, sizeof *j);
    memset(&seen, 0, sizeof seen);
    j->lazy = cs_lazy_device_new();
    j->mem = *j->lazy->mem;
    j->ops = *j->lazy->ops;
    j->device = *j->lazy;
    seen.whole = j->lazy->mem;
    j->mem.alloc = j->mem.alloc_host = watched_alloc;
    j->mem.event_record = watched_record;
    j->mem.copy = watched_copy;
    j->ops.device = &j->mem;
    j->device.ops = &j->ops;
    j->device.mem = &j->mem;
}

static void open_job(struct job *j, const struct cs_test_spec *options)
{
    struct cs_err err = {0};
    open_device(j);
    j->made = cs_test_plan(options);
    cs_test_put_on_one_rank(j->made.plan);
    const struct cs_trainer_config config = {
        .spec = j->made.spec, .graph = j->made.graph, .plan = j->made.plan, .device = &j->device};
    need(cs_trainer_new(&config, &j->trainer, &err), &err);
    need(cs_params_load(j->trainer->params, 9, &err), &err);
    seen.trainer = j->trainer;
}

static void close_job(struct job *j)
{
    seen.trainer = NULL;
    cs_trainer_free(j->trainer);
    cs_test_planned_free(&j->made);
    cs_lazy_device_free(j->lazy);
}

static enum cs_status run_step(struct job *j, bool is_eval, struct cs_err *err)
{
    struct cs_step_result result;
    seen.n_records = seen.n_late = seen.n_placed = 0;
    j->step.manifest.kind = is_eval ? CS_STEP_EVAL : CS_STEP_TRAIN;
    return cs_trainer_step(j->trainer, &j->step.manifest, j->step.slot, NULL, &result, err);
}

static void fill_step(struct job *j, int n_slots)
{
    cs_test_step_new(&j->step, &j->made.plan->budget, n_slots, 0);
    cs_test_step_random(&j->step, 5, VOCAB, 60);
}

/* ---- the order of things ---- */

static bool ends_with(const char *text, const char *end)
{
    const size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

static void assert_each_in_its_turn(int n_slots)
{
    assert_int_equal(seen.n_placed, n_slots);
    assert_int_equal(seen.records_then[0], 1); /* the step has begun, no action */
    for (int s = 0; s < n_slots; s++) {
        char slot[16];
        snprintf(slot, sizeof slot, " slot %d", s);
        assert_int_equal(seen.slot[s], s);
        assert_true(seen.where[s][0] == 'F' && ends_with(seen.where[s], slot));
        if (s > 0) /* an action of the slot before lies behind */
            assert_true(seen.records_then[s] >= seen.records_then[s - 1] + 2);
    }
    assert_true(seen.n_records > seen.records_then[n_slots - 1] + 2);
}

static void a_slot_is_placed_when_its_first_action_comes(void **state)
{
    static const char *const schedules[] = {"1f1b", "gpipe", "zb-h1"};
    (void)state;
    for (size_t i = 0; i < CS_ARRAY_LEN(schedules); i++) {
        struct job j;
        struct cs_err err = {0};
        open_job(&j, &(struct cs_test_spec){.schedule = schedules[i], .llm_pp = 2});
        fill_step(&j, SLOTS);
        for (int k = 0; k < 4; k++) {
            need(run_step(&j, k % 2 != 0, &err), &err);
            assert_each_in_its_turn(SLOTS);
        }
        cs_test_step_free(&j.step);
        close_job(&j);
    }
}

/* Taking memory may wait for the device, and the device for a peer that waits for us. */
static void memory_for_slots_is_taken_before_the_first_action(void **state)
{
    struct job j;
    struct cs_err err = {0};
    (void)state;
    open_job(&j, &(struct cs_test_spec){.batch_samples = SLOTS});
    fill_step(&j, 2 * SLOTS); /* more than there is memory for */
    const int64_t before = j.device.n_allocs;
    need(run_step(&j, false, &err), &err);
    assert_true(j.device.n_allocs > before);
    assert_int_equal(seen.n_late, 0);
    assert_each_in_its_turn(2 * SLOTS);
    cs_test_step_free(&j.step);
    close_job(&j);
}

/* ---- slots that are refused ---- */

static void hash_all(struct job *j, char hash[MAX_PARAMS][33])
{
    struct cs_err err = {0};
    assert_true(j->trainer->params->n <= MAX_PARAMS);
    for (int32_t i = 0; i < j->trainer->params->n; i++)
        need(cs_params_hash(j->trainer->params, &j->trainer->params->shard[i], hash[i], &err),
             &err);
}

static void a_corrupt_slot_at_the_end_voids_the_step_before_it_begins(void **state)
{
    static char before[MAX_PARAMS][33], after[MAX_PARAMS][33];
    struct job j;
    struct cs_err err = {0};
    (void)state;
    open_job(&j, &(struct cs_test_spec){.seed = 3});
    fill_step(&j, SLOTS);
    need(run_step(&j, false, &err), &err);
    hash_all(&j, before);
    j.step.slot[SLOTS - 1].pos[2] = 4711;
    for (int is_eval = 0; is_eval < 2; is_eval++) {
        assert_int_equal(run_step(&j, is_eval != 0, &err), CS_CORRUPT);
        assert_non_null(strstr(err.text, "slot 3: position 4711 at row 2, the limit is"));
        assert_int_equal(seen.n_records, 0);
        assert_int_equal(seen.n_placed, 0);
    }
    hash_all(&j, after);
    assert_memory_equal(before, after, sizeof before);
    cs_test_step_free(&j.step);
    close_job(&j);
}

/* ---- a slot without a step ---- */

static int n_built;

static void build_nothing(struct cs_ctx *ctx, const struct cs_mask_plan *mask,
                          struct cs_mask_cells *cells)
{
    assert_ptr_equal(mask->cells, cells);
    memset(ctx->workspace, 0, ctx->workspace_bytes); /* ours to write */
    memset(cells->bits_k, 0, (size_t)cells->bitmap_room * 128 * sizeof(uint32_t));
    *cells->n_bitmaps = 1;
    n_built++;
}

static size_t some_workspace(int32_t n_q, int32_t n_k, int32_t bitmap_room)
{
    return (size_t)(n_q + n_k + bitmap_room) * 8;
}

/* the rows of messages, and all memory: on a device whose attention works from lists of tiles these
 * are part of it */
static void what_a_slot_takes_is_known_before_it_is_placed(void **state)
{
    static const struct cs_test_spec options = {.mask = "cornstarch", .seq_tokens = 1024};
    struct job j;
    struct cs_err err = {0};
    struct cs_input in = {.slot = {.head = NULL}};
    struct cs_input_tables *tables;
    (void)state;
    open_device(&j);
    j.ops.mask_build = build_nothing;
    j.ops.mask_workspace = some_workspace;
    j.made = cs_test_plan(&options);
    need(cs_input_tables_new(j.made.graph, &j.device, &j.made.plan->budget, &tables, &err), &err);
    for (int round = 0; round < 2; round++) {
        fill_step(&j, 1);
        need(cs_input_prepare(&in, tables, &j.step.manifest, 0, &j.step.slot[0],
                              CS_INPUT_TOKENS | CS_INPUT_LABELS | CS_INPUT_ROWS, &err),
             &err);
        need(cs_input_make_room(&in, &err), &err);
        const int64_t before = j.device.n_allocs;
        const int32_t rows = in.llm_rows;
        assert_int_equal(rows, (in.n_tokens + 63) / 64 * 64);
        assert_false(in.is_placed);
        n_built = 0;
        cs_input_place(&in);
        need(cs_device_sync(&j.device, &err), &err);
        assert_true(in.is_placed);
        assert_int_equal(in.llm_rows, rows);
        assert_int_equal(in.at.mask[0].n_tokens, rows);
        assert_int_equal(n_built, in.n_items[0] > 0 ? 2 : 1);
        assert_int_equal(j.device.n_allocs, before);
        need(cs_input_check(&in, &err), &err);
        cs_test_step_free(&j.step);
    }
    cs_input_free(&in);
    cs_input_tables_free(tables);
    cs_test_planned_free(&j.made);
    cs_lazy_device_free(j.lazy);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_slot_is_placed_when_its_first_action_comes),
        cmocka_unit_test(memory_for_slots_is_taken_before_the_first_action),
        cmocka_unit_test(a_corrupt_slot_at_the_end_voids_the_step_before_it_begins),
        cmocka_unit_test(what_a_slot_takes_is_known_before_it_is_placed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
