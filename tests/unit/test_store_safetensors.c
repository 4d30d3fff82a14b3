/* safetensors: what is written is read back; what lies is refused with the reason. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/hash.h"
#include "store/safetensors.h"
#include "support/tmpdir.h"

static int make_dir(void **state)
{
    *state = tmpdir_new();
    return 0;
}

static int drop_dir(void **state)
{
    tmpdir_free(*state);
    return 0;
}

/* a file with this header text (padded by nothing) and n_data bytes of data */
static const char *forge(const char *dir, const char *header, size_t n_data)
{
    const char *path = tmpdir_path(dir, "forged.safetensors");
    size_t n = strlen(header);
    unsigned char *bytes = calloc(1, 8 + n + n_data + 1);
    assert_non_null(bytes);
    for (int i = 0; i < 8; i++)
        bytes[i] = (unsigned char)((uint64_t)n >> (8 * i));
    memcpy(bytes + 8, header, n);
    tmpdir_write(path, bytes, 8 + n + n_data);
    free(bytes);
    return path;
}

static void refuses(const char *dir, const char *header, size_t n_data, enum cs_status status,
                    const char *text)
{
    struct cs_err err = {0};
    struct cs_st_file *file = NULL;
    const char *path = forge(dir, header, n_data);
    enum cs_status got = cs_st_open(path, &file, &err);
    if (got != status || !strstr(err.text, text) || !strstr(err.text, path))
        fail_msg("header %s: got %s \"%s\", want %s \"%s\"", header, cs_status_slug(got), err.text,
                 cs_status_slug(status), text);
    assert_null(file);
}

static void all_dtypes_round_trip(void **state)
{
    unsigned char raw[CS_DTYPES][6 * 8];
    struct cs_st_out out[CS_DTYPES + 2];
    struct cs_st_file *file = NULL;
    char hash[33], want[33];
    uint64_t bytes = 0;
    size_t size = 0;
    const char *path = tmpdir_path(*state, "all.safetensors");
    static const char *const names[] = {"f32", "f16", "bf16", "f64", "i64",
                                        "i32", "i16", "i8",   "u8",  "z\xc3\xa4 \"q\""};
    for (int i = 0; i < (int)CS_DTYPES; i++) {
        for (size_t b = 0; b < sizeof(raw[i]); b++)
            raw[i][b] = (unsigned char)(17 * i + (int)b);
        out[i] = (struct cs_st_out){
            .name = names[i],
            .dtype = (enum cs_dtype)i,
            .n_dims = 2,
            .dim = {2, 3},
            .data = raw[i]
        };
    }
    out[CS_DTYPES] = (struct cs_st_out){
        .name = "empty", .dtype = CS_F32, .n_dims = 2, .dim = {0, 4}
    };
    out[CS_DTYPES + 1] = (struct cs_st_out){.name = "scalar", .dtype = CS_I64, .data = raw[0]};
    assert_int_equal(cs_st_write(path, out, CS_DTYPES + 2, hash, &bytes, NULL), CS_OK);
    char *all = tmpdir_read(path, &size);
    assert_int_equal(size, bytes);
    cs_xxh3_128_hex(all, size, want);
    assert_string_equal(hash, want);
    assert_int_equal((unsigned char)all[0] % 8, 0);
    assert_non_null(strstr(all + 8, "\"__metadata__\":{\"format\":\"pt\"}"));
    free(all);
    assert_int_equal(tmpdir_count(*state), 1); /* no temporary file stays */
    assert_int_equal(cs_st_open(path, &file, NULL), CS_OK);
    assert_int_equal(cs_st_count(file), CS_DTYPES + 2);
    for (int i = 1; i < cs_st_count(file); i++)
        assert_true(strcmp(cs_st_at(file, i - 1)->name, cs_st_at(file, i)->name) < 0);
    for (int i = 0; i < (int)CS_DTYPES; i++) {
        const struct cs_st_tensor *t = cs_st_find(file, names[i]);
        unsigned char back[48];
        size_t n = 6 * cs_dtype_bytes((enum cs_dtype)i);
        assert_non_null(t);
        assert_int_equal(t->dtype, i);
        assert_int_equal(t->count, 6);
        assert_memory_equal(t->data, raw[i], n);
        assert_int_equal(cs_st_read_raw(t, 0, n, back, NULL), CS_OK);
        assert_memory_equal(back, raw[i], n);
    }
    assert_int_equal(cs_st_find(file, "empty")->count, 0);
    assert_int_equal(cs_st_find(file, "scalar")->n_dims, 0);
    assert_int_equal(cs_st_find(file, "scalar")->count, 1);
    assert_null(cs_st_find(file, "nothing"));
    cs_st_close(file);
}

