/* Numbers that are written as differences in blocks of packed bits. */
#include "input/data/parquet/values.h"

struct bits {
    const uint8_t *at, *end;
    bool is_bad;
};

static uint64_t varint(struct bits *b)
{
    uint64_t out = 0;

    for (int shift = 0; shift < 64 && b->at < b->end; shift += 7) {
        uint8_t byte = *b->at++;
        out |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80)
            return out;
    }
    b->is_bad = true;
    return 0;
}

static int64_t zigzag(struct bits *b)
{
    uint64_t v = varint(b);

    return (int64_t)(v >> 1) ^ -(int64_t)(v & 1);
}

/* The i-th number of `width` bits, least significant first. */
static uint64_t packed(const uint8_t *bytes, size_t i, int width)
{
    uint64_t out = 0;

    for (int k = 0; k < width; k++) {
        size_t bit = i * (size_t)width + (size_t)k;
        out |= (uint64_t)(bytes[bit / 8] >> (bit % 8) & 1) << k;
    }
    return out;
}

/* One block: the least difference, a width for each miniblock, and the miniblocks that hold numbers. */
static void block(struct bits *b, size_t n_mini, size_t mini, int64_t *last, int64_t *out,
                  size_t count, size_t *done)
{
    int64_t least = zigzag(b);
    const uint8_t *widths = b->at;

    if (b->is_bad || n_mini > (size_t)(b->end - b->at)) {
        b->is_bad = true;
        return;
    }
    b->at += n_mini;
    for (size_t m = 0; m < n_mini && *done < count; m++) {
        size_t bytes = mini * widths[m] / 8;
        if (widths[m] > 64 || bytes > (size_t)(b->end - b->at)) {
            b->is_bad = true;
            return;
        }
        for (size_t i = 0; i < mini && *done < count; i++) {
            *last = (int64_t)((uint64_t)*last + (uint64_t)least + packed(b->at, i, widths[m]));
            out[(*done)++] = *last;
        }
        b->at += bytes;
    }
}

bool cs_pq_delta(const uint8_t *bytes, size_t n, int64_t *out, size_t count, size_t *used)
{
    struct bits b = {bytes, bytes + n, false};
    uint64_t block_size = varint(&b), n_mini = varint(&b), total = varint(&b);
    int64_t last = zigzag(&b);
    size_t done = 0;

    if (b.is_bad || total != count || n_mini == 0 || n_mini > 1024 || block_size > 1 << 20 ||
        block_size % (n_mini * 8) != 0 || block_size == 0)
        return false;
    if (count > 0)
        out[done++] = last;
    while (done < count && !b.is_bad)
        block(&b, (size_t)n_mini, (size_t)(block_size / n_mini), &last, out, count, &done);
    *used = (size_t)(b.at - bytes);
    return !b.is_bad;
}
