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

/* smaller ones share what a handle opens with others */
#define LEAST ((size_t)2 << 20)

#define PIECE      ((size_t)8 << 20)
#define RING       (SLOTS * PIECE)
#define LANE_PIECE (PIECE / 2)
#define LANE_RING  (SLOTS * LANE_PIECE)

static_assert(RING == CS_DEVICE_COMM_RING_BYTES && LANE_RING == CS_DEVICE_COMM_LANE_BYTES &&
                  (int)MOST_RANKS == CS_DEVICE_COMM_RING_RANKS,
              "plans count what a window takes");

struct peer {
    char *window;         /* the peer's, as it is mapped here */
    cudaStream_t out, in; /* what goes there, what comes from there; of a lane none */
    uint32_t sent, taken; /* pieces so far */
    cudaEvent_t gone, come;
};

struct cs_cuda_peers {
    int rank, n, device;
    bool is_lane;
    char *window;
    cudaEvent_t asked;
    struct peer peer[MOST_RANKS];
    decltype(&::cuStreamWaitValue32) wait;
    decltype(&::cuStreamWriteValue32) write;
};

static_assert(sizeof(cudaIpcMemHandle_t) == CS_CUDA_PEERS_HANDLE, "a handle is passed on as bytes");

/* ---- a window: rings by who writes them, counters of arrivals, counters of what is free ---- */

static size_t piece_bytes(const struct cs_cuda_peers *p)
{
    return p->is_lane ? LANE_PIECE : PIECE;
}

static size_t rings_bytes(const struct cs_cuda_peers *p, int reader)
{
    return p->is_lane && reader == 0 ? 0 : (size_t)(p->n - 1) * SLOTS * piece_bytes(p);
}

static char *window_of(const struct cs_cuda_peers *p, int rank)
{
    return rank == p->rank ? p->window : p->peer[rank].window;
}

/* in the window of `reader` */
static char *slot(const struct cs_cuda_peers *p, int reader, int writer, uint32_t piece)
{
    const uint32_t number = (uint32_t)(writer - (writer > reader)) * SLOTS + piece % SLOTS;
    return window_of(p, reader) + number * piece_bytes(p);
}

/* in the window of `reader` */
static CUdeviceptr arrivals(const struct cs_cuda_peers *p, int reader, int writer)
{
    return (CUdeviceptr)(window_of(p, reader) + rings_bytes(p, reader) + (size_t)writer * COUNTER);
}

/* in the window of `writer` */
static CUdeviceptr freed(const struct cs_cuda_peers *p, int writer, int reader)
{
    return arrivals(p, writer, p->n + reader);
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
    const size_t rings = rings_bytes(p, p->rank), all = rings + counters_bytes(p->n);
    CS_CUDA(err, cudaMalloc(&p->window, all > LEAST ? all : LEAST));
    CS_CUDA(err, cudaMemset(p->window + rings, 0, counters_bytes(p->n)));
    CS_CUDA(err, cudaDeviceSynchronize());
    CS_CUDA(err, cudaIpcGetMemHandle(&own, p->window));
    CS_CUDA(err, cudaEventCreateWithFlags(&p->asked, cudaEventDisableTiming));
    memcpy(handle, &own, sizeof own);
    return CS_OK;
}

enum cs_status cs_cuda_peers_new(int rank, int n, bool is_lane, char handle[CS_CUDA_PEERS_HANDLE],
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
    p->is_lane = is_lane;
    const enum cs_status status = fill(p, handle, err);
    if (status != CS_OK)
        cs_cuda_peers_free(p);
    else
        *out = p;
    return status;
}

static enum cs_status open_streams(struct peer *peer, struct cs_err *err)
{
    int least = 0, most = 0;
    CS_CUDA(err, cudaDeviceGetStreamPriorityRange(&least, &most));
    CS_CUDA(err, cudaStreamCreateWithPriority(&peer->out, cudaStreamNonBlocking, most));
    CS_CUDA(err, cudaStreamCreateWithPriority(&peer->in, cudaStreamNonBlocking, most));
    CS_CUDA(err, cudaEventCreateWithFlags(&peer->gone, cudaEventDisableTiming));
    CS_CUDA(err, cudaEventCreateWithFlags(&peer->come, cudaEventDisableTiming));
    return CS_OK;
}

