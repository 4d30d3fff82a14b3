/* Pieces of messages pushed into the windows of other GPUs. */
#include "kernels/cuda/comm/peers.cuh"

#include <cuda.h>
#include <stdlib.h>
#include <string.h>

/* A piece takes 20 us on NVLink: long enough that waiting and counting are hidden behind it, short enough
 * that the copy out of the ring follows closely. */
enum { SLOTS = 4, COUNTER = 256 };

/* Counters begin at 0 again after 2^32 pieces, and are compared in a circle: this is behind all that anybody
 * waits for, however many there were. */
#define FAR (1u << 30)

/* of one host; with more, streams would share the device's queues, where one that waits holds up others */
enum { MOST_RANKS = 8 };

#define PIECE ((size_t)8 << 20)
#define RING  (SLOTS * PIECE)

static_assert(RING == CS_DEVICE_COMM_RING_BYTES && (int)MOST_RANKS == CS_DEVICE_COMM_RING_RANKS,
              "plans count what a window takes");

struct peer {
    char *window;         /* the peer's, as it is mapped here */
    cudaStream_t out, in; /* what goes there, what comes from there */
    uint32_t sent, taken; /* pieces so far */
    cudaEvent_t gone, come;
};

struct cs_cuda_peers {
    int rank, n, device;
    char *window;
    cudaEvent_t asked;
    struct peer peer[MOST_RANKS];
    decltype(&::cuStreamWaitValue32) wait;
    decltype(&::cuStreamWriteValue32) write;
};

static_assert(sizeof(cudaIpcMemHandle_t) == CS_CUDA_PEERS_HANDLE, "a handle is passed on as bytes");

/* ---- a window: rings by who writes them, counters of arrivals, counters of what is free ---- */

static size_t rings_bytes(const struct cs_cuda_peers *p)
{
    return (size_t)(p->n - 1) * RING;
}

/* in the window of `reader` */
static char *ring(char *window, int reader, int writer, uint32_t piece)
{
    return window + (size_t)(writer - (writer > reader)) * RING + piece % SLOTS * PIECE;
}

static CUdeviceptr arrivals(const struct cs_cuda_peers *p, char *window, int writer)
{
    return (CUdeviceptr)(window + rings_bytes(p) + (size_t)writer * COUNTER);
}

static CUdeviceptr freed(const struct cs_cuda_peers *p, char *window, int reader)
{
    return arrivals(p, window, p->n + reader);
}

static size_t counters_bytes(int n)
{
    return 2 * (size_t)n * COUNTER;
}

/* ---- opening ---- */

static enum cs_status entry(const char *name, void **out, struct cs_err *err)
{
    cudaDriverEntryPointQueryResult found;
    const cudaError_t code =
        cudaGetDriverEntryPointByVersion(name, out, 12000, cudaEnableDefault, &found);
    if (code != cudaSuccess || found != cudaDriverEntryPointSuccess)
        return cs_cuda_fail(err, __FILE__, __LINE__, CS_UNSUPPORTED, "the driver has no %s", name);
    return CS_OK;
}

static enum cs_status fill(struct cs_cuda_peers *p, char *handle, struct cs_err *err)
{
    void *wait, *write;
    cudaIpcMemHandle_t own;
    CS_CUDA(err, cudaGetDevice(&p->device));
    CS_TRY(entry("cuStreamWaitValue32", &wait, err));
    CS_TRY(entry("cuStreamWriteValue32", &write, err));
    p->wait = (decltype(p->wait))wait;
    p->write = (decltype(p->write))write;
    CS_CUDA(err, cudaMalloc(&p->window, rings_bytes(p) + counters_bytes(p->n)));
    CS_CUDA(err, cudaMemset(p->window + rings_bytes(p), 0, counters_bytes(p->n)));
    CS_CUDA(err, cudaDeviceSynchronize());
    CS_CUDA(err, cudaIpcGetMemHandle(&own, p->window));
    CS_CUDA(err, cudaEventCreateWithFlags(&p->asked, cudaEventDisableTiming));
    memcpy(handle, &own, sizeof own);
    return CS_OK;
}

