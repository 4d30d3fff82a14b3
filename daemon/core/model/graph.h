/* The module graph: modules with layers and parameters, edges that carry [tokens, width] rows, the
 * trainable set, and what needs gradients.
 *
 * Rule (Cornstarch, frozen-aware cost): a layer needs weight gradients when it has a trainable
 * parameter, and needs the gradient of its input when something upstream is trainable. A trainable
 * token embedding makes the first LLM block need input gradients. A layer with neither runs in
 * inference mode and keeps nothing. Immutable after cs_graph_build; lives in the caller's arena. */
#ifndef CS_MODEL_GRAPH_H
#define CS_MODEL_GRAPH_H

#include "core/arch/arch.h"
#include "core/model/spec.h"

struct cs_param {
    int32_t id;         /* index in graph->params */
    const char *name;   /* global: "<module>/<tensor name>" */
    const char *tensor; /* name in the component's directory */
    const char *alt;    /* as in cs_tensor_info, or NULL */
    const char *whole;  /* as there, with whole_at */
    int64_t whole_at;
    enum cs_param_role role;
    int32_t part;          /* of several tensors of that role in the layer: 0 to n - 1 */
    int32_t module, layer; /* indices in the graph */
    int32_t n_dims;
    int64_t dim[CS_TENSOR_DIMS];
    int64_t count;                           /* elements */
    bool is_trainable, is_decayed, is_fixed; /* as in cs_tensor_info */
    int init;                                /* cs_tensor_info.init */
};

struct cs_layer {
    int32_t id;     /* index in graph->layers */
    int32_t module; /* index in graph->modules */
    enum cs_layer_kind kind;
    int32_t index;     /* of the block, of the tap */
    int32_t attention; /* its kind, in the module's arch.attention; -1: the layer does not attend */
    enum cs_mixer mixer; /* of a block: its halves */
    enum cs_ffn ffn;
    const char *path; /* "llm.layers.12", "vision.encoder.embed", "vision.projector", "llm.head" */
    int32_t first_param, n_params;
    int32_t n_adapters;            /* of its matrices */
    int64_t n_elements, n_trained; /* parameter elements */
    bool needs_weight_grad, needs_input_grad;
};

struct cs_module {
    const char *name; /* "vision.encoder", "vision.projector", "llm" */
    enum cs_module_kind kind;
    struct cs_arch arch;
    const struct cs_spec_module *spec;
    int32_t first_layer, n_layers;
    int32_t branch;          /* index in graph->branches */
    int32_t first_attention; /* its kinds of attention among all: + index in arch.attention */
};

/* What the planner cuts: an encoder with its projector, or the LLM. Branches lie in dataflow order: a
 * branch comes after those that feed it. Which one is the LLM says graph->llm. */
struct cs_branch {
    const char *name;              /* "vision", "audio", "llm" */
    int32_t first_layer, n_layers; /* contiguous in graph->layers, dataflow order */
    int32_t encoder;               /* index of the encoder among encoders, -1 for the llm */
    int32_t out_width;             /* width of the rows that leave it */
    /* Encoder: of its largest item, rows that leave it, patches that its blocks work on, bytes of
     * data; a picture of one size has height * width * channels of these. */
    int32_t item_rows, item_patches, item_bytes;
    int32_t file_items; /* encoder: that a file becomes at most */
    bool has_one_size;  /* encoder: every item is as the largest, one a file */
    bool has_sources;   /* encoder: core/model/budget.h */
    /* in the view of a rank (core/model/tensor_parallel.h): ranks that split rows between products */
    int32_t row_ranks;
};

enum { CS_MAX_FEEDS = 16 };

/* Rows that leave a layer of one branch and enter a layer of another. Which rows of the receiver they
 * are says the data (core/data/slot.h). The end of an encoder's branch feeds llm.embed, where its rows
 * stand in for those of placeholders; each of its taps feeds a layer behind (deepstack: tap i the
 * layer after block i), where its rows are added to those of the same placeholders. */
struct cs_feed {
    int32_t id;                   /* index in graph->feeds */
    int32_t from, to;             /* branches; from < to */
    int32_t from_layer, to_layer; /* graph->layers: who makes the rows, who takes them in */
    int32_t item_rows;            /* rows of the largest item of the branch `from` */
    int32_t width;                /* elements per row */
    bool is_tap;   /* it leaves the branch in its middle, and is added to what enters to_layer */
    bool has_grad; /* something at or before from_layer trains: a gradient flows back */
};

/* LoRA beside a matrix: y += scale (x a^T) b^T, a (rank, in), b (out, rank). Both factors train, with
 * whatever rules say of their layer. */
struct cs_graph_adapter {
    int32_t param, a, b; /* graph->params: the matrix and the factors, of one layer */
    int32_t rank;
    float scale;
    const struct cs_spec_adapter *spec;
};

struct cs_graph {
    struct cs_module *modules;
    struct cs_layer *layers;
    struct cs_param *params; /* dataflow order: by module, by layer */
    struct cs_branch *branches;
    struct cs_feed *feeds; /* by branch that they leave */
    int32_t n_modules, n_layers, n_params, n_branches, n_encoders, n_feeds;
    int32_t n_attentions;              /* kinds of attention, of all modules */
    struct cs_graph_adapter *adapters; /* by matrix */
    int32_t n_adapters;
    int32_t llm;        /* the branch whose head has the loss: all rows flow to it */
    bool is_tied;       /* llm head shares the embedding */
    int32_t tied_param; /* the embedding in params when is_tied, else -1 */
    int64_t n_elements, n_trained;
    bool keeps_bf16; /* optimizer.state: gradients and moments in bf16, no masters */
};