enum cs_status cs_cuda_peers_open(struct cs_cuda_peers *peers, int rank, const char *handle,
                                  struct cs_err *err)
{
    struct peer *peer = &peers->peer[rank];
    cudaIpcMemHandle_t theirs;
    void *window = nullptr;
    if (rank == peers->rank)
        return CS_OK;
    memcpy(&theirs, handle, sizeof theirs);
    CS_CUDA(err, cudaIpcOpenMemHandle(&window, theirs, cudaIpcMemLazyEnablePeerAccess));
    peer->window = (char *)window;
    return peers->is_lane ? CS_OK : open_streams(peer, err);
}

/* ---- messages ---- */

static enum cs_status check_driver(CUresult code, const char *what, struct cs_err *err)
{
    return code == CUDA_SUCCESS ? CS_OK
                                : cs_cuda_fail(err, __FILE__, __LINE__, CS_INTERNAL, "%s: error %d",
                                               what, (int)code);
}

static enum cs_status push(struct cs_cuda_peers *p, const struct cs_device_move *m,
                           cudaStream_t stream, struct cs_err *err)
{
    struct peer *to = &p->peer[m->peer];
    const size_t most = piece_bytes(p);
    for (size_t at = 0; at < m->bytes; at += most) {
        const size_t bytes = m->bytes - at < most ? m->bytes - at : most;
        const uint32_t piece = to->sent++;
        CS_TRY(check_driver(p->wait(stream, freed(p, p->rank, m->peer), piece + 1 - SLOTS,
                                    CU_STREAM_WAIT_VALUE_GEQ),
                            "waiting for room", err));
        CS_CUDA(err, cudaMemcpyAsync(slot(p, m->peer, p->rank, piece), (const char *)m->data + at,
                                     bytes, cudaMemcpyDeviceToDevice, stream));
        CS_TRY(check_driver(p->write(stream, arrivals(p, m->peer, p->rank), piece + 1,
                                     CU_STREAM_WRITE_VALUE_DEFAULT),
                            "telling of a piece", err));
    }
    return CS_OK;
}

static enum cs_status pull(struct cs_cuda_peers *p, const struct cs_device_move *m,
                           cudaStream_t stream, struct cs_err *err)
{
    struct peer *from = &p->peer[m->peer];
    const size_t most = piece_bytes(p);
    for (size_t at = 0; at < m->bytes; at += most) {
        const size_t bytes = m->bytes - at < most ? m->bytes - at : most;
        const uint32_t piece = from->taken++;
        CS_TRY(check_driver(
            p->wait(stream, arrivals(p, p->rank, m->peer), piece + 1, CU_STREAM_WAIT_VALUE_GEQ),
            "waiting for a piece", err));
        CS_CUDA(err, cudaMemcpyAsync((char *)m->data + at, slot(p, p->rank, m->peer, piece), bytes,
                                     cudaMemcpyDeviceToDevice, stream));
        CS_TRY(check_driver(
            p->write(stream, freed(p, m->peer, p->rank), piece + 1, CU_STREAM_WRITE_VALUE_DEFAULT),
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

static enum cs_status move_one(struct cs_cuda_peers *p, const struct cs_device_move *m,
                               cudaStream_t stream, struct cs_err *err)
{
    return m->is_send ? push(p, m, stream, err) : pull(p, m, stream, err);
}

static enum cs_status move_on_lane(struct cs_cuda_peers *p, const struct cs_device_move *moves,
                                   int n, cudaStream_t stream, struct cs_err *err)
{
    for (int i = 0; i < n; i++)
        CS_TRY(move_one(p, &moves[i], stream, err));
    return CS_OK;
}

enum cs_status cs_cuda_peers_move(struct cs_cuda_peers *peers, const struct cs_device_move *moves,
                                  int n, cudaStream_t stream, struct cs_err *err)
{
    if (peers->is_lane)
        return move_on_lane(peers, moves, n, stream, err);
    bool goes[MOST_RANKS] = {}, comes[MOST_RANKS] = {};
    CS_CUDA(err, cudaEventRecord(peers->asked, stream));
    for (int i = 0; i < n; i++) {
        const struct cs_device_move *m = &moves[i];
        struct peer *peer = &peers->peer[m->peer];
        if (m->peer == peers->rank)
            continue;
        bool *const is_met = m->is_send ? &goes[m->peer] : &comes[m->peer];
        const cudaStream_t own = m->is_send ? peer->out : peer->in;
        if (!*is_met)
            CS_CUDA(err, cudaStreamWaitEvent(own, peers->asked, 0));
        *is_met = true;
        CS_TRY(move_one(peers, m, own, err));
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
        (void)p->write(stream, arrivals(p, p->rank, r), p->peer[r].taken + FAR,
                       CU_STREAM_WRITE_VALUE_DEFAULT);
        (void)p->write(stream, freed(p, p->rank, r), p->peer[r].sent + FAR,
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
