/* Rows that are added to a slot on a device: what they hold, that they change no result, and that
 * slots of similar size become the same work. On a device that keeps its memory on the host
 * (support/lazy_device.h). */
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

#include "support/lazy_device.h"
#include "support/need.h"
#include "support/planned.h"
#include "support/step.h"

enum { VOCAB = 199 };

struct fixture {
    struct cs_device *device;
    struct cs_test_planned made;
    struct cs_input_tables *tables;
    struct cs_test_step step;
};

static void open_fixture(struct fixture *f, const struct cs_test_spec *options)
{
    struct cs_err err = {0};
    memset(f, 0, sizeof *f);
    f->device = cs_lazy_device_new();
    f->made = cs_test_plan(options);
    cs_test_put_on_one_rank(f->made.plan);
    need(cs_input_tables_new(f->made.graph, f->device, &f->made.plan->budget, &f->tables, &err),
         &err);
}

static void close_fixture(struct fixture *f)
{
    cs_input_tables_free(f->tables);
    cs_lazy_device_free(f->device);
    cs_test_planned_free(&f->made);
}

/* a slot of documents with these numbers of rows */
static void fill_slot(struct fixture *f, const int *rows, int n_documents, struct cs_input *in)
{
    struct cs_err err = {0};
    int32_t id[256], label[256];
    cs_test_step_new(&f->step, &f->made.plan->budget, 1, 0);
    for (int d = 0; d < n_documents; d++) {
        for (int i = 0; i < rows[d]; i++) {
            id[i] = (i * 7 + d) % VOCAB;
            label[i] = i % 3 == 0 ? i % VOCAB : -1;
        }
        cs_test_step_add(&f->step, 0, rows[d], id, label, NULL);
    }
    need(cs_input_prepare(in, f->tables, &f->step.manifest, 0, &f->step.slot[0],
                          CS_INPUT_TOKENS | CS_INPUT_LABELS, &err),
         &err);
    need(cs_input_make_room(in, &err), &err);
    cs_input_place(in);
    need(cs_device_sync(f->device, &err), &err);
}

/* All rows with a label and others, each once, as many as a bucket has or as there are. */
static void check_picked(const struct cs_input *in, int rows)
{
    const int bucket = (in->n_labels + 63) / 64 * 64;
    char seen[512] = {0};
    assert_in_range(rows, 0, (int)sizeof seen);
    assert_int_equal(in->n_picked, bucket < rows ? bucket : rows);
    for (int i = 0; i < in->n_picked; i++) {
        const int row = in->at.picked[i];
        if (i < in->n_labels)
            assert_int_equal(row, in->at.label_rows[i]);
        assert_true(row >= 0 && row < rows && !seen[row]);
        seen[row] = 1;
    }
}

/* rows and documents that a slot gets, of documents with these numbers of rows */
static void check_padding(struct fixture *f, const int *rows, int n_documents, int want_rows,
                          int want_documents)
{
    struct cs_input in = {.slot = {.head = NULL}};
    fill_slot(f, rows, n_documents, &in);
    const struct cs_mask_plan *m = &in.at.mask[0];
    int n = 0;
    for (int d = 0; d < n_documents; d++)
        n += rows[d];
    assert_int_equal(in.n_tokens, n);
    assert_int_equal(in.llm_rows, want_rows);
    assert_int_equal(m->n_tokens, want_rows);
    assert_int_equal(m->n_segments, want_documents);
    assert_int_equal(m->segment[0], 0);
    assert_int_equal(m->segment[m->n_segments], want_rows);
    for (int s = 0; s < m->n_segments; s++) {
        const int first = m->segment[s], end = m->segment[s + 1];
        assert_true(first < end);
        if (s < n_documents)
            assert_int_equal(end - first, rows[s]);
        for (int i = first; i < end; i++) {
            assert_int_equal(m->doc[i], m->doc[first]);
            assert_int_equal(m->pos[i], i - first);
        }
        if (s > 0)
            assert_true(m->doc[first] > m->doc[first - 1]);
    }
    for (int i = 0; i < want_rows; i++) {
        assert_int_equal(in.at.embed_ids[i], i < n ? in.slot.ids[i] : -1);
        for (int k = 0; i >= n && k < f->tables->rope[0].half; k++)
            assert_true(in.at.cos[0][i * f->tables->rope[0].half + k] == 0.0f &&
                        in.at.sin[0][i * f->tables->rope[0].half + k] == 0.0f);
    }
    for (int i = 0; i < in.n_labels; i++)
        assert_true(in.at.label_rows[i] < n);
    check_picked(&in, want_rows);
    cs_input_free(&in);
    cs_test_step_free(&f->step);
}

