/* A manifest and its slots in plain memory, filled sample by sample or at random. */
#include "tests/support/step.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

void cs_test_step_new(struct cs_test_step *step, const struct cs_slot_budget *budget, int n_slots,
                      int64_t number)
{
    assert_in_range(n_slots, 1, CS_TEST_SLOTS);
    memset(step, 0, sizeof *step);
    step->budget = *budget;
    cs_slot_layout_make(budget, &step->layout);
    step->memory = aligned_alloc(4096, step->layout.bytes * (size_t)n_slots);
    assert_non_null(step->memory);
    memset(step->memory, 0, step->layout.bytes * (size_t)n_slots);
    step->counts = calloc((size_t)n_slots, sizeof *step->counts);
    assert_non_null(step->counts);
    step->manifest.n_slots = n_slots;
    step->manifest.slot = step->counts;
    step->manifest.step = number;
    for (int s = 0; s < n_slots; s++) {
        cs_slot_view(&step->layout, budget, (char *)step->memory + step->layout.bytes * (size_t)s,
                     &step->slot[s]);
        step->slot[s].head->step = number;
        step->slot[s].head->slot = s;
    }
}

void cs_test_step_free(struct cs_test_step *step)
{
    free(step->memory);
    free(step->counts);
    step->memory = NULL;
    step->counts = NULL;
}

void cs_test_step_add(struct cs_test_step *step, int slot, int n, const int32_t *id,
                      const int32_t *label, const int8_t *encoder)
{
    struct cs_slot *s = &step->slot[slot];
    struct cs_manifest *m = &step->manifest;
    const int32_t first = s->head->n_tokens, sample = s->head->n_samples;
    int32_t filled[CS_MAX_ENCODERS] = {0}, before[CS_MAX_ENCODERS];
    memcpy(before, s->head->n_rows, sizeof before);
    assert_true(first + n <= step->budget.seq_tokens);
    for (int i = 0; i < n; i++) {
        const int32_t row = first + i, e = encoder != NULL ? encoder[i] : -1;
        s->ids[row] = id[i];
        s->labels[row] = label[i];
        s->doc[row] = sample;
        s->pos[row] = i;
        s->head->n_labels += label[i] >= 0;
        if (e < 0)
            continue;
        s->rows[e][before[e] + filled[e]++] = row;
    }
    for (int e = 0; e < step->budget.n_encoders; e++) {
        const struct cs_item_shape shape = cs_slot_largest_item(&step->budget, e);
        assert_int_equal(filled[e] % shape.rows, 0);
        for (int32_t i = 0; i < filled[e] / shape.rows; i++)
            assert_non_null(cs_slot_add_item(s, &step->budget, e, &shape, NULL));
    }
    s->head->n_tokens += n;
    s->sample_ids[sample] = (uint64_t)(1000 + sample);
    s->sample_rows[sample] = first;
    s->sample_sources[sample] = sample % 3;
    s->sample_rows[sample + 1] = first + n;
    s->head->n_samples++;
    m->n_samples++;
    cs_manifest_note(m, slot, s);
    m->trained_tokens = 0;
    for (int i = 0; i < m->n_slots; i++)
        m->trained_tokens += m->slot[i].n_labels;
}

static uint32_t next(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(*state >> 33);
}

/* Items of a sample come first, then some text; labels on the second half of the text. */
static void add_random(struct cs_test_step *step, int slot, uint64_t *state, int vocab, int images)
{
    enum { MOST = 4096 };
    const struct cs_slot *s = &step->slot[slot];
    int32_t id[MOST], label[MOST];
    int8_t encoder[MOST];
    int n = 0;
    for (int e = 0; e < step->budget.n_encoders; e++) {
        const int rows = step->budget.enc[e].item_rows;
        if ((int)(next(state) % 100) >= images ||
            s->head->n_items[e] == step->budget.enc[e].items ||
            s->head->n_tokens + n + rows + 24 > step->budget.seq_tokens || n + rows + 24 > MOST)
            continue;
        uint8_t *pixels = s->data[e] + s->head->n_bytes[e];
        for (int i = 0; i < step->budget.enc[e].item_bytes; i++)
            pixels[i] = (uint8_t)next(state);
        for (int i = 0; i < rows; i++, n++) {
            id[n] = vocab - 1;
            label[n] = -1;
            encoder[n] = (int8_t)e;
        }
    }
    const int text = 4 + (int)(next(state) % 20);
    if (s->head->n_tokens + n + text > step->budget.seq_tokens)
        return;
    for (int i = 0; i < text; i++, n++) {
        id[n] = (int32_t)(next(state) % (uint32_t)(vocab - 1));
        label[n] = i >= text / 2 ? (int32_t)(next(state) % (uint32_t)(vocab - 1)) : -1;
        encoder[n] = -1;
    }
    cs_test_step_add(step, slot, n, id, label, encoder);
}

void cs_test_step_fill(struct cs_test_step *step, int slot, uint64_t seed, int vocab, int images)
{
    uint64_t state = seed * 2 + 1;
    for (int n = 1 + (int)(next(&state) % 4); n > 0; n--)
        add_random(step, slot, &state, vocab, images);
}

void cs_test_step_random(struct cs_test_step *step, uint64_t seed, int vocab, int images)
{
    uint64_t state = seed * 2 + 1;
    const int n_slots = step->manifest.n_slots, n_filled = images > 0 ? n_slots : n_slots - 1;
    for (int s = 0; s < n_filled; s++)
        for (int n = 1 + (int)(next(&state) % 4); n > 0; n--)
            add_random(step, s, &state, vocab, images);
}
