/* Slots and manifests as the feeder writes them and the workers read them, in shared memory.
 *
 * A slot is ragged: n_tokens LLM rows (<= budget.seq_tokens) of packed samples, isolated by doc,
 * positions restart; n_items items per encoder, each of its own kind, grid and number of rows, and
 * the LLM rows that they fill. CPU never pads. Labels are already shifted: label[t] is the token to
 * predict at row t, or -1; the shift never crosses a sample. */
#ifndef CS_DATA_SLOT_H
#define CS_DATA_SLOT_H

#include <stddef.h>
#include <stdint.h>

#include "core/base/status.h"
#include "core/model/budget.h"

/* Samples of a step go into at most CS_STEP_PACK_SLOTS slots, whatever the number of replicas: so it
 * never says which samples a step holds. Every replica has as many slots, which may add some. Both are
 * limits of what is asked for; memory is taken for the slots that steps have. */
enum {
    CS_SLOT_MAX_SAMPLES = 1024,
    CS_STEP_PACK_SLOTS = CS_SPEC_MAX_SLOTS,
    CS_STEP_MAX_SLOTS = CS_STEP_PACK_SLOTS + CS_SPEC_MAX_DP
};

enum cs_item_kind { CS_ITEM_IMAGE, CS_ITEM_VIDEO, CS_ITEM_SOUND, CS_ITEM_KINDS };

/* What an encoder is given as one. Data of an image: uint8 (height, width, channels); of a video: uint8 (frames,
 * height, width, channels), all frames of its patches in time; of a sound: fp32 (frames, mel bands), where more
 * frames than count may lie behind, silence that only the convolutions see. */
struct cs_item_shape {
    int32_t kind;    /* enum cs_item_kind */
    int32_t grid[3]; /* patches over time, height, width; image: 1 over time; sound: frames, 1, 1 */
    int32_t rows;    /* that leave the encoder and enter the LLM */
    int32_t bytes;   /* of its data */
    int32_t
        time_step; /* positions of the LLM from one frame to the next (axes.h); 0: 1, below 0: none */
};

/* Rows that the encoder's blocks work on. */
static inline int64_t cs_item_patches(const struct cs_item_shape *shape)
{
    return (int64_t)shape->grid[0] * shape->grid[1] * shape->grid[2];
}

/* An item of a slot. Items of an encoder lie one behind the other: their rows in the order of the
 * items, their data at rising offsets without gaps. */
struct cs_item {
    struct cs_item_shape shape;
    int64_t offset; /* of its data among those of the encoder's items, bytes */
};

/* Where the encoder's budget has no sources, LLM row rows[i] is filled by row i of the encoder. With
 * sources it is filled by what source[i] says: a row of the encoder, a learned parameter, or a blend.
 * Either way the LLM rows ascend. */
enum {
    CS_SOURCE_LEARNED = -1,
    CS_SOURCE_BLENDS = -2 /* and below: blend CS_SOURCE_BLENDS - source */
};

/* A weighted sum of rows of the encoder, counted over the slot. A weight of 0 is not used. */
struct cs_slot_blend {
    int32_t row[4];
    float weight[4];
};

/* Offsets are relative to the start of the slot's memory; computed once from the budget. */
struct cs_slot_layout {
    size_t bytes; /* of one slot, page multiple */
    size_t ids, labels, doc, pos, sample_ids, sample_rows, sample_sources;

    struct {
        size_t items;  /* struct cs_item (budget items) */
        size_t data;   /* uint8 (cs_budget_bytes) */
        size_t rows;   /* int32 (cs_budget_fills): LLM rows that are filled */
        size_t source; /* int32 (cs_budget_fills), and */
        size_t blends; /* struct cs_slot_blend (cs_budget_fills): with sources only */
    } enc[CS_MAX_ENCODERS];
};

struct cs_slot_head {
    int64_t step;
    int32_t slot; /* index within the step */
    int32_t n_samples, n_tokens, n_labels;
    int32_t n_items[CS_MAX_ENCODERS];
    int32_t n_rows[CS_MAX_ENCODERS]; /* of the encoder's items */
    int32_t n_patches[CS_MAX_ENCODERS];
    int32_t n_fills[CS_MAX_ENCODERS];  /* LLM rows that they fill: n_rows, without sources */
    int32_t n_blends[CS_MAX_ENCODERS]; /* with sources */
    int64_t n_bytes[CS_MAX_ENCODERS];  /* of their data */
};

