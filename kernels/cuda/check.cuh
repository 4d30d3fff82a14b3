/* The handle behind cs_ctx and how operators report trouble: the first error is kept in the handle
 * (cs_device_ops.status returns it), later launches go on. Nothing here waits for the device. */
#ifndef CS_CUDA_CHECK_CUH
#define CS_CUDA_CHECK_CUH

#include <cublasLt.h>
#include <cuda_runtime.h>

#define _Noreturn [[noreturn]] /* C11 spelling in core/base/status.h */
#include "kernels/device.h"
#include "kernels/ops.h"
#undef _Noreturn

/* Bytes of the two scratch areas of a handle. */
#define CS_CUDA_GEMM_BYTES    ((size_t)32 << 20)
#define CS_CUDA_SCRATCH_BYTES ((size_t)32 << 20)

struct cs_cuda_gemm_cache; /* gemm.cu */

struct cs_cuda_handle {
    int device, processors;
    cublasLtHandle_t blas;
    struct cs_cuda_gemm_cache *gemm;
    void *gemm_workspace, *scratch;
    int capability_major;
    cudaStream_t allocating; /* memory comes from a pool, in order of this stream */
    struct cs_err error;     /* status CS_OK: none so far */
};

/* Fill err (when not NULL) and return status; text as for printf. */
enum cs_status cs_cuda_fail(struct cs_err *err, const char *file, int line, enum cs_status status,
                            const char *fmt, ...) CS_PRINTF(5, 6);
enum cs_status cs_cuda_status_of(cudaError_t code);

static inline struct cs_cuda_handle *cs_cuda_handle_of(const struct cs_ctx *ctx)
{
    return (struct cs_cuda_handle *)ctx->handle;
}

static inline cudaStream_t cs_cuda_stream_of(const struct cs_ctx *ctx)
{
    return (cudaStream_t)ctx->stream;
}

/* Keep the first error of a handle. */
#define CS_CUDA_REFUSE(ctx, code, ...)                                                             \
    do {                                                                                           \
        struct cs_err *sticky_ = &cs_cuda_handle_of(ctx)->error;                                   \
        if (sticky_->status == CS_OK)                                                              \
            cs_cuda_fail(sticky_, __FILE__, __LINE__, code, __VA_ARGS__);                          \
    } while (0)

#define CS_CUDA_NOTE(ctx, call, what)                                                              \
    do {                                                                                           \
        const cudaError_t code_ = (call);                                                          \
        if (code_ != cudaSuccess)                                                                  \
            CS_CUDA_REFUSE(ctx, cs_cuda_status_of(code_), "%s: %s", what,                          \
                           cudaGetErrorString(code_));                                             \
    } while (0)

/* After a launch. */
#define CS_CUDA_LAUNCHED(ctx, what) CS_CUDA_NOTE(ctx, cudaGetLastError(), what)

/* CS_CUDA(err, call): return the status of a failed call from the function. */
#define CS_CUDA(err, call)                                                                         \
    do {                                                                                           \
        const cudaError_t code_ = (call);                                                          \
        if (code_ != cudaSuccess) {                                                                \
            (void)cudaGetLastError(); /* reported here, not by the next launch */                  \
            return cs_cuda_fail(err, __FILE__, __LINE__, cs_cuda_status_of(code_), "%s: %s",       \
                                #call, cudaGetErrorString(code_));                                 \
        }                                                                                          \
    } while (0)

#endif
