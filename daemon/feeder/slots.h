/* Samples of one step into slots of the pool, and the manifest that announces them. */
#ifndef CS_FEEDER_SLOTS_H
#define CS_FEEDER_SLOTS_H

#include "core/data/pool.h"
#include "core/spread/first_fit.h"
#include "core/spread/step_slots.h"
#include "feeder/loader.h"

/* Pack the samples (order kept), spread them over the slots (spread NULL: as packed), take slots,
 * write them, fill everything of *manifest except kind, step and flags, which are the caller's:
 * manifest->slot is NULL or from malloc, and grown; the caller frees it.
 * Within a slot samples keep their order. replicas: the number of slots is a multiple of it, the
 * last ones are empty if need be. is_carried[i] (n): sample i did not fit this step. Not
 * published. */
enum cs_status cs_slots_write(struct cs_pool *pool, const struct cs_slot_budget *budget,
                              struct cs_step_spread *spread, const struct cs_load *samples, int n,
                              int32_t replicas, struct cs_manifest *manifest, bool *is_carried,
                              struct cs_err *err) CS_NODISCARD;

#endif
