/* Lists of transfers that are moved together; their memory is the context's. */
#include "worker/layer/exchange.h"

#include <stdlib.h>

void cs_context_begin(struct cs_context *context)
{
    if (context != NULL)
        context->n_exchanges = 0;
}

void cs_context_free(struct cs_context *context)
{
    if (context == NULL)
        return;
    for (int32_t i = 0; i < context->room; i++)
        free(context->exchange[i].move);
    free(context->exchange);
    context->exchange = NULL;
    context->room = 0;
}

static void *grown(void *array, size_t n, size_t size)
{
    void *out = realloc(array, n * size);
    CS_ASSERT(out != NULL);
    return out;
}

struct cs_exchange cs_exchange_new(struct cs_run *run, struct cs_context *context)
{
    struct cs_context *c = context;
    if (c->n_exchanges == c->room) {
        const int32_t room = c->room > 0 ? 2 * c->room : 16;
        c->exchange = grown(c->exchange, (size_t)room, sizeof *c->exchange);
        for (; c->room < room; c->room++)
            c->exchange[c->room] = (struct cs_context_exchange){.move = NULL};
    }
    c->exchange[c->n_exchanges].n = 0;
    c->exchange[c->n_exchanges].sum = NULL;
    return (struct cs_exchange){run, c, c->n_exchanges++};
}

void cs_exchange_add(const struct cs_exchange *e, int place, void *data, int64_t bytes,
                     bool is_send)
{
    struct cs_context_exchange *x = &e->context->exchange[e->which];
    if (bytes == 0)
        return;
    if (x->n == x->room) {
        x->room = x->room > 0 ? 2 * x->room : 16;
        x->move = grown(x->move, (size_t)x->room, sizeof *x->move);
    }
    x->move[x->n++] = (struct cs_device_move){data, (size_t)bytes, place, is_send};
}

void cs_exchange_add_acts(const struct cs_exchange *e, int place, void *data, int64_t n,
                          bool is_send)
{
    cs_exchange_add(e, place, data, n * (int64_t)e->run->ops->act_bytes, is_send);
}

void cs_exchange_sum(const struct cs_exchange *e, void *data, size_t n, enum cs_grad_type type)
{
    struct cs_context_exchange *x = &e->context->exchange[e->which];
    CS_ASSERT(e->context->sums && x->n == 0);
    x->sum = data;
    x->sum_n = n;
    x->sum_type = type;
}

static void start(void *whom, int32_t which)
{
    const struct cs_context *c = whom;
    c->start(c->user, which, &c->exchange[which]);
}

static void finish(void *whom, int32_t which)
{
    const struct cs_context *c = whom;
    c->finish(c->user, which);
}

/* Where calls are written down it is asked for when they are run. */
static void ask(const struct cs_exchange *e, void (*what)(void *whom, int32_t which))
{
    const struct cs_watch *watch = e->run->watch;
    if (watch != NULL && watch->call != NULL)
        watch->call(watch->user, what, e->context, e->which);
    else
        what(e->context, e->which);
}

void cs_exchange_start(const struct cs_exchange *e)
{
    ask(e, start);
}

void cs_exchange_finish(const struct cs_exchange *e)
{
    ask(e, finish);
}

static void move(void *whom, int32_t which)
{
    const struct cs_context *c = whom;
    if (c->move != NULL) {
        c->move(c->user, which, &c->exchange[which]);
        return;
    }
    start(whom, which);
    finish(whom, which);
}

void cs_exchange_move(const struct cs_exchange *e)
{
    ask(e, move);
}
