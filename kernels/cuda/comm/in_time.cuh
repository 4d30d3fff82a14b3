/* Calls that wait for other ranks, who may never come, die or stand still: on a thread of their own, within a time. A
 * file of its own, so that what is here needs no library of messages. */
#ifndef CS_CUDA_COMM_IN_TIME_CUH
#define CS_CUDA_COMM_IN_TIME_CUH

#include <time.h>

#include <chrono>
#include <exception>
#include <future>
#include <thread>

#include "kernels/cuda/check.cuh"

/* How long ranks that have met wait for each other, to open a communicator and to close it. */
#ifndef CS_CUDA_COMM_MS
#define CS_CUDA_COMM_MS 60000
#endif

/* What waits for the device gives up before who waits for it does. */
static constexpr int cs_cuda_leave_ms = CS_CUDA_COMM_MS + CS_CUDA_COMM_MS / 12;

typedef std::chrono::steady_clock::time_point cs_cuda_time;

struct cs_cuda_answer {
    enum cs_status status;
    struct cs_err err;
};

/* Runs call(err), which takes *until as the time till which it waits for the device, CS_CUDA_COMM_MS from now. What has
 * not ended by cs_cuda_leave_ms is left behind with its thread, which goes on to use what it was given: CS_TIMEOUT, and
 * who is told that ends the process without its destructors. The current device is the thread's too. */
template <class Call>
enum cs_status cs_cuda_in_time(const char *what, cs_cuda_time *until, Call call, struct cs_err *err)
{
    int device;
    std::future<cs_cuda_answer> future;
    CS_CUDA(err, cudaGetDevice(&device));
    *until = std::chrono::steady_clock::now() + std::chrono::milliseconds(CS_CUDA_COMM_MS);
    try {
        std::packaged_task<cs_cuda_answer()> task([call, device] {
            cs_cuda_answer a = {};
            const cudaError_t code = cudaSetDevice(device);
            a.status = code == cudaSuccess
                           ? call(&a.err)
                           : cs_cuda_fail(&a.err, __FILE__, __LINE__, CS_INTERNAL, "device %d: %s",
                                          device, cudaGetErrorString(code));
            return a;
        });
        future = task.get_future();
        std::thread(std::move(task)).detach();
    } catch (const std::exception &e) { /* no memory or no thread: nothing has begun */
        return cs_cuda_fail(err, __FILE__, __LINE__, CS_NO_MEMORY, "%s: no thread: %s", what,
                            e.what());
    }
    if (future.wait_for(std::chrono::milliseconds(cs_cuda_leave_ms)) != std::future_status::ready)
        return cs_cuda_fail(err, __FILE__, __LINE__, CS_TIMEOUT,
                            "%s: other ranks did not come to it within %g s", what,
                            cs_cuda_leave_ms / 1000.0);
    const cs_cuda_answer a = future.get();
    if (err != nullptr)
        *err = a.err;
    return a.status;
}

/* Waits for what other ranks take part in. CS_PEER_GONE: it is not done at that time; what is on the stream stays. */
static inline enum cs_status cs_cuda_await(cudaStream_t stream, cs_cuda_time until,
                                           const char *what, struct cs_err *err)
{
    const struct timespec nap = {0, 20000};
    cudaError_t code = cudaStreamQuery(stream);
    while (code == cudaErrorNotReady && std::chrono::steady_clock::now() < until) {
        nanosleep(&nap, nullptr);
        code = cudaStreamQuery(stream);
    }
    (void)cudaGetLastError(); /* "not ready" is not what went wrong with others */
    if (code == cudaErrorNotReady)
        return cs_cuda_fail(err, __FILE__, __LINE__, CS_PEER_GONE,
                            "%s: other ranks did not take part within %g s", what,
                            CS_CUDA_COMM_MS / 1000.0);
    return code == cudaSuccess ? CS_OK
                               : cs_cuda_fail(err, __FILE__, __LINE__, cs_cuda_status_of(code),
                                              "%s: %s", what, cudaGetErrorString(code));
}

#endif
