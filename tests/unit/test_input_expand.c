/* What a file becomes in a sample: text and rows in the place of its placeholder, which row of which
 * item fills which row of the sample, and what does not fit. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "input/data/fills.h"
#include "input/data/record/record.h"
#include "input/data/sample.h"
#include "support/chat.h"
#include "support/keys.h"

static const char *const tokens[] = {"<image>"};

struct world {
    struct cs_arena *arena;
    struct cs_tokenizer *tok;
    struct cs_template chat;
    struct cs_sample_rules rules;
    struct cs_rendering rendering;
    struct cs_record *record;
    struct cs_sample sample;
    struct cs_media_layout layout; /* of every file */
    struct cs_err err;
};

static enum cs_status lay_out(void *user, int32_t n_of_sample, struct cs_arena *arena,
                              struct cs_sample_media *media, struct cs_err *err)
{
    const struct world *w = user;
    (void)arena;
    if (strcmp(media->file->name, "lost") == 0)
        return cs_fail(err, CS_NOT_FOUND, "%s is not there", media->file->name);
    media->medium.n_of_sample = n_of_sample;
    media->layout = w->layout;
    return CS_OK;
}

static void open_world(struct world *w, const char *template_json)
{
    json_t *tok = chat_tokenizer_json(), *node = json_loads(template_json, 0, NULL);
    char *text = json_dumps(tok, JSON_COMPACT);

    memset(w, 0, sizeof *w);
    w->arena = cs_arena_new(0);
    assert_int_equal(cs_tokenizer_parse(text, strlen(text), "tok", &w->tok, &w->err), CS_OK);
    if (cs_template_read(node, w->arena, &w->chat, &w->err) != CS_OK ||
        cs_sample_rules_init(&w->rules, w->tok, &w->chat, tokens, 1, &w->err) != CS_OK)
        fail_msg("%s", w->err.text);
    w->rules.lay_out = lay_out;
    w->rules.user = w;
    json_decref(node);
    json_decref(tok);
    free(text);
}

static void drop_sample(struct world *w)
{
    cs_sample_free(&w->sample);
    cs_record_free(w->record);
    w->record = NULL;
}

static void close_world(struct world *w)
{
    drop_sample(w);
    cs_rendering_free(&w->rendering);
    cs_tokenizer_close(w->tok);
    cs_arena_free(w->arena);
}

/* A sample whose user says `text`, with n files. */
static enum cs_status make(struct world *w, const char *text, int n)
{
    json_t *files = json_array();
    for (int i = 0; i < n; i++)
        json_array_append_new(files, json_string("a.png"));
    json_t *item = json_pack("{s:o, s:[{s:s,s:s},{s:s,s:s}]}", "image", files, "conversations",
                             "from", "human", "value", text, "from", "gpt", "value", "c");
    drop_sample(w);
    if (cs_record_read(item, test_keys(tokens, 1, w->arena), NULL, &w->record, &w->err) != CS_OK)
        fail_msg("%s", w->err.text);
    json_decref(item);
    return cs_sample_make(&w->rules, w->record, &w->rendering, &w->sample, &w->err);
}

static void assert_text(struct world *w, const char *want)
{
    struct cs_buf text = {0};
    assert_int_equal(cs_tokenizer_decode(w->tok, w->sample.ids, (size_t)w->sample.n_tokens, false,
                                         &text, &w->err),
                     CS_OK);
    assert_string_equal(cs_buf_str(&text), want);
    cs_buf_free(&text);
}

/* A mosaic: rows dropped and in another order, a learned row between, text around and inside. */
static const int32_t first_map[] = {1, 0, -1}, second_map[] = {4, 3};
static struct cs_media_item mosaic_items[] = {
    {.shape = {CS_ITEM_IMAGE, {1, 1, 3}, 3, 9}, .row = first_map },
    {.shape = {CS_ITEM_IMAGE, {1, 2, 1}, 2, 6}, .row = second_map},
};
/* clang-format off */
static struct cs_media_piece mosaic_pieces[] = {
    {.kind = CS_MEDIA_TEXT,    .text = "\n",        .is_wrap = true },
    {.kind = CS_MEDIA_TEXT,    .text = "<s>",       .is_wrap = true, .is_token = true},
    {.kind = CS_MEDIA_ROWS,    .n_rows = 2                          },
    {.kind = CS_MEDIA_TEXT,    .text = "he"                         },
    {.kind = CS_MEDIA_TEXT,    .text = "<|row_1|>", .is_token = true},
    {.kind = CS_MEDIA_LEARNED, .n_rows = 1                          },
    {.kind = CS_MEDIA_ROWS,    .n_rows = 2                          },
    {.kind = CS_MEDIA_TEXT,    .text = "</s>",      .is_wrap = true, .is_token = true},
};
/* clang-format on */
static const struct cs_media_layout mosaic = {.n_items = 2,
                                              .n_pieces = CS_ARRAY_LEN(mosaic_pieces),
                                              .n_rows = 5,
                                              .n_learned = 1,
                                              .items = mosaic_items,
                                              .pieces = mosaic_pieces};

