/* Classes of characters, and characters as bytes. */
#include "input/tok/text/unicode.h"

#include <utf8proc.h>

#include "core/base/str.h"

bool tok_is_space(uint32_t c)
{
    return (c >= 9 && c <= 13) || c == 0x20 || c == 0x85 || c == 0xa0 || c == 0x1680 ||
           (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f ||
           c == 0x205f || c == 0x3000;
}

bool tok_is_mark(uint32_t c)
{
    const utf8proc_category_t category = utf8proc_category((utf8proc_int32_t)c);

    return category >= UTF8PROC_CATEGORY_MN && category <= UTF8PROC_CATEGORY_ME;
}

bool tok_is_word(uint32_t c)
{
    const utf8proc_category_t category = utf8proc_category((utf8proc_int32_t)c);

    return (category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_NL) ||
           category == UTF8PROC_CATEGORY_PC || c == 0x200c || c == 0x200d ||
           (c >= 0x24b6 && c <= 0x24e9) || (c >= 0x1f130 && c <= 0x1f149) ||
           (c >= 0x1f150 && c <= 0x1f169) || (c >= 0x1f170 && c <= 0x1f189);
}

bool tok_is_ascii(const char *text, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)text[i] >= 0x80)
            return false;
    return true;
}

uint32_t tok_char(const char *text, size_t n, uint32_t *code)
{
    const size_t len = cs_utf8_decode(text, n, code);

    if (len == 0)
        *code = 0xffff;
    return len == 0 ? 1 : (uint32_t)len;
}

size_t tok_char_before(const char *text, size_t at, uint32_t *code)
{
    size_t begin = at - 1;

    while (begin > 0 && at - begin < 4 && ((unsigned char)text[begin] & 0xc0) == 0x80)
        begin--;
    if (cs_utf8_decode(text + begin, at - begin, code) == at - begin)
        return begin;
    *code = 0xffff;
    return at - 1;
}

size_t tok_char_put(uint32_t code, char out[4])
{
    return (size_t)utf8proc_encode_char((utf8proc_int32_t)code, (utf8proc_uint8_t *)out);
}
