/* Slots are checked before they are used, and prepared for the layers. */
#include "worker/slot/slot.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

#include "support/spec.h"
#include "support/step.h"

struct fixture {
    struct cs_arena *arena;
    json_t *root;
    struct cs_graph *graph;
    struct cs_slot_budget budget;
    struct cs_input_tables *tables;
    struct cs_input input;
    struct cs_test_step step;
};

enum { ROWS = 16, TEXT = 6, ALL = CS_INPUT_TOKENS | CS_INPUT_LABELS | CS_INPUT_CORRECT };

/* two samples: one with a picture, then text; one of text only */
static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    struct cs_err err = {0};
    int32_t id[ROWS + TEXT], label[ROWS + TEXT];
    int8_t encoder[ROWS + TEXT];
    f->arena = cs_arena_new(0);
    f->graph = cs_test_graph(NULL, f->arena, &f->root);
    f->budget = (struct cs_slot_budget){.seq_tokens = 64, .n_encoders = 1};
    f->budget.enc[0].item_rows = ROWS;
    f->budget.enc[0].item_bytes = 28 * 28 * 3;
    cs_budget_set_items(&f->budget.enc[0], 3);
    f->budget.enc[0].height = f->budget.enc[0].width = 28;
    f->budget.enc[0].channels = 3;
    assert_int_equal(cs_input_tables_new(f->graph, NULL, &f->budget, &f->tables, &err), CS_OK);
    cs_test_step_new(&f->step, &f->budget, 1, 0);
    for (int i = 0; i < ROWS + TEXT; i++) {
        id[i] = i < ROWS ? 198 : 10 + i;
        encoder[i] = i < ROWS ? 0 : -1;
        label[i] = i < ROWS + 2 ? -1 : 20 + i;
    }
    cs_test_step_add(&f->step, 0, ROWS + TEXT, id, label, encoder);
    cs_test_step_add(&f->step, 0, TEXT, id + ROWS, label + ROWS, NULL);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    cs_input_free(&f->input);
    cs_test_step_free(&f->step);
    cs_input_tables_free(f->tables);
    json_decref(f->root);
    cs_arena_free(f->arena);
    free(f);
    return 0;
}

static enum cs_status prepare(struct fixture *f, struct cs_err *err)
{
    return cs_input_prepare(&f->input, f->tables, &f->step.manifest, 0, &f->step.slot[0], ALL, err);
}

static void a_good_slot_is_prepared(void **state)
{
    struct fixture *f = *state;
    struct cs_err err = {0};
    if (prepare(f, &err) != CS_OK)
        fail_msg("%s", err.text);
    const struct cs_input *in = &f->input;
    assert_int_equal(in->n_tokens, ROWS + 2 * TEXT);
    assert_int_equal(in->n_rows[0], ROWS);
    for (int i = 0; i < ROWS; i++)
        assert_int_equal(in->embed_ids[i], -1); /* a placeholder has no embedding */
    for (int i = ROWS; i < in->n_tokens; i++)
        assert_int_equal(in->embed_ids[i], f->step.slot[0].ids[i]);
    assert_int_equal(in->mask[0].n_segments, 2);
    assert_int_equal(in->mask[0].segment[1], ROWS + TEXT);
    assert_int_equal(in->mask[0].segment[2], ROWS + 2 * TEXT);
    assert_int_equal(in->mask[0].rule.kind, CS_MASK_CAUSAL);
    assert_int_equal(in->mask[1].n_segments, 1);
    assert_int_equal(in->mask[1].segment[1], ROWS);
    assert_int_equal(in->mask[1].rule.kind, CS_MASK_FULL);
    assert_int_equal(in->n_labels, 8);
    assert_int_equal(in->label_rows[0], ROWS + 2);
    assert_int_equal(in->label_ids[0], 20 + ROWS + 2);
    assert_int_equal(in->label_rows[4], ROWS + TEXT + 2);
}

