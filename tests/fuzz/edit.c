/* Edits documents by a fuzzer's bytes. */
#include "fuzz/edit.h"

#include <stdlib.h>
#include <string.h>

enum { EDITS_MAX = 12, DEPTH_MAX = 12, LONG_TEXT = 5000 };

void fuzz_must(int holds)
{
    if (!holds)
        abort();
}

uint32_t fuzz_take(struct fuzz_bytes *bytes, uint32_t below)
{
    uint32_t value = 0;
    const size_t width = below > 256 ? 2 : 1;

    for (size_t i = 0; i < width && bytes->n > 0; i++, bytes->at++, bytes->n--)
        value = value << 8 | *bytes->at;
    return below > 0 ? value % below : 0;
}

static json_t *long_text(void)
{
    char text[LONG_TEXT];

    memset(text, 'x', sizeof text);
    return json_stringn(text, sizeof text);
}

json_t *fuzz_value(struct fuzz_bytes *bytes)
{
    static const json_int_t wholes[] = {0,   1,     -1,        2,         3,         7,
                                        255, 65536, INT32_MAX, INT32_MIN, INT64_MAX, INT64_MIN};
    static const double numbers[] = {0.5, -0.5, 1e-320, 1e308, -1e308, 1e19, 9007199254740993.0};
    static const char *const texts[] = {"",  "a",      "../..", "/nowhere",     "<image>",
                                        "*", "causal", "1f1b",  "\xe2\x80\xae", "%s%n",
                                        "[", "0"};

    switch (fuzz_take(bytes, 11)) {
    case 0:
        return json_null();
    case 1:
        return json_boolean(fuzz_take(bytes, 2));
    case 2:
        return json_array();
    case 3:
        return json_object();
    case 4:
        return json_real(numbers[fuzz_take(bytes, sizeof numbers / sizeof numbers[0])]);
    case 5:
        return json_string(texts[fuzz_take(bytes, sizeof texts / sizeof texts[0])]);
    case 6:
        return long_text();
    case 7:
        return json_pack("[i,f,s]", (int)fuzz_take(bytes, 65536), 0.25, "x");
    case 8:
        return json_integer(fuzz_take(bytes, 65536));
    case 9:
        return json_integer(-(json_int_t)fuzz_take(bytes, 65536));
    default:
        return json_integer(wholes[fuzz_take(bytes, sizeof wholes / sizeof wholes[0])]);
    }
}

/* The key of the k-th member; the object has more than k. */
static const char *key_at(json_t *object, size_t k)
{
    void *at = json_object_iter(object);

    while (k-- > 0)
        at = json_object_iter_next(object, at);
    return json_object_iter_key(at);
}

static void edit_list(json_t *list, size_t k, struct fuzz_bytes *bytes)
{
    switch (fuzz_take(bytes, 4)) {
    case 0:
        json_array_remove(list, k);
        return;
    case 1:
        json_array_append_new(list, json_deep_copy(json_array_get(list, k)));
        return;
    default:
        json_array_set_new(list, k, fuzz_value(bytes));
    }
}

static void edit_object(json_t *object, size_t k, struct fuzz_bytes *bytes)
{
    char key[256] = {0};

    strncpy(key, key_at(object, k), sizeof key - 1);
    switch (fuzz_take(bytes, 5)) {
    case 0:
        json_object_del(object, key);
        return;
    case 1:
        key[0]++; /* a key that nobody knows */
        json_object_set_new(object, key, fuzz_value(bytes));
        return;
    default:
        json_object_set_new(object, key, fuzz_value(bytes));
    }
}

static void edit_one(json_t *node, struct fuzz_bytes *bytes)
{
    for (int depth = 0; depth < DEPTH_MAX; depth++) {
        size_t n = json_is_array(node) ? json_array_size(node) : json_object_size(node);
        if (n == 0)
            return;
        size_t k = fuzz_take(bytes, (uint32_t)(n < 65536 ? n : 65536));
        json_t *child =
            json_is_array(node) ? json_array_get(node, k) : json_object_get(node, key_at(node, k));
        if ((json_is_array(child) || json_is_object(child)) && fuzz_take(bytes, 4) != 0) {
            node = child;
            continue;
        }
        if (json_is_array(node))
            edit_list(node, k, bytes);
        else
            edit_object(node, k, bytes);
        return;
    }
}

void fuzz_edit(json_t *document, struct fuzz_bytes *bytes)
{
    for (int i = 0; i < EDITS_MAX && bytes->n > 0; i++)
        edit_one(document, bytes);
}
