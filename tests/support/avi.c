/* RIFF by hand: a list of headers, a list of frames (blue, green, red; the lowest line first), an index. */
#include "support/avi.h"

#include <stdlib.h>
#include <string.h>

struct out {
    uint8_t *bytes;
    size_t n;
};

static void put(struct out *o, uint64_t value, int n_bytes)
{
    for (int i = 0; i < n_bytes; i++)
        o->bytes[o->n++] = (uint8_t)(i < 8 ? value >> (8 * i) : 0);
}

static void word(struct out *o, const char *four)
{
    memcpy(o->bytes + o->n, four, 4);
    o->n += 4;
}

/* Opens a chunk; close_chunk writes its size. */
static size_t open_chunk(struct out *o, const char *name, const char *kind)
{
    word(o, name);
    put(o, 0, 4);
    const size_t start = o->n;
    if (kind != NULL)
        word(o, kind);
    return start;
}

static void close_chunk(struct out *o, size_t start)
{
    const size_t end = o->n;
    o->n = start - 4;
    put(o, end - start, 4);
    o->n = end;
}

static void headers(struct out *o, int n, int width, int height, int rate, int scale)
{
    const uint64_t bytes = (uint64_t)width * (uint64_t)height * 3;
    const size_t list = open_chunk(o, "LIST", "hdrl");
    const size_t main_header = open_chunk(o, "avih", NULL);

    put(o, (uint64_t)scale * 1000000 / (uint64_t)rate, 4);
    put(o, 0, 8);
    put(o, 0x10, 4); /* has an index */
    put(o, (uint64_t)n, 4);
    put(o, 0, 4);
    put(o, 1, 4);
    put(o, bytes, 4);
    put(o, (uint64_t)width, 4);
    put(o, (uint64_t)height, 4);
    put(o, 0, 16);
    close_chunk(o, main_header);
    const size_t stream = open_chunk(o, "LIST", "strl");
    const size_t stream_header = open_chunk(o, "strh", "vids");
    word(o, "DIB ");
    put(o, 0, 12);
    put(o, (uint64_t)scale, 4);
    put(o, (uint64_t)rate, 4);
    put(o, 0, 4);
    put(o, (uint64_t)n, 4);
    put(o, bytes, 4);
    put(o, 0, 16);
    close_chunk(o, stream_header);
    const size_t format = open_chunk(o, "strf", NULL);
    put(o, 40, 4);
    put(o, (uint64_t)width, 4);
    put(o, (uint64_t)height, 4);
    put(o, 1, 2);
    put(o, 24, 2);
    put(o, 0, 4);
    put(o, bytes, 4);
    put(o, 0, 16);
    close_chunk(o, format);
    close_chunk(o, stream);
    close_chunk(o, list);
}

uint8_t *cs_test_avi(const uint8_t *rgb, int n, int width, int height, int rate, int scale,
                     size_t *size)
{
    const size_t line = (size_t)width * 3, frame = line * (size_t)height;
    struct out o = {.bytes = malloc(4096 + (size_t)n * (frame + 32))};
    const size_t riff = open_chunk(&o, "RIFF", "AVI ");

    headers(&o, n, width, height, rate, scale);
    const size_t movie = open_chunk(&o, "LIST", "movi");
    for (int k = 0; k < n; k++) {
        const size_t chunk = open_chunk(&o, "00db", NULL);
        for (int y = height - 1; y >= 0; y--)
            for (size_t x = 0; x < line; x += 3)
                for (int c = 2; c >= 0; c--)
                    o.bytes[o.n++] = rgb[(size_t)k * frame + (size_t)y * line + x + (size_t)c];
        close_chunk(&o, chunk);
    }
    close_chunk(&o, movie);
    const size_t index = open_chunk(&o, "idx1", NULL);
    for (int k = 0; k < n; k++) {
        word(&o, "00db");
        put(&o, 0x10, 4);
        put(&o, 4 + (uint64_t)k * (frame + 8), 4);
        put(&o, frame, 4);
    }
    close_chunk(&o, index);
    close_chunk(&o, riff);
    *size = o.n;
    return o.bytes;
}