enum cs_status cs_cuda_peers_new(int rank, int n, char handle[CS_CUDA_PEERS_HANDLE],
                                 struct cs_cuda_peers **out, struct cs_err *err)
{
    *out = nullptr;
    memset(handle, 0, CS_CUDA_PEERS_HANDLE);
    if (n > MOST_RANKS)
        return cs_cuda_fail(err, __FILE__, __LINE__, CS_UNSUPPORTED, "%d ranks are too many", n);
    struct cs_cuda_peers *p = (struct cs_cuda_peers *)calloc(1, sizeof *p);
    if (p == nullptr)
        return cs_cuda_fail(err, __FILE__, __LINE__, CS_NO_MEMORY, "no memory for a window");
    p->rank = rank;
    p->n = n;
    const enum cs_status status = fill(p, handle, err);
    if (status != CS_OK)
        cs_cuda_peers_free(p);
    else
        *out = p;
    return status;
}

enum cs_status cs_cuda_peers_open(struct cs_cuda_peers *peers, int rank, const char *handle,
                                  struct cs_err *err)
{
    struct peer *peer = &peers->peer[rank];
    cudaIpcMemHandle_t theirs;
    void *window = nullptr;
    int least = 0, most = 0;
    if (rank == peers->rank)
        return CS_OK;
    memcpy(&theirs, handle, sizeof theirs);
    CS_CUDA(err, cudaIpcOpenMemHandle(&window, theirs, cudaIpcMemLazyEnablePeerAccess));
    peer->window = (char *)window;
    CS_CUDA(err, cudaDeviceGetStreamPriorityRange(&least, &most));
    CS_CUDA(err, cudaStreamCreateWithPriority(&peer->out, cudaStreamNonBlocking, most));
    CS_CUDA(err, cudaStreamCreateWithPriority(&peer->in, cudaStreamNonBlocking, most));
    CS_CUDA(err, cudaEventCreateWithFlags(&peer->gone, cudaEventDisableTiming));
    CS_CUDA(err, cudaEventCreateWithFlags(&peer->come, cudaEventDisableTiming));
    return CS_OK;
}

/* ---- messages ---- */

static enum cs_status check_driver(CUresult code, const char *what, struct cs_err *err)
{
    return code == CUDA_SUCCESS ? CS_OK
                                : cs_cuda_fail(err, __FILE__, __LINE__, CS_INTERNAL, "%s: error %d",
                                               what, (int)code);
}

static enum cs_status push(struct cs_cuda_peers *p, const struct cs_device_move *m,
                           struct cs_err *err)
{
    struct peer *to = &p->peer[m->peer];
    for (size_t at = 0; at < m->bytes; at += PIECE) {
        const size_t bytes = m->bytes - at < PIECE ? m->bytes - at : PIECE;
        const uint32_t piece = to->sent++;
        CS_TRY(check_driver(p->wait(to->out, freed(p, p->window, m->peer), piece + 1 - SLOTS,
                                    CU_STREAM_WAIT_VALUE_GEQ),
                            "waiting for room", err));
        CS_CUDA(err, cudaMemcpyAsync(ring(to->window, m->peer, p->rank, piece),
                                     (const char *)m->data + at, bytes, cudaMemcpyDeviceToDevice,
                                     to->out));
        CS_TRY(check_driver(p->write(to->out, arrivals(p, to->window, p->rank), piece + 1,
                                     CU_STREAM_WRITE_VALUE_DEFAULT),
                            "telling of a piece", err));
    }
    return CS_OK;
}

static enum cs_status pull(struct cs_cuda_peers *p, const struct cs_device_move *m,
                           struct cs_err *err)
{
    struct peer *from = &p->peer[m->peer];
    for (size_t at = 0; at < m->bytes; at += PIECE) {
        const size_t bytes = m->bytes - at < PIECE ? m->bytes - at : PIECE;
        const uint32_t piece = from->taken++;
        CS_TRY(check_driver(
            p->wait(from->in, arrivals(p, p->window, m->peer), piece + 1, CU_STREAM_WAIT_VALUE_GEQ),
            "waiting for a piece", err));
        CS_CUDA(err, cudaMemcpyAsync((char *)m->data + at, ring(p->window, p->rank, m->peer, piece),
                                     bytes, cudaMemcpyDeviceToDevice, from->in));
        CS_TRY(check_driver(p->write(from->in, freed(p, from->window, p->rank), piece + 1,
                                     CU_STREAM_WRITE_VALUE_DEFAULT),
                            "giving room back", err));
    }
    return CS_OK;
}

