/* The table of cuts by role: what a rank has of a parameter. */
#include "core/model/tensor_parallel.h"

/* What ranks share; a unit goes to one of them whole. */
enum unit { NOTHING, WORDS, QUERIES, KEYS, INNER, EXPERT, KEY_HEADS, VALUE_HEADS };

/* Which dimension: of the columns that a product makes (the last but one), of those that it reads
 * (the last), the first. */
enum axis { OUT, IN, FIRST };

/* A tensor that a family fuses is several sections of its dimension, one behind the other. */
struct rule {
    enum axis axis;
    enum unit unit[CS_TP_PIECES];

    enum parts {
        ALIKE, /* of one that is whole: all ranks make the same gradient */
        PARTS, /* every rank makes a part of it */
        ROWS,  /* the same where rows between products are split */
    } parts;
};

/* Norms of heads are whole, but a rank has its own heads only; norms over all heads as one are cut with
 * them (wide_rules). Biases of second products are whole
 * too: one rank adds them, and their gradient is the same on all. Roles without a row are whole. */
/* clang-format off */
static const struct rule rules[CS_PARAM_ROLE_COUNT] = {
    [CS_PARAM_EMBED]         = {FIRST, {WORDS},                             ALIKE},
    [CS_PARAM_HEAD_W]        = {OUT,   {WORDS},                             ALIKE},
    [CS_PARAM_Q_W]           = {OUT,   {QUERIES},                           ALIKE},
    [CS_PARAM_Q_B]           = {FIRST, {QUERIES},                           ALIKE},
    [CS_PARAM_K_W]           = {OUT,   {KEYS},                              ALIKE},
    [CS_PARAM_K_B]           = {FIRST, {KEYS},                              ALIKE},
    [CS_PARAM_V_W]           = {OUT,   {KEYS},                              ALIKE},
    [CS_PARAM_V_B]           = {FIRST, {KEYS},                              ALIKE},
    [CS_PARAM_O_W]           = {IN,    {QUERIES},                           ALIKE},
    [CS_PARAM_Q_NORM_W]      = {FIRST, {NOTHING},                           PARTS},
    [CS_PARAM_K_NORM_W]      = {FIRST, {NOTHING},                           PARTS},
    [CS_PARAM_MIX_QKV_W]     = {OUT,   {KEY_HEADS, KEY_HEADS, VALUE_HEADS}, ALIKE},
    [CS_PARAM_CONV_W]        = {FIRST, {KEY_HEADS, KEY_HEADS, VALUE_HEADS}, ALIKE},
    [CS_PARAM_MIX_Z_W]       = {OUT,   {VALUE_HEADS},                       ALIKE},
    [CS_PARAM_MIX_B_W]       = {OUT,   {VALUE_HEADS},                       ALIKE},
    [CS_PARAM_MIX_A_W]       = {OUT,   {VALUE_HEADS},                       ALIKE},
    [CS_PARAM_DT_BIAS]       = {FIRST, {VALUE_HEADS},                       ALIKE},
    [CS_PARAM_A_LOG]         = {FIRST, {VALUE_HEADS},                       ALIKE},
    [CS_PARAM_MIX_NORM_W]    = {FIRST, {NOTHING},                           PARTS},
    [CS_PARAM_MIX_OUT_W]     = {IN,    {VALUE_HEADS},                       ALIKE},
    [CS_PARAM_GATE_W]        = {OUT,   {INNER},                             ALIKE},
    [CS_PARAM_GATE_B]        = {FIRST, {INNER},                             ALIKE},
    [CS_PARAM_UP_W]          = {OUT,   {INNER},                             ALIKE},
    [CS_PARAM_UP_B]          = {FIRST, {INNER},                             ALIKE},
    [CS_PARAM_DOWN_W]        = {IN,    {INNER},                             ALIKE},
    [CS_PARAM_EXPERT_GATE_W] = {OUT,   {EXPERT},                            ALIKE},
    [CS_PARAM_EXPERT_UP_W]   = {OUT,   {EXPERT},                            ALIKE},
    [CS_PARAM_EXPERT_DOWN_W] = {IN,    {EXPERT},                            ALIKE},
    [CS_PARAM_NORM1_W]       = {FIRST, {NOTHING},                           ROWS },
    [CS_PARAM_NORM1_B]       = {FIRST, {NOTHING},                           ROWS },
    [CS_PARAM_NORM2_W]       = {FIRST, {NOTHING},                           ROWS },
    [CS_PARAM_NORM2_B]       = {FIRST, {NOTHING},                           ROWS },
    [CS_PARAM_POST1_W]       = {FIRST, {NOTHING},                           ROWS },
    [CS_PARAM_POST2_W]       = {FIRST, {NOTHING},                           ROWS },
    [CS_PARAM_SCALE1]        = {FIRST, {NOTHING},                           ROWS },
    [CS_PARAM_SCALE2]        = {FIRST, {NOTHING},                           ROWS },
};

