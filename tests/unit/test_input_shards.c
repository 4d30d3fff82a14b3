/* Parquet files and tar archives: the rows and samples that the programs which wrote them see, in any order;
 * folders and patterns of files; what is not read is refused by name, what is broken is an error. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "input/data/dataset.h"
#include "input/data/media_file.h"
#include "input/data/parquet/parquet.h"
#include "input/data/record/base64.h"
#include "support/keys.h"
#include "support/tmpdir.h"

static json_t *golden;
static char *dir;

static unsigned char *decode(const json_t *text, size_t *n)
{
    size_t len = json_string_length(text);
    unsigned char *bytes = malloc(cs_base64_room(len));

    assert_true(cs_base64_decode(json_string_value(text), len, bytes, n));
    return bytes;
}

static const char *put(const json_t *one, const char *name)
{
    const char *path = tmpdir_path(dir, name);
    size_t n = 0;
    unsigned char *bytes = decode(json_object_get(one, "file"), &n);

    tmpdir_write(path, bytes, n);
    free(bytes);
    return path;
}

/* --- Parquet ---------------------------------------------------------------------------------- */

static bool is_hex(const struct cs_pq_blob *bytes, const char *hex)
{
    char two[3];

    if (strlen(hex) != 2 * bytes->n)
        return false;
    for (size_t i = 0; i < bytes->n; i++) {
        snprintf(two, sizeof two, "%02x", ((const unsigned char *)bytes->data)[i]);
        if (memcmp(two, hex + 2 * i, 2) != 0)
            return false;
    }
    return true;
}

static bool is_same(const json_t *got, const json_t *want, const struct cs_pq_bytes *bytes)
{
    const char *hex = json_string_value(json_object_get(want, "hex")), *key = NULL;
    json_t *value = NULL;
    size_t i = 0;
    bool is = true;

    if (hex != NULL) {
        const json_t *number = json_is_object(got) ? json_object_get(got, "bytes") : got;
        json_int_t at = json_is_integer(number) ? json_integer_value(number) : -1;
        return at >= 0 && at < bytes->n && is_hex(&bytes->items[at], hex);
    }
    if (json_is_object(want)) {
        json_object_foreach((json_t *)(uintptr_t)want, key, value) is &=
            is_same(json_object_get(got, key), value, bytes);
        return is && json_object_size(got) == json_object_size(want);
    }
    if (json_is_array(want)) {
        json_array_foreach(want, i, value) is &= is_same(json_array_get(got, i), value, bytes);
        return is && json_array_size(got) == json_array_size(want);
    }
    return json_equal(got, want) != 0;
}

static void expect_row(struct cs_parquet *file, const char *name, size_t i)
{
    const json_t *want = json_array_get(json_object_get(golden, "rows"), i);
    struct cs_pq_bytes bytes = {0};
    struct cs_err err = {0};
    json_t *got = NULL;

    if (cs_parquet_row(file, i, &got, &bytes, &err) != CS_OK)
        fail_msg("%s, row %zu: %s", name, i, err.text);
    if (!is_same(got, want, &bytes)) {
        char *a = json_dumps(got, 0), *b = json_dumps(want, 0);
        fail_msg("%s, row %zu:\n%s\nwanted:\n%s", name, i, a, b);
    }
    json_decref(got);
    cs_pq_bytes_free(&bytes);
}

/* forwards, backwards and across, with each way of writing them */
static void rows_are_those_that_pyarrow_wrote(void **state)
{
    const json_t *one = NULL;
    size_t k = 0, n = json_array_size(json_object_get(golden, "rows"));

    (void)state;
    assert_true(n == 40);
    json_array_foreach(json_object_get(golden, "parquet"), k, one)
    {
        const char *name = json_string_value(json_object_get(one, "name"));
        const char *path = put(one, "x.parquet");
        struct cs_parquet *file = NULL;
        struct cs_err err = {0};
        int fd = open(path, O_RDONLY);
        if (cs_parquet_open(fd, path, &file, &err) != CS_OK)
            fail_msg("%s: %s", name, err.text);
        assert_int_equal(cs_parquet_count(file), n);
        for (size_t i = 0; i < n; i++)
            expect_row(file, name, i);
        for (size_t i = n; i-- > 0;)
            expect_row(file, name, i * 17 % n);
        cs_parquet_close(file);
        close(fd);
    }
    assert_true(k >= 6);
}

