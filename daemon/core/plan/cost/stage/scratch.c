/* What a rank takes beside what its stages keep: scratch of the largest action, what a split backward
 * holds, rows on their way. */
#include "core/plan/cost/stage/scratch.h"

#include "core/plan/context.h"
#include "core/plan/cost/basis/bytes.h"
#include "core/plan/cost/stage/zero.h"

enum { CPU_LOGIT_ROWS = 256, CPU_LOGITS_MIB = 64, GPU_LOGITS_MIB = 512 };

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* a chunk of logits, and the rows that are picked and normed for them */
static int64_t head_bytes(const struct cs_arch *arch, int64_t rows, int element)
{
    const bool is_cpu = element == 4;
    const int64_t most = (int64_t)(is_cpu ? CPU_LOGITS_MIB : GPU_LOGITS_MIB) << 20;
    const int64_t chunk = is_cpu ? smaller(rows, CPU_LOGIT_ROWS) : rows;
    return smaller(chunk * arch->vocab * element, most) + 2 * rows * arch->width * element;
}

/* What a half of a block takes, as acts a row: forward beside what it makes (core/model/keeps.h),
 * and backward beside the gradients of the block's sums. */
struct half {
    int64_t fwd, bwd;
};

typedef struct half half_scratch(const struct cs_arch *a, const struct cs_layer *layer,
                                 enum cs_recompute recompute, int element);

/* The gradient of q is summed in fp32 on a GPU. Norms of heads: what is behind them, and its
 * gradients. */
static struct half attention_scratch(const struct cs_arch *a, const struct cs_layer *layer,
                                     enum cs_recompute recompute, int element)
{
    const int64_t q = cs_keep_columns(a, layer, CS_COLUMNS_Q),
                  made = cs_keep_columns(a, layer, CS_COLUMNS_QKV),
                  gate = cs_keep_columns(a, layer, CS_COLUMNS_GATE),
                  kv = cs_attention_kv_width(&a->attention[layer->attention]),
                  normed = a->qk_norm != CS_QK_NORM_NONE ? q + 2 * kv : 0,
                  both = gate > 0 ? made + gate : 0;
    (void)recompute;
    return (struct half){normed + both,
                         q + made + 2 * normed + both + 2 * gate + (element == 4 ? 0 : 2 * q)};
}

static struct half dense_scratch(const struct cs_arch *a, const struct cs_layer *layer,
                                 enum cs_recompute recompute, int element)
{
    const bool makes_act = a->is_gated_mlp || recompute != CS_RECOMPUTE_NONE;
    (void)element;
    return (struct half){0, cs_keep_columns(a, layer, CS_COLUMNS_UP) +
                                (makes_act ? cs_keep_columns(a, layer, CS_COLUMNS_FFN) : 0)};
}

/* Where rows are split, gradients of activations are made while rows come that the gradients of weights
 * wait for: activations that were made again for these lie beside. */
static int64_t act_beside(const struct cs_arch *a, const struct cs_layer *layer,
                          enum cs_recompute recompute)
{
    const bool makes_again = recompute == CS_RECOMPUTE_SELECTIVE && layer->needs_weight_grad;
    return makes_again && a->is_gated_mlp && layer->ffn == CS_FFN_DENSE
               ? cs_keep_columns(a, layer, CS_COLUMNS_FFN)
               : 0;
}

/* What the convolution gives, gates, the norm's input and output, and in the rule a state a chunk and
 * six arrays of its keys and values in fp32. */
static struct half delta_scratch(const struct cs_arch *a, const struct cs_layer *layer,
                                 enum cs_recompute recompute, int element)
{
    const struct cs_recurrent *r = &a->recurrent;
    const int64_t values = cs_keep_columns(a, layer, CS_COLUMNS_VALUES);
    const int64_t conv = cs_recurrent_conv_width(r), wide = 4 / element;
    const int64_t state = (int64_t)r->n_heads * r->key_dim * r->value_dim / CS_RECURRENT_CHUNK,
                  chunk = (int64_t)r->n_heads * (3 * r->key_dim + 3 * r->value_dim + 64);
    const int64_t rule = wide * (state + chunk + 4 * (int64_t)r->n_heads);
    (void)recompute;
    return (struct half){conv + 2 * values + rule,
                         cs_recurrent_product_width(r) + 2 * conv + 4 * values + 2 * rule};
}

