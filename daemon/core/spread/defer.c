/* Chooses which samples of a heavy slot its light partner consumes.
 *
 * Slots by LLM work: the heavier half OL, the lighter half UL. For a pair (i, j) the samples D of i
 * whose sum is nearest (w_i - w_j) / 2 leave max(w_i - w(D), w_j + w(D)). The pairs to use are
 * those of the bottleneck matching: the smallest T such that every heavy slot above T has a partner
 * of its own that brings the pair to T (bisection over the values, augmenting paths inside). */
#include "core/spread/defer.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/spread/assign_list.h"

enum { WORDS = CS_DEFER_BUCKETS / 64 };

struct bits {
    uint64_t word[WORDS];
};

struct replica {
    const double *llm;   /* by sample */
    int32_t slots, half; /* half: slots in OL, the same number in UL; an odd one is left over */
    int32_t *order;      /* (slots) by LLM work, heaviest first: OL, (the odd one), UL */
    double *work;        /* (slots) by slot */
    int32_t *first;      /* (slots + 1) */
    int32_t *sample;     /* of slot s: sample[first[s] .. first[s + 1]) */
    double *value;       /* (half, half) what the pair comes to */
    struct cs_arena *arena;
};

static struct bits shifted(struct bits b, int32_t by)
{
    struct bits out = {{0}};
    const int32_t words = by / 64, rest = by % 64;
    for (int32_t i = WORDS - 1; i >= words; i--) {
        out.word[i] = b.word[i - words] << rest;
        if (rest > 0 && i > words)
            out.word[i] |= b.word[i - words - 1] >> (64 - rest);
    }
    return out;
}

static bool has_bit(const struct bits *b, int32_t i)
{
    return b->word[i / 64] >> (i % 64) & 1;
}

/* Buckets of a sample's work; CS_DEFER_BUCKETS: too large to be deferred. */
static int32_t bucket_of(double work, double unit)
{
    const double buckets = floor(work / unit + 0.5);
    return buckets < CS_DEFER_BUCKETS ? (int32_t)buckets : CS_DEFER_BUCKETS;
}

/* Reachable sums after every sample of slot i, in units; returns the sum nearest the middle. */
static int32_t nearest_sum(const struct replica *l, int32_t i, double unit, struct bits *reach)
{
    const int32_t n = l->first[i + 1] - l->first[i], middle = CS_DEFER_BUCKETS / 2;
    memset(reach, 0, sizeof *reach);
    reach[0].word[0] = 1;
    for (int32_t k = 0; k < n; k++) {
        const int32_t by = bucket_of(l->llm[l->sample[l->first[i] + k]], unit);
        reach[k + 1] = reach[k];
        if (by < CS_DEFER_BUCKETS) {
            const struct bits more = shifted(reach[k], by);
            for (int w = 0; w < WORDS; w++)
                reach[k + 1].word[w] |= more.word[w];
        }
    }
    for (int32_t d = 0; d < middle; d++) {
        if (has_bit(&reach[n], middle - d))
            return middle - d;
        if (has_bit(&reach[n], middle + d))
            return middle + d;
    }
    return 0;
}

/* The samples of slot i to defer to slot j: marked in chosen (by place in the slot, may be NULL).
 * Returns what the pair comes to; w_i when nothing is gained. reach: room for samples of i + 1. */
static double try_pair(const struct replica *l, int32_t i, int32_t j, struct bits *reach,
                       bool *chosen)
{
    const double delta = (l->work[i] - l->work[j]) / 2, unit = delta / (CS_DEFER_BUCKETS / 2);
    double moved = 0;
    if (!(unit > 0))
        return l->work[i];
    int32_t at = nearest_sum(l, i, unit, reach);
    for (int32_t k = l->first[i + 1] - l->first[i] - 1; k >= 0; k--) {
        const double work = l->llm[l->sample[l->first[i] + k]];
        const bool is_taken = !has_bit(&reach[k], at);
        if (chosen)
            chosen[k] = is_taken;
        if (is_taken) {
            at -= bucket_of(work, unit);
            moved += work;
        }
    }
    return fmax(l->work[i] - moved, l->work[j] + moved);
}

static int32_t heavy(const struct replica *l, int32_t i)
{
    return l->order[i];
}

static int32_t light(const struct replica *l, int32_t j)
{
    return l->order[l->slots - l->half + j];
}

/* One augmenting path from heavy i; owner (half) of every light one, seen marks this search. */
static bool augment(const struct replica *l, double limit, int32_t i, int32_t *owner, bool *seen)
{
    for (int32_t j = 0; j < l->half; j++) {
        if (seen[j] || l->value[i * l->half + j] > limit)
            continue;
        seen[j] = true;
        if (owner[j] < 0 || augment(l, limit, owner[j], owner, seen)) {
            owner[j] = i;
            return true;
        }
    }
    return false;
}

