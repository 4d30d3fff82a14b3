/* The table of what every kind of layer keeps, and sums over it. */
#include "core/model/keeps.h"

#include "core/base/status.h"

/* clang-format off */
static const struct cs_keep_row embed[] = {
    {CS_KEEP_SOURCE, CS_COLUMNS_SOURCE,     CS_KEEP_SLOT, false, CS_RECOMPUTES},
    {CS_KEEP_UP,     CS_COLUMNS_STEM,       CS_KEEP_ACTS, false, CS_RECOMPUTES},
    {CS_KEEP_N,      CS_COLUMNS_FRONT,      CS_KEEP_ACTS, false, CS_RECOMPUTES},
    {CS_KEEP_STAT1,  CS_COLUMNS_FRONT_STAT, CS_KEEP_F32,  false, CS_RECOMPUTES},
};
/* A block: around its halves, and what each kind of half keeps. */
static const struct cs_keep_row block_mixer[] = {
    {CS_KEEP_X,     CS_COLUMNS_WIDTH, CS_KEEP_ACTS, false, CS_RECOMPUTES         },
    {CS_KEEP_STAT1, CS_COLUMNS_STAT,  CS_KEEP_F32,  false, CS_RECOMPUTE_FULL     },
    {CS_KEEP_H1,    CS_COLUMNS_WIDTH, CS_KEEP_ACTS, true,  CS_RECOMPUTE_SELECTIVE},
};
static const struct cs_keep_row block_ffn[] = {
    {CS_KEEP_X2,    CS_COLUMNS_WIDTH, CS_KEEP_ACTS, false, CS_RECOMPUTE_FULL     },
    {CS_KEEP_STAT2, CS_COLUMNS_STAT,  CS_KEEP_F32,  false, CS_RECOMPUTE_FULL     },
    {CS_KEEP_H2,    CS_COLUMNS_WIDTH, CS_KEEP_ACTS, true,  CS_RECOMPUTE_SELECTIVE},
};
static const struct cs_keep_row attention_kept[] = {
    {CS_KEEP_QKV,   CS_COLUMNS_QKV,   CS_KEEP_ACTS, false, CS_RECOMPUTE_FULL     },
    {CS_KEEP_O,     CS_COLUMNS_Q,     CS_KEEP_ACTS, false, CS_RECOMPUTE_FULL     },
    {CS_KEEP_LSE,   CS_COLUMNS_HEADS, CS_KEEP_F32,  false, CS_RECOMPUTE_FULL     },
    {CS_KEEP_GATE,  CS_COLUMNS_GATE,  CS_KEEP_ACTS, false, CS_RECOMPUTE_FULL     },
    {CS_KEEP_MIXED, CS_COLUMNS_GATE,  CS_KEEP_ACTS, true,  CS_RECOMPUTE_SELECTIVE},
};
static const struct cs_keep_row delta_kept[] = {
    {CS_KEEP_QKV,   CS_COLUMNS_RECUR,  CS_KEEP_ACTS, false, CS_RECOMPUTE_FULL     },
    {CS_KEEP_O,     CS_COLUMNS_VALUES, CS_KEEP_ACTS, false, CS_RECOMPUTE_FULL     },
    {CS_KEEP_MIXED, CS_COLUMNS_VALUES, CS_KEEP_ACTS, true,  CS_RECOMPUTE_SELECTIVE},
};
static const struct cs_keep_row experts_kept[] = {
    {CS_KEEP_LOGITS, CS_COLUMNS_EXPERTS,   CS_KEEP_ACTS, false, CS_RECOMPUTE_FULL     },
    {CS_KEEP_UP,     CS_COLUMNS_PAIRS_UP,  CS_KEEP_ACTS, false, CS_RECOMPUTE_FULL     },
    {CS_KEEP_A,      CS_COLUMNS_PAIRS_FFN, CS_KEEP_ACTS, true,  CS_RECOMPUTE_SELECTIVE},
};
static const struct cs_keep_row dense_kept[] = {
    {CS_KEEP_UP,    CS_COLUMNS_UP,    CS_KEEP_ACTS, false, CS_RECOMPUTE_FULL     },
    {CS_KEEP_A,     CS_COLUMNS_FFN,   CS_KEEP_ACTS, true,  CS_RECOMPUTE_SELECTIVE},
};
/* of a half with a norm behind it */
static const struct cs_keep_row post1[] = {
    {CS_KEEP_M1,      CS_COLUMNS_WIDTH, CS_KEEP_ACTS, false, CS_RECOMPUTE_FULL},
    {CS_KEEP_STAT_M1, CS_COLUMNS_STAT,  CS_KEEP_F32,  false, CS_RECOMPUTE_FULL},
};
static const struct cs_keep_row scale1[] = {
    {CS_KEEP_M1, CS_COLUMNS_WIDTH, CS_KEEP_ACTS, false, CS_RECOMPUTE_FULL},
};
static const struct cs_keep_row scale2[] = {
    {CS_KEEP_M2, CS_COLUMNS_WIDTH, CS_KEEP_ACTS, false, CS_RECOMPUTE_FULL},
};
static const struct cs_keep_row post2[] = {
    {CS_KEEP_M2,      CS_COLUMNS_WIDTH, CS_KEEP_ACTS, false, CS_RECOMPUTE_FULL},
    {CS_KEEP_STAT_M2, CS_COLUMNS_STAT,  CS_KEEP_F32,  false, CS_RECOMPUTE_FULL},
};
/* gradients that are held for the weight half of a split backward */
static const struct cs_keep_row block_held[] = {
    {CS_KEEP_DY,   CS_COLUMNS_WIDTH, CS_KEEP_ACTS, true, CS_RECOMPUTES},
    {CS_KEEP_DX2,  CS_COLUMNS_WIDTH, CS_KEEP_ACTS, true, CS_RECOMPUTES},
};
static const struct cs_keep_row block_post_held[] = {
    {CS_KEEP_DY,  CS_COLUMNS_WIDTH, CS_KEEP_ACTS, true, CS_RECOMPUTES},
    {CS_KEEP_DM2, CS_COLUMNS_WIDTH, CS_KEEP_ACTS, true, CS_RECOMPUTES},
    {CS_KEEP_DM1, CS_COLUMNS_WIDTH, CS_KEEP_ACTS, true, CS_RECOMPUTES},
};
static const struct cs_keep_row attention_held[] = {
    {CS_KEEP_DQKV,  CS_COLUMNS_QKV,  CS_KEEP_ACTS, true, CS_RECOMPUTES},
    {CS_KEEP_DGATE, CS_COLUMNS_GATE, CS_KEEP_ACTS, true, CS_RECOMPUTES},
};
static const struct cs_keep_row delta_held[] = {
    {CS_KEEP_DQKV, CS_COLUMNS_RECUR, CS_KEEP_ACTS, true, CS_RECOMPUTES},
};
static const struct cs_keep_row experts_held[] = {
    {CS_KEEP_DLOGITS,  CS_COLUMNS_EXPERTS,     CS_KEEP_ACTS, true, CS_RECOMPUTES},
    {CS_KEEP_FIRST,    CS_COLUMNS_FIRST,       CS_KEEP_ONCE, true, CS_RECOMPUTES},
    {CS_KEEP_PAIRS_DY, CS_COLUMNS_PAIRS_WIDTH, CS_KEEP_ACTS, true, CS_RECOMPUTES},
    {CS_KEEP_PAIRS_H,  CS_COLUMNS_PAIRS_WIDTH, CS_KEEP_ACTS, true, CS_RECOMPUTES},
};
/* a gated MLP writes the gradient of its inner products over what was kept */
static const struct cs_keep_row dense_held[] = {
    {CS_KEEP_DUP,  CS_COLUMNS_FFN,   CS_KEEP_ACTS, true, CS_RECOMPUTES},
};
/* what is behind an encoder's blocks, a projector, a tap */
static const struct cs_keep_row chain[] = {
    {CS_KEEP_X,     CS_COLUMNS_CHAIN_IN,     CS_KEEP_ACTS, false, CS_RECOMPUTES},
    {CS_KEEP_STAT1, CS_COLUMNS_CHAIN_STAT,   CS_KEEP_F32,  false, CS_RECOMPUTES},
    {CS_KEEP_N,     CS_COLUMNS_CHAIN_NORM,   CS_KEEP_ACTS, false, CS_RECOMPUTES},
    {CS_KEEP_UP,    CS_COLUMNS_CHAIN_ACT,    CS_KEEP_ACTS, false, CS_RECOMPUTES},
    {CS_KEEP_A,     CS_COLUMNS_CHAIN_LINEAR, CS_KEEP_ACTS, true,  CS_RECOMPUTES},
};
/* X: of the rows with a label, picked from the layer's input */
static const struct cs_keep_row head[] = {
    {CS_KEEP_X,     CS_COLUMNS_WIDTH, CS_KEEP_ACTS, false, CS_RECOMPUTES},
    {CS_KEEP_STAT1, CS_COLUMNS_STAT,  CS_KEEP_F32,  false, CS_RECOMPUTES},
    {CS_KEEP_H2,    CS_COLUMNS_WIDTH, CS_KEEP_ACTS, false, CS_RECOMPUTES},
};

