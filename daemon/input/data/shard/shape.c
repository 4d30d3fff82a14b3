/* Tells what a file is that is no list of samples. */
#include "input/data/shard/shape.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "core/base/str.h"
#include "core/base/system/io.h"
#include "core/doc/doc.h"
#include "input/data/record/record.h"
#include "input/data/shard/json_tolerant.h"

static const struct {
    const char *bytes;
    size_t n;
    const char *what, *advice;
} starts[] = {
    {"\xff\xfe",         2,  "UTF-16",              "convert it: iconv -f UTF-16 -t UTF-8"        },
    {"\xfe\xff",         2,  "UTF-16",              "convert it: iconv -f UTF-16 -t UTF-8"        },
    {"[\0",              2,  "UTF-16 without mark", "convert it: iconv -f UTF-16LE -t UTF-8"      },
    {"{\0",              2,  "UTF-16 without mark", "convert it: iconv -f UTF-16LE -t UTF-8"      },
    {"\0[",              2,  "UTF-16 without mark", "convert it: iconv -f UTF-16BE -t UTF-8"      },
    {"\0{",              2,  "UTF-16 without mark", "convert it: iconv -f UTF-16BE -t UTF-8"      },
    {"\0\0",             2,  "UTF-32 or zeros",     "it must be JSON in UTF-8"                    },
    {"\x1f\x8b",         2,  "compressed by gzip",  "unpack it"                                   },
    {"\x28\xb5\x2f\xfd", 4,  "compressed by zstd",  "unpack it"                                   },
    {"PK\x03\x04",       4,  "a zip archive",       "unpack it"                                   },
    {"ARROW1",           6,  "an Arrow file",       "write its rows as JSON lines or Parquet"     },
    {"\xff\xff\xff\xff", 4,  "an Arrow stream",
     "write its rows as JSON lines or Parquet (datasets: load_from_disk(FOLDER).to_parquet(FILE))"},
    {"BZh",              3,  "compressed by bzip2", "unpack it"                                   },
    {"\xfd\x37zXZ",      5,  "compressed by xz",    "unpack it"                                   },
    {"SQLite format 3",  15, "an SQLite database",  "write its rows as JSON lines or Parquet"     },
    {"\x89HDF",          4,  "an HDF5 file",        "write its rows as JSON lines or Parquet"     },
};

/* Text that is not JSON, by the end of its name. */
static const struct {
    const char *end, *what, *advice;
} texts[] = {
    {".txt",  "a text", "write a JSON object a line, {\"text\": ...} for texts alone"},
    {".yaml", "YAML",   "write its items as JSON lines"                              },
    {".yml",  "YAML",   "write its items as JSON lines"                              },
};

static bool is_no_json(const char *bytes, size_t n)
{
    size_t i = 0;

    while (i < n && strchr(" \t\r\n\xef\xbb\xbf", bytes[i]) != NULL && bytes[i] != '\0')
        i++;
    return i < n && bytes[i] != '[' && bytes[i] != '{';
}

enum cs_status cs_shape_check_start(const char *path, const char *bytes, size_t n,
                                    struct cs_err *err)
{
    for (size_t i = 0; i < CS_ARRAY_LEN(starts); i++)
        if (n >= starts[i].n && memcmp(bytes, starts[i].bytes, starts[i].n) == 0)
            return cs_fail(err, CS_INVALID, "%s is %s, not JSON in UTF-8: %s", path, starts[i].what,
                           starts[i].advice);
    for (size_t i = 0; i < CS_ARRAY_LEN(texts) && is_no_json(bytes, n); i++) {
        const size_t n_path = strlen(path), n_end = strlen(texts[i].end);
        if (n_path > n_end && strcasecmp(path + n_path - n_end, texts[i].end) == 0)
            return cs_fail(err, CS_INVALID, "%s is %s, not JSON: %s", path, texts[i].what,
                           texts[i].advice);
    }
    return CS_OK;
}

/* The JSON of a piece of the file; NULL: too long, or none. */
static json_t *parse(int fd, const char *path, uint64_t offset, uint64_t len)
{
    json_t *json = NULL;
    char *bytes = len <= CS_RECORD_MAX_BYTES ? malloc(len + 1) : NULL;
    size_t got = 0;

    if (bytes != NULL && cs_read_at(fd, path, bytes, len, offset, &got, NULL) == CS_OK &&
        cs_json_tolerant(bytes, got, offset, &json, NULL) != CS_OK)
        json = NULL;
    free(bytes);
    return json;
}

