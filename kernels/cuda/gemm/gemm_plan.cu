/* The cache of cuBLASLt plans. cuBLASLt is column-major: a row-major (m, n) matrix is its (n, m),
 * so c = op(a) op(b) is asked for as c^T = op(b)^T op(a)^T with the operands swapped and no copy;
 * its bias runs along the rows of d^T, which are our columns.
 *
 * Accumulation is fp32. Split-K sums go through the workspace in fp32 and a fixed order, never
 * through atomics. A plan (descriptor, layouts, algorithm) is kept for each key; which algorithm:
 * the heuristic's first, or a measured one (gemm_tune.cu). */
#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/gemm/gemm.cuh"

static void drop_plan(struct cs_gemm_plan *p)
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
    for (int i = 0; i < CS_GEMM_SLOTS; i++)
        drop_plan(&cache->plan[i]);
    free(cache->path);
    free(cache->saved);
    free(cache);
}

/* FNV-1a over the key's bytes */
static uint64_t hash_key(const struct cs_gemm_key *key)
{
    const unsigned char *byte = (const unsigned char *)key;
    uint64_t h = UINT64_C(14695981039346656037);
    for (size_t i = 0; i < sizeof *key; i++)
        h = (h ^ byte[i]) * UINT64_C(1099511628211);
    return h ^ (h >> 29);
}

static int64_t alignment_of(const void *p)
{
    const uintptr_t bits = (uintptr_t)p | 16;
    return (int64_t)(bits & (~bits + 1));
}

static bool set_preference(cublasLtMatmulPreference_t pref, const struct cs_gemm_key *key)
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

static bool set(cublasLtMatmulDesc_t desc, cublasLtMatmulDescAttributes_t name, const void *value,
                size_t bytes)
{
    return cublasLtMatmulDescSetAttribute(desc, name, value, bytes) == CUBLAS_STATUS_SUCCESS;
}

/* The pointers of the epilogue live in the descriptor: set before every run. */
static bool set_epilogue(struct cs_gemm_plan *p, const struct cs_gemm *g)
{
    const int64_t ld = g->n;
    if (g->bias != nullptr &&
        !set(p->desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &g->bias, sizeof g->bias))
        return false;
    return g->aux == nullptr ||
           (set(p->desc, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, &g->aux, sizeof g->aux) &&
            set(p->desc, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, &ld, sizeof ld));
}

/* Descriptor and layouts; false: cuBLASLt refuses them. */
static bool describe(struct cs_gemm_plan *p, const struct cs_gemm *g)
{
    const struct cs_gemm_key *key = &p->key;
    const cudaDataType_t in = (cudaDataType_t)key->in_type, out = (cudaDataType_t)key->out_type;
    const cublasOperation_t op_a = g->trans_b ? CUBLAS_OP_T : CUBLAS_OP_N;
    const cublasOperation_t op_b = g->trans_a ? CUBLAS_OP_T : CUBLAS_OP_N;
    const uint64_t m = (uint64_t)key->m, n = (uint64_t)key->n, k = (uint64_t)key->k;
    return cublasLtMatmulDescCreate(&p->desc, CUBLAS_COMPUTE_32F, CUDA_R_32F) ==
               CUBLAS_STATUS_SUCCESS &&
           set(p->desc, CUBLASLT_MATMUL_DESC_TRANSA, &op_a, sizeof op_a) &&
           set(p->desc, CUBLASLT_MATMUL_DESC_TRANSB, &op_b, sizeof op_b) &&
           set(p->desc, CUBLASLT_MATMUL_DESC_EPILOGUE, &g->epilogue, sizeof g->epilogue) &&
           set_epilogue(p, g) &&
           cublasLtMatrixLayoutCreate(&p->a, in, g->trans_b ? k : n, g->trans_b ? n : k,
                                      key->ldb) == CUBLAS_STATUS_SUCCESS &&
           cublasLtMatrixLayoutCreate(&p->b, in, g->trans_a ? m : k, g->trans_a ? k : m,
                                      key->lda) == CUBLAS_STATUS_SUCCESS &&
           cublasLtMatrixLayoutCreate(&p->c, out, n, m, key->ldc) == CUBLAS_STATUS_SUCCESS;
}

