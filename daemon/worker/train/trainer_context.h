/* Steps of a rank of a context (worker/slot/split.h); part of the trainer. Without a context rows are not
 * split, and nothing happens. */
#ifndef CS_WORKER_TRAIN_TRAINER_CONTEXT_H
#define CS_WORKER_TRAIN_TRAINER_CONTEXT_H

#include <jansson.h>

#include "worker/train/trainer.h"

/* Who shares the LLM's rows of a slot, and which words this rank has, into the trainer's tables. */
enum cs_status cs_trainer_split_rows(struct cs_trainer *t, struct cs_err *err) CS_NODISCARD;
/* Devices that share the items of an encoder have what that takes: CS_PLAN. After the interpreter is made. */
enum cs_status cs_trainer_check_items(const struct cs_trainer *t, struct cs_err *err) CS_NODISCARD;
/* Evaluation with split rows: what the head said of each label comes to the first rank of the context,
 * which alone knows whole samples. After the step: nobody else talks. */
enum cs_status cs_trainer_gather_correct(struct cs_trainer *t, struct cs_input *in,
                                         struct cs_err *err) CS_NODISCARD;
/* rows and work of the step's slots that were here; wait_ns: for rows of others */
struct cs_context_figures cs_trainer_context_figures(const struct cs_trainer *t, int64_t wait_ns);
/* Of the first rank of the context that has the embedding: the slot of the step with most work, as
 * worker.step tells it (core/wire/schema.def), to be released by the caller. NULL: elsewhere, or no
 * slot has rows. */
json_t *cs_trainer_context_sequence(const struct cs_trainer *t);
/* labels of the step's slots that are here */
int64_t cs_trainer_labels_here(const struct cs_trainer *t);

#endif
