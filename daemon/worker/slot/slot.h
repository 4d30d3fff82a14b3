/* What the layers of a rank need to know of one slot, checked and prepared once, used by all layers
 * in both directions: ids without placeholders, documents, rope tables, rows with a label.
 *
 * A slot comes from the shared pool and is checked before use: a wrong index would read or write
 * outside a buffer. Errors are CS_CORRUPT and name slot, row and value.
 *
 * Three calls. prepare and make_room for every slot of a step, before its first action: they can
 * fail, and nothing is under way then; and taking memory may wait for a device that waits for a
 * peer that waits for us. Then place for one slot after the other, while the device works on those
 * before: it copies pixels and rope rows, which is most of the host's work for a slot, and can
 * neither fail nor wait.
 *
 * On a device with memory of its own the LLM's rows of a slot are rounded up to a bucket of 64, at
 * most the budget, and its documents, as far as there are rows for them, to a multiple of 8: packed
 * slots are of nearly, but seldom of exactly the same size, and what repeats is cheap there (plans
 * of matrix products, whole graphs of launches). The rows that are added are documents of their own
 * behind all others, their embedding is zero, they have no label: no other row sees them, their
 * gradients are zero, and no count of tokens knows of them. Only the order in which a sum over rows
 * is taken may be another. For the same reason arrays of the LLM lie where they lie in every slot,
 * whatever it holds. The host never pads. */
#ifndef CS_WORKER_SLOT_SLOT_H
#define CS_WORKER_SLOT_SLOT_H

#include "core/data/slot.h"
#include "core/data/sources.h"
#include "core/mask/cells.h"
#include "core/model/tensor_parallel.h"
#include "core/plan/tokens/context_map.h"
#include "worker/device/device.h"
#include "worker/device/scratch.h"

enum { CS_INPUT_ROWS_ADDED = 63 }; /* at most, on a device with memory of its own */

/* as many as all encoders and the LLM have kinds of attention */
enum { CS_SLOT_MASKS = CS_ATTENTIONS * (CS_MAX_ENCODERS + 1), CS_SLOT_ROPES = 2 * CS_SLOT_MASKS };

/* Constants of a graph and its budgets, shared by all slots. Host memory. */
struct cs_input_tables {
    struct cs_device *device;
    const struct cs_graph *graph;
    const struct cs_slot_budget *budget;
    int32_t vocab, n_positions; /* of the LLM */
    /* Those that this rank has where ranks share them; end 0: all. Set by who knows the plan, before the
     * first slot. */
    struct cs_tp_share words;

    /* Masks and rotations that the graph's kinds of attention need, each once: the LLM's first. */
    struct cs_slot_mask {
        int32_t encoder; /* whose rows; -1: the LLM's */
        struct cs_mask_rule rule;
        enum cs_inside inside; /* encoders */
    } mask[CS_SLOT_MASKS];

    struct cs_slot_rope {
        int32_t encoder; /* as above */
        int32_t n_positions, half;
        const struct cs_rope *rope;
        bool is_query;              /* of queries that are scaled by their position */
        float *cos, *sin;           /* (n_positions, half) fp32, angles position * inv_freq */
        float *long_cos, *long_sin; /* of documents beyond the original length, or NULL */
        bool is_grown;  /* these turn by frequencies of their own length, made as they come */
        uint8_t *axis;  /* (half) which of three positions turns it; NULL: there is one */
        int32_t planes; /* pieces of a row that lie in arrays of their own, one behind the other */
    } rope[CS_SLOT_ROPES];

    int32_t n_masks, n_ropes;

    /* of every kind of attention (module's first_attention + kind): indices above, rope -1: none */
    struct cs_slot_kind {
        int32_t mask, rope, rope_q; /* rotation of keys, and of queries: mostly the same */
    } kind[CS_SLOT_MASKS];

    struct cs_slot_encoder {
        float mean[4], std[4], rescale; /* pixels to values, from the processor's configuration */
        bool has_newline;               /* a learned row */
        /* Parts that share its items (share.h), set by who knows the plan; below 2: all items are where
         * the encoder is. This rank's among them, -1: it has no stage of the encoder. And slots' worth of
         * items that it may have, 0: 1. */
        int32_t ranks, place, most_slots;
        float
            mean_scale; /* of the sums that means are, times what a chain multiplies them with; 0: none */
    } enc[CS_MAX_ENCODERS];

