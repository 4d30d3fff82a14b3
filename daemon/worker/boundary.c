/* See boundary.h. */
#include "worker/boundary.h"

#include <pthread.h>
#include <stdlib.h>

enum { ALIGN = 256 };

struct buffer {
    struct buffer *next; /* in the free list */
    void *data;
    void *last_use;    /* event, NULL on the host */
    void *last_stream; /* where it was recorded */
    bool is_used;      /* last_use was recorded */
    bool is_borrowed;  /* data is a part of the arena */
    size_t home;       /* 1 + where in `at` it was first */
};

struct cs_boundary {
    const struct cs_plan *plan;
    struct cs_device *device;
    pthread_mutex_t lock;
    struct buffer **free_list; /* (n_edges) */
    struct buffer **at;        /* (n_slots, n_edges, 2) */
    int32_t n_slots, room;
};

enum cs_status cs_boundary_new(const struct cs_plan *plan, struct cs_device *device,
                               struct cs_boundary **out, struct cs_err *err)
{
    struct cs_boundary *b = calloc(1, sizeof *b);
    *out = NULL;
    if (b != NULL)
        b->free_list = calloc((size_t)plan->n_edges + 1, sizeof(struct buffer *));
    if (b == NULL || b->free_list == NULL) {
        free(b);
        return cs_fail(err, CS_NO_MEMORY, "no memory for the boundaries between stages");
    }
    b->plan = plan;
    b->device = device;
    pthread_mutex_init(&b->lock, NULL);
    *out = b;
    return CS_OK;
}

static size_t index_of(const struct cs_boundary *b, int32_t edge, int32_t slot, int is_grad)
{
    CS_ASSERT(edge >= 0 && edge < b->plan->n_edges && slot >= 0 && slot < b->n_slots);
    return ((size_t)slot * (size_t)b->plan->n_edges + (size_t)edge) * 2 + (size_t)(is_grad != 0);
}

static void give_all(struct cs_boundary *b)
{
    for (int32_t slot = 0; slot < b->n_slots; slot++)
        for (int32_t edge = 0; edge < b->plan->n_edges; edge++)
            for (int is_grad = 0; is_grad < 2; is_grad++)
                cs_boundary_give(b, edge, slot, is_grad, b->device->stream);
}

static size_t buffer_bytes(const struct cs_boundary *b, int32_t edge)
{
    const struct cs_edge *e = &b->plan->edges[edge];
    const size_t bytes = (size_t)e->max_rows * (size_t)e->width * b->device->ops->act_bytes + 64;
    return (bytes + ALIGN - 1) / ALIGN * ALIGN;
}

static void free_buffer(struct cs_boundary *b, int32_t edge, struct buffer *buffer)
{
    if (!buffer->is_borrowed)
        cs_device_free(b->device, buffer->data, buffer_bytes(b, edge));
    if (buffer->last_use != NULL)
        b->device->mem->event_destroy(b->device->handle, buffer->last_use);
    free(buffer);
}

/* memory NULL: of its own */
static enum cs_status new_buffer(struct cs_boundary *b, int32_t edge, void *memory,
                                 struct buffer **out, struct cs_err *err)
{
    const struct cs_device_ops *mem = b->device->mem;
    struct buffer *buffer = calloc(1, sizeof *buffer);
    *out = NULL;
    if (buffer == NULL)
        return cs_fail(err, CS_NO_MEMORY, "no memory for a boundary buffer");
    buffer->data = memory;
    buffer->is_borrowed = memory != NULL;
    enum cs_status status =
        memory != NULL ? CS_OK
                       : cs_device_alloc(b->device, buffer_bytes(b, edge), &buffer->data, err);
    if (status == CS_OK && mem != NULL)
        status = mem->event_create(b->device->handle, &buffer->last_use, err);
    if (status != CS_OK)
        free_buffer(b, edge, buffer);
    else
        *out = buffer;
    return status;
}

static void drop_all(struct cs_boundary *b)
{
    give_all(b);
    for (int32_t e = 0; e < b->plan->n_edges; e++)
        while (b->free_list[e] != NULL) {
            struct buffer *first = b->free_list[e];
            b->free_list[e] = first->next;
            free_buffer(b, e, first);
        }
}

size_t cs_boundary_bytes(const struct cs_boundary *boundary, const int32_t *n_buffers)
{
    size_t bytes = 0;
    for (int32_t e = 0; e < boundary->plan->n_edges; e++)
        bytes += (size_t)n_buffers[e] * buffer_bytes(boundary, e);
    return bytes;
}

