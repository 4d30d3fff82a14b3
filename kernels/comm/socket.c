/* The transport over connected stream sockets (AF_UNIX pairs on a node). Plain bytes, no framing:
 * both sides know every size, as with NCCL. Every (peer, direction) is a channel: a queue of
 * transfers that complete in order; one poll loop moves all channels. End of stream or a reset is a
 * dead peer. An error may leave a stream inside a message, so it ends the communicator: the queues
 * are emptied and every later call repeats the error. */
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "kernels/comm.h"

#define SOCKET_BUFFER_BYTES (4 << 20)

/* Who waits for its peers alone looks that long before it sleeps: ranks of a stage meet hundreds of times a step, each
 * time within less than it takes to fall asleep and be woken. Where others had the core meanwhile there are more threads
 * than cores: it sleeps, for who is woken goes before those that run. */
static const int64_t look_ns = 200000, away_ns = 20000;

struct channel {
    struct cs_xfer *head, **tail; /* FIFO; tail points to the next field to fill */
};

struct socket_comm {
    struct cs_comm base;
    struct socket_comm *first;     /* whose connections these are: itself, or the one it shares */
    int *fds;                      /* (n_ranks), -1: no connection */
    struct channel (*channels)[2]; /* (n_ranks): receive, send */
    struct pollfd *polls;          /* (n_ranks + 2) */
    struct cs_xfer *gather;        /* (2 n_ranks): the transfers of an allgather */
    int abort_fd; /* eventfd, readable after abort: wakes a call that waits for no peer */
    atomic_bool is_aborted;
    enum cs_status broken; /* CS_OK, or why every call fails */
    int gone_rank;         /* who died, when broken is CS_PEER_GONE */
};

static int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* INT64_MAX: none */
static int64_t deadline_after(int deadline_ms)
{
    return deadline_ms > 0 ? now_ns() + (int64_t)deadline_ms * 1000000 : INT64_MAX;
}

static void channel_push(struct channel *channel, struct cs_xfer *x)
{
    x->next = NULL;
    *channel->tail = x;
    channel->tail = &x->next;
}

static void channel_pop(struct channel *channel)
{
    struct cs_xfer *x = channel->head;
    channel->head = x->next;
    if (channel->head == NULL)
        channel->tail = &channel->head;
    x->next = NULL;
    x->is_done = 1;
}

static void channels_clear(struct socket_comm *c)
{
    for (int p = 0; p < c->base.n_ranks; p++)
        for (int way = 0; way < 2; way++) {
            c->channels[p][way].head = NULL;
            c->channels[p][way].tail = &c->channels[p][way].head;
        }
}

/* No transfer of ours is touched any more: the callers may free them. */
static enum cs_status break_comm(struct socket_comm *c, enum cs_status why)
{
    channels_clear(c);
    c->broken = why;
    return why;
}

static enum cs_status fail_aborted(struct socket_comm *c, struct cs_err *err)
{
    break_comm(c, CS_INTERRUPTED);
    return cs_fail(err, CS_INTERRUPTED, "the communicator of rank %d was aborted", c->base.rank);
}

static enum cs_status fail_gone(struct socket_comm *c, int peer, struct cs_err *err)
{
    if (atomic_load(&c->first->is_aborted)) /* our own shutdown looks like an end of stream */
        return fail_aborted(c, err);
    c->gone_rank = peer;
    break_comm(c, CS_PEER_GONE);
    return cs_fail(err, CS_PEER_GONE, "rank %d is gone (seen by rank %d)", peer, c->base.rank);
}

static enum cs_status check_usable(struct socket_comm *c, struct cs_err *err)
{
    if (atomic_load(&c->first->is_aborted))
        return fail_aborted(c, err);
    if (c->broken == CS_OK)
        return CS_OK;
    if (c->broken == CS_PEER_GONE)
        return cs_fail(err, CS_PEER_GONE, "rank %d is gone (seen by rank %d)", c->gone_rank,
                       c->base.rank);
    return cs_fail(err, CS_STATE,
                   "the communicator of rank %d failed before (%s); end this generation",
                   c->base.rank, cs_status_text(c->broken));
}

