/* The tensors of an architecture, in dataflow order: the family's rows once per layer. */
#include <string.h>

#include "core/arch/read/read.h"

const char *cs_param_role_name(enum cs_param_role role)
{
    static const char *const names[] = {
        "embed",         "class",      "patch_w",      "patch_b",       "position",
        "pre_norm_w",    "pre_norm_b", "norm1_w",      "norm1_b",       "q_w",
        "q_b",           "k_w",        "k_b",          "v_w",           "v_b",
        "o_w",           "o_b",        "q_norm_w",     "k_norm_w",      "mix_qkv_w",
        "mix_z_w",       "mix_b_w",    "mix_a_w",      "conv_w",        "dt_bias",
        "a_log",         "mix_norm_w", "mix_out_w",    "post1_w",       "norm2_w",
        "norm2_b",       "gate_w",     "gate_b",       "up_w",          "up_b",
        "down_w",        "down_b",     "router_w",     "expert_gate_w", "expert_up_w",
        "expert_down_w", "post2_w",    "layer_scalar", "scale1",        "scale2",
        "norm_w",        "norm_b",     "head_w",       "affine_shift",  "affine_scale",
        "proj_w",        "proj_b",     "newline",      "adapter_a",     "adapter_b"};
    _Static_assert(CS_ARRAY_LEN(names) == CS_PARAM_ROLE_COUNT, "one name per role");
    CS_ASSERT((unsigned)role < CS_PARAM_ROLE_COUNT);
    return names[role];
}

struct cs_role_group cs_param_role_group(enum cs_param_role role, int32_t part)
{
    static const struct cs_role_group groups[CS_PARAM_ROLE_COUNT] = {
        [CS_PARAM_Q_W] = {1, 0},
          [CS_PARAM_K_W] = {1, 1},
        [CS_PARAM_V_W] = {1, 2},
          [CS_PARAM_Q_B] = {2, 0},
        [CS_PARAM_K_B] = {2, 1},
          [CS_PARAM_V_B] = {2, 2},
        [CS_PARAM_GATE_W] = {3, 0},
          [CS_PARAM_UP_W] = {3, 1},
        [CS_PARAM_GATE_B] = {4, 0},
          [CS_PARAM_UP_B] = {4, 1},
        [CS_PARAM_MIX_QKV_W] = {5, 0},
          [CS_PARAM_MIX_Z_W] = {5, 1},
        [CS_PARAM_MIX_B_W] = {5, 2},
          [CS_PARAM_MIX_A_W] = {5, 3},
        [CS_PARAM_EXPERT_GATE_W] = {6, 0},
          [CS_PARAM_EXPERT_UP_W] = {6, 1},
        [CS_PARAM_EXPERT_DOWN_W] = {7, 0},
    };
    CS_ASSERT((unsigned)role < CS_PARAM_ROLE_COUNT);
    const struct cs_role_group of_first = groups[role];
    return (struct cs_role_group){of_first.group, of_first.order + 2 * part};
}

static const struct cs_chain *chain_of(const struct cs_arch *arch, const struct cs_tensor_row *row)
{
    return row->layer_kind == CS_LAYER_TAP ? &arch->tap : &arch->chain;
}

static int32_t n_linears(const struct cs_chain *chain)
{
    return cs_chain_at(chain, chain->n).n_linears;
}

