/* Figures for people: goldens at the seams and the round trip print(parse(print(x))) ==
 * print(x). */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/status.h"
#include "core/base/system/clock.h"
#include "core/base/units.h"

typedef void print_fn(char *out, size_t cap, uint64_t value);
typedef bool parse_fn(const char *text, uint64_t *value);

struct golden {
    uint64_t value;
    const char *text;
};

static void check_goldens(print_fn *print, const struct golden *rows, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        char text[CS_UNITS_CAP];
        print(text, sizeof(text), rows[i].value);
        assert_string_equal(text, rows[i].text);
    }
}

static void bytes_have_three_digits(void **state)
{
    (void)state;
    static const struct golden rows[] = {
        {0,                  "0 B"     },
        {1023,               "1023 B"  },
        {1024,               "1.00 KiB"},
        {1536,               "1.50 KiB"},
        {10234,              "9.99 KiB"},
        {10236,              "10.0 KiB"},
        {102348,             "99.9 KiB"},
        {102400,             "100 KiB" },
        {1023 * 1024 + 511,  "1023 KiB"},
        {1023 * 1024 + 512,  "1.00 MiB"},
        {1 << 20,            "1.00 MiB"},
        {UINT64_C(80) << 30, "80.0 GiB"},
        {UINT64_MAX,         "16.0 EiB"},
    };
    check_goldens(cs_bytes_print, rows, CS_ARRAY_LEN(rows));
}

static void counts_have_three_digits(void **state)
{
    (void)state;
    static const struct golden rows[] = {
        {0,          "0"    },
        {999,        "999"  },
        {1000,       "1.00k"},
        {12345,      "12.3k"},
        {999499,     "999k" },
        {999500,     "1.00M"},
        {12300000,   "12.3M"},
        {7000000000, "7.00G"},
        {UINT64_MAX, "18.4E"},
    };
    check_goldens(cs_count_print, rows, CS_ARRAY_LEN(rows));
}

static void durations_read_like_a_clock(void **state)
{
    (void)state;
    static const uint64_t s = 1000000000;
    const struct golden rows[] = {
        {0,                "0 ns"   },
        {850,              "850 ns" },
        {12340,            "12.3 us"},
        {999499,           "999 us" },
        {999500,           "1.00 ms"},
        {236 * s / 1000,   "236 ms" },
        {12345 * s / 1000, "12.3 s" },
        {59949 * s / 1000, "59.9 s" },
        {59950 * s / 1000, "1m00s"  },
        {62 * s,           "1m02s"  },
        {3599 * s,         "59m59s" },
        {35995 * s / 10,   "1h00m"  },
        {3600 * s,         "1h00m"  },
        {11220 * s,        "3h07m"  },
        {86369 * s,        "23h59m" },
        {86370 * s,        "1d00h"  },
        {190800 * s,       "2d05h"  },
    };
    check_goldens(cs_duration_print, rows, CS_ARRAY_LEN(rows));
}

static void rates_carry_their_unit(void **state)
{
    (void)state;

    static const struct {
        double value;
        const char *text;
    } rows[] = {
        {0,                "0.00 tokens/s"},
        {9.994,            "9.99 tokens/s"},
        {9.996,            "10.0 tokens/s"},
        {99.96,            "100 tokens/s" },
        {133400,           "133k tokens/s"},
        {(double)NAN,      "-"            },
        {(double)INFINITY, "-"            },
        {-1,               "-"            },
    };

    for (size_t i = 0; i < CS_ARRAY_LEN(rows); i++) {
        char text[CS_UNITS_CAP];
        cs_rate_print(text, sizeof(text), rows[i].value, "tokens");
        assert_string_equal(text, rows[i].text);
    }
}

static void printing_what_was_parsed_gives_the_same_text(void **state)
{
    (void)state;

    static const struct {
        print_fn *print;
        parse_fn *parse;
        double error; /* relative: half of the last digit */
    } kinds[] = {
        {cs_bytes_print,    cs_bytes_parse,    0.0051},
        {cs_count_print,    cs_count_parse,    0.0051},
        {cs_duration_print, cs_duration_parse, 0.0210}, /* 1d00h rounds by half an hour */
    };

    uint64_t random = 88172645463325252U;
    for (int i = 0; i < 200000; i++) {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        uint64_t x = random >> (i % 63);
        for (size_t k = 0; k < CS_ARRAY_LEN(kinds); k++) {
            char text[CS_UNITS_CAP], again[CS_UNITS_CAP];
            uint64_t y;
            kinds[k].print(text, sizeof(text), x);
            if (!kinds[k].parse(text, &y)) {
                /* 16.0 EiB is one more than fits */
                assert_true(x > UINT64_MAX - (UINT64_MAX >> 8));
                continue;
            }
            kinds[k].print(again, sizeof(again), y);
            assert_string_equal(text, again);
            if (!(fabs((double)y - (double)x) <= kinds[k].error * (double)x))
                fail_msg("%s is far from %llu", text, (unsigned long long)x);
        }
    }
}

