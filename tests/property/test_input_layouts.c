/* Layouts of 100,000 sizes of pictures under every kind of processor: rows, items and sizes equal those of
 * transformers (tests/golden/make_layouts.py), and a layout keeps what its header promises. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/buf.h"
#include "input/media/layout.h"
#include "support/tmpdir.h"

enum { BLOCK = 10000, TEXTS = 100 };

static const uint64_t start = 0xcbf29ce484222325u;

static uint64_t fnv(uint64_t value, const void *bytes, size_t n)
{
    const uint8_t *b = bytes;

    for (size_t i = 0; i < n; i++)
        value = (value ^ b[i]) * 0x100000001b3u;
    return value;
}

static struct cs_medium next_size(uint64_t *state)
{
    static const uint64_t most[] = {60, 600, 3000, 12000};
    int32_t side[2];

    for (int i = 0; i < 2; i++) {
        *state ^= *state << 13;
        *state ^= *state >> 7;
        *state ^= *state << 17;
        side[i] = (int32_t)(1 + (*state >> 16) % most[*state >> 8 & 3]);
    }
    return (struct cs_medium){.kind = CS_ITEM_IMAGE,
                              .width = side[0],
                              .height = side[1],
                              .n_frames = 1,
                              .n_of_sample = 1};
}

struct family {
    const char *name;
    const json_t *entry;
    struct cs_processor p;
    struct cs_media_encoder encoder;
    struct cs_media_bounds bounds;
};

static int32_t number(const json_t *object, const char *key, int32_t fallback)
{
    const json_t *value = json_object_get(object, key);
    return value != NULL ? (int32_t)json_integer_value(value) : fallback;
}

static void open_family(const json_t *entry, struct family *f)
{
    const json_t *e = json_object_get(entry, "encoder");
    struct cs_err err = {0};

    *f = (struct family){
        .name = json_string_value(json_object_get(entry, "name")),
        .entry = entry,
        .encoder = {.family = "golden",
                    .side = number(e, "side", 0),
                    .patch = number(e, "patch", 0),
                    .merge = number(e, "merge", 1),
                    .frames = number(e, "frames", 1),
                    .side_tokens = number(e, "side_tokens", 0),
                    .channels = 3}
    };
    if (cs_processor_read(json_object_get(entry, "processor"), &f->p, &err) != CS_OK ||
        cs_media_bounds_of(&f->p, &f->encoder, &f->bounds, &err) != CS_OK)
        fail_msg("%s: %s", f->name, err.text);
}

/* Placeholder rows are filled once each: by a row of an item, a learned parameter or a blend. */
static void check_rows(const struct family *f, const struct cs_media_layout *l)
{
    char *filled = calloc((size_t)l->n_rows + 1, 1);
    int32_t n = 0, rows = 0;

    for (int32_t i = 0; i < l->n_pieces; i++) {
        if (l->pieces[i].kind == CS_MEDIA_LEARNED)
            memset(filled + n, 1, (size_t)l->pieces[i].n_rows);
        n += l->pieces[i].n_rows;
        assert_true((l->pieces[i].kind == CS_MEDIA_TEXT) == (l->pieces[i].text != NULL));
    }
    assert_int_equal(n, l->n_rows);
    for (int32_t i = 0; i < l->n_items; i++) {
        const struct cs_media_item *item = &l->items[i];
        for (int32_t r = 0; r < item->shape.rows && l->blends == NULL; r++) {
            const int32_t to = item->row != NULL ? item->row[r] : item->first_row + r;
            assert_true(to >= -1 && to < n && (to == -1 || filled[to] == 0));
            if (to >= 0)
                filled[to] = 1;
        }
        rows += item->shape.rows;
    }
    for (int32_t i = 0; i < n && l->blends == NULL; i++)
        assert_int_equal(filled[i], 1);
    for (int32_t i = 0; i < n && l->blends != NULL; i++) {
        float sum = 0;
        for (int k = 0; k < 4; k++) {
            assert_true(l->blends[i].row[k] >= 0 && l->blends[i].row[k] < rows);
            sum += l->blends[i].weight[k];
        }
        assert_true(filled[i] ? sum == 0 : sum > 0.999f && sum < 1.001f);
    }
    assert_true(rows <= f->bounds.rows);
    free(filled);
}