/* Rows in the places of their pairs, before and after an expert. Where ranks share experts (worker/layer/
 * spread.h) hosts have what goes beside what has come, by rank and by expert; GPUs have rows of all ranks with
 * their logits, this rank's part of their sums, and the parts of the own rows. */
static int64_t ways_of_experts(const struct cs_arch *a, int64_t rows, int element)
{
    const int32_t ranks = cs_experts_ranks(&a->experts);
    const int64_t sent = (int64_t)a->experts.top_k * a->width,
                  order = 3 * (int64_t)cs_experts_pairs(&a->experts) * 4 / element;
    if (ranks == 1)
        return 0;
    if (element == 4)
        return rows + sent + order;
    return ranks * (3 * (int64_t)a->width + a->experts.n) + 2 * order;
}

static struct half experts_scratch(const struct cs_arch *a, const struct cs_layer *layer,
                                   enum cs_recompute recompute, int element)
{
    const int64_t rows = cs_keep_columns(a, layer, CS_COLUMNS_PAIRS_WIDTH),
                  inner = cs_keep_columns(a, layer, CS_COLUMNS_PAIRS_FFN);
    const int64_t routes = 5 * (int64_t)a->experts.top_k * 4 / element;
    const int64_t ways = ways_of_experts(a, rows, element);
    (void)recompute;
    return (struct half){rows + routes + ways, a->experts.n + 2 * inner + routes + a->width + ways +
                                                   larger(3 * inner + rows, rows)};
}

static half_scratch *const mixers[CS_MIXERS] = {
    [CS_MIXER_ATTENTION] = attention_scratch, [CS_MIXER_DELTA] = delta_scratch};
static half_scratch *const ffns[CS_FFNS] = {
    [CS_FFN_DENSE] = dense_scratch, [CS_FFN_EXPERTS] = experts_scratch};

/* Backward: gradients of output, input, normed input and sum after the mixer, then those of one of
 * the halves. Forward alone: rows that enter and leave, and all that is made between. Where rows are
 * split, also what is put together for a half, and its part of a sum. */
static int64_t block_bytes(const struct cs_graph *graph, const struct cs_layer *layer, int64_t rows,
                           enum cs_recompute recompute, int element)
{
    const struct cs_arch *a = cs_layer_arch(graph, layer);
    const struct half mixer = mixers[layer->mixer](a, layer, recompute, element);
    struct half ffn = ffns[layer->ffn](a, layer, recompute, element);
    const int64_t own = cs_keep_row_share(graph, layer, rows);
    if (own < rows)
        ffn.bwd += act_beside(a, layer, recompute);
    const int64_t whole = own < rows ? 3 * rows * a->width : 0;
    if (!layer->needs_input_grad && !layer->needs_weight_grad)
        return element * (whole + rows * (2 * a->width + mixer.fwd + ffn.fwd +
                                          cs_keep_made_elements(graph, layer)));
    const int64_t again =
        recompute == CS_RECOMPUTE_FULL ? cs_keep_numbers(graph, layer, CS_RECOMPUTE_NONE, rows) : 0;
    return element *
           (whole + 2 * (rows + own) * a->width + rows * larger(mixer.bwd, ffn.bwd) + again);
}

/* Recurrent layers of a context: rows as other layers have them and as they come, what the convolution
 * reads and its gradients; a map and a state of every rank, and those made of them, in fp32. */
static int64_t stretch_bytes(const struct cs_arch *a, int32_t cp, int64_t rows, int element)
{
    const struct cs_recurrent *r = &a->recurrent;
    const int64_t parts = (int64_t)(cp + 4) * r->n_heads * r->key_dim * (r->key_dim + r->value_dim);
    return rows * (3 * a->width + 3 * cs_recurrent_conv_width(r)) * element + 4 * parts;
}

