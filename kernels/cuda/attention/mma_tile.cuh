/* Matrices of bf16 rows in shared memory and what is done with them by the warp-wide matrix
 * instruction m16n8k16. Facts: PTX ISA, sections on mma, ldmatrix and cp.async. */
#ifndef CS_KERNELS_CUDA_ATTENTION_MMA_TILE_CUH
#define CS_KERNELS_CUDA_ATTENTION_MMA_TILE_CUH

#include "kernels/cuda/attention/common.cuh"

enum { CS_MMA_WARPS = 4, CS_MMA_THREADS = 32 * CS_MMA_WARPS };

/* --- single instructions ---------------------------------------------------------------------- */

__device__ __forceinline__ uint32_t cs_mma_address(const void *shared)
{
    return (uint32_t)__cvta_generic_to_shared(shared);
}

/* The compiler knows nothing of x from here on: what is computed from x is not computed before a
 * loop and kept in registers, of which there are none to spare. */
__device__ __forceinline__ void cs_mma_forget(int32_t &x)
{
    asm volatile("" : "+r"(x));
}

__device__ __forceinline__ void cs_mma_forget(uint32_t &x)
{
    asm volatile("" : "+r"(x));
}

/* 16 bytes to shared memory, zeros unless is_there; from must be an address in any case */
__device__ __forceinline__ void cs_mma_copy16(uint32_t to, const void *from, bool is_there)
{
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(to), "l"(from),
                 "r"(is_there ? 16 : 0)
                 : "memory");
}

__device__ __forceinline__ void cs_mma_copy4(uint32_t to, const void *from, bool is_there)
{
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(to), "l"(from),
                 "r"(is_there ? 4 : 0)
                 : "memory");
}

/* Ends a group of copies, perhaps an empty one. */
__device__ __forceinline__ void cs_mma_commit(void)
{
    asm volatile("cp.async.commit_group;" ::: "memory");
}

/* Until at most N of the youngest groups of this thread are on their way. */
template <int N> __device__ __forceinline__ void cs_mma_wait(void)
{
    asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
}

__device__ __forceinline__ void cs_mma_matrices(uint32_t (&x)[4], uint32_t from)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
                 : "r"(from)
                 : "memory");
}

__device__ __forceinline__ void cs_mma_matrices_t(uint32_t (&x)[4], uint32_t from)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
                 : "r"(from)
                 : "memory");
}

/* d (16, 8) += a (16, 16) b (16, 8) */
__device__ __forceinline__ void cs_mma(float (&d)[4], const uint32_t (&a)[4], uint32_t b0,
                                       uint32_t b1)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, "
                 "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/* --- rows in shared memory -------------------------------------------------------------------- */

/* Rows of DIM columns, zeros up to a multiple of 16. Eight rows of a matrix lie in different banks:
 * 16-byte chunks are permuted by the row where a row is a multiple of 128 bytes, else a row is an
 * odd number of chunks long. */
