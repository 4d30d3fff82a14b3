/* Messages between threads: sends are copied and never wait, receives do. */
#include "support/lazy_comm.h"

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
    int n, n_open;
    struct message *first[MAX_RANKS][MAX_RANKS], *last[MAX_RANKS][MAX_RANKS]; /* from, to */
};

struct member {
    struct meeting *meeting;
    int rank;
    bool is_late; /* what comes is there when it is waited for */
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
    *m = (struct member){meetings[number], rank,
                         kind == CS_DEVICE_COMM_SUMS || kind == CS_DEVICE_COMM_ROWS};
    m->meeting->n = n;
    m->meeting->n_open++;
    pthread_cond_broadcast(&changed);
    while (m->meeting->n_open < n)
        pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
    *comm = m;
    return CS_OK;
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

/* Sums, and rows that have come, that nobody has waited for yet. */
static _Thread_local struct arrival {
    struct arrival *next;
    const void *stream, *event; /* the first event that was recorded behind it, NULL: none yet */
    void *to;
    size_t bytes;
    float value[];
} * arrivals;

void cs_lazy_comm_record(const void *event, const void *stream)
{
    for (struct arrival *s = arrivals; s != NULL; s = s->next)
        if (s->stream == stream && s->event == NULL)
            s->event = event;
}

void cs_lazy_comm_wait(const void *event)
{
    struct arrival **link = &arrivals;
    while (*link != NULL) {
        struct arrival *s = *link;
        if (event != NULL && s->event != event) {
            link = &s->next;
            continue;
        }
        *link = s->next;
        memcpy(s->to, s->value, s->bytes);
        free(s);
    }
}

/* until then nobody reads what lies there */
static struct arrival *arrives_late(void *to, size_t bytes, const void *stream)
{
    struct arrival *a = calloc(1, sizeof *a + bytes);
    CS_ASSERT(a != NULL);
    memset(to, 0xff, bytes);
    *a = (struct arrival){.next = arrivals, .stream = stream, .to = to, .bytes = bytes};
    arrivals = a;
    return a;
}

static enum cs_status move(void *comm, const struct cs_device_move *moves, int n, void *stream,
                           struct cs_err *err)
{
    const struct member *m = comm;
    (void)err;
    for (int i = 0; i < n; i++)
        if (moves[i].is_send)
            push(m, moves[i].peer, moves[i].data, moves[i].bytes);
    for (int i = 0; i < n; i++) {
        const struct cs_device_move *r = &moves[i];
        if (!r->is_send)
            pull(m, r->peer, m->is_late ? arrives_late(r->data, r->bytes, stream)->value : r->data,
                 r->bytes);
    }
    return CS_OK;
}

static enum cs_status all_gather(void *comm, const void *from, void *to, size_t bytes, void *stream,
                                 struct cs_err *err)
{
    const struct member *m = comm;
    (void)stream;
    (void)err;
    for (int r = 0; r < m->meeting->n; r++)
        if (r != m->rank)
            push(m, r, from, bytes);
    memmove((char *)to + bytes * (size_t)m->rank, from, bytes);
    for (int r = 0; r < m->meeting->n; r++)
        if (r != m->rank)
            pull(m, r, (char *)to + bytes * (size_t)r, bytes);
    return CS_OK;
}

/* in the order of ranks */
static enum cs_status reduce_scatter(void *comm, const void *from, void *to, size_t count,
                                     enum cs_grad_type type, void *stream, struct cs_err *err)
{
    const struct member *m = comm;
    const float *values = from;
    const size_t bytes = count * sizeof(float);
    float *sum = calloc(count + 1, sizeof *sum), *theirs = malloc(bytes + 1);
    (void)stream;
    (void)err;
    CS_ASSERT(type == CS_GRAD_F32 && sum != NULL && theirs != NULL);
    for (int r = 0; r < m->meeting->n; r++)
        if (r != m->rank)
            push(m, r, values + count * (size_t)r, bytes);
    for (int r = 0; r < m->meeting->n; r++) {
        if (r == m->rank)
            memcpy(theirs, values + count * (size_t)r, bytes);
        else
            pull(m, r, theirs, bytes);
        for (size_t i = 0; i < count; i++)
            sum[i] += theirs[i];
    }
    memcpy(to, sum, bytes);
    free(sum);
    free(theirs);
    return CS_OK;
}

static enum cs_status all_reduce(void *comm, void *data, size_t n, enum cs_grad_type type,
                                 void *stream, struct cs_err *err)
{
    const struct member *m = comm;
    const size_t bytes = n * sizeof(float);
    float *sum = calloc(1, bytes + 1), *theirs = malloc(bytes + 1);
    (void)err;
    CS_ASSERT(type == CS_GRAD_F32 && sum != NULL && theirs != NULL);
    for (int r = 0; r < m->meeting->n; r++)
        if (r != m->rank)
            push(m, r, data, bytes);
    for (int r = 0; r < m->meeting->n; r++) {
        if (r == m->rank)
            memcpy(theirs, data, bytes);
        else
            pull(m, r, theirs, bytes);
        for (size_t i = 0; i < n; i++)
            sum[i] += theirs[i];
    }
    memcpy(arrives_late(data, bytes, stream)->value, sum, bytes);
    free(sum);
    free(theirs);
    return CS_OK;
}

static enum cs_status check(void *comm, struct cs_err *err)
{
    (void)comm;
    (void)err;
    return CS_OK;
}

static void abort_comm(void *comm)
{
    (void)comm;
    CS_ASSERT(false); /* nobody aborts here */
}

/* the last one takes it away; nothing may be on its way any more */
static void close_comm(void *comm)
{
    struct member *m = comm;
    if (m == NULL)
        return;
    pthread_mutex_lock(&lock);
    struct meeting *meeting = m->meeting;
    const bool is_last = --meeting->n_open == 0;
    for (int from = 0; is_last && from < meeting->n; from++)
        for (int to = 0; to < meeting->n; to++)
            CS_ASSERT(meeting->first[from][to] == NULL);
    for (uint32_t i = 0; is_last && i < n_meetings; i++)
        if (meetings[i] == meeting)
            meetings[i] = NULL;
    pthread_mutex_unlock(&lock);
    if (is_last)
        free(meeting);
    free(m);
}

const struct cs_device_comm_ops cs_lazy_comm_ops = {
    .new_id = new_id,
    .open = open_comm,
    .move = move,
    .reduce_scatter = reduce_scatter,
    .all_reduce = all_reduce,
    .all_gather = all_gather,
    .check = check,
    .abort = abort_comm,
    .close = close_comm,
};
