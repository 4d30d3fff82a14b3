/* The layers a stage is made of: forward and backward of each kind, found in one table. A layer
 * reads its parameters by role and its options from the architecture; no family has code of its
 * own.
 *
 * rows: rows of the stage's branch in this slot (LLM tokens, or encoder rows); 0 is legal. x, y,
 * dy, dx: (rows, width) of the device's act type (fp32 on the host, bf16 or fp32 on a GPU), in the
 * device's memory. What a backward needs is put into `kept`, in memory of `keep`; keep
 * NULL is inference: everything is scratch and nothing survives the layer. Gradients of weights are
 * added, and only where tensor->grad is set; dx NULL: not needed. */
#ifndef CS_WORKER_LAYER_LAYERS_H
#define CS_WORKER_LAYER_LAYERS_H

#include "core/model/keeps.h"
#include "worker/device/device.h"
#include "worker/params/params.h"
#include "worker/slot/slot.h"

/* Weight gradients of linear layers that a split backward leaves for later (zero-bubble schedules):
 * dy and x stay where they are until then. */
struct cs_later {
    struct cs_wgrad {
        int32_t layer; /* of the stage */
        int64_t rows, in, out;
        const void *dy, *x;
        const struct cs_shard *w, *b;
        struct cs_moe_groups groups; /* of products by expert; first NULL: of one matrix */
    } * wgrad;

    int32_t n, room;
    int32_t layer;           /* whose backward runs */
    int32_t n_made;          /* of them already */
    struct cs_scratch *held; /* memory of dy and x */
};

/* Who wants to know where a stage is; layer: of graph->layers. NULL functions: not wanted. */
struct cs_watch {
    void (*at)(void *user, int32_t layer);     /* its calls follow, forward or backward */
    void (*before)(void *user, int32_t layer); /* its forward is about to read weights */
    void (*made)(void *user,
                 int32_t layer); /* the forward of the head, with gradients, is enqueued */
    void (*back)(void *user, int32_t layer);  /* its backward is about to read and add */
    void (*half)(void *user, int32_t layer);  /* the input half of its backward is enqueued */
    void (*weigh)(void *user, int32_t layer); /* the weight half is about to add */
    void (*done)(void *user, int32_t layer);  /* its gradients of this slot are enqueued */
    /* Calls are written down and run later: what is to be asked there, of whom, and with which
     * number; NULL: at once. */
    void (*call)(void *user, void (*what)(void *whom, int32_t number), void *whom, int32_t number);
    void *user;
};

struct cs_context; /* worker/model/halves/context.h */

/* One call's surroundings. */
struct cs_run {
    struct cs_device *device;
    const struct cs_ops *ops; /* the device's */
    struct cs_ctx *ctx;
    struct cs_scratch *scratch;  /* rewound after every layer */
    struct cs_scratch *keep;     /* activations for the backward, NULL: inference */
    struct cs_later *later;      /* NULL: weight gradients are made at once */
    enum cs_recompute recompute; /* what the backward makes again instead of keeping it */
    struct cs_input *input;
    const struct cs_watch *watch; /* NULL: nobody */
    struct cs_context
        *context; /* ranks with the other rows of the slot, NULL: none, or rehearsal */
    struct cs_context *tensors; /* ranks that share the stage's matrices, NULL: none */
    bool splits_rows;           /* each of these has a part of the rows between products */
    bool leaves_parts; /* who gets what the pass leaves asks each of these for its own rows alone */
    struct cs_context *experts; /* ranks with the other experts of its layers, NULL: none */
    struct cs_context *all;     /* ranks that run the stage, NULL: no others, or rehearsal */
    bool is_rehearsal;          /* workspaces as large as any smaller slot needs them */
    int64_t *load; /* of the slot's experts (worker/layer/loads.h), NULL: they are not counted */
    bool is_again; /* a forward for its backward: nobody reads what leaves the layer */
};

/* The tensors of one role of a layer by their part; n 0: the layer has none. */
struct cs_weights {
    const struct cs_shard *const *part;
    int32_t n;
};

