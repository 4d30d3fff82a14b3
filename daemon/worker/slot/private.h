/* What the files of worker/slot share. */
#ifndef CS_WORKER_SLOT_PRIVATE_H
#define CS_WORKER_SLOT_PRIVATE_H

#include "worker/slot/block.h"
#include "worker/slot/slot.h"

/* slot.c: counts and mask of an encoder from in->n_items */
void cs_input_prepare_encoder(struct cs_input *in, int32_t encoder);
/* What a prepared slot takes on the device: fills in->at without copying anything, as far as host
 * arrays go; the number of tiles of its masks is known then. Returns the bytes of its block. */
size_t cs_input_measure(struct cs_input *in);
/* room for a block of that many bytes, on both sides */
enum cs_status cs_input_reserve_block(struct cs_input *in, size_t bytes,
                                      struct cs_err *err) CS_NODISCARD;
/* Rows of the LLM with what is added to them; fill embed_ids and llm_mask up to llm_rows. */
int32_t cs_input_bucket(const struct cs_input *input);
void cs_input_pad(struct cs_input *input);

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
