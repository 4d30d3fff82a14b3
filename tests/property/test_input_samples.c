/* Properties of the input path on random texts and conversations. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "core/base/str.h"
#include "input/data/record/record.h"
#include "input/data/sample.h"
#include "support/chat.h"
#include "support/keys.h"

static uint64_t next_random(uint64_t *s)
{
    *s ^= *s << 13;
    *s ^= *s >> 7;
    *s ^= *s << 17;
    return *s;
}

static struct cs_tokenizer *open_tokenizer(bool is_nfc)
{
    json_t *json = chat_tokenizer_json();
    struct cs_tokenizer *tok = NULL;

    if (is_nfc)
        json_object_set_new(json, "normalizer", json_pack("{s:s}", "type", "NFC"));
    char *text = json_dumps(json, JSON_COMPACT);
    assert_int_equal(cs_tokenizer_parse(text, strlen(text), "t", &tok, NULL), CS_OK);
    free(text);
    json_decref(json);
    return tok;
}

static void put_utf8(struct cs_buf *out, uint32_t c)
{
    char b[4];

    if (c < 0x80) {
        cs_buf_addc(out, (char)c);
    } else if (c < 0x800) {
        b[0] = (char)(0xc0 | c >> 6);
        b[1] = (char)(0x80 | (c & 63));
        cs_buf_add(out, b, 2);
    } else if (c < 0x10000) {
        b[0] = (char)(0xe0 | c >> 12);
        b[1] = (char)(0x80 | (c >> 6 & 63));
        b[2] = (char)(0x80 | (c & 63));
        cs_buf_add(out, b, 3);
    } else {
        b[0] = (char)(0xf0 | c >> 18);
        b[1] = (char)(0x80 | (c >> 12 & 63));
        b[2] = (char)(0x80 | (c >> 6 & 63));
        b[3] = (char)(0x80 | (c & 63));
        cs_buf_add(out, b, 4);
    }
}

static void random_text(uint64_t *s, bool is_utf8, struct cs_buf *out)
{
    static const char *const words[] = {"hello",      " red",  "<s>", "<image>",
                                        "<|im_end|>", "\r\n",  "  ",  "e\xcc\x81",
                                        "'s",         "12345", "\t"};
    size_t n = next_random(s) % 60;

    cs_buf_reset(out);
    for (size_t i = 0; i < n; i++) {
        uint64_t r = next_random(s);
        if (r % 3 == 0) {
            cs_buf_adds(out, words[r / 3 % CS_ARRAY_LEN(words)]);
        } else if (is_utf8) {
            uint32_t c = (uint32_t)(r >> 8) % (r % 2 == 0 ? 0x300 : 0x20000);
            put_utf8(out, c >= 0xd800 && c <= 0xdfff ? 'x' : c);
        } else {
            cs_buf_addc(out, (char)(r >> 8));
        }
    }
}

/* bytes or UTF-8, specials on or off: decoding gives the text back, tokens tile it in order */
static void decode_inverts_encode(void **state)
{
    struct cs_tokenizer *tok = open_tokenizer(false);
    struct cs_buf text = {0}, back = {0};
    struct cs_tokens t = {0};
    uint64_t seed = 88172645463325252u;

    (void)state;
    for (int round = 0; round < 4000; round++) {
        uint32_t at = 0;
        random_text(&seed, round % 2 == 0, &text);
        t.n = 0;
        cs_buf_reset(&back);
        assert_int_equal(
            cs_tokenizer_encode(tok, cs_buf_str(&text), text.len, round % 4 < 2, &t, NULL), CS_OK);
        for (size_t i = 0; i < t.n; i++) {
            assert_int_equal(t.items[i].begin, at);
            assert_true(t.items[i].end > at);
            at = t.items[i].end;
            if (round % 4 >= 2)
                assert_false(cs_tokenizer_is_special(tok, t.items[i].id));
            assert_int_equal(cs_tokenizer_decode(tok, &t.items[i].id, 1, false, &back, NULL),
                             CS_OK);
        }
        assert_int_equal(at, text.len);
        assert_int_equal(back.len, text.len);
        if (text.len > 0)
            assert_memory_equal(back.data, text.data, text.len);
    }
    cs_tokens_free(&t);
    cs_buf_free(&text);
    cs_buf_free(&back);
    cs_tokenizer_close(tok);
}

