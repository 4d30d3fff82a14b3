/* Hands out the planned buffers of the edges, and takes them back. */
#include "worker/exec/state/boundary.h"

#include <stdlib.h>
#include <string.h>

enum { ALIGN = 256, FLOWS = 2 };

struct cs_boundary {
    const struct cs_plan *plan;
    struct cs_device *device;
    void **at; /* (n_edges, n_slots, 2) taken */
    int32_t n_slots, room;
    char **first;          /* (n_edges) its buffers */
    const int32_t *buffer; /* (n_edges, n_slots, 2) which of them, NULL: not known yet */
};

enum cs_status cs_boundary_new(const struct cs_plan *plan, struct cs_device *device,
                               struct cs_boundary **out, struct cs_err *err)
{
    struct cs_boundary *b = calloc(1, sizeof *b);
    *out = NULL;
    if (b != NULL)
        b->first = calloc((size_t)plan->n_edges + 1, sizeof *b->first);
    if (b == NULL || b->first == NULL) {
        free(b);
        return cs_fail(err, CS_NO_MEMORY, "no memory for the boundaries between stages");
    }
    b->plan = plan;
    b->device = device;
    *out = b;
    return CS_OK;
}

void cs_boundary_free(struct cs_boundary *boundary)
{
    if (boundary == NULL)
        return;
    free(boundary->first);
    free(boundary->at);
    free(boundary);
}

enum cs_status cs_boundary_begin(struct cs_boundary *boundary, int32_t n_slots, struct cs_err *err)
{
    const size_t n = (size_t)n_slots * (size_t)boundary->plan->n_edges * FLOWS;
    boundary->buffer = NULL;
    if (n_slots > boundary->room) {
        free(boundary->at);
        boundary->n_slots = boundary->room = 0;
        boundary->at = malloc((n + 1) * sizeof *boundary->at);
        if (boundary->at == NULL)
            return cs_fail(err, CS_NO_MEMORY, "no memory for the boundaries of %d slots", n_slots);
        boundary->room = n_slots;
    }
    memset(boundary->at, 0, n * sizeof *boundary->at);
    boundary->n_slots = n_slots;
    return CS_OK;
}

/* bytes in front of the loads of experts */
static size_t rows_bytes(const struct cs_boundary *b, int32_t edge)
{
    const struct cs_edge *e = &b->plan->edges[edge];
    const size_t bytes = (size_t)e->max_rows * (size_t)e->width * b->device->ops->act_bytes + 64;
    return (bytes + ALIGN - 1) / ALIGN * ALIGN;
}

static size_t buffer_bytes(const struct cs_boundary *b, int32_t edge)
{
    const size_t loads = (size_t)b->plan->edges[edge].load_bytes;
    return rows_bytes(b, edge) + (loads + ALIGN - 1) / ALIGN * ALIGN;
}

size_t cs_boundary_bytes(const struct cs_boundary *boundary, const int32_t *n_buffers)
{
    size_t bytes = 0;
    for (int32_t e = 0; e < boundary->plan->n_edges; e++)
        bytes += (size_t)n_buffers[e] * buffer_bytes(boundary, e);
    return bytes;
}

void cs_boundary_follow(struct cs_boundary *boundary, const int32_t *n_buffers,
                        const int32_t *buffer, void *memory)
{
    char *at = memory;
    boundary->buffer = buffer;
    for (int32_t e = 0; e < boundary->plan->n_edges; e++) {
        boundary->first[e] = at;
        at += (size_t)n_buffers[e] * buffer_bytes(boundary, e);
    }
}

static size_t index_of(const struct cs_boundary *b, int32_t edge, int32_t slot, int is_grad)
{
    CS_ASSERT(edge >= 0 && edge < b->plan->n_edges && slot >= 0 && slot < b->n_slots);
    return ((size_t)edge * (size_t)b->n_slots + (size_t)slot) * FLOWS + (size_t)(is_grad != 0);
}

void *cs_boundary_take(struct cs_boundary *boundary, int32_t edge, int32_t slot, int is_grad,
                       int64_t rows)
{
    const size_t at = index_of(boundary, edge, slot, is_grad);
    CS_ASSERT(boundary->at[at] == NULL && rows <= boundary->plan->edges[edge].max_rows);
    if (rows == 0)
        return NULL;
    CS_ASSERT(boundary->buffer != NULL && boundary->buffer[at] >= 0);
    boundary->at[at] =
        boundary->first[edge] + (size_t)boundary->buffer[at] * buffer_bytes(boundary, edge);
    return boundary->at[at];
}

void *cs_boundary_at(const struct cs_boundary *boundary, int32_t edge, int32_t slot, int is_grad)
{
    return boundary->at[index_of(boundary, edge, slot, is_grad)];
}

void *cs_boundary_loads(const struct cs_boundary *boundary, int32_t edge, int32_t slot, int is_grad)
{
    char *rows = cs_boundary_at(boundary, edge, slot, is_grad);
    if (rows == NULL || boundary->plan->edges[edge].load_bytes == 0)
        return NULL;
    return rows + rows_bytes(boundary, edge);
}

void cs_boundary_give(struct cs_boundary *boundary, int32_t edge, int32_t slot, int is_grad)
{
    boundary->at[index_of(boundary, edge, slot, is_grad)] = NULL;
}