/* Kinds of attention with rules of their own share the rows and the documents, padded once. */
static void masks_of_a_model_share_their_rows(void **state)
{
    struct fixture f;
    struct cs_input in = {.slot = {.head = NULL}};
    const int rows[] = {40, 21};
    (void)state;
    open_fixture(&f,
                 &(struct cs_test_spec){
                     .seq_tokens = 200, .n_encoders = -1, .is_qwen2 = true, .sliding_window = 9});
    assert_int_equal(f.tables->n_masks, 2);
    assert_int_equal(f.tables->n_ropes, 1);
    fill_slot(&f, rows, 2, &in);
    const struct cs_mask_plan *m = in.at.mask;
    assert_int_equal(m[0].rule.kind, CS_MASK_CAUSAL);
    assert_int_equal(m[1].rule.kind, CS_MASK_WINDOW);
    assert_int_equal(m[1].rule.window, 9);
    for (int k = 0; k < 2; k++) {
        assert_int_equal(m[k].n_tokens, 64);
        assert_int_equal(m[k].n_segments, m[0].n_segments);
        assert_ptr_equal(m[k].doc, m[0].doc);
        assert_ptr_equal(m[k].pos, m[0].pos);
        assert_ptr_equal(m[k].segment, m[0].segment);
    }
    cs_input_free(&in);
    cs_test_step_free(&f.step);
    close_fixture(&f);
}

static void rows_are_rounded_up_to_documents_of_their_own(void **state)
{
    struct fixture f;
    (void)state;
    open_fixture(&f, &(struct cs_test_spec){.seed = 2, .seq_tokens = 200, .n_encoders = -1});
    check_padding(&f, (const int[]){30, 21}, 2, 64, 8);
    check_padding(&f, (const int[]){1}, 1, 64, 8);
    check_padding(&f, (const int[]){57}, 1, 64, 8);
    check_padding(&f, (const int[]){58}, 1, 64, 7); /* seven documents more need seven rows */
    check_padding(&f, (const int[]){63}, 1, 64, 2);
    check_padding(&f, (const int[]){64}, 1, 64, 1);
    check_padding(&f, (const int[]){128}, 1, 128, 1);
    check_padding(&f, (const int[]){8, 8, 8, 8, 8, 8, 8, 8}, 8, 64, 8); /* nothing is added */
    check_padding(&f, (const int[]){8, 8, 8, 8, 8, 8, 8, 7}, 8, 64, 9); /* not without one */
    check_padding(&f, (const int[]){9, 8, 8, 8, 8, 8, 8, 8, 8}, 9, 128, 16);
    check_padding(&f, (const int[]){150}, 1, 192, 8);
    check_padding(&f, (const int[]){190}, 1, 192, 3);
    check_padding(&f, (const int[]){195}, 1, 200, 6); /* never over the budget */
    check_padding(&f, (const int[]){200}, 1, 200, 1);
    check_padding(&f, NULL, 0, 0, 0);
    close_fixture(&f);
}

