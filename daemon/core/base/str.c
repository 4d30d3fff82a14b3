/* Copies, compares, escapes and measures strings. Width ranges: Unicode 15 East_Asian_Width W and F,
 * and the common zero-width blocks. */
#include "core/base/str.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct range {
    uint32_t first, last;
};

static const struct range zero_width[] = {
    {0x0300,  0x036F },
    {0x0483,  0x0489 },
    {0x0591,  0x05BD },
    {0x0610,  0x061A },
    {0x064B,  0x065F },
    {0x0900,  0x0902 },
    {0x093C,  0x093C },
    {0x0941,  0x0948 },
    {0x0E31,  0x0E31 },
    {0x0E34,  0x0E3A },
    {0x0E47,  0x0E4E },
    {0x1AB0,  0x1AFF },
    {0x1DC0,  0x1DFF },
    {0x200B,  0x200F },
    {0x202A,  0x202E },
    {0x2060,  0x2064 },
    {0x20D0,  0x20FF },
    {0xFE00,  0xFE0F },
    {0xFE20,  0xFE2F },
    {0xFEFF,  0xFEFF },
    {0xE0001, 0xE007F},
    {0xE0100, 0xE01EF},
};
static const struct range double_width[] = {
    {0x1100,  0x115F },
    {0x231A,  0x231B },
    {0x2329,  0x232A },
    {0x23E9,  0x23EC },
    {0x23F0,  0x23F0 },
    {0x23F3,  0x23F3 },
    {0x25FD,  0x25FE },
    {0x2614,  0x2615 },
    {0x2648,  0x2653 },
    {0x267F,  0x267F },
    {0x2693,  0x2693 },
    {0x26A1,  0x26A1 },
    {0x26AA,  0x26AB },
    {0x26BD,  0x26BE },
    {0x26C4,  0x26C5 },
    {0x26CE,  0x26CE },
    {0x26D4,  0x26D4 },
    {0x26EA,  0x26EA },
    {0x26F2,  0x26F3 },
    {0x26F5,  0x26F5 },
    {0x26FA,  0x26FA },
    {0x26FD,  0x26FD },
    {0x2705,  0x2705 },
    {0x270A,  0x270B },
    {0x2728,  0x2728 },
    {0x274C,  0x274C },
    {0x274E,  0x274E },
    {0x2753,  0x2755 },
    {0x2757,  0x2757 },
    {0x2795,  0x2797 },
    {0x27B0,  0x27B0 },
    {0x27BF,  0x27BF },
    {0x2B1B,  0x2B1C },
    {0x2B50,  0x2B50 },
    {0x2B55,  0x2B55 },
    {0x2E80,  0x303E },
    {0x3041,  0x33FF },
    {0x3400,  0x4DBF },
    {0x4E00,  0x9FFF },
    {0xA000,  0xA4CF },
    {0xA960,  0xA97F },
    {0xAC00,  0xD7A3 },
    {0xF900,  0xFAFF },
    {0xFE10,  0xFE19 },
    {0xFE30,  0xFE6F },
    {0xFF00,  0xFF60 },
    {0xFFE0,  0xFFE6 },
    {0x16FE0, 0x18CFF},
    {0x1AFF0, 0x1B2FF},
    {0x1F004, 0x1F004},
    {0x1F0CF, 0x1F0CF},
    {0x1F18E, 0x1F18E},
    {0x1F191, 0x1F19A},
    {0x1F200, 0x1F320},
    {0x1F32D, 0x1F335},
    {0x1F337, 0x1F37C},
    {0x1F37E, 0x1F393},
    {0x1F3A0, 0x1F3CA},
    {0x1F3CF, 0x1F3D3},
    {0x1F3E0, 0x1F3F0},
    {0x1F3F4, 0x1F3F4},
    {0x1F3F8, 0x1F43E},
    {0x1F440, 0x1F440},
    {0x1F442, 0x1F4FC},
    {0x1F4FF, 0x1F53D},
    {0x1F54B, 0x1F54E},
    {0x1F550, 0x1F567},
    {0x1F57A, 0x1F57A},
    {0x1F595, 0x1F596},
    {0x1F5A4, 0x1F5A4},
    {0x1F5FB, 0x1F64F},
    {0x1F680, 0x1F6C5},
    {0x1F6CC, 0x1F6CC},
    {0x1F6D0, 0x1F6D2},
    {0x1F6D5, 0x1F6D7},
    {0x1F6DC, 0x1F6DF},
    {0x1F6EB, 0x1F6EC},
    {0x1F6F4, 0x1F6FC},
    {0x1F7E0, 0x1F7EB},
    {0x1F7F0, 0x1F7F0},
    {0x1F90C, 0x1F93A},
    {0x1F93C, 0x1F945},
    {0x1F947, 0x1F9FF},
    {0x1FA70, 0x1FAFF},
    {0x20000, 0x2FFFD},
    {0x30000, 0x3FFFD},
};