static void rope_restarts_with_every_document(void **state)
{
    struct fixture *f = *state;
    struct cs_err err = {0};
    assert_int_equal(prepare(f, &err), CS_OK);
    assert_int_equal(cs_input_make_room(&f->input, &err), CS_OK);
    cs_input_place(&f->input);
    const float *cosine = f->input.at.cos[0], *sine = f->input.at.sin[0];
    const int half = f->tables->rope[0].half, second = ROWS + TEXT;
    const struct cs_attention *attention =
        f->graph->modules[f->graph->n_modules - 1].arch.attention;
    float inv_freq[64];
    cs_rope_inv_freq(&attention->rope, inv_freq);
    assert_int_equal(half, attention->head_dim / 2);
    for (int i = 0; i < half; i++) {
        const double angle = (double)(3.0f * inv_freq[i]);
        assert_true(cosine[second * half + i] == 1.0f);
        assert_true(sine[second * half + i] == 0.0f);
        assert_true(fabs((double)cosine[(second + 3) * half + i] - cos(angle)) <= 1e-7);
        assert_true(fabs((double)sine[(second + 3) * half + i] - sin(angle)) <= 1e-7);
        assert_memory_equal(&cosine[3 * half + i], &cosine[(second + 3) * half + i], sizeof(float));
    }
}

/* each of them would read or write outside a buffer, or train on something else */
static void every_bad_value_is_refused(void **state)
{
    struct fixture *f = *state;
    struct cs_slot *s = &f->step.slot[0];
    struct cs_manifest *m = &f->step.manifest;

    const struct {
        int32_t *at, bad;
        const char *text;
    } rows[] = {
        {&s->ids[ROWS],          199,       "199"  },
        {&s->ids[ROWS + 1],      -1,        "-1"   },
        {&s->ids[ROWS],          INT32_MAX, "token"},
        {&s->labels[ROWS + 3],   199,       "199"  },
        {&s->labels[ROWS],       5,         "label"},
        {&s->labels[ROWS + 3],   -1,        "label"},
        {&s->pos[4],             64,        "64"   },
        {&s->pos[4],             -1,        "-1"   },
        {&s->rows[0][3],         2,         "row"  },
        {&s->rows[0][3],         1000,      "1000" },
        {&s->rows[0][0],         -1,        "-1"   },
        {&s->head->n_tokens,     65,        "65"   },
        {&s->head->n_labels,     7,         "7"    },
        {&s->head->n_items[0],   2,         "items"},
        {&s->head->n_samples,    5000,      "5000" },
        {&m->slot[0].n_tokens,   65,        "65"   },
        {&m->slot[0].n_tokens,   -1,        "-1"   },
        {&m->slot[0].n_labels,   100,       "100"  },
        {&m->slot[0].n_rows[0],  ROWS + 1,  "17"   },
        {&s->head->n_rows[0],    ROWS - 1,  "15"   },
        {&m->slot[0].n_items[0], 4,         "4"    },
        {&m->slot[0].n_items[0], -1,        "-1"   },
    };

    for (size_t i = 0; i < CS_ARRAY_LEN(rows); i++) {
        struct cs_err err = {0};
        const int32_t good = *rows[i].at;
        *rows[i].at = rows[i].bad;
        if (prepare(f, &err) != CS_CORRUPT)
            fail_msg("row %zu was not refused", i);
        if (strstr(err.text, rows[i].text) == NULL)
            fail_msg("row %zu: \"%s\" does not say %s", i, err.text, rows[i].text);
        *rows[i].at = good;
    }
    assert_int_equal(prepare(f, NULL), CS_OK);
}

static void use_rule(struct fixture *f, enum cs_mask_kind kind)
{
    f->tables->mask[0].rule = (struct cs_mask_rule){.kind = kind, .window = 3, .prefix = 5};
}

static const struct cs_mask_plan *encoder_mask(const struct fixture *f)
{
    int32_t m = 0;
    while (f->tables->mask[m].encoder != 0)
        m++;
    return &f->input.at.mask[m];
}

