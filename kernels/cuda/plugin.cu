/* The plugin's border: two tables of operators (bf16, fp32) and the one exported function. */
#include "kernels/cuda/cuda_ops.cuh"

template <typename T> static constexpr struct cs_ops table(const char *name)
{
    return {
        .version = CS_OPS_VERSION,
        .name = name,
        .act_bytes = sizeof(T),
        .gemm = cs_cuda_gemm<T>,
        .gemm_wgrad = cs_cuda_gemm_wgrad<T>,
        .bias_add = cs_cuda_bias_add<T>,
        .bias_grad = cs_cuda_bias_grad<T>,
        .linear = cs_cuda_linear<T>,
        .linear_dgrad = cs_cuda_linear_dgrad<T>,
        .linear_wgrad = cs_cuda_linear_wgrad<T>,
        .norm = cs_cuda_norm<T>,
        .add_norm = cs_cuda_add_norm<T>,
        .norm_grad = cs_cuda_norm_grad<T>,
        .norm_heads = cs_cuda_norm_heads<T>,
        .norm_heads_grad = cs_cuda_norm_heads_grad<T>,
        .scale_columns = cs_cuda_scale_columns<T>,
        .scale_columns_wgrad = cs_cuda_scale_columns_wgrad<T>,
        .rope = cs_cuda_rope<T>,
        .act = cs_cuda_act<T>,
        .act_grad = cs_cuda_act_grad<T>,
        .gated = cs_cuda_gated<T>,
        .gated_grad = cs_cuda_gated_grad<T>,
        .add = cs_cuda_add<T>,
        .embed = cs_cuda_embed<T>,
        .embed_grad = cs_cuda_embed_grad<T>,
        .gather_rows = cs_cuda_gather_rows<T>,
        .scatter_rows = cs_cuda_scatter_rows<T>,
        .copy_heads = cs_cuda_copy_heads<T>,
        .scale_rows = cs_cuda_scale_rows<T>,
        .scale_rows_grad = cs_cuda_scale_rows_grad<T>,
        .sum_rows = cs_cuda_sum_rows<T>,
        .mix_rows = cs_cuda_mix_rows<T>,
        .mix_rows_grad = cs_cuda_mix_rows_grad<T>,
        .unfold = cs_cuda_unfold<T>,
        .fold = cs_cuda_fold<T>,
        .patches = cs_cuda_patches<T>,
        .mask_build = cs_cuda_mask_build,
        .mask_workspace = cs_cuda_mask_workspace,
        .attention = cs_cuda_attention<T>,
        .attention_grad = cs_cuda_attention_grad<T>,
        .attention_workspace = cs_cuda_attention_workspace,
        .attention_merge = cs_cuda_attention_merge<T>,
        .delta = cs_cuda_delta<T>,
        .delta_grad = cs_cuda_delta_grad<T>,
        .delta_workspace = cs_cuda_delta_workspace<T>,
        .delta_gate = cs_cuda_delta_gate<T>,
        .delta_gate_grad = cs_cuda_delta_gate_grad<T>,
        .short_conv = cs_cuda_short_conv<T>,
        .short_conv_grad = cs_cuda_short_conv_grad<T>,
        .moe_route = cs_cuda_moe_route<T>,
        .moe_route_grad = cs_cuda_moe_route_grad<T>,
        .moe_linear = cs_cuda_moe_linear<T>,
        .moe_linear_dgrad = cs_cuda_moe_linear_dgrad<T>,
        .moe_linear_wgrad = cs_cuda_moe_linear_wgrad<T>,
        .linear_xent = cs_cuda_linear_xent<T>,
        .linear_xent_workspace = cs_cuda_linear_xent_workspace<T>,
        .adamw = cs_cuda_adamw<T>,
        .sumsq = cs_cuda_sumsq,
        .adamw_many = cs_cuda_adamw_many<T>,
        .sumsq_many = cs_cuda_sumsq_many,
        .adamw_bf16_many = cs_cuda_adamw_bf16_many,
        .cast_to_act = cs_cuda_cast_to_act<T>,
        .cast_to_f32 = cs_cuda_cast_to_f32<T>,
        .scale_add = cs_cuda_scale_add,
        .device = &cs_cuda_device_ops,
    };
}

static const struct cs_ops table_bf16 = table<__nv_bfloat16>("cuda");
const struct cs_ops cs_cuda_table_f32 = table<float>("cuda-f32");

extern "C" __attribute__((visibility("default"))) const struct cs_ops *cs_cuda_ops(uint32_t version)
{
    return version == CS_OPS_VERSION ? &table_bf16 : nullptr;
}
