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

int32_t cs_layer_rows_here(const struct cs_layer_model *l, const struct cs_input *input)
{
    return input->split != NULL ? cs_layer_rows_on(l, input, input->split->place) : input->n_tokens;
}

/* What is dealt lies in the order of the slot, and so by the ranks that it goes to; what comes is put in
 * order here. One of the two arrays is read. */
struct move {
    struct cs_run *run;
    char *dealt, *in_order;
    int64_t width;
    bool is_back;
};

static void exchange(const struct move *m, char *come)
{
    const struct cs_input_split *s = m->run->input->split;
    const struct cs_exchange e = cs_exchange_new(m->run, m->run->context);
    const size_t row = (size_t)m->width * m->run->ops->act_bytes;
    char *dealt = m->dealt;
    for (int r = 0; r < s->ranks; r++) {
        const int32_t go = s->stretch.go[r], comes = s->stretch.come[r];
        if (r == s->place) {
            cs_device_copy(m->run->device, m->is_back ? dealt : come, m->is_back ? come : dealt,
                           (size_t)go * row);
        } else {
            cs_exchange_add_acts(&e, r, dealt, go * m->width, !m->is_back);
            cs_exchange_add_acts(&e, r, come, comes * m->width, m->is_back);
        }
        dealt += (size_t)go * row;
        come += (size_t)comes * row;
    }
    cs_exchange_move(&e);
}

/* Rows that are padding as they were dealt out are zeros: nobody made them. */
static void clear_padding(const struct move *m)
{
    const struct cs_input *in = m->run->input;
    const size_t row = (size_t)m->width * m->run->ops->act_bytes;
    cs_device_zero(m->run->device, m->dealt + (size_t)in->split->n * row,
                   (size_t)(in->llm_rows - in->split->n) * row);
}

static void move(const struct move *m)
{
    struct cs_run *run = m->run;
    const struct cs_split_stretch *t = &run->input->split->stretch;
    const struct cs_scratch_mark mark = cs_scratch_mark(run->scratch);
    char *come = cs_run_take(run, t->n * m->width);
    if (run->context != NULL) {
        if (m->is_back)
            run->ops->gather_rows(run->ctx, t->n, m->width, t->at.place, m->in_order, come);
        exchange(m, come);
        if (m->is_back)
            clear_padding(m);
        else
            run->ops->gather_rows(run->ctx, t->n, m->width, t->at.order, come, m->in_order);
    }
    cs_scratch_rewind(run->scratch, mark);
}

/* what is read is not written, whatever its pointer says */
static char *bytes(const void *x)
{
    return (char *)(uintptr_t)x;
}

void cs_stretch_rows(struct cs_run *run, int64_t width, const void *from, void *to)
{
    const struct move m = {.run = run, .dealt = bytes(from), .in_order = to, .width = width};
    move(&m);
}

void cs_stretch_rows_back(struct cs_run *run, int64_t width, const void *from, void *to)
{
    const struct move m = {
        .run = run, .dealt = to, .in_order = bytes(from), .width = width, .is_back = true};
    move(&m);
}