/* A layer bound to the parameters of this rank. */
struct cs_layer_model {
    const struct cs_layer *layer;
    const struct cs_arch *arch;
    const struct cs_attention *attention; /* of a block, else NULL */
    int32_t attention_id;                 /* its kind among those of the graph, else -1 */
    int32_t encoder;                      /* index of the branch's encoder, -1: the LLM */
    int32_t in_width, out_width;          /* of its rows; embed: in_width 0, head: out_width 0 */

    enum cs_row_count {
        CS_ROWS_INNER,
        CS_ROWS_OUT,
        CS_ROWS_FILL
    } rows_in,
        rows_out; /* of an encoder */

    bool needs_backward;
    struct cs_weights weights[CS_PARAM_ROLE_COUNT];
    const struct cs_shard **bound; /* what weights point into; the layer's own */
    int32_t n_feeds;               /* of the graph's feeds, those that enter here */

    struct {
        int32_t feed, encoder; /* graph->feeds; whose rows they are */
    } in[CS_MAX_FEEDS];

    bool picks_labels;    /* its ffn may look at rows with a label alone (cs_layer_feeds_head) */
    int32_t tap;          /* the feed that leaves a layer in the middle of a branch, -1: none */
    bool feeds_own_ranks; /* a feed that leaves it enters a stage on the same ranks */
};

/* One of several tensors of a role, and the only one (the first); NULL: the layer has none. */
static inline const struct cs_shard *cs_weight_part(const struct cs_layer_model *l,
                                                    enum cs_param_role role, int32_t part)
{
    return part < l->weights[role].n ? l->weights[role].part[part] : NULL;
}

static inline const struct cs_shard *cs_weight(const struct cs_layer_model *l,
                                               enum cs_param_role role)
{
    return cs_weight_part(l, role, 0);
}

/* Activations of one layer and slot, as core/model/keeps.h lists them for its kind; other fields
 * are NULL, and so are those of selective recompute that were not kept. */
struct cs_kept {
    const void *x;        /* (rows, in_width) input */
    float *stat1, *stat2; /* (rows, 2) of norm1, norm2 */
    void *h1, *h2;        /* (rows, width) after norm1, norm2 */
    void *qkv;            /* (rows, (heads + 2 kv_heads) * head_dim), q and k rotated; with norms of
                             heads as the product made it */
    void *o;              /* (rows, heads * head_dim) */
    float *lse;           /* (heads, rows) */
    void *gate;           /* (rows, heads * head_dim) of attention's output */
    void *mixed;          /* what the mixer's last product reads, where that is not o */
    void *x2;      /* (rows, width) after attention's residual; those that the ffn looks at */
    void *d_ffn;   /* room for the gradient of picked rows that leave the ffn, else NULL */
    void *logits;  /* (rows, experts) of the router */
    void *up, *a;  /* (rows, ffn or 2 ffn: gate, up), (rows, ffn); experts: rows are pairs */
    void *m1, *m2; /* (rows, width) of the halves, before the norms behind them */
    float *stat_m1, *stat_m2;
    /* a chain: in front of each of its steps what a backward reads of it */
    const void *step[CS_CHAIN_STEPS];
    float *step_stat[CS_CHAIN_STEPS];
};

/* Rows that enter and leave a stage beside x and y, by feed of the graph. */
struct cs_layer_ends {
    const void *fill[CS_MAX_FEEDS]; /* forward: rows of an encoder, for the layer that takes them */
    void *d_fill[CS_MAX_FEEDS];     /* backward: their gradients, NULL: not needed */
    void *tap[CS_MAX_FEEDS];        /* forward: where rows of a tap go, NULL: nowhere */
    const void *d_tap[CS_MAX_FEEDS]; /* backward: their gradients, NULL: none comes */
    /* Loads of experts (loads.h) that come with x, or dy, and go with y, or dx; NULL: none do */
    int64_t *loads_from, *loads_to;
};

/* feeds.c: what happens to the rows of the language model where those of encoders enter behind its
 * embedding (which takes them in itself). x (rows, width) += the encoders' rows, in place; what was
 * there before is read by nobody. */
