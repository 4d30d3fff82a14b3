/* What a layer keeps of a slot between its passes: one table, which the planner and the search count
 * and the worker takes its memory by.
 *
 * An array has a row for every row of the slot that passes the layer (the head: for every row with a
 * label; the ffn before it, cs_layer_feeds_head, may make no more) and columns that follow from the
 * architecture. It is kept from forward to backward where the layer has a backward; some arrays are read
 * by weight gradients only, and kept where weights train. Recompute drops arrays, from a level on: the
 * backward makes them again. */
#ifndef CS_MODEL_KEEPS_H
#define CS_MODEL_KEEPS_H

#include "core/model/graph.h"

/* What a layer with a backward does again there instead of keeping it: nothing; norms and
 * activation functions (no matrix product twice); its whole forward from its input. */
enum cs_recompute { CS_RECOMPUTE_NONE, CS_RECOMPUTE_SELECTIVE, CS_RECOMPUTE_FULL, CS_RECOMPUTES };

/* The arrays by name; which of them a layer has is up to its kind, and to the halves of a block. */
enum cs_keep {
    CS_KEEP_SOURCE, /* token ids, or patches of pictures */
    CS_KEEP_X,      /* input of the layer */
    CS_KEEP_STAT1,  /* statistics of the rows before the first norm */
    CS_KEEP_H1,     /* after the first norm */
    CS_KEEP_QKV,    /* q, k and v of all heads */
    CS_KEEP_O,      /* output of attention, before its projection */
    CS_KEEP_LSE,    /* log-sum-exp of every head's scores */
    CS_KEEP_GATE,   /* of attention's output */
    CS_KEEP_MIXED,  /* input of the mixer's last product, where it is not O */
    CS_KEEP_X2,     /* sum after attention */
    CS_KEEP_STAT2,
    CS_KEEP_H2,     /* after the second norm; the head: the gradient after its norm */
    CS_KEEP_LOGITS, /* of the router */
    CS_KEEP_UP,     /* before the activation; gated: gate and up beside each other */
    CS_KEEP_A,      /* after the activation; a chain: inputs of its matrices */
    CS_KEEP_N,      /* a chain, an embedding with a norm: what is normed */
    /* what a half of a block made, before what is behind it, and the statistics of a norm there */
    CS_KEEP_M1,
    CS_KEEP_STAT_M1,
    CS_KEEP_M2,
    CS_KEEP_STAT_M2,
    /* gradients that the input half of a split backward leaves to the weight half */
    CS_KEEP_DY,
    CS_KEEP_DX2,
    CS_KEEP_DM1,
    CS_KEEP_DM2,
    CS_KEEP_DQKV,
    CS_KEEP_DGATE,
    CS_KEEP_DUP,
    CS_KEEP_DLOGITS,
    CS_KEEP_FIRST,    /* where the rows of every expert begin */
    CS_KEEP_PAIRS_DY, /* gradients of outputs, and inputs, of pairs of a row and an expert */
    CS_KEEP_PAIRS_H,
    CS_KEEP_COUNT
};

/* columns of an array, by what of the architecture they follow */
enum cs_columns {
    CS_COLUMNS_WIDTH,  /* hidden width */
    CS_COLUMNS_Q,      /* query heads */
    CS_COLUMNS_QKV,    /* all heads */
    CS_COLUMNS_HEADS,  /* one number a query head */
    CS_COLUMNS_FFN,    /* inner width of the MLP */
    CS_COLUMNS_UP,     /* gated: twice the inner width */
    CS_COLUMNS_STAT,   /* 2: mean and inverse deviation */
    CS_COLUMNS_SOURCE, /* an id, or the values of a patch */
    CS_COLUMNS_FRONT,  /* hidden width where an encoder has a norm behind its embedding, else 0 */
    CS_COLUMNS_FRONT_STAT, /* 2 there */
    CS_COLUMNS_STEM,       /* before the activations of convolutions, for every row behind them */
    CS_COLUMNS_CHAIN_IN,   /* of a chain (core/arch/chain.h): for every row that leaves it */
    CS_COLUMNS_CHAIN_STAT,
    CS_COLUMNS_CHAIN_NORM,
    CS_COLUMNS_CHAIN_ACT,
    CS_COLUMNS_CHAIN_LINEAR,
    CS_COLUMNS_GATE,        /* query heads where each has a gate, else 0 */
    CS_COLUMNS_RECUR,       /* recurrent: what the first product gives */
    CS_COLUMNS_VALUES,      /* recurrent: heads of values */
    CS_COLUMNS_EXPERTS,     /* one number an expert */
    CS_COLUMNS_FIRST,       /* and one more */
    CS_COLUMNS_PAIRS_WIDTH, /* the hidden width for every expert of a row */
    CS_COLUMNS_PAIRS_FFN,   /* the inner width of an expert for every expert of a row */
    CS_COLUMNS_PAIRS_UP,    /* twice that */
    CS_COLUMNS_COUNT
};

