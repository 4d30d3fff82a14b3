/* kernels/cuda/comm/nccl.cu with a library and a device that are pretended (fake.h). */
#include <dlfcn.h>

#include <condition_variable>
#include <cstdarg>
#include <cstdio>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "kernels/cuda/check.cuh"
#include "support/nccl/fake.h"

/* the plugin opens its library by name: here it is this file */
static void *open_fake(const char *name, int flags);
static void *find_fake(void *library, const char *name);

#define dlopen open_fake
#define dlsym  find_fake
#include "kernels/cuda/comm/nccl.cu"
#undef dlopen
#undef dlsym

struct group {
    int n = 0, come = 0, closing = 0;
    std::vector<int> asked; /* by rank: messages so far */
};

struct fake_rank {
    struct group *group;
    int rank;
};

struct fake_stream {
    struct fake_rank *rank = nullptr;
    int message = 0; /* the last that it was given */
};

static std::mutex lock;
static std::condition_variable change;
static std::map<std::string, group> groups;
static std::vector<void *> memory;
static std::vector<fake_rank *> ranks;
static enum fake_place stopped;
static bool is_released;
static ncclResult_t failure;
static const char *said = "a socket was closed";
static int n_ids, n_aborted, n_destroyed, n_in_calls;

/* one that is in a call of the library; others may be waited for, till they come or all are released */
struct call {
    std::unique_lock<std::mutex> held{lock};

    call()
    {
        n_in_calls++;
    }

    ~call()
    {
        n_in_calls--;
        change.notify_all();
    }

    template <class Done> bool wait(Done done)
    {
        change.notify_all();
        change.wait(held, [&] { return done() || is_released; });
        return done();
    }
};

static bool stands_still(int rank, enum fake_place place)
{
    return rank == 1 && stopped == place;
}

ncclResult_t ncclGetUniqueId(ncclUniqueId *id)
{
    call c;
    *id = {};
    snprintf(id->internal, sizeof id->internal, "id %d", n_ids++);
    return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t *comm, int n, ncclUniqueId id, int rank,
                                    ncclConfig_t *config)
{
    call c;
    struct group *g = &groups[id.internal];
    (void)config;
    g->n = n;
    g->asked.resize((size_t)n);
    ranks.push_back(new fake_rank{g, rank});
    *comm = ranks.back();
    if (failure != ncclSuccess)
        return failure;
    g->come += !stands_still(rank, FAKE_INIT);
    return c.wait([=] { return g->come == g->n; }) ? ncclSuccess : ncclRemoteError;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *state)
{
    call c;
    (void)comm;
    *state = failure;
    return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t comm)
{
    call c;
    comm->rank = -1; /* who uses it afterwards is seen */
    n_aborted++;
    return ncclSuccess;
}

ncclResult_t ncclCommFinalize(ncclComm_t comm)
{
    call c;
    struct group *g = comm->group;
    g->closing += !stands_still(comm->rank, FAKE_CLOSE);
    return c.wait([=] { return g->closing == g->n; }) ? ncclSuccess : ncclRemoteError;
}

ncclResult_t ncclCommDestroy(ncclComm_t comm)
{
    call c;
    (void)comm;
    n_destroyed++;
    return ncclSuccess;
}

ncclResult_t ncclGroupStart(void)
{
    return ncclSuccess;
}

ncclResult_t ncclGroupEnd(void)
{
    return ncclSuccess;
}

static ncclResult_t enqueue(ncclComm_t comm, cudaStream_t stream)
{
    call c;
    if (comm->rank < 0)
        return ncclSystemError;
    stream->rank = comm;
    stream->message++;
    comm->group->asked[(size_t)comm->rank] += !stands_still(comm->rank, FAKE_MESSAGE);
    return ncclSuccess;
}

ncclResult_t ncclSend(const void *, size_t, ncclDataType_t, int, ncclComm_t comm,
                      cudaStream_t stream)
{
    return enqueue(comm, stream);
}

ncclResult_t ncclRecv(void *, size_t, ncclDataType_t, int, ncclComm_t comm, cudaStream_t stream)
{
    return enqueue(comm, stream);
}

ncclResult_t ncclReduceScatter(const void *, void *, size_t, ncclDataType_t, ncclRedOp_t,
                               ncclComm_t comm, cudaStream_t stream)
{
    return enqueue(comm, stream);
}

ncclResult_t ncclAllReduce(const void *, void *, size_t, ncclDataType_t, ncclRedOp_t,
                           ncclComm_t comm, cudaStream_t stream)
{
    return enqueue(comm, stream);
}

ncclResult_t ncclAllGather(const void *, void *, size_t, ncclDataType_t, ncclComm_t comm,
                           cudaStream_t stream)
{
    return enqueue(comm, stream);
}

