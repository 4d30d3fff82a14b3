/* Data sets: array and lines, access by index, broken files and items, paths that leave the root,
 * check. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "input/data/dataset.h"
#include "support/keys.h"
#include "support/tmpdir.h"

static const char *const tokens[] = {"<image>"};
static const struct cs_record_keys *keys; /* of these */

#define ITEM(id)                                                                                   \
    "{\"id\":\"" id "\",\"conversations\":[{\"from\":\"human\",\"value\":\"q ] , } \\\" [\"}]}"

static enum cs_status open_text(const char *dir, const char *text, struct cs_dataset **set,
                                struct cs_err *err)
{
    const char *path = tmpdir_path(dir, "data.json");

    tmpdir_write(path, text, strlen(text));
    return cs_dataset_open(path, &(struct cs_dataset_options){.root = ""}, keys, set, err);
}

static void expect_ids(const char *text, const char *ids)
{
    char *dir = tmpdir_new();
    struct cs_dataset *set = NULL;
    struct cs_err err = {0};
    struct cs_buf got = {0};

    if (open_text(dir, text, &set, &err) != CS_OK)
        fail_msg("%s", err.text);
    for (uint64_t i = cs_dataset_count(set); i-- > 0;) { /* any order */
        struct cs_record *record = NULL;
        bool is_good = cs_dataset_read(set, i, NULL, &record, &err) == CS_OK;
        cs_buf_addf(&got, "%s ", is_good ? record->id : "bad");
        cs_record_free(record);
    }
    assert_string_equal(cs_buf_str(&got), ids);
    cs_buf_free(&got);
    cs_dataset_close(set);
    tmpdir_free(dir);
}

static void arrays_and_lines_are_read(void **state)
{
    (void)state;
    expect_ids("[" ITEM("a") "," ITEM("b") " ,\n " ITEM("c") "\n]\n", "c b a ");
    expect_ids("\xef\xbb\xbf [ " ITEM("a") "]", "a ");
    expect_ids(ITEM("a") "\n\n" ITEM("b") "\r\n" ITEM("c"), "c b a ");
    expect_ids("[" ITEM("a") ", 7, \"x,]\", [1,[2]], " ITEM("b") "]", "b bad bad bad a ");
    expect_ids(ITEM("a") "\n{broken\n" ITEM("b") "\n", "b bad a ");
}

static void broken_files_say_where(void **state)
{
    static const struct {
        const char *text;
        enum cs_status status;
        const char *what;
    } rows[] = {
        {"[" ITEM("a") "," ITEM("b"), CS_CORRUPT, "inside item 1"                      },
        {"[" ITEM("a") "] x",         CS_CORRUPT, "after the end"                      },
        {"[]",                        CS_INVALID, "no samples"                         },
        {"",                          CS_INVALID, "no samples"                         },
        {"hello",                     CS_INVALID, "neither a JSON array nor JSON lines"},
    };

    char *dir = tmpdir_new();

    (void)state;
    for (size_t i = 0; i < CS_ARRAY_LEN(rows); i++) {
        struct cs_dataset *set = NULL;
        struct cs_err err = {0};
        assert_int_equal(open_text(dir, rows[i].text, &set, &err), rows[i].status);
        if (strstr(err.text, rows[i].what) == NULL || strstr(err.text, "data.json") == NULL)
            fail_msg("%s", err.text);
    }
    assert_int_equal(cs_dataset_identify("/nowhere/x.json", &(struct cs_dataset_id){0}, NULL),
                     CS_NOT_FOUND);
    tmpdir_free(dir);
}

