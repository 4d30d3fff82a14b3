/* Places for sets of activations with known life times; see memory.h. */
#include <stdlib.h>

#include "worker/memory.h"

/* Lives that have a place, lowest first. */
struct placed {
    struct cs_memory_life **at; /* (room for all) */
    uint32_t n;
};

static bool meet(const struct cs_memory_life *a, const struct cs_memory_life *b)
{
    return a->begin <= b->end && b->begin <= a->end;
}

/* the lowest gap among those that are alive at the same time */
static void put(struct placed *p, struct cs_memory_life *life)
{
    size_t at = 0;
    for (uint32_t i = 0; i < p->n; i++) {
        const struct cs_memory_life *other = p->at[i];
        if (!meet(life, other))
            continue;
        if (other->at >= at + life->bytes)
            break;
        at = other->at + other->bytes > at ? other->at + other->bytes : at;
    }
    life->at = at;
    uint32_t i = p->n++;
    for (; i > 0 && p->at[i - 1]->at > at; i--)
        p->at[i] = p->at[i - 1];
    p->at[i] = life;
}

static int by_time(const void *a, const void *b)
{
    const struct cs_memory_life *const *x = a, *const *y = b;
    if ((*x)->begin != (*y)->begin)
        return (*x)->begin > (*y)->begin ? 1 : -1;
    return (*x > *y) - (*x < *y);
}

static int by_size(const void *a, const void *b)
{
    const struct cs_memory_life *const *x = a, *const *y = b;
    if ((*x)->bytes != (*y)->bytes)
        return (*x)->bytes < (*y)->bytes ? 1 : -1;
    return by_time(a, b);
}

static size_t arrange_in(struct cs_memory_life *life, uint32_t n, struct cs_memory_life **order,
                         struct placed *placed, int (*compare)(const void *, const void *))
{
    size_t all = 0;
    for (uint32_t i = 0; i < n; i++)
        order[i] = &life[i];
    qsort(order, n, sizeof *order, compare);
    placed->n = 0;
    for (uint32_t i = 0; i < n; i++) {
        put(placed, order[i]);
        all = order[i]->at + order[i]->bytes > all ? order[i]->at + order[i]->bytes : all;
    }
    return all;
}

size_t cs_memory_arrange(struct cs_memory_life *life, uint32_t n)
{
    struct cs_memory_life **order = calloc((size_t)n + 1, sizeof *order);
    struct placed placed = {.at = calloc((size_t)n + 1, sizeof *placed.at)};
    size_t all = SIZE_MAX;
    if (order != NULL && placed.at != NULL) {
        const size_t other = arrange_in(life, n, order, &placed, by_size);
        all = arrange_in(life, n, order, &placed, by_time);
        if (other < all)
            all = arrange_in(life, n, order, &placed, by_size);
    }
    free(order);
    free(placed.at);
    return all;
}
