/* The loss where ranks share the words of the vocabulary: each has the logits of its own. */
#ifndef CS_WORKER_MODEL_HEAD_WORDS_H
#define CS_WORKER_MODEL_HEAD_WORDS_H

#include "worker/layer/layers.h"

/* As linear_xent (kernels/ops.h) of the slot's n_labels rows h (n, width), with the head's weights: loss,
 * row_loss and correct are the slot's, the same on all ranks; dh (n, width), NULL: not needed, is whole on
 * all of them; the gradient of the own words is added in training. */
void cs_head_words(struct cs_run *run, const struct cs_layer_model *l, const void *h, void *dh);

#endif
