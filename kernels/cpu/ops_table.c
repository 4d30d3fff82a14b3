/* The table of the CPU back end. */
#include "kernels/cpu/cpu.h"

static const struct cs_ops ops_cpu = {
    .version = CS_OPS_VERSION,
    .name = "cpu",
    .act_bytes = sizeof(float),
    .gemm = cs_cpu_gemm,
    .gemm_wgrad = cs_cpu_gemm_wgrad,
    .bias_add = cs_cpu_bias_add,
    .bias_grad = cs_cpu_bias_grad,
    .linear = cs_cpu_linear,
    .linear_dgrad = cs_cpu_linear_dgrad,
    .linear_wgrad = cs_cpu_linear_wgrad,
    .norm = cs_cpu_norm,
    .add_norm = cs_cpu_add_norm,
    .norm_grad = cs_cpu_norm_grad,
    .rope = cs_cpu_rope,
    .act = cs_cpu_act,
    .act_grad = cs_cpu_act_grad,
    .gated = cs_cpu_gated,
    .gated_grad = cs_cpu_gated_grad,
    .add = cs_cpu_add,
    .embed = cs_cpu_embed,
    .embed_grad = cs_cpu_embed_grad,
    .gather_rows = cs_cpu_gather_rows,
    .scatter_rows = cs_cpu_scatter_rows,
    .patches = cs_cpu_patches,
    .attention = cs_cpu_attention,
    .attention_grad = cs_cpu_attention_grad,
    .attention_workspace = cs_cpu_attention_workspace,
    .attention_merge = cs_cpu_attention_merge,
    .linear_xent = cs_cpu_linear_xent,
    .linear_xent_workspace = cs_cpu_linear_xent_workspace,
    .adamw = cs_cpu_adamw,
    .sumsq = cs_cpu_sumsq,
    .adamw_many = cs_cpu_adamw_many,
    .sumsq_many = cs_cpu_sumsq_many,
    .adamw_bf16_many = cs_cpu_adamw_bf16_many,
    .cast_to_act = cs_cpu_cast_to_act,
    .cast_to_f32 = cs_cpu_cast_to_f32,
    .scale_add = cs_cpu_scale_add,
};

const struct cs_ops *cs_ops_cpu(void)
{
    return &ops_cpu;
}
