/* Reads and prints sizes, times and counts with their units. */
#include "core/base/units.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/base/status.h"

struct scale {
    const char *suffix;
    uint64_t factor;
};

static const struct scale byte_scales[] = {
    {"B",   1                },
    {"KiB", UINT64_C(1) << 10},
    {"MiB", UINT64_C(1) << 20},
    {"GiB", UINT64_C(1) << 30},
    {"TiB", UINT64_C(1) << 40},
    {"PiB", UINT64_C(1) << 50},
    {"EiB", UINT64_C(1) << 60},
 /* accepted when parsing only */
    {"",    1                },
    {"k",   UINT64_C(1) << 10},
    {"K",   UINT64_C(1) << 10},
    {"M",   UINT64_C(1) << 20},
    {"G",   UINT64_C(1) << 30},
    {"T",   UINT64_C(1) << 40},
    {"kB",  1000             },
    {"KB",  1000             },
    {"MB",  1000000          },
    {"GB",  1000000000       },
    {"TB",  1000000000000    },
};
#define BYTE_SCALES_PRINTED 7

static const struct scale count_scales[] = {
    {"",  1                            },
    {"k", 1000                         },
    {"M", 1000000                      },
    {"G", 1000000000                   },
    {"T", UINT64_C(1000000000000)      },
    {"P", UINT64_C(1000000000000000)   },
    {"E", UINT64_C(1000000000000000000)},
    {"K", 1000                         },
    {"B", 1000000000                   },
};
#define COUNT_SCALES_PRINTED 7

#define US  UINT64_C(1000)
#define MS  UINT64_C(1000000)
#define SEC UINT64_C(1000000000)
static const struct scale time_scales[] = {
    {"ns", 1          },
    {"us", US         },
    {"ms", MS         },
    {"s",  SEC        },
    {"m",  60 * SEC   },
    {"h",  3600 * SEC },
    {"d",  86400 * SEC},
};

/* three significant digits, never fewer than the whole part */
static void print_digits(char *out, size_t cap, double value)
{
    int digits = value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
    snprintf(out, cap, "%.*f", digits, value);
}

/* values from limit on would print as limit + 0.5 and so move to the next unit */
static void print_scaled(char *out, size_t cap, double value, const struct scale *scales, size_t n,
                         double base, const char *gap)
{
    char digits[24];
    size_t i = 0;
    while (i + 1 < n && value / (double)scales[i].factor >= base - 0.5)
        i++;
    if (i == 0)
        snprintf(digits, sizeof(digits), "%.0f", value);
    else
        print_digits(digits, sizeof(digits), value / (double)scales[i].factor);
    snprintf(out, cap, "%s%s%s", digits, scales[i].suffix[0] ? gap : "", scales[i].suffix);
}

void cs_bytes_print(char *out, size_t cap, uint64_t bytes)
{
    print_scaled(out, cap, (double)bytes, byte_scales, BYTE_SCALES_PRINTED, 1024, " ");
}

void cs_count_print(char *out, size_t cap, uint64_t count)
{
    print_scaled(out, cap, (double)count, count_scales, COUNT_SCALES_PRINTED, 1000, "");
}

void cs_rate_print(char *out, size_t cap, double per_second, const char *unit)
{
    char digits[CS_UNITS_CAP];
    if (!isfinite(per_second) || per_second < 0) {
        snprintf(out, cap, "-");
        return;
    }
    if (per_second < 99.95)
        print_digits(digits, sizeof(digits), per_second);
    else
        print_scaled(digits, sizeof(digits), per_second, count_scales, COUNT_SCALES_PRINTED, 1000,
                     "");
    snprintf(out, cap, "%s %s/s", digits, unit);
}

/* big and small unit, as in 1m02s */
static void print_pair(char *out, size_t cap, uint64_t count, unsigned base, const char *big,
                       const char *small)
{
    snprintf(out, cap, "%llu%s%02u%s", (unsigned long long)(count / base), big,
             (unsigned)(count % base), small);
}

void cs_duration_print(char *out, size_t cap, uint64_t ns)
{
    uint64_t seconds = ns / SEC + (ns % SEC >= SEC / 2);
    uint64_t minutes = ns / (60 * SEC) + (ns % (60 * SEC) >= 30 * SEC);
    uint64_t hours = ns / (3600 * SEC) + (ns % (3600 * SEC) >= 1800 * SEC);
    if (ns < 60 * SEC - SEC / 20)
        print_scaled(out, cap, (double)ns, time_scales, 4, 1000, " ");
    else if (seconds < 3600)
        print_pair(out, cap, seconds, 60, "m", "s");
    else if (minutes < 24 * 60)
        print_pair(out, cap, minutes, 60, "h", "m");
    else
        print_pair(out, cap, hours, 24, "d", "h");
}

static const struct scale *find_scale(const struct scale *scales, size_t n, const char *name,
                                      size_t len)
{
    for (size_t i = 0; i < n; i++)
        if (strlen(scales[i].suffix) == len && memcmp(scales[i].suffix, name, len) == 0)
            return &scales[i];
    return NULL;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* one "12.5 unit" at *text, added to *total; the whole part is exact, the fraction to 1e-9 */
static bool parse_term(const char **text, const struct scale *scales, size_t n,
                       const char *default_suffix, uint64_t *total)
{
    const char *at = *text;
    uint64_t whole = 0;
    long double fraction = 0, place = 1;
    if (!is_digit(*at))
        return false;
    for (; is_digit(*at); at++)
        if (__builtin_mul_overflow(whole, 10U, &whole) ||
            __builtin_add_overflow(whole, (uint64_t)(*at - '0'), &whole))
            return false;
    if (*at == '.') {
        if (!is_digit(*++at))
            return false;
        for (; is_digit(*at); at++) {
            place /= 10;
            fraction += place * (long double)(*at - '0');
        }
    }
    while (*at == ' ')
        at++;
    size_t len = strcspn(at, " 0123456789");
    const struct scale *scale = len ? find_scale(scales, n, at, len)
                                    : find_scale(scales, n, default_suffix, strlen(default_suffix));
    uint64_t value;
    if (!scale || __builtin_mul_overflow(whole, scale->factor, &value))
        return false;
    uint64_t rest = (uint64_t)(fraction * (long double)scale->factor + 0.5L);
    if (__builtin_add_overflow(value, rest, &value) || __builtin_add_overflow(*total, value, total))
        return false;
    *text = at + len;
    return true;
}

static bool parse_one(const char *text, const struct scale *scales, size_t n, const char *dflt,
                      uint64_t *value)
{
    uint64_t total = 0;
    if (!parse_term(&text, scales, n, dflt, &total) || *text != '\0')
        return false;
    *value = total;
    return true;
}

bool cs_bytes_parse(const char *text, uint64_t *bytes)
{
    return parse_one(text, byte_scales, CS_ARRAY_LEN(byte_scales), "", bytes);
}

bool cs_count_parse(const char *text, uint64_t *count)
{
    return parse_one(text, count_scales, CS_ARRAY_LEN(count_scales), "", count);
}

bool cs_duration_parse(const char *text, uint64_t *ns)
{
    uint64_t total = 0;
    do {
        if (!parse_term(&text, time_scales, CS_ARRAY_LEN(time_scales), "s", &total))
            return false;
        while (*text == ' ')
            text++;
    } while (*text);
    *ns = total;
    return true;
}
