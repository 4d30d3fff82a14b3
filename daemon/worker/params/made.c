/* What of a slot's work makes the gradient of a parameter: its product, or whatever else reads it. */
#include "worker/params/places.h"

/* Matrices of products, and what is added to what they make: the layers call cs_run_linear_wgrad or
 * cs_run_moe_wgrad for them, which a split backward puts off. */
static const bool is_of_product[CS_PARAM_ROLE_COUNT] = {
    [CS_PARAM_PATCH_W] = true,       [CS_PARAM_PATCH_B] = true,       [CS_PARAM_Q_W] = true,
    [CS_PARAM_Q_B] = true,           [CS_PARAM_K_W] = true,           [CS_PARAM_K_B] = true,
    [CS_PARAM_V_W] = true,           [CS_PARAM_V_B] = true,           [CS_PARAM_O_W] = true,
    [CS_PARAM_O_B] = true,           [CS_PARAM_MIX_QKV_W] = true,     [CS_PARAM_MIX_Z_W] = true,
    [CS_PARAM_MIX_B_W] = true,       [CS_PARAM_MIX_A_W] = true,       [CS_PARAM_MIX_OUT_W] = true,
    [CS_PARAM_GATE_W] = true,        [CS_PARAM_GATE_B] = true,        [CS_PARAM_UP_W] = true,
    [CS_PARAM_UP_B] = true,          [CS_PARAM_DOWN_W] = true,        [CS_PARAM_DOWN_B] = true,
    [CS_PARAM_ROUTER_W] = true,      [CS_PARAM_EXPERT_GATE_W] = true, [CS_PARAM_EXPERT_UP_W] = true,
    [CS_PARAM_EXPERT_DOWN_W] = true, [CS_PARAM_PROJ_W] = true,        [CS_PARAM_PROJ_B] = true,
    [CS_PARAM_ADAPTER_A] = true,     [CS_PARAM_ADAPTER_B] = true,
};

static bool layer_has(const struct cs_params *p, int32_t layer, enum cs_param_role role)
{
    const struct cs_layer *l = &p->graph->layers[layer];
    for (int32_t i = l->first_param; i < l->first_param + l->n_params; i++)
        if (p->graph->params[i].role == role)
            return true;
    return false;
}

/* Queries and values have biases and keys have none: no product takes those two. */
static bool is_one_of_two_biases(const struct cs_params *p, const struct cs_param *param)
{
    return (param->role == CS_PARAM_Q_B || param->role == CS_PARAM_V_B) &&
           layer_has(p, param->layer, CS_PARAM_V_B) && !layer_has(p, param->layer, CS_PARAM_K_B);
}

enum cs_made cs_places_made(const struct cs_params *p, const struct cs_shard *t, bool is_split)
{
    if (t->param->role == CS_PARAM_HEAD_W)
        return CS_MADE_FORWARD;
    if (!is_split || (is_of_product[t->param->role] && !is_one_of_two_biases(p, t->param)))
        return CS_MADE_WITH_WEIGHTS;
    return CS_MADE_WITH_INPUT;
}
