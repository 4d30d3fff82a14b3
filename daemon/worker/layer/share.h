/* Rows that leave an encoder whose ranks are those of the LLM that they go to (worker/slot/share.h): every
 * rank makes those of its items, and takes those that fill rows which are here. All ranks come. Where
 * encoder and LLM are on different ranks messages carry them there instead. */
#ifndef CS_WORKER_LAYER_SHARE_H
#define CS_WORKER_LAYER_SHARE_H

#include "worker/layer/layers.h"

/* what the layer makes goes to rows of the LLM on these ranks, which share its encoder's items */
bool cs_layer_is_shared(const struct cs_layer_model *l, const struct cs_input *input);
/* What the layer makes goes to all ranks of the stage, beyond a context of so many ranks: devices need a communicator of
 * all of them for it (CS_GROUP_ITEMS). l->encoder: not that of the LLM. */
bool cs_layer_shares_with_all(const struct cs_layer_model *l, const struct cs_input_tables *tables,
                              int32_t context);
/* made (n_leaving, width) to taken (n_fills, width); and their gradients back */
void cs_share_rows(struct cs_run *run, int32_t encoder, int64_t width, const void *made,
                   void *taken);
void cs_share_rows_back(struct cs_run *run, int32_t encoder, int64_t width, const void *taken,
                        void *made);

#endif