#define ROWS2 "<image><image>"

static void pieces_take_the_place_of_a_placeholder(void **state)
{
    static const int32_t source[] = {1, 0, CS_SOURCE_LEARNED, 4, 3};
    struct world w;
    (void)state;
    open_world(&w, "{\"name\":\"plain\"}");
    w.layout = mosaic;
    assert_int_equal(make(&w, "b<image>d", 1), CS_OK);
    /* a token that the tokenizer does not have is left away */
    assert_text(&w, "b\n<s>" ROWS2 "he<image>" ROWS2 "</s>d\nc\n");
    const struct cs_sample *s = &w.sample;
    assert_int_equal(s->n_media, 1);
    assert_int_equal(s->n_labels, 2);
    assert_int_equal(s->n_items[0], 2);
    assert_int_equal(s->n_rows[0], 5);
    assert_int_equal(s->n_patches[0], 5);
    assert_int_equal(s->shape[0][1].grid[1], 2);
    assert_memory_equal(s->media[0].source, source, sizeof source);
    for (int p = 0; p < 5; p++) {
        const int32_t row = s->media[0].row[p];
        assert_int_equal(s->ids[row], w.rules.token_id[0]);
        assert_int_equal(row, p < 2 ? 3 + p : 5 + p - 2 + 1);
    }
    /* rows are the placeholders of the text, however many one spelling stands for */
    const uint32_t begin = s->begins[s->media[0].row[1]];
    assert_int_equal(s->begins[s->media[0].row[0]], begin);
    assert_memory_equal(cs_buf_str(&w.rendering.text) + begin, "<image>", 7);
    close_world(&w);
}

/* Text of pieces is tokenised with the text around it. */
static void pieces_and_text_make_tokens_together(void **state)
{
    static struct cs_media_item items[] = {{.shape = {CS_ITEM_IMAGE, {1, 1, 1}, 1, 3}}};
    static struct cs_media_piece pieces[] = {
        {.kind = CS_MEDIA_ROWS, .n_rows = 1 },
        {.kind = CS_MEDIA_TEXT, .text = "he"},
    };
    struct world w;
    (void)state;
    open_world(&w, "{\"name\":\"plain\"}");
    w.layout = (struct cs_media_layout){
        .n_items = 1, .n_pieces = 2, .n_rows = 1, .items = items, .pieces = pieces};
    assert_int_equal(make(&w, "<image>llo", 1), CS_OK);
    assert_int_equal(w.sample.ids[1], cs_tokenizer_id(w.tok, "hello"));
    close_world(&w);
}

static void wraps_that_stand_in_the_text_are_not_doubled(void **state)
{
    struct world w;
    (void)state;
    /* the template writes both */
    open_world(&w, "{\"name\":\"m\",\"user\":{\"prefix\":\"u<s>\",\"suffix\":\"</s>\"},"
                   "\"assistant\":{\"prefix\":\"\",\"end\":\"\\n\"}}");
    w.layout = mosaic;
    assert_int_equal(make(&w, "<image>", 1), CS_OK);
    assert_text(&w, "u<s>" ROWS2 "he<image>" ROWS2 "</s>c\n");
    /* between two pictures each has its own; the outer ones stand there */
    assert_int_equal(make(&w, "<image><image>", 2), CS_OK);
    assert_text(&w, "u<s>" ROWS2 "he<image>" ROWS2 "</s>\n<s>" ROWS2 "he<image>" ROWS2 "</s>c\n");
    assert_int_equal(w.sample.media[1].medium.n_of_sample, 2);
    close_world(&w);
    /* what a user spells is text */
    open_world(&w, "{\"name\":\"plain\"}");
    w.layout = mosaic;
    assert_int_equal(make(&w, "<s><image></s>", 1), CS_OK);
    assert_text(&w, "<s>\n<s>" ROWS2 "he<image>" ROWS2 "</s></s>\nc\n");
    int n = 0;
    for (int t = 0; t < w.sample.n_tokens; t++)
        n += w.sample.ids[t] == cs_tokenizer_id(w.tok, "<s>");
    assert_int_equal(n, 1);
    close_world(&w);
}

