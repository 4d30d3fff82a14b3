/* Slots and manifests as the feeder writes them and the workers read them, in shared memory.
 *
 * A slot is ragged: n_tokens LLM rows (<= budget.seq_tokens) of packed samples, isolated by doc,
 * positions restart; n_items items (images) per encoder, and the LLM row that every encoder output
 * row replaces. CPU never pads. Labels are already shifted: label[t] is the token to predict at row
 * t, or -1; the shift never crosses a sample. */
#ifndef CS_DATA_SLOT_H
#define CS_DATA_SLOT_H

#include <stddef.h>
#include <stdint.h>

#include "core/model/budget.h"

enum { CS_SLOT_MAX_SAMPLES = 1024, CS_STEP_MAX_SLOTS = 256 };

/* Offsets are relative to the start of the slot's memory; computed once from the budget. */
struct cs_slot_layout {
    size_t bytes; /* of one slot, page multiple */
    size_t ids, labels, doc, pos, sample_ids, sample_rows;

    struct {
        size_t pixels; /* uint8 (items, height, width, channels) */
        size_t rows;   /* int32 (items * item_rows): LLM row of every encoder output row */
    } enc[CS_MAX_ENCODERS];
};

struct cs_slot_head {
    int64_t step;
    int32_t slot; /* index within the step */
    int32_t n_samples, n_tokens, n_labels;
    int32_t n_items[CS_MAX_ENCODERS];
};

/* A view on a slot in memory; all pointers into the pool. */
struct cs_slot {
    struct cs_slot_head *head;
    int32_t *ids, *labels, *doc, *pos; /* (seq_tokens) */
    uint64_t *sample_ids;              /* (CS_SLOT_MAX_SAMPLES) index in the data set */
    int32_t *sample_rows;              /* (CS_SLOT_MAX_SAMPLES + 1) first row of every sample */
    uint8_t *pixels[CS_MAX_ENCODERS];
    int32_t *rows[CS_MAX_ENCODERS];
};

void cs_slot_layout_make(const struct cs_slot_budget *budget, struct cs_slot_layout *out);
void cs_slot_view(const struct cs_slot_layout *layout, const struct cs_slot_budget *budget,
                  void *memory, struct cs_slot *out);

enum cs_step_kind { CS_STEP_TRAIN, CS_STEP_EVAL };

enum {
    CS_STEP_CHECKPOINT = 1, /* write a checkpoint after this step */
    CS_STEP_LAST = 2,       /* the workers end after this step (and its checkpoint) */
    CS_STEP_EVAL_FIRST = 4, /* first and last step of one evaluation pass */
    CS_STEP_EVAL_LAST = 8,
};

/* One per step, published when every slot's samples are known good. */
struct cs_manifest {
    int64_t step; /* training steps count from 0; an evaluation step carries the step it follows */
    int32_t kind; /* enum cs_step_kind */
    uint32_t flags;
    int32_t n_slots;
    int64_t n_samples;
    int64_t trained_tokens; /* labels >= 0 in the whole step: the divisor of the loss */
    uint64_t first_slot;    /* sequence number of its first slot in the pool */
    int32_t n_tokens[CS_STEP_MAX_SLOTS];
    int32_t n_labels[CS_STEP_MAX_SLOTS];
    int32_t n_items[CS_STEP_MAX_SLOTS][CS_MAX_ENCODERS];
};

#endif
