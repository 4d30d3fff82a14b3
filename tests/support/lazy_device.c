/* A device on the host that does what was enqueued only when somebody waits for it. */
#include "support/lazy_device.h"

#include "support/lazy_comm.h"
#include "support/lazy_pending.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/system/clock.h"
#include "worker/device/tape.h"

enum { ALIGN = 256, MAX_RANGES = 4096, MAX_DEVICES = 64 };

struct range {
    const char *begin, *end;
};

struct lazy {
    struct cs_tape tape; /* first: the handle is the tape, as its operators want */
    struct cs_device host, device;
    struct cs_ops ops;
    struct cs_device_ops mem;
    bool is_capturing, refuses;
    struct cs_lazy_counts counts;
    struct range range[MAX_RANGES];
    int n_ranges;
};

struct event {
    int64_t ns;
};

static struct lazy *lazy_of(void *handle)
{
    return handle;
}

static void flush(struct lazy *l)
{
    CS_ASSERT(!l->is_capturing);
    cs_tape_play(&l->tape, (struct cs_tape_mark){0, 0}, cs_tape_mark(&l->tape));
    cs_tape_clear(&l->tape);
}

/* ---- operators that no tape takes: at once ---- */

static struct cs_ctx now(struct cs_ctx *ctx)
{
    flush(lazy_of(ctx->handle));
    return (struct cs_ctx){.workspace = ctx->workspace, .workspace_bytes = ctx->workspace_bytes};
}

static void adamw_many(struct cs_ctx *ctx, int32_t n, const struct cs_adamw_tensor *tensor,
                       const struct cs_adamw *hyper)
{
    struct cs_ctx host = now(ctx);
    cs_ops_cpu()->adamw_many(&host, n, tensor, hyper);
}

static void sumsq_many(struct cs_ctx *ctx, int32_t n, const struct cs_sumsq_tensor *tensor,
                       double *sum)
{
    struct cs_ctx host = now(ctx);
    cs_ops_cpu()->sumsq_many(&host, n, tensor, sum);
}

/* on a stream that has collectives under way: behind them */
static void add(struct cs_ctx *ctx, int64_t n, const void *a, const void *b, void *out)
{
    struct lazy *l = lazy_of(ctx->handle);
    if (ctx->stream == l->device.stream || !cs_lazy_pending_sum(ctx->stream, n, a, b, out))
        l->tape.ops.add(ctx, n, a, b, out);
}

/* ---- memory ---- */

static enum cs_status alloc(void *handle, size_t bytes, void **p, struct cs_err *err)
{
    struct lazy *l = handle;
    (void)err;
    CS_ASSERT(!l->is_capturing && l->n_ranges < MAX_RANGES);
    bytes = (bytes + ALIGN) / ALIGN * ALIGN;
    *p = aligned_alloc(ALIGN, bytes);
    CS_ASSERT(*p != NULL);
    memset(*p, 0xff, bytes);
    l->range[l->n_ranges++] = (struct range){*p, (const char *)*p + bytes};
    return CS_OK;
}

static void free_memory(void *handle, void *p)
{
    struct lazy *l = handle;
    if (p == NULL)
        return;
    flush(l);
    for (int i = 0; i < l->n_ranges; i++)
        if (l->range[i].begin == (const char *)p) {
            l->range[i] = l->range[--l->n_ranges];
            break;
        }
    free(p);
}

static bool is_own(const struct lazy *l, const void *p)
{
    for (int i = 0; i < l->n_ranges; i++)
        if ((const char *)p >= l->range[i].begin && (const char *)p < l->range[i].end)
            return true;
    return false;
}

static enum cs_status copy(void *handle, void *stream, void *to, const void *from, size_t bytes,
                           struct cs_err *err)
{
    struct lazy *l = handle;
    cs_lazy_pending_finish(stream);
    if (is_own(l, to) && is_own(l, from))
        return l->tape.mem.copy(handle, stream, to, from, bytes, err);
    flush(l);
    memcpy(to, from, bytes);
    return CS_OK;
}

static enum cs_status fill(void *handle, void *stream, void *p, int byte, size_t bytes,
                           struct cs_err *err)
{
    cs_lazy_pending_finish(stream);
    return lazy_of(handle)->tape.mem.fill(handle, stream, p, byte, bytes, err);
}

/* ---- streams and events: one order for all ---- */

static enum cs_status stream_create(void *handle, void **stream, struct cs_err *err)
{
    (void)handle;
    (void)err;
    *stream = malloc(1);
    CS_ASSERT(*stream != NULL);
    return CS_OK;
}

static void stream_destroy(void *handle, void *stream)
{
    (void)handle;
    free(stream);
}

static enum cs_status stream_sync(void *handle, void *stream, struct cs_err *err)
{
    (void)stream;
    (void)err;
    flush(lazy_of(handle));
    cs_lazy_pending_wait(NULL);
    return CS_OK;
}

static enum cs_status event_create(void *handle, void **event, struct cs_err *err)
{
    (void)handle;
    (void)err;
    *event = calloc(1, sizeof(struct event));
    CS_ASSERT(*event != NULL);
    return CS_OK;
}

static void event_destroy(void *handle, void *event)
{
    (void)handle;
    cs_lazy_pending_forget(event);
    free(event);
}

static enum cs_status event_record(void *handle, void *event, void *stream, struct cs_err *err)
{
    (void)err;
    flush(lazy_of(handle));
    cs_lazy_pending_record(event, stream);
    ((struct event *)event)->ns = cs_now_ns();
    return CS_OK;
}

