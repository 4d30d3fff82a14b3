/* Writes the samples of a step into slots: rows one behind the other, positions restart, one document
 * per sample. */
#include "feeder/slots.h"

#include <stdlib.h>
#include <string.h>

/* The rows that a medium fills, and with which of the encoder's rows, which begin with its own at
 * first_row. */
static void write_fills(const struct cs_slot_budget *budget, struct cs_slot *slot,
                        const struct cs_sample_media *m, int32_t first_row, int32_t first_token)
{
    const struct cs_media_layout *l = &m->layout;
    const int32_t e = m->encoder;

    for (int32_t p = 0; p < l->n_rows; p++) {
        const int32_t source = m->source[p], row = first_token + m->row[p];
        if (!budget->enc[e].has_sources) {
            slot->rows[e][first_row + p] = row;
        } else if (source == CS_SOURCE_BLENDS) {
            struct cs_slot_blend blend;
            for (int i = 0; i < 4; i++) {
                blend.row[i] = first_row + l->blends[p].row[i];
                blend.weight[i] = l->blends[p].weight[i];
            }
            cs_slot_add_fill(slot, e, row, cs_slot_add_blend(slot, e, &blend));
        } else {
            cs_slot_add_fill(slot, e, row, source < 0 ? source : first_row + source);
        }
    }
}

/* Packing saw to it that there is room. */
static void write_media(const struct cs_slot_budget *budget, struct cs_slot *slot,
                        const struct cs_loaded *loaded, int32_t first_token)
{
    for (int i = 0; i < loaded->sample.n_media; i++) {
        const struct cs_sample_media *m = &loaded->sample.media[i];
        const int32_t first_row = slot->head->n_rows[m->encoder];
        const uint8_t *data = loaded->data[i];
        for (int32_t k = 0; k < m->layout.n_items; k++) {
            const struct cs_item_shape *shape = &m->layout.items[k].shape;
            const struct cs_item *item = cs_slot_add_item(slot, budget, m->encoder, shape, NULL);
            CS_ASSERT(item != NULL);
            memcpy(slot->data[m->encoder] + item->offset, data, (size_t)shape->bytes);
            data += shape->bytes;
        }
        write_fills(budget, slot, m, first_row, first_token);
    }
}

static void write_sample(const struct cs_slot_budget *budget, struct cs_slot *slot,
                         const struct cs_load *load)
{
    const struct cs_sample *s = &load->loaded.sample;
    struct cs_slot_head *head = slot->head;
    int32_t first = head->n_tokens;

    memcpy(slot->ids + first, s->ids, (size_t)s->n_tokens * sizeof *s->ids);
    memcpy(slot->labels + first, s->labels, (size_t)s->n_tokens * sizeof *s->labels);
    for (int32_t t = 0; t < s->n_tokens; t++) {
        slot->doc[first + t] = head->n_samples;
        slot->pos[first + t] = t;
    }
    write_media(budget, slot, &load->loaded, first);
    slot->sample_ids[head->n_samples] = load->index;
    slot->sample_rows[head->n_samples] = first;
    slot->sample_sources[head->n_samples] = load->source;
    head->n_samples++;
    head->n_tokens += s->n_tokens;
    head->n_labels += s->n_labels;
    slot->sample_rows[head->n_samples] = head->n_tokens;
}

/* The samples of a slot are chained in their order: first (n_slots), next (n), -1: none. */
struct chains {
    int32_t *first, *next;
};

static enum cs_status chain(const struct cs_pack_sample *pack, int n, int n_slots,
                            struct chains *out, struct cs_err *err)
{
    *out = (struct chains){.first = malloc((size_t)n_slots * sizeof *out->first),
                           .next = malloc(((size_t)n + 1) * sizeof *out->next)};
    if (out->first == NULL || out->next == NULL)
        return cs_fail(err, CS_NO_MEMORY, "no memory for %d slots", n_slots);
    for (int k = 0; k < n_slots; k++)
        out->first[k] = -1;
    for (int i = n - 1; i >= 0; i--) {
        if (pack[i].slot < 0)
            continue;
        out->next[i] = out->first[pack[i].slot];
        out->first[pack[i].slot] = i;
    }
    return CS_OK;
}

static void close_slot(struct cs_manifest *m, int at, const struct cs_slot *slot)
{
    cs_manifest_note(m, at, slot);
    m->n_samples += slot->head->n_samples;
    m->trained_tokens += slot->head->n_labels;
}

enum cs_status cs_slots_write(struct cs_pool *pool, const struct cs_slot_budget *budget,
                              struct cs_step_spread *spread, const struct cs_load *samples, int n,
                              int32_t replicas, struct cs_manifest *manifest, bool *is_carried,
                              struct cs_err *err)
{
    struct cs_pack_sample *pack = calloc((size_t)n + 1, sizeof *pack);
    struct chains chains = {NULL};
    enum cs_status status = CS_OK;

    if (pack == NULL)
        return cs_fail(err, CS_NO_MEMORY, "no memory to pack %d samples", n);
    for (int i = 0; i < n; i++) {
        pack[i].tokens = samples[i].loaded.sample.n_tokens;
        pack[i].n_labels = samples[i].loaded.sample.n_labels;
        memcpy(pack[i].items, samples[i].loaded.sample.n_items, sizeof(pack[i].items));
        memcpy(pack[i].rows, samples[i].loaded.sample.n_rows, sizeof(pack[i].rows));
        memcpy(pack[i].patches, samples[i].loaded.sample.n_patches, sizeof(pack[i].patches));
        memcpy(pack[i].bytes, samples[i].loaded.sample.n_bytes, sizeof(pack[i].bytes));
        for (int e = 0; e < CS_MAX_ENCODERS; e++)
            pack[i].shape[e] = samples[i].loaded.sample.shape[e];
    }
    manifest->n_slots = cs_pack(budget, CS_STEP_PACK_SLOTS, pack, n);
    if (spread != NULL)
        status = cs_step_spread_step(spread, manifest->step, pack, n, &manifest->n_slots, err);
    if (status != CS_OK)
        goto out;
    manifest->n_slots = (manifest->n_slots + replicas - 1) / replicas * replicas;
    if (manifest->n_slots > CS_STEP_MAX_SLOTS) {
        status = cs_fail(err, CS_LIMIT, "%d slots for %d replicas, a step has at most %d",
                         manifest->n_slots, replicas, CS_STEP_MAX_SLOTS);
        goto out;
    }
    void *grown = realloc(manifest->slot, ((size_t)manifest->n_slots + 1) * sizeof *manifest->slot);
    if (grown == NULL) {
        status = cs_fail(err, CS_NO_MEMORY, "no memory for %d slots", manifest->n_slots);
        goto out;
    }
    manifest->slot = grown;
    status = chain(pack, n, manifest->n_slots, &chains, err);
    if (status != CS_OK)
        goto out;
    manifest->n_samples = manifest->trained_tokens = 0;
    for (int k = 0; k < manifest->n_slots; k++) {
        struct cs_slot slot;
        uint64_t seq = 0;
        status = cs_pool_take(pool, &slot, &seq, err);
        if (status != CS_OK)
            goto out;
        if (k == 0)
            manifest->first_slot = seq;
        *slot.head = (struct cs_slot_head){.step = manifest->step, .slot = k};
        for (int32_t i = chains.first[k]; i >= 0; i = chains.next[i])
            write_sample(budget, &slot, &samples[i]);
        close_slot(manifest, k, &slot);
    }
    for (int i = 0; i < n; i++)
        is_carried[i] = pack[i].slot == -1;
out:
    free(chains.first);
    free(chains.next);
    free(pack);
    return status;
}