const char *ncclGetErrorString(ncclResult_t code)
{
    return code == ncclRemoteError   ? "remote process exited"
           : code == ncclSystemError ? "unhandled system error"
                                     : "an error";
}

const char *ncclGetLastError(ncclComm_t comm)
{
    (void)comm;
    return said;
}

static void *open_fake(const char *name, int flags)
{
    (void)flags;
    return std::string(name) == "libnccl.so.2" ? &groups : nullptr;
}

static void *find_fake(void *library, const char *name)
{
    static const std::map<std::string, void *> table = {
#define X(name) {#name, (void *)&::name},
        NCCL_FUNCTIONS(X)
#undef X
    };
    (void)library;
    return table.at(name);
}

/* ---- the device ---- */

cudaError_t cudaGetDevice(int *device)
{
    *device = 0;
    return cudaSuccess;
}

cudaError_t cudaSetDevice(int device)
{
    (void)device;
    return cudaSuccess;
}

cudaError_t cudaMalloc(void *out, size_t bytes)
{
    call c;
    memory.push_back(calloc(1, bytes));
    *(void **)out = memory.back();
    return cudaSuccess;
}

cudaError_t cudaFree(void *p)
{
    (void)p; /* fake_nccl_reset does it */
    return cudaSuccess;
}

cudaError_t cudaMemset(void *p, int value, size_t bytes)
{
    (void)p;
    (void)value;
    (void)bytes;
    return cudaSuccess;
}

cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind)
{
    (void)kind;
    memcpy(to, from, bytes);
    return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *out, unsigned flags)
{
    (void)flags;
    *out = new fake_stream();
    return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
    delete stream;
    return cudaSuccess;
}

cudaError_t cudaStreamQuery(cudaStream_t stream)
{
    call c;
    for (size_t r = 0; stream->rank != nullptr && r < stream->rank->group->asked.size(); r++)
        if (stream->rank->group->asked[r] < stream->message)
            return cudaErrorNotReady;
    return cudaSuccess;
}

cudaError_t cudaGetLastError(void)
{
    return cudaSuccess;
}

const char *cudaGetErrorString(cudaError_t code)
{
    return code == cudaSuccess ? "no error" : "an error of the device";
}

/* ---- what else the plugin has ---- */

enum cs_status cs_cuda_fail(struct cs_err *err, const char *file, int line, enum cs_status status,
                            const char *fmt, ...)
{
    va_list args;
    if (err == nullptr)
        return status;
    *err = {};
    err->status = status;
    err->file = file;
    err->line = line;
    va_start(args, fmt);
    vsnprintf(err->text, sizeof err->text, fmt, args);
    va_end(args);
    return status;
}

enum cs_status cs_cuda_status_of(cudaError_t code)
{
    return code == cudaSuccess ? CS_OK : CS_INTERNAL;
}

/* copy engines reach nobody */
enum cs_status cs_cuda_peers_new(int, int, bool, char[CS_CUDA_PEERS_HANDLE],
                                 struct cs_cuda_peers **out, struct cs_err *)
{
    *out = nullptr;
    return CS_UNSUPPORTED;
}

enum cs_status cs_cuda_peers_open(struct cs_cuda_peers *, int, const char *, struct cs_err *)
{
    return CS_UNSUPPORTED;
}

enum cs_status cs_cuda_peers_move(struct cs_cuda_peers *, const struct cs_device_move *, int,
                                  cudaStream_t, struct cs_err *)
{
    return CS_UNSUPPORTED;
}

void cs_cuda_peers_abort(struct cs_cuda_peers *)
{
}

void cs_cuda_peers_close(struct cs_cuda_peers *)
{
}

void cs_cuda_peers_free(struct cs_cuda_peers *)
{
}

/* ---- what tests ask for ---- */

void fake_nccl_stop(enum fake_place place)
{
    call c;
    stopped = place;
}

void fake_nccl_fail(int code, const char *text)
{
    call c;
    failure = (ncclResult_t)code;
    said = text;
}

void fake_nccl_release(void)
{
    std::unique_lock<std::mutex> held(lock);
    is_released = true;
    change.notify_all();
    change.wait(held, [] { return n_in_calls == 0; });
}

int fake_nccl_aborted(void)
{
    call c;
    return n_aborted;
}

int fake_nccl_destroyed(void)
{
    call c;
    return n_destroyed;
}

void fake_nccl_reset(void)
{
    call c;
    for (void *p : memory)
        free(p);
    for (fake_rank *r : ranks)
        delete r;
    memory.clear();
    ranks.clear();
    groups.clear();
    stopped = FAKE_NOWHERE;
    is_released = false;
    failure = ncclSuccess;
    said = "a socket was closed";
    n_aborted = n_destroyed = 0;
}