static enum cs_status join(cudaStream_t stream, cudaStream_t other, cudaEvent_t event,
                           struct cs_err *err)
{
    CS_CUDA(err, cudaEventRecord(event, other));
    CS_CUDA(err, cudaStreamWaitEvent(stream, event, 0));
    return CS_OK;
}

/* what this rank sends to itself; the first that it receives is the first that it sent */
static enum cs_status keep(int rank, const struct cs_device_move *moves, int n, cudaStream_t stream,
                           struct cs_err *err)
{
    int to = 0;
    for (int i = 0; i < n; i++) {
        if (moves[i].peer != rank || !moves[i].is_send)
            continue;
        while (to < n && (moves[to].peer != rank || moves[to].is_send))
            to++;
        if (to == n)
            return cs_cuda_fail(err, __FILE__, __LINE__, CS_INTERNAL, "nobody receives that");
        CS_CUDA(err, cudaMemcpyAsync(moves[to++].data, moves[i].data, moves[i].bytes,
                                     cudaMemcpyDeviceToDevice, stream));
    }
    return CS_OK;
}

enum cs_status cs_cuda_peers_move(struct cs_cuda_peers *peers, const struct cs_device_move *moves,
                                  int n, cudaStream_t stream, struct cs_err *err)
{
    bool goes[MOST_RANKS] = {}, comes[MOST_RANKS] = {};
    CS_CUDA(err, cudaEventRecord(peers->asked, stream));
    for (int i = 0; i < n; i++) {
        const struct cs_device_move *m = &moves[i];
        struct peer *peer = &peers->peer[m->peer];
        if (m->peer == peers->rank)
            continue;
        bool *const is_met = m->is_send ? &goes[m->peer] : &comes[m->peer];
        if (!*is_met)
            CS_CUDA(err, cudaStreamWaitEvent(m->is_send ? peer->out : peer->in, peers->asked, 0));
        *is_met = true;
        CS_TRY(m->is_send ? push(peers, m, err) : pull(peers, m, err));
    }
    CS_TRY(keep(peers->rank, moves, n, stream, err));
    for (int r = 0; r < peers->n; r++) {
        struct peer *peer = &peers->peer[r];
        if (goes[r])
            CS_TRY(join(stream, peer->out, peer->gone, err));
        if (comes[r])
            CS_TRY(join(stream, peer->in, peer->come, err));
    }
    return CS_OK;
}

/* ---- the end ---- */

void cs_cuda_peers_abort(struct cs_cuda_peers *peers)
{
    struct cs_cuda_peers *p = peers;
    cudaStream_t stream;
    if (p == nullptr || cudaSetDevice(p->device) != cudaSuccess || /* of another thread */
        cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) != cudaSuccess)
        return;
    for (int r = 0; r < p->n; r++) {
        (void)p->write(stream, arrivals(p, p->window, r), p->peer[r].taken + FAR,
                       CU_STREAM_WRITE_VALUE_DEFAULT);
        (void)p->write(stream, freed(p, p->window, r), p->peer[r].sent + FAR,
                       CU_STREAM_WRITE_VALUE_DEFAULT);
    }
    cudaStreamSynchronize(stream);
    cudaStreamDestroy(stream);
    free(p);
}

void cs_cuda_peers_close(struct cs_cuda_peers *peers)
{
    (void)cudaSetDevice(peers->device);
    for (int r = 0; r < peers->n; r++) {
        struct peer *peer = &peers->peer[r];
        if (peer->window == nullptr)
            continue;
        if (peer->out != nullptr)
            cudaStreamSynchronize(peer->out);
        if (peer->in != nullptr)
            cudaStreamSynchronize(peer->in);
        cudaIpcCloseMemHandle(peer->window);
        peer->window = nullptr;
    }
}

void cs_cuda_peers_free(struct cs_cuda_peers *peers)
{
    if (peers == nullptr)
        return;
    cs_cuda_peers_close(peers);
    for (int r = 0; r < peers->n; r++) {
        struct peer *peer = &peers->peer[r];
        if (peer->out != nullptr)
            cudaStreamDestroy(peer->out);
        if (peer->in != nullptr)
            cudaStreamDestroy(peer->in);
        if (peer->gone != nullptr)
            cudaEventDestroy(peer->gone);
        if (peer->come != nullptr)
            cudaEventDestroy(peer->come);
    }
    if (peers->asked != nullptr)
        cudaEventDestroy(peers->asked);
    cudaFree(peers->window);
    free(peers);
}