enum cs_status cs_boundary_reserve(struct cs_boundary *boundary, const int32_t *n_buffers,
                                   void *memory, struct cs_err *err)
{
    char *at = memory;
    drop_all(boundary);
    for (int32_t e = 0; e < boundary->plan->n_edges; e++)
        for (int32_t i = 0; i < n_buffers[e]; i++) {
            struct buffer *buffer;
            CS_TRY(new_buffer(boundary, e, at, &buffer, err));
            buffer->next = boundary->free_list[e];
            boundary->free_list[e] = buffer;
            at += buffer_bytes(boundary, e);
        }
    return CS_OK;
}

void cs_boundary_free(struct cs_boundary *boundary)
{
    if (boundary == NULL)
        return;
    drop_all(boundary);
    pthread_mutex_destroy(&boundary->lock);
    free(boundary->free_list);
    free(boundary->at);
    free(boundary);
}

enum cs_status cs_boundary_begin(struct cs_boundary *boundary, int32_t n_slots, struct cs_err *err)
{
    give_all(boundary);
    if (n_slots > boundary->room) {
        const size_t n = (size_t)n_slots * (size_t)boundary->plan->n_edges * 2;
        free(boundary->at);
        boundary->n_slots = boundary->room = 0;
        boundary->at = calloc(n + 1, sizeof *boundary->at);
        if (boundary->at == NULL)
            return cs_fail(err, CS_NO_MEMORY, "no memory for the boundaries of %d slots", n_slots);
        boundary->room = n_slots;
    }
    boundary->n_slots = n_slots;
    return CS_OK;
}

/* Programs are proved free of stalls with a buffer for every slot. A message may take long, or wait
 * for its peer: whoever waited for the last use of a buffer by one would add a dependency that the
 * proof does not know, and such a circle once held two ranks for ever. So a buffer is taken again
 * only by the stream that used it last, or when that use is over. */
static bool is_free_for(const struct cs_device *d, const struct buffer *buffer, const void *stream)
{
    return !buffer->is_used || buffer->last_stream == stream ||
           d->mem->event_query(d->handle, buffer->last_use, NULL) == CS_OK;
}

/* the first in the list whose home is this one and that can be used; link: of it or the end */
static struct buffer **find_home(struct cs_boundary *b, int32_t edge, size_t home,
                                 const void *stream)
{
    struct buffer **link = &b->free_list[edge];
    while (*link != NULL && ((*link)->home != home || !is_free_for(b->device, *link, stream)))
        link = &(*link)->next;
    return link;
}

/* The same rows get the same buffer in every step where there are enough of them, so that addresses
 * repeat (worker/graphs.h); else any. */
static struct buffer *take_free(struct cs_boundary *b, int32_t edge, size_t home,
                                const void *stream)
{
    pthread_mutex_lock(&b->lock);
    struct buffer **link = find_home(b, edge, home, stream);
    if (*link == NULL)
        link = find_home(b, edge, 0, stream);
    if (*link == NULL)
        for (link = &b->free_list[edge]; *link != NULL && !is_free_for(b->device, *link, stream);)
            link = &(*link)->next;
    struct buffer *found = *link;
    if (found != NULL) {
        *link = found->next;
        found->home = found->home == 0 ? home : found->home;
    }
    pthread_mutex_unlock(&b->lock);
    return found;
}

enum cs_status cs_boundary_take(struct cs_boundary *boundary, int32_t edge, int32_t slot,
                                int is_grad, int64_t rows, void *stream, void **out,
                                struct cs_err *err)
{
    const size_t at = index_of(boundary, edge, slot, is_grad);
    CS_ASSERT(boundary->at[at] == NULL && rows <= boundary->plan->edges[edge].max_rows);
    *out = NULL;
    if (rows == 0)
        return CS_OK;
    struct buffer *buffer = take_free(boundary, edge, at + 1, stream);
    if (buffer == NULL)
        CS_TRY(new_buffer(boundary, edge, NULL, &buffer, err));
    boundary->at[at] = buffer;
    *out = buffer->data;
    return CS_OK;
}

void *cs_boundary_at(const struct cs_boundary *boundary, int32_t edge, int32_t slot, int is_grad)
{
    const struct buffer *buffer = boundary->at[index_of(boundary, edge, slot, is_grad)];
    return buffer != NULL ? buffer->data : NULL;
}

void cs_boundary_give(struct cs_boundary *boundary, int32_t edge, int32_t slot, int is_grad,
                      void *stream)
{
    const struct cs_device *d = boundary->device;
    const size_t at = index_of(boundary, edge, slot, is_grad);
    struct buffer *buffer = boundary->at[at];
    if (buffer == NULL)
        return;
    boundary->at[at] = NULL;
    if (d->mem != NULL) { /* a failed record leaves its error in the device */
        buffer->is_used = d->mem->event_record(d->handle, buffer->last_use, stream, NULL) == CS_OK;
        buffer->last_stream = stream;
    }
    pthread_mutex_lock(&boundary->lock);
    buffer->next = boundary->free_list[edge];
    boundary->free_list[edge] = buffer;
    pthread_mutex_unlock(&boundary->lock);
}