static bool in_ranges(const struct range *ranges, size_t n, uint32_t code)
{
    size_t low = 0, high = n;
    while (low < high) {
        size_t mid = (low + high) / 2;
        if (code > ranges[mid].last)
            low = mid + 1;
        else
            high = mid;
    }
    return low < n && code >= ranges[low].first;
}

size_t cs_utf8_decode(const char *bytes, size_t n, uint32_t *code)
{
    static const uint32_t smallest[] = {0, 0, 0x80, 0x800, 0x10000};
    if (n == 0)
        return 0;
    uint32_t lead = (unsigned char)bytes[0];
    size_t len = lead < 0x80   ? 1
                 : lead < 0xC2 ? 0
                 : lead < 0xE0 ? 2
                 : lead < 0xF0 ? 3
                 : lead < 0xF5 ? 4
                               : 0;
    if (len == 0 || len > n)
        return 0;
    uint32_t value = len == 1 ? lead : lead & (0xFFU >> (len + 1));
    for (size_t i = 1; i < len; i++) {
        uint32_t next = (unsigned char)bytes[i];
        if ((next & 0xC0) != 0x80)
            return 0;
        value = value << 6 | (next & 0x3F);
    }
    if (value < smallest[len] || value > 0x10FFFF || (value >= 0xD800 && value <= 0xDFFF))
        return 0;
    *code = value;
    return len;
}

bool cs_utf8_valid(const char *bytes, size_t n)
{
    for (size_t i = 0; i < n;) {
        uint32_t code;
        size_t len = cs_utf8_decode(bytes + i, n - i, &code);
        if (len == 0)
            return false;
        i += len;
    }
    return true;
}

int cs_utf8_code_width(uint32_t code)
{
    if (code < 0x300)
        return 1;
    if (in_ranges(zero_width, CS_ARRAY_LEN(zero_width), code))
        return 0;
    return in_ranges(double_width, CS_ARRAY_LEN(double_width), code) ? 2 : 1;
}

/* one step: bytes taken (never 0 for n > 0) and columns */
static size_t step(const char *bytes, size_t n, int *columns)
{
    uint32_t code;
    size_t len = cs_utf8_decode(bytes, n, &code);
    *columns = len ? cs_utf8_code_width(code) : 1;
    return len ? len : 1;
}

int cs_utf8_width(const char *bytes, size_t n)
{
    int width = 0;
    for (size_t i = 0; i < n;) {
        int columns;
        i += step(bytes + i, n - i, &columns);
        width += columns;
    }
    return width;
}

size_t cs_utf8_fit(const char *bytes, size_t n, int width, int *used)
{
    size_t i = 0;
    *used = 0;
    while (i < n) {
        int columns;
        size_t len = step(bytes + i, n - i, &columns);
        if (*used + columns > width)
            break;
        *used += columns;
        i += len;
    }
    return i;
}

/* Code points that steer a terminal or hide text: controls, marks that turn the direction of
 * writing, separators of lines, what is invisible by design. Joiners stay: scripts and emoji need
 * them. */
static const struct range unsafe[] = {
    {0x0000,  0x001F },
    {0x007F,  0x009F },
    {0x00AD,  0x00AD }, /* soft hyphen */
    {0x061C,  0x061C },
    {0x180E,  0x180E },
    {0x200B,  0x200B },
    {0x200E,  0x200F },
    {0x2028,  0x202E },
    {0x2060,  0x206F },
    {0xFEFF,  0xFEFF },
    {0xFFF9,  0xFFFB }, /* annotations between the lines */
    {0xE0000, 0xE007F}, /* tags */
};

bool cs_utf8_is_unsafe(uint32_t code)
{
    return in_ranges(unsafe, CS_ARRAY_LEN(unsafe), code);
}

static void escape_unsafe(struct cs_buf *out, const char *bytes, size_t len, uint32_t code)
{
    static const char named[] = "\nn\tt\rr"; /* pairs: the character, its letter */
    for (size_t i = 0; len == 1 && i + 1 < sizeof named; i += 2)
        if (bytes[0] == named[i]) {
            cs_buf_addf(out, "\\%c", named[i + 1]);
            return;
        }
    if (len > 1 && code > 0x9F)
        cs_buf_addf(out, "\\u{%x}", (unsigned)code);
    else
        for (size_t i = 0; i < (len ? len : 1); i++)
            cs_buf_addf(out, "\\x%02x", (unsigned)(unsigned char)bytes[i]);
}

