/* One matrix product with an epilogue as cuBLASLt runs it, and the plans kept for it: between the
 * operators (gemm.cu, linear.cu), the cache of plans (gemm_plan.cu) and their choice by measurement
 * (gemm_tune.cu). */
#ifndef CS_KERNELS_CUDA_GEMM_GEMM_CUH
#define CS_KERNELS_CUDA_GEMM_GEMM_CUH

#include "kernels/cuda/cuda_ops.cuh"

/* d (m, n) = epilogue(alpha op(a) op(b) + beta c), row-major; c and d share type and stride, c may
 * be d. */
struct cs_gemm {
    int trans_a, trans_b;
    int64_t m, n, k, lda, ldb, ldc;
    float alpha, beta;
    const void *a, *b, *c;
    void *d;
    cublasLtEpilogue_t epilogue;
    const void *bias; /* (n), 16-byte aligned */
    const void *aux;  /* (m, n) contiguous, 16-byte aligned: pre-activation, read or written */
};

/* All that a plan depends on. Plain numbers: compared, hashed and filed as such. */
struct cs_gemm_key {
    int64_t m, n, k, lda, ldb, ldc;
    int64_t trans; /* 1: a, 2: b */
    int64_t in_type, out_type;
    int64_t align_a, align_b, align_c; /* bytes: 1..16; c: the lesser of c and d */
    int64_t epilogue;
    int64_t beta; /* 0: none, 1: c is d, 2: c is another matrix */
};

#define CS_GEMM_KEY_FIELDS (sizeof(struct cs_gemm_key) / sizeof(int64_t))

struct cs_gemm_plan {
    struct cs_gemm_key key;
    cublasLtMatmulDesc_t desc;
    cublasLtMatrixLayout_t a, b, c; /* cuBLASLt's order: operands swapped */
    cublasLtMatmulAlgo_t algo;
    bool is_used, has_algo, is_measured; /* measured: or from the file, or in vain */
    int64_t n_uses;
};

/* A choice read from a file of plans. */
struct cs_gemm_saved {
    struct cs_gemm_key key;
    cublasLtMatmulAlgo_t algo;
};

#define CS_GEMM_SLOTS  1024 /* open addressing; a full table drops the plan in the way */
#define CS_GEMM_PROBES 16

struct cs_cuda_gemm_cache {
    struct cs_gemm_plan plan[CS_GEMM_SLOTS];
    /* measured choice: see tune in kernels/device.h */
    int candidates; /* 0: the heuristic's first */
    char *path;     /* NULL: not filed */
    struct cs_gemm_saved *saved;
    size_t n_saved;
};

/* False: cuBLASLt has no kernel for it; nothing was launched. */
template <typename T, typename C>
bool cs_cuda_gemm_run(struct cs_ctx *ctx, const struct cs_gemm *g);

#define CS_GEMM_MOST 64 /* candidates asked for at most */

/* Candidates of a described plan, best first by the heuristic; *n <= CS_GEMM_MOST */
void cs_cuda_gemm_candidates(const struct cs_cuda_handle *h, const struct cs_gemm_plan *p, int most,
                             cublasLtMatmulHeuristicResult_t *found, int *n);
/* Take the algorithm that the file has for p; false: it has none that this library accepts. */
bool cs_cuda_gemm_take_saved(const struct cs_cuda_handle *h, struct cs_gemm_plan *p);
/* Replace the algorithm of p (the heuristic's first) by a filed or measured one; leaves it where
 * the stream is being captured or memory is short. */
void cs_cuda_gemm_measure(struct cs_ctx *ctx, struct cs_gemm_plan *p);

#endif