static void check_bounds(const struct family *f, const struct cs_medium *m,
                         const struct cs_media_layout *l)
{
    bool is_within = l->n_items <= f->bounds.items && l->n_rows <= f->bounds.placeholders;

    for (int32_t i = 0; i < l->n_items; i++)
        is_within = is_within && l->items[i].shape.rows <= f->bounds.item_rows &&
                    l->items[i].shape.bytes <= f->bounds.item_bytes;
    if (!is_within)
        fail_msg("%s: %d x %d pixels are %d items and %d rows, over the bounds", f->name, m->width,
                 m->height, l->n_items, l->n_rows);
}

/* As the oracle writes it down. */
static void numbers_of(const struct family *f, const struct cs_medium *m, struct cs_arena *arena,
                       int32_t out[5])
{
    struct cs_media_layout l;
    const bool is_told = f->p.kind != CS_PROCESSOR_PAN;

    memset(out, 0, 5 * sizeof *out);
    out[0] = cs_media_layout_make(&f->p, &f->encoder, m, arena, &l, NULL) != CS_OK;
    if (out[0] != 0)
        return;
    check_bounds(f, m, &l);
    if (m->width % 37 == 0)
        check_rows(f, &l);
    out[1] = l.n_items;
    out[2] = l.n_rows;
    const bool is_made = l.n_steps > 0 && l.steps[0].op == CS_PICTURE_RESIZE;
    const bool is_free = f->bounds.items == 1; /* then what is not made is the size itself */
    if (is_told && l.n_steps > 0 && (is_made || f->p.kind == CS_PROCESSOR_PLAIN)) {
        out[3] = l.steps[0].height;
        out[4] = l.steps[0].width;
    } else if (is_told && (is_free || f->p.kind == CS_PROCESSOR_TILES)) {
        out[3] = m->height;
        out[4] = m->width;
    }
}

static void compare_sizes(const struct family *f)
{
    const json_t *want = json_object_get(f->entry, "sizes");
    uint64_t state = 88172645463325252u;

    for (size_t b = 0; b < json_array_size(want); b++) {
        uint64_t value = start;
        char hash[20];
        for (int i = 0; i < BLOCK; i++) {
            struct cs_arena *arena = cs_arena_new(0);
            const struct cs_medium m = next_size(&state);
            int32_t row[5];
            numbers_of(f, &m, arena, row);
            value = fnv(value, row, sizeof row);
            cs_arena_free(arena);
        }
        snprintf(hash, sizeof hash, "%016llx", (unsigned long long)value);
        if (strcmp(hash, json_string_value(json_array_get(want, b))) != 0)
            fail_msg("%s: sizes %zu to %zu differ", f->name, b * BLOCK, (b + 1) * BLOCK - 1);
    }
    assert_int_equal(json_array_size(want), 10);
}

static void compare_texts(const struct family *f)
{
    const char *want = json_string_value(json_object_get(f->entry, "texts"));
    uint64_t state = 88172645463325252u, value = start;
    char hash[20];

    for (int i = 0; i < TEXTS && want != NULL; i++) {
        struct cs_arena *arena = cs_arena_new(0);
        const struct cs_medium m = next_size(&state);
        struct cs_media_layout l;
        struct cs_buf text = {0};
        if (cs_media_layout_make(&f->p, &f->encoder, &m, arena, &l, NULL) != CS_OK)
            l.n_pieces = 0;
        for (int32_t k = 0; k < l.n_pieces; k++) {
            cs_buf_adds(&text, l.pieces[k].text != NULL ? l.pieces[k].text : "");
            for (int32_t r = 0; r < l.pieces[k].n_rows; r++)
                cs_buf_adds(&text, "<image>");
        }
        value = fnv(value, cs_buf_str(&text), text.len + 1);
        cs_buf_free(&text);
        cs_arena_free(arena);
    }
    snprintf(hash, sizeof hash, "%016llx", (unsigned long long)value);
    if (want != NULL && strcmp(hash, want) != 0)
        fail_msg("%s: other texts", f->name);
}

static void layouts_equal_transformers(void **state)
{
    json_t *families = json_load_file(source_path("tests/golden/layouts.json"), 0, NULL);
    json_t *entry = NULL;
    size_t i = 0;

    (void)state;
    assert_true(json_array_size(families) >= 16);
    json_array_foreach(families, i, entry)
    {
        struct family f;
        open_family(entry, &f);
        compare_texts(&f);
        compare_sizes(&f);
    }
    json_decref(families);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layouts_equal_transformers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