/* clang-format on */

static const struct rule wide_rules[] = {
    {FIRST, {QUERIES}, ALIKE},
    {FIRST, {KEYS},    ALIKE}
};

static const struct rule *rule_of(const struct cs_graph *graph, const struct cs_param *param)
{
    const bool is_wide = graph->modules[param->module].arch.qk_norm == CS_QK_NORM_WIDTH;
    if (is_wide && param->role == CS_PARAM_Q_NORM_W)
        return &wide_rules[0];
    if (is_wide && param->role == CS_PARAM_K_NORM_W)
        return &wide_rules[1];
    return &rules[param->role];
}

static const struct cs_attention *attention_of(const struct cs_graph *graph,
                                               const struct cs_param *param)
{
    const struct cs_attention *found = cs_layer_attention(graph, &graph->layers[param->layer]);
    return found != NULL ? found : &graph->modules[param->module].arch.attention[0];
}

/* how many there are of a unit in the layer of a parameter */
static int64_t count_of(const struct cs_graph *graph, const struct cs_param *param, enum unit unit)
{
    const struct cs_arch *arch = &graph->modules[param->module].arch;
    const struct cs_attention *attention = attention_of(graph, param);
    const int64_t counts[] = {[NOTHING] = 0,
                              [WORDS] = arch->vocab,
                              [QUERIES] = attention->n_heads,
                              [KEYS] = attention->n_kv_heads,
                              [INNER] = arch->ffn_width,
                              [EXPERT] = arch->experts.width,
                              [KEY_HEADS] = arch->recurrent.n_key_heads,
                              [VALUE_HEADS] = arch->recurrent.n_heads};
    return counts[unit];
}

struct cs_tp_share cs_tp_share(int64_t n, struct cs_tp tp)
{
    if (tp.ranks <= 1)
        return (struct cs_tp_share){0, n};
    return (struct cs_tp_share){n * tp.at / tp.ranks, n * (tp.at + 1) / tp.ranks};
}

struct cs_tp_share cs_tp_heads(int64_t n, int64_t groups, struct cs_tp tp)
{
    if (groups < tp.ranks)
        return cs_tp_share(n, tp);
    const struct cs_tp_share share = cs_tp_share(groups, tp);
    return (struct cs_tp_share){share.begin * (n / groups), share.end * (n / groups)};
}

/* the rank's of a unit in the layer of a parameter */
static struct cs_tp_share share_of(const struct cs_graph *graph, const struct cs_param *param,
                                   enum unit unit, struct cs_tp tp)
{
    const enum unit group = unit == QUERIES ? KEYS : unit == VALUE_HEADS ? KEY_HEADS : unit;
    return cs_tp_heads(count_of(graph, param, unit), count_of(graph, param, group), tp);
}

static int32_t dim_of(const struct cs_param *param, enum axis axis)
{
    return axis == FIRST ? 0 : axis == IN ? param->n_dims - 1 : param->n_dims - 2;
}

/* Sections of the dimension that is cut, and the elements that a unit of each has there. Families that
 * fuse queries, keys and values, or gate and up, give the tensor the role of the first. */
struct sections {
    enum unit unit[CS_TP_PIECES];
    int64_t size[CS_TP_PIECES];
    int32_t n;
};

static struct sections sections_of(const struct cs_graph *graph, const struct cs_param *param,
                                   const struct rule *rule, int64_t extent)
{
    const struct cs_arch *arch = &graph->modules[param->module].arch;
    const struct cs_attention *attention = attention_of(graph, param);
    const int64_t made = cs_attention_made_width(attention), head = attention->head_dim;
    const bool is_of_q = rule->unit[0] == QUERIES && rule->axis != IN;
    const bool is_of_up = rule->unit[0] == INNER || rule->unit[0] == EXPERT;
    const int64_t n = count_of(graph, param, rule->unit[0]);
    if (is_of_q && !arch->has_output_gate && extent == made)
        return (struct sections){
            {QUERIES, KEYS, KEYS},
            {head,    head, head},
            attention->is_k_eq_v ? 2 : 3
        };
    if (is_of_up && rule->axis != IN && extent == 2 * n)
        return (struct sections){
            {rule->unit[0], rule->unit[0]},
            {1,             1            },
            2
        };
    if (rule->unit[1] == KEY_HEADS) {
        const struct cs_recurrent *r = &arch->recurrent;
        return (struct sections){
            {KEY_HEADS,  KEY_HEADS,  VALUE_HEADS },
            {r->key_dim, r->key_dim, r->value_dim},
            3
        };
    }
    return (struct sections){{rule->unit[0]}, {extent / n}, 1};
}

static const struct cs_graph_adapter *adapter_of(const struct cs_graph *graph,
                                                 const struct cs_param *param)
{
    for (int32_t i = 0; i < graph->n_adapters; i++)
        if (graph->adapters[i].a == param->id || graph->adapters[i].b == param->id)
            return &graph->adapters[i];
    return NULL;
}

