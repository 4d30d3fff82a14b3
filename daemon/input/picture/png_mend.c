/* Walks the chunks of a PNG file: to where they stop, to write the end that is missing; past the pixels. */
#include "input/picture/png_mend.h"

#include <string.h>

#include <zlib.h>

enum { SIGNATURE = 8, HEADER = 8, CHECKSUM = 4 };

static uint32_t big_endian(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static void put_number(struct cs_buf *out, uint32_t v)
{
    const uint8_t bytes[] = {(uint8_t)(v >> 24), (uint8_t)(v >> 16), (uint8_t)(v >> 8), (uint8_t)v};

    cs_buf_add(out, bytes, sizeof bytes);
}

/* data: n bytes behind the chunk's type, in memory. */
static void put_chunk(struct cs_buf *out, const char *type, const uint8_t *data, size_t n)
{
    uLong sum = crc32_z(0, (const Bytef *)type, 4);

    put_number(out, (uint32_t)n);
    cs_buf_add(out, type, 4);
    if (n > 0) {
        cs_buf_add(out, data, n);
        sum = crc32_z(sum, data, n);
    }
    put_number(out, (uint32_t)sum);
}

enum cs_status cs_png_mend(const uint8_t *bytes, size_t n_bytes, struct cs_buf *out,
                           bool *is_mended, struct cs_err *err)
{
    const uint8_t *data = NULL;
    size_t at = SIGNATURE, left = 0, length = 0;

    *is_mended = false;
    while (n_bytes >= at + HEADER) {
        length = big_endian(bytes + at);
        left = n_bytes - at - HEADER;
        if (left < length || left - length < CHECKSUM)
            break;
        if (memcmp(bytes + at + 4, "IEND", 4) == 0)
            return CS_OK;
        at += HEADER + length + CHECKSUM;
    }
    if (n_bytes < at)
        return CS_OK;
    data = n_bytes >= at + HEADER ? bytes + at + HEADER : NULL;
    if (data != NULL && left < length && memcmp(data - 4, "IDAT", 4) != 0)
        return CS_OK;
    if (!cs_buf_try_room(out, n_bytes + 2 * (HEADER + CHECKSUM)))
        return cs_fail(err, CS_NO_MEMORY, "no memory to mend a file of %zu bytes", n_bytes);
    cs_buf_add(out, bytes, at);
    if (data != NULL && memcmp(data - 4, "IEND", 4) != 0)
        put_chunk(out, (const char *)data - 4, data, left < length ? left : length);
    put_chunk(out, "IEND", NULL, 0);
    *is_mended = true;
    return CS_OK;
}

enum cs_status cs_png_strip(const uint8_t *bytes, size_t n_bytes, struct cs_buf *out,
                            struct cs_err *err)
{
    static const uint8_t empty[] = {0, 0, 0, 0, 'I', 'D', 'A', 'T', 0, 0, 0, 0};
    const size_t around = HEADER + CHECKSUM;
    size_t at = SIGNATURE;

    if (!cs_buf_try_room(out, n_bytes + sizeof(empty)))
        return cs_fail(err, CS_NO_MEMORY, "no memory to read a file of %zu bytes", n_bytes);
    cs_buf_add(out, bytes, at);
    while (n_bytes - at >= around && big_endian(bytes + at) <= n_bytes - at - around) {
        const size_t length = big_endian(bytes + at) + around;
        if (memcmp(bytes + at + 4, "IDAT", 4) != 0 && memcmp(bytes + at + 4, "IEND", 4) != 0)
            cs_buf_add(out, bytes + at, length);
        at += length;
    }
    cs_buf_add(out, empty, sizeof(empty));
    return CS_OK;
}