/* attention: of the block whose row it is; block: 0 elsewhere */
static bool holds(const struct cs_arch *arch, const struct cs_attention *attention,
                  const struct cs_tensor_row *row, int32_t block)
{
    const bool has_linear = row->part < n_linears(chain_of(arch, row));
    const bool attends = cs_arch_block_mixer(arch, block) == CS_MIXER_ATTENTION;
    const bool is_dense = cs_arch_block_ffn(arch, block) == CS_FFN_DENSE;
    const bool has_biases = arch->norm == CS_ARCH_LAYER_NORM;
    const bool values[CS_IFS] = {
        [CS_IF_ALWAYS] = true,
        [CS_IF_QKV_BIAS] = arch->has_qkv_bias,
        [CS_IF_O_BIAS] = arch->has_o_bias,
        [CS_IF_V] = !attention->is_k_eq_v,
        [CS_IF_V_BIAS] = arch->has_qkv_bias && !attention->is_k_eq_v,
        [CS_IF_QK_NORM] = arch->qk_norm != CS_QK_NORM_NONE,
        [CS_IF_LAYER_SCALAR] = arch->has_layer_scalar,
        [CS_IF_MLP_BIAS] = arch->has_mlp_bias,
        [CS_IF_PATCH_BIAS] = arch->has_patch_bias,
        [CS_IF_CLASS] = arch->front.has_class,
        [CS_IF_PLAIN] = !arch->is_gated_mlp,
        [CS_IF_GATED] = arch->is_gated_mlp,
        [CS_IF_PLAIN_BIAS] = !arch->is_gated_mlp && arch->has_mlp_bias,
        [CS_IF_GATED_BIAS] = arch->is_gated_mlp && arch->has_mlp_bias,
        [CS_IF_LAYER_SCALE] = arch->has_layer_scale,
        [CS_IF_POSITION] = arch->front.position != CS_POSITION_NONE,
        [CS_IF_PRE_NORM] = arch->front.has_norm,
        [CS_IF_PRE_NORM_BIAS] = arch->front.has_norm && has_biases,
        [CS_IF_STANDARDISED] = arch->front.is_standardised,
        [CS_IF_FINAL_NORM] = arch->has_final_norm,
        [CS_IF_FINAL_NORM_BIAS] = arch->has_final_norm && has_biases,
        [CS_IF_UNTIED] = !arch->is_tied,
        [CS_IF_LAYER_NORM] = has_biases,
        [CS_IF_LINEAR] = has_linear,
        [CS_IF_LINEAR_BIAS] = has_linear && arch->has_mlp_bias,
        [CS_IF_NEWLINE] = arch->chain.has_newline,
        [CS_IF_ATTENTION] = attends,
        [CS_IF_ATTENTION_QKV_BIAS] = attends && arch->has_qkv_bias,
        [CS_IF_ATTENTION_O_BIAS] = attends && arch->has_o_bias,
        [CS_IF_ATTENTION_QK_NORM] = attends && arch->qk_norm != CS_QK_NORM_NONE,
        [CS_IF_DELTA] = !attends,
        [CS_IF_DENSE] = is_dense,
        [CS_IF_EXPERTS] = !is_dense,
    };
    return values[row->condition];
}

/* Width in front of the chain's norm. */
static int32_t norm_width(const struct cs_chain *chain)
{
    int32_t i = 0;
    while (i < chain->n && chain->op[i] != CS_CHAIN_NORM)
        i++;
    return cs_chain_at(chain, i).width;
}

/* Width in front of its matrix `part`. */
static int32_t linear_width(const struct cs_chain *chain, int32_t part)
{
    for (int32_t i = 0; i < chain->n; i++)
        if (chain->op[i] == CS_CHAIN_LINEAR && cs_chain_at(chain, i).n_linears == part)
            return cs_chain_at(chain, i).width;
    return 0;
}

