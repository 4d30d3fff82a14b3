/* Numbers of few bits: repeated ones and packed ones in turn. */
#include <string.h>

#include "input/data/parquet/values.h"

int cs_pq_width(int max)
{
    int width = 0;

    while (max >> width != 0)
        width++;
    return width;
}

/* A run: its head, and how many numbers it has. */
static bool run(const uint8_t **at, const uint8_t *end, int width, uint32_t *out, size_t count,
                size_t *done)
{
    const size_t value_bytes = (size_t)(width + 7) / 8;
    uint64_t head = 0, n = 0;
    uint32_t value = 0;

    for (int shift = 0;; shift += 7) {
        if (*at == end || shift > 28)
            return false;
        head |= (uint64_t)(**at & 0x7f) << shift;
        if (*(*at)++ < 0x80)
            break;
    }
    n = (head >> 1) * ((head & 1) != 0 ? 8 : 1);
    if (n == 0 ||
        ((head & 1) != 0 ? (head >> 1) * (size_t)width : value_bytes) > (size_t)(end - *at))
        return false;
    if ((head & 1) == 0) {
        for (size_t i = 0; i < value_bytes; i++)
            value |= (uint32_t)(*at)[i] << (8 * i);
        for (uint64_t i = 0; i < n && *done < count; i++)
            out[(*done)++] = value;
        *at += value_bytes;
        return true;
    }
    for (uint64_t i = 0; i < n && *done < count; i++) {
        uint64_t bit = i * (uint64_t)width;
        for (value = 0; bit < (i + 1) * (uint64_t)width; bit++)
            value |= (uint32_t)((*at)[bit / 8] >> (bit % 8) & 1) << (bit - i * (uint64_t)width);
        out[(*done)++] = value;
    }
    *at += (head >> 1) * (size_t)width;
    return true;
}

bool cs_pq_hybrid(const uint8_t *bytes, size_t n, int width, uint32_t *out, size_t count)
{
    const uint8_t *at = bytes, *end = bytes + n;
    size_t done = 0;

    if (width < 0 || width > 32)
        return false;
    if (width == 0) {
        memset(out, 0, count * sizeof *out);
        return true;
    }
    while (done < count)
        if (!run(&at, end, width, out, count, &done))
            return false;
    return true;
}
