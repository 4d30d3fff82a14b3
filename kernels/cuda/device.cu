/* Memory, copies, streams, events and the handle: thin calls of the CUDA runtime that turn its
 * codes into statuses with a text. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "kernels/cuda/comm/nccl.cuh"
#include "kernels/cuda/cuda_ops.cuh"

enum cs_status cs_cuda_fail(struct cs_err *err, const char *file, int line, enum cs_status status,
                            const char *fmt, ...)
{
    if (err == nullptr)
        return status;
    va_list args;
    va_start(args, fmt);
    err->status = status;
    err->file = file;
    err->line = line;
    vsnprintf(err->text, sizeof err->text, fmt, args);
    va_end(args);
    return status;
}

enum cs_status cs_cuda_status_of(cudaError_t code)
{
    switch (code) {
    case cudaSuccess:
        return CS_OK;
    case cudaErrorMemoryAllocation:
        return CS_NO_MEMORY;
    case cudaErrorInsufficientDriver:
    case cudaErrorNoDevice:
    case cudaErrorInvalidDevice:
    case cudaErrorNoKernelImageForDevice:
    case cudaErrorUnsupportedPtxVersion:
        return CS_UNSUPPORTED;
    default:
        return CS_INTERNAL;
    }
}

static enum cs_status count(int *n, struct cs_err *err)
{
    *n = 0;
    CS_CUDA(err, cudaGetDeviceCount(n));
    return CS_OK;
}

static enum cs_status properties(int index, struct cs_device_properties *out, struct cs_err *err)
{
    cudaDeviceProp p;
    CS_CUDA(err, cudaGetDeviceProperties(&p, index));
    *out = {};
    snprintf(out->name, sizeof out->name, "%.*s", (int)sizeof out->name - 1, p.name);
    out->memory_bytes = p.totalGlobalMem;
    out->capability_major = p.major;
    out->capability_minor = p.minor;
    out->processors = p.multiProcessorCount;
    out->l2_bytes = p.l2CacheSize;
    return CS_OK;
}

static void close_handle(void *handle)
{
    struct cs_cuda_handle *h = (struct cs_cuda_handle *)handle;
    if (h == nullptr)
        return;
    cs_cuda_gemm_cache_free(h->gemm);
    if (h->blas != nullptr)
        cublasLtDestroy(h->blas);
    if (h->allocating != nullptr)
        cudaStreamDestroy(h->allocating);
    cudaFree(h->gemm_workspace);
    cudaFree(h->scratch);
    free(h);
}

/* cudaMalloc may wait for everything that runs, also for a message whose peer waits for us: a pool
 * that keeps its memory does not. */
static enum cs_status open_pool(struct cs_cuda_handle *h, struct cs_err *err)
{
    cudaMemPool_t pool;
    uint64_t keep = UINT64_MAX;
    CS_CUDA(err, cudaStreamCreateWithFlags(&h->allocating, cudaStreamNonBlocking));
    CS_CUDA(err, cudaDeviceGetDefaultMemPool(&pool, h->device));
    CS_CUDA(err, cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &keep));
    return CS_OK;
}

static enum cs_status fill_handle(struct cs_cuda_handle *h, struct cs_err *err)
{
    CS_CUDA(err, cudaSetDevice(h->device));
    CS_CUDA(err, cudaDeviceGetAttribute(&h->processors, cudaDevAttrMultiProcessorCount, h->device));
    CS_CUDA(err, cudaDeviceGetAttribute(&h->capability_major, cudaDevAttrComputeCapabilityMajor,
                                        h->device));
    CS_TRY(open_pool(h, err));
    CS_CUDA(err, cudaMalloc(&h->gemm_workspace, CS_CUDA_GEMM_BYTES));
    CS_CUDA(err, cudaMalloc(&h->scratch, CS_CUDA_SCRATCH_BYTES));
    const cublasStatus_t blas = cublasLtCreate(&h->blas);
    if (blas != CUBLAS_STATUS_SUCCESS)
        return cs_cuda_fail(err, __FILE__, __LINE__, CS_UNSUPPORTED, "cublasLtCreate: %s",
                            cublasLtGetStatusString(blas));
    h->gemm = cs_cuda_gemm_cache_new();
    if (h->gemm == nullptr)
        return cs_cuda_fail(err, __FILE__, __LINE__, CS_NO_MEMORY, "no memory for GEMM plans");
    return CS_OK;
}

