/* dk and dv: see attention/mma_bwd.cuh. */
#include "kernels/cuda/attention/mma_bwd.cuh"

/* 128: a fourth would leave one block to a multiprocessor of 164 KiB (compute capability 8.0). */
template <int DIM> using narrow = cs_mma_bwd_layout < DIM, 64, DIM<128 ? 4 : 3, CS_MMA_DKV>;

/* Half the columns at a time, for want of registers. */
using capped_128 = cs_mma_bwd_layout<128, 32, 3, CS_MMA_DKV>;

/* Registers hold one sum of 256 columns: dk in one pass, dv in another. */
static void wide(struct cs_ctx *ctx, const struct cs_mma_bwd_args &a)
{
    cs_mma_bwd_launch<cs_mma_bwd_layout<256, 32, 2, CS_MMA_DK>>(ctx, a);
    cs_mma_bwd_launch<cs_mma_bwd_layout<256, 32, 2, CS_MMA_DV>>(ctx, a);
}

template <int DIM> static constexpr cs_mma_bwd_pass both = cs_mma_bwd_launch<narrow<DIM>>;
static constexpr cs_mma_bwd_pass both_128 = cs_mma_bwd_launch<narrow<128>, capped_128>;

cs_mma_bwd_pass cs_mma_bwd_keys(int32_t head_dim)
{
    static const struct {
        int32_t dim;
        cs_mma_bwd_pass run;
    } table[] = {
        {64,  both<64>            },
        {72,  both<72>            },
        {80,  both<80>            },
        {96,  both<96>            },
        {128, both_128            },
        {256, wide                },
        {512, cs_mma_bwd_wide_keys},
    };

    for (const auto &row : table)
        if (row.dim == head_dim)
            return row.run;
    return nullptr;
}
