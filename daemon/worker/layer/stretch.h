/* Recurrent layers where rows of a slot are on several ranks: they work on rows in order, other layers
 * on rows as they were dealt out (worker/slot/split.h). Between the two kinds rows change ranks. */
#ifndef CS_WORKER_LAYER_STRETCH_H
#define CS_WORKER_LAYER_STRETCH_H

#include "worker/layer/layers.h"

/* the layer works on rows in order, and other layers do not */
bool cs_layer_is_stretched(const struct cs_layer_model *l, const struct cs_input *input);
/* rows that the layer has on a rank of the context */
int32_t cs_layer_rows_on(const struct cs_layer_model *l, const struct cs_input *input, int rank);
/* ... and on this one, without padding */
int32_t cs_layer_rows_here(const struct cs_layer_model *l, const struct cs_input *input);
/* Rows of `width` from as they were dealt out to in order, or back: all ranks of the context come. */
void cs_stretch_rows(struct cs_run *run, int64_t width, const void *from, void *to);
void cs_stretch_rows_back(struct cs_run *run, int64_t width, const void *from, void *to);

#endif