static enum cs_status socket_post(struct cs_comm *comm, struct cs_xfer *xfer, struct cs_err *err)
{
    struct socket_comm *c = (struct socket_comm *)comm;
    CS_TRY(check_usable(c, err));
    if (xfer->peer < 0 || xfer->peer >= comm->n_ranks || xfer->peer == comm->rank)
        return cs_fail(err, CS_INVALID,
                       "a transfer names rank %d; rank %d of %d ranks can talk to every other rank "
                       "only",
                       xfer->peer, comm->rank, comm->n_ranks);
    if (xfer->bytes > 0 && c->fds[xfer->peer] == -1)
        return cs_fail(err, CS_INVALID, "rank %d has no connection to rank %d", comm->rank,
                       xfer->peer);
    xfer->moved = 0;
    xfer->next = NULL;
    xfer->is_done = xfer->bytes == 0;
    if (xfer->bytes > 0)
        channel_push(&c->channels[xfer->peer][xfer->is_send != 0], xfer);
    return CS_OK;
}

/* Move what one channel takes now; *completed counts finished transfers. */
static enum cs_status move_channel(struct socket_comm *c, int peer, int way, int *completed,
                                   struct cs_err *err)
{
    struct channel *channel = &c->channels[peer][way];
    while (channel->head != NULL) {
        struct cs_xfer *x = channel->head;
        char *at = (char *)x->data + x->moved;
        const size_t left = x->bytes - x->moved;
        const ssize_t k = way == 1 ? send(c->fds[peer], at, left, MSG_DONTWAIT | MSG_NOSIGNAL)
                                   : recv(c->fds[peer], at, left, MSG_DONTWAIT);
        if (k == -1 && errno == EINTR)
            continue;
        if (k == -1 && (errno == EAGAIN || errno == EWOULDBLOCK))
            return CS_OK;
        if (k == 0 || (k == -1 && (errno == EPIPE || errno == ECONNRESET)))
            return fail_gone(c, peer, err);
        if (k == -1)
            return break_comm(c, cs_fail_errno(err, "rank %d cannot %s rank %d", c->base.rank,
                                               way == 1 ? "send to" : "receive from", peer));
        x->moved += (size_t)k;
        if (x->moved == x->bytes) {
            channel_pop(channel);
            ++*completed;
        }
    }
    return CS_OK;
}

/* Receives first: what a peer sent before it died is still delivered. */
static enum cs_status move_all(struct socket_comm *c, int *completed, struct cs_err *err)
{
    for (int p = 0; p < c->base.n_ranks; p++)
        for (int way = 0; way < 2; way++)
            CS_TRY(move_channel(c, p, way, completed, err));
    return CS_OK;
}

/* polls = abort_fd, wake_fd (-1 is ignored by poll), every peer with something queued */
static nfds_t collect_polls(struct socket_comm *c, int wake_fd)
{
    nfds_t n = 0;
    c->polls[n++] = (struct pollfd){.fd = c->first->abort_fd, .events = POLLIN};
    c->polls[n++] = (struct pollfd){.fd = wake_fd, .events = POLLIN};
    for (int p = 0; p < c->base.n_ranks; p++) {
        const int events = (c->channels[p][0].head != NULL ? POLLIN : 0) |
                           (c->channels[p][1].head != NULL ? POLLOUT : 0);
        if (events != 0)
            c->polls[n++] = (struct pollfd){.fd = c->fds[p], .events = (short)events};
    }
    return n;
}

/* CS_TIMEOUT when nothing became ready until the deadline. */
static enum cs_status wait_ready(struct socket_comm *c, nfds_t n, int64_t deadline_ns,
                                 struct cs_err *err)
{
    int wait_ms = -1;
    if (deadline_ns != INT64_MAX) {
        const int64_t left_ns = deadline_ns - now_ns();
        wait_ms = left_ns <= 0 ? 0 : (int)((left_ns + 999999) / 1000000);
    }
    const int ready = poll(c->polls, n, wait_ms);
    if (ready == -1 && errno != EINTR)
        return break_comm(c, cs_fail_errno(err, "rank %d cannot wait for its peers", c->base.rank));
    if (ready == 0 && wait_ms >= 0 && now_ns() >= deadline_ns)
        return cs_fail(err, CS_TIMEOUT, "rank %d waited for %d peer%s beyond its deadline",
                       c->base.rank, (int)n - 2, n == 3 ? "" : "s");
    if (ready == -1)
        for (nfds_t i = 0; i < n; i++)
            c->polls[i].revents = 0; /* interrupted: nothing is known to be ready */
    return CS_OK;
}