/* A view on a slot in memory; all pointers into the pool. */
struct cs_slot {
    struct cs_slot_head *head;
    int32_t *ids, *labels, *doc, *pos; /* (seq_tokens) */
    uint64_t *sample_ids;              /* (CS_SLOT_MAX_SAMPLES) index in the data set */
    int32_t *sample_rows;              /* (CS_SLOT_MAX_SAMPLES + 1) first row of every sample */
    int32_t *sample_sources; /* (CS_SLOT_MAX_SAMPLES) what its loss is told under (sources.h) */
    struct cs_item *items[CS_MAX_ENCODERS];
    uint8_t *data[CS_MAX_ENCODERS];
    int32_t *rows[CS_MAX_ENCODERS];
    int32_t *source[CS_MAX_ENCODERS]; /* NULL: no sources */
    struct cs_slot_blend *blends[CS_MAX_ENCODERS];
};

void cs_slot_layout_make(const struct cs_slot_budget *budget, struct cs_slot_layout *out);
void cs_slot_view(const struct cs_slot_layout *layout, const struct cs_slot_budget *budget,
                  void *memory, struct cs_slot *out);
/* The largest item of the budget, a picture: what all look like where they are of one size. */
struct cs_item_shape cs_slot_largest_item(const struct cs_slot_budget *budget, int encoder);
/* One of fewer rows, with patches and bytes in proportion. */
struct cs_item_shape cs_slot_smaller_item(const struct cs_slot_budget *budget, int encoder,
                                          int32_t rows);
/* As many items of that size as there is room for, and a smaller one for the rest; with sources all LLM
 * rows, each a blend. */
void cs_slot_fill_items(struct cs_slot *slot, const struct cs_slot_budget *budget, int encoder);
/* Adds an item behind those that the encoder has; its data go to slot->data[encoder] + offset of the
 * item that is returned; *first_row (may be NULL) is the first of its rows among those of the
 * encoder. Without sources the LLM rows of its rows go to slot->rows[encoder] + *first_row.
 * NULL: the budget has no room for it, and nothing changed. */
struct cs_item *cs_slot_add_item(struct cs_slot *slot, const struct cs_slot_budget *budget,
                                 int encoder, const struct cs_item_shape *shape,
                                 int32_t *first_row);
/* With sources: the next LLM row, and what fills it. There is room for cs_budget_fills of them. */
void cs_slot_add_fill(struct cs_slot *slot, int encoder, int32_t llm_row, int32_t source);
/* The source that stands for this blend. */
int32_t cs_slot_add_blend(struct cs_slot *slot, int encoder, const struct cs_slot_blend *blend);
/* The items of the encoder as they must be, against head and budget, and its sources: CS_CORRUPT names
 * the item. (That LLM rows ascend is for who reads them.) */
enum cs_status cs_slot_check_items(const struct cs_slot *slot, const struct cs_slot_budget *budget,
                                   int encoder, struct cs_err *err) CS_NODISCARD;

enum cs_step_kind { CS_STEP_TRAIN, CS_STEP_EVAL };

enum {
    CS_STEP_CHECKPOINT = 1, /* write a checkpoint after this step */
    CS_STEP_LAST = 2,       /* the workers end after this step (and its checkpoint) */
    CS_STEP_EVAL_FIRST = 4, /* first and last step of one evaluation pass */
    CS_STEP_EVAL_LAST = 8,
};

/* What a slot has, as its head says: the same figures, which stay when its memory is used again. */
struct cs_slot_counts {
    int32_t n_tokens, n_labels;
    int32_t n_items[CS_MAX_ENCODERS];
    int32_t n_rows[CS_MAX_ENCODERS]; /* of these items */
    int32_t n_patches[CS_MAX_ENCODERS];
    int32_t n_fills[CS_MAX_ENCODERS];
};

/* One per step, published when every slot's samples are known good. */
struct cs_manifest {
    int64_t step; /* training steps count from 0; an evaluation step carries the step it follows */
    int32_t kind; /* enum cs_step_kind */
    uint32_t flags;
    int32_t n_slots;
    int64_t n_samples;
    int64_t trained_tokens;      /* labels >= 0 in the whole step: the divisor of the loss */
    uint64_t first_slot;         /* sequence number of its first slot in the pool */
    struct cs_slot_counts *slot; /* (n_slots) borrowed from whoever made the manifest */
};

/* What the manifest says of slot `index` is what the slot's head says. */
void cs_manifest_note(struct cs_manifest *manifest, int index, const struct cs_slot *slot);

#endif