enum cs_keep_memory {
    CS_KEEP_ACTS, /* the device's act type */
    CS_KEEP_F32,  /* fp32 on every device */
    CS_KEEP_ONCE, /* int32, columns of them whatever the rows. Plans do not count it. */
    CS_KEEP_SLOT  /* nothing: it is read from the slot again. Plans count it as acts. */
};

struct cs_keep_row {
    enum cs_keep array;
    enum cs_columns columns;
    enum cs_keep_memory memory;
    bool is_for_weights;      /* only weight gradients read it */
    enum cs_recompute redone; /* the first level that makes it again, CS_RECOMPUTES: none */
};

/* The arrays of a layer, whose architecture is arch: those that its forward makes, and the gradients
 * that are held for the weight half of a split backward. A block's are put together from those
 * around its halves and those of each half (enum cs_mixer, cs_ffn). */
struct cs_keep_rows {
    const struct cs_keep_row *row[CS_KEEP_COUNT]; /* of constant tables */
    int n;
};

struct cs_keep_rows cs_keep_rows(const struct cs_arch *arch, const struct cs_layer *layer);
struct cs_keep_rows cs_keep_held_rows(const struct cs_arch *arch, const struct cs_layer *layer);
/* NULL: the layer has no such array */
const struct cs_keep_row *cs_keep_find(const struct cs_arch *arch, const struct cs_layer *layer,
                                       enum cs_keep array);
/* the layer keeps the array at that level, if it has a backward */
bool cs_keep_is_kept(const struct cs_keep_row *row, const struct cs_layer *layer,
                     enum cs_recompute level);
/* full recompute can make the layer again from its input */
bool cs_keep_can_redo(const struct cs_arch *arch, const struct cs_layer *layer);
int64_t cs_keep_columns(const struct cs_arch *arch, const struct cs_layer *layer,
                        enum cs_columns columns);

/* Which arrays are counted: of the same size on every rank of tensor parallelism, or cut over them; and of
 * those of one size the ones whose rows ranks may split (sequence parallelism). */
enum cs_keep_share {
    CS_KEEP_EVERYWHERE = 1, /* all rows on every rank, whatever is split */
    CS_KEEP_CUT = 2,
    CS_KEEP_ROWS = 4,
    CS_KEEP_WHOLE = CS_KEEP_EVERYWHERE | CS_KEEP_ROWS,
    CS_KEEP_ALL = CS_KEEP_WHOLE | CS_KEEP_CUT
};

/* Numbers a row that a layer keeps from forward to backward at that level, 0 without a backward.
 * Plans count fp32 as elements like any other, of RMS statistics the one number that is used, and
 * rows of the head with and without a label. */
int64_t cs_keep_elements(const struct cs_graph *graph, const struct cs_layer *layer,
                         enum cs_recompute level, enum cs_keep_share share);
/* ... that its input half holds beside: gradients, and what recompute made again */
int64_t cs_keep_held_elements(const struct cs_graph *graph, const struct cs_layer *layer,
                              enum cs_recompute level);
/* ... that its forward makes in the act type beside its input and output, kept or not */
int64_t cs_keep_made_elements(const struct cs_graph *graph, const struct cs_layer *layer);

/* The rows of `tokens` that a rank with most has between the products of a block. */
int64_t cs_keep_row_share(const struct cs_graph *graph, const struct cs_layer *layer,
                          int64_t tokens);
/* Numbers that a rank keeps of `tokens` rows; graph: as it has it (core/model/tensor_parallel.h). */
int64_t cs_keep_numbers(const struct cs_graph *graph, const struct cs_layer *layer,
                        enum cs_recompute level, int64_t tokens);
/* Bytes (fp32) that a layer keeps of `tokens` rows from forward to backward without recompute, 0
 * for a layer that needs no gradient. */
int64_t cs_layer_saved_bytes(const struct cs_graph *graph, const struct cs_layer *layer,
                             int64_t tokens);

#endif