static void order_is_element_size_then_name(void **state)
{
    float f[2] = {1, 2};
    const char *path = tmpdir_path(*state, "order.safetensors");
    struct cs_st_out out[] = {
        {.name = "a", .dtype = CS_BF16, .n_dims = 1, .dim = {2},                .data = f,    .is_f32 = 1},
        {.name = "c",           .dtype = CS_F32,                 .n_dims = 1,   .dim = {2}, .data = f},
        {.name = "b",           .dtype = CS_F32,                 .n_dims = 1,   .dim = {2}, .data = f},
    };
    size_t size = 0;
    assert_int_equal(cs_st_write(path, out, 3, NULL, NULL, NULL), CS_OK);
    char *all = tmpdir_read(path, &size);
    char *a = strstr(all + 8, "\"a\""), *b = strstr(all + 8, "\"b\""),
         *c = strstr(all + 8, "\"c\"");
    assert_true(a && b && c && b < c && c < a);
    free(all);
}

static void writer_refuses_nonsense(void **state)
{
    float f[2] = {1, 2};
    struct cs_err err = {0};
    const char *path = tmpdir_path(*state, "bad.safetensors");
    struct cs_st_out twice[] = {
        {.name = "a", .dtype = CS_BF16, .n_dims = 1, .dim = {2},                .data = f,    .is_f32 = 1},
        {.name = "a",           .dtype = CS_F32,                 .n_dims = 1,   .dim = {2}, .data = f},
    };
    struct cs_st_out as_int = {
        .name = "a", .dtype = CS_I32, .n_dims = 1, .dim = {2}, .data = f, .is_f32 = 1};
    struct cs_st_out no_values = {.name = "a", .dtype = CS_F32, .n_dims = 1, .dim = {2}};
    struct cs_st_out not_utf8 = {
        .name = "\xff", .dtype = CS_F32, .n_dims = 1, .dim = {2}, .data = f};
    assert_int_equal(cs_st_write(path, twice, 2, NULL, NULL, &err), CS_INVALID);
    assert_non_null(strstr(err.text, "given twice"));
    assert_int_equal(cs_st_write(path, &as_int, 1, NULL, NULL, &err), CS_INVALID);
    assert_int_equal(cs_st_write(path, &no_values, 1, NULL, NULL, &err), CS_INVALID);
    assert_int_equal(cs_st_write(path, &not_utf8, 1, NULL, NULL, &err), CS_INVALID);
    assert_int_equal(tmpdir_count(*state), 0);
}

