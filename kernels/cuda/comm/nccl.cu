/* Messages between devices through NCCL, and between those of one host along a pipeline, and large ones between
 * those that share matrices, by copy engines (peers.cuh). The library is opened when the first communicator is asked for: the
 * plugin also serves machines without it. A peer that never comes or dies cannot hold a call for ever: what
 * waits for others has a time (in_time.cuh). (Non-blocking communicators would start a thread
 * for every exchange, which takes the host 0.1 ms.) */
#include <dlfcn.h>
#include <nccl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <new>

#include "kernels/cuda/comm/in_time.cuh"
#include "kernels/cuda/comm/nccl.cuh"
#include "kernels/cuda/comm/nccl_trouble.cuh"
#include "kernels/cuda/comm/peers.cuh"

static_assert(sizeof(ncclUniqueId) == CS_DEVICE_COMM_ID, "an id is passed on as bytes");

/* Multiprocessors that a communicator of each kind may take. Lane: enough for a tenth of NVLink,
 * which hides behind compute, and few enough not to slow that down. Group, bulk: what fills NVLink (group: with
 * half as many steps of zero 2 and 3 took 2 and 7 % longer on two H200, with a quarter 25 and 45 %); bulk: at
 * least as many too, for left to itself the library takes what its rings need. Rows: the same, for
 * attention waits for the first and the last of them; half as many was 1 to 6 % slower (two H200, 32k and
 * 64k rows). Sums: the same; with half as many blocks of Llama-3.1-8B took 1.3 % longer, with a
 * quarter 5.5 %. */
static const struct {
    int least, most;
} ctas[] = {
    {1,  2 }, /* lane */
    {1,  32}, /* group */
    {32, 32}, /* bulk */
    {32, 32}, /* rows */
    {32, 32}, /* sums */
    {1,  16}, /* totals */
    {1,  2 }, /* copy lane, where it goes through the library */
};

static_assert(sizeof ctas / sizeof *ctas == CS_DEVICE_COMM_COPY_LANE + 1, "one for every kind");

enum { WARM_UP_BYTES = 64 << 20 };

#define NCCL_FUNCTIONS(X)                                                                          \
    X(ncclGetUniqueId)                                                                             \
    X(ncclCommInitRankConfig)                                                                      \
    X(ncclCommGetAsyncError)                                                                       \
    X(ncclCommAbort)                                                                               \
    X(ncclCommFinalize)                                                                            \
    X(ncclCommDestroy)                                                                             \
    X(ncclGroupStart)                                                                              \
    X(ncclGroupEnd)                                                                                \
    X(ncclSend)                                                                                    \
    X(ncclRecv)                                                                                    \
    X(ncclReduceScatter)                                                                           \
    X(ncclAllReduce)                                                                               \
    X(ncclAllGather)                                                                               \
    X(ncclGetErrorString)                                                                          \
    X(ncclGetLastError)

struct nccl {
#define X(name) decltype(&::name) name;
    NCCL_FUNCTIONS(X)
#undef X
};

/* What every rank says of its window. A handle of another host may look like one of this host. */
struct word {
    char handle[CS_CUDA_PEERS_HANDLE];
    char host[40];
    char is_good;
};

struct comm {
    int rank, n;
    enum cs_device_comm_kind kind;
    ncclComm_t nccl;
    struct cs_cuda_peers *peers; /* NULL: messages go through the library too */
    struct word *word;           /* (n) of windows; NULL: nobody asks for them */
    cs_cuda_time until;          /* others are waited for till then, to open or to close it */
};

/* CS_UNSUPPORTED: not there, or too old. */
static enum cs_status functions(const struct nccl **out, struct cs_err *err)
{
    static struct nccl table; /* filled once; the worker opens channels from one thread */
    static bool is_filled;
    *out = &table;
    if (is_filled)
        return CS_OK;
    setenv("NCCL_NVLS_ENABLE", "0", 1); /* NVLink multicast stays off */
    void *library = dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr)
        return cs_cuda_fail(err, __FILE__, __LINE__, CS_UNSUPPORTED,
                            "NCCL, which connects GPUs, cannot be opened: %s", dlerror());
