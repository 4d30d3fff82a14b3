/* Walks two documents side by side. */
#include "console/store/spec_diff.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/str.h"

struct walk {
    struct cs_spec_difference *out;
    int cap, n;
    char path[256];
};

static void value_text(char out[256], const json_t *value)
{
    char *text = value ? json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT) : NULL;
    cs_str_copy(out, 256, value == NULL ? "-" : text ? text : "?");
    free(text);
}

static void add(struct walk *w, const json_t *a, const json_t *b)
{
    if (w->n < w->cap) {
        struct cs_spec_difference *d = &w->out[w->n];
        cs_str_copy(d->path, sizeof d->path, w->path);
        value_text(d->a, a);
        value_text(d->b, b);
    }
    w->n++;
}

static void compare(struct walk *w, const json_t *a, const json_t *b);

/* the path grows by one key, and is as before afterwards */
static void compare_at(struct walk *w, const char *key, const json_t *a, const json_t *b)
{
    const size_t n = strlen(w->path);
    snprintf(w->path + n, sizeof w->path - n, "%s%s", n > 0 && key[0] != '[' ? "." : "", key);
    compare(w, a, b);
    w->path[n] = '\0';
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static void compare_objects(struct walk *w, const json_t *a, const json_t *b)
{
    const char *key = NULL;
    json_t *value = NULL;
    size_t n = 0;
    const char **keys = calloc(json_object_size(a) + json_object_size(b) + 1, sizeof *keys);
    CS_ASSERT(keys);
    json_object_foreach((json_t *)(uintptr_t)a, key, value) keys[n++] = key;
    json_object_foreach((json_t *)(uintptr_t)b, key, value) if (json_object_get(a, key) == NULL)
        keys[n++] = key;
    qsort(keys, n, sizeof *keys, by_name);
    for (size_t i = 0; i < n; i++)
        compare_at(w, keys[i], json_object_get(a, keys[i]), json_object_get(b, keys[i]));
    free(keys);
}

static void compare_arrays(struct walk *w, const json_t *a, const json_t *b)
{
    const size_t n_a = json_array_size(a), n_b = json_array_size(b), n = n_a > n_b ? n_a : n_b;
    char key[32];
    for (size_t i = 0; i < n; i++) {
        snprintf(key, sizeof key, "[%zu]", i);
        compare_at(w, key, json_array_get(a, i), json_array_get(b, i));
    }
}

static void compare(struct walk *w, const json_t *a, const json_t *b)
{
    if (a != NULL && b != NULL && json_equal(a, b))
        return;
    if (json_is_object(a) && json_is_object(b))
        compare_objects(w, a, b);
    else if (json_is_array(a) && json_is_array(b))
        compare_arrays(w, a, b);
    else if (a != NULL || b != NULL)
        add(w, a, b);
}

int cs_spec_diff(const json_t *a, const json_t *b, struct cs_spec_difference *out, int cap)
{
    struct walk w = {.out = out, .cap = cap, .path = ""};
    compare(&w, a, b);
    return w.n;
}