static void lies_in_the_header_are_refused(void **state)
{
    const char *d = *state;
    refuses(d, "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 9, CS_CORRUPT,
            "promises 70 bytes, the file has 71");
    refuses(d, "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 7, CS_CORRUPT,
            "promises 70 bytes, the file has 69");
    refuses(d, "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[4,12]}}", 12, CS_CORRUPT,
            "hole");
    refuses(d,
            "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
            "\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[8,12]}}",
            12, CS_CORRUPT, "hole");
    refuses(d,
            "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},"
            "\"b\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[4,12]}}",
            12, CS_CORRUPT, "overlap");
    refuses(d,
            "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
            "\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}",
            4, CS_CORRUPT, "duplicate");
    refuses(d, "{\"a\":{\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":[0,8]}}", 8, CS_CORRUPT,
            "need 12 bytes, data_offsets hold 8");
    refuses(d, "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[8,0]}}", 8, CS_CORRUPT,
            "data_offsets");
    refuses(d, "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[-8,0]}}", 8, CS_CORRUPT,
            "data_offsets");
    refuses(d, "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0]}}", 8, CS_CORRUPT,
            "data_offsets");
    refuses(d, "{\"a\":{\"dtype\":\"F32\",\"shape\":[-2],\"data_offsets\":[0,8]}}", 8, CS_CORRUPT,
            "shape[0]");
    refuses(d, "{\"a\":{\"dtype\":\"F32\",\"shape\":[2.0],\"data_offsets\":[0,8]}}", 8, CS_CORRUPT,
            "shape[0]");
    refuses(d, "{\"a\":{\"dtype\":\"F32\",\"shape\":2,\"data_offsets\":[0,8]}}", 8, CS_CORRUPT,
            "not an array");
    refuses(d,
            "{\"a\":{\"dtype\":\"F32\",\"shape\":[4294967296,4294967296],"
            "\"data_offsets\":[0,0]}}",
            0, CS_CORRUPT, "overflows");
    refuses(d, "{\"a\":{\"dtype\":\"F32\",\"shape\":[9223372036854775808],\"data_offsets\":[0,0]}}",
            0, CS_CORRUPT, "too big");
    refuses(d, "{\"a\":{\"dtype\":\"F32\",\"shape\":[1,1,1,1,1,1,1,1,2],\"data_offsets\":[0,8]}}",
            8, CS_UNSUPPORTED, "9 dimensions");
    refuses(d, "{\"a\":{\"dtype\":\"F8_E4M3\",\"shape\":[2],\"data_offsets\":[0,2]}}", 2,
            CS_UNSUPPORTED, "F8_E4M3");
    refuses(d, "{\"a\":{\"dtype\":\"Q4\",\"shape\":[2],\"data_offsets\":[0,2]}}", 2, CS_CORRUPT,
            "unknown dtype");
    refuses(d, "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8],\"x\":1}}", 8,
            CS_CORRUPT, "nothing else");
    refuses(d, "{\"a\":7}", 0, CS_CORRUPT, "must have");
    refuses(d, "{\"\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 8, CS_CORRUPT,
            "name");
    refuses(d, "{\"\xff\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 8, CS_CORRUPT,
            "header of");
    refuses(d, "{\"a\\u0000b\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 8,
            CS_CORRUPT, "header of");
    refuses(d, "{\"__metadata__\":{\"a\":1}}", 0, CS_CORRUPT, "__metadata__");
    refuses(d, "{\"__metadata__\":\"x\"}", 0, CS_CORRUPT, "__metadata__");
    refuses(d, "{\"a\":[[[[[[]]]]]]}", 0, CS_CORRUPT, "nests deeper");
    refuses(d, " {}", 0, CS_CORRUPT, "begin with '{'");
    refuses(d, "[]", 0, CS_CORRUPT, "begin with '{'");
    refuses(d, "{} x", 0, CS_CORRUPT, "header of");
    refuses(d, "{", 0, CS_CORRUPT, "header of");
}

static void huge_tables_are_refused_before_they_are_built(void **state)
{
    size_t n = 9 * 1000 * 1000;
    char *header = malloc(2 * n + 100);
    struct cs_err err = {0};
    struct cs_st_file *file = NULL;
    unsigned char huge[16] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, '{', '}'};
    assert_non_null(header);
    size_t len = (size_t)sprintf(header, "{\"a\":{\"dtype\":\"F32\",\"shape\":[");
    for (size_t i = 0; i < n; i++, len += 2)
        memcpy(header + len, "1,", 2);
    strcpy(header + len, "1],\"data_offsets\":[0,4]}}");
    refuses(*state, header, 4, CS_LIMIT, "items");
    free(header);
    tmpdir_write(tmpdir_path(*state, "huge"), huge, sizeof(huge));
    assert_int_equal(cs_st_open(tmpdir_path(*state, "huge"), &file, &err), CS_CORRUPT);
    assert_non_null(strstr(err.text, "18446744073709551615"));
    assert_non_null(strstr(err.text, "has 16 bytes"));
}