void cs_cuda_gemm_candidates(const struct cs_cuda_handle *h, const struct cs_gemm_plan *p, int most,
                             cublasLtMatmulHeuristicResult_t *found, int *n)
{
    cublasLtMatmulPreference_t pref = nullptr;
    int n_found = 0, n_good = 0;
    *n = 0;
    if (cublasLtMatmulPreferenceCreate(&pref) != CUBLAS_STATUS_SUCCESS)
        return;
    if (set_preference(pref, &p->key) &&
        cublasLtMatmulAlgoGetHeuristic(h->blas, p->desc, p->a, p->b, p->c, p->c, pref, most, found,
                                       &n_found) == CUBLAS_STATUS_SUCCESS)
        for (int i = 0; i < n_found; i++)
            if (found[i].state == CUBLAS_STATUS_SUCCESS)
                found[n_good++] = found[i];
    cublasLtMatmulPreferenceDestroy(pref);
    *n = n_good;
}

static void make_plan(const struct cs_cuda_handle *h, struct cs_gemm_plan *p,
                      const struct cs_gemm *g)
{
    cublasLtMatmulHeuristicResult_t found = {};
    int n_found = 0;
    if (describe(p, g))
        cs_cuda_gemm_candidates(h, p, 1, &found, &n_found);
    if (n_found > 0) {
        p->algo = found.algo;
        p->has_algo = true;
        p->is_measured = cs_cuda_gemm_take_saved(h, p);
    }
}

static struct cs_gemm_plan *find_plan(const struct cs_cuda_handle *h, const struct cs_gemm *g,
                                      const struct cs_gemm_key *key)
{
    const uint64_t hash = hash_key(key);
    struct cs_gemm_plan *slot = nullptr;
    for (int i = 0; i < CS_GEMM_PROBES; i++) {
        slot = &h->gemm->plan[(hash + (uint64_t)i) % CS_GEMM_SLOTS];
        if (!slot->is_used)
            break;
        if (memcmp(&slot->key, key, sizeof *key) == 0)
            return slot;
    }
    drop_plan(slot);
    slot->key = *key;
    slot->is_used = true;
    make_plan(h, slot, g);
    return slot;
}

static struct cs_gemm_key key_of(const struct cs_gemm *g, cudaDataType_t in, cudaDataType_t out)
{
    const int64_t align_c = alignment_of(g->c), align_d = alignment_of(g->d);
    const bool has_c = g->beta != 0.0f;
    struct cs_gemm_key key = {};
    key.m = g->m, key.n = g->n, key.k = g->k;
    key.lda = g->lda, key.ldb = g->ldb, key.ldc = g->ldc;
    key.trans = (g->trans_a ? 1 : 0) | (g->trans_b ? 2 : 0);
    key.in_type = in, key.out_type = out;
    key.align_a = alignment_of(g->a), key.align_b = alignment_of(g->b);
    key.align_c = has_c && align_c < align_d ? align_c : align_d;
    key.epilogue = g->epilogue;
    key.beta = !has_c ? 0 : g->c == g->d ? 1 : 2;
    return key;
}

template <typename T> static constexpr cudaDataType_t type_of = CUDA_R_32F;
template <> constexpr cudaDataType_t type_of<__nv_bfloat16> = CUDA_R_16BF;

template <typename T, typename C> bool cs_cuda_gemm_run(struct cs_ctx *ctx, const struct cs_gemm *g)
{
    if (g->k <= 0)
        return false;
    struct cs_cuda_handle *h = cs_cuda_handle_of(ctx);
    const struct cs_gemm_key key = key_of(g, type_of<T>, type_of<C>);
    struct cs_gemm_plan *p = find_plan(h, g, &key);
    if (p->has_algo && h->gemm->candidates > 0 && !p->is_measured)
        cs_cuda_gemm_measure(ctx, p);
    if (!p->has_algo || !set_epilogue(p, g))
        return false;
    p->n_uses++;
    const void *c = g->beta != 0.0f ? g->c : g->d;
    const cublasStatus_t status = cublasLtMatmul(
        h->blas, p->desc, &g->alpha, g->b, p->a, g->a, p->b, &g->beta, c, p->c, g->d, p->c,
        &p->algo, h->gemm_workspace, CS_CUDA_GEMM_BYTES, cs_cuda_stream_of(ctx));
    if (status != CUBLAS_STATUS_SUCCESS)
        CS_CUDA_REFUSE(ctx, CS_INTERNAL, "gemm of %lld x %lld x %lld: %s", (long long)g->m,
                       (long long)g->n, (long long)g->k, cublasLtGetStatusString(status));
    return true;
}

template bool cs_cuda_gemm_run<float, float>(struct cs_ctx *, const struct cs_gemm *);
template bool cs_cuda_gemm_run<__nv_bfloat16, __nv_bfloat16>(struct cs_ctx *,
                                                             const struct cs_gemm *);
template bool cs_cuda_gemm_run<__nv_bfloat16, float>(struct cs_ctx *, const struct cs_gemm *);
template bool cs_cuda_gemm_run<float, __nv_bfloat16>(struct cs_ctx *, const struct cs_gemm *);
