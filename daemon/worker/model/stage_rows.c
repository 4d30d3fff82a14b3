/* Where rows change ranks, or are split over ranks, between the layers of a stage. */
#include "worker/model/stage_rows.h"

#include "worker/layer/sequence.h"
#include "worker/layer/share.h"
#include "worker/layer/stretch.h"

bool cs_stage_enters_order(const struct cs_stage_model *s, const struct cs_run *run, int32_t i)
{
    const struct cs_layer_model *l = &s->layer[i];
    return cs_layer_is_stretched(l, run->input) &&
           (i == 0 || l->n_feeds > 0 || !cs_layer_is_stretched(&s->layer[i - 1], run->input));
}

bool cs_stage_leaves_order(const struct cs_stage_model *s, const struct cs_run *run, int32_t i)
{
    if (s->encoder >= 0)
        return i == s->stage->n_layers - 1 && cs_layer_is_shared(&s->layer[i], run->input);
    return cs_layer_is_stretched(&s->layer[i], run->input) &&
           (i == s->stage->n_layers - 1 || cs_stage_enters_order(s, run, i + 1) ||
            !cs_layer_is_stretched(&s->layer[i + 1], run->input));
}

bool cs_stage_is_split(const struct cs_stage_model *s, const struct cs_run *run, int32_t i)
{
    return run->splits_rows && s->layer[i].layer->kind == CS_LAYER_BLOCK;
}

bool cs_stage_enters_split(const struct cs_stage_model *s, const struct cs_run *run, int32_t i)
{
    return cs_stage_is_split(s, run, i) &&
           (i == 0 || s->layer[i].n_feeds > 0 || !cs_stage_is_split(s, run, i - 1) ||
            cs_stage_enters_order(s, run, i) || cs_stage_leaves_order(s, run, i - 1));
}

bool cs_stage_leaves_split(const struct cs_stage_model *s, const struct cs_run *run, int32_t i)
{
    return cs_stage_is_split(s, run, i) &&
           (i == s->stage->n_layers - 1 || cs_stage_leaves_order(s, run, i) ||
            cs_stage_enters_split(s, run, i + 1) || !cs_stage_is_split(s, run, i + 1));
}

bool cs_stage_moves_in(const struct cs_stage_model *s, const struct cs_run *run, int32_t i)
{
    return cs_stage_enters_order(s, run, i) || cs_stage_enters_split(s, run, i);
}

int64_t cs_layer_n_in(const struct cs_layer_model *l, const struct cs_run *run)
{
    return (int64_t)cs_layer_rows_in(l, run->input) * l->in_width;
}

int64_t cs_layer_n_out(const struct cs_layer_model *l, const struct cs_run *run)
{
    return (int64_t)cs_layer_rows_out(l, run->input) * l->out_width;
}

int64_t cs_layer_n_dealt_in(const struct cs_layer_model *l, const struct cs_run *run)
{
    return (int64_t)run->input->llm_rows * l->in_width;
}

int64_t cs_layer_n_dealt_out(const struct cs_layer_model *l, const struct cs_run *run)
{
    return (int64_t)run->input->llm_rows * l->out_width;
}

int64_t cs_layer_n_own_in(const struct cs_layer_model *l, const struct cs_run *run)
{
    return cs_sequence_rows(run, cs_layer_rows_in(l, run->input)) * l->in_width;
}

int64_t cs_layer_n_own_out(const struct cs_layer_model *l, const struct cs_run *run)
{
    return cs_sequence_rows(run, cs_layer_rows_out(l, run->input)) * l->out_width;
}

int64_t cs_stage_n_between(const struct cs_stage_model *s, const struct cs_run *run, int32_t i)
{
    const struct cs_layer_model *l = &s->layer[i];
    if (cs_stage_is_split(s, run, i) && !cs_stage_leaves_split(s, run, i))
        return cs_layer_n_own_out(l, run);
    return cs_stage_leaves_order(s, run, i) ? cs_layer_n_dealt_out(l, run) : cs_layer_n_out(l, run);
}

void cs_layer_deal_out(struct cs_run *run, const struct cs_layer_model *l, const void *x, void *y)
{
    if (l->encoder >= 0)
        cs_share_rows(run, l->encoder, l->out_width, x, y);
    else
        cs_stretch_rows_back(run, l->out_width, x, y);
}

void cs_layer_call_in(struct cs_run *run, const struct cs_layer_model *l, const void *dy, void *dx)
{
    if (l->encoder >= 0)
        cs_share_rows_back(run, l->encoder, l->out_width, dy, dx);
    else
        cs_stretch_rows(run, l->out_width, dy, dx);
}
