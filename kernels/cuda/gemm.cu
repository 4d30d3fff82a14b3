/* Matrix products through cuBLASLt. It is column-major: a row-major (m, n) matrix is its (n, m), so
 * c = op(a) op(b) is asked for as c^T = op(b)^T op(a)^T with the operands swapped and no copy.
 *
 * Accumulation is fp32. Split-K sums go through the workspace in fp32 and a fixed order, never
 * through atomics. Plans (descriptor, layouts, algorithm) are kept by shape, types, transposes,
 * leading dimensions and alignment; what cuBLASLt has no kernel for runs in a plain tiled kernel.
 */
#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/cuda_ops.cuh"

struct gemm_key {
    int64_t m, n, k, lda, ldb, ldc; /* row-major */
    int32_t trans_a, trans_b, in_type, out_type;
    int32_t align_a, align_b, align_c; /* bytes: 1..16 */
    int32_t has_beta;
};

struct gemm_plan {
    struct gemm_key key;
    cublasLtMatmulDesc_t desc;
    cublasLtMatrixLayout_t a, b, c;
    cublasLtMatmulAlgo_t algo;
    bool is_used, has_algo;
};

#define PLAN_SLOTS  1024 /* open addressing; a full table drops the plan in the way */
#define PLAN_PROBES 16

struct cs_cuda_gemm_cache {
    struct gemm_plan plan[PLAN_SLOTS];
};

static void drop_plan(struct gemm_plan *p)
{
    if (p->a != nullptr)
        cublasLtMatrixLayoutDestroy(p->a);
    if (p->b != nullptr)
        cublasLtMatrixLayoutDestroy(p->b);
    if (p->c != nullptr)
        cublasLtMatrixLayoutDestroy(p->c);
    if (p->desc != nullptr)
        cublasLtMatmulDescDestroy(p->desc);
    *p = {};
}

struct cs_cuda_gemm_cache *cs_cuda_gemm_cache_new(void)
{
    return (struct cs_cuda_gemm_cache *)calloc(1, sizeof(struct cs_cuda_gemm_cache));
}

void cs_cuda_gemm_cache_free(struct cs_cuda_gemm_cache *cache)
{
    if (cache == nullptr)
        return;
    for (int i = 0; i < PLAN_SLOTS; i++)
        drop_plan(&cache->plan[i]);
    free(cache);
}

/* FNV-1a over the key's words */
static uint64_t hash_key(const struct gemm_key *key)
{
    const unsigned char *byte = (const unsigned char *)key;
    uint64_t h = UINT64_C(14695981039346656037);
    for (size_t i = 0; i < sizeof *key; i++)
        h = (h ^ byte[i]) * UINT64_C(1099511628211);
    return h ^ (h >> 29);
}

static int32_t alignment_of(const void *p)
{
    const uintptr_t bits = (uintptr_t)p | 16;
    return (int32_t)(bits & (~bits + 1));
}

static bool set_preference(cublasLtMatmulPreference_t pref, const struct gemm_key *key)
{
    const uint64_t workspace = CS_CUDA_GEMM_BYTES;
    const uint32_t reduction = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    /* operands are swapped */
    const uint32_t a = (uint32_t)key->align_b, b = (uint32_t)key->align_a;
    const uint32_t c = (uint32_t)key->align_c;

    const struct {
        cublasLtMatmulPreferenceAttributes_t name;
        const void *value;
        size_t bytes;
    } attribute[] = {
        {CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,   &workspace, sizeof workspace},
        {CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &reduction, sizeof reduction},
        {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, &a,         sizeof a        },
        {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, &b,         sizeof b        },
        {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, &c,         sizeof c        },
        {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, &c,         sizeof c        },
    };

    for (const auto &at : attribute)
        if (cublasLtMatmulPreferenceSetAttribute(pref, at.name, at.value, at.bytes) !=
            CUBLAS_STATUS_SUCCESS)
            return false;
    return true;
}