static void what_is_not_read_is_refused_by_name(void **state)
{
    const json_t *one = NULL;
    size_t k = 0;

    (void)state;
    json_array_foreach(json_object_get(golden, "refused"), k, one)
    {
        const char *why = json_string_value(json_object_get(one, "why"));
        const char *path = put(one, "x.parquet");
        struct cs_pq_bytes bytes = {0};
        struct cs_parquet *file = NULL;
        struct cs_err err = {0};
        json_t *row = NULL;
        int fd = open(path, O_RDONLY);
        assert_int_equal(cs_parquet_open(fd, path, &file, &err), CS_OK);
        assert_int_equal(cs_parquet_row(file, 0, &row, &bytes, &err), CS_UNSUPPORTED);
        if (strstr(err.text, why) == NULL)
            fail_msg("\"%s\", want \"%s\"", err.text, why);
        cs_pq_bytes_free(&bytes);
        cs_parquet_close(file);
        close(fd);
    }
    assert_true(k >= 3);
}

/* every byte changed, every length cut: an error or other rows, never more */
static void broken_files_are_errors(void **state)
{
    const json_t *one = json_array_get(json_object_get(golden, "parquet"), 2);
    size_t n = 0;
    unsigned char *bytes = decode(json_object_get(one, "file"), &n);
    const char *path = tmpdir_path(dir, "x.parquet");
    uint64_t seed = 88172645463325252u;

    (void)state;
    for (int round = 0; round < 600; round++) {
        struct cs_parquet *file = NULL;
        size_t len = n, at = 0;
        unsigned char was = 0;
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        at = round % 3 == 0 ? n - 1 - seed % 3000 : seed % n; /* the footer oftener */
        was = bytes[at];
        bytes[at] = (unsigned char)(seed >> 40);
        len = round % 7 == 0 ? at : n;
        tmpdir_write(path, bytes, len);
        bytes[at] = was;
        int fd = open(path, O_RDONLY);
        if (cs_parquet_open(fd, path, &file, NULL) == CS_OK)
            for (uint64_t i = 0; i < cs_parquet_count(file) && i < 40; i++) {
                struct cs_pq_bytes held = {0};
                json_t *row = NULL;
                if (cs_parquet_row(file, i, &row, &held, NULL) == CS_OK)
                    assert_non_null(row);
                json_decref(row);
                cs_pq_bytes_free(&held);
            }
        cs_parquet_close(file);
        close(fd);
    }
    free(bytes);
}

/* --- data sets of files ----------------------------------------------------------------------- */

static struct cs_arena *arena;

static const struct cs_record_keys *keys(void)
{
    static const char *const tokens[] = {"<image>"};

    return test_keys(tokens, 1, arena);
}

static struct cs_dataset *open_set(const char *path)
{
    struct cs_dataset *set = NULL;
    struct cs_err err = {0};

    if (cs_dataset_open(path, &(struct cs_dataset_options){.root = ""}, keys(), &set, &err) !=
        CS_OK)
        fail_msg("%s", err.text);
    return set;
}

static void expect_sample(const struct cs_dataset *set, uint64_t i, const json_t *want)
{
    const json_t *media = json_object_get(want, "media"), *one = NULL;
    struct cs_record *record = NULL;
    struct cs_err err = {0};
    size_t k = 0;

    if (cs_dataset_read(set, i, NULL, &record, &err) != CS_OK)
        fail_msg("sample %llu: %s", (unsigned long long)i, err.text);
    assert_string_equal(record->id, json_string_value(json_object_get(want, "id")));
    assert_int_equal(record->n_turns, 2);
    assert_string_equal(record->turns[0].n_parts > 0 ? record->turns[0].parts[0].text : "",
                        json_string_value(json_object_get(want, "question")));
    assert_string_equal(record->turns[1].parts[0].text,
                        json_string_value(json_object_get(want, "answer")));
    assert_int_equal(record->n_files[0], json_array_size(media));
    json_array_foreach(media, k, one)
    {
        struct cs_media_bytes got = {0};
        size_t n = 0;
        unsigned char *bytes = decode(one, &n);
        assert_int_equal(cs_media_bytes_read(set, &record->files[0][k], &got, &err), CS_OK);
        assert_int_equal(got.n, n);
        assert_memory_equal(got.data, bytes, n);
        cs_media_bytes_free(&got);
        free(bytes);
    }
    cs_record_free(record);
}