/* clang-format on */

struct rows {
    const struct cs_keep_row *row;
    int n;
};

#define ROWS(table)                                                                                \
    {                                                                                              \
        table, (int)CS_ARRAY_LEN(table)                                                            \
    }

/* of a half: what it keeps, and what of it is held */
struct half {
    struct rows kept, held;
};

static const struct half mixers[CS_MIXERS] = {
    [CS_MIXER_ATTENTION] = {ROWS(attention_kept), ROWS(attention_held)},
    [CS_MIXER_DELTA] = {ROWS(delta_kept),     ROWS(delta_held)    },
};
static const struct half ffns[CS_FFNS] = {
    [CS_FFN_DENSE] = {ROWS(dense_kept),   ROWS(dense_held)  },
    [CS_FFN_EXPERTS] = {ROWS(experts_kept), ROWS(experts_held)},
};

static void add(struct cs_keep_rows *out, struct rows rows)
{
    CS_ASSERT(out->n + rows.n <= CS_KEEP_COUNT);
    for (int i = 0; i < rows.n; i++)
        out->row[out->n++] = &rows.row[i];
}

/* what is kept of the way from a half to the sum */
static struct rows behind(const struct cs_arch *arch, int half)
{
    static const struct rows norms[] = {ROWS(post1), ROWS(post2)},
                             scales[] = {ROWS(scale1), ROWS(scale2)}, none = {NULL, 0};
    return arch->has_post_norms ? norms[half] : arch->has_layer_scale ? scales[half] : none;
}

