/* Exchanges and products on two streams of a device, both timed by its events. */
#include "worker/measure/beside.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/philox.h"
#include "worker/measure/fit.h"

/* Exchanges are taken to be at most so many times slower beside products. */
enum { SAMPLES = 5, EXCHANGES = 8, MOST_LAYERS = 1024, MOST_SLOWER = 3, ROWS = 64, TILE = 128 };

/* so many times longer than exchanges take, products are to go on */
#define LASTS 1.5

static void *at(void *p, size_t bytes)
{
    return (char *)p + bytes;
}

/* The time of products depends on what they multiply, through the power that it takes. Rows repeat. */
static void fill(struct cs_device *device, int64_t n, void *to, void *block)
{
    const size_t row = (size_t)n * device->ops->act_bytes;
    for (int64_t i = 0; i < n; i += ROWS)
        cs_device_copy(device, at(to, (size_t)i * row), block, ROWS * row);
}

/* Acts of half to one, of either sign. */
static void *random_rows(const struct cs_device *device, int64_t n)
{
    const size_t count = (size_t)(ROWS * n), size = device->ops->act_bytes;
    char *block = malloc(count * size);
    for (size_t i = 0; block != NULL && i < count; i++) {
        const double u = cs_philox_uniform(1, 0, i);
        const float value = (float)(u < 0.5 ? u - 1.0 : u);
        /* a bf16 is the upper half of a float, which comes second in memory */
        memcpy(block + i * size, (const char *)&value + (sizeof value - size), size);
    }
    return block;
}

static enum cs_status open_events(struct cs_products *p, struct cs_device *device,
                                  struct cs_err *err)
{
    void **const event[] = {&p->begin, &p->end, &p->side_begin, &p->side_end};
    for (size_t i = 0; i < CS_ARRAY_LEN(event); i++)
        CS_TRY(device->mem->event_create(device->handle, event[i], err));
    return CS_OK;
}

enum cs_status cs_products_open(struct cs_products *p, const struct cs_link_rank *rank,
                                struct cs_err *err)
{
    struct cs_device *const device = rank->device;
    const size_t act = device->ops->act_bytes, one = TILE * TILE * act;
    *p = (struct cs_products){.n = TILE};
    while ((size_t)(4 * p->n / TILE * p->n / TILE) * one <= rank->bytes / 2)
        p->n *= 2;
    p->bytes = (size_t)(p->n * p->n) * act;
    p->grad_bytes = (size_t)(p->n * p->n) * sizeof(float);
    void **const acts[] = {&p->x, &p->w, &p->y};
    for (size_t i = 0; i < CS_ARRAY_LEN(acts); i++)
        CS_TRY(cs_device_alloc(device, p->bytes, acts[i], err));
    CS_TRY(cs_device_alloc(device, p->grad_bytes, &p->dw, err));
    CS_TRY(open_events(p, device, err));
    void *block = random_rows(device, p->n);
    if (block == NULL)
        return cs_fail(err, CS_NO_MEMORY, "no memory for products");
    fill(device, p->n, p->x, block);
    fill(device, p->n, p->w, block);
    const enum cs_status status = cs_device_sync(device, err);
    free(block);
    return status;
}

void cs_products_close(struct cs_products *p, const struct cs_link_rank *rank)
{
    struct cs_device *const device = rank->device;
    void *const event[] = {p->begin, p->end, p->side_begin, p->side_end};
    for (size_t i = 0; i < CS_ARRAY_LEN(event); i++)
        if (event[i] != NULL)
            device->mem->event_destroy(device->handle, event[i]);
    cs_device_free(device, p->x, p->bytes);
    cs_device_free(device, p->w, p->bytes);
    cs_device_free(device, p->y, p->bytes);
    cs_device_free(device, p->dw, p->grad_bytes);
}

/* forward and backward */
static void run_layers(const struct cs_products *p, struct cs_device *device, int64_t layers)
{
    struct cs_ctx ctx = cs_device_ctx(device);
    ctx.is_grad_new = 1;
    for (int64_t i = 0; i < layers; i++) {
        device->ops->linear(&ctx, p->n, p->n, p->n, p->x, p->n, p->w, NULL, NULL, CS_ACT_NONE, NULL,
                            p->y);
        device->ops->linear_dgrad(&ctx, p->n, p->n, p->n, p->x, p->w, CS_ACT_NONE, NULL, p->y);
        device->ops->linear_wgrad(&ctx, p->n, p->n, p->n, p->x, p->w, p->dw, NULL);
    }
}

static enum cs_status elapsed(struct cs_device *device, void *begin, void *end, double *ns,
                              struct cs_err *err)
{
    CS_TRY(device->mem->event_elapsed(device->handle, begin, end, ns, err));
    *ns *= 1e6;
    return CS_OK;
}