void cs_feeds_take(struct cs_run *run, const struct cs_layer_model *l,
                   const struct cs_layer_ends *ends, void *x);
/* the gradients of those rows, from dx (rows, width), the gradient of their sum */
void cs_feeds_give(struct cs_run *run, const struct cs_layer_model *l,
                   const struct cs_layer_ends *ends, const void *dx);
/* somebody waits for these gradients: dx is needed, whoever else reads it */
bool cs_feeds_ask(const struct cs_layer_model *l, const struct cs_layer_ends *ends);

/* How wide the rows are that enter or leave a kind of layer. */
enum cs_row_width {
    CS_ROW_NONE,  /* ids and pixels enter an embedding, nothing leaves the head */
    CS_ROW_MODEL, /* the module's width */
    CS_ROW_INNER, /* its in_width: rows of an encoder enter its projector */
};

/* A kind of layer. A new one is a file that defines its row, and the row in layer_table.c. rows: those
 * that leave it; others enter it where a chain joins rows (cs_layer_rows_in). */
struct cs_layer_ops {
    enum cs_row_width in, out;
    /* y (rows, out) from x (rows, in) and, where others feed the layer, ends->fill; before the head rows without a
     * label may be left as they were. y NULL: full
     * recompute makes again what the backward reads, the output is not needed */
    void (*fwd)(struct cs_run *run, const struct cs_layer_model *l, int64_t rows,
                const struct cs_layer_ends *ends, const void *x, void *y, struct cs_kept *kept);
    /* dx (rows, in) and the gradients of what trains, from dy (rows, out) and what was kept */
    void (*bwd)(struct cs_run *run, const struct cs_layer_model *l, int64_t rows,
                const struct cs_layer_ends *ends, const void *dy, void *dx,
                const struct cs_kept *kept);
};

/* rows of the layer in a slot */
int32_t cs_layer_rows_in(const struct cs_layer_model *l, const struct cs_input *input);
int32_t cs_layer_rows_out(const struct cs_layer_model *l, const struct cs_input *input);
const struct cs_layer_ops *cs_layer_ops_of(enum cs_layer_kind kind); /* layer_table.c */

/* The rows of that table, one file each.
 *
 * embed.c      LLM: y[i] = table[embed_ids[i]] * embed_scale (vocab, width), then rows of encoders
 *              over the placeholders. Encoder: front.c
 * front.c      y = patches (rows, values) w^T + b, class rows, + positions; or two convolutions over
 *              frames, each with its activation, + positions; then perhaps a norm
 * block.c      x2 = x + mixer(norm1 x), y = x2 + ffn(norm2 x2), each (rows, width), or with a norm
 *              behind each half; the halves are those of the layer (halves.h)
 * chain.c      y = the steps of a chain over x (core/arch/chain.h): what is behind the blocks of an
 *              encoder, a projector
 * tap.c        y = x; a chain over x feeds a layer of the language model
 * head_loss.c  the loss: norm(x) of the rows with a label, times (vocab, width), cross entropy;
 *              head_words.c: the same where ranks share the words */
extern const struct cs_layer_ops cs_layer_embed, cs_layer_block, cs_layer_tap, cs_layer_norm,
    cs_layer_projector, cs_layer_head;

/* ---- memory of a call ---- */

/* Memory for an array that the layer makes for its backward: rows times the columns of its row in
 * core/model/keeps.h, in its type. It outlives the forward when the layer keeps it at this level of
 * recompute, and is scratch otherwise. Full recompute is up to the stage: it gives no memory to
 * keep anything in, and other memory when the forward runs again. */
void *cs_run_keep(struct cs_run *run, const struct cs_layer_model *l, enum cs_keep array,
                  int64_t rows);
/* the same of an array whose rows are pairs of a row and an expert */
void *cs_run_keep_pairs(struct cs_run *run, const struct cs_layer_model *l, enum cs_keep array,
                        int64_t pairs);
