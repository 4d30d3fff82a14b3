/* Work of streams that is under way, and what must not happen meanwhile. */
#include "support/lazy_pending.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/status.h"

enum { MAX_EVENTS = 4096 };

struct sum {
    int64_t n; /* 0: it is none */
    const float *a, *b;
    float *out;
};

struct pending {
    struct pending *next; /* as they were given */
    int64_t number;
    struct cs_lazy_work work;
    struct sum sum;
    bool is_rewritten; /* what is written was under way to the same place before */
    char *seen;        /* what `from` was */
    char value[];      /* what comes to `to` */
};

struct event {
    const void *event, *stream;
    int64_t number; /* of the first work that is not before it */
};

static _Thread_local struct pending *first, **last = NULL;
static _Thread_local int64_t n_given;
static _Thread_local struct event events[MAX_EVENTS];
static _Thread_local int n_events;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char race[256], told[256];

const char *cs_lazy_race(void)
{
    pthread_mutex_lock(&lock);
    memcpy(told, race, sizeof told);
    race[0] = '\0';
    pthread_mutex_unlock(&lock);
    return told[0] != '\0' ? told : NULL;
}

static void tell(const struct pending *p, const char *array, size_t bytes, size_t at,
                 const char *how)
{
    pthread_mutex_lock(&lock);
    if (race[0] == '\0')
        snprintf(race, sizeof race,
                 "%s of rank %d, number %lld: %s (%zu bytes) %s at byte %zu before anybody waited",
                 p->work.what, p->work.rank, (long long)p->number, array, bytes, how, at);
    pthread_mutex_unlock(&lock);
}

/* ---- arrays ---- */

static bool overlap(const void *a, size_t n, const void *b, size_t m)
{
    const char *x = a, *y = b;
    return a != NULL && b != NULL && n > 0 && m > 0 && x < y + m && y < x + n;
}

static bool is_written(const struct pending *p, const char *at)
{
    const char *to = p->work.to;
    return to != NULL && at >= to && at < to + p->work.to_bytes;
}

static void check(const struct pending *p)
{
    const struct cs_lazy_work *w = &p->work;
    const char *from = w->from, *to = w->to;
    const bool is_changed = from != NULL && memcmp(from, p->seen, w->from_bytes) != 0;
    for (size_t i = 0; is_changed && i < w->from_bytes; i++)
        if (from[i] != p->seen[i] && !is_written(p, from + i)) {
            tell(p, "what it reads", w->from_bytes, i, "has changed");
            break;
        }
    for (size_t i = 0; to != NULL && !p->is_rewritten && i < w->to_bytes; i++)
        if (to[i] != (char)0xff) {
            tell(p, "what it writes", w->to_bytes, i, "was written");
            break;
        }
}

static void complete(struct pending *p)
{
    const struct sum *s = &p->sum;
    check(p);
    if (p->work.to != NULL)
        memcpy(p->work.to, p->value, p->work.to_bytes);
    for (int64_t i = 0; i < s->n; i++)
        s->out[i] = s->a[i] + s->b[i];
    free(p->seen);
    free(p);
}

/* ---- the list ---- */

/* those of a stream (NULL: of all) before this number, in order */
static void complete_before(const void *stream, int64_t number)
{
    struct pending **link = &first;
    while (*link != NULL) {
        struct pending *p = *link;
        if ((stream != NULL && p->work.stream != stream) || p->number >= number) {
            link = &p->next;
            continue;
        }
        *link = p->next;
        complete(p);
    }
    last = link;
}

void cs_lazy_pending_finish(const void *stream)
{
    complete_before(stream, INT64_MAX);
}

static struct pending *append(const struct cs_lazy_work *work)
{
    const size_t bytes = work->to != NULL ? work->to_bytes : 0;
    struct pending *p = calloc(1, sizeof *p + bytes + 1);
    CS_ASSERT(p != NULL);
    *p = (struct pending){.number = n_given++, .work = *work};
    if (last == NULL)
        last = &first;
    *last = p;
    last = &p->next;
    return p;
}

/* Where what is read is under way, or what is written is being read, the stream has done that before. */
static bool must_follow(const struct cs_lazy_work *w, const struct pending *before)
{
    const struct cs_lazy_work *b = &before->work;
    const struct sum *s = &before->sum;
    const size_t bytes = (size_t)s->n * sizeof(float);
    return overlap(w->from, w->from_bytes, b->to, b->to_bytes) ||
           overlap(w->to, w->to_bytes, b->from, b->from_bytes) ||
           overlap(w->from, w->from_bytes, s->out, bytes) ||
           overlap(w->to, w->to_bytes, s->out, bytes) || overlap(w->to, w->to_bytes, s->a, bytes) ||
           overlap(w->to, w->to_bytes, s->b, bytes);
}

void *cs_lazy_pending_add(const struct cs_lazy_work *work)
{
    bool follows = false, is_rewritten = false;
    for (const struct pending *p = first; p != NULL; p = p->next) {
        if (p->work.stream != work->stream)
            continue;
        follows = follows || must_follow(work, p);
        is_rewritten =
            is_rewritten || overlap(work->to, work->to_bytes, p->work.to, p->work.to_bytes);
    }
    if (follows)
        cs_lazy_pending_finish(work->stream);
    struct pending *p = append(work);
    p->is_rewritten = is_rewritten && !follows;
    if (work->from != NULL) {
        p->seen = malloc(work->from_bytes + 1);
        CS_ASSERT(p->seen != NULL);
        memcpy(p->seen, work->from, work->from_bytes);
    }
    if (work->to != NULL && !p->is_rewritten)
        memset(work->to, 0xff, work->to_bytes);
    return p->value;
}

bool cs_lazy_pending_sum(const void *stream, int64_t n, const float *a, const float *b, float *out)
{
    bool is_busy = false;
    for (const struct pending *p = first; p != NULL; p = p->next)
        is_busy = is_busy || p->work.stream == stream;
    if (!is_busy)
        return false;
    struct pending *p = append(&(struct cs_lazy_work){.what = "add", .stream = stream});
    p->sum = (struct sum){n, a, b, out};
    return true;
}

/* ---- events ---- */

static struct event *find(const void *event)
{
    for (int i = 0; i < n_events; i++)
        if (events[i].event == event)
            return &events[i];
    return NULL;
}

void cs_lazy_pending_record(const void *event, const void *stream)
{
    struct event *e = find(event);
    if (e == NULL) {
        CS_ASSERT(n_events < MAX_EVENTS);
        e = &events[n_events++];
    }
    *e = (struct event){event, stream, n_given};
}

void cs_lazy_pending_wait(const void *event)
{
    const struct event *e = event != NULL ? find(event) : NULL;
    if (event == NULL)
        complete_before(NULL, INT64_MAX);
    else if (e != NULL)
        complete_before(e->stream, e->number);
}

void cs_lazy_pending_forget(const void *event)
{
    struct event *e = find(event);
    if (e != NULL)
        *e = events[--n_events];
}