template <int DIM_> struct cs_mma_rows {
    static constexpr int DIM = DIM_, PADDED = (DIM + 15) / 16 * 16, CHUNKS = PADDED / 8;
    static constexpr bool IS_PERMUTED = PADDED % 64 == 0;
    static constexpr int PITCH = IS_PERMUTED ? PADDED * 2 : (CHUNKS | 1) * 16;
    static constexpr int K_STEPS = PADDED / 16, N_TILES = PADDED / 8;

    __device__ __forceinline__ static uint32_t at(int row, int chunk)
    {
        return (uint32_t)(row * PITCH + (IS_PERMUTED ? chunk ^ (row & 7) : chunk) * 16);
    }

    /* address of chunk c is that of c + 2 pair; c is 0 or 1 */
    __device__ __forceinline__ static uint32_t later(uint32_t address, int pair)
    {
        return IS_PERMUTED ? (address ^ (uint32_t)(pair % 4 * 32)) + (uint32_t)(pair / 4 * 128)
                           : address + (uint32_t)(pair * 32);
    }

    /* Rows of a matrix in memory from row 0 on, which has ROWS rows here, rows there; LANES threads
     * of the block of THREADS for a row. */
    template <int ROWS, int THREADS = CS_MMA_THREADS>
    __device__ __forceinline__ static void load(uint32_t to, const __nv_bfloat16 *from,
                                                int32_t stride, int32_t rows)
    {
        constexpr int LANES = CHUNKS % 8 == 0 ? 8 : CHUNKS % 4 == 0 ? 4 : 2;
        constexpr int AT_ONCE = THREADS / LANES;
        static_assert(ROWS % AT_ONCE == 0 && CHUNKS % LANES == 0);
        int row = (int)threadIdx.x / LANES;
        const int chunk = (int)threadIdx.x % LANES;
        cs_mma_forget(stride);
        cs_mma_forget(row);
        to += at(row, chunk);
        const __nv_bfloat16 *p = from + (int64_t)row * stride + chunk * 8;
#pragma unroll
        for (int r = 0; r < ROWS; r += AT_ONCE) {
#pragma unroll
            for (int c = 0; c < CHUNKS; c += LANES) {
                const bool is_there = row + r < rows && chunk + c < DIM / 8;
                cs_mma_copy16(to + (uint32_t)(r * PITCH + c * 16), is_there ? p + c * 8 : from,
                              is_there);
            }
            p += (int64_t)AT_ONCE * stride;
        }
    }

    /* d (16 M, 8 N) = a b^T: rows of a and of b in shared memory */
    template <int M, int N>
    __device__ __forceinline__ static void products(float (&d)[M][N][4], uint32_t a, uint32_t b)
    {
        int lane = (int)threadIdx.x % 32;
        cs_mma_forget(lane);
        a += at(lane % 16, lane / 16);
        b += at(lane % 8 + lane / 16 * 8, lane / 8 % 2);
#pragma unroll
        for (int m = 0; m < M; m++)
#pragma unroll
            for (int n = 0; n < N; n++)
#pragma unroll
                for (int i = 0; i < 4; i++)
                    d[m][n][i] = 0.0f;
#pragma unroll
        for (int k = 0; k < K_STEPS; k++) {
            uint32_t left[M][4];
#pragma unroll
            for (int m = 0; m < M; m++)
                cs_mma_matrices(left[m], later(a, k) + (uint32_t)(m * 16 * PITCH));
#pragma unroll
            for (int n = 0; n < N; n += 2) {
                uint32_t right[4];
                cs_mma_matrices(right, later(b, k) + (uint32_t)(n * 8 * PITCH));
#pragma unroll
                for (int m = 0; m < M; m++) {
                    cs_mma(d[m][n], left[m], right[0], right[1]);
                    cs_mma(d[m][n + 1], left[m], right[2], right[3]);
                }
            }
        }
    }

    /* d (16 M, 8 TILES) += a (16 M, 8 N) b (8 N, 8 TILES): a in registers, as packed by pack; b begins
     * at a column that is a multiple of 64, TILES fewer than N_TILES where others have the rest */
    template <int M, int N, int TILES>
    __device__ __forceinline__ static void add(float (&d)[M][TILES][4],
                                               const uint32_t (&a)[M][N / 2][4], uint32_t b)
    {
        int lane = (int)threadIdx.x % 32;
        cs_mma_forget(lane);
        b += at(lane % 16, lane / 16);
#pragma unroll
        for (int k = 0; k < N / 2; k++)
#pragma unroll
            for (int n = 0; n < TILES; n += 2) {
                uint32_t right[4];
                cs_mma_matrices_t(right, later(b, n / 2) + (uint32_t)(k * 16 * PITCH));
#pragma unroll
                for (int m = 0; m < M; m++) {
                    cs_mma(d[m][n], a[m][k], right[0], right[1]);
                    cs_mma(d[m][n + 1], a[m][k], right[2], right[3]);
                }
            }
    }

    /* d times a factor by row (r, r + 8), rounded, to rows of shared memory that this warp alone
     * uses (16 M from shared on), from there to the first rows of a matrix in memory. */
    template <int M, int TILES>
    __device__ __forceinline__ static void store(const float (&d)[M][TILES][4],
                                                 const float (&factor)[M][2], uint8_t *shared,
                                                 __nv_bfloat16 *to, int32_t stride, int32_t rows)
    {
        constexpr int WIDTH = TILES < DIM / 8 ? TILES : DIM / 8; /* chunks that are there */
        const int lane = (int)threadIdx.x % 32;
        __syncwarp();
#pragma unroll
        for (int m = 0; m < M; m++)
#pragma unroll
            for (int n = 0; n < TILES; n++)
#pragma unroll
                for (int h = 0; h < 2; h++)
                    *(uint32_t *)(shared + at(m * 16 + h * 8 + lane / 4, n) + lane % 4 * 4) =
                        cs_pack_bf16(d[m][n][2 * h] * factor[m][h],
                                     d[m][n][2 * h + 1] * factor[m][h]);
        __syncwarp();
        for (int i = lane; i < 16 * M * WIDTH; i += 32) {
            const int row = i / WIDTH, chunk = i % WIDTH;
            if (row < rows)
                *(uint4 *)(to + (int64_t)row * stride + chunk * 8) =
                    *(const uint4 *)(shared + at(row, chunk));
        }
    }
};

/* Accumulators (16, 8 N) as the left operand of the next product */
template <int N>
__device__ __forceinline__ void cs_mma_pack_left(const float (&x)[N][4], uint32_t (&a)[N / 2][4])
{
#pragma unroll
    for (int k = 0; k < N / 2; k++)
#pragma unroll
        for (int i = 0; i < 4; i++)
            a[k][i] = cs_pack_bf16(x[2 * k + i / 2][i % 2 * 2], x[2 * k + i / 2][i % 2 * 2 + 1]);
}

#endif