struct cs_keep_rows cs_keep_rows(const struct cs_arch *arch, const struct cs_layer *layer)
{
    static const struct rows kinds[CS_LAYER_KINDS] = {
        [CS_LAYER_EMBED] = ROWS(embed),     [CS_LAYER_BLOCK] = ROWS(block_mixer),
        [CS_LAYER_TAP] = ROWS(chain),       [CS_LAYER_NORM] = ROWS(chain),
        [CS_LAYER_PROJECTOR] = ROWS(chain), [CS_LAYER_HEAD] = ROWS(head),
    };
    static const struct rows of_ffn = ROWS(block_ffn);
    struct cs_keep_rows out = {.n = 0};
    add(&out, kinds[layer->kind]);
    if (layer->kind == CS_LAYER_BLOCK) {
        add(&out, mixers[layer->mixer].kept);
        add(&out, behind(arch, 0));
        add(&out, of_ffn);
        add(&out, ffns[layer->ffn].kept);
        add(&out, behind(arch, 1));
    }
    return out;
}

/* The gradient of a gated MLP's inner products is held in the place of what was kept. */
static bool is_held(const struct cs_arch *arch, const struct cs_keep_row *row)
{
    return row->array != CS_KEEP_DUP || !arch->is_gated_mlp;
}

struct cs_keep_rows cs_keep_held_rows(const struct cs_arch *arch, const struct cs_layer *layer)
{
    static const struct rows plain = ROWS(block_held), post = ROWS(block_post_held);
    struct cs_keep_rows all = {.n = 0}, out = {.n = 0};
    if (layer->kind != CS_LAYER_BLOCK)
        return out;
    add(&all, arch->has_post_norms || arch->has_layer_scale ? post : plain);
    add(&all, mixers[layer->mixer].held);
    add(&all, ffns[layer->ffn].held);
    for (int i = 0; i < all.n; i++)
        if (is_held(arch, all.row[i]))
            out.row[out.n++] = all.row[i];
    return out;
}

const struct cs_keep_row *cs_keep_find(const struct cs_arch *arch, const struct cs_layer *layer,
                                       enum cs_keep array)
{
    const struct cs_keep_rows rows = cs_keep_rows(arch, layer);
    for (int i = 0; i < rows.n; i++)
        if (rows.row[i]->array == array)
            return rows.row[i];
    return NULL;
}

