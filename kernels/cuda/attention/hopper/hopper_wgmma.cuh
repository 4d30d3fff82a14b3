/* Warpgroup matrix instructions of Hopper: d (64, N) fp32 += a (64, 16) b (16, N), bf16 operands, b
 * from shared memory, a from shared memory (ss) or registers (rs). They run beside the threads that
 * issued them: fence, issue any number, commit, then wait before a register of d or a is touched.
 *
 * Thread t of the warpgroup holds of d: d[4 j + 2 h + i] is row 16 (t / 32) + (t % 32) / 4 + 8 h,
 * column 8 j + 2 (t % 4) + i. As operand a for rows of d and 16 of its columns from 16 s on,
 * packed: a[x] = {d[8 s + 2 x], d[8 s + 2 x + 1]}, x in 0..3: a product goes on as operand without
 * a move.
 *
 * Accumulators are named in the instruction, so arrays must stay in registers: constant indices
 * after unrolling, no calls that are not inlined, no touch between issue and wait. */
#ifndef CS_KERNELS_CUDA_ATTENTION_HOPPER_HOPPER_WGMMA_CUH
#define CS_KERNELS_CUDA_ATTENTION_HOPPER_HOPPER_WGMMA_CUH

__device__ __forceinline__ void cs_wgmma_fence(void)
{
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

__device__ __forceinline__ void cs_wgmma_commit(void)
{
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

/* until at most PENDING committed groups are under way */
template <int PENDING> __device__ __forceinline__ void cs_wgmma_wait(void)
{
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(PENDING) : "memory");
}

/* After the wait, before the first use of n accumulators: the compiler moves no use before it. */
template <int N> __device__ __forceinline__ void cs_wgmma_settle(float *d)
{
#pragma unroll
    for (int i = 0; i < N; i++)
        asm volatile("" : "+f"(d[i])::"memory");
}

/* How an operand lies in shared memory. CS_ROW_K: rows of the operand (m or n) one after the other,
 * k contiguous. CS_ROW_MN: rows of k, m or n contiguous ("transposed"). */
enum cs_major { CS_ROW_K = 0, CS_ROW_MN = 1 };

/* Bytes of a row under one swizzle: TMA boxes are so wide, wider matrices are several boxes, one
 * after the other. A pattern repeats after 8 rows, so boxes start at multiples of 8 rows. */
enum cs_swizzle_bytes { CS_SWIZZLE_32 = 32, CS_SWIZZLE_64 = 64, CS_SWIZZLE_128 = 128 };

/* Operand at address of shared memory, of which bits 4..17 count; the pattern's start (8 rows) must
 * be aligned to 8 x SWIZZLE bytes. box: bytes from one box to the next, used by CS_ROW_MN when N is
 * wider than one box, else any.
 * Steps of k: CS_ROW_K: 16 elements on = 32 bytes on, inside a box; CS_ROW_MN: 16 rows on. */
template <int SWIZZLE>
__device__ __forceinline__ uint64_t cs_wgmma_operand(uint32_t address, uint32_t box = 16)
{
    const uint64_t mode = SWIZZLE == CS_SWIZZLE_128 ? 1 : SWIZZLE == CS_SWIZZLE_64 ? 2 : 3;
    return (uint64_t)((address & 0x3ffff) >> 4) | (uint64_t)(box >> 4) << 16 |
           (uint64_t)(8 * SWIZZLE >> 4) << 32 | mode << 62;
}

/* The same operand bytes further on: a step of k. Shared memory ends below 2^18, so no carry leaves
 * the address. */
__device__ __forceinline__ uint64_t cs_wgmma_advance(uint64_t operand, uint32_t bytes)
{
    return (operand & 0xffffffff00000000u) | ((uint32_t)operand + (bytes >> 4));
}

/* ss: is_sum false starts from 0 instead of d; a constant after unrolling costs nothing. */
template <int N> struct cs_wgmma;

/* Names and constraints of the first accumulators, by their number. */
#define CS_NAMES_4 "%0, %1, %2, %3"
#define CS_NAMES_8                                                                                 \
    CS_NAMES_4                                                                                     \
    ", %4, %5, %6, %7"
#define CS_NAMES_16                                                                                \
    CS_NAMES_8                                                                                     \
    ", %8, %9, %10, %11, %12, %13, %14, %15"
#define CS_NAMES_24                                                                                \
    CS_NAMES_16                                                                                    \
    ", %16, %17, %18, %19, %20, %21, %22, %23"
#define CS_NAMES_32                                                                                \
    CS_NAMES_24                                                                                    \
    ", %24, %25, %26, %27, %28, %29, %30, %31"
#define CS_NAMES_36                                                                                \
    CS_NAMES_32                                                                                    \
    ", %32, %33, %34, %35"
#define CS_NAMES_40                                                                                \
    CS_NAMES_36                                                                                    \
    ", %36, %37, %38, %39"
#define CS_NAMES_48                                                                                \
    CS_NAMES_40                                                                                    \
    ", %40, %41, %42, %43, %44, %45, %46, %47"
#define CS_NAMES_64                                                                                \
    CS_NAMES_48                                                                                    \
    ", %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define CS_NAMES_96                                                                                \
    CS_NAMES_64                                                                                    \
    ", %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79"             \
    ", %80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95"
#define CS_NAMES_128                                                                               \
    CS_NAMES_96                                                                                    \
    ", %96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109"             \
    ", %110, %111, %112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122"               \
    ", %123, %124, %125, %126, %127"

#define CS_IO_4(d, i)   "+f"((d)[(i)]), "+f"((d)[(i) + 1]), "+f"((d)[(i) + 2]), "+f"((d)[(i) + 3])
#define CS_IO_8(d, i)   CS_IO_4(d, i), CS_IO_4(d, (i) + 4)
#define CS_IO_16(d, i)  CS_IO_8(d, i), CS_IO_8(d, (i) + 8)
#define CS_IO_24(d, i)  CS_IO_16(d, i), CS_IO_8(d, (i) + 16)
#define CS_IO_32(d, i)  CS_IO_16(d, i), CS_IO_16(d, (i) + 16)
#define CS_IO_36(d, i)  CS_IO_32(d, i), CS_IO_4(d, (i) + 32)
#define CS_IO_40(d, i)  CS_IO_32(d, i), CS_IO_8(d, (i) + 32)
#define CS_IO_48(d, i)  CS_IO_32(d, i), CS_IO_16(d, (i) + 32)
#define CS_IO_64(d, i)  CS_IO_32(d, i), CS_IO_32(d, (i) + 32)
#define CS_IO_96(d, i)  CS_IO_64(d, i), CS_IO_32(d, (i) + 64)
#define CS_IO_128(d, i) CS_IO_64(d, i), CS_IO_64(d, (i) + 64)

/* N, its accumulators, and the numbers of the seven operands that follow them */
#define CS_WGMMA_OF(N, R, P0, P1, P2, P3, P4, P5, P6)                                              \
    template <> struct cs_wgmma<N> {                                                               \
        template <cs_major A, cs_major B>                                                          \
        static __device__ __forceinline__ void ss(float *d, uint64_t a, uint64_t b, bool is_sum)   \
        {                                                                                          \
            asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %" #P2 ", 0;\n"                         \
                         "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32.bf16.bf16 {" CS_NAMES_##R \
                         "}, %" #P0 ", %" #P1 ", p, 1, 1, %" #P3 ", %" #P4 ";\n}"                  \
                         : CS_IO_##R(d, 0)                                                         \
                         : "l"(a), "l"(b), "r"((int)is_sum), "n"((int)A), "n"((int)B));            \
        }                                                                                          \
        template <cs_major B>                                                                      \
        static __device__ __forceinline__ void rs(float *d, const uint32_t *a, uint64_t b,         \
                                                  bool is_sum)                                     \
        {                                                                                          \
            asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %" #P5 ", 0;\n"                         \
                         "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32.bf16.bf16 {" CS_NAMES_##R \
                         "}, {%" #P0 ", %" #P1 ", %" #P2 ", %" #P3 "}, %" #P4 ", p, 1, 1, %" #P6   \
                         ";\n}"                                                                    \
                         : CS_IO_##R(d, 0)                                                         \
                         : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"((int)is_sum),   \
                           "n"((int)B));                                                           \
        }                                                                                          \
    };

CS_WGMMA_OF(8, 4, 4, 5, 6, 7, 8, 9, 10)
CS_WGMMA_OF(16, 8, 8, 9, 10, 11, 12, 13, 14)
CS_WGMMA_OF(32, 16, 16, 17, 18, 19, 20, 21, 22)
CS_WGMMA_OF(48, 24, 24, 25, 26, 27, 28, 29, 30)
CS_WGMMA_OF(64, 32, 32, 33, 34, 35, 36, 37, 38)
CS_WGMMA_OF(72, 36, 36, 37, 38, 39, 40, 41, 42)
CS_WGMMA_OF(80, 40, 40, 41, 42, 43, 44, 45, 46)
CS_WGMMA_OF(96, 48, 48, 49, 50, 51, 52, 53, 54)
CS_WGMMA_OF(128, 64, 64, 65, 66, 67, 68, 69, 70)
CS_WGMMA_OF(192, 96, 96, 97, 98, 99, 100, 101, 102)
CS_WGMMA_OF(256, 128, 128, 129, 130, 131, 132, 133, 134)

#undef CS_WGMMA_OF
#undef CS_NAMES_4
#undef CS_IO_4
#undef CS_NAMES_8
#undef CS_IO_8
#undef CS_NAMES_16
#undef CS_IO_16
#undef CS_NAMES_24
#undef CS_IO_24
#undef CS_NAMES_32
#undef CS_IO_32
#undef CS_NAMES_36
#undef CS_IO_36
#undef CS_NAMES_40
#undef CS_IO_40
#undef CS_NAMES_48
#undef CS_IO_48
#undef CS_NAMES_64
#undef CS_IO_64
#undef CS_NAMES_96
#undef CS_IO_96
#undef CS_NAMES_128
#undef CS_IO_128

#endif
