/* See boundary.h. */
#include "worker/boundary.h"

#include <pthread.h>
#include <stdlib.h>

struct free_buffer {
    struct free_buffer *next;
};

struct cs_boundary {
    const struct cs_plan *plan;
    pthread_mutex_t lock;
    struct free_buffer **free_list; /* (n_edges) */
    float **at;                     /* (n_slots, n_edges, 2) */
    int32_t n_slots, room;
};

enum cs_status cs_boundary_new(const struct cs_plan *plan, struct cs_boundary **out,
                               struct cs_err *err)
{
    struct cs_boundary *b = calloc(1, sizeof *b);
    *out = NULL;
    if (b != NULL)
        b->free_list = calloc((size_t)plan->n_edges + 1, sizeof(struct free_buffer *));
    if (b == NULL || b->free_list == NULL) {
        free(b);
        return cs_fail(err, CS_NO_MEMORY, "no memory for the boundaries between stages");
    }
    b->plan = plan;
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
                cs_boundary_give(b, edge, slot, is_grad);
}

void cs_boundary_free(struct cs_boundary *boundary)
{
    if (boundary == NULL)
        return;
    give_all(boundary);
    for (int32_t e = 0; e < boundary->plan->n_edges; e++)
        while (boundary->free_list[e] != NULL) {
            struct free_buffer *first = boundary->free_list[e];
            boundary->free_list[e] = first->next;
            free(first);
        }
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

static size_t buffer_bytes(const struct cs_edge *edge)
{
    const size_t bytes = (size_t)edge->max_rows * (size_t)edge->width * sizeof(float);
    return (bytes + 64 + 63) / 64 * 64;
}

float *cs_boundary_take(struct cs_boundary *boundary, int32_t edge, int32_t slot, int is_grad,
                        int64_t rows)
{
    const size_t at = index_of(boundary, edge, slot, is_grad);
    CS_ASSERT(boundary->at[at] == NULL && rows <= boundary->plan->edges[edge].max_rows);
    if (rows == 0)
        return NULL;
    pthread_mutex_lock(&boundary->lock);
    struct free_buffer *first = boundary->free_list[edge];
    if (first != NULL)
        boundary->free_list[edge] = first->next;
    pthread_mutex_unlock(&boundary->lock);
    void *buffer = first;
    if (buffer == NULL)
        buffer = aligned_alloc(64, buffer_bytes(&boundary->plan->edges[edge]));
    CS_ASSERT(buffer != NULL);
    boundary->at[at] = buffer;
    return boundary->at[at];
}

float *cs_boundary_at(const struct cs_boundary *boundary, int32_t edge, int32_t slot, int is_grad)
{
    return boundary->at[index_of(boundary, edge, slot, is_grad)];
}

void cs_boundary_give(struct cs_boundary *boundary, int32_t edge, int32_t slot, int is_grad)
{
    const size_t at = index_of(boundary, edge, slot, is_grad);
    void *buffer = boundary->at[at];
    if (buffer == NULL)
        return;
    boundary->at[at] = NULL;
    struct free_buffer *first = buffer;
    pthread_mutex_lock(&boundary->lock);
    first->next = boundary->free_list[edge];
    boundary->free_list[edge] = first;
    pthread_mutex_unlock(&boundary->lock);
}
