/* The first layer of an encoder (core/arch/front.h), called by embed.c. */
#ifndef CS_WORKER_MODEL_FRONT_H
#define CS_WORKER_MODEL_FRONT_H

#include "worker/layer/layers.h"

/* y (rows, width); rows > 0. kept: up, x2 and stat1, as the stem and the norm need them */
void cs_front_fwd(struct cs_run *run, const struct cs_layer_model *l, int64_t rows, void *y,
                  struct cs_kept *kept);
void cs_front_bwd(struct cs_run *run, const struct cs_layer_model *l, int64_t rows, const void *dy,
                  const struct cs_kept *kept);

#endif
