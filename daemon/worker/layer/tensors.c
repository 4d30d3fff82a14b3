/* Sums over the ranks that share a stage. */
#include "worker/layer/tensors.h"

#include "worker/layer/exchange.h"
#include "worker/layer/sequence.h"

struct cs_context cs_tensors_alone(const struct cs_device *device, int n)
{
    const bool is_host = device->mem == NULL;
    return (struct cs_context){.n = n,
                               .groups = is_host ? 1 : CS_TENSORS_GROUPS,
                               .group_bytes = CS_TENSORS_GROUP_BYTES,
                               .sums = !is_host};
}

bool cs_tensors_is_first(const struct cs_run *run)
{
    return run->tensors == NULL || run->tensors->place == 0;
}

/* elements before those of a rank's share */
static int64_t share_at(struct cs_context *t, int64_t n, int rank)
{
    return n * rank / t->n;
}

static int64_t share_of(struct cs_context *t, int64_t n, int rank)
{
    return share_at(t, n, rank + 1) - share_at(t, n, rank);
}

/* k-th of the others in turn, so that not everybody begins with the first */
static int other(struct cs_context *t, int k)
{
    return (t->place + k) % t->n;
}

static void add(const struct cs_exchange *e, int place, float *x, int64_t n, bool is_send)
{
    cs_exchange_add(e, place, x, n * (int64_t)sizeof *x, is_send);
}

/* This rank's share is summed where it lies. theirs: (n - 1) of them, by rank. */
static void reduce_scatter(struct cs_run *run, int64_t n, float *x, float *theirs)
{
    struct cs_context *t = run->tensors;
    const struct cs_exchange e = cs_exchange_new(run, t);
    const int64_t own = share_of(t, n, t->place);
    float *const mine = x + share_at(t, n, t->place);
    for (int k = 1; k < t->n; k++) {
        const int r = other(t, k);
        add(&e, r, x + share_at(t, n, r), share_of(t, n, r), true);
        add(&e, r, theirs + (r - (r > t->place)) * own, own, false);
    }
    cs_exchange_move(&e);
    for (int64_t i = 0; i < own; i++) {
        float sum = 0.0f;
        for (int r = 0; r < t->n; r++)
            sum += r == t->place ? mine[i] : theirs[(r - (r > t->place)) * own + i];
        mine[i] = sum;
    }
}

static void all_gather(struct cs_run *run, int64_t n, float *x)
{
    struct cs_context *t = run->tensors;
    const struct cs_exchange e = cs_exchange_new(run, t);
    for (int k = 1; k < t->n; k++) {
        const int r = other(t, k);
        add(&e, r, x + share_at(t, n, t->place), share_of(t, n, t->place), true);
        add(&e, r, x + share_at(t, n, r), share_of(t, n, r), false);
    }
    cs_exchange_move(&e);
}

/* Two ranks send each other all: as many bytes as shares that are summed and gathered, and they meet once. */
static void sum_of_two(struct cs_run *run, int64_t n, float *x, float *theirs)
{
    struct cs_context *t = run->tensors;
    const struct cs_exchange e = cs_exchange_new(run, t);
    add(&e, 1 - t->place, x, n, true);
    add(&e, 1 - t->place, theirs, n, false);
    cs_exchange_move(&e);
    for (int64_t i = 0; i < n; i++)
        x[i] += theirs[i];
}

static void sum_on_host(struct cs_run *run, int64_t n, float *x)
{
    struct cs_context *t = run->tensors;
    const struct cs_scratch_mark mark = cs_scratch_mark(run->scratch);
    const int64_t room = t->n == 2 ? n : (t->n - 1) * ((n + t->n - 1) / t->n);
    float *theirs = cs_scratch_floats(run->scratch, room);
    if (t->start != NULL && t->n == 2) {
        sum_of_two(run, n, x, theirs);
    } else if (t->start != NULL) {
        reduce_scatter(run, n, x, theirs);
        all_gather(run, n, x);
    }
    cs_scratch_rewind(run->scratch, mark);
}

/* A sum that is to be made; run NULL: none is, a host has made it. */
static struct cs_exchange sum_of(struct cs_run *run, int64_t n, void *x, enum cs_grad_type type)
{
    struct cs_context *t = run->tensors;
    struct cs_exchange e = {.run = NULL};
    if (t == NULL || n == 0)
        return e;
    if (!t->sums) {
        CS_ASSERT(type == CS_GRAD_F32);
        sum_on_host(run, n, x);
    } else if (t->start != NULL) {
        e = cs_exchange_new(run, t);
        cs_exchange_sum(&e, x, (size_t)n, type);
    }
    return e;
}

static struct cs_exchange sum_of_acts(struct cs_run *run, int64_t n, void *x)
{
    return sum_of(run, n, x, run->ops->act_bytes == sizeof(float) ? CS_GRAD_F32 : CS_GRAD_BF16);
}

struct cs_exchange cs_tensors_start(struct cs_run *run, int64_t n, void *x)
{
    const struct cs_exchange e = sum_of_acts(run, n, x);
    if (e.run != NULL)
        cs_exchange_start(&e);
    return e;
}

void cs_tensors_finish(const struct cs_exchange *e)
{
    if (e->run != NULL)
        cs_exchange_finish(e);
}

void cs_tensors_sum_floats(struct cs_run *run, int64_t n, float *x)
{
    const struct cs_exchange e = sum_of(run, n, x, CS_GRAD_F32);
    if (e.run != NULL)
        cs_exchange_move(&e);
}

void cs_tensors_sum(struct cs_run *run, int64_t n, void *x)
{
    const struct cs_exchange e = sum_of_acts(run, n, x);
    if (e.run != NULL)
        cs_exchange_move(&e);
}

void cs_tensors_gather(struct cs_run *run, int64_t bytes, void *parts)
{
    struct cs_context *t = run->tensors;
    if (t == NULL || t->start == NULL)
        return;
    const struct cs_exchange e = cs_exchange_new(run, t);
    for (int k = 1; k < t->n; k++) {
        const int r = other(t, k);
        cs_exchange_add(&e, r, (char *)parts + t->place * bytes, bytes, true);
        cs_exchange_add(&e, r, (char *)parts + r * bytes, bytes, false);
    }
    cs_exchange_move(&e);
}