static enum cs_status stream_wait(void *handle, void *stream, void *event, struct cs_err *err)
{
    (void)stream;
    (void)err;
    CS_ASSERT(!lazy_of(handle)->is_capturing);
    flush(lazy_of(handle));
    cs_lazy_pending_wait(event);
    return CS_OK;
}

static enum cs_status event_query(void *handle, void *event, struct cs_err *err)
{
    (void)err;
    flush(lazy_of(handle));
    cs_lazy_pending_wait(event);
    return CS_OK;
}

static enum cs_status event_elapsed(void *handle, void *begin, void *end, double *ms,
                                    struct cs_err *err)
{
    (void)handle;
    (void)err;
    *ms = (double)(((struct event *)end)->ns - ((struct event *)begin)->ns) * 1e-6;
    return CS_OK;
}

static enum cs_status status(void *handle, struct cs_err *err)
{
    (void)handle;
    (void)err;
    return CS_OK;
}

/* ---- graphs: tapes ---- */

static enum cs_status capture_begin(void *handle, void *stream, struct cs_err *err)
{
    struct lazy *l = handle;
    (void)stream;
    (void)err;
    flush(l);
    l->is_capturing = true;
    return CS_OK;
}

static enum cs_status capture_end(void *handle, void *stream, void **graph, struct cs_err *err)
{
    struct lazy *l = handle;
    (void)stream;
    CS_ASSERT(l->is_capturing);
    l->is_capturing = false;
    *graph = NULL;
    if (l->refuses) {
        cs_tape_clear(&l->tape);
        return cs_fail(err, CS_INTERNAL, "this device captures nothing");
    }
    struct cs_tape *kept = malloc(sizeof *kept);
    CS_ASSERT(kept != NULL);
    *kept = l->tape;
    l->tape.word = NULL;
    l->tape.room = 0;
    cs_tape_clear(&l->tape);
    l->counts.captured++;
    *graph = kept;
    return CS_OK;
}

static enum cs_status graph_launch(void *handle, void *graph, void *stream, struct cs_err *err)
{
    struct lazy *l = handle;
    const struct cs_tape *kept = graph;
    (void)stream;
    (void)err;
    flush(l);
    cs_tape_play(kept, (struct cs_tape_mark){0, 0}, cs_tape_mark(kept));
    l->counts.launched++;
    return CS_OK;
}

static void graph_destroy(void *handle, void *graph)
{
    if (graph == NULL)
        return;
    lazy_of(handle)->counts.destroyed++;
    cs_tape_close(graph);
    free(graph);
}

/* ---- devices by their streams ---- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct lazy *all[MAX_DEVICES];

/* the entry of a device, NULL: one that is free */
static struct lazy **entry_of(const struct lazy *l)
{
    int i = 0;
    while (i < MAX_DEVICES && all[i] != l)
        i++;
    CS_ASSERT(i < MAX_DEVICES);
    return &all[i];
}

static void replace(const struct lazy *old, struct lazy *by)
{
    pthread_mutex_lock(&lock);
    *entry_of(old) = by;
    pthread_mutex_unlock(&lock);
}

bool cs_lazy_device_reach(const void *stream)
{
    struct lazy *found = NULL;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < MAX_DEVICES; i++)
        if (all[i] != NULL && all[i]->device.stream == stream)
            found = all[i];
    pthread_mutex_unlock(&lock);
    if (found != NULL)
        flush(found);
    return found != NULL;
}

/* ---- the device ---- */

struct cs_device *cs_lazy_device_new(void)
{
    struct lazy *l = calloc(1, sizeof *l);
    CS_ASSERT(l != NULL);
    cs_device_cpu(&l->host);
    cs_tape_open(&l->tape, &l->host);
    l->mem = (struct cs_device_ops){
        .version = CS_DEVICE_VERSION,
        .comm = &cs_lazy_comm_ops,
        .ops_f32 = &l->ops,
        .status = status,
        .alloc = alloc,
        .free = free_memory,
        .alloc_host = alloc,
        .free_host = free_memory,
        .copy = copy,
        .fill = fill,
        .stream_create = stream_create,
        .stream_create_urgent = stream_create,
        .stream_destroy = stream_destroy,
        .stream_sync = stream_sync,
        .event_create = event_create,
        .event_destroy = event_destroy,
        .event_record = event_record,
        .stream_wait = stream_wait,
        .event_query = event_query,
        .event_elapsed = event_elapsed,
        .capture_begin = capture_begin,
        .capture_end = capture_end,
        .graph_launch = graph_launch,
        .graph_destroy = graph_destroy,
    };
    l->ops = l->tape.ops;
    l->ops.name = "lazy";
    l->ops.add = add;
    l->ops.adamw_many = adamw_many;
    l->ops.sumsq_many = sumsq_many;
    l->ops.device = &l->mem;
    l->device = (struct cs_device){.ops = &l->ops, .mem = &l->mem, .handle = l};
    CS_ASSERT(stream_create(l, &l->device.stream, NULL) == CS_OK);
    replace(NULL, l);
    return &l->device;
}

void cs_lazy_device_free(struct cs_device *device)
{
    struct lazy *l = lazy_of(device->handle);
    CS_ASSERT(l->n_ranges == 0); /* everything was given back */
    replace(l, NULL);
    cs_tape_close(&l->tape);
    free(device->stream);
    free(l);
}

struct cs_lazy_counts cs_lazy_device_counts(const struct cs_device *device)
{
    return lazy_of(device->handle)->counts;
}

void cs_lazy_device_refuse_graphs(struct cs_device *device)
{
    lazy_of(device->handle)->refuses = true;
}
