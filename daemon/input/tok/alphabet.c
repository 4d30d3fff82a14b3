/* GPT-2's byte alphabet: every byte is written as one printable character, 188 of them as
 * themselves (0x21-0x7e, 0xa1-0xac, 0xae-0xff), the other 68 in order as U+0100 and on. */
#include "core/base/str.h"
#include "input/tok/tok.h"

static bool is_itself(uint32_t c)
{
    return (c >= 0x21 && c <= 0x7e) || (c >= 0xa1 && c <= 0xac) || (c >= 0xae && c <= 0xff);
}

static int byte_of(uint32_t c)
{
    uint32_t next = 0x100;

    if (c <= 0xff)
        return is_itself(c) ? (int)c : -1;
    for (int b = 0; b < 256; b++) {
        if (is_itself((uint32_t)b))
            continue;
        if (c == next)
            return b;
        next++;
    }
    return -1;
}

bool tok_alphabet_decode(const char *spelling, size_t n, char *out, size_t *n_out)
{
    *n_out = 0;
    for (size_t i = 0; i < n;) {
        uint32_t c = 0;
        size_t len = cs_utf8_decode(spelling + i, n - i, &c);
        int b = len == 0 ? -1 : byte_of(c);
        if (b == -1)
            return false;
        out[(*n_out)++] = (char)b;
        i += len;
    }
    return true;
}
