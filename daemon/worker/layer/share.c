/* Moves rows of an encoder from who makes them to who has the rows of the LLM that they fill. */
#include "worker/layer/share.h"

#include "worker/layer/exchange.h"
#include "worker/slot/share.h"

bool cs_layer_is_shared(const struct cs_layer_model *l, const struct cs_input *input)
{
    return l->feeds_own_ranks && input->share[l->encoder] != NULL;
}

struct move {
    struct cs_run *run;
    const struct cs_item_share *s;
    struct cs_exchange exchange;
    float *made, *taken;
    int64_t width;
    bool is_back;
};

/* The own ones that are taken here: one behind the other there. */
static void copy_own(const struct move *m)
{
    const struct cs_row_runs *go = &m->s->go;
    float *taken = m->taken + m->s->come[m->s->place] * m->width;
    for (int32_t i = go->first[m->s->place]; i < go->first[m->s->place + 1]; i++) {
        float *made = m->made + go->run[i].row * m->width;
        const int64_t n = go->run[i].n;
        m->run->ops->copy_heads(m->run->ctx, n, 1, m->width, m->is_back ? taken : made, m->width, 0,
                                m->is_back ? made : taken, m->width, 0);
        taken += n * m->width;
    }
}

static int64_t bytes_of(const struct move *m, int64_t rows)
{
    return rows * m->width * (int64_t)sizeof(float);
}

static void add_rank(const struct move *m, int rank)
{
    const struct cs_row_runs *go = &m->s->go;
    const int32_t come = m->s->come[rank], n = m->s->come[rank + 1] - come;
    for (int32_t i = go->first[rank]; i < go->first[rank + 1]; i++)
        cs_exchange_add(&m->exchange, rank, m->made + go->run[i].row * m->width,
                        bytes_of(m, go->run[i].n), !m->is_back);
    cs_exchange_add(&m->exchange, rank, m->taken + come * m->width, bytes_of(m, n), m->is_back);
}

static void move(struct move *m)
{
    if (m->run->context == NULL)
        return;
    m->exchange = cs_exchange_new(m->run, m->run->context);
    copy_own(m);
    for (int k = 1; k < m->s->ranks; k++)
        add_rank(m, (m->s->place + k) % m->s->ranks);
    cs_exchange_move(&m->exchange);
}

/* what is read is not written, whatever its pointer says */
static float *floats(const void *x)
{
    return (float *)(uintptr_t)x;
}

void cs_share_rows(struct cs_run *run, int32_t encoder, int64_t width, const void *made,
                   void *taken)
{
    struct move m = {.run = run,
                     .s = run->input->share[encoder],
                     .made = floats(made),
                     .taken = taken,
                     .width = width};
    move(&m);
}

void cs_share_rows_back(struct cs_run *run, int32_t encoder, int64_t width, const void *taken,
                        void *made)
{
    struct move m = {.run = run,
                     .s = run->input->share[encoder],
                     .made = made,
                     .taken = floats(taken),
                     .width = width,
                     .is_back = true};
    move(&m);
}
