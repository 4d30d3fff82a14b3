/* Reads the orientation of an Exif block, of its text form and of an XMP packet. */
#include "input/picture/exif.h"

#include <string.h>

#include "core/base/buf.h"
#include "core/base/str.h"

enum { TAG_ORIENTATION = 0x112, HEADER = 8, ENTRY = 12, PREFIX = 6 };

struct tiff {
    const uint8_t *bytes;
    size_t n;
    bool is_big_endian;
};

/* width bytes at `at`, which the caller knows to be there. */
static uint32_t number(const struct tiff *t, size_t at, size_t width)
{
    uint32_t v = 0;

    for (size_t i = 0; i < width; i++)
        v |= (uint32_t)t->bytes[at + i] << 8 * (t->is_big_endian ? width - 1 - i : i);
    return v;
}

/* Bytes of a value; 0: a type that is no whole number. */
static size_t width_of(uint32_t type)
{
    static const struct {
        uint32_t type;
        size_t width;
    } types[] = {
        {3,  2},
        {4,  4},
        {6,  1},
        {8,  2},
        {9,  4},
        {13, 4}
    };

    for (size_t i = 0; i < CS_ARRAY_LEN(types); i++)
        if (types[i].type == type)
            return types[i].width;
    return 0;
}

static bool is_tiff(struct tiff *t)
{
    if (t->n < HEADER)
        return false;
    t->is_big_endian = memcmp(t->bytes, "MM\0*", 4) == 0;
    return t->is_big_endian || memcmp(t->bytes, "II*\0", 4) == 0;
}

/* The first value of the entry at `at`; it lies elsewhere when all of them do not fit into four bytes. */
static int value_of(const struct tiff *t, size_t at)
{
    size_t width = width_of(number(t, at + 2, 2)), where = at + 8;
    uint64_t count = number(t, at + 4, 4);
    uint32_t value = 0;

    if (width == 0 || count == 0)
        return CS_ORIENTATION_UPRIGHT;
    if (width * count > 4)
        where = number(t, where, 4);
    if (where > t->n - width)
        return CS_ORIENTATION_UPRIGHT;
    value = number(t, where, width);
    return value >= 1 && value <= 8 ? (int)value : CS_ORIENTATION_UPRIGHT;
}

enum cs_status cs_exif_orientation(const uint8_t *bytes, size_t n_bytes, int *out,
                                   struct cs_err *err)
{
    struct tiff t = {bytes, n_bytes, false};
    size_t at = 0;

    *out = CS_ORIENTATION_NONE;
    while (t.n >= PREFIX && memcmp(t.bytes, "Exif\0\0", PREFIX) == 0) {
        t.bytes += PREFIX;
        t.n -= PREFIX;
    }
    if (t.n == 0)
        return CS_OK;
    if (!is_tiff(&t))
        return cs_fail(err, CS_CORRUPT, "its Exif block has no TIFF header");
    at = number(&t, 4, 4);
    if (t.n < 2 || at > t.n - 2)
        return CS_OK;
    uint32_t n_entries = number(&t, at, 2);
    at += 2;
    /* a directory that is cut says what is there of it; of two tags the last one counts */
    for (uint32_t i = 0; i < n_entries && t.n - at >= ENTRY; i++, at += ENTRY)
        if (number(&t, at, 2) == TAG_ORIENTATION)
            *out = value_of(&t, at);
    return CS_OK;
}

static int digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

enum cs_status cs_exif_profile_orientation(const char *text, size_t n, int *out, struct cs_err *err)
{
    struct cs_buf bytes = {0};
    enum cs_status status = CS_OK;
    int high = -1;
    size_t at = 0;

    *out = CS_ORIENTATION_NONE;
    for (int line = 0; line < 3; line++) {
        const char *end = memchr(text + at, '\n', n - at);
        if (end == NULL)
            return CS_OK;
        at = (size_t)(end - text) + 1;
    }
    for (; at < n && status == CS_OK; at++) {
        int d = digit(text[at]);
        if (d >= 0 && high >= 0)
            cs_buf_add(&bytes, &(uint8_t){(uint8_t)(high << 4 | d)}, 1);
        high = d >= 0 && high < 0 ? d : -1;
        if (d < 0 && memchr(" \t\r\n", text[at], 4) == NULL)
            status = cs_fail(err, CS_CORRUPT, "its Exif profile is not hexadecimal");
    }
    if (status == CS_OK)
        status = cs_exif_orientation((const uint8_t *)cs_buf_str(&bytes), bytes.len, out, err);
    cs_buf_free(&bytes);
    return status;
}

int cs_xmp_orientation(const char *text, size_t n)
{
    static const char tag[] = "tiff:Orientation";
    const size_t n_tag = sizeof(tag) - 1;

    for (size_t at = 0; at + n_tag < n; at++) {
        const char *p = text + at + n_tag;
        size_t left = n - at - n_tag;
        if (memcmp(text + at, tag, n_tag) != 0)
            continue;
        size_t skip = p[0] == '>' ? 1 : left >= 2 && memcmp(p, "=\"", 2) == 0 ? 2 : 0;
        if (skip > 0 && left > skip && p[skip] >= '0' && p[skip] <= '9')
            return p[skip] >= '1' && p[skip] <= '8' ? p[skip] - '0' : CS_ORIENTATION_UPRIGHT;
    }
    return CS_ORIENTATION_NONE;
}
