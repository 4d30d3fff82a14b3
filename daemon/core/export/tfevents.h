/* Event files as TensorBoard reads them: records of
 *
 *   u64 bytes of the data, u32 masked CRC-32C of those eight bytes, data, u32 masked CRC-32C of it
 *
 * little-endian, each one message Event in the wire format of protocol buffers:
 *
 *   1 wall_time (double, seconds), 2 step (varint), 3 file_version (string, the first record),
 *   5 summary { repeated 1 value { 1 tag (string), 2 simple_value (float) } }, 7 session_log {1 status}
 *
 * Pure: bytes are appended to a buffer. */
#ifndef CS_EXPORT_TFEVENTS_H
#define CS_EXPORT_TFEVENTS_H

#include <stdint.h>

#include "core/base/buf.h"

struct cs_tfvalue {
    const char *tag;
    double value;
};

/* What a file begins with. first_step above 0: it goes on where another file of the directory was
 * left; values that one has of this step and later ones are superseded. */
void cs_tfevents_begin(struct cs_buf *out, double wall_s, int64_t first_step);
/* the values of a step, one event */
void cs_tfevents_add(struct cs_buf *out, double wall_s, int64_t step,
                     const struct cs_tfvalue *value, int n);
/* CRC-32C (Castagnoli), not masked */
uint32_t cs_crc32c(const void *data, size_t n);

#endif
