/* Whose checkpoints a directory holds: the training that a checkpoint is of against that of a job. */
#ifndef CS_STORE_CKPT_TRAINING_H
#define CS_STORE_CKPT_TRAINING_H

#include <jansson.h>

#include "core/model/spec.h"
#include "store/ckpt/checkpoint.h"

/* document: the one that spec was read from. dir: for the message. CS_REFUSED: it is of another
 * training, with the first setting that differs and both values; the caller adds what to do. A
 * directory of the job's own (no checkpoint.dir) holds its own. */
enum cs_status cs_ckpt_check_training(const struct cs_ckpt *ckpt, const char *dir,
                                      const struct cs_spec *spec, const json_t *document,
                                      struct cs_err *err) CS_NODISCARD;
/* The same of the newest checkpoint in a directory that may be missing or empty; contents are not
 * verified, and one that cannot be read is no obstacle here. */
enum cs_status cs_ckpt_check_newest(const char *dir, const struct cs_spec *spec,
                                    const json_t *document, struct cs_err *err) CS_NODISCARD;

#endif
