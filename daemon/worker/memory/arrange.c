/* Places for sets of activations with known life times, so that those that meet do not overlap. */
#include <stdlib.h>

#include "worker/memory/plan.h"

enum { ALIGN = 256 };

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
        if (other->at >= at + life->room)
            break;
        at = other->at + other->room > at ? other->at + other->room : at;
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

/* Sizes that are nearly the same become the same: a gap that is a little too small is no gap. */
static size_t padded(size_t bytes, size_t largest)
{
    size_t room = largest;
    while (bytes > 0 && room / 8 * 7 >= bytes)
        room = room / 8 * 7;
    return bytes > 0 ? (room + ALIGN - 1) / ALIGN * ALIGN : 0;
}

struct strategy {
    int (*compare)(const void *, const void *);
    bool pads;
};

static size_t arrange_in(struct cs_memory_life *life, uint32_t n, struct cs_memory_life **order,
                         struct placed *placed, const struct strategy *strategy)
{
    size_t all = 0, largest = 0;
    uint32_t m = 0;
    for (uint32_t i = 0; i < n; i++)
        largest = life[i].bytes > largest ? life[i].bytes : largest;
    for (uint32_t i = 0; i < n; i++) {
        life[i].at = 0;
        life[i].room = strategy->pads ? padded(life[i].bytes, largest) : life[i].bytes;
        if (life[i].bytes > 0) /* most are other ranks' */
            order[m++] = &life[i];
    }
    qsort(order, m, sizeof *order, strategy->compare);
    placed->n = 0;
    for (uint32_t i = 0; i < m; i++) {
        put(placed, order[i]);
        all = order[i]->at + order[i]->room > all ? order[i]->at + order[i]->room : all;
    }
    return all;
}

size_t cs_memory_arrange(struct cs_memory_life *life, uint32_t n)
{
    static const struct strategy strategy[] = {
        {by_time, false},
        {by_time, true },
        {by_size, false},
        {by_size, true }
    };
    struct cs_memory_life **order = calloc((size_t)n + 1, sizeof *order);
    struct placed placed = {.at = calloc((size_t)n + 1, sizeof *placed.at)};
    size_t best = SIZE_MAX, which = 0;
    for (size_t i = 0; order != NULL && placed.at != NULL && i < CS_ARRAY_LEN(strategy); i++) {
        const size_t all = arrange_in(life, n, order, &placed, &strategy[i]);
        which = all < best ? i : which;
        best = all < best ? all : best;
    }
    if (best != SIZE_MAX)
        best = arrange_in(life, n, order, &placed, &strategy[which]);
    free(order);
    free(placed.at);
    return best;
}