/* what the LLM's layers read lies where it lies, whatever the slot holds */
static void arrays_of_the_llm_lie_at_fixed_places(void **state)
{
    static const int slots[][3] = {
        {90,  40, 20},
        {3,   1,  2 },
        {100, 1,  60},
        {10,  80, 7 }
    };
    struct fixture f;
    struct cs_input in = {.slot = {.head = NULL}};
    struct cs_input_arrays first = {.embed_ids = NULL};
    (void)state;
    open_fixture(&f, &(struct cs_test_spec){.seed = 2, .seq_tokens = 200, .n_encoders = -1});
    for (size_t i = 0; i < CS_ARRAY_LEN(slots); i++) {
        fill_slot(&f, slots[i], 3, &in);
        if (i == 0)
            first = in.at;
        assert_ptr_equal(in.at.embed_ids, first.embed_ids);
        assert_ptr_equal(in.at.picked, first.picked);
        assert_ptr_equal(in.at.cos[0], first.cos[0]);
        assert_ptr_equal(in.at.sin[0], first.sin[0]);
        assert_ptr_equal(in.at.mask[0].doc, first.mask[0].doc);
        assert_ptr_equal(in.at.mask[0].pos, first.mask[0].pos);
        assert_ptr_equal(in.at.mask[0].segment, first.mask[0].segment);
        cs_test_step_free(&f.step);
    }
    cs_input_free(&in);
    close_fixture(&f);
}

/* ---- steps that all differ ---- */

enum { STEPS = 64, SLOTS = 4 };

static void slots_of_similar_size_are_the_same_work(void **state)
{
    static const struct cs_test_spec options = {.seed = 2, .seq_tokens = 192};
    struct fixture f;
    struct cs_err err = {0};
    struct cs_trainer *t;
    struct cs_graphs_counts warm = {0}, c;
    (void)state;
    open_fixture(&f, &options);
    const struct cs_trainer_config config = {
        .spec = f.made.spec, .graph = f.made.graph, .plan = f.made.plan, .device = f.device};
    setenv("CORNSTARCH_GRAPHS", "always", 1);
    need(cs_trainer_new(&config, &t, &err), &err);
    need(cs_params_load(t->params, 9, &err), &err);
    for (int s = 0; s < STEPS; s++) {
        struct cs_step_result result;
        cs_test_step_new(&f.step, &f.made.plan->budget, SLOTS, s);
        cs_test_step_random(&f.step, (uint64_t)s + 100, VOCAB, 60);
        need(cs_trainer_step(t, &f.step.manifest, f.step.slot, NULL, &result, &err), &err);
        assert_true(isfinite(result.loss_sum) && isfinite(result.grad_norm));
        cs_test_step_free(&f.step);
        if (s == STEPS / 2 - 1)
            warm = cs_exec_graphs(t->exec);
    }
    c = cs_exec_graphs(t->exec);
    /* half of all calls, although no two slots are equal */
    assert_true(2 * (c.replayed_calls - warm.replayed_calls) > c.calls - warm.calls);
    cs_trainer_free(t);
    close_fixture(&f);
}

/* Positions are not rounded to what bf16 holds: far ones have angles of their own. */
static void far_positions_have_angles_of_their_own(void **state)
{
    static const int32_t far[] = {255, 256, 257, 15962, 15963, 32766};
    const struct cs_test_spec options = {.n_encoders = -1, .seq_tokens = 32768};
    struct fixture f;
    float inv_freq[64];
    (void)state;
    open_fixture(&f, &options);
    const struct cs_slot_rope *r = &f.tables->rope[0];
    assert_true(r->half > 1 && r->half <= 64 && r->n_positions >= 32768);
    cs_rope_inv_freq(r->rope, inv_freq);
    for (size_t k = 0; k < CS_ARRAY_LEN(far); k++)
        for (int32_t i = 0; i < r->half; i++) {
            const float *c = r->cos + (size_t)far[k] * (size_t)r->half + i;
            const float *s = r->sin + (size_t)far[k] * (size_t)r->half + i;
            const double angle = (double)far[k] * (double)inv_freq[i];
            const double near = (1 + angle) * 0x1p-23; /* the angle is rounded to fp32 */
            assert_true(fabs((double)*c - cos(angle)) <= near);
            assert_true(fabs((double)*s - sin(angle)) <= near);
            if (i == 0) /* a turn of one radian a position */
                assert_true(
                    hypot((double)c[r->half] - (double)*c, (double)s[r->half] - (double)*s) > 0.9);
        }
    close_fixture(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(masks_of_a_model_share_their_rows),
        cmocka_unit_test(rows_are_rounded_up_to_documents_of_their_own),
        cmocka_unit_test(arrays_of_the_llm_lie_at_fixed_places),
        cmocka_unit_test(slots_of_similar_size_are_the_same_work),
        cmocka_unit_test(far_positions_have_angles_of_their_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
