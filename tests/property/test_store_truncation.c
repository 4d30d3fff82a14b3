/* Any file cut anywhere is refused with both sizes; any flipped byte is refused or read, never a
 * crash. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/safetensors.h"
#include "support/tmpdir.h"

struct sample {
    char *dir, *bytes;
    size_t size, header;
};

static int make_sample(void **state)
{
    struct sample *s = calloc(1, sizeof(*s));
    float f[300];
    struct cs_st_out out[] = {
        {.name = "model.a.weight", .dtype = CS_F32, .n_dims = 2,    .dim = {10, 20},                     .data = f },
        {.name = "model.b.bias",
         .dtype = CS_BF16,
         .n_dims = 1,
         .dim = {300},
         .data = f,
         .is_f32 = 1},
        {.name = "empty",                        .dtype = CS_F32,                         .n_dims = 1, .dim = {0}},
        {.name = "ids",            .dtype = CS_U8,  .n_dims = 1,    .dim = {7},                          .data = f},
    };
    if (!s)
        return -1;
    for (int i = 0; i < 300; i++)
        f[i] = (float)i;
    s->dir = tmpdir_new();
    const char *path = tmpdir_path(s->dir, "whole");
    if (cs_st_write(path, out, 4, NULL, NULL, NULL) != CS_OK)
        return -1;
    s->bytes = tmpdir_read(path, &s->size);
    s->header = 8 + (size_t)(unsigned char)s->bytes[0] + 256 * (size_t)(unsigned char)s->bytes[1];
    *state = s;
    return 0;
}

static int drop_sample(void **state)
{
    struct sample *s = *state;
    tmpdir_free(s->dir);
    free(s->bytes);
    free(s);
    return 0;
}

static void cut_at(const struct sample *s, size_t size)
{
    char have[40];
    struct cs_err err = {0};
    struct cs_st_file *file = NULL;
    const char *path = tmpdir_path(s->dir, "cut");
    tmpdir_write(path, s->bytes, size);
    snprintf(have, sizeof(have), " has %zu", size);
    enum cs_status st = cs_st_open(path, &file, &err);
    if (st != CS_CORRUPT || !strstr(err.text, path) || !strstr(err.text, have))
        fail_msg("cut at %zu of %zu: %s \"%s\"", size, s->size, cs_status_slug(st), err.text);
    assert_null(file);
}

static void every_cut_is_refused_with_both_sizes(void **state)
{
    const struct sample *s = *state;
    for (size_t size = 0; size < s->size; size++)
        cut_at(s, size);
}

static void appended_bytes_are_refused(void **state)
{
    const struct sample *s = *state;
    struct cs_err err = {0};
    struct cs_st_file *file = NULL;
    char *more = calloc(1, s->size + 1);
    assert_non_null(more);
    memcpy(more, s->bytes, s->size);
    tmpdir_write(tmpdir_path(s->dir, "more"), more, s->size + 1);
    assert_int_equal(cs_st_open(tmpdir_path(s->dir, "more"), &file, &err), CS_CORRUPT);
    free(more);
}

static void flipped_header_bits_never_escape_the_file(void **state)
{
    const struct sample *s = *state;
    const char *path = tmpdir_path(s->dir, "flip");
    int n_refused = 0, n_read = 0;
    for (size_t at = 0; at < s->header; at++)
        for (int bit = 0; bit < 8; bit += 3) {
            struct cs_st_file *file = NULL;
            s->bytes[at] = (char)(s->bytes[at] ^ (1 << bit));
            tmpdir_write(path, s->bytes, s->size);
            s->bytes[at] = (char)(s->bytes[at] ^ (1 << bit));
            if (cs_st_open(path, &file, NULL) != CS_OK) {
                n_refused++;
                continue;
            }
            n_read++;
            for (int i = 0; i < cs_st_count(file); i++) {
                const struct cs_st_tensor *t = cs_st_at(file, i);
                uint64_t bytes = (uint64_t)t->count * cs_dtype_bytes(t->dtype);
                assert_true(t->offset + bytes <= s->size);
                float value;
                if (t->dtype <= CS_F64 && t->count > 0)
                    assert_int_equal(cs_st_read_f32(t, t->count - 1, 1, &value, NULL), CS_OK);
            }
            cs_st_close(file);
        }
    assert_true(n_refused > n_read); /* structure is denser than names */
    assert_true(n_read > 0);         /* a flip within a name is legal */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_cut_is_refused_with_both_sizes),
        cmocka_unit_test(appended_bytes_are_refused),
        cmocka_unit_test(flipped_header_bits_never_escape_the_file),
    };
    return cmocka_run_group_tests(tests, make_sample, drop_sample);
}
