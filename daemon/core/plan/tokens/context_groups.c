/* Slots to groups of ranks, the heaviest first, between slots that all of them split. */
#include "core/plan/tokens/context_groups.h"

static double work_of(const struct cs_context_rule *rule, int32_t n_rows)
{
    const double n = n_rows;
    return rule->per_row * n + rule->per_pair * n * (n + 1) / 2;
}

static double busiest(const double *busy, int32_t first, int32_t n)
{
    double most = busy[first];
    for (int32_t r = first + 1; r < first + n; r++)
        most = busy[r] > most ? busy[r] : most;
    return most;
}

/* The neighbours that can begin first; of several the first ones. They begin together. */
static void place(const struct cs_context_rule *rule, double work, struct cs_context_group *group,
                  double *busy)
{
    double best = busiest(busy, 0, group->n);
    group->first = 0;
    for (int32_t f = 1; f + group->n <= rule->degrees.ranks; f++) {
        const double begin = busiest(busy, f, group->n);
        if (begin < best) {
            best = begin;
            group->first = f;
        }
    }
    for (int32_t r = group->first; r < group->first + group->n; r++)
        busy[r] = best + work / group->n;
}

/* slots begin .. end, which fewer than all ranks split; first is -1 until one is placed */
static void place_between(const struct cs_context_rule *rule, const int32_t *n_rows, int32_t begin,
                          int32_t end, struct cs_context_group *out, double *busy)
{
    for (int32_t placed = begin; placed < end; placed++) {
        int32_t next = -1;
        for (int32_t i = begin; i < end; i++)
            if (out[i].first < 0 && (next < 0 || n_rows[i] > n_rows[next]))
                next = i;
        place(rule, work_of(rule, n_rows[next]), &out[next], busy);
    }
}

void cs_context_groups(const struct cs_context_rule *rule, const int32_t *n_rows, int32_t n_slots,
                       struct cs_context_group *out, double *busy)
{
    int32_t begin = 0;
    for (int32_t r = 0; r < rule->degrees.ranks; r++)
        busy[r] = 0;
    for (int32_t i = 0; i < n_slots; i++) {
        out[i] = (struct cs_context_group){-1, cs_context_degree(&rule->degrees, n_rows[i])};
        if (out[i].n < rule->degrees.ranks)
            continue;
        place_between(rule, n_rows, begin, i, out, busy);
        place(rule, work_of(rule, n_rows[i]), &out[i], busy);
        begin = i + 1;
    }
    place_between(rule, n_rows, begin, n_slots, out, busy);
}
