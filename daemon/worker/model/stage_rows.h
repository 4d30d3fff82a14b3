/* Which rows of a slot are on this rank where, from layer to layer of a stage; part of stage.c.
 *
 * Rows change ranks in front of a layer, or behind it, where its neighbour has others (worker/layer/stretch.h,
 * share.h). Between stages, and where rows of encoders come in, they lie as they were dealt out. Ranks that
 * share matrices may split the rows of blocks that follow each other (sequence.h); elsewhere all of them have
 * all rows, as between stages, where rows of encoders come in and where rows change ranks. */
#ifndef CS_WORKER_MODEL_STAGE_ROWS_H
#define CS_WORKER_MODEL_STAGE_ROWS_H

#include "worker/model/stage.h"

/* rows change ranks in front of layer i, behind it */
bool cs_stage_enters_order(const struct cs_stage_model *s, const struct cs_run *run, int32_t i);
bool cs_stage_leaves_order(const struct cs_stage_model *s, const struct cs_run *run, int32_t i);
/* ranks split the rows of layer i; they begin to in front of it, they end behind it */
bool cs_stage_is_split(const struct cs_stage_model *s, const struct cs_run *run, int32_t i);
bool cs_stage_enters_split(const struct cs_stage_model *s, const struct cs_run *run, int32_t i);
bool cs_stage_leaves_split(const struct cs_stage_model *s, const struct cs_run *run, int32_t i);
/* what enters layer i is put elsewhere in front of it */
bool cs_stage_moves_in(const struct cs_stage_model *s, const struct cs_run *run, int32_t i);

/* Elements that enter and leave a layer in a slot; where rows change ranks at it, as they were dealt out;
 * where they are split, those that are here. */
int64_t cs_layer_n_in(const struct cs_layer_model *l, const struct cs_run *run);
int64_t cs_layer_n_out(const struct cs_layer_model *l, const struct cs_run *run);
int64_t cs_layer_n_dealt_in(const struct cs_layer_model *l, const struct cs_run *run);
int64_t cs_layer_n_dealt_out(const struct cs_layer_model *l, const struct cs_run *run);
int64_t cs_layer_n_own_in(const struct cs_layer_model *l, const struct cs_run *run);
int64_t cs_layer_n_own_out(const struct cs_layer_model *l, const struct cs_run *run);
/* elements between layer i and the next */
int64_t cs_stage_n_between(const struct cs_stage_model *s, const struct cs_run *run, int32_t i);

/* what leaves a layer, to where it is dealt out; its gradient from there */
void cs_layer_deal_out(struct cs_run *run, const struct cs_layer_model *l, const void *x, void *y);
void cs_layer_call_in(struct cs_run *run, const struct cs_layer_model *l, const void *dy, void *dx);

#endif