static void odd_files_are_refused_by_name(void **state)
{
    struct cs_err err = {0};
    struct cs_st_file *file = NULL;
    const char *path = tmpdir_path(*state, "x");
    assert_int_equal(cs_st_open(path, &file, &err), CS_NOT_FOUND);
    assert_non_null(strstr(err.text, path));
    assert_int_equal(cs_st_open(*state, &file, &err), CS_INVALID);
    tmpdir_write(path, "version https://git-lfs.github.com/spec/v1\n", 43);
    assert_int_equal(cs_st_open(path, &file, &err), CS_CORRUPT);
    assert_non_null(strstr(err.text, "git lfs pull"));
    tmpdir_write(path, "\x02\0\0\0\0\0\0\0{}", 10);
    assert_int_equal(cs_st_open(path, &file, &err), CS_OK);
    assert_int_equal(cs_st_count(file), 0);
    cs_st_close(file);
}

static void file_cut_while_open_is_an_error_not_a_crash(void **state)
{
    static float f[40000];
    float back[8];
    struct cs_err err = {0};
    struct cs_st_file *file = NULL;
    const char *path = tmpdir_path(*state, "cut.safetensors");
    struct cs_st_out out = {.name = "a", .dtype = CS_F32, .n_dims = 1, .dim = {40000}, .data = f};
    assert_int_equal(cs_st_write(path, &out, 1, NULL, NULL, &err), CS_OK);
    assert_int_equal(cs_st_open(path, &file, &err), CS_OK);
    assert_int_equal(truncate(path, 5000), 0);
    const struct cs_st_tensor *t = cs_st_find(file, "a");
    assert_int_equal(cs_st_read_f32(t, 0, 8, back, &err), CS_OK);
    assert_int_equal(cs_st_read_f32(t, 39990, 8, back, &err), CS_CORRUPT);
    assert_non_null(strstr(err.text, path));
    assert_int_equal(cs_st_read_f32(t, 39999, 2, back, &err), CS_INVALID);
    assert_int_equal(cs_st_read_f32(t, -1, 2, back, &err), CS_INVALID);
    cs_st_close(file);
}

static float from_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, 4);
    return value;
}

static void bf16_rounds_to_nearest_even(void **state)
{
    static const struct {
        uint32_t f32;
        uint16_t bf16;
    } table[] = {
        {0x3f800000, 0x3f80}, /* 1 */
        {0x3f808000, 0x3f80}, /* tie, even below */
        {0x3f818000, 0x3f82}, /* tie, even above */
        {0x3f808001, 0x3f81},
        {0x3f807fff, 0x3f80},
        {0x3f80ffff, 0x3f81},
        {0xbf818000, 0xbf82},
        {0x7f7fffff, 0x7f80}, /* the largest float rounds to infinity */
        {0x7f800000, 0x7f80},
        {0xff800000, 0xff80},
        {0x00000000, 0x0000},
        {0x80000000, 0x8000},
        {0x00008000, 0x0000},
        {0x00008001, 0x0001},
        {0x00018000, 0x0002},
        {0x7fc00000, 0x7fc0}, /* NaN */
        {0x7f800001, 0x7fc0}, /* NaN whose payload would vanish */
        {0xffffffff, 0xffff},
        {0x7fbfffff, 0x7fff},
    };

    (void)state;
    for (size_t i = 0; i < CS_ARRAY_LEN(table); i++)
        assert_int_equal(cs_bf16_from_f32(from_bits(table[i].f32)), table[i].bf16);
    for (uint32_t bits = 0; bits <= 0xffff; bits++) {
        float wide = cs_f32_from_bf16((uint16_t)bits);
        if (isnan(wide))
            assert_true(isnan(cs_f32_from_bf16(cs_bf16_from_f32(wide))));
        else
            assert_int_equal(cs_bf16_from_f32(wide), bits);
    }
}