static void parsing_takes_what_people_write(void **state)
{
    (void)state;

    static const struct {
        parse_fn *parse;
        const char *text;
        uint64_t value;
    } rows[] = {
        {cs_bytes_parse,    "0",                    0                      },
        {cs_bytes_parse,    "4096",                 4096                   },
        {cs_bytes_parse,    "64KiB",                65536                  },
        {cs_bytes_parse,    "64 k",                 65536                  },
        {cs_bytes_parse,    "1.5G",                 UINT64_C(3) << 29      },
        {cs_bytes_parse,    "2GB",                  2000000000             },
        {cs_bytes_parse,    "18446744073709551615", UINT64_MAX             },
        {cs_count_parse,    "12.3M",                12300000               },
        {cs_count_parse,    "1.234567891G",         1234567891             },
        {cs_duration_parse, "90",                   UINT64_C(90000000000)  },
        {cs_duration_parse, "1m02s",                UINT64_C(62000000000)  },
        {cs_duration_parse, "1h30m",                UINT64_C(5400000000000)},
        {cs_duration_parse, "1 h 30 m",             UINT64_C(5400000000000)},
        {cs_duration_parse, "1.5ms",                1500000                },
        {cs_duration_parse, "236 ms",               236000000              },
    };

    for (size_t i = 0; i < CS_ARRAY_LEN(rows); i++) {
        uint64_t value = 1;
        assert_true(rows[i].parse(rows[i].text, &value));
        if (value != rows[i].value)
            fail_msg("%s gives %llu", rows[i].text, (unsigned long long)value);
    }
}

static void parsing_refuses_garbage(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "",           " ",   "x",   "-1",   "1.",  ".5",    "1..5",
        "1KiBs",      "1 x", "1e3", "0x10", "nan", "16EiB", "99999999999999999999",
        "20000000TB", "+1"};
    for (size_t i = 0; i < CS_ARRAY_LEN(texts); i++) {
        uint64_t value;
        if (cs_bytes_parse(texts[i], &value))
            fail_msg("bytes: accepted '%s'", texts[i]);
        if (cs_duration_parse(texts[i], &value))
            fail_msg("duration: accepted '%s'", texts[i]);
    }
    uint64_t value;
    assert_false(cs_count_parse("1m", &value));
    assert_false(cs_count_parse("1k 2", &value));
    assert_false(cs_duration_parse("1m2x", &value));
    assert_false(cs_duration_parse("213504d", &value)); /* 2^64 ns are 213503.98 days */
    assert_true(cs_duration_parse("213503d", &value));
}

static void counts_have_their_word(void **state)
{
    static const struct {
        int64_t n;
        const char *ranks, *copies;
    } rows[] = {
        {0,  "0 ranks",  "0 copies" },
        {1,  "1 rank",   "1 copy"   },
        {-1, "-1 ranks", "-1 copies"},
        {2,  "2 ranks",  "2 copies" }
    };

    (void)state;
    for (size_t i = 0; i < CS_ARRAY_LEN(rows); i++) {
        char text[40];
        snprintf(text, sizeof text, "%lld rank%s", (long long)rows[i].n, CS_PLURAL(rows[i].n));
        assert_string_equal(text, rows[i].ranks);
        snprintf(text, sizeof text, "%lld %s", (long long)rows[i].n,
                 CS_NOUN(rows[i].n, "copy", "copies"));
        assert_string_equal(text, rows[i].copies);
    }
}

static void wall_time_prints_as_iso(void **state)
{
    (void)state;
    char text[CS_ISO_CAP];
    cs_iso_print(text, sizeof(text), 0);
    assert_string_equal(text, "1970-01-01T00:00:00.000Z");
    cs_iso_print(text, sizeof(text), INT64_C(951782400123999999));
    assert_string_equal(text, "2000-02-29T00:00:00.123Z");
    cs_iso_print(text, sizeof(text), -1);
    assert_string_equal(text, "1969-12-31T23:59:59.999Z");
    int64_t before = cs_now_ns(), cpu = cs_thread_cpu_ns();
    assert_true(cs_now_ns() >= before);
    assert_true(cs_thread_cpu_ns() >= cpu);
    assert_true(cs_wall_ns() > INT64_C(1700000000000000000));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_have_three_digits),
        cmocka_unit_test(counts_have_three_digits),
        cmocka_unit_test(durations_read_like_a_clock),
        cmocka_unit_test(rates_carry_their_unit),
        cmocka_unit_test(printing_what_was_parsed_gives_the_same_text),
        cmocka_unit_test(parsing_takes_what_people_write),
        cmocka_unit_test(parsing_refuses_garbage),
        cmocka_unit_test(counts_have_their_word),
        cmocka_unit_test(wall_time_prints_as_iso),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