/* Looks for a while whether something completes. */
static enum cs_status look(struct socket_comm *c, int *completed, struct cs_err *err)
{
    int64_t then_ns = now_ns(), away = 0;
    const int64_t end_ns = then_ns + look_ns;
    while (*completed == 0 && then_ns < end_ns && away < away_ns) {
        (void)sched_yield();
        away = now_ns() - then_ns;
        CS_TRY(check_usable(c, err));
        CS_TRY(move_all(c, completed, err));
        then_ns = now_ns();
    }
    return CS_OK;
}

static enum cs_status progress_until(struct socket_comm *c, int wake_fd, int64_t deadline_ns,
                                     struct cs_err *err)
{
    for (;;) {
        CS_TRY(check_usable(c, err));
        int completed = 0;
        CS_TRY(move_all(c, &completed, err));
        nfds_t n = collect_polls(c, wake_fd);
        if (completed == 0 && n > 2 && wake_fd == -1) {
            CS_TRY(look(c, &completed, err));
            n = collect_polls(c, wake_fd);
        }
        if (completed > 0 || (n == 2 && wake_fd == -1)) /* or nothing to wait for */
            return CS_OK;
        CS_TRY(wait_ready(c, n, deadline_ns, err));
        if (c->polls[1].revents != 0)
            return CS_OK;
    }
}

static enum cs_status socket_progress(struct cs_comm *comm, int wake_fd, int deadline_ms,
                                      struct cs_err *err)
{
    return progress_until((struct socket_comm *)comm, wake_fd, deadline_after(deadline_ms), err);
}

static enum cs_status socket_push(struct cs_comm *comm, struct cs_err *err)
{
    struct socket_comm *c = (struct socket_comm *)comm;
    int completed = 0;
    CS_TRY(check_usable(c, err));
    return move_all(c, &completed, err);
}

static enum cs_status socket_exchange(struct cs_comm *comm, struct cs_xfer *xfer, int n,
                                      int deadline_ms, struct cs_err *err)
{
    struct socket_comm *c = (struct socket_comm *)comm;
    const int64_t deadline_ns = deadline_after(deadline_ms);
    enum cs_status status = check_usable(c, err);
    for (int i = 0; i < n && status == CS_OK; i++)
        status = socket_post(comm, &xfer[i], err);
    for (int i = 0; i < n && status == CS_OK; i++)
        while (status == CS_OK && !xfer[i].is_done)
            status = progress_until(c, -1, deadline_ns, err);
    if (status != CS_OK && c->broken == CS_OK)
        break_comm(c, status); /* the transfers are the caller's again */
    return status;
}

static enum cs_status socket_allgather(struct cs_comm *comm, const void *mine, void *all,
                                       const size_t *bytes, int deadline_ms, struct cs_err *err)
{
    struct socket_comm *c = (struct socket_comm *)comm;
    char *at = all, *own = NULL;
    for (int p = 0; p < comm->n_ranks; p++) {
        if (p == comm->rank)
            own = at;
        at += bytes[p];
    }
    if (bytes[comm->rank] > 0)
        memmove(own, mine, bytes[comm->rank]); /* first: the sends read it from there */
    int n = 0;
    at = all;
    for (int p = 0; p < comm->n_ranks; at += bytes[p++]) {
        if (p == comm->rank)
            continue;
        c->gather[n++] =
            (struct cs_xfer){.peer = p, .data = own, .bytes = bytes[comm->rank], .is_send = 1};
        c->gather[n++] = (struct cs_xfer){.peer = p, .data = at, .bytes = bytes[p], .is_send = 0};
    }
    return socket_exchange(comm, c->gather, n, deadline_ms, err);
}

/* Sets a flag, wakes and shuts down: legal while another thread is inside a call. */
static void socket_abort(struct cs_comm *comm)
{
    struct socket_comm *c = ((struct socket_comm *)comm)->first;
    atomic_store(&c->is_aborted, true);
    (void)eventfd_write(c->abort_fd, 1);
    for (int p = 0; p < comm->n_ranks; p++)
        if (c->fds[p] != -1)
            (void)shutdown(c->fds[p], SHUT_RDWR);
}

static void free_memory(struct socket_comm *c)
{
    free(c->fds);
    free(c->channels);
    free(c->polls);
    free(c->gather);
    free(c);
}

static void socket_free(struct cs_comm *comm)
{
    struct socket_comm *c = (struct socket_comm *)comm;
    if (c == NULL)
        return;
    for (int p = 0; c->first == c && p < comm->n_ranks; p++)
        if (c->fds[p] != -1)
            close(c->fds[p]);
    if (c->abort_fd != -1)
        close(c->abort_fd);
    free_memory(c);
}

