/* The budgets of a slot: arenas and boundary buffers are sized by them, counts come from the
 * manifest. */
#ifndef CS_MODEL_BUDGET_H
#define CS_MODEL_BUDGET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/model/spec.h"

/* What an encoder may be given in one slot, over all its items, and in one item.
 *
 * An item has patches: rows that the encoder's blocks work on. Where some of them become one (2 x 2
 * of Qwen-VL, 16 of Gemma 3) fewer rows leave the encoder; else rows are patches. */
struct cs_item_budget {
    int32_t items, rows, patches;                /* of a slot */
    int64_t bytes;                               /* of a slot's data */
    int32_t item_rows, item_patches, item_bytes; /* of the largest item */
    int32_t height, width, channels; /* pixels of every picture; height and width 0: they differ */
    /* The LLM's rows are not simply the items' rows in order: some are dropped or come in another
     * order, mixed, or from a learned parameter (core/data/slot.h). */
    bool has_sources;
};

struct cs_slot_budget {
    int32_t seq_tokens; /* LLM rows of a slot */
    int32_t n_encoders;
    struct cs_item_budget enc[CS_MAX_ENCODERS];
};

/* Bytes of all items of an encoder in a slot. */
static inline size_t cs_budget_bytes(const struct cs_slot_budget *budget, int encoder)
{
    return (size_t)budget->enc[encoder].bytes;
}

/* LLM rows that an encoder may fill in a slot. */
static inline int32_t cs_budget_fills(const struct cs_slot_budget *budget, int encoder)
{
    return budget->enc[encoder].has_sources ? budget->seq_tokens : budget->enc[encoder].rows;
}

/* So many items of the largest size, which is set. */
static inline void cs_budget_set_items(struct cs_item_budget *budget, int32_t items)
{
    if (budget->item_patches == 0)
        budget->item_patches = budget->item_rows;
    budget->items = items;
    budget->rows = items * budget->item_rows;
    budget->patches = items * budget->item_patches;
    budget->bytes = (int64_t)items * budget->item_bytes;
}

#endif
