/* Sizes of what a rank of a context holds. */
#include "core/plan/context.h"

enum { LARGEST_BLOCK = 128, SMALLEST_BLOCK = 8, BLOCKS_OF_A_RANK = 8 };

int32_t cs_context_block(int32_t n_rows, int32_t ranks)
{
    int32_t block = LARGEST_BLOCK;
    while (block > SMALLEST_BLOCK && (int64_t)n_rows < (int64_t)BLOCKS_OF_A_RANK * block * ranks)
        block /= 2;
    return block;
}

int32_t cs_context_cap(int32_t n_blocks, int32_t ranks)
{
    const int64_t parts = 2 * (int64_t)ranks;
    return ranks == 1 ? n_blocks : (int32_t)((3 * (int64_t)n_blocks + parts - 1) / parts);
}

/* Shorter slots have blocks of at most this size: the cap of n blocks of b rows is at most
 * 3 n b / (2 ranks) + 3 b / (2 ranks) + b rows. */
int32_t cs_context_most(int32_t n_rows, int32_t ranks)
{
    const int64_t parts = 2 * (int64_t)ranks;
    const int64_t most =
        (3 * (int64_t)n_rows + parts - 1) / parts + 2 * (int64_t)cs_context_block(n_rows, ranks);
    return ranks == 1 || most > n_rows ? n_rows : (int32_t)most;
}

bool cs_context_can_split(const struct cs_context_degrees *degrees, int32_t n)
{
    const bool is_named = n >= 1 && n <= CS_CONTEXT_MOST_RANKS;
    return n == 1 || n == degrees->ranks || degrees->can == 0 ||
           (is_named && (degrees->can >> (n - 1) & 1) != 0);
}

int32_t cs_context_degree(const struct cs_context_degrees *degrees, int32_t n_rows)
{
    const int32_t each = degrees->rows_each;
    if (each < 1 || n_rows > (int64_t)degrees->ranks * each)
        return degrees->ranks;
    int32_t n = n_rows > each ? (n_rows - 1) / each + 1 : 1;
    while (!cs_context_can_split(degrees, n))
        n++;
    return n;
}

/* the longest slot that `degree` ranks split, 0: none has this degree */
static int32_t longest_of(int32_t n_rows, int32_t ranks, int32_t rows_each, int32_t degree)
{
    const struct cs_context_degrees any = {.ranks = ranks, .rows_each = rows_each};
    const int64_t longest = (int64_t)degree * rows_each;
    const int32_t n = degree == ranks || longest > n_rows ? n_rows : (int32_t)longest;
    return cs_context_degree(&any, n) == degree ? n : 0;
}

int32_t cs_context_room(int32_t n_rows, int32_t ranks, int32_t rows_each)
{
    int32_t most = 0;
    for (int32_t d = 1; d <= ranks; d++) {
        const int32_t n = longest_of(n_rows, ranks, rows_each, d);
        const int32_t room = n > 0 ? cs_context_most(n, d) : 0;
        most = room > most ? room : most;
    }
    return most;
}

int32_t cs_context_room_in_order(int32_t n_rows, int32_t ranks, int32_t rows_each)
{
    int32_t most = 0;
    for (int32_t d = 1; d <= ranks; d++) {
        const int32_t n = longest_of(n_rows, ranks, rows_each, d), room = (n + d - 1) / d;
        most = room > most ? room : most;
    }
    return most;
}

int64_t cs_context_part(int64_t n, int32_t seq, int32_t ranks, int32_t rows_each)
{
    if (ranks <= 1 || seq < 1)
        return n;
    return (int64_t)((double)n / seq * cs_context_room(seq, ranks, rows_each));
}

int64_t cs_context_share(const struct cs_plan *plan, int32_t stage, int64_t n)
{
    const bool is_llm = plan->stages[stage].branch == plan->stages[plan->head_stage].branch;
    if (!is_llm)
        return n * cs_plan_item_slots(plan, stage);
    return cs_context_part(n, plan->budget.seq_tokens, cs_plan_shape(plan, stage).cp,
                           plan->context_rows);
}

/* Gradients of queries lie like these, in rows with keys and values. */
static int64_t part_bytes(const struct cs_attention *attention, int64_t rows, int element)
{
    const int64_t q = cs_attention_q_width(attention), kv = cs_attention_kv_width(attention);
    const int64_t fwd = q * element + (int64_t)2 * attention->n_heads * (int64_t)sizeof(float),
                  bwd = (q + 2 * kv) * element;
    return rows * (fwd > bwd ? fwd : bwd);
}

