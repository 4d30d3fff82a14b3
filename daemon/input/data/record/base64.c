/* Decodes base64. */
#include "input/data/record/base64.h"

#include <stdint.h>
#include <string.h>

size_t cs_base64_room(size_t n)
{
    return n / 4 * 3 + 3;
}

/* 0 to 63; 64: white space; 65: padding; -1: neither. */
static int value_of(char c)
{
    static const char upper[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
    const char *at = c != '\0' ? strchr(upper, c) : NULL;

    if (at != NULL)
        return (int)(at - upper);
    if (c == '+' || c == '-')
        return 62;
    if (c == '/' || c == '_')
        return 63;
    if (c == '=')
        return 65;
    return c == ' ' || c == '\n' || c == '\r' || c == '\t' ? 64 : -1;
}

bool cs_base64_decode(const char *text, size_t n, unsigned char *out, size_t *n_out)
{
    uint32_t held = 0;
    int bits = 0, n_padding = 0;
    size_t done = 0;

    for (size_t i = 0; i < n; i++) {
        int v = value_of(text[i]);
        if (v == 64)
            continue;
        n_padding += v == 65;
        if (v == -1 || n_padding > 2 || (v < 64 && n_padding > 0))
            return false;
        if (v == 65)
            continue;
        held = (held << 6 | (uint32_t)v) & 0xffffff;
        bits += 6;
        if (bits >= 8) {
            bits -= 8;
            out[done++] = (unsigned char)(held >> bits & 0xff);
        }
    }
    *n_out = done;
    return bits < 6; /* one character alone is no byte */
}