static bool is_turn(const json_t *item)
{
    return cs_doc_get(item, "from|role", NULL) != NULL &&
           cs_doc_get(item, "value|content", NULL) != NULL;
}

/* The longest list of objects in an object that has no turns itself. */
static const char *list_inside(const json_t *object, size_t *n)
{
    const char *name = NULL, *found = NULL;
    json_t *value = NULL;

    *n = 0;
    if (!json_is_object(object) || cs_doc_get(object, CS_RECORD_TURN_KEYS, NULL) != NULL)
        return NULL;
    json_object_foreach((json_t *)(uintptr_t)object, name,
                        value) if (json_array_size(value) > *n &&
                                   json_is_object(json_array_get(value, 0)) &&
                                   !is_turn(json_array_get(value, 0)))
    {
        found = name;
        *n = json_array_size(value);
    }
    return found;
}

/* "...": its samples are in a list of the object */
static enum cs_status refuse_wrapper(const char *path, const char *list, size_t n,
                                     struct cs_err *err)
{
    return cs_fail(err, CS_INVALID,
                   "%s is one JSON object with a list \"%.60s\" of %zu, not a list of samples: "
                   "write that list alone into a file (jq '.[\"%.60s\"]')",
                   path, list, n, list);
}

enum cs_status cs_shape_refuse_spread(int fd, const char *path, uint64_t offset, uint64_t len,
                                      bool has_more, struct cs_err *err)
{
    json_t *json = has_more ? NULL : parse(fd, path, offset, len);
    size_t n = 0;
    const char *list = list_inside(json, &n);

    if (list != NULL)
        (void)!refuse_wrapper(path, list, n, err);
    else if (has_more)
        (void)!cs_fail(err, CS_INVALID,
                       "%s holds JSON objects of several lines each: a data set is one array of "
                       "them, or has one sample a line (jq -c .)",
                       path);
    else
        (void)!cs_fail(err, CS_INVALID,
                       "%s is one JSON object of several lines: a data set is an array of samples, "
                       "or has one sample a line",
                       path);
    json_decref(json);
    return CS_INVALID;
}

enum shape { SAMPLE, LIST, TURN, WRAPPER };

static enum shape shape_of(const json_t *item, bool is_alone)
{
    size_t n = 0;

    if (json_is_array(item))
        return LIST;
    if (cs_doc_get(item, CS_RECORD_TURN_KEYS, NULL) != NULL)
        return SAMPLE;
    if (is_turn(item))
        return TURN;
    return is_alone && list_inside(item, &n) != NULL ? WRAPPER : SAMPLE;
}

enum cs_status cs_shape_check_items(int fd, const char *path, const struct cs_index *index,
                                    struct cs_err *err)
{
    const struct cs_index_item *a = &index->items[0], *b = &index->items[index->n - 1];
    json_t *first = parse(fd, path, a->offset, a->len), *last = parse(fd, path, b->offset, b->len);
    enum shape shape = shape_of(first, index->n == 1);
    enum cs_status status = CS_OK;
    size_t n = 0;

    if (shape != shape_of(last, index->n == 1))
        shape = SAMPLE;
    if (shape == LIST)
        status = cs_fail(err, CS_INVALID,
                         "%s: its items are lists: a sample is an object, {\"conversations\": "
                         "[...]}",
                         path);
    else if (shape == TURN)
        status = cs_fail(err, CS_INVALID,
                         "%s: its items are turns of one conversation: a sample is an object, "
                         "{\"conversations\": [...]}, on a line of its own or in an array",
                         path);
    else if (shape == WRAPPER) {
        const char *list = list_inside(first, &n);
        status = refuse_wrapper(path, list, n, err);
    }
    json_decref(first);
    json_decref(last);
    return status;
}

enum cs_status cs_shape_blame_encoding(int fd, const char *path, enum cs_status status,
                                       struct cs_err *err)
{
    enum { BLOCK = 65536, LONGEST = 4 };

    char block[BLOCK];
    uint64_t at = 0;
    size_t got = 0;

    while (cs_read_at(fd, path, block, BLOCK, at, &got, NULL) == CS_OK && got > 0) {
        size_t i = 0;
        for (uint32_t code = 0; i < got;) {
            size_t n = cs_utf8_decode(block + i, got - i, &code);
            if (n == 0 && got == BLOCK && got - i < LONGEST)
                break; /* may go on in the next block */
            if (n == 0)
                return cs_wrap(err, status,
                               "%s is not UTF-8 at byte %llu: in which encoding is it?", path,
                               (unsigned long long)(at + i));
            i += n;
        }
        at += i;
    }
    return status;
}