/* A sample with three items of 16, 4 and 9 rows: what is made of them, and where they lie. */
static void items_may_be_of_any_shape(void **state)
{
    static const struct cs_item_shape shape[3] = {
        {CS_ITEM_IMAGE, {1, 4, 4}, 16, 16 * 147, 0},
        {CS_ITEM_IMAGE, {1, 2, 2}, 4,  4 * 147,  0},
        {CS_ITEM_IMAGE, {1, 3, 3}, 9,  9 * 147,  0},
    };

    struct fixture *f = *state;
    struct cs_front *front = &f->graph->modules[0].arch.front;
    struct cs_err err = {0};
    struct cs_slot *s;
    front->position = CS_POSITION_AREA; /* its table is resized to every picture */
    cs_test_step_free(&f->step);
    cs_test_step_new(&f->step, &f->budget, 1, 0);
    s = &f->step.slot[0];
    for (int32_t i = 0; i < 3; i++) {
        int32_t first = -1;
        struct cs_item *item = cs_slot_add_item(s, &f->budget, 0, &shape[i], &first);
        assert_non_null(item);
        memset(s->data[0] + item->offset, 'a' + i, (size_t)shape[i].bytes);
        for (int32_t r = 0; r < shape[i].rows; r++) /* a row of text before every item */
            s->rows[0][first + r] = first + r + i + 1;
    }
    for (int32_t i = 0; i < 40; i++) {
        s->ids[i] = 7;
        s->pos[i] = i;
        s->doc[i] = 0;
        s->labels[i] = -1;
    }
    s->head->n_samples = 1;
    s->head->n_tokens = s->sample_rows[1] = 40;
    cs_manifest_note(&f->step.manifest, 0, s);
    use_rule(f, CS_MASK_IMAGE_BIDIR);
    const unsigned needs = CS_INPUT_TOKENS | CS_INPUT_ROWS;
    if (cs_input_prepare(&f->input, f->tables, &f->step.manifest, 0, s, needs, &err) != CS_OK ||
        cs_input_make_room(&f->input, &err) != CS_OK)
        fail_msg("%s", err.text);
    cs_input_place(&f->input);
    const struct cs_mask_plan *mask = encoder_mask(f);
    assert_int_equal(f->input.n_rows[0], 29);
    assert_int_equal(mask->n_tokens, 29);
    assert_int_equal(mask->n_segments, 3);
    assert_memory_equal(mask->segment, ((int32_t[]){0, 16, 20, 29}), 4 * sizeof(int32_t));
    for (int32_t r = 0; r < 29; r++) {
        const int32_t item = r < 16 ? 0 : r < 20 ? 1 : 2;
        assert_int_equal(mask->doc[r], item);
        assert_int_equal(mask->pos[r], r - mask->segment[item]);
        assert_int_equal(f->input.at.fill[0][r], r + item + 1);
        assert_int_equal(f->input.item[r + item + 1], item);
    }
    assert_int_equal(f->input.item[0], -1);
    assert_int_equal(f->input.item[17], -1);
    assert_int_equal(s->items[0][2].offset, 20 * 147);
    assert_int_equal(s->data[0][20 * 147], 'c');
    assert_int_equal(s->data[0][20 * 147 - 1], 'b');
    /* the second patch of the third picture begins 7 pixels to the right of the first */
    const struct cs_patch_place *place = f->input.rows[0].place;
    assert_int_equal(place[21].at, 20 * 147 + 7 * 3);
    assert_int_equal(place[21].line, 21 * 3);
    /* a picture has all pixels of its patches, and as many rows as they make */
    s->items[0][2].shape.grid[2] = 2;
    s->head->n_patches[0] = f->step.manifest.slot[0].n_patches[0] = 26;
    assert_int_equal(cs_input_prepare(&f->input, f->tables, &f->step.manifest, 0, s, needs, &err),
                     CS_CORRUPT);
    assert_non_null(strstr(err.text, "item 2 of encoder 0 is of 1 x 3 x 2 patches with 9 rows"));
    front->position = CS_POSITION_ROW;
}

static void a_sample_is_exact_when_every_trained_token_is_right(void **state)
{
    struct fixture *f = *state;
    int64_t n_samples, n_exact;
    assert_int_equal(prepare(f, NULL), CS_OK);
    memset(f->input.correct, 1, 8);
    cs_input_exact(&f->input, &n_samples, &n_exact);
    assert_int_equal(n_samples, 2);
    assert_int_equal(n_exact, 2);
    f->input.correct[7] = 0; /* the end of the turn of the second sample */
    cs_input_exact(&f->input, &n_samples, &n_exact);
    assert_int_equal(n_exact, 1);
    f->input.correct[0] = 0;
    cs_input_exact(&f->input, &n_samples, &n_exact);
    assert_int_equal(n_samples, 2);
    assert_int_equal(n_exact, 0);
}

