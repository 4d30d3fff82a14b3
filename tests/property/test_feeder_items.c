/* Pictures of every kind of processor from a conversation into slots: as many placeholders as rows, each
 * filled by the row that the picture's layout says, items and their bytes where they belong. What a slot
 * must hold is worked out here again from ids and layouts alone. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "feeder/slots.h"
#include "input/data/fills.h"
#include "input/data/record/record.h"
#include "support/chat.h"
#include "support/keys.h"
#include "support/tmpdir.h"

enum { ROUNDS = 6, SAMPLES = 3, PICTURES = 3, SEQ = 1 << 15 };

static const char *const tokens[] = {"<image>"};

struct world {
    struct cs_arena *arena;
    struct cs_tokenizer *tok;
    struct cs_template chat;
    struct cs_sample_rules rules;
    struct cs_processor processor;
    struct cs_media_encoder encoder;
    const char *name;
    struct cs_slot_budget budget;
    struct cs_load load[SAMPLES];
    int n;
    uint64_t seed;
    struct cs_err err;
};

static int below(struct world *w, int n)
{
    w->seed = w->seed * 6364136223846793005u + 1442695040888963407u;
    return (int)((w->seed >> 33) % (uint64_t)n);
}

/* files are called by their size */
static enum cs_status lay_out(void *user, int32_t n_of_sample, struct cs_arena *arena,
                              struct cs_sample_media *media, struct cs_err *err)
{
    const struct world *w = user;
    struct cs_medium *m = &media->medium;
    *m = (struct cs_medium){.kind = CS_ITEM_IMAGE, .n_frames = 1, .n_of_sample = n_of_sample};
    assert_int_equal(sscanf(media->file->name, "%dx%d", &m->width, &m->height), 2);
    return cs_media_layout_make(&w->processor, &w->encoder, m, arena, &media->layout, err);
}

static void open_world(struct world *w)
{
    json_t *tok = chat_tokenizer_json(), *node = json_pack("{s:s}", "name", "plain");
    char *text = json_dumps(tok, JSON_COMPACT);
    memset(w, 0, sizeof *w);
    w->seed = 99;
    w->arena = cs_arena_new(0);
    assert_int_equal(cs_tokenizer_parse(text, strlen(text), "tok", &w->tok, &w->err), CS_OK);
    assert_int_equal(cs_template_read(node, w->arena, &w->chat, &w->err), CS_OK);
    assert_int_equal(cs_sample_rules_init(&w->rules, w->tok, &w->chat, tokens, 1, &w->err), CS_OK);
    w->rules.lay_out = lay_out;
    w->rules.user = w;
    w->rules.limit = &w->budget;
    w->rules.seq_tokens = SEQ;
    json_decref(node);
    json_decref(tok);
    free(text);
}

static int32_t number(const json_t *object, const char *key, int32_t fallback)
{
    const json_t *value = json_object_get(object, key);
    return value != NULL ? (int32_t)json_integer_value(value) : fallback;
}

/* The kind of processor, and a slot that holds all of a round. */
static void open_family(struct world *w, const json_t *entry, bool has_sources)
{
    const json_t *e = json_object_get(entry, "encoder");
    w->name = json_string_value(json_object_get(entry, "name"));
    w->encoder = (struct cs_media_encoder){.family = "golden",
                                           .side = number(e, "side", 0),
                                           .patch = number(e, "patch", 0),
                                           .merge = number(e, "merge", 1),
                                           .frames = number(e, "frames", 1),
                                           .side_tokens = number(e, "side_tokens", 0),
                                           .channels = 3};
    if (cs_processor_read(json_object_get(entry, "processor"), &w->processor, &w->err) != CS_OK)
        fail_msg("%s: %s", w->name, w->err.text);
    w->budget = (struct cs_slot_budget){.seq_tokens = SEQ, .n_encoders = 1};
    w->budget.enc[0] = (struct cs_item_budget){.items = 512,
                                               .rows = 2 * SEQ,
                                               .patches = 1 << 20,
                                               .bytes = 20 << 20,
                                               .item_rows = SEQ,
                                               .item_patches = 1 << 18,
                                               .item_bytes = 20 << 20,
                                               .has_sources = has_sources};
}

/* A value of every byte of an item. */
static uint8_t mark(uint64_t sample, int medium, int item)
{
    return (uint8_t)(sample * 41 + (uint64_t)medium * 13 + (uint64_t)item * 3 + 1);
}

static void make_data(struct cs_load *load)
{
    const struct cs_sample *s = &load->loaded.sample;
    load->loaded.data = calloc((size_t)s->n_media + 1, sizeof *load->loaded.data);
    for (int m = 0; m < s->n_media; m++) {
        size_t n = 0;
        for (int i = 0; i < s->media[m].layout.n_items; i++)
            n += (size_t)s->media[m].layout.items[i].shape.bytes;
        uint8_t *at = load->loaded.data[m] = malloc(n + 1);
        for (int i = 0; i < s->media[m].layout.n_items; i++) {
            memset(at, mark(load->index, m, i), (size_t)s->media[m].layout.items[i].shape.bytes);
            at += s->media[m].layout.items[i].shape.bytes;
        }
    }
}

