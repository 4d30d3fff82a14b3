/* Context parallelism by heads (Ulysses; Jacobs et al. 2023): every rank takes all rows of the slot for some heads.
 *
 * In front of attention queries, keys and values of the own rows go to the ranks that have their heads, behind it
 * its output comes back; backward these exchanges are turned round. So attention is as much on every
 * rank, under any mask and whatever rows it has, and what moves does not depend on what is seen. Where ranks are more
 * than heads of keys, neighbours get the same one, and their gradients of it are added in fp32 in the order of
 * ranks.
 *
 * A rank's heads are taken in parts: while attention works on one, others travel. Transfers:
 * worker/layer/exchange.h; how rows lie: worker/slot/row_heads.h. */
#ifndef CS_WORKER_MODEL_CONTEXT_HEADS_H
#define CS_WORKER_MODEL_CONTEXT_HEADS_H

#include "worker/model/halves/heads.h"

/* As cs_context_attention and cs_context_attention_grad (context.h), but for lse: (the rank's heads, rows of the
 * slot with those that are added). o and d_o are of the own rows. */
void cs_context_heads_attention(struct cs_run *run, const struct cs_layer_model *l,
                                const struct cs_heads *heads, void *o, float *lse);
void cs_context_heads_attention_grad(struct cs_run *run, const struct cs_layer_model *l,
                                     const struct cs_heads *heads, void *o, float *lse, void *d_o,
                                     const struct cs_head_grads *grads);
/* (all heads, these rows) have room for that lse */
int64_t cs_context_heads_lse_rows(const struct cs_run *run);

#endif