/* Descriptor and layouts; false: cuBLASLt refuses them. */
static bool describe(struct gemm_plan *p)
{
    const struct gemm_key *key = &p->key;
    const cudaDataType_t in = (cudaDataType_t)key->in_type, out = (cudaDataType_t)key->out_type;
    const cublasOperation_t op_a = key->trans_b ? CUBLAS_OP_T : CUBLAS_OP_N;
    const cublasOperation_t op_b = key->trans_a ? CUBLAS_OP_T : CUBLAS_OP_N;
    const uint64_t m = (uint64_t)key->m, n = (uint64_t)key->n, k = (uint64_t)key->k;
    return cublasLtMatmulDescCreate(&p->desc, CUBLAS_COMPUTE_32F, CUDA_R_32F) ==
               CUBLAS_STATUS_SUCCESS &&
           cublasLtMatmulDescSetAttribute(p->desc, CUBLASLT_MATMUL_DESC_TRANSA, &op_a,
                                          sizeof op_a) == CUBLAS_STATUS_SUCCESS &&
           cublasLtMatmulDescSetAttribute(p->desc, CUBLASLT_MATMUL_DESC_TRANSB, &op_b,
                                          sizeof op_b) == CUBLAS_STATUS_SUCCESS &&
           cublasLtMatrixLayoutCreate(&p->a, in, key->trans_b ? k : n, key->trans_b ? n : k,
                                      key->ldb) == CUBLAS_STATUS_SUCCESS &&
           cublasLtMatrixLayoutCreate(&p->b, in, key->trans_a ? m : k, key->trans_a ? k : m,
                                      key->lda) == CUBLAS_STATUS_SUCCESS &&
           cublasLtMatrixLayoutCreate(&p->c, out, n, m, key->ldc) == CUBLAS_STATUS_SUCCESS;
}

static void make_plan(const struct cs_cuda_handle *h, struct gemm_plan *p)
{
    cublasLtMatmulPreference_t pref = nullptr;
    cublasLtMatmulHeuristicResult_t found = {};
    int n_found = 0;
    if (describe(p) && cublasLtMatmulPreferenceCreate(&pref) == CUBLAS_STATUS_SUCCESS &&
        set_preference(pref, &p->key) &&
        cublasLtMatmulAlgoGetHeuristic(h->blas, p->desc, p->a, p->b, p->c, p->c, pref, 1, &found,
                                       &n_found) == CUBLAS_STATUS_SUCCESS &&
        n_found > 0 && found.state == CUBLAS_STATUS_SUCCESS) {
        p->algo = found.algo;
        p->has_algo = true;
    }
    if (pref != nullptr)
        cublasLtMatmulPreferenceDestroy(pref);
}

static struct gemm_plan *find_plan(const struct cs_cuda_handle *h, const struct gemm_key *key)
{
    const uint64_t hash = hash_key(key);
    struct gemm_plan *slot = nullptr;
    for (int i = 0; i < PLAN_PROBES; i++) {
        slot = &h->gemm->plan[(hash + (uint64_t)i) % PLAN_SLOTS];
        if (!slot->is_used)
            break;
        if (memcmp(&slot->key, key, sizeof *key) == 0)
            return slot;
    }
    drop_plan(slot);
    slot->key = *key;
    slot->is_used = true;
    make_plan(h, slot);
    return slot;
}

/* ---- the plain kernel ---- */

#define TILE 16

struct plain_args {
    int64_t m, n, k, lda, ldb, ldc;
    int trans_a, trans_b;
    float alpha, beta;
};

/* a, b: as gemm; k may be 0 */
template <typename T, typename C>
__global__ void plain_gemm(struct plain_args g, const T *a, const T *b, C *c)
{
    __shared__ float at[TILE][TILE + 1], bt[TILE][TILE + 1];
    const int tx = (int)threadIdx.x, ty = (int)threadIdx.y;
    const int64_t col = (int64_t)blockIdx.x * TILE + tx;
    for (int64_t row0 = (int64_t)blockIdx.y * TILE; row0 < g.m; row0 += (int64_t)gridDim.y * TILE) {
        const int64_t row = row0 + ty;
        float sum = 0.0f;
        for (int64_t k0 = 0; k0 < g.k; k0 += TILE) {
            const int64_t ka = k0 + tx, kb = k0 + ty;
            at[ty][tx] = row < g.m && ka < g.k
                             ? cs_to_float(g.trans_a ? a[ka * g.lda + row] : a[row * g.lda + ka])
                             : 0.0f;
            bt[ty][tx] = kb < g.k && col < g.n
                             ? cs_to_float(g.trans_b ? b[col * g.ldb + kb] : b[kb * g.ldb + col])
                             : 0.0f;
            __syncthreads();
            for (int i = 0; i < TILE; i++)
                sum += at[ty][i] * bt[i][tx];
            __syncthreads();
        }
        if (row < g.m && col < g.n) {
            C *out = c + row * g.ldc + col;
            const float old = g.beta == 0.0f ? 0.0f : g.beta * cs_to_float(*out);
            *out = cs_from_float<C>(g.k > 0 ? g.alpha * sum + old : old);
        }
    }
}