static void add_piece(struct cs_tp_part *out, int64_t begin, int64_t end)
{
    out->begin[out->n] = begin;
    out->end[out->n++] = end;
}

/* dim_of the parameter is cut as the rule says */
static void cut(const struct cs_graph *whole, const struct cs_param *param, const struct rule *rule,
                int32_t dim, struct cs_tp tp, struct cs_tp_part *out)
{
    const struct sections s = sections_of(whole, param, rule, param->dim[dim]);
    int64_t at = 0;
    out->dim = dim;
    out->holders = 1;
    for (int32_t i = 0; i < s.n; i++) {
        const int64_t n = count_of(whole, param, s.unit[i]);
        const bool is_shared = n < tp.ranks; /* by ranks / n of them */
        const struct cs_tp_share share = share_of(whole, param, s.unit[i], tp);
        const int64_t end = is_shared ? share.begin + 1 : share.end;
        add_piece(out, at + share.begin * s.size[i], at + end * s.size[i]);
        at += n * s.size[i];
        if (is_shared)
            out->holders = tp.ranks / (int32_t)n;
    }
    CS_ASSERT(at == param->dim[dim]);
    out->holder = tp.at % out->holders;
    out->is_summed = out->holders > 1;
}

/* A factor is cut with the side of its matrix that it stands at; the other one is whole, and each rank
 * makes a part of its gradient. */
static void cut_adapter(const struct cs_graph *whole, const struct cs_param *param,
                        const struct cs_graph_adapter *adapter, struct cs_tp tp,
                        struct cs_tp_part *out)
{
    const struct cs_param *matrix = &whole->params[adapter->param];
    struct cs_tp_part of_matrix;
    cs_tp_part_of(whole, matrix, tp, &of_matrix);
    if (of_matrix.dim < 0)
        return;
    const bool is_read = of_matrix.dim == matrix->n_dims - 1;
    if (is_read != (adapter->a == param->id)) {
        out->is_summed = true;
        return;
    }
    *out = of_matrix;
    out->dim = is_read ? 1 : 0;
}

bool cs_param_is_of_expert(const struct cs_param *param)
{
    const struct rule *rule = &rules[param->role];
    return rule->unit[0] == EXPERT;
}

/* Whole experts, or nothing: a tensor of one, or of all of them (three dimensions). false: the rank has
 * this expert, or some of them whose columns it shares with others. */
static bool cut_experts(const struct cs_graph *whole, const struct cs_param *param, struct cs_tp tp,
                        struct cs_tp_part *out)
{
    struct cs_experts e = whole->modules[param->module].arch.experts;
    e.ranks = tp.ep;
    const int64_t begin = cs_experts_begin(&e, tp.ep_at), end = cs_experts_begin(&e, tp.ep_at + 1);
    const bool is_all = param->n_dims == 3;
    if (!is_all && begin <= param->part && param->part < end)
        return false;
    if (is_all && tp.ranks > 1) {
        out->experts.begin = begin;
        out->experts.end = end;
        return false;
    }
    *out = (struct cs_tp_part){.dim = 0, .holders = 1};
    add_piece(out, is_all ? begin : 0, is_all ? end : 0);
    return true;
}

void cs_tp_part_of(const struct cs_graph *whole, const struct cs_param *param, struct cs_tp tp,
                   struct cs_tp_part *out)
{
    const struct rule *rule = rule_of(whole, param);
    const struct cs_graph_adapter *adapter =
        param->role == CS_PARAM_ADAPTER_A || param->role == CS_PARAM_ADAPTER_B
            ? adapter_of(whole, param)
            : NULL;
    *out = (struct cs_tp_part){
        .dim = -1, .holders = tp.ranks > 1 ? tp.ranks : 1, .holder = tp.ranks > 1 ? tp.at : 0};
    if (tp.ep > 1 && cs_param_is_of_expert(param) && cut_experts(whole, param, tp, out))
        return;
    if (tp.ranks <= 1)
        return;
    out->is_summed = rule->parts == PARTS || (rule->parts == ROWS && tp.splits_rows);
    if (adapter != NULL)
        cut_adapter(whole, param, adapter, tp, out);
    else if (rule->unit[0] != NOTHING)
        cut(whole, param, rule, dim_of(param, rule->axis), tp, out);
}

int64_t cs_tp_extent(const struct cs_tp_part *part)
{
    int64_t n = 0;
    for (int32_t i = 0; i < part->n; i++)
        n += part->end[i] - part->begin[i];
    return n;
}

int64_t cs_tp_count(const struct cs_tp_part *part, const struct cs_param *whole)
{
    const int64_t all = part->experts.end;
    if (part->dim < 0)
        return whole->count;
    const int64_t n = whole->count / whole->dim[part->dim] * cs_tp_extent(part);
    return all > 0 ? n / whole->dim[0] * (all - part->experts.begin) : n;
}