    /* Context parallelism: the LLM's rows of a slot are split over this many ranks (split.h). Set by
     * who knows the plan, before the first slot. */
    struct cs_input_context {
        /* Slots that lie side by side in the lanes of the LLM (core/plan/plan.h), below 2: one at a time; this
         * rank's lane, of encoders alone: 0. */
        int32_t lanes, lane;
        int32_t ranks;               /* below 2: all rows are here */
        int32_t place;               /* this rank's among them, -1: it has no stage of the LLM */
        int32_t most, most_in_order; /* rows of a rank in any slot */
        int32_t rows_each; /* before more ranks split a slot (core/plan/context.h); 0: all do */
        enum cs_balance_how how;
        double per_row, per_pair[CS_SLOT_MASKS]; /* FLOPs of the LLM; by mask */
        double per_stretch_row;                  /* of its recurrent layers, rows in order */
        /* Heads are exchanged, not keys: numbers of ranks that can share them (cs_context_degrees.can), and of every
         * kind of attention (graph->n_attentions) of the LLM this rank's heads of keys, behind tp. */
        bool moves_heads;
        bool
            own_first; /* where keys are: attention over the own ones by itself, while others come */
        uint64_t can;
        int32_t keys[CS_SLOT_MASKS];
        int32_t taps; /* rows that their convolution reads, the own one too; 0: there are none */
    } context;
};

/* device: where slots are used; NULL: the host */
enum cs_status cs_input_tables_new(const struct cs_graph *graph, struct cs_device *device,
                                   const struct cs_slot_budget *budget,
                                   struct cs_input_tables **out, struct cs_err *err) CS_NODISCARD;
void cs_input_tables_free(struct cs_input_tables *tables); /* accepts NULL */

/* Weighted sums of rows: the lists of mix_rows (kernels/ops.h). */
struct cs_row_mix {
    int32_t rows, n; /* of the result; entries */
    const int32_t *start, *index;
    const float *weight;
};

/* Rows inside an encoder, in their order (core/arch/front.h), and the lists by which operators walk
 * over them. NULL and 0 where the encoder has no use for them. */
struct cs_input_rows {
    int32_t n, n_patches; /* rows; of these, those that are no class row */
    const int32_t *doc[CS_INSIDES], *segment[CS_INSIDES]; /* (n), (n_segments + 1) */
    int32_t n_segments[CS_INSIDES];
    const int32_t *pos[3]; /* (n) number in its item, y and x of its patch */
    /* class rows */
    const int32_t *patch_row, *class_row; /* (n_patches), (n_items) rows */
    const int32_t *no_row;                /* (n_items) zeros */
    struct cs_row_mix class_back;         /* their sum */
    /* pictures */
    const struct cs_patch_place *place; /* (n_patches) of the pixels of every patch */
    /* sounds: frames of data, rows behind the first convolution; the three that each row behind the
     * first (n_conv, 3) and the second (n, 3) reads; and the way back through the second */
    int32_t n_frames, n_conv, n_near;
    const int32_t *near_frames, *near_conv;
    const int32_t *near_start, *near_entry; /* (n_conv + 1), (n_near) */
    /* rows of the table of positions, and the way back; patches to what leaves, and back */
    struct cs_row_mix position, position_back, mean, mean_back;
    /* with sources: rows that leave to rows of the LLM, and back; which of those is the learned row, and the
     * sum of its gradients */
    struct cs_row_mix fill, fill_back, learned, learned_back;
};

/* What operators read of a slot, in the memory of the device. */
struct cs_input_arrays {
    const int32_t *embed_ids, *picked, *label_rows, *label_ids;
    const int32_t *fill[CS_MAX_ENCODERS];
    const float *cos[CS_SLOT_ROPES], *sin[CS_SLOT_ROPES]; /* (rows, half) by tables->rope */
    struct cs_input_rows rows[CS_MAX_ENCODERS];
    const void *minus_one; /* (1) act */
    const uint8_t *pixels[CS_MAX_ENCODERS];
    const void *patches[CS_MAX_ENCODERS]; /* acts, NULL: pixels */
    const float *mean[CS_MAX_ENCODERS], *std[CS_MAX_ENCODERS];
    struct cs_mask_plan mask[CS_SLOT_MASKS]; /* by tables->mask */
    double *loss;                            /* (1) added to by the head */
    int64_t *load;    /* of the experts (kernels/experts.h), NULL: none is asked for */
    double *row_loss; /* (n_labels) */
    uint8_t *correct; /* (n_labels), evaluation only, else NULL */
};

