/* dq: see attention/mma_bwd.cuh. */
#include "kernels/cuda/attention/mma_bwd.cuh"

/* 128: a fourth would leave one block to a multiprocessor of 164 KiB (compute capability 8.0). */
template <int DIM> using narrow = cs_mma_bwd_layout < DIM, 64, DIM<128 ? 4 : 3, CS_MMA_DQ>;
using wide = cs_mma_bwd_layout<256, 32, 2, CS_MMA_DQ>;

cs_mma_bwd_pass cs_mma_bwd_queries(int32_t head_dim)
{
    static const struct {
        int32_t dim;
        cs_mma_bwd_pass run;
    } table[] = {
        {64,  cs_mma_bwd_launch<narrow<64>> },
        {72,  cs_mma_bwd_launch<narrow<72>> },
        {80,  cs_mma_bwd_launch<narrow<80>> },
        {96,  cs_mma_bwd_launch<narrow<96>> },
        {128, cs_mma_bwd_launch<narrow<128>>},
        {256, cs_mma_bwd_launch<wide>       },
        {512, cs_mma_bwd_wide_queries       },
    };

    for (const auto &row : table)
        if (row.dim == head_dim)
            return row.run;
    return nullptr;
}
