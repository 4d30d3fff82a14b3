/* Memory layout of a slot; see slot.h. */
#include "core/data/slot.h"

#include "core/base/status.h"

enum { ALIGN = 64, PAGE = 4096 };

/* Reserve n items at the next aligned offset. */
static size_t place(size_t *at, size_t n, size_t item_bytes)
{
    size_t here = (*at + ALIGN - 1) / ALIGN * ALIGN;
    *at = here + n * item_bytes;
    return here;
}

void cs_slot_layout_make(const struct cs_slot_budget *budget, struct cs_slot_layout *out)
{
    CS_ASSERT(budget->seq_tokens >= 0 && budget->n_encoders >= 0 &&
              budget->n_encoders <= CS_MAX_ENCODERS);
    *out = (struct cs_slot_layout){0};
    size_t tokens = (size_t)budget->seq_tokens;
    size_t at = sizeof(struct cs_slot_head);
    out->ids = place(&at, tokens, sizeof(int32_t));
    out->labels = place(&at, tokens, sizeof(int32_t));
    out->doc = place(&at, tokens, sizeof(int32_t));
    out->pos = place(&at, tokens, sizeof(int32_t));
    out->sample_ids = place(&at, CS_SLOT_MAX_SAMPLES, sizeof(uint64_t));
    out->sample_rows = place(&at, CS_SLOT_MAX_SAMPLES + 1, sizeof(int32_t));
    for (int e = 0; e < budget->n_encoders; e++) {
        size_t items = (size_t)budget->enc[e].items;
        out->enc[e].pixels = place(&at, items, (size_t)budget->enc[e].item_bytes);
        out->enc[e].rows = place(&at, items * (size_t)budget->enc[e].item_rows, sizeof(int32_t));
    }
    out->bytes = (at + PAGE - 1) / PAGE * PAGE;
}

void cs_slot_view(const struct cs_slot_layout *layout, const struct cs_slot_budget *budget,
                  void *memory, struct cs_slot *out)
{
    char *base = memory;
    *out = (struct cs_slot){
        .head = memory,
        .ids = (int32_t *)(void *)(base + layout->ids),
        .labels = (int32_t *)(void *)(base + layout->labels),
        .doc = (int32_t *)(void *)(base + layout->doc),
        .pos = (int32_t *)(void *)(base + layout->pos),
        .sample_ids = (uint64_t *)(void *)(base + layout->sample_ids),
        .sample_rows = (int32_t *)(void *)(base + layout->sample_rows),
    };
    for (int e = 0; e < budget->n_encoders; e++) {
        out->pixels[e] = (uint8_t *)(base + layout->enc[e].pixels);
        out->rows[e] = (int32_t *)(void *)(base + layout->enc[e].rows);
    }
}