/* Lists of tiles of one mask, where the device's attention works from them. */
struct cs_input_mask {
    struct cs_mask_cells cells;
    void *memory; /* device: lists, bitmaps, workspace of the builder */
    size_t bytes;
    int32_t *q_row, *k_row; /* host: first rows of the tiles; one array where they are equal */
    int32_t room;           /* for bitmaps */
    int32_t *n_bitmaps;     /* page-locked: how many the builder found */
};

/* One slot of a step: checked and prepared on the host, then placed where the device reads it.
 * Memory is reused by the next step, which may begin when the device is done with this one: staging
 * is read by a copy that nobody waits for. */
struct cs_input {
    const struct cs_input_tables *tables;
    struct cs_scratch memory;
    struct cs_slot slot;
    unsigned needs;
    /* instead of slot.data: patches in their order (n_patches, values) fp32; of sounds frames (n_frames,
     * bins) */
    const float *patches[CS_MAX_ENCODERS];
    int32_t n_tokens, n_labels;       /* of the slot; labels of the rows that are here */
    int64_t step_tokens, step_labels; /* of all slots of the step, of all replicas; 0: unknown */
    int32_t
        llm_rows; /* of the LLM's stages: those that are here and what is added; set by make_room */
    int32_t n_items[CS_MAX_ENCODERS], n_rows[CS_MAX_ENCODERS]; /* rows that leave the encoder */
    int32_t *embed_ids; /* (llm_rows), by tables->words; -1 at rows that an encoder fills */
    struct cs_input_rows rows[CS_MAX_ENCODERS]; /* inside the encoder */
    /* rows of the LLM that they fill: n_rows without sources; on a rank of a context those that are here */
    int32_t n_fills[CS_MAX_ENCODERS];
    const int32_t *item_of[CS_MAX_ENCODERS]; /* (n_fills): item of each of these, */
    const int32_t *fill[CS_MAX_ENCODERS];    /* (n_fills): LLM row, of a context's rank its own */

    /* What is filled in the whole slot, on all ranks of a context. */
    struct cs_input_fills {
        int32_t n;
        const int32_t *row,
            *item; /* (n) of the slot, in the order in which they leave the encoder */
    } whole[CS_MAX_ENCODERS];

    /* Where rows of an encoder go (share.h), NULL: they all stay together. Where the encoder is and ranks share
     * its items, what stands above, and in slot, is of the own items, but for what is filled here. */
    struct cs_item_share *share[CS_MAX_ENCODERS];
    int32_t n_leaving[CS_MAX_ENCODERS];     /* rows that leave the encoder's branch here */
    int64_t n_bytes[CS_MAX_ENCODERS];       /* of the items' data */
    int64_t values_before[CS_MAX_ENCODERS]; /* in patches, of items that are elsewhere */
    struct cs_input_split
        *split; /* the LLM's rows are on several ranks (split.h); NULL: all here */
    struct cs_mask_plan mask[CS_SLOT_MASKS]; /* by tables->mask; those of a branch share arrays */
    int32_t *item;  /* (n_tokens) picture of a row, -1: text; NULL: no rule asks */
    uint64_t *word; /* (n_tokens) modality of a row, or NULL */
    /* (3, n_tokens) places over time, height and width (core/data/axes.h), NULL: no head turns by them */
    int32_t *axes;
    int32_t *label_rows, *label_ids; /* (n_labels); ids by tables->words */
    /* (n_picked) rows that the ffn before the head looks at (cs_layer_feeds_head): those with a label, on a device with
     * memory of its own rounded up to a bucket of 64 with others; set by make_room */
    int32_t *picked, n_picked;
    /* results of the head, valid after cs_input_fetch */
    double loss;      /* sum over the labels */
    double *row_loss; /* (n_labels) */
    uint8_t *correct; /* (n_labels), evaluation only, else NULL */
    int64_t *load;    /* like at.load */