bool cs_run_keeps(const struct cs_run *run, const struct cs_layer_model *l, enum cs_keep array);
/* memory for n acts that outlives the forward in training */
void *cs_run_keep_acts(struct cs_run *run, int64_t n);
/* scratch for n acts */
void *cs_run_take(struct cs_run *run, int64_t n);
/* scratch for n acts that a weight gradient reads: held where those come later */
void *cs_run_hold(struct cs_run *run, int64_t n);
/* the n-th act of an array */
void *cs_run_at(const struct cs_run *run, void *base, int64_t n);
/* a row of an array of acts with so many columns, whoever may write to it; NULL: NULL */
void *cs_run_row(const struct cs_run *run, const void *rows, int64_t row, int64_t columns);

/* ---- operators over bound parameters; w->w is (out, in) acts, b->w (out) ---- */

/* The context with the workspace that attention, or the head's loss over n rows, asks for. */
struct cs_ctx cs_run_attention_ctx(struct cs_run *run, const struct cs_attention_shape *shape,
                                   const struct cs_mask_plan *mask);
struct cs_ctx cs_run_delta_ctx(struct cs_run *run, const struct cs_delta_shape *shape,
                               const struct cs_mask_plan *mask);
struct cs_ctx cs_run_xent_ctx(struct cs_run *run, int64_t n, int64_t width, int64_t vocab);
/* The surroundings of an operator that makes gradients of w and b (each may be NULL, or frozen):
 * the first of a step overwrites them. */
struct cs_ctx cs_run_grad_ctx(const struct cs_run *run, const struct cs_shard *w,
                              const struct cs_shard *b);
/* y (rows, out) = x (rows, in) w^T + b; w is the first of a fused group, b may be NULL */
void cs_run_linear(struct cs_run *run, int64_t rows, int64_t in, int64_t out, const void *x,
                   const struct cs_shard *w, const struct cs_shard *b, void *y);
/* y (rows, out) = act(x w^T + b) + residual (rows, out), NULL: 0; pre (rows, out): keeps x w^T + b
 * for the backward, NULL: not */
void cs_run_linear_act(struct cs_run *run, int64_t rows, int64_t in, int64_t out, const void *x,
                       const struct cs_shard *w, const struct cs_shard *b, const void *residual,
                       enum cs_act act, void *pre, void *y);
/* dw (out, in) += dy (rows, out)^T x (rows, in), db (out) += column sums of dy, where they are
 * trained; or a note in run->later */
void cs_run_linear_wgrad(struct cs_run *run, int64_t rows, int64_t in, int64_t out, const void *dy,
                         const void *x, const struct cs_shard *w, const struct cs_shard *b);
/* The same of a matrix for each expert: rows by place, w the first of all experts'. */
void cs_run_moe_wgrad(struct cs_run *run, const struct cs_moe_groups *groups, int64_t in,
                      int64_t out, const void *dy, const void *x, const struct cs_shard *w);
/* Make those of a layer of the stage; layers in the order of the backward. With the last it is empty. */
void cs_run_later(struct cs_run *run, struct cs_later *later, int32_t layer);
/* dx (rows, in) = (dy (rows, out) w) act'(pre), the gradient before the activation below */
void cs_run_linear_dgrad_act(struct cs_run *run, int64_t rows, int64_t in, int64_t out,
                             const void *dy, const struct cs_shard *w, enum cs_act act,
                             const void *pre, void *dx);
/* dx (rows, in) = dy (rows, out) w */
void cs_run_linear_dgrad(struct cs_run *run, int64_t rows, int64_t in, int64_t out, const void *dy,
                         const struct cs_shard *w, void *dx);
/* y (rows, width) = norm(x (rows, width)) w + b; stat (rows, 2) for its gradient */
void cs_run_norm(struct cs_run *run, const struct cs_arch *arch, int64_t rows, const void *x,
                 const struct cs_shard *w, const struct cs_shard *b, void *y, float *stat);
/* dx (rows, width) = dx_in + gradient of dy through the norm of x, dx_in NULL: 0; gradients of w and
 * b (width) where they are trained */
void cs_run_norm_grad(struct cs_run *run, const struct cs_arch *arch, int64_t rows, const void *x,
                      const struct cs_shard *w, const struct cs_shard *b, const float *stat,
                      const void *dy, const void *dx_in, void *dx);

#endif