/* "a<image>b<image>c": false where the processor refuses a size, or rows are mixed that must not be */
static bool make_sample(struct world *w, struct cs_load *load)
{
    const int n = below(w, PICTURES + 1);
    struct cs_buf text = {0};
    json_t *files = json_array();
    char name[32];
    cs_buf_adds(&text, "a");
    for (int i = 0; i < n; i++) {
        snprintf(name, sizeof name, "%dx%d", 1 + below(w, 400), 1 + below(w, 400));
        json_array_append_new(files, json_string(name));
        cs_buf_addf(&text, "<image>%c", 'b' + i);
    }
    json_t *item =
        json_pack("{s:o, s:[{s:s,s:s},{s:s,s:s}]}", "image", files, "conversations", "from",
                  "human", "value", cs_buf_str(&text), "from", "gpt", "value", "red");
    struct cs_loaded *l = &load->loaded;
    if (cs_record_read(item, test_keys(tokens, 1, w->arena), NULL, &l->record, &w->err) != CS_OK)
        fail_msg("%s", w->err.text);
    const enum cs_status status =
        cs_sample_make(&w->rules, l->record, &l->rendering, &l->sample, &w->err);
    json_decref(item);
    cs_buf_free(&text);
    if (status != CS_OK) {
        if (status == CS_CORRUPT)
            fail_msg("%s: %s", w->name, w->err.text);
        cs_load_free(load);
        return false;
    }
    make_data(load);
    return true;
}

/* The text that the pieces make, nothing of it in the conversation yet. */
static void expect_text(struct world *w, const struct cs_sample *s)
{
    struct cs_buf want = {0}, got = {0};
    cs_buf_adds(&want, "a");
    for (int m = 0; m < s->n_media; m++) {
        const struct cs_media_layout *l = &s->media[m].layout;
        for (int k = 0; k < l->n_pieces; k++) {
            const struct cs_media_piece *p = &l->pieces[k];
            if (p->text != NULL && (!p->is_token || cs_tokenizer_id(w->tok, p->text) >= 0))
                cs_buf_adds(&want, p->text);
            for (int r = 0; r < p->n_rows; r++)
                cs_buf_adds(&want, tokens[0]);
        }
        cs_buf_addf(&want, "%c", 'b' + m);
    }
    cs_buf_adds(&want, "\nred\n");
    assert_int_equal(cs_tokenizer_decode(w->tok, s->ids, (size_t)s->n_tokens, false, &got, &w->err),
                     CS_OK);
    if (strcmp(cs_buf_str(&want), cs_buf_str(&got)) != 0)
        fail_msg("%s: \"%s\" is not \"%s\"", w->name, cs_buf_str(&got), cs_buf_str(&want));
    cs_buf_free(&want);
    cs_buf_free(&got);
}

/* Where reading a slot has come to. */
struct cursor {
    const struct cs_slot *slot;
    int32_t item, row, fill, token;
    int64_t offset;
};

static void check_items(const struct world *w, struct cursor *at, uint64_t sample, int medium,
                        const struct cs_media_layout *l)
{
    for (int i = 0; i < l->n_items; i++) {
        const struct cs_item *item = &at->slot->items[0][at->item++];
        const struct cs_item_shape *want = &l->items[i].shape;
        assert_memory_equal(&item->shape, want, sizeof *want);
        assert_int_equal(item->offset, at->offset);
        const uint8_t *data = at->slot->data[0] + item->offset;
        for (int32_t b = 0; b < want->bytes; b++)
            if (data[b] != mark(sample, medium, i))
                fail_msg("%s: byte %d of item %d is another's", w->name, b, i);
        at->offset += want->bytes;
    }
}

/* Row `to` of the placeholders: the row of items that goes there, or -1. */
static int32_t who_fills(const struct cs_media_layout *l, int32_t to)
{
    int32_t row = 0, found = -1;
    for (int i = 0; i < l->n_items; i++)
        for (int r = 0; r < l->items[i].shape.rows; r++, row++)
            if ((l->items[i].row != NULL ? l->items[i].row[r] : l->items[i].first_row + r) == to) {
                assert_int_equal(found, -1);
                found = row;
            }
    return found;
}

static void check_fill(const struct world *w, const struct cursor *at,
                       const struct cs_media_layout *l, int32_t p)
{
    const struct cs_slot *s = at->slot;
    if (!w->budget.enc[0].has_sources) {
        assert_int_equal(who_fills(l, p), p);
        return;
    }
    const int32_t source = s->source[0][at->fill];
    if (l->blends == NULL) {
        const int32_t from = who_fills(l, p);
        assert_int_equal(source, from < 0 ? CS_SOURCE_LEARNED : at->row + from);
        return;
    }
    const struct cs_media_blend *want = &l->blends[p];
    const bool is_learned =
        want->weight[0] + want->weight[1] + want->weight[2] + want->weight[3] == 0;
    if (is_learned) {
        assert_int_equal(source, CS_SOURCE_LEARNED);
        return;
    }
    const struct cs_slot_blend *got = &s->blends[0][CS_SOURCE_BLENDS - source];
    for (int i = 0; i < 4; i++) {
        assert_true(got->weight[i] == want->weight[i]);
        assert_int_equal(got->row[i], at->row + want->row[i]);
    }
}