/* Files that are JSON, or were, and no list of samples: one error that says what they are. */
static void files_of_another_shape_are_one_error(void **state)
{
#define BYTES(text) text, sizeof(text) - 1

    static const struct {
        const char *text;
        size_t n;
        const char *what;
    } rows[] = {
        {BYTES("{\"data\": [" ITEM("a") "," ITEM("b") "]}"),         "list \"data\" of 2"           },
        {BYTES("{\"data\": [\n" ITEM("a") ",\n" ITEM("b") "\n]}\n"), "list \"data\" of 2"           },
        {BYTES("{\"data\": [\n" ITEM("a") "\n]}\n"),                 "list \"data\" of 1"           },
        {BYTES("{\n \"id\": \"a\",\n \"conversations\": []\n}\n"),   "one JSON object of several"   },
        {BYTES("{\n \"id\": \"a\"\n}\n{\n \"id\": \"b\"\n}\n"),      "objects of several lines each"},
        {BYTES("[" ITEM("a") "]\n[" ITEM("b") "]\n"),                "hold an object a line"        },
        {BYTES("[[" ITEM("a") "],[" ITEM("b") "]]"),                 "its items are lists"          },
        {BYTES("[{\"from\":\"human\",\"value\":\"q\"},"
               "{\"from\":\"gpt\",\"value\":\"a\"}]"),
         "turns of one conversation"                                                                },
        {BYTES("{\"role\":\"user\",\"content\":\"q\"}\n"),           "turns of one conversation"    },
        {BYTES("\xff\xfe[\0{\0"),                                    "UTF-16"                       },
        {BYTES("\xfe\xff\0["),                                       "UTF-16"                       },
        {BYTES("[\0{\0"),                                            "UTF-16"                       },
        {BYTES("\x1f\x8b\x08"),                                      "gzip"                         },
        {BYTES("\xff\xff\xff\xff\x10\0\0\0"),                        "load_from_disk"               },
        {BYTES("SQLite format 3\0"),                                 "SQLite"                       },
        {BYTES("PAR1xxxx"),                                          "Parquet"                      },
        {BYTES("[{\"a\":\"\xa8\x5c\"}]"),                            "not UTF-8 at byte 7"          },
    };

#undef BYTES
    char *dir = tmpdir_new();
    const char *path = tmpdir_path(dir, "data.json");

    (void)state;
    for (size_t i = 0; i < CS_ARRAY_LEN(rows); i++) {
        struct cs_dataset_id id;
        struct cs_err err = {0};
        tmpdir_write(path, rows[i].text, rows[i].n);
        if (cs_dataset_identify(path, &id, &err) == CS_OK)
            fail_msg("row %zu is a data set", i);
        if (strstr(err.text, rows[i].what) == NULL || strstr(err.text, "data.json") == NULL)
            fail_msg("row %zu: %s", i, err.text);
    }
    /* a first line that is broken is one bad sample */
    expect_ids("{\"id\": \"x\", \"conversations\": [\n" ITEM("b") "\n", "b bad ");
    expect_ids("{\"id\": \"x\n" ITEM("b") "\n", "b bad ");
    tmpdir_free(dir);
}

static void a_changed_file_has_another_identity(void **state)
{
    static const char *const texts[] = {"[" ITEM("a") "," ITEM("b") "]", "[" ITEM("a") "]",
                                        "[" ITEM("a") "," ITEM("c") "]"};
    struct cs_dataset_id id[3], again;
    char *dir = tmpdir_new();
    const char *path = tmpdir_path(dir, "data.json");

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        tmpdir_write(path, texts[i], strlen(texts[i]));
        assert_int_equal(cs_dataset_identify(path, &id[i], NULL), CS_OK);
        assert_int_equal(cs_dataset_identify(path, &again, NULL), CS_OK);
        assert_string_equal(id[i].xxh3, again.xxh3);
        for (size_t k = 0; k < i; k++)
            assert_string_not_equal(id[i].xxh3, id[k].xxh3);
    }
    assert_int_equal(id[0].samples, 2);
    assert_int_equal(id[1].samples, 1);
    tmpdir_free(dir);
}

/* more than one block, items across block borders */
static void large_files_are_indexed_in_blocks(void **state)
{
    enum { N = 20000 };
    struct cs_buf text = {0};
    char *dir = tmpdir_new();
    struct cs_dataset *set = NULL;
    struct cs_err err = {0};

    (void)state;
    cs_buf_addc(&text, '[');
    for (int i = 0; i < N; i++)
        cs_buf_addf(&text,
                    "%s{\"id\":%d,\"conversations\":[{\"from\":\"human\",\"value\":\"%0*d\"}]}",
                    i == 0 ? "" : ",", i, 1 + i % 97, i);
    cs_buf_addc(&text, ']');
    assert_int_equal(open_text(dir, text.data, &set, &err), CS_OK);
    assert_int_equal(cs_dataset_count(set), N);
    for (int i = 0; i < N; i += 7) {
        struct cs_record *record = NULL;
        assert_int_equal(cs_dataset_read(set, (uint64_t)i, NULL, &record, &err), CS_OK);
        assert_int_equal(atoi(record->id), i);
        assert_int_equal(record->index, i);
        cs_record_free(record);
    }
    cs_dataset_close(set);
    cs_buf_free(&text);
    tmpdir_free(dir);
}