    struct cs_input_arrays at; /* set by place */
    bool is_placed;
    char *staging, *placed; /* one block each: page-locked host memory, its copy on the device */
    size_t room, bytes;     /* of the blocks; of this slot's part of them */
    struct cs_input_mask lists[CS_SLOT_MASKS]; /* by tables->mask */
    /* of the keys that come, where attention over the own ones is by itself */
    struct cs_input_mask far[CS_SLOT_MASKS];
};

enum cs_input_need {
    CS_INPUT_TOKENS = 1,
    CS_INPUT_LABELS = 2,
    CS_INPUT_CORRECT = 4,
    CS_INPUT_PIXELS = 8,
    CS_INPUT_ROWS = 16,  /* stages of an encoder */
    CS_INPUT_BESIDE = 32 /* of another lane: only where its rows are */
};

/* needs: which stages this rank has (flags of enum cs_input_need; encoders need counts only). The
 * counts come from the manifest and must agree with the slot's head. */
enum cs_status cs_input_prepare(struct cs_input *input, const struct cs_input_tables *tables,
                                const struct cs_manifest *manifest, int index,
                                const struct cs_slot *slot, unsigned needs,
                                struct cs_err *err) CS_NODISCARD;
/* Where slots lie side by side: after prepare, beside (tables->context.lanes) those of all lanes, this one at
 * its own, the others prepared for CS_INPUT_BESIDE. */
void cs_input_join(struct cs_input *input, const struct cs_input *const *beside);
/* The encoder's rows and masks from the items of input->slot: n_items of n_rows rows. (encoder.c) */
void cs_input_prepare_encoder(struct cs_input *input, int32_t encoder);
/* Round rows up where that is done, and take the memory that placing needs, where less was
 * reserved. After patches are set. */
enum cs_status cs_input_make_room(struct cs_input *input, struct cs_err *err) CS_NODISCARD;
/* Fill input->at: pointers to what was prepared, or one asynchronous copy of it. Once, after
 * make_room, before the first compute action of the slot is enqueued; messages need no more than
 * make_room. */
void cs_input_place(struct cs_input *input);
/* After the step. CS_LIMIT: a mask is in more pieces than there is room for, the step is void. */
enum cs_status cs_input_check(const struct cs_input *input, struct cs_err *err) CS_NODISCARD;
/* Bring the results of the head to the host; waits for the device. */
enum cs_status cs_input_fetch(struct cs_input *input, struct cs_err *err) CS_NODISCARD;
void cs_input_free(struct cs_input *input);

/* The slot that takes most memory: one document of all tokens, each with a label, and all items of
 * every encoder (more rows than tokens together, where that is what their budgets allow). Ready for
 * a rehearsal: counts, masks and what the device would be told; nothing is on the device. */
struct cs_fullest {
    struct cs_input input;
    void *slot_memory;
    size_t block_bytes; /* of a placed slot, 0 on the host */
};

enum cs_status cs_fullest_new(const struct cs_input_tables *tables, unsigned needs,
                              struct cs_fullest *out, struct cs_err *err) CS_NODISCARD;
void cs_fullest_free(struct cs_fullest *fullest);
/* All the memory that any slot of the budgets needs on the device, so that make_room takes none. */
enum cs_status cs_input_reserve(struct cs_input *input, const struct cs_fullest *fullest,
                                struct cs_err *err) CS_NODISCARD;

/* Evaluation, of all rows of a slot: samples, and how many have every trained token right. Samples
 * without a trained token are not counted. Where the rows are split: on the first rank of the
 * context, which the others' results have come to (cs_split_take_correct). */
void cs_input_exact(const struct cs_input *input, int64_t *n_samples, int64_t *n_exact);
/* Adds the losses of the labels to those of their sources (CS_SOURCES_MAX), in the order of rows. */
void cs_input_by_source(const struct cs_input *input, struct cs_source_loss *sources);
/* The balancing loss of the slot's experts (worker/layer/loads.h), 0 without; where rows are split the share
 * that this rank has of them. */
double cs_input_balance(const struct cs_input *input);

#endif