static void f16_converts_both_ways(void **state)
{
    static const struct {
        float f32;
        uint16_t f16;
    } table[] = {
        {1,            0x3c00},
        {-2,           0xc000},
        {65504,        0x7bff},
        {65519,        0x7bff},
        {65520,        0x7c00},
        {0x1p-24f,     0x0001},
        {0x1p-25f,     0x0000},
        {0x1.8p-25f,   0x0001},
        {0x1p-14f,     0x0400},
        {0x1.ff8p-15f, 0x03ff},
        {0x1.ffcp-15f, 0x0400},
        {0.1f,         0x2e66},
        {1 + 0x1p-11f, 0x3c00},
        {1 + 0x3p-11f, 0x3c02},
        {0x1.8p-24f,   0x0002},
        {-0.0f,        0x8000},
    };

    (void)state;
    for (size_t i = 0; i < CS_ARRAY_LEN(table); i++)
        assert_int_equal(cs_f16_from_f32(table[i].f32), table[i].f16);
    for (uint32_t bits = 0; bits <= 0xffff; bits++) {
        float wide = cs_f32_from_f16((uint16_t)bits);
        if (isnan(wide))
            assert_true(isnan(cs_f32_from_f16(cs_f16_from_f32(wide))));
        else
            assert_int_equal(cs_f16_from_f32(wide), bits);
    }
}

static void floats_are_read_as_fp32_from_any_start(void **state)
{
    static float f[5000], back[5000];

    static const enum cs_dtype dtypes[] = {CS_F32, CS_F16, CS_BF16, CS_F64};

    const char *path = tmpdir_path(*state, "r.safetensors");
    for (int i = 0; i < 5000; i++)
        f[i] = (float)(i % 97) * 0.5f - 8; /* exact in all four */
    for (size_t k = 0; k < CS_ARRAY_LEN(dtypes); k++) {
        struct cs_st_file *file = NULL;
        struct cs_st_out out = {
            .name = "a", .dtype = dtypes[k], .n_dims = 2, .dim = {50, 100},
                       .data = f, .is_f32 = 1
        };
        assert_int_equal(cs_st_write(path, &out, 1, NULL, NULL, NULL), CS_OK);
        assert_int_equal(cs_st_open(path, &file, NULL), CS_OK);
        assert_int_equal(cs_st_read_f32(cs_st_at(file, 0), 3, 4997, back, NULL), CS_OK);
        assert_memory_equal(back, f + 3, 4997 * sizeof(float));
        /* and copied on into another dtype */
        struct cs_st_out copy = {
            .name = "b", .dtype = CS_BF16, .n_dims = 1, .dim = {5000}, .from = cs_st_at(file, 0)};
        struct cs_st_file *second = NULL;
        const char *other = tmpdir_path(*state, "s.safetensors");
        assert_int_equal(cs_st_write(other, &copy, 1, NULL, NULL, NULL), CS_OK);
        assert_int_equal(cs_st_open(other, &second, NULL), CS_OK);
        assert_int_equal(cs_st_read_f32(cs_st_at(second, 0), 0, 5000, back, NULL), CS_OK);
        assert_memory_equal(back, f, sizeof(f));
        cs_st_close(second);
        cs_st_close(file);
    }
}

