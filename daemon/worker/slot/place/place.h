/* The memory of a slot on the device, known before the slot is placed. */
#ifndef CS_WORKER_SLOT_PLACE_PLACE_H
#define CS_WORKER_SLOT_PLACE_PLACE_H

#include "worker/slot/slot.h"

/* What a prepared slot takes on the device: fills in->at without copying anything, as far as host
 * arrays go; the number of tiles of its masks is known then. Returns the bytes of its block. */
size_t cs_input_measure(struct cs_input *in);
/* room for a block of that many bytes, on both sides */
enum cs_status cs_input_reserve_block(struct cs_input *in, size_t bytes,
                                      struct cs_err *err) CS_NODISCARD;

#endif
