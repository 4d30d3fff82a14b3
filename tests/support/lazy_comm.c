/* Messages between threads: sends are copied and never wait, receives do. */
#include "support/lazy_comm.h"
#include "support/lazy_device.h"
#include "support/lazy_pending.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_RANKS = 8, MAX_MEETINGS = 4096 };

struct message {
    struct message *next;
    size_t bytes;
    char data[];
};

struct meeting {
    int n, n_open, n_came; /* who came first may still wait when others have left */
    bool is_aborted;
    struct message *first[MAX_RANKS][MAX_RANKS], *last[MAX_RANKS][MAX_RANKS]; /* from, to */
};

/* What is done once when a communicator of a kind is opened, so that nothing is connected in a step. */
enum { MESSAGES = 1, PARTS = 2, SUMS = 4 };

static const unsigned connected[] = {
    [CS_DEVICE_COMM_LANE] = MESSAGES,      [CS_DEVICE_COMM_GROUP] = PARTS,
    [CS_DEVICE_COMM_BULK] = MESSAGES,      [CS_DEVICE_COMM_ROWS] = MESSAGES,
    [CS_DEVICE_COMM_TOTALS] = SUMS,        [CS_DEVICE_COMM_SUMS] = MESSAGES | SUMS,
    [CS_DEVICE_COMM_COPY_LANE] = MESSAGES,
};

