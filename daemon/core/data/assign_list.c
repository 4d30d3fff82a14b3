/* See assign_list.h. */
#include "core/data/assign_list.h"

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

void cs_list_lpt(const struct cs_list *list, struct cs_arena *arena)
{
    const double *cost = list->dim[0];
    double *load = CS_NEW_ARRAY(arena, double, list->bins);
    int32_t *count = CS_NEW_ARRAY(arena, int32_t, list->bins),
            *order = CS_NEW_ARRAY(arena, int32_t, list->n);
    for (int32_t i = 0; i < list->n; i++)
        order[i] = list->index[i];
    cs_list_sort(order, list->n, cost, NULL, arena);
    for (int32_t i = 0; i < list->n; i++) {
        int32_t least = -1;
        for (int32_t b = 0; b < list->bins; b++)
            if ((list->cap == 0 || count[b] < list->cap) && (least < 0 || load[b] < load[least]))
                least = b;
        list->bin[order[i]] = least;
        load[least] += cost[order[i]];
        count[least]++;
    }
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

void cs_list_balance(const struct cs_list *list, struct cs_arena *arena)
{
    const struct share *share = make_shares(list, arena);
    double(*load)[CS_LIST_DIMS] = cs_arena_array(arena, sizeof *load, (size_t)list->bins);
    int32_t *count = CS_NEW_ARRAY(arena, int32_t, list->bins);
    for (int32_t i = 0; i < list->n; i++) {
        int32_t best = -1;
        double best_max = 0, best_sum = 0;
        for (int32_t b = 0; b < list->bins; b++) {
            double max = 0, sum = 0;
            if (list->cap > 0 && count[b] == list->cap)
                continue;
            for (int32_t d = 0; d < CS_LIST_DIMS; d++) {
                const double after = load[b][d] + share[i].part[d];
                max = after > max ? after : max;
                sum += after;
            }
            if (best < 0 || max < best_max || (max == best_max && sum < best_sum)) {
                best = b;
                best_max = max;
                best_sum = sum;
            }
        }
        list->bin[share[i].sample] = best;
        count[best]++;
        for (int32_t d = 0; d < CS_LIST_DIMS; d++)
            load[best][d] += share[i].part[d];
    }
}