/* attention: of the kind that the tensor's block is of */
static int64_t dim_of(const struct cs_arch *arch, const struct cs_attention *attention,
                      const struct cs_tensor_row *row, enum cs_dim dim)
{
    const struct cs_chain *chain = chain_of(arch, row);
    const bool is_wide = arch->qk_norm == CS_QK_NORM_WIDTH;
    const int64_t values[CS_DIMS] = {
        [CS_DIM_NONE] = 0,
        [CS_DIM_H] = arch->width,
        [CS_DIM_IN] = arch->in_width,
        [CS_DIM_FFN] = arch->ffn_width,
        [CS_DIM_QD] = cs_attention_q_width(attention),
        [CS_DIM_KVD] = cs_attention_kv_width(attention),
        [CS_DIM_QKV] = cs_attention_made_width(attention),
        [CS_DIM_FFN2] = 2 * (int64_t)arch->ffn_width,
        [CS_DIM_ONE] = 1,
        [CS_DIM_QN] = is_wide ? cs_attention_q_width(attention) : attention->head_dim,
        [CS_DIM_KN] = is_wide ? cs_attention_kv_width(attention) : attention->head_dim,
        [CS_DIM_QGD] = (arch->has_output_gate ? 2 : 1) * cs_attention_q_width(attention),
        [CS_DIM_CONV] = cs_recurrent_conv_width(&arch->recurrent),
        [CS_DIM_VALUES] = cs_recurrent_value_width(&arch->recurrent),
        [CS_DIM_MIX_HEADS] = arch->recurrent.n_heads,
        [CS_DIM_VALUE] = arch->recurrent.value_dim,
        [CS_DIM_TAPS] = arch->recurrent.taps,
        [CS_DIM_EXPERTS] = arch->experts.n,
        [CS_DIM_EXPERT] = arch->experts.width,
        [CS_DIM_EXPERT2] = 2 * (int64_t)arch->experts.width,
        [CS_DIM_VOCAB] = arch->vocab,
        [CS_DIM_POSITIONS] = (int64_t)arch->front.position_rows + arch->front.has_class,
        [CS_DIM_CHANNELS] = arch->channels,
        [CS_DIM_PATCH] = arch->patch_size,
        [CS_DIM_FRAMES] = arch->front.patch_frames,
        [CS_DIM_TWO] = 2,
        [CS_DIM_THREE] = 3,
        [CS_DIM_NORM] = norm_width(chain),
        [CS_DIM_FROM] = linear_width(chain, row->part),
        [CS_DIM_TO] = chain->linear[row->part < CS_CHAIN_LINEARS ? row->part : 0],
    };
    return values[dim];
}

static bool is_norm_weight(enum cs_param_role role)
{
    return role == CS_PARAM_NORM1_W || role == CS_PARAM_NORM2_W || role == CS_PARAM_NORM_W ||
           role == CS_PARAM_Q_NORM_W || role == CS_PARAM_K_NORM_W || role == CS_PARAM_POST1_W ||
           role == CS_PARAM_POST2_W || role == CS_PARAM_PRE_NORM_W;
}

/* The pattern's first %d replaced by hand: a format string must be a literal. */
static const char *tensor_name(struct cs_arena *arena, const char *pattern, int32_t number)
{
    const char *mark = strstr(pattern, "%d");
    if (mark == NULL)
        return cs_arena_strdup(arena, pattern);
    return cs_arena_printf(arena, "%.*s%d%s", (int)(mark - pattern), pattern, number, mark + 2);
}

/* Elements before it in what transformers keeps together: gate and up of an expert are neighbours. */
static int64_t place_in_whole(const struct cs_tensor_info *info, int64_t count)
{
    const bool is_pair = info->role == CS_PARAM_EXPERT_GATE_W || info->role == CS_PARAM_EXPERT_UP_W;
    return ((is_pair ? 2 : 1) * info->part + (info->role == CS_PARAM_EXPERT_UP_W)) * count;
}

static void fill_whole(const struct cs_tensor_row *row, int32_t layer, struct cs_arena *arena,
                       struct cs_tensor_info *out)
{
    int64_t count = 1;
    for (int32_t d = 0; d < out->n_dims; d++)
        count *= out->dim[d];
    if (row->whole == NULL)
        return;
    out->whole = tensor_name(arena, row->whole, layer);
    out->whole_at = row->is_per_expert ? place_in_whole(out, count) : 0;
}

