/* The batch of a golden as the slots of a step: one slot, or those of a layout. */
#include <stdlib.h>
#include <string.h>

#include "worker/selftest/parts.h"

int cs_golden_slots(const struct cs_selftest_layout *layout, int batch)
{
    if (layout == NULL)
        return 1;
    const int path = layout->stages + layout->encoder_stages;
    const int least = layout->replicas * (2 * path - 1); /* no schedule asks for more */
    const int n = least > batch ? least : batch;
    return (n + layout->replicas - 1) / layout->replicas * layout->replicas;
}

/* Documents apart change what is computed of a slot as a whole, and media of which rows are dropped or
 * mixed are not taken apart. */
static bool is_whole(const struct cs_golden *g)
{
    return g->layout == NULL || g->slot.source[0] != NULL ||
           cs_graph_llm(g->graph)->arch.experts.balance > 0;
}

static void take_rows(const struct cs_slot *from, int32_t document, struct cs_slot *to)
{
    struct cs_slot_head *head = to->head;
    const int32_t first = from->sample_rows[document];
    const int32_t n = from->sample_rows[document + 1] - first;
    memcpy(to->ids, from->ids + first, (size_t)n * sizeof *to->ids);
    memcpy(to->labels, from->labels + first, (size_t)n * sizeof *to->labels);
    memcpy(to->pos, from->pos + first, (size_t)n * sizeof *to->pos);
    memset(to->doc, 0, (size_t)n * sizeof *to->doc);
    to->sample_ids[0] = from->sample_ids[document];
    to->sample_rows[1] = n;
    head->n_samples = 1;
    head->n_tokens = n;
    for (int32_t i = 0; i < n; i++)
        head->n_labels += to->labels[i] >= 0;
}

/* the items whose rows are of the document; returns where their patches begin */
static const float *take_items(const struct cs_golden *g, int32_t document, struct cs_slot *to)
{
    const struct cs_slot *from = &g->slot;
    const int32_t begin = from->sample_rows[document], end = from->sample_rows[document + 1];
    const float *patches = NULL;
    for (int32_t i = 0, row = 0; i < from->head->n_items[0]; i++) {
        const struct cs_item_shape *shape = &from->items[0][i].shape;
        const int32_t *rows = from->rows[0] + row;
        int32_t at = 0;
        row += shape->rows;
        if (rows[0] < begin || rows[0] >= end)
            continue;
        CS_ASSERT(cs_slot_add_item(to, &g->plan->budget, 0, shape, &at) != NULL);
        for (int32_t k = 0; k < shape->rows; k++)
            to->rows[0][at + k] = rows[k] - begin;
        patches = patches != NULL ? patches : g->patches[0] + g->patch_at[i];
    }
    return patches;
}

/* Slot i of the step: a document, or the whole batch. memory: of a slot, zeros. */
static void fill_slot(struct cs_golden *g, int i, void *memory, const struct cs_slot_layout *layout)
{
    const int batch = g->slot.head->n_samples;
    const bool is_bare = g->layout != NULL && g->layout->is_bare;
    const bool has_media = !is_bare || i % 2 == 0;
    g->slots[i] = g->slot;
    memcpy(g->slot_patches[i], g->patches, sizeof g->patches);
    if (has_media && (is_whole(g) || (!is_bare && i >= batch)))
        return;
    cs_slot_view(layout, &g->plan->budget, memory, &g->slots[i]);
    take_rows(&g->slot, i % batch, &g->slots[i]);
    g->slot_patches[i][0] = has_media ? take_items(g, i % batch, &g->slots[i]) : NULL;
}

enum cs_status cs_golden_cut(struct cs_golden *g, struct cs_err *err)
{
    struct cs_slot_layout layout;
    struct cs_manifest *m = g->manifest;
    const int n = cs_golden_slots(g->layout, g->slot.head->n_samples);
    cs_slot_layout_make(&g->plan->budget, &layout);
    g->slots = CS_NEW_ARRAY(g->arena, struct cs_slot, n);
    g->slot_patches = cs_arena_alloc(g->arena, (size_t)n * sizeof *g->slot_patches);
    if (g->layout != NULL) {
        g->cut_memory = aligned_alloc(4096, layout.bytes * (size_t)n);
        if (g->cut_memory == NULL)
            return cs_fail(err, CS_NO_MEMORY, "no memory for %d slots of %zu bytes", n,
                           layout.bytes);
        memset(g->cut_memory, 0, layout.bytes * (size_t)n);
    }
    m->n_slots = n;
    m->slot = CS_NEW_ARRAY(g->arena, struct cs_slot_counts, n);
    m->n_samples = m->trained_tokens = 0;
    for (int i = 0; i < n; i++) {
        fill_slot(g, i, (char *)g->cut_memory + layout.bytes * (size_t)i, &layout);
        cs_manifest_note(m, i, &g->slots[i]);
        m->n_samples += g->slots[i].head->n_samples;
        m->trained_tokens += g->slots[i].head->n_labels;
    }
    return CS_OK;
}