/* in a child: file size limit, write, report */
static int write_limited(const char *path, rlim_t limit, char *text, size_t text_bytes)
{
    int pipe_fd[2], status = 0;
    assert_int_equal(pipe(pipe_fd), 0);
    pid_t pid = fork();
    if (pid == 0) {
        static float f[100000];
        struct cs_err err = {0};
        struct rlimit size = {limit, limit};
        struct cs_st_out out = {
            .name = "a", .dtype = CS_F32, .n_dims = 1, .dim = {100000}, .data = f};
        signal(SIGXFSZ, SIG_IGN);
        setrlimit(RLIMIT_FSIZE, &size);
        enum cs_status st = cs_st_write(path, &out, 1, NULL, NULL, &err);
        _exit(write(pipe_fd[1], err.text, sizeof(err.text)) > 0 ? (int)st : 99);
    }
    close(pipe_fd[1]);
    ssize_t n = read(pipe_fd[0], text, text_bytes - 1);
    text[n > 0 ? n : 0] = '\0';
    close(pipe_fd[0]);
    waitpid(pid, &status, 0);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void full_disk_is_an_error_and_keeps_the_old_file(void **state)
{
    char text[1001];
    const char *path = tmpdir_path(*state, "full.safetensors");
    tmpdir_write(path, "old", 3);
    assert_int_equal(write_limited(path, 10000, text, sizeof(text)), CS_NO_SPACE);
    assert_non_null(strstr(text, path));
    assert_non_null(strstr(text, "bytes needed"));
    assert_non_null(strstr(text, "(400")); /* 400000 bytes and the header */
    size_t size = 0;
    char *old = tmpdir_read(path, &size);
    assert_string_equal(old, "old");
    free(old);
    assert_int_equal(tmpdir_count(*state), 1);
}

static void golden_files_open_and_hold_sane_values(void **state)
{
    static const char *const families[] = {"siglip", "llama", "qwen2", "llama3-tied",
                                           "llava-siglip-qwen2"};
    int n_opened = 0;
    (void)state;
    for (size_t i = 0; i < CS_ARRAY_LEN(families); i++) {
        char name[200];
        struct cs_err err = {0};
        struct cs_st_file *file = NULL;
        snprintf(name, sizeof(name), "tests/golden/models/%s/model.safetensors", families[i]);
        enum cs_status st = cs_st_open(source_path(name), &file, &err);
        if (st != CS_OK)
            fail_msg("%s", err.text);
        n_opened++;
        for (int t = 0; t < cs_st_count(file); t++) {
            const struct cs_st_tensor *tensor = cs_st_at(file, t);
            float first = NAN;
            assert_int_equal(cs_st_read_f32(tensor, 0, 1, &first, &err), CS_OK);
            assert_true(fabsf(first) < 100);
        }
        cs_st_close(file);
    }
    assert_int_equal(n_opened, 5);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, make_dir, drop_dir)

/* larger than a block of writing, and than many ranges of reading */
static void large_tensors_are_written_and_read_in_parts(void **state)
{
    enum { N = 5000003 };

    const char *path = tmpdir_path(*state, "large.safetensors");
    float *values = malloc(N * sizeof *values), *back = malloc(N * sizeof *back);
    struct cs_st_file *file = NULL;
    struct cs_err err = {0};
    char hash[33], want[33];
    uint64_t bytes = 0;
    size_t size = 0;
    assert_non_null(values);
    assert_non_null(back);
    for (int i = 0; i < N; i++)
        values[i] = (float)(i % 251) - 125; /* bf16 has them too */
    for (int pass = 0; pass < 3; pass++) {
        struct cs_st_out out = {.name = "w",
                                .dtype = pass == 0 ? CS_F32 : CS_BF16,
                                .n_dims = 1,
                                .dim = {N},
                                .data = values,
                                .is_f32 = 1};
        for (int i = 2999999; pass == 2 && i < N;
             i += 100000) /* of all of them the first is told */
            values[i] = NAN;
        assert_int_equal(cs_st_write(path, &out, 1, hash, &bytes, NULL), CS_OK);
        char *all = tmpdir_read(path, &size);
        assert_int_equal(size, bytes);
        cs_xxh3_128_hex(all, size, want);
        assert_string_equal(hash, want);
        free(all);
        assert_int_equal(cs_st_open(path, &file, &err), CS_OK);
        memset(back, 0, N * sizeof *back);
        const enum cs_status status =
            cs_st_read_all_finite(cs_st_at(file, 0), 3, back, pass == 2 ? &err : NULL);
        if (pass < 2) {
            assert_int_equal(status, CS_OK);
            assert_memory_equal(back, values, N * sizeof *back);
        } else {
            assert_int_equal(status, CS_CORRUPT);
            assert_non_null(strstr(err.text, "element [2999999] is NaN"));
        }
        cs_st_close(file);
    }
    free(values);
    free(back);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(all_dtypes_round_trip),
        TEST(order_is_element_size_then_name),
        TEST(writer_refuses_nonsense),
        TEST(lies_in_the_header_are_refused),
        TEST(huge_tables_are_refused_before_they_are_built),
        TEST(odd_files_are_refused_by_name),
        TEST(file_cut_while_open_is_an_error_not_a_crash),
        TEST(bf16_rounds_to_nearest_even),
        TEST(f16_converts_both_ways),
        TEST(floats_are_read_as_fp32_from_any_start),
        TEST(full_disk_is_an_error_and_keeps_the_old_file),
        TEST(golden_files_open_and_hold_sane_values),
        TEST(large_tensors_are_written_and_read_in_parts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