bool cs_keep_is_kept(const struct cs_keep_row *row, const struct cs_layer *layer,
                     enum cs_recompute level)
{
    return (layer->needs_weight_grad || !row->is_for_weights) && level < row->redone;
}

bool cs_keep_can_redo(const struct cs_arch *arch, const struct cs_layer *layer)
{
    const struct cs_keep_rows rows = cs_keep_rows(arch, layer);
    for (int i = 0; i < rows.n; i++)
        if (rows.row[i]->redone < CS_RECOMPUTES)
            return true;
    return false;
}

int64_t cs_keep_columns(const struct cs_arch *a, const struct cs_layer *layer,
                        enum cs_columns columns)
{
    const struct cs_attention *attention =
        &a->attention[layer->attention > 0 ? layer->attention : 0];
    const struct cs_chain_sums sums =
        cs_chain_sums(layer->kind == CS_LAYER_TAP ? &a->tap : &a->chain);
    const bool has_front_norm = a->front.has_norm;
    switch (columns) {
    case CS_COLUMNS_WIDTH:
        return a->width;
    case CS_COLUMNS_Q:
        return cs_attention_q_width(attention);
    case CS_COLUMNS_QKV:
        return cs_attention_made_width(attention);
    case CS_COLUMNS_HEADS:
        return attention->n_heads;
    case CS_COLUMNS_GATE:
        return a->has_output_gate ? cs_attention_q_width(attention) : 0;
    case CS_COLUMNS_RECUR:
        return cs_recurrent_product_width(&a->recurrent);
    case CS_COLUMNS_VALUES:
        return cs_recurrent_value_width(&a->recurrent);
    case CS_COLUMNS_EXPERTS:
        return a->experts.n;
    case CS_COLUMNS_FIRST:
        return a->experts.n + 1;
    case CS_COLUMNS_PAIRS_WIDTH:
        return (int64_t)cs_experts_pairs(&a->experts) * a->width;
    case CS_COLUMNS_PAIRS_FFN:
        return (int64_t)cs_experts_pairs(&a->experts) * a->experts.width;
    case CS_COLUMNS_PAIRS_UP:
        return 2 * (int64_t)cs_experts_pairs(&a->experts) * a->experts.width;
    case CS_COLUMNS_FFN:
        return a->ffn_width;
    case CS_COLUMNS_UP:
        return (a->is_gated_mlp ? 2 : 1) * (int64_t)a->ffn_width;
    case CS_COLUMNS_STAT:
        return 2;
    case CS_COLUMNS_SOURCE:
        return a->kind == CS_MODULE_LLM ? 1 : cs_front_values(a);
    case CS_COLUMNS_FRONT:
        return has_front_norm ? a->width : 0;
    case CS_COLUMNS_FRONT_STAT:
        return has_front_norm ? 2 : 0;
    case CS_COLUMNS_STEM: /* the first convolution has two rows for each of the second's */
        return a->front.stem == CS_STEM_FRAMES ? 3 * (int64_t)a->width : 0;
    case CS_COLUMNS_CHAIN_IN:
        return sums.in;
    case CS_COLUMNS_CHAIN_STAT:
        return sums.stats;
    case CS_COLUMNS_CHAIN_NORM:
        return sums.norms;
    case CS_COLUMNS_CHAIN_ACT:
        return sums.acts;
    case CS_COLUMNS_CHAIN_LINEAR:
        return sums.linears;
    case CS_COLUMNS_COUNT:
        break;
    }
    return 0;
}

static bool has_backward(const struct cs_layer *layer)
{
    return layer->needs_input_grad || layer->needs_weight_grad;
}

/* Tensor parallelism cuts what is between two of its products; before the first and behind the second
 * its ranks may split the rows of a block. */
static enum cs_keep_share share_of(const struct cs_layer *layer, const struct cs_keep_row *row)
{
    const bool is_around = layer->kind == CS_LAYER_BLOCK &&
                           (row->columns == CS_COLUMNS_WIDTH || row->columns == CS_COLUMNS_STAT);
    static const bool is_cut[CS_COLUMNS_COUNT] = {
        [CS_COLUMNS_Q] = true,
        [CS_COLUMNS_QKV] = true,
        [CS_COLUMNS_HEADS] = true,
        [CS_COLUMNS_FFN] = true,
        [CS_COLUMNS_UP] = true,
        [CS_COLUMNS_CHAIN_ACT] = true,
        [CS_COLUMNS_CHAIN_LINEAR] = true,
        [CS_COLUMNS_GATE] = true,
        [CS_COLUMNS_RECUR] = true,
        [CS_COLUMNS_VALUES] = true,
        [CS_COLUMNS_PAIRS_FFN] = true,
        [CS_COLUMNS_PAIRS_UP] = true,
    };
    return is_cut[row->columns] ? CS_KEEP_CUT : is_around ? CS_KEEP_ROWS : CS_KEEP_EVERYWHERE;
}

