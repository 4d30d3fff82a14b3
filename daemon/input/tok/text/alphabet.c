/* 188 bytes are written as themselves (0x21-0x7e, 0xa1-0xac, 0xae-0xff), the other 68 in order as
 * U+0100 and on. */
#include "input/tok/text/alphabet.h"

#include <stdint.h>

#include "core/base/str.h"
#include "input/tok/text/unicode.h"

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

static uint32_t code_of(unsigned char byte)
{
    uint32_t code = 0x100;

    if (is_itself(byte))
        return byte;
    for (uint32_t b = 0; b < byte; b++)
        code += !is_itself(b);
    return code;
}

void tok_alphabet_encode(const char *bytes, size_t n, struct cs_buf *out)
{
    char utf8[4];

    for (size_t i = 0; i < n; i++)
        cs_buf_add(out, utf8, tok_char_put(code_of((unsigned char)bytes[i]), utf8));
}