/* quoted: characters that get a backslash; kept: unsafe ones that stay */
static void clean(struct cs_buf *out, const char *bytes, size_t n, const char *quoted,
                  const char *kept)
{
    for (size_t i = 0; i < n;) {
        uint32_t code = 0;
        size_t len = cs_utf8_decode(bytes + i, n - i, &code);
        bool is_kept = len == 1 && bytes[i] != '\0' && strchr(kept, bytes[i]);
        if (len == 0 || (cs_utf8_is_unsafe(code) && !is_kept)) {
            escape_unsafe(out, bytes + i, len, code);
        } else {
            if (len == 1 && strchr(quoted, bytes[i]))
                cs_buf_addc(out, '\\');
            cs_buf_add(out, bytes + i, len);
        }
        i += len ? len : 1;
    }
}

void cs_str_escape(struct cs_buf *out, const char *bytes, size_t n, bool with_quotes)
{
    clean(out, bytes, n, with_quotes ? "\"\\" : "", "");
}

void cs_str_clean(struct cs_buf *out, const char *bytes, size_t n)
{
    clean(out, bytes, n, "", "\n\t");
}

/* \uXXXX, in two halves above U+FFFF */
static void add_json_code(struct cs_buf *out, uint32_t code)
{
    if (code > 0xFFFF)
        cs_buf_addf(out, "\\u%04x\\u%04x", (unsigned)(0xD7C0 + (code >> 10)),
                    (unsigned)(0xDC00 + (code & 0x3FF)));
    else
        cs_buf_addf(out, "\\u%04x", (unsigned)code);
}

void cs_str_escape_json(struct cs_buf *out, const char *bytes, size_t n)
{
    for (size_t i = 0; i < n;) {
        uint32_t code = 0;
        size_t len = cs_utf8_decode(bytes + i, n - i, &code);
        if (len == 0 || code == 0)
            cs_buf_addf(out, "\\\\x%02x", (unsigned)(unsigned char)bytes[i]);
        else if (cs_utf8_is_unsafe(code))
            add_json_code(out, code);
        else if (code == '"' || code == '\\')
            cs_buf_addf(out, "\\%c", (int)code);
        else
            cs_buf_add(out, bytes + i, len);
        i += len ? len : 1;
    }
}

void cs_str_clean_json(struct cs_buf *out, const char *document, size_t n)
{
    for (size_t i = 0; i < n;) {
        uint32_t code = 0;
        size_t len = cs_utf8_decode(document + i, n - i, &code);
        if (len > 0 && code >= 0x7F && cs_utf8_is_unsafe(code))
            add_json_code(out, code);
        else
            cs_buf_add(out, document + i, len ? len : 1);
        i += len ? len : 1;
    }
}

bool cs_str_copy(char *to, size_t cap, const char *text)
{
    size_t len = strlen(text);
    bool fits = len < cap;
    if (cap == 0)
        return false;
    if (!fits)
        len = cap - 1;
    memcpy(to, text, len);
    to[len] = '\0';
    return fits;
}

bool cs_str_starts(const char *text, const char *prefix)
{
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

bool cs_str_to_u64(const char *text, uint64_t *value)
{
    uint64_t total = 0;
    if (*text == '\0')
        return false;
    for (; *text; text++) {
        if (*text < '0' || *text > '9')
            return false;
        if (__builtin_mul_overflow(total, 10U, &total) ||
            __builtin_add_overflow(total, (uint64_t)(*text - '0'), &total))
            return false;
    }
    *value = total;
    return true;
}

bool cs_str_to_i64(const char *text, int64_t *value)
{
    bool is_negative = *text == '-';
    uint64_t magnitude;
    if (!cs_str_to_u64(text + (is_negative ? 1 : 0), &magnitude))
        return false;
    if (magnitude > (uint64_t)INT64_MAX + (is_negative ? 1U : 0U))
        return false;
    *value = is_negative ? (int64_t)(0U - magnitude) : (int64_t)magnitude;
    return true;
}

bool cs_str_to_double(const char *text, double *value)
{
    char *end;
    const char *digits = text + (*text == '-' ? 1 : 0);
    bool starts_well = (*digits >= '0' && *digits <= '9') || *digits == '.';
    if (!starts_well || strpbrk(text, " xXpP\t\n"))
        return false;
    int saved = errno;
    errno = 0;
    double parsed = strtod(text, &end);
    bool is_good = end != text && *end == '\0' && (errno == 0 || (parsed > -1 && parsed < 1));
    errno = saved;
    if (is_good)
        *value = parsed;
    return is_good;
}
