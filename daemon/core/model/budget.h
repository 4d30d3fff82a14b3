/* The budgets of a slot: arenas and boundary buffers are sized by them, counts come from the
 * manifest. */
#ifndef CS_MODEL_BUDGET_H
#define CS_MODEL_BUDGET_H

#include <stdint.h>

#include "core/model/spec.h"

struct cs_slot_budget {
    int32_t seq_tokens; /* LLM rows of a slot */
    int32_t n_encoders;

    struct {
        int32_t rows, items; /* encoder output rows, and items (images) of a slot */
        int32_t item_rows, item_bytes;
        int32_t height, width, channels;
    } enc[CS_MAX_ENCODERS];
};

#endif