static void pixels_are_normalised_as_the_processor_says(void **state)
{
    struct fixture *f = *state;
    struct cs_input_tables *t;
    struct cs_err err = {0};
    struct cs_spec_module spec = *f->graph->modules[0].spec;
    assert_true(f->tables->enc[0].rescale == 1.0f / 255.0f); /* SigLIP's, where it says nothing */
    assert_true(f->tables->enc[0].mean[2] == 0.5f && f->tables->enc[0].std[2] == 0.5f);
    json_t *processor = json_pack("{s:[f,f,f], s:[f,f,f], s:f}", "image_mean", 0.25, 0.5, 0.75,
                                  "image_std", 0.125, 0.25, 0.5, "rescale_factor", 0.0078125);
    spec.processor = processor;
    f->graph->modules[0].spec = &spec;
    assert_int_equal(cs_input_tables_new(f->graph, NULL, &f->budget, &t, &err), CS_OK);
    assert_true(t->enc[0].rescale == 0.0078125f);
    assert_true(t->enc[0].mean[0] == 0.25f && t->enc[0].mean[2] == 0.75f);
    assert_true(t->enc[0].std[0] == 0.125f && t->enc[0].std[2] == 0.5f);
    cs_input_tables_free(t);
    json_object_set_new(processor, "image_std", json_pack("[f,f,f]", 0.5, 0.0, 0.5));
    assert_int_equal(cs_input_tables_new(f->graph, NULL, &f->budget, &t, &err), CS_INVALID);
    assert_non_null(strstr(err.text, "image_std[1]"));
    json_object_set_new(processor, "image_mean", json_pack("[f,f]", 0.5, 0.5));
    assert_int_equal(cs_input_tables_new(f->graph, NULL, &f->budget, &t, &err), CS_INVALID);
    assert_non_null(strstr(err.text, "image_mean"));
    json_decref(processor);
}

/* Gemma 3 in transformers (create_causal_mask_mapping of modeling_gemma3.py): tokens of type image
 * that stand together are one block, numbered by a running sum over the starts of blocks; a token
 * sees earlier tokens, and those of its own block. Written down here as it is there. Images stand
 * apart in its prompts, as here: then its blocks are our items. */
static bool gemma3_allows(const int8_t *is_image, const int32_t *doc, int q, int k)
{
    int block[64], n = 0;
    for (int i = 0; i <= q || i <= k; i++) {
        const bool is_start = is_image[i] && (i == 0 || !is_image[i - 1] || doc[i - 1] != doc[i]);
        n += is_start;
        block[i] = is_image[i] ? n : -1;
    }
    return doc[q] == doc[k] && (k <= q || (block[q] == block[k] && block[q] >= 0));
}

/* two pictures apart in one sample, then text, then a sample with one */
static void add_pictures(struct fixture *f)
{
    enum { N = 2 * ROWS + 3 };

    int32_t id[N], label[N];
    int8_t encoder[N];
    cs_test_step_free(&f->step);
    f->budget.seq_tokens = 64;
    cs_test_step_new(&f->step, &f->budget, 1, 0);
    for (int i = 0; i < N; i++) {
        encoder[i] = i < 1 || i == 1 + ROWS || i == N - 1 ? -1 : 0;
        id[i] = encoder[i] < 0 ? 7 + i : 198;
        label[i] = i == N - 2 ? 5 : -1;
    }
    cs_test_step_add(&f->step, 0, N, id, label, encoder);
    for (int i = 0; i < ROWS + 2; i++)
        encoder[i] = i < 2 ? -1 : 0;
    cs_test_step_add(&f->step, 0, ROWS + 2, id, label, encoder);
}