int64_t cs_layer_context_bytes(const struct cs_graph *graph, const struct cs_layer *layer,
                               const struct cs_slot_exchange *of, int64_t rows, int element)
{
    const struct cs_attention *attention = cs_layer_attention(graph, layer);
    if (of->degrees.ranks < 2 || layer->kind != CS_LAYER_BLOCK)
        return 0;
    if (layer->mixer == CS_MIXER_DELTA)
        return stretch_bytes(cs_layer_arch(graph, layer), of->degrees.ranks, rows, element);
    if (attention == NULL)
        return 0;
    if (of->moves_heads)
        return cs_context_heads_bytes(attention, &of->degrees, of->seq, rows, element);
    return cs_context_bytes(attention, of->degrees.ranks, of->seq, rows, of->own_first, element);
}

int64_t cs_layer_scratch_bytes(const struct cs_graph *graph, const struct cs_layer *layer,
                               int64_t rows, enum cs_recompute recompute, int element)
{
    if (layer->kind == CS_LAYER_BLOCK)
        return block_bytes(graph, layer, rows, recompute, element);
    if (layer->kind == CS_LAYER_HEAD)
        return head_bytes(&graph->modules[layer->module].arch, rows, element);
    return 0;
}

int64_t cs_layer_held_bytes(const struct cs_graph *graph, const struct cs_layer *layer,
                            int64_t rows, enum cs_recompute recompute, int element)
{
    return rows * element * cs_keep_held_elements(graph, layer, recompute);
}

int64_t cs_stage_scratch_bytes(const struct cs_graph *graph, const struct cs_plan *plan,
                               int32_t stage, int element)
{
    const struct cs_stage *s = &plan->stages[stage];
    const bool is_llm = s->branch == graph->llm;
    const struct cs_slot_exchange exchange = {
        .degrees = {.ranks = is_llm ? cs_plan_shape(plan, stage).cp : 1,
                    .rows_each = plan->context_rows},
        .seq = plan->budget.seq_tokens,
        .moves_heads = plan->moves_heads,
        .own_first = plan->keys_own_first
    };
    int64_t most = 0;
    for (int32_t l = s->first_layer; l < s->first_layer + s->n_layers; l++) {
        const struct cs_layer *layer = &graph->layers[l];
        const int64_t rows =
            cs_context_share(plan, stage, cs_layer_work(graph, layer, &plan->budget).tokens);
        const int64_t exchanged = cs_layer_context_bytes(graph, layer, &exchange, rows, element);
        most = larger(most,
                      exchanged + cs_layer_scratch_bytes(graph, layer, rows,
                                                         (enum cs_recompute)s->recompute, element));
    }
    return most;
}

int64_t cs_stage_held_bytes(const struct cs_graph *graph, const struct cs_plan *plan, int32_t stage,
                            int element)
{
    const struct cs_stage *s = &plan->stages[stage];
    int64_t bytes = 0;
    for (int32_t l = s->first_layer; l < s->first_layer + s->n_layers; l++) {
        const struct cs_layer *layer = &graph->layers[l];
        bytes += cs_layer_held_bytes(
            graph, layer,
            cs_context_share(plan, stage, cs_layer_work(graph, layer, &plan->budget).tokens),
            (enum cs_recompute)s->recompute, element);
    }
    return bytes;
}

int64_t cs_rank_boundary_bytes(const struct cs_plan *plan, int32_t rank, const int32_t *n_buffers,
                               int element)
{
    const int32_t embed = plan->stages[plan->embed_stage].rank,
                  head = plan->stages[plan->head_stage].rank;
    int64_t bytes = embed != head && (rank == embed || rank == head) ? plan->tied_bytes : 0;
    for (int32_t i = 0; i < plan->n_edges; i++) {
        const struct cs_edge *e = &plan->edges[i];
        const bool is_from = plan->stages[e->from].rank == rank,
                   is_to = plan->stages[e->to].rank == rank;
        if (is_from || is_to)
            bytes += n_buffers[2 * i + !is_from] * cs_edge_bytes(e, element);
    }
    return bytes;
}