int64_t cs_context_bytes(const struct cs_attention *attention, int32_t cp, int64_t seq,
                         int64_t rows, bool own_first, int element)
{
    if (cp == 1)
        return 0;
    return 2 * cs_attention_kv_width(attention) * element * (2 * seq + (cp - 1) * rows) +
           (own_first ? part_bytes(attention, rows, element) : 0);
}

/* Backward: queries, keys, values, output and its gradient; and the gradients of the first three. Of a slot of seq rows
 * that n ranks split, 0: they cannot. */
static int64_t heads_bytes(const struct cs_attention *attention, int32_t n, int64_t seq,
                           int64_t rows, int element)
{
    struct cs_context_heads own;
    if (!cs_context_heads(attention, (struct cs_tp){.ranks = 1}, n, &own))
        return 0;
    const int64_t made = (int64_t)(own.q + 2 * own.k) * attention->head_dim * element;
    const int64_t all = made + (int64_t)2 * own.q * attention->head_dim * element;
    const int64_t sums = own.copies > 1 ? (int64_t)2 * own.k * attention->head_dim * element : 0;
    return (n * rows + 2 * seq) * all + seq * made + n * rows * sums;
}

int64_t cs_context_heads_bytes(const struct cs_attention *attention,
                               const struct cs_context_degrees *degrees, int64_t seq, int64_t rows,
                               int element)
{
    int64_t most = 0;
    for (int32_t n = degrees->rows_each > 0 ? 2 : degrees->ranks; n > 1 && n <= degrees->ranks;
         n++) {
        const int64_t longest = n < degrees->ranks ? (int64_t)n * degrees->rows_each : seq;
        const int64_t bytes =
            heads_bytes(attention, n, longest < seq ? longest : seq, rows, element);
        most = bytes > most ? bytes : most;
    }
    return most;
}

bool cs_context_heads(const struct cs_attention *attention, struct cs_tp tp, int32_t ranks,
                      struct cs_context_heads *out)
{
    struct cs_attention own = *attention;
    cs_tp_attention(&own, tp);
    const int32_t heads = own.n_heads, keys = own.n_kv_heads;
    const bool is_shared = keys < ranks;
    if (heads % ranks != 0 || (is_shared ? ranks % keys : keys % ranks) != 0)
        return false;
    *out = (struct cs_context_heads){heads / ranks, is_shared ? 1 : keys / ranks,
                                     is_shared ? ranks / keys : 1};
    return true;
}

bool cs_context_attention_divides(const struct cs_attention *attention, int32_t tp, int32_t ranks)
{
    struct cs_context_heads own;
    for (int32_t at = 0; at < tp; at++)
        if (!cs_context_heads(attention, (struct cs_tp){.ranks = tp, .at = at}, ranks, &own))
            return false;
    return true;
}

bool cs_context_heads_divide(const struct cs_graph *graph, int32_t tp, int32_t ranks,
                             const struct cs_layer **layer)
{
    const struct cs_branch *llm = &graph->branches[graph->llm];
    for (int32_t i = llm->first_layer; i < llm->first_layer + llm->n_layers; i++) {
        const struct cs_attention *a = cs_layer_attention(graph, &graph->layers[i]);
        if (a == NULL || cs_context_attention_divides(a, tp, ranks))
            continue;
        if (layer != NULL)
            *layer = &graph->layers[i];
        return false;
    }
    return true;
}

uint64_t cs_context_heads_degrees(const struct cs_graph *graph, int32_t tp, int32_t ranks)
{
    uint64_t can = 1;
    for (int32_t n = 2; n <= ranks && n <= CS_CONTEXT_MOST_RANKS; n++)
        if (cs_context_heads_divide(graph, tp, n, NULL))
            can |= (uint64_t)1 << (n - 1);
    return can;
}

bool cs_context_is_stretched(const struct cs_layer *layer)
{
    return layer->kind == CS_LAYER_BLOCK && layer->mixer == CS_MIXER_DELTA;
}

double cs_context_flops(const struct cs_graph *graph, double *per_pair)
{
    const struct cs_branch *llm = &graph->branches[graph->llm];
    double per_row = 0;
    for (int32_t a = 0; a < graph->n_attentions; a++)
        per_pair[a] = 0;
    for (int32_t i = llm->first_layer; i < llm->first_layer + llm->n_layers; i++) {
        const struct cs_layer *layer = &graph->layers[i];
        const int32_t attention = cs_layer_attention_id(graph, layer);
        if (cs_context_is_stretched(layer))
            continue;
        per_row += (double)cs_layer_fwd_flops(graph, layer, 1, 0, 0);
        if (attention >= 0)
            per_pair[attention] += (double)cs_layer_fwd_flops(graph, layer, 0, 1, 0);
    }
    return per_row;
}