static void samples_of_archives_are_their_files(void **state)
{
    const json_t *samples = json_object_get(golden, "samples"), *one = NULL;
    size_t k = 0;

    (void)state;
    json_array_foreach(json_object_get(golden, "tar"), k, one)
    {
        struct cs_dataset *set = open_set(put(one, "x.tar"));
        assert_int_equal(cs_dataset_count(set), json_array_size(samples));
        for (size_t i = json_array_size(samples); i-- > 0;)
            expect_sample(set, i, json_array_get(samples, i));
        cs_dataset_close(set);
    }
    assert_int_equal(k, 3);
}

/* names in the order of the alphabet; a set that is opened in part has the same first samples */
static void folders_and_patterns_are_one_set(void **state)
{
    const json_t *samples = json_object_get(golden, "samples");
    const json_t *tar = json_array_get(json_object_get(golden, "tar"), 0);
    char *folder = tmpdir_new();
    const struct cs_dataset_options few = {.root = "", .max_items = 5};
    struct cs_dataset_id a, b;
    struct cs_dataset *set = NULL;
    char pattern[4096];
    size_t n = 0;
    unsigned char *bytes = decode(json_object_get(tar, "file"), &n);

    (void)state;
    tmpdir_write(tmpdir_path(folder, "b-1.tar"), bytes, n);
    tmpdir_write(tmpdir_path(folder, "b-0.tar"), bytes, n);
    tmpdir_write(tmpdir_path(folder, "notes.txt"), "x", 1);
    snprintf(pattern, sizeof pattern, "%s/b-*.tar", folder);
    for (int i = 0; i < 2; i++) {
        set = open_set(i == 0 ? folder : pattern);
        assert_int_equal(cs_dataset_count(set), 8);
        for (uint64_t s = 0; s < 8; s++)
            expect_sample(set, s, json_array_get(samples, s % 4));
        cs_dataset_close(set);
    }
    assert_int_equal(cs_dataset_identify(folder, &a, NULL), CS_OK);
    assert_int_equal(cs_dataset_identify(pattern, &b, NULL), CS_OK);
    assert_string_equal(a.xxh3, b.xxh3);
    assert_int_equal(a.bytes, 2 * n);
    assert_int_equal(a.samples, 8);
    assert_int_equal(cs_dataset_open(pattern, &few, keys(), &set, NULL), CS_OK);
    assert_int_equal(cs_dataset_count(set), 5);
    expect_sample(set, 4, json_array_get(samples, 0));
    cs_dataset_close(set);
    snprintf(pattern, sizeof pattern, "%s/c-*.tar", folder);
    assert_int_equal(cs_dataset_open(pattern, &few, keys(), &set, NULL), CS_NOT_FOUND);
    free(bytes);
    tmpdir_free(folder);
}

static void broken_archives_are_errors(void **state)
{
    const json_t *one = json_array_get(json_object_get(golden, "tar"), 2);
    size_t n = 0;
    unsigned char *bytes = decode(json_object_get(one, "file"), &n);
    const struct cs_dataset_options options = {.root = ""};
    const char *path = tmpdir_path(dir, "x.tar");
    struct cs_dataset *set = NULL;
    struct cs_err err = {0};

    (void)state;
    tmpdir_write(path, bytes, 3 * 512 + 4); /* cut inside of a member */
    assert_int_equal(cs_dataset_open(path, &options, keys(), &set, &err), CS_CORRUPT);
    assert_non_null(strstr(err.text, "cut off"));
    bytes[600]++; /* the first header's sum is wrong: no tar any more */
    bytes[100]++;
    tmpdir_write(path, bytes, n);
    assert_int_not_equal(cs_dataset_open(path, &options, keys(), &set, &err), CS_OK);
    free(bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_those_that_pyarrow_wrote),
        cmocka_unit_test(what_is_not_read_is_refused_by_name),
        cmocka_unit_test(broken_files_are_errors),
        cmocka_unit_test(samples_of_archives_are_their_files),
        cmocka_unit_test(folders_and_patterns_are_one_set),
        cmocka_unit_test(broken_archives_are_errors),
    };
    int failed = 0;

    golden = json_load_file(source_path("tests/golden/shards.json"), 0, NULL);
    if (golden == NULL)
        return 1;
    dir = tmpdir_new();
    arena = cs_arena_new(0);
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    cs_arena_free(arena);
    tmpdir_free(dir);
    json_decref(golden);
    return failed;
}