template <typename T, typename C>
static void launch_plain(struct cs_ctx *ctx, const struct plain_args *g, const void *a,
                         const void *b, void *c)
{
    const int64_t row_tiles = (g->m + TILE - 1) / TILE;
    const dim3 grid((unsigned)((g->n + TILE - 1) / TILE),
                    (unsigned)(row_tiles < 65535 ? row_tiles : 65535));
    plain_gemm<T, C><<<grid, dim3(TILE, TILE), 0, cs_cuda_stream_of(ctx)>>>(*g, (const T *)a,
                                                                            (const T *)b, (C *)c);
    CS_CUDA_LAUNCHED(ctx, "gemm");
}

template <typename T> static constexpr cudaDataType_t type_of = CUDA_R_32F;
template <> constexpr cudaDataType_t type_of<__nv_bfloat16> = CUDA_R_16BF;

template <typename T, typename C>
void cs_cuda_matmul(struct cs_ctx *ctx, int trans_a, int trans_b, int64_t m, int64_t n, int64_t k,
                    float alpha, const void *a, int64_t lda, const void *b, int64_t ldb, float beta,
                    void *c, int64_t ldc)
{
    if (m <= 0 || n <= 0)
        return;
    const struct plain_args plain = {m, n, k, lda, ldb, ldc, trans_a, trans_b, alpha, beta};
    if (k <= 0) {
        launch_plain<T, C>(ctx, &plain, a, b, c);
        return;
    }
    struct cs_cuda_handle *h = cs_cuda_handle_of(ctx);
    struct gemm_key key;
    memset(&key, 0, sizeof key); /* compared and hashed as bytes */
    key.m = m, key.n = n, key.k = k;
    key.lda = lda, key.ldb = ldb, key.ldc = ldc;
    key.trans_a = trans_a != 0, key.trans_b = trans_b != 0;
    key.in_type = type_of<T>, key.out_type = type_of<C>;
    key.align_a = alignment_of(a), key.align_b = alignment_of(b), key.align_c = alignment_of(c);
    key.has_beta = beta != 0.0f;
    const struct gemm_plan *p = find_plan(h, &key);
    if (!p->has_algo) {
        launch_plain<T, C>(ctx, &plain, a, b, c);
        return;
    }
    const cublasStatus_t status =
        cublasLtMatmul(h->blas, p->desc, &alpha, b, p->a, a, p->b, &beta, c, p->c, c, p->c,
                       &p->algo, h->gemm_workspace, CS_CUDA_GEMM_BYTES, cs_cuda_stream_of(ctx));
    if (status != CUBLAS_STATUS_SUCCESS)
        CS_CUDA_REFUSE(ctx, CS_INTERNAL, "gemm of %lld x %lld x %lld: %s", (long long)m,
                       (long long)n, (long long)k, cublasLtGetStatusString(status));
}

template <typename T>
void cs_cuda_gemm(struct cs_ctx *ctx, int trans_a, int trans_b, int64_t m, int64_t n, int64_t k,
                  float alpha, const void *a, int64_t lda, const void *b, int64_t ldb, float beta,
                  void *c, int64_t ldc)
{
    cs_cuda_matmul<T, T>(ctx, trans_a, trans_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}

template <typename T>
void cs_cuda_gemm_wgrad(struct cs_ctx *ctx, int64_t rows, int64_t out, int64_t in, const void *dy,
                        int64_t ld_dy, const void *x, int64_t ldx, float *dw)
{
    if (rows > 0)
        cs_cuda_matmul<T, float>(ctx, 1, 0, out, in, rows, 1.0f, dy, ld_dy, x, ldx, 1.0f, dw, in);
}

#define INSTANTIATE(T)                                                                             \
    template void cs_cuda_gemm<T>(struct cs_ctx *, int, int, int64_t, int64_t, int64_t, float,     \
                                  const void *, int64_t, const void *, int64_t, float, void *,     \
                                  int64_t);                                                        \
    template void cs_cuda_gemm_wgrad<T>(struct cs_ctx *, int64_t, int64_t, int64_t, const void *,  \
                                        int64_t, const void *, int64_t, float *);                  \
    template void cs_cuda_matmul<T, T>(struct cs_ctx *, int, int, int64_t, int64_t, int64_t,       \
                                       float, const void *, int64_t, const void *, int64_t, float, \
                                       void *, int64_t);
INSTANTIATE(float)
INSTANTIATE(__nv_bfloat16)