static enum cs_init init_of(const struct cs_arch *arch, enum cs_param_role role, int32_t n_dims)
{
    if (role == CS_PARAM_A_LOG)
        return CS_INIT_DECAY;
    if (role == CS_PARAM_DT_BIAS || role == CS_PARAM_MIX_NORM_W || role == CS_PARAM_LAYER_SCALAR ||
        role == CS_PARAM_AFFINE_SCALE || role == CS_PARAM_SCALE1 || role == CS_PARAM_SCALE2)
        return CS_INIT_ONE;
    if (is_norm_weight(role))
        return arch->norm_offset > 0 ? CS_INIT_ZERO : CS_INIT_ONE;
    return n_dims > 1 ? CS_INIT_NORMAL : CS_INIT_ZERO;
}

static const struct cs_attention *attention_of(const struct cs_arch *arch,
                                               const struct cs_tensor_row *row, int32_t layer)
{
    const bool is_block = row->layer_kind == CS_LAYER_BLOCK;
    return &arch->attention[is_block ? cs_arch_block_attention(arch, layer) : 0];
}

static void fill(const struct cs_arch *arch, const struct cs_tensor_table *table,
                 const struct cs_tensor_row *row, int32_t layer, int32_t part,
                 struct cs_arena *arena, struct cs_tensor_info *out)
{
    const struct cs_attention *attention = attention_of(arch, row, layer);
    *out = (struct cs_tensor_info){
        .name = tensor_name(arena, row->name, layer),
        .role = row->role,
        .part = row->part + part,
        .layer_kind = row->layer_kind,
        .layer = layer,
        .is_fixed = row->is_fixed,
    };
    if (row->is_per_expert)
        out->name = tensor_name(arena, out->name, part);
    if (table->alt_prefix != NULL)
        out->alt = cs_arena_printf(arena, "%s%s", table->alt_prefix, out->name);
    while (out->n_dims < CS_TENSOR_DIMS && row->dim[out->n_dims] != CS_DIM_NONE) {
        out->dim[out->n_dims] = dim_of(arch, attention, row, row->dim[out->n_dims]);
        out->n_dims++;
    }
    out->is_decayed = out->n_dims > 1;
    out->init = init_of(arch, row->role, out->n_dims);
    fill_whole(row, layer, arena, out);
}

struct listing {
    const struct cs_arch *arch;
    const struct cs_tensor_table *table;
    struct cs_arena *arena;
    struct cs_tensor_info *infos;
    int n;
};

/* The rows of one layer. */
static void list(struct listing *l, enum cs_layer_kind kind, int32_t layer)
{
    for (int i = 0; i < l->table->n_rows; i++) {
        const struct cs_tensor_row *row = &l->table->rows[i];
        const int32_t parts = row->is_per_expert ? l->arch->experts.n : 1;
        if (row->layer_kind != kind || !holds(l->arch, attention_of(l->arch, row, layer), row,
                                              kind == CS_LAYER_BLOCK ? layer : 0))
            continue;
        for (int32_t part = 0; part < parts; part++)
            fill(l->arch, l->table, row, layer, part, l->arena, &l->infos[l->n++]);
    }
}

int cs_arch_tensors(const struct cs_arch *arch, struct cs_arena *arena, struct cs_tensor_info **out)
{
    struct listing l = {.arch = arch, .table = cs_family_tensors(arch->family), .arena = arena};
    CS_ASSERT(l.table != NULL);
    const int64_t most = arch->experts.n > 0 ? arch->experts.n : 1;
    const int64_t room = most * l.table->n_rows * (arch->n_layers + arch->n_taps + 1);
    l.infos = CS_NEW_ARRAY(arena, struct cs_tensor_info, room);
    list(&l, CS_LAYER_EMBED, 0);
    for (int32_t block = 0, tap = 0; arch->kind != CS_MODULE_PROJECTOR && block < arch->n_layers;
         block++) {
        list(&l, CS_LAYER_BLOCK, block);
        if (tap < arch->n_taps && arch->tap_block[tap] == block)
            list(&l, CS_LAYER_TAP, tap++);
    }
    list(&l, CS_LAYER_NORM, 0);
    list(&l, CS_LAYER_PROJECTOR, 0);
    list(&l, CS_LAYER_HEAD, 0);
    *out = l.infos;
    return l.n;
}
