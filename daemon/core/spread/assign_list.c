/* List scheduling: items to bins by the largest of several costs, under limits of room. */
#include "core/spread/assign_list.h"

#include <math.h>
#include <stdlib.h>

struct item {
    double key, second;
    int32_t sample;
};

static int by_key(const void *a, const void *b)
{
    const struct item *x = a, *y = b;
    if (x->key != y->key)
        return x->key > y->key ? -1 : 1;
    if (x->second != y->second)
        return x->second > y->second ? -1 : 1;
    return x->sample < y->sample ? -1 : x->sample > y->sample;
}

void cs_list_sort(int32_t *index, int32_t n, const double *key, const double *second,
                  struct cs_arena *arena)
{
    struct item *item = CS_NEW_ARRAY(arena, struct item, n);
    for (int32_t i = 0; i < n; i++)
        item[i] = (struct item){key[index[i]], second ? second[index[i]] : 0, index[i]};
    qsort(item, (size_t)n, sizeof *item, by_key);
    for (int32_t i = 0; i < n; i++)
        index[i] = item[i].sample;
}

struct cs_list_fill cs_list_fill_make(const struct cs_list_room *room, int32_t bins,
                                      struct cs_arena *arena)
{
    struct cs_list_fill fill = {.room = room};
    if (room)
        fill.used = CS_NEW_ARRAY(arena, int64_t, (size_t)bins * (size_t)room->n);
    return fill;
}

static int64_t size_of(const struct cs_list_room *room, int32_t r, int32_t sample)
{
    return room->size[r] ? room->size[r][sample] : 1;
}

bool cs_list_fits(const struct cs_list_fill *fill, int32_t sample, int32_t bin)
{
    const struct cs_list_room *room = fill->room;
    for (int32_t r = 0; room && r < room->n; r++)
        if (fill->used[(int64_t)bin * room->n + r] + size_of(room, r, sample) > room->limit[r])
            return false;
    return true;
}

void cs_list_put(const struct cs_list_fill *fill, int32_t sample, int32_t bin)
{
    const struct cs_list_room *room = fill->room;
    for (int32_t r = 0; room && r < room->n; r++)
        fill->used[(int64_t)bin * room->n + r] += size_of(room, r, sample);
}

int32_t cs_list_lpt(const struct cs_list *list, struct cs_arena *arena)
{
    const double *cost = list->dim[0];
    double *load = CS_NEW_ARRAY(arena, double, list->bins);
    int32_t *count = CS_NEW_ARRAY(arena, int32_t, list->bins),
            *order = CS_NEW_ARRAY(arena, int32_t, list->n);
    for (int32_t i = 0; i < list->n; i++)
        order[i] = list->index[i];
    cs_list_sort(order, list->n, cost, NULL, arena);
    const struct cs_list_fill fill = cs_list_fill_make(list->room, list->bins, arena);
    int32_t unplaced = 0;
    for (int32_t i = 0; i < list->n; i++) {
        int32_t least = -1;
        for (int32_t b = 0; b < list->bins; b++)
            if ((list->cap == 0 || count[b] < list->cap) && (least < 0 || load[b] < load[least]) &&
                cs_list_fits(&fill, order[i], b))
                least = b;
        list->bin[order[i]] = least;
        if (least < 0) {
            unplaced++;
            continue;
        }
        load[least] += cost[order[i]];
        count[least]++;
        cs_list_put(&fill, order[i], least);
    }
    return unplaced;
}

/* Items divided by the sum of every dimension, heaviest dimension first. */
struct share {
    double part[CS_LIST_DIMS];
    double largest;
    int32_t sample;
};

static int by_largest(const void *a, const void *b)
{
    const struct share *x = a, *y = b;
    if (x->largest != y->largest)
        return x->largest > y->largest ? -1 : 1;
    return x->sample < y->sample ? -1 : x->sample > y->sample;
}

static struct share *make_shares(const struct cs_list *list, struct cs_arena *arena)
{
    struct share *share = CS_NEW_ARRAY(arena, struct share, list->n);
    for (int32_t d = 0; d < list->n_dims; d++) {
        double sum = 0;
        for (int32_t i = 0; i < list->n; i++)
            sum += list->dim[d][list->index[i]];
        for (int32_t i = 0; i < list->n; i++) {
            const double part = sum > 0 ? list->dim[d][list->index[i]] / sum : 0;
            share[i].sample = list->index[i];
            share[i].part[d] = part;
            share[i].largest = fmax(share[i].largest, part);
        }
    }
    qsort(share, (size_t)list->n, sizeof *share, by_largest);
    return share;
}

/* How full a bin would be with a share: the largest dimension, and the sum over all of them. */
struct fullness {
    double max, sum;
};

static struct fullness after_insertion(const double *load, const struct share *share, int32_t dims)
{
    struct fullness f = {0, 0};
    for (int32_t d = 0; d < dims; d++) {
        const double after = load[d] + share->part[d];
        f.max = after > f.max ? after : f.max;
        f.sum += after;
    }
    return f;
}

int32_t cs_list_balance(const struct cs_list *list, struct cs_arena *arena)
{
    const struct share *share = make_shares(list, arena);
    const struct cs_list_fill fill = cs_list_fill_make(list->room, list->bins, arena);
    double(*load)[CS_LIST_DIMS] = cs_arena_array(arena, sizeof *load, (size_t)list->bins);
    int32_t *count = CS_NEW_ARRAY(arena, int32_t, list->bins), unplaced = 0;
    for (int32_t i = 0; i < list->n; i++) {
        int32_t best = -1;
        struct fullness least = {0, 0};
        for (int32_t b = 0; b < list->bins; b++) {
            if (list->cap > 0 && count[b] == list->cap)
                continue;
            const struct fullness f = after_insertion(load[b], &share[i], list->n_dims);
            const bool is_better =
                best < 0 || f.max < least.max || (f.max == least.max && f.sum < least.sum);
            if (is_better && cs_list_fits(&fill, share[i].sample, b)) {
                best = b;
                least = f;
            }
        }
        list->bin[share[i].sample] = best;
        if (best < 0) {
            unplaced++;
            continue;
        }
        count[best]++;
        cs_list_put(&fill, share[i].sample, best);
        for (int32_t d = 0; d < list->n_dims; d++)
            load[best][d] += share[i].part[d];
    }
    return unplaced;
}
