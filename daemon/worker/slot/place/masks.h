/* Lists of tiles of a slot's masks, for devices whose attention works from them. */
#ifndef CS_WORKER_SLOT_PLACE_MASKS_H
#define CS_WORKER_SLOT_PLACE_MASKS_H

#include "worker/slot/block.h"
#include "worker/slot/slot.h"

/* The tiles' first rows into the block; mask: as the host has it. restart: tiles begin at
 * documents; else query tiles are cut as core/mask/cut.h chooses. */
void cs_input_masks_put(struct cs_input_mask *mask_lists, const struct cs_mask_plan *mask,
                        bool restart, struct cs_slot_block *block);
/* memory for the tiles that the first walk made */
enum cs_status cs_input_masks_make_room(struct cs_input_mask *mask_lists, struct cs_device *device,
                                        struct cs_err *err) CS_NODISCARD;
/* After the block is on its way: mask as the device has it; sets mask->cells. */
void cs_input_masks_build(struct cs_input_mask *mask_lists, struct cs_mask_plan *mask,
                          struct cs_device *device);
/* After the step: CS_LIMIT, more bitmaps than room; what was computed is wrong then. */
enum cs_status cs_input_masks_check(const struct cs_input_mask *mask_lists,
                                    struct cs_err *err) CS_NODISCARD;
/* Memory for that many tiles, exactly, and their usual number of bitmaps (core/mask/bitmaps.h; a
 * mask that needs more gets it when it is prepared); no less than there is. */
enum cs_status cs_input_masks_reserve(struct cs_input_mask *mask_lists, int32_t n_q, int32_t n_k,
                                      struct cs_device *device, struct cs_err *err) CS_NODISCARD;
void cs_input_masks_free(struct cs_input_mask *mask_lists, struct cs_device *device);

#endif