static void paths_stay_below_the_root(void **state)
{
    char *dir = tmpdir_new(), *outside = tmpdir_new();
    struct cs_dataset *set = NULL;
    struct cs_err err = {0};
    char path[CS_PATH_CAP];

    static const struct {
        const char *file;
        enum cs_status status;
    } rows[] = {
        {"in.png",      CS_OK       },
        {"./in.png",    CS_OK       },
        {"missing.png", CS_NOT_FOUND},
        {"../in.png",   CS_REFUSED  },
        {"a/../in.png", CS_REFUSED  },
        {"/etc/passwd", CS_REFUSED  },
        {"link.png",    CS_REFUSED  },
        {"..",          CS_REFUSED  },
        {"inner.png",   CS_OK       },
        {"..a.png",     CS_NOT_FOUND},
    };

    (void)state;
    tmpdir_write(tmpdir_path(dir, "in.png"), "x", 1);
    tmpdir_write(tmpdir_path(outside, "out.png"), "x", 1);
    assert_int_equal(symlink(tmpdir_path(outside, "out.png"), tmpdir_path(dir, "link.png")), 0);
    assert_int_equal(symlink("in.png", tmpdir_path(dir, "inner.png")), 0);
    assert_int_equal(open_text(dir, "[" ITEM("a") "]", &set, &err), CS_OK);
    for (size_t i = 0; i < CS_ARRAY_LEN(rows); i++) {
        enum cs_status got =
            cs_dataset_resolve(set, &(struct cs_media_file){.name = rows[i].file}, path, &err);
        if (got != rows[i].status)
            fail_msg("%s: %s %s", rows[i].file, cs_status_slug(got),
                     got == CS_OK ? path : err.text);
        if (got != CS_OK)
            assert_non_null(strstr(err.text, rows[i].file));
    }
    cs_dataset_close(set);
    tmpdir_free(dir);
    tmpdir_free(outside);
}

/* What the script allows: links as caches make them, absolute paths below the root. */
static void links_and_absolute_paths_are_followed_where_the_script_says_so(void **state)
{
    char *dir = tmpdir_new(), *outside = tmpdir_new();
    struct cs_err err = {0};
    char path[CS_PATH_CAP], out[CS_PATH_CAP];
    const char *json = tmpdir_path(dir, "data.json");

    (void)state;
    tmpdir_write(json, "[" ITEM("a") "]", strlen("[" ITEM("a") "]"));
    tmpdir_write(tmpdir_path(dir, "in.png"), "x", 1);
    tmpdir_write(tmpdir_path(outside, "out.png"), "x", 1);
    assert_int_equal(symlink(tmpdir_path(outside, "out.png"), tmpdir_path(dir, "link.png")), 0);
    snprintf(out, sizeof out, "%s/out.png", outside);

    const struct {
        struct cs_dataset_options options;
        const char *file;
        enum cs_status status;
        const char *advice;
    } rows[] = {
        {{.root = ""},                        "link.png",      CS_REFUSED,   "follow_links = true"                           },
        {{.root = "", .follows_links = true}, "link.png",      CS_OK,        NULL                                            },
        {{.root = "", .follows_links = true}, "in.png",        CS_OK,        NULL                                            },
        {{.root = "", .follows_links = true}, out,             CS_REFUSED,   "images = \"/\""                                },
        {{.root = "", .follows_links = true}, "../x/out.png",  CS_REFUSED,   "\"..\""                                        },
        {{.root = ""},                        out,             CS_REFUSED,   "images = \"/\""                                },
        {{.root = dir},                       tmpdir_path(dir, "in.png"),    CS_OK,                                            NULL},
        {{.root = "/"},                                   out,                                      CS_OK,             NULL                  },
        {{.root = "/"},                                   out + 1,                                      CS_OK,         NULL},
        {{.root = "/"},                                   tmpdir_path(dir,                                      "link.png"), CS_OK,     NULL},
        {{.root = "/", .follows_links = true},                               out,                                              CS_OK,                       NULL                                 },
    };

    for (size_t i = 0; i < CS_ARRAY_LEN(rows); i++) {
        struct cs_dataset *set = NULL;
        assert_int_equal(cs_dataset_open(json, &rows[i].options, keys, &set, &err), CS_OK);
        enum cs_status got =
            cs_dataset_resolve(set, &(struct cs_media_file){.name = rows[i].file}, path, &err);
        if (got != rows[i].status)
            fail_msg("row %zu, %s: %s", i, rows[i].file, cs_status_slug(got));
        if (rows[i].advice != NULL)
            assert_non_null(strstr(err.text, rows[i].advice));
        cs_dataset_close(set);
    }
    tmpdir_free(dir);
    tmpdir_free(outside);
}