/* with NFC offsets still point into the source and never go back */
static void nfc_offsets_stay_in_order(void **state)
{
    struct cs_tokenizer *tok = open_tokenizer(true);
    struct cs_buf text = {0};
    struct cs_tokens t = {0};
    uint64_t seed = 99;

    (void)state;
    for (int round = 0; round < 4000; round++) {
        uint32_t at = 0;
        random_text(&seed, round % 2 == 0, &text);
        t.n = 0;
        assert_int_equal(cs_tokenizer_encode(tok, cs_buf_str(&text), text.len, false, &t, NULL),
                         CS_OK);
        for (size_t i = 0; i < t.n; i++) {
            assert_true(t.items[i].begin >= at && t.items[i].begin <= t.items[i].end);
            assert_true(t.items[i].end <= text.len);
            at = t.items[i].begin;
        }
    }
    cs_tokens_free(&t);
    cs_buf_free(&text);
    cs_tokenizer_close(tok);
}

static json_t *random_item(uint64_t *s, int *n_images, int *n_answers)
{
    json_t *turns = json_array(), *images = json_array();
    int n = 1 + (int)(next_random(s) % 4);
    struct cs_buf text = {0};

    *n_images = *n_answers = 0;
    for (int i = 0; i < n; i++) {
        cs_buf_reset(&text);
        cs_buf_adds(&text, "hello ");
        for (uint64_t k = next_random(s) % 3; k > 0; k--) {
            cs_buf_adds(&text, "<image> red");
            json_array_append_new(images, json_sprintf("%d.png", (*n_images)++));
        }
        json_array_append_new(turns, json_pack("{s:s,s:s}", "from", "human", "value", text.data));
        json_array_append_new(turns,
                              json_pack("{s:s,s:s}", "from", "gpt", "value",
                                        next_random(s) % 2 == 0 ? "red <image> </s>" : " hello\n"));
        (*n_answers)++;
    }
    cs_buf_free(&text);
    return json_pack("{s:o,s:o}", "images", images, "conversations", turns);
}

/* B-11, B-31, B-34, B-37: arrays of one length, media where they belong, every turn end trains */
static void samples_keep_their_invariants(void **state)
{
    static const char *const names[] = {"chatml", "llama3", "vicuna_v1", "plain"};
    static const char *const tokens[] = {"<image>"};
    struct cs_tokenizer *tok = open_tokenizer(false);
    struct cs_arena *arena = cs_arena_new(0);
    struct cs_rendering rendering = {0};
    uint64_t seed = 4711;

    (void)state;
    for (int round = 0; round < 2000; round++) {
        struct cs_template chat;
        struct cs_sample_rules rules;
        struct cs_sample s;
        struct cs_record *record = NULL;
        struct cs_err err = {0};
        int n_images = 0, n_answers = 0, n_ends = 0, n_media_rows = 0, n_labels = 0;
        json_t *node = json_pack("{s:s}", "name", names[round % 4]);
        json_t *item = random_item(&seed, &n_images, &n_answers);
        assert_int_equal(cs_template_read(node, arena, &chat, &err), CS_OK);
        assert_int_equal(cs_sample_rules_init(&rules, tok, &chat, tokens, 1, &err), CS_OK);
        rules.rows[0] = 1 + round % 5;
        assert_int_equal(cs_record_read(item, test_keys(tokens, 1, arena), NULL, &record, &err),
                         CS_OK);
        if (cs_sample_make(&rules, record, &rendering, &s, &err) != CS_OK)
            fail_msg("%s", err.text);
        int32_t end =
            cs_tokenizer_id(tok, round % 4 == 3 ? "\xc4\x8a" : chat.turn[CS_TURN_ASSISTANT].end);
        assert_int_equal(s.n_media, n_images);
        for (int t = 0; t < s.n_tokens; t++) {
            n_media_rows += s.ids[t] == rules.token_id[0];
            n_labels += s.labels[t] >= 0;
            n_ends += s.labels[t] == end && (t + 2 >= s.n_tokens || s.labels[t + 1] == -1);
            assert_true(s.labels[t] == -1 || s.labels[t] == s.ids[t + 1]);
            assert_int_not_equal(s.labels[t], rules.token_id[0]);
        }
        assert_int_equal(n_labels, s.n_labels);
        assert_int_equal(n_media_rows, n_images * rules.rows[0]);
        assert_int_equal(n_ends, n_answers);
        for (int m = 0; m < s.n_media; m++) {
            assert_int_equal(atoi(s.media[m].file->name), m);
            for (int k = 0; k < rules.rows[0]; k++)
                assert_int_equal(s.ids[s.media[m].row[0] + k], rules.token_id[0]);
        }
        cs_sample_free(&s);
        cs_record_free(record);
        json_decref(item);
        json_decref(node);
    }
    cs_rendering_free(&rendering);
    cs_arena_free(arena);
    cs_tokenizer_close(tok);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(decode_inverts_encode),
        cmocka_unit_test(nfc_offsets_stay_in_order),
        cmocka_unit_test(samples_keep_their_invariants),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
