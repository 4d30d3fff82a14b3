/* Writes records and the few messages that are in them. */
#include "core/export/tfevents.h"

#include <string.h>

enum { WIRE_VARINT = 0, WIRE_64 = 1, WIRE_BYTES = 2, WIRE_32 = 5 };

enum { EVENT_TIME = 1, EVENT_STEP = 2, EVENT_VERSION = 3, EVENT_SUMMARY = 5, EVENT_SESSION = 7 };

static const char version[] = "brain.Event:2";

uint32_t cs_crc32c(const void *data, size_t n)
{
    static const uint32_t polynomial = 0x82f63b78;
    uint32_t table[16], crc = ~0u;
    const unsigned char *bytes = data;
    for (uint32_t i = 0; i < 16; i++) { /* four bits at a time */
        uint32_t c = i;
        for (int k = 0; k < 4; k++)
            c = c & 1 ? c >> 1 ^ polynomial : c >> 1;
        table[i] = c;
    }
    for (size_t i = 0; i < n; i++) {
        crc ^= bytes[i];
        crc = crc >> 4 ^ table[crc & 15];
        crc = crc >> 4 ^ table[crc & 15];
    }
    return ~crc;
}

static uint32_t masked(const void *data, size_t n)
{
    const uint32_t crc = cs_crc32c(data, n);
    return (crc >> 15 | crc << 17) + 0xa282ead8u;
}

static void add_little(struct cs_buf *out, uint64_t value, int bytes)
{
    for (int i = 0; i < bytes; i++)
        cs_buf_addc(out, (char)(value >> 8 * i & 0xff));
}

static void add_record(struct cs_buf *out, const struct cs_buf *event)
{
    const size_t at = out->len;
    add_little(out, event->len, 8);
    add_little(out, masked(out->data + at, 8), 4);
    cs_buf_add(out, event->data, event->len);
    add_little(out, masked(event->data, event->len), 4);
}

/* --- protocol buffers ------------------------------------------------------------------------- */

static void add_varint(struct cs_buf *out, uint64_t value)
{
    for (; value >= 0x80; value >>= 7)
        cs_buf_addc(out, (char)(value | 0x80));
    cs_buf_addc(out, (char)value);
}

static void add_key(struct cs_buf *out, int field, int type)
{
    add_varint(out, (uint64_t)(field << 3 | type));
}

static void add_bytes(struct cs_buf *out, int field, const void *bytes, size_t n)
{
    add_key(out, field, WIRE_BYTES);
    add_varint(out, n);
    cs_buf_add(out, bytes, n);
}

static void begin_event(struct cs_buf *event, double wall_s, int64_t step)
{
    uint64_t bits;
    memcpy(&bits, &wall_s, sizeof bits);
    add_key(event, EVENT_TIME, WIRE_64);
    add_little(event, bits, 8);
    if (step == 0)
        return;
    add_key(event, EVENT_STEP, WIRE_VARINT);
    add_varint(event, (uint64_t)step);
}

static void add_value(struct cs_buf *summary, const struct cs_tfvalue *value)
{
    struct cs_buf one = {0};
    const float number = (float)value->value;
    uint32_t bits;
    memcpy(&bits, &number, sizeof bits);
    add_bytes(&one, 1, value->tag, strlen(value->tag));
    add_key(&one, 2, WIRE_32);
    add_little(&one, bits, 4);
    add_bytes(summary, 1, one.data, one.len);
    cs_buf_free(&one);
}

void cs_tfevents_begin(struct cs_buf *out, double wall_s, int64_t first_step)
{
    static const char start[] = {1 << 3 | WIRE_VARINT, 1}; /* SessionLog.status: START */
    struct cs_buf event = {0};
    begin_event(&event, wall_s, 0);
    add_bytes(&event, EVENT_VERSION, version, strlen(version));
    add_record(out, &event);
    if (first_step > 0) {
        cs_buf_reset(&event);
        begin_event(&event, wall_s, first_step);
        add_bytes(&event, EVENT_SESSION, start, sizeof start);
        add_record(out, &event);
    }
    cs_buf_free(&event);
}

void cs_tfevents_add(struct cs_buf *out, double wall_s, int64_t step,
                     const struct cs_tfvalue *value, int n)
{
    struct cs_buf event = {0}, summary = {0};
    begin_event(&event, wall_s, step);
    for (int i = 0; i < n; i++)
        add_value(&summary, &value[i]);
    add_bytes(&event, EVENT_SUMMARY, summary.data, summary.len);
    add_record(out, &event);
    cs_buf_free(&event);
    cs_buf_free(&summary);
}