/* a string is one picture, lists keep their order, list content names files itself */
static void pictures_of_a_record(void **state)
{
    static const struct {
        const char *json;
        int n;
        const char *last;
    } rows[] = {
        {"{\"image\":\"a.png\",\"messages\":[]}",                                                     1, "a.png"},
        {"{\"images\":[\"a\",\"b\",\"c\"],\"messages\":[]}",                                          3, "c"    },
        {"{\"image\":null,\"messages\":[]}",                                                          0, NULL   },
        {"{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"image\",\"image\":\"x\"},"
         "{\"type\":\"text\",\"text\":\"<image>\"},{\"type\":\"image\",\"path\":\"y\"}]}]}", 2, "y"    },
    };

    (void)state;
    for (size_t i = 0; i < CS_ARRAY_LEN(rows); i++) {
        json_t *json = json_loads(rows[i].json, 0, NULL);
        struct cs_record *record = NULL;
        struct cs_err err = {0};
        if (cs_record_read(json, keys, NULL, &record, &err) != CS_OK)
            fail_msg("%s", err.text);
        assert_int_equal(record->n_files[0], rows[i].n);
        if (rows[i].n > 0)
            assert_string_equal(record->files[0][rows[i].n - 1].name, rows[i].last);
        if (record->n_turns > 0) {
            assert_int_equal(record->turns[0].n_parts, 3);
            assert_int_equal(record->turns[0].parts[1].encoder,
                             -1); /* spelled in a text part: text */
        }
        cs_record_free(record);
        json_decref(json);
    }
}

/* two sources with folders of their own are one set; what a sample does not say of itself its source does */
static void sources_of_a_mixture_keep_their_folders_and_names(void **state)
{
    static const char lines[] =
        "{\"image\":\"p.png\",\"conversations\":[{\"from\":\"human\",\"value\":\"q\"}]}\n"
        "{\"channel\":\"own\",\"image\":\"p.png\",\"conversations\":[{\"from\":\"human\",\"value\":"
        "\"q\"}]}\n";
    char *dirs[] = {tmpdir_new(), tmpdir_new()};
    char paths[2][CS_PATH_CAP], got[CS_PATH_CAP], want[CS_PATH_CAP];
    struct cs_dataset *set = NULL;
    struct cs_record *record = NULL;
    struct cs_err err = {0};

    (void)state;
    for (int i = 0; i < 2; i++) {
        snprintf(paths[i], sizeof paths[i], "%s", tmpdir_path(dirs[i], "data.jsonl"));
        tmpdir_write(paths[i], lines, strlen(lines));
        tmpdir_write(tmpdir_path(dirs[i], "p.png"), "x", 1);
    }
    struct cs_dataset_more more = {.path = paths[1], .name = "second", .weight = 2};
    struct cs_dataset_options options = {
        .root = "", .name = "first", .weight = 1, .more = &more, .n_more = 1};
    assert_int_equal(cs_dataset_open(paths[0], &options, keys, &set, &err), CS_OK);
    assert_int_equal(cs_dataset_count(set), 4);
    for (uint64_t i = 0; i < 4; i++) {
        assert_int_equal(cs_dataset_read(set, i, NULL, &record, &err), CS_OK);
        assert_string_equal(record->channel, i % 2 == 1 ? "own" : i == 0 ? "first" : "second");
        assert_int_equal(cs_dataset_resolve(set, &record->files[0][0], got, &err), CS_OK);
        assert_non_null(realpath(tmpdir_path(dirs[i / 2], "p.png"), want));
        assert_string_equal(got, want);
        cs_record_free(record);
    }
    int n_second = 0;
    for (uint64_t p = 0; p < 4; p++)
        for (uint64_t epoch = 0; epoch < 1024; epoch++) {
            assert_true(cs_dataset_order(set, 5, epoch, p) < 4);
            n_second += cs_dataset_order(set, 5, epoch, p) >= 2;
        }
    assert_int_equal(n_second, 2730); /* two thirds of 4096 */
    cs_dataset_close(set);
    more.weight = 0;
    assert_int_equal(cs_dataset_open(paths[0], &options, keys, &set, &err), CS_INVALID);
    assert_non_null(strstr(err.text, "1 of the 2 sources of the data have a weight"));
    tmpdir_free(dirs[0]);
    tmpdir_free(dirs[1]);
}

int main(void)
{
    const struct CMUnitTest cases[] = {
        cmocka_unit_test(arrays_and_lines_are_read),
        cmocka_unit_test(broken_files_say_where),
        cmocka_unit_test(files_of_another_shape_are_one_error),
        cmocka_unit_test(a_changed_file_has_another_identity),
        cmocka_unit_test(links_and_absolute_paths_are_followed_where_the_script_says_so),
        cmocka_unit_test(large_files_are_indexed_in_blocks),
        cmocka_unit_test(paths_stay_below_the_root),
        cmocka_unit_test(pictures_of_a_record),
        cmocka_unit_test(sources_of_a_mixture_keep_their_folders_and_names),
    };

    struct cs_arena *arena = cs_arena_new(0);
    keys = test_keys(tokens, 1, arena);
    int failed = cmocka_run_group_tests(cases, NULL, NULL);
    cs_arena_free(arena);
    return failed;
}