/* ns: of all */
static enum cs_status time_alone(const struct cs_products *p, struct cs_device *device,
                                 int64_t layers, double *ns, struct cs_err *err)
{
    CS_TRY(device->mem->event_record(device->handle, p->begin, device->stream, err));
    run_layers(p, device, layers);
    CS_TRY(device->mem->event_record(device->handle, p->end, device->stream, err));
    CS_TRY(cs_device_sync(device, err));
    return elapsed(device, p->begin, p->end, ns, err);
}

/* The most that a rank says, to all; who comes first would else wait for the others with nothing to exchange. */
static enum cs_status agree(const struct cs_link_rank *rank, int64_t *n, struct cs_err *err)
{
    const size_t each = sizeof *n,
                 bytes[CS_LINK_RANKS] = {each, each, each, each, each, each, each, each};
    int64_t all[CS_LINK_RANKS];
    CS_TRY(rank->comm->table->allgather(rank->comm, n, all, bytes, CS_LINK_DEADLINE_MS, err));
    for (int r = 0; r < rank->comm->n_ranks; r++)
        *n = all[r] > *n ? all[r] : *n;
    return CS_OK;
}

/* What the device took for products alone, for as many beside exchanges, and for these; ns of all. */
struct sample {
    double alone, works, moves;
};

/* Both are enqueued a little at a time, products first, so that neither waits for the host. */
static enum cs_status time_both(const struct cs_products *p, const struct cs_exchanges *x,
                                struct cs_link_rank *rank, int kind, int64_t layers,
                                struct sample *out, struct cs_err *err)
{
    struct cs_device *const device = rank->device;
    const struct cs_device_ops *const mem = device->mem;
    CS_TRY(time_alone(p, device, layers, &out->alone, err));
    CS_TRY(agree(rank, &layers, err));
    CS_TRY(x->before(rank, kind, true, err));
    CS_TRY(mem->event_record(device->handle, p->begin, device->stream, err));
    CS_TRY(mem->event_record(device->handle, p->side_begin, rank->side, err));
    int64_t so_far = 0;
    for (int64_t i = 1; i <= EXCHANGES; i++) {
        const int64_t until = (layers * i + EXCHANGES - 1) / EXCHANGES;
        run_layers(p, device, until - so_far);
        so_far = until;
        CS_TRY(x->kind[kind].run(rank, rank->bytes, err));
    }
    CS_TRY(mem->event_record(device->handle, p->side_end, rank->side, err));
    CS_TRY(mem->event_record(device->handle, p->end, device->stream, err));
    CS_TRY(x->after(rank, err));
    CS_TRY(x->settle(rank, err));
    CS_TRY(elapsed(device, p->begin, p->end, &out->works, err));
    return elapsed(device, p->side_begin, p->side_end, &out->moves, err);
}

static int64_t layers_for(double moves_ns, double layer_ns, int64_t most)
{
    const double n = layer_ns > 0 ? LASTS * moves_ns / layer_ns + 1 : 1;
    return n < (double)most ? (int64_t)n : most;
}

/* Layers that outlast the exchanges: first as these are alone, then as they were beside so many. */
static enum cs_status find_layers(const struct cs_products *p, const struct cs_exchanges *x,
                                  struct cs_link_rank *rank, int kind, int64_t alone_ns,
                                  int64_t *layers, struct cs_err *err)
{
    struct sample trial;
    CS_TRY(time_alone(p, rank->device, 1, &trial.alone, err)); /* plans of products are made */
    CS_TRY(time_alone(p, rank->device, 1, &trial.alone, err));
    int64_t first = layers_for((double)(EXCHANGES * alone_ns), trial.alone, MOST_LAYERS);
    CS_TRY(agree(rank, &first, err));
    CS_TRY(time_both(p, x, rank, kind, first, &trial, err));
    *layers = layers_for(trial.moves, trial.alone / (double)first, MOST_SLOWER * first);
    return agree(rank, layers, err);
}

enum cs_status cs_beside_time(const struct cs_products *p, const struct cs_exchanges *x,
                              struct cs_link_rank *rank, int kind, int64_t alone_ns,
                              struct cs_beside_told *out, struct cs_err *err)
{
    double moves[SAMPLES], slows[SAMPLES];
    int64_t layers;
    CS_TRY(find_layers(p, x, rank, kind, alone_ns, &layers, err));
    for (int i = 0; i < SAMPLES; i++) {
        struct sample s;
        CS_TRY(time_both(p, x, rank, kind, layers, &s, err));
        const double together = s.moves < s.works ? s.moves : s.works;
        moves[i] = s.moves / EXCHANGES / x->kind[kind].counts;
        slows[i] = together > 0 ? (s.works - s.alone) / together : 0;
    }
    *out = (struct cs_beside_told){cs_median(SAMPLES, moves), cs_median(SAMPLES, slows)};
    return CS_OK;
}
