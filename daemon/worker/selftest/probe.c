/* An input that a seed decides: a picture or a sound for every encoder between text of random tokens. */
#include <stdlib.h>

#include "core/base/philox.h"
#include "worker/selftest/parts.h"

enum {
    WORDS = 8,
    FRAMES = 64
}; /* tokens of text around every item; frames of a sound of any length */

/* of the one size that the encoder has, else a few groups of rows that are no square */
static void choose_grid(const struct cs_arch *a, int32_t grid[3])
{
    const int32_t side = a->front.merge * a->front.pool;
    cs_front_fixed_grid(a, grid);
    if (grid[0] > 0)
        return;
    grid[0] = a->front.stem == CS_STEM_FRAMES ? FRAMES : 1;
    grid[1] = a->front.stem == CS_STEM_FRAMES ? 1 : 2 * side;
    grid[2] = a->front.stem == CS_STEM_FRAMES ? 1 : 3 * side;
}

static enum cs_status add_item(struct cs_golden *g, int32_t e, uint64_t seed, int32_t *rows,
                               struct cs_err *err)
{
    const struct cs_arch *a = &cs_graph_encoder(g->graph, e)->arch;
    const bool is_sound = a->front.stem == CS_STEM_FRAMES;
    const bool is_fixed = a->front.position == CS_POSITION_ROW && a->image_size > 0;
    struct cs_item_shape shape = {.kind = is_sound ? CS_ITEM_SOUND : CS_ITEM_IMAGE};
    choose_grid(a, shape.grid);
    const int64_t patches = is_sound ? shape.grid[0] : cs_front_patches(a, shape.grid);
    const int64_t n = patches * cs_front_values(a);
    shape.rows = *rows = cs_front_out_rows(a, shape.grid);
    shape.bytes = is_fixed   ? a->image_size * a->image_size * a->channels
                  : is_sound ? (int32_t)(n * (int64_t)sizeof(float))
                             : (int32_t)n;
    if (shape.rows == 0 || cs_slot_add_item(&g->slot, &g->plan->budget, e, &shape, NULL) == NULL)
        return cs_fail(err, CS_LIMIT,
                       "no room in a slot for an item of encoder %d with %lld patches", e,
                       (long long)patches);
    g->patches[e] = malloc(((size_t)n + 1) * sizeof(float));
    if (g->patches[e] == NULL)
        return cs_fail(err, CS_NO_MEMORY, "no memory for an item of the input");
    for (int64_t i = 0; i < n; i++)
        g->patches[e][i] = cs_philox_normal(seed, (uint64_t)e + 1, (uint64_t)i);
    return CS_OK;
}

static void add_words(struct cs_golden *g, uint64_t seed, int n)
{
    struct cs_slot *s = &g->slot;
    const double vocab = cs_graph_llm(g->graph)->arch.vocab;
    for (int i = 0; i < n; i++) {
        const int32_t at = s->head->n_tokens++;
        s->ids[at] = (int32_t)(cs_philox_uniform(seed, 0, (uint64_t)at) * vocab);
    }
}

/* rows of the item, whatever their ids are */
static void add_rows(struct cs_golden *g, int32_t e, int32_t n)
{
    struct cs_slot *s = &g->slot;
    for (int32_t i = 0; i < n; i++) {
        s->rows[e][i] = s->head->n_tokens;
        s->ids[s->head->n_tokens++] = 0;
    }
}

static bool is_word(const struct cs_golden *g, int32_t row)
{
    for (int32_t e = 0; e < g->graph->n_encoders; e++) {
        const int32_t n = g->slot.head->n_rows[e];
        if (n > 0 && row >= g->slot.rows[e][0] && row < g->slot.rows[e][0] + n)
            return false;
    }
    return true;
}

/* a label wherever the next token is text */
static void add_labels(struct cs_golden *g)
{
    struct cs_slot *s = &g->slot;
    for (int32_t i = 0; i < s->head->n_tokens; i++) {
        const bool has_label = i + 1 < s->head->n_tokens && is_word(g, i + 1);
        s->labels[i] = has_label ? s->ids[i + 1] : -1;
        s->doc[i] = 0;
        s->pos[i] = i;
        s->head->n_labels += has_label;
    }
}

enum cs_status cs_golden_probe(struct cs_golden *g, uint64_t seed, struct cs_err *err)
{
    struct cs_slot_head *head = g->slot.head;
    add_words(g, seed, WORDS);
    for (int32_t e = 0, rows; e < g->graph->n_encoders; e++) {
        CS_TRY(add_item(g, e, seed, &rows, err));
        add_rows(g, e, rows);
        add_words(g, seed, WORDS);
    }
    add_words(g, seed, WORDS);
    add_labels(g);
    g->slot.sample_ids[0] = 0;
    g->slot.sample_rows[0] = 0;
    g->slot.sample_rows[1] = head->n_tokens;
    head->n_samples = 1;
    g->manifest->n_samples = 1;
    g->manifest->trained_tokens = head->n_labels;
    cs_manifest_note(g->manifest, 0, &g->slot);
    return CS_OK;
}
