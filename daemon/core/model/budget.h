/* The budgets of a slot: arenas and boundary buffers are sized by them, counts come from the
 * manifest. */
#ifndef CS_MODEL_BUDGET_H
#define CS_MODEL_BUDGET_H

#include <stddef.h>
#include <stdint.h>

#include "core/model/spec.h"

struct cs_slot_budget {
    int32_t seq_tokens; /* LLM rows of a slot */
    int32_t n_encoders;

    /* Rows is what a slot is filled by; items of fewer rows than item_rows leave room for others. */
    struct {
        int32_t rows, items;           /* of a slot: rows that leave the encoder, items at most */
        int32_t item_rows, item_bytes; /* of the largest item */
        int32_t height, width, channels;
    } enc[CS_MAX_ENCODERS];
};

/* Bytes of all items of an encoder in a slot. */
static inline size_t cs_budget_bytes(const struct cs_slot_budget *budget, int encoder)
{
    return (size_t)budget->enc[encoder].items * (size_t)budget->enc[encoder].item_bytes;
}

#endif