static void samples_that_no_slot_holds_say_why(void **state)
{
    /* clang-format off */
    static const struct {
        struct cs_item_budget budget;
        const char *words;
    } rows[] = {
        {{.items = 1, .rows = 9, .patches = 9, .bytes = 15, .has_sources = true}, "2 items of <image>, a slot takes 1"},
        {{.items = 2, .rows = 4, .patches = 9, .bytes = 15, .has_sources = true}, "5 rows of <image>, a slot takes 4"},
        {{.items = 2, .rows = 5, .patches = 4, .bytes = 15, .has_sources = true}, "5 patches of <image>, a slot takes 4"},
        {{.items = 2, .rows = 5, .patches = 5, .bytes = 14, .has_sources = true}, "15 bytes of <image>, a slot takes 14"},
    };
    /* clang-format on */
    struct world w;
    struct cs_slot_budget budget = {.seq_tokens = 100, .n_encoders = 1};
    (void)state;
    open_world(&w, "{\"name\":\"plain\"}");
    w.layout = mosaic;
    w.rules.limit = &budget;
    for (size_t i = 0; i < CS_ARRAY_LEN(rows); i++) {
        budget.enc[0] = rows[i].budget;
        assert_int_equal(make(&w, "<image>", 1), CS_LIMIT);
        assert_non_null(strstr(w.err.text, rows[i].words));
        assert_int_equal(w.sample.fault, CS_SAMPLE_TOO_LARGE);
        assert_int_equal(w.sample.rows_wanted, 12);
    }
    w.rules.seq_tokens = 11;
    assert_int_equal(make(&w, "<image>", 1), CS_LIMIT);
    assert_non_null(strstr(w.err.text, "12 rows after expansion, seq_tokens is 11"));
    assert_int_equal(w.sample.fault, CS_SAMPLE_TOO_LONG);
    w.rules.seq_tokens = 12;
    budget.enc[0] = (struct cs_item_budget){.items = 2, .rows = 5, .patches = 5, .bytes = 15};
    assert_int_equal(make(&w, "<image>", 1), CS_INVALID);
    assert_non_null(strstr(w.err.text, "a.png: rows of its items are mixed"));
    budget.enc[0].has_sources = true;
    assert_int_equal(make(&w, "<image>", 1), CS_OK);
    close_world(&w);
}

static void layouts_that_do_not_fill_their_rows_are_refused(void **state)
{
    static const int32_t twice[] = {1, 0, 1}, outside[] = {1, 0, 5}, less[] = {1, -1, -1};

    static const struct {
        const int32_t *map;
        const char *words;
    } rows[] = {
        {twice,   "row 1 of 5 is filled twice"                },
        {outside, "row 5 of 5 is filled, there is no such row"},
        {less,    "row 0 of 5 is filled by nothing"           },
        {NULL,    "row 2 of 5 is filled twice"                }, /* the learned one */
    };
    struct cs_media_item items[2] = {mosaic_items[0], mosaic_items[1]};
    struct cs_media_layout l = mosaic;
    struct cs_err err;
    int32_t source[5];
    (void)state;
    l.items = items;
    for (size_t i = 0; i < CS_ARRAY_LEN(rows); i++) {
        items[0].row = rows[i].map;
        assert_int_equal(cs_fills_make(&l, source, &err), CS_CORRUPT);
        if (strstr(err.text, rows[i].words) == NULL)
            fail_msg("\"%s\" does not say \"%s\"", err.text, rows[i].words);
    }
    l.n_rows = 6;
    assert_int_equal(cs_fills_make(&l, source, &err), CS_CORRUPT);
    /* two items in order are plain, whatever lies between their rows in the text */
    items[0].row = items[1].row = NULL;
    items[1].first_row = 3;
    l.n_learned = 0;
    l.n_rows = 5;
    assert_true(cs_fills_are_plain(&l));
    items[1].first_row = 2;
    assert_false(cs_fills_are_plain(&l));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces_take_the_place_of_a_placeholder),
        cmocka_unit_test(pieces_and_text_make_tokens_together),
        cmocka_unit_test(wraps_that_stand_in_the_text_are_not_doubled),
        cmocka_unit_test(samples_that_no_slot_holds_say_why),
        cmocka_unit_test(layouts_that_do_not_fill_their_rows_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
