/* Moves rows of an encoder from who makes them to who has the rows of the LLM that they fill. */
#include "worker/layer/share.h"

#include "worker/layer/exchange.h"
#include "worker/slot/share.h"

bool cs_layer_is_shared(const struct cs_layer_model *l, const struct cs_input *input)
{
    return l->feeds_own_ranks && input->share[l->encoder] != NULL &&
           input->tables->enc[l->encoder].ranks > 1;
}

struct move {
    struct cs_run *run;
    const struct cs_item_share *s;
    struct cs_exchange exchange;
    void *made, *taken; /* acts */
    int64_t width;
    bool is_back;
};

/* The own ones that are taken here. */
static void copy_own(const struct move *m, const struct cs_row_interval *r)
{
    void *made = cs_run_at(m->run, m->made, r->from_row * m->width),
         *taken = cs_run_at(m->run, m->taken, r->to_row * m->width);
    m->run->ops->copy_heads(m->run->ctx, r->n, 1, m->width, m->is_back ? taken : made, m->width, 0,
                            m->is_back ? made : taken, m->width, 0);
}

static void add(const struct move *m, const struct cs_row_interval *r)
{
    if (r->from == m->s->place && r->to == m->s->llm)
        copy_own(m, r);
    else if (r->from == m->s->place)
        cs_exchange_add_acts(&m->exchange, r->to,
                             cs_run_at(m->run, m->made, r->from_row * m->width), r->n * m->width,
                             !m->is_back);
    else if (r->to == m->s->llm)
        cs_exchange_add_acts(&m->exchange, r->from,
                             cs_run_at(m->run, m->taken, r->to_row * m->width), r->n * m->width,
                             m->is_back);
}

static void move(struct move *m)
{
    if (m->run->context == NULL)
        return;
    m->exchange = cs_exchange_new(m->run, m->run->context);
    for (int32_t i = 0; i < m->s->map.n; i++)
        add(m, &m->s->map.interval[i]);
    cs_exchange_move(&m->exchange);
}

/* what is read is not written, whatever its pointer says */
static void *written(const void *x)
{
    return (void *)(uintptr_t)x;
}

void cs_share_rows(struct cs_run *run, int32_t encoder, int64_t width, const void *made,
                   void *taken)
{
    struct move m = {.run = run,
                     .s = run->input->share[encoder],
                     .made = written(made),
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
                     .taken = written(taken),
                     .width = width,
                     .is_back = true};
    move(&m);
}