static enum cs_status open_handle(int index, void **handle, struct cs_err *err)
{
    *handle = nullptr;
    struct cs_cuda_handle *h = (struct cs_cuda_handle *)calloc(1, sizeof *h);
    if (h == nullptr)
        return cs_cuda_fail(err, __FILE__, __LINE__, CS_NO_MEMORY, "no memory for a GPU handle");
    h->device = index;
    const enum cs_status status = fill_handle(h, err);
    if (status != CS_OK)
        close_handle(h);
    else
        *handle = h;
    return status;
}

static enum cs_status status(void *handle, struct cs_err *err)
{
    struct cs_cuda_handle *h = (struct cs_cuda_handle *)handle;
    if (h->error.status == CS_OK) {
        const cudaError_t code = cudaPeekAtLastError();
        if (code != cudaSuccess)
            cs_cuda_fail(&h->error, __FILE__, __LINE__, cs_cuda_status_of(code), "GPU %d: %s",
                         h->device, cudaGetErrorString(code));
    }
    if (h->error.status != CS_OK && err != nullptr)
        *err = h->error;
    return h->error.status;
}

static enum cs_status alloc(void *handle, size_t bytes, void **p, struct cs_err *err)
{
    const struct cs_cuda_handle *h = (const struct cs_cuda_handle *)handle;
    *p = nullptr;
    CS_CUDA(err, cudaMallocAsync(p, bytes, h->allocating));
    CS_CUDA(err, cudaStreamSynchronize(h->allocating));
    return CS_OK;
}

static void free_device(void *, void *p)
{
    cudaFree(p);
}

static enum cs_status alloc_host(void *, size_t bytes, void **p, struct cs_err *err)
{
    *p = nullptr;
    CS_CUDA(err, cudaMallocHost(p, bytes));
    return CS_OK;
}

static void free_host(void *, void *p)
{
    cudaFreeHost(p);
}

static enum cs_status copy(void *, void *stream, void *to, const void *from, size_t bytes,
                           struct cs_err *err)
{
    CS_CUDA(err, cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, (cudaStream_t)stream));
    return CS_OK;
}

static enum cs_status fill(void *, void *stream, void *p, int byte, size_t bytes,
                           struct cs_err *err)
{
    CS_CUDA(err, cudaMemsetAsync(p, byte, bytes, (cudaStream_t)stream));
    return CS_OK;
}

static enum cs_status stream_create(void *, void **stream, struct cs_err *err)
{
    CS_CUDA(err, cudaStreamCreateWithFlags((cudaStream_t *)stream, cudaStreamNonBlocking));
    return CS_OK;
}

static enum cs_status stream_create_urgent(void *, void **stream, struct cs_err *err)
{
    int least, greatest;
    CS_CUDA(err, cudaDeviceGetStreamPriorityRange(&least, &greatest));
    CS_CUDA(err,
            cudaStreamCreateWithPriority((cudaStream_t *)stream, cudaStreamNonBlocking, greatest));
    return CS_OK;
}

static void stream_destroy(void *, void *stream)
{
    if (stream != nullptr)
        cudaStreamDestroy((cudaStream_t)stream);
}

static enum cs_status stream_sync(void *, void *stream, struct cs_err *err)
{
    CS_CUDA(err, cudaStreamSynchronize((cudaStream_t)stream));
    return CS_OK;
}

static enum cs_status event_create(void *, void **event, struct cs_err *err)
{
    CS_CUDA(err, cudaEventCreate((cudaEvent_t *)event));
    return CS_OK;
}

static void event_destroy(void *, void *event)
{
    if (event != nullptr)
        cudaEventDestroy((cudaEvent_t)event);
}

static enum cs_status event_record(void *, void *event, void *stream, struct cs_err *err)
{
    CS_CUDA(err, cudaEventRecord((cudaEvent_t)event, (cudaStream_t)stream));
    return CS_OK;
}

