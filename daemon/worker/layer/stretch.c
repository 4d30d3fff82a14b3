/* Moves rows between the two ways in which a slot lies over the ranks of a context. */
#include "worker/layer/stretch.h"

#include "worker/layer/exchange.h"
#include "worker/slot/split.h"

bool cs_layer_is_stretched(const struct cs_layer_model *l, const struct cs_input *input)
{
    return l->layer->kind == CS_LAYER_BLOCK && l->layer->mixer == CS_MIXER_DELTA &&
           input->split != NULL && input->split->stretch.begin != NULL;
}

int32_t cs_layer_rows_on(const struct cs_layer_model *l, const struct cs_input *input, int rank)
{
    const struct cs_input_split *s = input->split;
    return cs_layer_is_stretched(l, input) ? s->stretch.begin[rank + 1] - s->stretch.begin[rank]
                                           : s->tokens.rows[rank];
}

/* Rows that are dealt to one rank and in the stretch of another: where they lie on either. */
struct piece {
    int32_t dealt, in_order, n;
};

static bool next_piece(const struct cs_input_split *s, int rank, int stretch, int32_t *run,
                       int32_t *before, struct piece *out)
{
    const int32_t begin = s->stretch.begin[stretch], end = s->stretch.begin[stretch + 1];
    for (; *run < s->tokens.first[rank + 1]; *before += s->tokens.run[(*run)++].n) {
        const struct cs_row_run *r = &s->tokens.run[*run];
        const int32_t low = r->row > begin ? r->row : begin;
        const int32_t high = r->row + r->n < end ? r->row + r->n : end;
        if (low >= high)
            continue;
        *out = (struct piece){*before + low - r->row, low - begin, high - low};
        *before += s->tokens.run[(*run)++].n;
        return true;
    }
    return false;
}

/* Both arrays of one call, one of which is read. */
struct move {
    struct cs_run *run;
    struct cs_exchange exchange;
    float *dealt, *in_order;
    int64_t width;
    bool is_back;
};

static int64_t bytes_of(const struct move *m, const struct piece *p)
{
    return p->n * m->width * (int64_t)sizeof(float);
}

static void copy_own(const struct move *m, const struct piece *p)
{
    float *dealt = m->dealt + p->dealt * m->width, *in_order = m->in_order + p->in_order * m->width;
    m->run->ops->copy_heads(m->run->ctx, p->n, 1, m->width, m->is_back ? in_order : dealt, m->width,
                            0, m->is_back ? dealt : in_order, m->width, 0);
}

/* what is dealt to a rank of the stretch of another; one of the two is this one */
static void add_pieces(struct move *m, int rank, int stretch)
{
    const struct cs_input_split *s = m->run->input->split;
    int32_t run = s->tokens.first[rank], before = 0;
    struct piece p;
    while (next_piece(s, rank, stretch, &run, &before, &p)) {
        if (rank == stretch)
            copy_own(m, &p);
        else if (rank == s->place)
            cs_exchange_add(&m->exchange, stretch, m->dealt + p.dealt * m->width, bytes_of(m, &p),
                            !m->is_back);
        else
            cs_exchange_add(&m->exchange, rank, m->in_order + p.in_order * m->width,
                            bytes_of(m, &p), m->is_back);
    }
}

static void move(struct move *m)
{
    const struct cs_input_split *s = m->run->input->split;
    if (m->run->context == NULL)
        return;
    m->exchange = cs_exchange_new(m->run, m->run->context);
    add_pieces(m, s->place, s->place);
    for (int k = 1; k < s->ranks; k++) {
        const int with = (s->place + k) % s->ranks;
        add_pieces(m, s->place, with);
        add_pieces(m, with, s->place);
    }
    cs_exchange_move(&m->exchange);
}

/* what is read is not written, whatever its pointer says */
static float *floats(const void *x)
{
    return (float *)(uintptr_t)x;
}

void cs_stretch_rows(struct cs_run *run, int64_t width, const void *from, void *to)
{
    struct move m = {.run = run, .dealt = floats(from), .in_order = to, .width = width};
    move(&m);
}

void cs_stretch_rows_back(struct cs_run *run, int64_t width, const void *from, void *to)
{
    struct move m = {
        .run = run, .dealt = to, .in_order = floats(from), .width = width, .is_back = true};
    move(&m);
}