static void images_see_themselves_as_in_gemma_3(void **state)
{
    struct fixture *f = *state;
    struct cs_err err = {0};
    int8_t is_image[64];
    int more = 0;
    add_pictures(f);
    use_rule(f, CS_MASK_IMAGE_BIDIR);
    if (prepare(f, &err) != CS_OK)
        fail_msg("%s", err.text);
    const struct cs_mask_plan *m = &f->input.mask[0];
    assert_int_equal(m->n_tokens, 3 * ROWS + 5);
    for (int i = 0; i < m->n_tokens; i++)
        is_image[i] = f->input.embed_ids[i] < 0;
    for (int q = 0; q < m->n_tokens; q++)
        for (int k = 0; k < m->n_tokens; k++) {
            const bool is_ours =
                cs_mask_allows(m->rule, cs_mask_token_at(m, q), cs_mask_token_at(m, k));
            if (is_ours != gemma3_allows(is_image, m->doc, q, k))
                fail_msg("row %d %s row %d", q, is_ours ? "sees" : "does not see", k);
            more += is_ours && k > q;
        }
    assert_int_equal(more, 3 * ROWS * (ROWS - 1) / 2);
}

/* Rules that do not ask what a token is get no items and words: all rows are text. */
static void rows_have_items_and_words_where_the_rule_asks(void **state)
{
    struct fixture *f = *state;

    static const enum cs_mask_kind plain[] = {CS_MASK_CAUSAL, CS_MASK_WINDOW, CS_MASK_PREFIX},
                                   asking[] = {CS_MASK_CORNSTARCH, CS_MASK_ITEM,
                                               CS_MASK_IMAGE_BIDIR, CS_MASK_MODALITY_BIDIR};

    add_pictures(f);
    for (size_t i = 0; i < CS_ARRAY_LEN(plain); i++) {
        use_rule(f, plain[i]);
        assert_int_equal(prepare(f, NULL), CS_OK);
        assert_int_equal(f->input.mask[0].rule.kind, plain[i]);
        assert_int_equal(f->input.mask[0].rule.window, 3);
        assert_int_equal(f->input.mask[0].rule.prefix, 5);
        assert_null(f->input.mask[0].item);
        assert_null(f->input.mask[0].word);
    }
    for (size_t i = 0; i < CS_ARRAY_LEN(asking); i++) {
        use_rule(f, asking[i]);
        assert_int_equal(prepare(f, NULL), CS_OK);
        const struct cs_mask_plan *m = &f->input.mask[0];
        assert_int_equal(m->rule.kind, asking[i]);
        for (int r = 0; r < m->n_tokens; r++) {
            const bool is_image = f->input.embed_ids[r] < 0;
            const int32_t item = r <= ROWS ? 0 : (r < 2 * ROWS + 3 ? 1 : 2);
            assert_int_equal(m->item[r], is_image ? item : -1);
            assert_true(m->word[r] ==
                        (is_image ? CS_MASK_MODALITY(0) : CS_MASK_TEXT | CS_MASK_MODALITY(0)));
        }
    }
}

static void an_empty_slot_is_fine(void **state)
{
    struct fixture *f = *state;
    struct cs_test_step empty;
    struct cs_err err = {0};
    int64_t n_samples, n_exact;
    cs_test_step_new(&empty, &f->budget, 1, 0);
    assert_int_equal(
        cs_input_prepare(&f->input, f->tables, &empty.manifest, 0, &empty.slot[0], ALL, &err),
        CS_OK);
    assert_int_equal(f->input.n_labels, 0);
    assert_int_equal(f->input.mask[0].n_segments, 0);
    cs_input_exact(&f->input, &n_samples, &n_exact);
    assert_int_equal(n_samples, 0);
    cs_test_step_free(&empty);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_good_slot_is_prepared, setup, teardown),
        cmocka_unit_test_setup_teardown(rope_restarts_with_every_document, setup, teardown),
        cmocka_unit_test_setup_teardown(every_bad_value_is_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(items_may_be_of_any_shape, setup, teardown),
        cmocka_unit_test_setup_teardown(a_sample_is_exact_when_every_trained_token_is_right, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(pixels_are_normalised_as_the_processor_says, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(images_see_themselves_as_in_gemma_3, setup, teardown),
        cmocka_unit_test_setup_teardown(rows_have_items_and_words_where_the_rule_asks, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(an_empty_slot_is_fine, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