/* The placeholders of the sample's ids, one after the other, are its media's rows. */
static void check_sample(const struct world *w, struct cursor *at, int in_slot)
{
    const struct cs_slot *slot = at->slot;
    const uint64_t index = slot->sample_ids[in_slot];
    const struct cs_sample *s = &w->load[index].loaded.sample;
    const int32_t end = slot->sample_rows[in_slot + 1];
    at->token = slot->sample_rows[in_slot];
    assert_int_equal(end - at->token, s->n_tokens);
    for (int m = 0; m < s->n_media; m++) {
        const struct cs_media_layout *l = &s->media[m].layout;
        check_items(w, at, index, m, l);
        int32_t rows = 0;
        for (int i = 0; i < l->n_items; i++)
            rows += l->items[i].shape.rows;
        for (int32_t p = 0; p < l->n_rows; p++, at->fill++, at->token++) {
            while (at->token < end && slot->ids[at->token] != w->rules.token_id[0])
                at->token++;
            assert_true(at->token < end);
            assert_int_equal(slot->labels[at->token - 1], -1);
            assert_int_equal(slot->rows[0][at->fill], at->token);
            if (l->n_rows < 300 || p % 17 == 0) /* finding who fills a row takes a while */
                check_fill(w, at, l, p);
        }
        at->row += rows;
    }
    while (at->token < end)
        assert_int_not_equal(slot->ids[at->token++], w->rules.token_id[0]);
}

static void check_step(struct world *w)
{
    const struct cs_pool_shape shape = {.n_slots = SAMPLES, .n_manifests = 4, .n_readers = 1};
    const size_t bytes = cs_pool_bytes(&shape, &w->budget);
    struct cs_manifest m = {.kind = CS_STEP_TRAIN};
    bool is_carried[SAMPLES];
    struct cs_pool *writer;
    void *memory = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
    int n = 0;
    assert_non_null(memory);
    cs_pool_init(memory, &shape, &w->budget);
    assert_int_equal(cs_pool_attach(memory, bytes, &w->budget, -1, &writer, &w->err), CS_OK);
    if (cs_slots_write(writer, &w->budget, NULL, w->load, w->n, 1, &m, is_carried, &w->err) !=
        CS_OK)
        fail_msg("%s", w->err.text);
    for (int k = 0; k < m.n_slots; k++) {
        struct cs_slot slot;
        struct cursor at = {.slot = &slot};
        cs_pool_slot(writer, &m, k, &slot);
        if (cs_slot_check_items(&slot, &w->budget, 0, &w->err) != CS_OK)
            fail_msg("%s: %s", w->name, w->err.text);
        for (int i = 0; i < slot.head->n_samples; i++, n++)
            check_sample(w, &at, i);
        assert_int_equal(at.item, slot.head->n_items[0]);
        assert_int_equal(at.row, slot.head->n_rows[0]);
        assert_int_equal(at.fill, slot.head->n_fills[0]);
        assert_int_equal(at.offset, slot.head->n_bytes[0]);
        assert_int_equal(m.slot[k].n_fills[0], at.fill);
    }
    assert_int_equal(n, w->n);
    cs_pool_detach(writer);
    free(m.slot);
    free(memory);
}

static int run_family(struct world *w)
{
    int n_pictures = 0;
    for (int round = 0; round < ROUNDS; round++) {
        w->n = 0;
        while (w->n < SAMPLES) {
            struct cs_load *load = &w->load[w->n];
            *load = (struct cs_load){.index = (uint64_t)w->n};
            if (!make_sample(w, load))
                break;
            expect_text(w, &load->loaded.sample);
            n_pictures += load->loaded.sample.n_media;
            w->n++;
        }
        check_step(w);
        for (int i = 0; i < w->n; i++)
            cs_load_free(&w->load[i]);
    }
    return n_pictures;
}

static void rows_of_every_processor_go_where_their_layout_says(void **state)
{
    json_t *families = json_load_file(source_path("tests/golden/layouts.json"), 0, NULL), *entry;
    struct world w;
    int n_plain = 0;
    size_t i = 0;
    (void)state;
    assert_true(json_array_size(families) >= 16);
    open_world(&w);
    json_array_foreach(families, i, entry)
    {
        open_family(&w, entry, true);
        if (run_family(&w) < ROUNDS)
            fail_msg("%s: too few of its pictures could be used", w.name);
        open_family(&w, entry, false);
        n_plain += run_family(&w) >= ROUNDS;
    }
    assert_true(n_plain >= 12); /* but those with a mosaic */
    json_decref(families);
    cs_tokenizer_close(w.tok);
    cs_arena_free(w.arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_of_every_processor_go_where_their_layout_says),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