/* Modules in the order of the document's encoders, each followed by its projector, the LLM last.
 *
 * Layers: <enc>.encoder.embed, .layers.N, .norm; <enc>.projector; llm.embed, llm.layers.N,
 * llm.head. feature_layer keeps as many blocks as feed the projector: -1 all (and no final norm),
 * -2 all but the last, k >= 0 the first k (hidden_states[k]); null keeps all blocks and the final
 * norm. Dropped layers have no parameters in the graph; they stay as they are in the component's
 * directory.
 *
 * Rules match layer paths, or, with a '/' in them, names of parameters ("llm/model.layers.3.*"):
 * whether something trains is decided for every tensor; those of a group (cs_param_role_group)
 * train together. With a tied head the rule that decides llm.embed also decides the head's
 * weight; llm.head then decides only the norm in it.
 * The mask that a job names takes the place of the causal rule in every kind of attention that has
 * it. With windows of the model's own it is joined where that means something: in layers with one
 * pictures see themselves as far as the window; in the others all of themselves (image_bidir, Gemma 3)
 * or what is before (image_window, Gemma 4).
 * Errors (CS_INVALID, CS_UNSUPPORTED from configs): a rule that matches nothing (with the nearest
 * path), a config of the wrong kind, a feature layer the encoder has not. Everything frozen is
 * refused unless allow_frozen (plans, evaluation). */
enum cs_status cs_graph_build(const struct cs_spec *spec, bool allow_frozen, struct cs_arena *arena,
                              struct cs_graph **out, struct cs_err *err) CS_NODISCARD;

/* The bare rule on plain arrays: frozen[i] of a chain of n layers -> needs. */
void cs_graph_needs(const bool *is_frozen, int n, bool *needs_input_grad, bool *needs_weight_grad);

/* The block before the head, where it attends and its ffn is dense: nobody but the head reads what leaves it, and of rows
 * with a label only, so that its ffn looks at these alone (where that takes no more memory: cs_layer_picks). */
bool cs_layer_feeds_head(const struct cs_graph *graph, const struct cs_layer *layer);
/* Its ffn looks at `picked` of the rows; ffn: its inner width, of ranks that share it the least that one has. Rows that are
 * picked lie beside the others, as do their gradients before and behind the ffn: in place of its columns of all rows. */
bool cs_layer_picks(const struct cs_arch *arch, int64_t ffn, int64_t rows, int64_t picked);

/* clang-format off */
/* Forward FLOPs of one layer over `tokens` rows whose attention spans `pairs` query-key pairs; a
 * multiply-add is two, and only matrix products count (T tokens, H width, Q = heads * head_dim,
 * K = kv heads * head_dim, F ffn width, V vocabulary, C * P * P = channels * patch^2, L label rows):
 *   patches     2 T H C P P        token embedding  0 (a gather)      norm  0
 *   block       its halves: attention   2 T H (2 Q + 2 K) + 4 Q pairs, one K where values are the keys; a gate
 *                                       of the output 2 T H Q more
 *                           delta rule  2 T H (2 (k + v) + 2 v + 2 n) + T n (2 C (3 d + 2 e) + 6 d e + C C / 3):
 *                                       k, v: all heads of keys, of values; n heads; d, e: size of a key, of a
 *                                       value; C = 64 rows a chunk
 *                           mlp         2 T m H F                     m = 3 gated, else 2; L for T before the head
 *                           experts     2 T H (E + t 3 F)             E experts, t of a row, F of one
 *   projector   2 T times the sum of its matrices' elements; T: rows that leave it
 *   head        2 L H V            logits exist for rows with a label only */
/* clang-format on */
int64_t cs_layer_fwd_flops(const struct cs_graph *graph, const struct cs_layer *layer,
                           int64_t tokens, int64_t pairs, int64_t label_rows);

/* Of them those of the products at the edges of a half of a block: what its rows enter and what they leave, between which
 * ranks that share matrices have their part of the columns (core/model/tensor_parallel.h). Experts have none there, nor
 * have other layers. */
struct cs_half_products {
    int64_t first, second;
};

enum { CS_BLOCK_MIXER, CS_BLOCK_FFN, CS_BLOCK_HALVES };

struct cs_half_products cs_layer_products(const struct cs_graph *graph,
                                          const struct cs_layer *layer, int half, int64_t tokens);

/* The module of the LLM, that of an encoder; NULL: the graph has no such encoder. */
const struct cs_module *cs_graph_llm(const struct cs_graph *graph);
/* Rows of a sample that the language model was made for; 0: not known, items take fewer positions than rows. */
int32_t cs_graph_positions(const struct cs_graph *graph);
const struct cs_module *cs_graph_encoder(const struct cs_graph *graph, int32_t encoder);

/* The values (count) of a parameter that no file brings, for a job of that seed; made on several
 * threads. */
void cs_param_fill_fresh(const struct cs_module *module, uint64_t seed,
                         const struct cs_param *param, int threads, float *out);

/* The layer's own module; its architecture has the blocks that are kept. */
const struct cs_arch *cs_layer_arch(const struct cs_graph *graph, const struct cs_layer *layer);
/* its kind among all kinds of attention of the graph (0 to n_attentions - 1), -1: none */
int32_t cs_layer_attention_id(const struct cs_graph *graph, const struct cs_layer *layer);
/* Rows that leave the layer are those inside its encoder, before any are joined. */
bool cs_layer_is_inner(const struct cs_graph *graph, const struct cs_layer *layer);
/* A number that layers of one module and kind share when they are of the same work: the kind of
 * attention, or what stands in its place. */
int32_t cs_layer_variant(const struct cs_layer *layer);
/* NULL: the layer does not attend */
const struct cs_attention *cs_layer_attention(const struct cs_graph *graph,
                                              const struct cs_layer *layer);

#endif