struct member {
    struct meeting *meeting;
    int rank;
    unsigned connected;
    bool is_late; /* what comes is there when it is waited for */
    bool copies;  /* as copy engines do */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static struct meeting *meetings[MAX_MEETINGS];
static uint32_t n_meetings;

static enum cs_status new_id(char id[CS_DEVICE_COMM_ID], struct cs_err *err)
{
    (void)err;
    pthread_mutex_lock(&lock);
    CS_ASSERT(n_meetings < MAX_MEETINGS);
    const uint32_t number = n_meetings++;
    meetings[number] = calloc(1, sizeof *meetings[number]);
    CS_ASSERT(meetings[number] != NULL);
    pthread_mutex_unlock(&lock);
    memset(id, 0, CS_DEVICE_COMM_ID);
    memcpy(id, &number, sizeof number);
    return CS_OK;
}

static enum cs_status open_comm(const char id[CS_DEVICE_COMM_ID], int rank, int n,
                                enum cs_device_comm_kind kind, void **comm, struct cs_err *err)
{
    uint32_t number;
    struct member *m = calloc(1, sizeof *m);
    (void)err;
    memcpy(&number, id, sizeof number);
    CS_ASSERT(m != NULL && rank < n && n <= MAX_RANKS);
    pthread_mutex_lock(&lock);
    *m = (struct member){meetings[number], rank, connected[kind],
                         kind == CS_DEVICE_COMM_SUMS || kind == CS_DEVICE_COMM_ROWS,
                         kind == CS_DEVICE_COMM_SUMS || kind == CS_DEVICE_COMM_COPY_LANE};
    m->meeting->n = n;
    m->meeting->n_open++;
    m->meeting->n_came++;
    pthread_cond_broadcast(&changed);
    while (m->meeting->n_came < n)
        pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
    *comm = m;
    return CS_OK;
}

/* Behind what was computed, where it is the device's own stream, and before what is computed next. */
static void finish_own(const void *stream, bool is_own)
{
    if (is_own)
        cs_lazy_pending_finish(stream);
}

static void push(const struct member *m, int to, const void *data, size_t bytes)
{
    struct message *message = malloc(sizeof *message + bytes);
    CS_ASSERT(message != NULL && to < m->meeting->n);
    message->next = NULL;
    message->bytes = bytes;
    memcpy(message->data, data, bytes);
    pthread_mutex_lock(&lock);
    struct message **last = &m->meeting->last[m->rank][to];
    *(*last != NULL ? &(*last)->next : &m->meeting->first[m->rank][to]) = message;
    *last = message;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

static void pull(const struct member *m, int from, void *data, size_t bytes)
{
    struct meeting *meeting = m->meeting;
    pthread_mutex_lock(&lock);
    while (meeting->first[from][m->rank] == NULL)
        pthread_cond_wait(&changed, &lock);
    struct message *message = meeting->first[from][m->rank];
    meeting->first[from][m->rank] = message->next;
    if (message->next == NULL)
        meeting->last[from][m->rank] = NULL;
    pthread_mutex_unlock(&lock);
    CS_ASSERT(message->bytes == bytes); /* NCCL would hang or write past the end */
    memcpy(data, message->data, bytes);
    free(message);
}

static enum cs_status move(void *comm, const struct cs_device_move *moves, int n, void *stream,
                           struct cs_err *err)
{
    const struct member *m = comm;
    const bool is_own = cs_lazy_device_reach(stream);
    (void)err;
    CS_ASSERT((m->connected & MESSAGES) != 0);
    for (int i = 0; i < n; i++)
        if (moves[i].is_send)
            push(m, moves[i].peer, moves[i].data, moves[i].bytes);
    for (int i = 0; i < n; i++) {
        const struct cs_device_move *x = &moves[i];
        const struct cs_lazy_work work = {.what = x->is_send ? "a message" : "a message that comes",
                                          .rank = m->rank,
                                          .stream = stream,
                                          .from = x->is_send ? x->data : NULL,
                                          .from_bytes = x->bytes,
                                          .to = x->is_send ? NULL : x->data,
                                          .to_bytes = x->bytes};
        void *const comes = m->is_late ? cs_lazy_pending_add(&work) : x->data;
        if (!x->is_send)
            pull(m, x->peer, comes, x->bytes);
    }
    finish_own(stream, is_own);
    return CS_OK;
}

/* parts of all but the own one, where that lies in place */
static void gather_late(const struct member *m, const void *from, void *to, const char *all,
                        size_t bytes, const void *stream)
{
    const int n = m->meeting->n;
    char *own = (char *)to + bytes * (size_t)m->rank;
    struct cs_lazy_work work = {.what = "all_gather",
                                .rank = m->rank,
                                .stream = stream,
                                .from = from,
                                .from_bytes = bytes,
                                .to = to,
                                .to_bytes = bytes * (size_t)n};
    if (from != own) {
        memcpy(cs_lazy_pending_add(&work), all, work.to_bytes);
        return;
    }
    work.to_bytes = bytes * (size_t)m->rank;
    memcpy(cs_lazy_pending_add(&work), all, work.to_bytes);
    work.from = NULL;
    work.to = own + bytes;
    work.to_bytes = bytes * (size_t)(n - 1 - m->rank);
    memcpy(cs_lazy_pending_add(&work), all + bytes * (size_t)(m->rank + 1), work.to_bytes);
}

static enum cs_status all_gather(void *comm, const void *from, void *to, size_t bytes, void *stream,
                                 struct cs_err *err)
{
    const struct member *m = comm;
    const bool is_own = cs_lazy_device_reach(stream);
    char *all = malloc(bytes * (size_t)m->meeting->n + 1);
    (void)err;
    CS_ASSERT(all != NULL && (m->connected & PARTS) != 0);
    for (int r = 0; r < m->meeting->n; r++)
        if (r != m->rank)
            push(m, r, from, bytes);
    memcpy(all + bytes * (size_t)m->rank, from, bytes);
    for (int r = 0; r < m->meeting->n; r++)
        if (r != m->rank)
            pull(m, r, all + bytes * (size_t)r, bytes);
    gather_late(m, from, to, all, bytes, stream);
    finish_own(stream, is_own);
    free(all);
    return CS_OK;
}

/* sum (count) of what all ranks have for this one, in the order of ranks; stride: between their parts */
static float *sum_of(const struct member *m, const float *values, size_t stride, size_t count)
{
    const size_t bytes = count * sizeof(float);
    float *sum = calloc(count + 1, sizeof *sum), *theirs = malloc(bytes + 1);
    CS_ASSERT(sum != NULL && theirs != NULL);
    for (int r = 0; r < m->meeting->n; r++)
        if (r != m->rank)
            push(m, r, values + stride * (size_t)r, bytes);
    for (int r = 0; r < m->meeting->n; r++) {
        if (r == m->rank)
            memcpy(theirs, values + stride * (size_t)r, bytes);
        else
            pull(m, r, theirs, bytes);
        for (size_t i = 0; i < count; i++)
            sum[i] += theirs[i];
    }
    free(theirs);
    return sum;
}

static enum cs_status reduce_scatter(void *comm, const void *from, void *to, size_t count,
                                     enum cs_grad_type type, void *stream, struct cs_err *err)
{
    const struct member *m = comm;
    const size_t bytes = count * sizeof(float);
    const struct cs_lazy_work work = {.what = "reduce_scatter",
                                      .rank = m->rank,
                                      .stream = stream,
                                      .from = from,
                                      .from_bytes = bytes * (size_t)m->meeting->n,
                                      .to = to,
                                      .to_bytes = bytes};
    (void)err;
    CS_ASSERT(type == CS_GRAD_F32 && (m->connected & PARTS) != 0);
    const bool is_own = cs_lazy_device_reach(stream);
    float *sum = sum_of(m, from, count, count);
    memcpy(cs_lazy_pending_add(&work), sum, bytes);
    finish_own(stream, is_own);
    free(sum);
    return CS_OK;
}

static enum cs_status all_reduce(void *comm, void *data, size_t n, enum cs_grad_type type,
                                 void *stream, struct cs_err *err)
{
    const struct member *m = comm;
    const struct cs_lazy_work work = {.what = "all_reduce",
                                      .rank = m->rank,
                                      .stream = stream,
                                      .to = data,
                                      .to_bytes = n * sizeof(float)};
    (void)err;
    CS_ASSERT(type == CS_GRAD_F32 && (m->connected & SUMS) != 0);
    const bool is_own = cs_lazy_device_reach(stream);
    float *sum = sum_of(m, data, 0, n);
    memcpy(cs_lazy_pending_add(&work), sum, work.to_bytes);
    finish_own(stream, is_own);
    free(sum);
    return CS_OK;
}

static int moves_by_copy_engines(const void *comm)
{
    const struct member *m = comm;
    return m->copies;
}

static enum cs_status check(void *comm, struct cs_err *err)
{
    (void)comm;
    (void)err;
    return CS_OK;
}

static void drop_messages(struct meeting *meeting)
{
    for (int from = 0; from < meeting->n; from++)
        for (int to = 0; to < meeting->n; to++)
            for (struct message *m = meeting->first[from][to], *next; m != NULL; m = next) {
                CS_ASSERT(meeting->is_aborted); /* else nothing may be on its way any more */
                next = m->next;
                free(m);
            }
}

/* the last one takes the meeting away */
static void leave(struct member *m, bool aborts)
{
    pthread_mutex_lock(&lock);
    struct meeting *meeting = m->meeting;
    CS_ASSERT(aborts || !meeting->is_aborted); /* NCCL would wait for who has aborted */
    meeting->is_aborted = aborts;
    const bool is_last = --meeting->n_open == 0;
    for (uint32_t i = 0; is_last && i < n_meetings; i++)
        if (meetings[i] == meeting)
            meetings[i] = NULL;
    pthread_mutex_unlock(&lock);
    if (is_last) {
        drop_messages(meeting);
        free(meeting);
    }
    free(m);
}

static void abort_comm(void *comm)
{
    if (comm != NULL)
        leave(comm, true);
}

static void close_comm(void *comm)
{
    if (comm != NULL)
        leave(comm, false);
}

const struct cs_device_comm_ops cs_lazy_comm_ops = {
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