static enum cs_status socket_share(struct cs_comm *comm, struct cs_comm **out, struct cs_err *err);

static const struct cs_comm_table socket_table = {
    .name = "socket",
    .share = socket_share,
    .post = socket_post,
    .push = socket_push,
    .progress = socket_progress,
    .exchange = socket_exchange,
    .allgather = socket_allgather,
    .abort = socket_abort,
    .free = socket_free,
};

/* Larger buffers save system calls; the kernel caps them, so failure is no error. */
static void set_buffers(int fd)
{
    const int bytes = SOCKET_BUFFER_BYTES;
    (void)setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes);
}

static enum cs_status check_fds(int rank, int n_ranks, const int *fds, struct cs_err *err)
{
    if (n_ranks < 1 || rank < 0 || rank >= n_ranks)
        return cs_fail(err, CS_INVALID, "rank %d of %d ranks does not exist", rank, n_ranks);
    for (int p = 0; p < n_ranks; p++) {
        int type = 0;
        socklen_t bytes = sizeof type;
        if (fds[p] < -1 || (p == rank && fds[p] != -1))
            return cs_fail(err, CS_INVALID, "rank %d has descriptor %d for rank %d", rank, fds[p],
                           p);
        if (fds[p] == -1)
            continue;
        if (getsockopt(fds[p], SOL_SOCKET, SO_TYPE, &type, &bytes) == -1)
            return cs_fail_errno(err, "descriptor %d of rank %d to rank %d is no socket", fds[p],
                                 rank, p);
        if (type != SOCK_STREAM)
            return cs_fail(err, CS_INVALID,
                           "descriptor %d of rank %d to rank %d is no stream socket", fds[p], rank,
                           p);
    }
    return CS_OK;
}

/* Without connections. */
static enum cs_status make(int rank, int n_ranks, struct socket_comm **out, struct cs_err *err)
{
    const size_t n = (size_t)n_ranks;
    struct socket_comm *c = calloc(1, sizeof *c);
    *out = c;
    if (c == NULL)
        return cs_fail(err, CS_NO_MEMORY, "no memory for the communicator of rank %d", rank);
    c->base = (struct cs_comm){&socket_table, rank, n_ranks};
    c->first = c;
    c->gone_rank = -1;
    c->abort_fd = -1;
    atomic_init(&c->is_aborted, false);
    c->fds = malloc(n * sizeof *c->fds);
    c->channels = calloc(n, sizeof *c->channels);
    c->polls = calloc(n + 2, sizeof *c->polls);
    c->gather = calloc(2 * n, sizeof *c->gather);
    if (c->fds == NULL || c->channels == NULL || c->polls == NULL || c->gather == NULL) {
        free_memory(c);
        *out = NULL;
        return cs_fail(err, CS_NO_MEMORY, "no memory for the communicator of rank %d", rank);
    }
    for (int p = 0; p < n_ranks; p++)
        c->fds[p] = -1;
    channels_clear(c);
    return CS_OK;
}

static enum cs_status socket_share(struct cs_comm *comm, struct cs_comm **out, struct cs_err *err)
{
    const struct socket_comm *of = (struct socket_comm *)comm;
    struct socket_comm *c;
    *out = NULL;
    CS_TRY(make(comm->rank, comm->n_ranks, &c, err));
    c->first = of->first;
    memcpy(c->fds, of->fds, (size_t)comm->n_ranks * sizeof *c->fds);
    *out = &c->base;
    return CS_OK;
}

/* Owns fds on success only. */
enum cs_status cs_comm_socket_new(int rank, int n_ranks, const int *fds, struct cs_comm **out,
                                  struct cs_err *err)
{
    struct socket_comm *c;
    *out = NULL;
    CS_TRY(check_fds(rank, n_ranks, fds, err));
    CS_TRY(make(rank, n_ranks, &c, err));
    c->abort_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (c->abort_fd == -1) {
        free_memory(c);
        return cs_fail_errno(err, "rank %d cannot make an event descriptor", rank);
    }
    memcpy(c->fds, fds, (size_t)n_ranks * sizeof *c->fds);
    for (int p = 0; p < n_ranks; p++)
        if (fds[p] != -1)
            set_buffers(fds[p]);
    *out = &c->base;
    return CS_OK;
}