static enum cs_status stream_wait(void *, void *stream, void *event, struct cs_err *err)
{
    CS_CUDA(err, cudaStreamWaitEvent((cudaStream_t)stream, (cudaEvent_t)event, 0));
    return CS_OK;
}

static enum cs_status event_query(void *, void *event, struct cs_err *err)
{
    const cudaError_t code = cudaEventQuery((cudaEvent_t)event);
    if (code == cudaErrorNotReady) {
        (void)cudaGetLastError();
        return cs_cuda_fail(err, __FILE__, __LINE__, CS_STATE, "the event is not reached yet");
    }
    CS_CUDA(err, code);
    return CS_OK;
}

static enum cs_status event_elapsed(void *, void *begin, void *end, double *ms, struct cs_err *err)
{
    float value = 0.0f;
    CS_CUDA(err, cudaEventElapsedTime(&value, (cudaEvent_t)begin, (cudaEvent_t)end));
    *ms = value;
    return CS_OK;
}

static enum cs_status capture_begin(void *handle, void *stream, struct cs_err *err)
{
    CS_TRY(status(handle, err)); /* so that what capture_end finds is the capture's */
    CS_CUDA(err, cudaStreamBeginCapture((cudaStream_t)stream, cudaStreamCaptureModeThreadLocal));
    return CS_OK;
}

/* An operator that could not be captured has left its error in the handle. Nothing has run: the
 * error goes to the caller instead, and the handle is as it was. */
static enum cs_status capture_end(void *handle, void *stream, void **graph, struct cs_err *err)
{
    struct cs_cuda_handle *h = (struct cs_cuda_handle *)handle;
    cudaGraph_t recorded = nullptr;
    cudaGraphExec_t exec = nullptr;
    *graph = nullptr;
    cudaError_t code = cudaStreamEndCapture((cudaStream_t)stream, &recorded);
    const struct cs_err noticed = h->error;
    h->error = {};
    if (code == cudaSuccess && noticed.status == CS_OK)
        code = cudaGraphInstantiate(&exec, recorded, 0);
    if (exec != nullptr && code == cudaSuccess) /* else the first launch does, and may wait */
        code = cudaGraphUpload(exec, (cudaStream_t)stream);
    if (recorded != nullptr)
        cudaGraphDestroy(recorded);
    if (code != cudaSuccess && exec != nullptr)
        cudaGraphExecDestroy(exec);
    (void)cudaGetLastError();
    if (noticed.status != CS_OK) {
        if (err != nullptr)
            *err = noticed;
        return noticed.status;
    }
    CS_CUDA(err, code);
    *graph = exec;
    return CS_OK;
}

static enum cs_status graph_launch(void *, void *graph, void *stream, struct cs_err *err)
{
    CS_CUDA(err, cudaGraphLaunch((cudaGraphExec_t)graph, (cudaStream_t)stream));
    return CS_OK;
}

static void graph_destroy(void *, void *graph)
{
    if (graph != nullptr)
        cudaGraphExecDestroy((cudaGraphExec_t)graph);
}

const struct cs_device_ops cs_cuda_device_ops = {
    .version = CS_DEVICE_VERSION,
    .ops_f32 = &cs_cuda_table_f32,
    .comm = &cs_cuda_comm_ops,
    .count = count,
    .properties = properties,
    .open = open_handle,
    .close = close_handle,
    .status = status,
    .alloc = alloc,
    .free = free_device,
    .alloc_host = alloc_host,
    .free_host = free_host,
    .copy = copy,
    .fill = fill,
    .stream_create = stream_create,
    .stream_create_urgent = stream_create_urgent,
    .stream_destroy = stream_destroy,
    .stream_sync = stream_sync,
    .event_create = event_create,
    .event_destroy = event_destroy,
    .event_record = event_record,
    .stream_wait = stream_wait,
    .event_query = event_query,
    .event_elapsed = event_elapsed,
    .tune = cs_cuda_tune,
    .tune_used = cs_cuda_tune_used,
    .capture_begin = capture_begin,
    .capture_end = capture_end,
    .graph_launch = graph_launch,
    .graph_destroy = graph_destroy,
};