static int64_t counted(const struct cs_arch *arch, const struct cs_layer *layer,
                       const struct cs_keep_row *row)
{
    if (row->memory == CS_KEEP_ONCE)
        return 0;
    const int64_t n = cs_keep_columns(arch, layer, row->columns);
    return row->memory == CS_KEEP_F32 && row->array != CS_KEEP_LSE && arch->norm == CS_ARCH_RMS_NORM
               ? n / 2
               : n;
}

int64_t cs_keep_elements(const struct cs_graph *graph, const struct cs_layer *layer,
                         enum cs_recompute level, enum cs_keep_share share)
{
    const struct cs_arch *arch = cs_layer_arch(graph, layer);
    const struct cs_keep_rows rows = cs_keep_rows(arch, layer);
    int64_t n = 0;
    for (int i = 0; i < rows.n && has_backward(layer); i++)
        if (cs_keep_is_kept(rows.row[i], layer, level) &&
            (share_of(layer, rows.row[i]) & share) != 0)
            n += counted(arch, layer, rows.row[i]);
    return n;
}

/* Where rows are split, inputs of first products are held as they were put together, the same whether they
 * were kept before that or made again. */
int64_t cs_keep_held_elements(const struct cs_graph *graph, const struct cs_layer *layer,
                              enum cs_recompute level)
{
    const struct cs_arch *arch = cs_layer_arch(graph, layer);
    const struct cs_keep_rows rows = cs_keep_held_rows(arch, layer);
    const bool is_split = graph->branches[graph->modules[layer->module].branch].row_ranks > 1;
    const enum cs_keep_share again =
        is_split ? (enum cs_keep_share)(CS_KEEP_EVERYWHERE | CS_KEEP_CUT) : CS_KEEP_ALL;
    int64_t n = 0;
    for (int i = 0; i < rows.n && layer->needs_weight_grad; i++)
        n += counted(arch, layer, rows.row[i]);
    if (n == 0)
        return 0;
    return n + (is_split ? 2 * (int64_t)arch->width : 0) +
           cs_keep_elements(graph, layer, CS_RECOMPUTE_NONE, again) -
           cs_keep_elements(graph, layer, level, again);
}

int64_t cs_keep_made_elements(const struct cs_graph *graph, const struct cs_layer *layer)
{
    const struct cs_arch *arch = cs_layer_arch(graph, layer);
    const struct cs_keep_rows rows = cs_keep_rows(arch, layer);
    int64_t n = 0;
    for (int i = 0; i < rows.n; i++)
        if (rows.row[i]->memory == CS_KEEP_ACTS && rows.row[i]->array != CS_KEEP_X)
            n += counted(arch, layer, rows.row[i]);
    return n;
}

int64_t cs_keep_row_share(const struct cs_graph *graph, const struct cs_layer *layer,
                          int64_t tokens)
{
    const int32_t ranks = graph->branches[graph->modules[layer->module].branch].row_ranks;
    return layer->kind == CS_LAYER_BLOCK && ranks > 1 ? (tokens + ranks - 1) / ranks : tokens;
}

int64_t cs_keep_numbers(const struct cs_graph *graph, const struct cs_layer *layer,
                        enum cs_recompute level, int64_t tokens)
{
    return tokens * cs_keep_elements(graph, layer, level,
                                     (enum cs_keep_share)(CS_KEEP_EVERYWHERE | CS_KEEP_CUT)) +
           cs_keep_row_share(graph, layer, tokens) *
               cs_keep_elements(graph, layer, level, CS_KEEP_ROWS);
}

int64_t cs_layer_saved_bytes(const struct cs_graph *graph, const struct cs_layer *layer,
                             int64_t tokens)
{
    return 4 * cs_keep_numbers(graph, layer, CS_RECOMPUTE_NONE, tokens);
}