/* Can every heavy slot above the limit have a partner of its own? */
static bool match(const struct replica *l, double limit, int32_t *owner, bool *seen)
{
    for (int32_t j = 0; j < l->half; j++)
        owner[j] = -1;
    for (int32_t i = 0; i < l->half && l->work[heavy(l, i)] > limit; i++) {
        memset(seen, 0, (size_t)l->half * sizeof *seen);
        if (!augment(l, limit, i, owner, seen))
            return false;
    }
    return true;
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* Owners of the bottleneck matching. The largest heavy slot is itself a feasible limit. */
static void bottleneck_match(const struct replica *l, int32_t *owner)
{
    const size_t pairs = (size_t)l->half * (size_t)l->half;
    double *limit = CS_NEW_ARRAY(l->arena, double, pairs + (size_t)l->half);
    bool *seen = CS_NEW_ARRAY(l->arena, bool, l->half);
    memcpy(limit, l->value, pairs * sizeof *limit);
    for (int32_t i = 0; i < l->half; i++)
        limit[pairs + (size_t)i] = l->work[heavy(l, i)];
    qsort(limit, pairs + (size_t)l->half, sizeof *limit, by_value);
    size_t lo = 0, hi = pairs + (size_t)l->half - 1;
    while (lo < hi) {
        const size_t mid = (lo + hi) / 2;
        if (match(l, limit[mid], owner, seen))
            hi = mid;
        else
            lo = mid + 1;
    }
    match(l, limit[lo], owner, seen);
}

/* Heavy i and its partner at places 2i and 2i + 1; heavy slots below the limit take the light ones
 * that are left, without deferral; an odd slot comes last. */
static void pair_up(const struct replica *l, const int32_t *owner, int32_t *partner, int32_t *order)
{
    int32_t next = 0;
    for (int32_t i = 0; i < l->half; i++)
        partner[i] = -1;
    for (int32_t j = 0; j < l->half; j++)
        if (owner[j] >= 0)
            partner[owner[j]] = j;
    for (int32_t i = 0; i < l->half; i++) {
        int32_t j = partner[i];
        if (j < 0) {
            while (owner[next] >= 0)
                next++;
            j = next++;
        }
        order[2 * i] = heavy(l, i);
        order[2 * i + 1] = light(l, j);
    }
    if (l->slots % 2 == 1)
        order[l->slots - 1] = l->order[l->half];
}

static void defer_replica(struct replica *l, const struct cs_assign_samples *samples,
                          int32_t replica, struct cs_assign_result *result)
{
    struct bits *reach = CS_NEW_ARRAY(l->arena, struct bits, l->first[l->slots] + 1);
    bool *chosen = CS_NEW_ARRAY(l->arena, bool, l->first[l->slots] + 1);
    int32_t *owner = CS_NEW_ARRAY(l->arena, int32_t, l->half),
            *partner = CS_NEW_ARRAY(l->arena, int32_t, l->half),
            *order = CS_NEW_ARRAY(l->arena, int32_t, l->slots);
    for (int32_t i = 0; i < l->half; i++)
        for (int32_t j = 0; j < l->half; j++)
            l->value[i * l->half + j] = try_pair(l, heavy(l, i), light(l, j), reach, NULL);
    bottleneck_match(l, owner);
    pair_up(l, owner, partner, order);
    for (int32_t i = 0; i < l->half; i++) {
        if (partner[i] < 0)
            continue;
        const int32_t from = heavy(l, i), to = light(l, partner[i]);
        memset(chosen, 0, (size_t)(l->first[l->slots] + 1) * sizeof *chosen);
        if (!(try_pair(l, from, to, reach, chosen) < l->work[from]))
            continue;
        for (int32_t k = l->first[from]; k < l->first[from + 1]; k++)
            if (chosen[k - l->first[from]])
                result->llm_slot[l->sample[k]] = to;
    }
    cs_assign_renumber(samples, l->arena, replica, order, result);
}

static struct replica make_replica(const struct cs_assign_samples *samples, int32_t replica,
                                   const struct cs_assign_result *result, struct cs_arena *arena)
{
    const int32_t k = result->slots;
    struct replica l = {.llm = samples->llm, .slots = k, .half = k / 2, .arena = arena};
    l.order = CS_NEW_ARRAY(arena, int32_t, k);
    l.work = CS_NEW_ARRAY(arena, double, k);
    l.first = CS_NEW_ARRAY(arena, int32_t, k + 2);
    l.sample = CS_NEW_ARRAY(arena, int32_t, samples->n);
    l.value = CS_NEW_ARRAY(arena, double, l.half *l.half);
    for (int32_t i = 0; i < samples->n; i++)
        if (result->replica[i] == replica) {
            l.first[result->slot[i] + 2]++;
            l.work[result->slot[i]] += samples->llm[i];
        }
    for (int32_t s = 0; s < k; s++) {
        l.order[s] = s;
        l.first[s + 2] += l.first[s + 1];
    }
    for (int32_t i = 0; i < samples->n; i++) /* first[s + 1] moves from the start to the end of s */
        if (result->replica[i] == replica)
            l.sample[l.first[result->slot[i] + 1]++] = i;
    cs_list_sort(l.order, k, l.work, NULL, arena);
    return l;
}

enum cs_status cs_defer(const struct cs_assign_samples *samples, struct cs_arena *arena,
                        struct cs_assign_result *result, struct cs_err *err)
{
    if (result->slots > CS_DEFER_SLOTS)
        return cs_fail(err, CS_LIMIT, "deferral between %d slots; at most %d are possible",
                       (int)result->slots, CS_DEFER_SLOTS);
    if (result->slots < 2)
        return CS_OK;
    for (int32_t i = 0; i < result->replicas; i++) {
        struct replica l = make_replica(samples, i, result, arena);
        defer_replica(&l, samples, i, result);
    }
    return CS_OK;
}