#define X(name)                                                                                    \
    table.name = (decltype(&::name))dlsym(library, #name);                                         \
    if (table.name == nullptr)                                                                     \
        return cs_cuda_fail(err, __FILE__, __LINE__, CS_UNSUPPORTED, "libnccl.so.2 has no %s",     \
                            #name);
    NCCL_FUNCTIONS(X)
#undef X
    is_filled = true;
    return CS_OK;
}

static enum cs_status fail(const struct nccl *n, const char *what, ncclResult_t code,
                           struct cs_err *err)
{
    const char *said = n->ncclGetLastError(nullptr); /* of the process, what it has warned of */
    const char *last = said != nullptr ? said : "";
    const struct cs_nccl_trouble t = cs_nccl_trouble_of(code, last);
    return cs_cuda_fail(err, __FILE__, __LINE__, t.status, "%s: %s%s%.300s%s%s", what,
                        n->ncclGetErrorString(code), *last != '\0' ? "; " : "", last,
                        *t.advice != '\0' ? ": " : "", t.advice);
}

static enum cs_status check(void *handle, struct cs_err *err)
{
    const struct comm *c = (const struct comm *)handle;
    const struct nccl *n;
    CS_TRY(functions(&n, err));
    ncclResult_t state = ncclSuccess;
    const ncclResult_t code = n->ncclCommGetAsyncError(c->nccl, &state);
    if (code != ncclSuccess)
        return fail(n, "ncclCommGetAsyncError", code, err);
    return state == ncclSuccess || state == ncclInProgress ? CS_OK : fail(n, "NCCL", state, err);
}

static enum cs_status told(const struct nccl *n, const char *what, ncclResult_t code,
                           struct cs_err *err)
{
    return code == ncclSuccess ? CS_OK : fail(n, what, code, err);
}

static enum cs_status new_id(char id[CS_DEVICE_COMM_ID], struct cs_err *err)
{
    const struct nccl *n;
    ncclUniqueId unique;
    CS_TRY(functions(&n, err));
    const ncclResult_t code = n->ncclGetUniqueId(&unique);
    if (code != ncclSuccess)
        return fail(n, "ncclGetUniqueId", code, err);
    memcpy(id, &unique, sizeof unique);
    return CS_OK;
}

/* Grouped they are one kernel. */
static enum cs_status move(void *handle, const struct cs_device_move *moves, int n_moves,
                           void *stream, struct cs_err *err)
{
    struct comm *c = (struct comm *)handle;
    const struct nccl *n;
    if (c->peers != nullptr)
        return cs_cuda_peers_move(c->peers, moves, n_moves, (cudaStream_t)stream, err);
    CS_TRY(functions(&n, err));
    const ncclResult_t code = n->ncclGroupStart();
    if (code != ncclSuccess)
        return fail(n, "ncclGroupStart", code, err);
    /* the group must end whatever they say, and its end says what was wrong with them */
    for (int i = 0; i < n_moves; i++) {
        const struct cs_device_move *m = &moves[i];
        if (m->is_send)
            (void)n->ncclSend(m->data, m->bytes, ncclInt8, m->peer, c->nccl, (cudaStream_t)stream);
        else
            (void)n->ncclRecv(m->data, m->bytes, ncclInt8, m->peer, c->nccl, (cudaStream_t)stream);
    }
    return told(n, "ncclSend and ncclRecv", n->ncclGroupEnd(), err);
}

static int moves_by_copy_engines(const void *handle)
{
    return ((const struct comm *)handle)->peers != nullptr;
}

static ncclDataType_t type_of(enum cs_grad_type type)
{
    return type == CS_GRAD_BF16 ? ncclBfloat16 : ncclFloat32;
}

static enum cs_status reduce_scatter(void *handle, const void *from, void *to, size_t count,
                                     enum cs_grad_type type, void *stream, struct cs_err *err)
{
    struct comm *c = (struct comm *)handle;
    const struct nccl *n;
    CS_TRY(functions(&n, err));
    return told(n, "ncclReduceScatter",
                n->ncclReduceScatter(from, to, count, type_of(type), ncclSum, c->nccl,
                                     (cudaStream_t)stream),
                err);
}

/* The library's rings and trees add in an order that ranks and sizes fix, and all ranks are given the
 * sum that one of them has made. */
static enum cs_status all_reduce(void *handle, void *data, size_t count, enum cs_grad_type type,
                                 void *stream, struct cs_err *err)
{
    struct comm *c = (struct comm *)handle;
    const struct nccl *n;
    CS_TRY(functions(&n, err));
    return told(
        n, "ncclAllReduce",
        n->ncclAllReduce(data, data, count, type_of(type), ncclSum, c->nccl, (cudaStream_t)stream),
        err);
}

static enum cs_status all_gather(void *handle, const void *from, void *to, size_t bytes,
                                 void *stream, struct cs_err *err)
{
    struct comm *c = (struct comm *)handle;
    const struct nccl *n;
    CS_TRY(functions(&n, err));
    return told(n, "ncclAllGather",
                n->ncclAllGather(from, to, bytes, ncclInt8, c->nccl, (cudaStream_t)stream), err);
}

static void abort_comm(void *handle)
{
    struct comm *c = (struct comm *)handle;
    const struct nccl *n;
    if (c == nullptr)
        return;
    cs_cuda_peers_abort(c->peers);
    if (functions(&n, nullptr) == CS_OK && c->nccl != nullptr)
        n->ncclCommAbort(c->nccl);
    free(c->word);
    delete c;
}

/* the words of all ranks to all of them */
static enum cs_status tell_all(struct comm *c, struct cs_err *err)
{
    char *data;
    cudaStream_t stream;
    const size_t each = sizeof *c->word, all = each * (size_t)c->n;
    CS_CUDA(err, cudaMalloc(&data, all));
    CS_CUDA(err, cudaMemcpy(data, c->word, all, cudaMemcpyHostToDevice));
    CS_CUDA(err, cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    enum cs_status status = all_gather(c, data + each * (size_t)c->rank, data, each, stream, err);
    if (status == CS_OK)
        status = cs_cuda_await(stream, c->until, "a word to all ranks", err);
    cudaStreamDestroy(stream);
    if (status != CS_OK)
        return status; /* to free it would wait for the others again */
    const cudaError_t code = cudaMemcpy(c->word, data, all, cudaMemcpyDeviceToHost);
    cudaFree(data);
    CS_CUDA(err, code);
    return CS_OK;
}

/* Nobody uses its window unless all can. */
static enum cs_status agree(struct comm *c, bool *is_good, struct cs_err *err)
{
    c->word[c->rank].is_good = *is_good;
    CS_TRY(tell_all(c, err));
    for (int r = 0; r < c->n; r++)
        *is_good = *is_good && c->word[r].is_good != 0;
    return CS_OK;
}

/* A window is given back when nobody has it open any more. */
static enum cs_status close_peers(struct comm *c, struct cs_err *err)
{
    bool is_good = true;
    if (c->peers != nullptr)
        cs_cuda_peers_close(c->peers);
    CS_TRY(agree(c, &is_good, err));
    cs_cuda_peers_free(c->peers);
    c->peers = nullptr;
    return CS_OK;
}

/* the same as long as the host runs, no other has it; false: it is not told */
static bool name_host(char out[40])
{
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");
    const bool is_known = file != nullptr && fscanf(file, "%39s", out) == 1;
    if (file != nullptr)
        (void)fclose(file);
    return is_known;
}

static enum cs_status open_windows(struct comm *c, struct cs_err *err)
{
    struct word *const own = &c->word[c->rank];
    bool is_good = name_host(own->host) &&
                   cs_cuda_peers_new(c->rank, c->n, c->kind == CS_DEVICE_COMM_COPY_LANE,
                                     own->handle, &c->peers, nullptr) == CS_OK;
    CS_TRY(agree(c, &is_good, err));
    for (int r = 0; is_good && r < c->n; r++)
        is_good = memcmp(c->word[r].host, own->host, sizeof own->host) == 0 &&
                  cs_cuda_peers_open(c->peers, r, c->word[r].handle, nullptr) == CS_OK;
    (void)cudaGetLastError(); /* what cannot be reached is no trouble */
    CS_TRY(agree(c, &is_good, err));
    return is_good ? CS_OK : close_peers(c, err);
}

/* Messages of these ranks go by copy engines where all of them can be reached so. */
static enum cs_status open_peers(struct comm *c, struct cs_err *err)
{
    c->word = (struct word *)calloc((size_t)c->n, sizeof *c->word);
    if (c->word == nullptr)
        return cs_cuda_fail(err, __FILE__, __LINE__, CS_NO_MEMORY, "no memory for a communicator");
    return open_windows(c, err);
}

/* All ranks take part in all of it. */
static enum cs_status end_together(const struct nccl *n, struct comm *c, struct cs_err *err)
{
    if (c->peers != nullptr)
        CS_TRY(close_peers(c, err));
    CS_TRY(told(n, "ncclCommFinalize", n->ncclCommFinalize(c->nccl), err));
    const ncclComm_t nccl = c->nccl;
    c->nccl = nullptr;
    return told(n, "ncclCommDestroy", n->ncclCommDestroy(nccl), err);
}

static void close_comm(void *handle)
{
    struct comm *c = (struct comm *)handle;
    const struct nccl *n;
    if (c == nullptr || functions(&n, nullptr) != CS_OK)
        return;
    const auto end = [n, c](struct cs_err *why) { return end_together(n, c, why); };
    const enum cs_status status =
        cs_cuda_in_time("closing a communicator", &c->until, end, nullptr);
    if (status == CS_TIMEOUT)
        return;
    if (status != CS_OK) {
        abort_comm(c);
        return;
    }
    free(c->word);
    delete c;
}

/* to all others, and from them */
static enum cs_status warm_up_all(struct comm *c, int rank, int n_ranks, char *data, size_t bytes,
                                  cudaStream_t stream, struct cs_err *err)
{
    struct cs_device_move *moves =
        (struct cs_device_move *)calloc(2 * (size_t)n_ranks, sizeof *moves);
    int n = 0;
    if (moves == nullptr)
        return cs_cuda_fail(err, __FILE__, __LINE__, CS_NO_MEMORY, "no memory for messages");
    for (int r = 0; r < n_ranks; r++) {
        if (r == rank)
            continue;
        moves[n++] = {data + bytes * (size_t)rank, bytes, r, 1};
        moves[n++] = {data + bytes * (size_t)r, bytes, r, 0};
    }
    const enum cs_status status = move(c, moves, n, stream, err);
    free(moves);
    return status;
}

/* Sums of all sizes: each way of making them connects by itself. */
static enum cs_status warm_up_sums(struct comm *c, char *data, cudaStream_t stream,
                                   struct cs_err *err)
{
    for (size_t bytes = WARM_UP_BYTES; bytes >= 1024; bytes /= 4)
        CS_TRY(all_reduce(c, data, bytes / sizeof(float), CS_GRAD_F32, stream, err));
    return CS_OK;
}

/* What a communicator does first. */
static enum cs_status warm_up(struct comm *c, enum cs_device_comm_kind kind, int rank, int n_ranks,
                              char *data, cudaStream_t stream, struct cs_err *err)
{
    const size_t part = WARM_UP_BYTES / (size_t)n_ranks / 256 * 256;
    const struct cs_device_move one = {data, WARM_UP_BYTES, 1 - rank, rank == 0};
    if (kind == CS_DEVICE_COMM_LANE || kind == CS_DEVICE_COMM_COPY_LANE)
        return move(c, &one, 1, stream, err);
    if (kind == CS_DEVICE_COMM_BULK || kind == CS_DEVICE_COMM_ROWS)
        return warm_up_all(c, rank, n_ranks, data, part, stream, err);
    if (kind ==
        CS_DEVICE_COMM_SUMS) /* messages too, for gradients that some of the ranks have in common */
        CS_TRY(warm_up_all(c, rank, n_ranks, data, part, stream, err));
    if (kind == CS_DEVICE_COMM_SUMS || kind == CS_DEVICE_COMM_TOTALS)
        return warm_up_sums(c, data, stream, err);
    CS_TRY(reduce_scatter(c, data, data + part * (size_t)rank, part / sizeof(float), CS_GRAD_F32,
                          stream, err));
    return all_gather(c, data + part * (size_t)rank, data, part, stream, err);
}

/* The first message connects a communicator, and more channels the larger it is, which takes memory
 * and waits for the device: here, not in the middle of a step, where what runs may wait for the
 * peer. */
static enum cs_status connect(struct comm *c, enum cs_device_comm_kind kind, int rank, int n_ranks,
                              struct cs_err *err)
{
    char *data;
    cudaStream_t stream;
    CS_CUDA(err, cudaMalloc(&data, WARM_UP_BYTES));
    CS_CUDA(err, cudaMemset(data, 0, WARM_UP_BYTES));
    CS_CUDA(err, cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    enum cs_status status = warm_up(c, kind, rank, n_ranks, data, stream, err);
    if (status == CS_OK)
        status = cs_cuda_await(stream, c->until, "the first message", err);
    cudaStreamDestroy(stream);
    if (status == CS_OK)
        cudaFree(data); /* else this would wait for the others again */
    return status;
}

/* ---- what the environment says for comparisons: whoever opens the plugin has refused what does not fit ---- */

/* nullptr: not set, or empty */
static const char *asked_for(const char *variable)
{
    const char *text = getenv(variable);
    return text != nullptr && text[0] != '\0' ? text : nullptr;
}

static int most_ctas(enum cs_device_comm_kind kind)
{
    const char *asked =
        kind == CS_DEVICE_COMM_GROUP ? asked_for("CORNSTARCH_REPLICA_CTAS") : nullptr;
    return asked != nullptr ? atoi(asked) : ctas[kind].most;
}

static bool goes_by_engines(enum cs_device_comm_kind kind)
{
    const char *variable = kind == CS_DEVICE_COMM_SUMS        ? "CORNSTARCH_TENSOR_COPIES"
                           : kind == CS_DEVICE_COMM_COPY_LANE ? "CORNSTARCH_CHANNEL_COPIES"
                                                              : nullptr;
    const char *asked = variable != nullptr ? asked_for(variable) : nullptr;
    return variable != nullptr && (asked == nullptr || strcmp(asked, "nccl") != 0);
}

static enum cs_status begin_together(const struct nccl *n, struct comm *c, ncclUniqueId id,
                                     enum cs_device_comm_kind kind, struct cs_err *err)
{
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 1;
    config.minCTAs = ctas[kind].least;
    config.maxCTAs = most_ctas(kind);
    CS_TRY(told(n, "ncclCommInitRankConfig",
                n->ncclCommInitRankConfig(&c->nccl, c->n, id, c->rank, &config), err));
    if (goes_by_engines(kind))
        CS_TRY(open_peers(c, err));
    return connect(c, kind, c->rank, c->n, err);
}

static enum cs_status open_comm(const char id[CS_DEVICE_COMM_ID], int rank, int n_ranks,
                                enum cs_device_comm_kind kind, void **out, struct cs_err *err)
{
    const struct nccl *n;
    ncclUniqueId unique;
    *out = nullptr;
    CS_TRY(functions(&n, err));
    struct comm *c = new (std::nothrow) comm();
    if (c == nullptr)
        return cs_cuda_fail(err, __FILE__, __LINE__, CS_NO_MEMORY, "no memory for a communicator");
    c->rank = rank;
    c->n = n_ranks;
    c->kind = kind;
    memcpy(&unique, id, sizeof unique);
    const auto begin = [=](struct cs_err *why) { return begin_together(n, c, unique, kind, why); };
    const enum cs_status status = cs_cuda_in_time("opening a communicator", &c->until, begin, err);
    if (status == CS_OK)
        *out = c;
    else if (status != CS_TIMEOUT)
        abort_comm(c);
    return status;
}

const struct cs_device_comm_ops cs_cuda_comm_ops = {
    .new_id = new_id,
    .open = open_comm,
    .move = move,
    .reduce_scatter = reduce_scatter,
    .all_reduce = all_reduce,
    .all_gather = all_gather,
    .moves_by_copy_engines = moves_by_copy_engines,
    .check = check,
    .abort = abort_comm,
    .close = close_comm,
};
