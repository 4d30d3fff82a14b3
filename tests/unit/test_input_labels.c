/* Chat templates and labels: golden texts of what is rendered and of what trains, per template. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "input/data/record/record.h"
#include "input/data/sample.h"
#include "input/data/shard/json_tolerant.h"
#include "support/chat.h"
#include "support/keys.h"

struct world {
    struct cs_arena *arena;
    struct cs_tokenizer *tok;
    struct cs_template chat;
    struct cs_sample_rules rules;
    struct cs_rendering rendering;
    struct cs_err err;
};

static const char *const tokens[] = {"<image>"};

/* post: a post_processor of the tokenizer, "": none */
static void open_world_with(struct world *w, const char *template_json, const char *post)
{
    json_t *tok = chat_tokenizer_json(), *node = NULL;
    if (post[0] != '\0')
        json_object_set_new(tok, "post_processor", json_loads(post, 0, NULL));
    char *text = json_dumps(tok, JSON_COMPACT);

    memset(w, 0, sizeof(*w));
    w->arena = cs_arena_new(0);
    assert_int_equal(cs_tokenizer_parse(text, strlen(text), "tok", &w->tok, &w->err), CS_OK);
    node = json_loads(template_json, JSON_DECODE_ANY, NULL);
    assert_non_null(node);
    if (cs_template_read(node, w->arena, &w->chat, &w->err) != CS_OK ||
        cs_sample_rules_init(&w->rules, w->tok, &w->chat, tokens, 1, &w->err) != CS_OK)
        fail_msg("%s", w->err.text);
    w->rules.rows[0] = 3;
    json_decref(node);
    json_decref(tok);
    free(text);
}

static void open_world(struct world *w, const char *template_json)
{
    open_world_with(w, template_json, "");
}

static void close_world(struct world *w)
{
    cs_rendering_free(&w->rendering);
    cs_tokenizer_close(w->tok);
    cs_arena_free(w->arena);
}

static enum cs_status make(struct world *w, const char *item, struct cs_record **record,
                           struct cs_sample *sample)
{
    json_t *json = NULL;
    enum cs_status status = cs_json_tolerant(item, strlen(item), 0, &json, &w->err);

    *record = NULL;
    if (status == CS_OK)
        status = cs_record_read(json, test_keys(tokens, 1, w->arena), NULL, record, &w->err);
    if (status == CS_OK)
        status = cs_sample_make(&w->rules, *record, &w->rendering, sample, &w->err);
    json_decref(json);
    return status;
}

/* Decoded trained tokens, spans separated by '|'; the row before each span must predict it. */
static void trained(const struct world *w, const struct cs_sample *s, struct cs_buf *out)
{
    for (int t = 0; t < s->n_tokens; t++) {
        if (s->labels[t] < 0)
            continue;
        assert_int_equal(s->labels[t], s->ids[t + 1]);
        if (out->len > 0 && (t == 0 || s->labels[t - 1] < 0))
            cs_buf_addc(out, '|');
        assert_int_equal(cs_tokenizer_decode(w->tok, &s->labels[t], 1, false, out, NULL), CS_OK);
    }
}

static void expect(const char *template_json, const char *item, const char *text,
                   const char *labels)
{
    struct world w;
    struct cs_record *record = NULL;
    struct cs_sample s = {0};
    struct cs_buf got = {0};

    open_world(&w, template_json);
    if (make(&w, item, &record, &s) != CS_OK)
        fail_msg("%s", w.err.text);
    assert_string_equal(cs_buf_str(&w.rendering.text), text);
    trained(&w, &s, &got);
    assert_string_equal(cs_buf_str(&got), labels);
    cs_buf_free(&got);
    cs_sample_free(&s);
    cs_record_free(record);
    close_world(&w);
}

static void expect_bad(const char *template_json, const char *item, enum cs_status status,
                       const char *reason)
{
    struct world w;
    struct cs_record *record = NULL;
    struct cs_sample s = {0};
    enum cs_status got = CS_OK;

    open_world(&w, template_json);
    w.rules.seq_tokens = 120;
    got = make(&w, item, &record, &s);
    if (got != status || strstr(w.err.text, reason) == NULL)
        fail_msg("got %s \"%s\", want \"%s\"", cs_status_slug(got), w.err.text, reason);
    assert_null(s.ids);
    cs_record_free(record);
    close_world(&w);
}

#define TALK                                                                                       \
    "{\"conversations\":[{\"from\":\"human\",\"value\":\"hello\"},"                                \
    "{\"from\":\"gpt\",\"value\":\"red\"},{\"from\":\"human\",\"value\":\"red\"},"                 \
    "{\"from\":\"gpt\",\"value\":\"hello red\"}]}"

static void chatml_trains_answers_and_im_end(void **state)
{
    (void)state;
    expect("{\"name\":\"chatml\"}", TALK,
           "<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n<|im_start|>user\nhello"
           "<|im_end|>\n<|im_start|>assistant\nred<|im_end|>\n<|im_start|>user\nred<|im_end|>\n"
           "<|im_start|>assistant\nhello red<|im_end|>\n",
           "red<|im_end|>|hello red<|im_end|>");
}

static void llama3_trains_answers_and_eot(void **state)
{
    (void)state;
    expect("{\"name\":\"llama3\"}", TALK,
           "<|begin_of_text|><|start_header_id|>user<|end_header_id|>\n\nhello<|eot_id|>"
           "<|start_header_id|>assistant<|end_header_id|>\n\nred<|eot_id|>"
           "<|start_header_id|>user<|end_header_id|>\n\nred<|eot_id|>"
           "<|start_header_id|>assistant<|end_header_id|>\n\nhello red<|eot_id|>",
           "red<|eot_id|>|hello red<|eot_id|>");
}

static void vicuna_trains_the_space_answers_and_eos(void **state)
{
    (void)state;
    expect("{\"name\":\"vicuna_v1\",\"default_system\":\"S\"}", TALK,
           "<s>S USER: hello ASSISTANT: red</s>USER: red ASSISTANT: hello red</s>",
           " red</s>| hello red</s>");
}

static void plain_trains_answers_and_newline(void **state)
{
    (void)state;
    expect("{\"name\":\"plain\"}", TALK, "hello\nred\nred\nhello red\n", "red\n|hello red\n");
}

static void last_turn_only_and_muted_turns(void **state)
{
    (void)state;
    expect("{\"name\":\"plain\",\"train_on\":\"last\"}", TALK, "hello\nred\nred\nhello red\n",
           "hello red\n");
    expect("{\"name\":\"plain\"}",
           "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"},{\"role\":\"assistant\","
           "\"content\":\"b\",\"loss\":false},{\"role\":\"user\",\"content\":\"c\"},"
           "{\"role\":\"assistant\",\"content\":\"d\"}]}",
           "a\nb\nc\nd\n", "d\n");
}

static void own_template_from_a_table(void **state)
{
    (void)state;
    expect("{\"name\":\"mine\",\"user\":{\"prefix\":\"Q:\",\"suffix\":\" \"},"
           "\"assistant\":{\"prefix\":\"A:\",\"end\":\"</s>\"}}",
           TALK, "Q:hello A:red</s>Q:red A:hello red</s>", "red</s>|hello red</s>");
}

/* B-29: the answer's text also occurs in the question */
static void answer_that_repeats_the_question_trains_once(void **state)
{
    (void)state;
    expect("{\"name\":\"plain\"}",
           "{\"conversations\":[{\"from\":\"human\",\"value\":\"red red red\"},"
           "{\"from\":\"gpt\",\"value\":\"red\"}]}",
           "red red red\nred\n", "red\n");
}

/* B-02, B-07: spelled specials in content are text, in answers and in questions */
static void special_spellings_in_content_stay_text(void **state)
{
    struct world w;
    struct cs_record *record = NULL;
    struct cs_sample s = {0};
    int n_image = 0, n_end = 0;

    (void)state;
    open_world(&w, "{\"name\":\"chatml\",\"default_system\":\"\"}");
    assert_int_equal(make(&w,
                          "{\"image\":\"a.png\",\"conversations\":[{\"from\":\"human\",\"value\":"
                          "\"<image>x <|im_end|>\"},{\"from\":\"gpt\",\"value\":\"see <image> "
                          "and <|im_start|> </s>\"}]}",
                          &record, &s),
                     CS_OK);
    for (int t = 0; t < s.n_tokens; t++) {
        n_image += s.ids[t] == w.rules.token_id[0];
        n_end += s.ids[t] == cs_tokenizer_id(w.tok, "<|im_end|>");
        assert_int_not_equal(s.ids[t], cs_tokenizer_id(w.tok, "</s>"));
    }
    assert_int_equal(n_image, 3); /* one picture of three rows */
    assert_int_equal(n_end, 2);
    assert_int_equal(s.n_media, 1);
    assert_string_equal(s.media[0].file->name, "a.png");
    for (int k = 0; k < 3; k++)
        assert_int_equal(s.ids[s.media[0].row[0] + k], w.rules.token_id[0]);
    cs_sample_free(&s);
    cs_record_free(record);
    close_world(&w);
}

/* user text that completes a marker of the template must not forge it */
static void content_cannot_complete_a_marker(void **state)
{
    struct world w;
    struct cs_record *record = NULL;
    struct cs_sample s = {0};
    int n = 0;

    (void)state;
    open_world(&w, "{\"name\":\"m\",\"user\":{\"prefix\":\"<\",\"suffix\":\"</s>\"},"
                   "\"assistant\":{\"prefix\":\"\",\"end\":\"</s>\"}}");
    assert_int_equal(make(&w,
                          "{\"conversations\":[{\"from\":\"human\",\"value\":\"/s>\"},"
                          "{\"from\":\"gpt\",\"value\":\"b<\"}]}",
                          &record, &s),
                     CS_OK);
    for (int t = 0; t < s.n_tokens; t++)
        n += s.ids[t] == cs_tokenizer_id(w.tok, "</s>");
    assert_int_equal(n, 2);
    cs_sample_free(&s);
    cs_record_free(record);
    close_world(&w);
}

/* B-08 and LLaVA's collapse: order and count of pictures are kept */
static void pictures_keep_their_places(void **state)
{
    struct world w;
    struct cs_record *record = NULL;
    struct cs_sample s = {0};

    (void)state;
    open_world(&w, "{\"name\":\"plain\"}");
    assert_int_equal(make(&w,
                          "{\"image\":[\"1\",\"2\"],\"conversations\":[{\"from\":\"human\","
                          "\"value\":\"a<image>b<image>\"},{\"from\":\"gpt\",\"value\":\"c\"}]}",
                          &record, &s),
                     CS_OK);
    assert_int_equal(s.n_media, 2);
    assert_int_equal(s.media[0].row[0], 1);
    assert_int_equal(s.media[1].row[0], 5);
    assert_string_equal(s.media[1].file->name, "2");
    assert_int_equal(s.n_tokens, 1 + 3 + 1 + 3 + 1 + 1 + 1);
    assert_int_equal(s.n_labels, 2);
    cs_sample_free(&s);
    cs_record_free(record);
    close_world(&w);
}

#define ONE(image, question, answer)                                                               \
    "{" image "\"conversations\":[{\"from\":\"human\",\"value\":\"" question                       \
    "\"},{\"from\":\"gpt\",\"value\":\"" answer "\"}]}"

static void missing_placeholder_is_prepended_or_rejected(void **state)
{
    (void)state;
    expect("{\"name\":\"plain\"}", ONE("\"image\":\"p\",", "hello", "red"), "<image>\nhello\nred\n",
           "red\n");
    expect_bad("{\"name\":\"plain\",\"missing_placeholder\":\"reject\"}",
               ONE("\"image\":\"p\",", "hello", "red"), CS_INVALID, "0 placeholders <image> for 1");
}

static void bad_samples_say_why(void **state)
{
    const char *plain = "{\"name\":\"plain\"}";

    (void)state;
    expect_bad(plain, ONE("", "<image>", "a"), CS_INVALID, "1 placeholder <image> for 0 files");
    expect_bad(plain, ONE("\"image\":\"p\",", "<image><image>", "a"), CS_INVALID, "2 placeholders");
    expect_bad(plain, ONE("", "q", ""), CS_INVALID, "empty answer");
    expect_bad(plain, ONE("", "q", " \\n "), CS_INVALID, "empty answer");
    expect_bad(plain, "{\"conversations\":[{\"from\":\"human\",\"value\":\"q\"}]}", CS_INVALID,
               "no assistant turn");
    expect_bad(plain, "{\"conversations\":[]}", CS_INVALID, "no user turn");
    expect_bad(plain, "{\"id\":3}", CS_INVALID, "no list \"conversations\"");
    expect_bad(plain, "[1]", CS_INVALID, "not an object");
    expect_bad(plain, "{\"conversations\":[{\"from\":\"robot\",\"value\":\"q\"}]}", CS_UNSUPPORTED,
               "conversations[0].from \"robot\" is not supported");
    expect_bad(plain, "{\"conversations\":[{\"from\":\"human\",\"value\":5}]}", CS_INVALID,
               "conversations[0].value is 5: it must be a text");
    expect_bad(plain, ONE("\"image\":7,", "q", "a"), CS_INVALID, "image is 7");
    expect_bad(plain, "{\"conversations\":[", CS_CORRUPT, "JSON");
    expect_bad(plain,
               "{\"messages\":[{\"role\":\"user\",\"content\":\"q\"},{\"role\":\"assistant\","
               "\"content\":\"a\",\"loss\":false}]}",
               CS_INVALID, "no token of it trains");
}

/* B-10: the length counts after expansion; the whole sample is dropped */
static void too_long_after_expansion_is_dropped_whole(void **state)
{
    (void)state;
    expect_bad("{\"name\":\"plain\"}",
               "{\"image\":[\"1\",\"2\",\"3\",\"4\",\"5\",\"6\",\"7\",\"8\",\"9\",\"10\",\"11\","
               "\"12\",\"13\",\"14\",\"15\",\"16\",\"17\",\"18\",\"19\",\"20\"],\"conversations\":"
               "[{\"from\":\"human\",\"value\":\""
               "abcdefghijabcdefghijabcdefghijabcdefghij\"},{\"from\":\"gpt\",\"value\":\"a\"}]}",
               CS_LIMIT, "rows after expansion, seq_tokens is 120");
}

static void python_json_is_accepted(void **state)
{
    (void)state;
    expect("{\"name\":\"plain\"}",
           "{\"score\":NaN,\"x\":[Infinity,-Infinity],\"id\":123456789012345678901234567890,"
           "\"conversations\":[{\"from\":\"human\",\"value\":\"a\\ud83d\\ude00b\"},"
           "{\"from\":\"gpt\",\"value\":\"\\ud83d\\ude00NaN\"}]}",
           "a\xf0\x9f\x98\x80"
           "b\n\xf0\x9f\x98\x80NaN\n",
           "\xf0\x9f\x98\x80NaN\n");
}

static void template_mistakes_are_named(void **state)
{
    static const struct {
        const char *json, *text;
    } rows[] = {
        {"{\"name\":\"chatmI\"}",          "did you mean \"chatml\""         },
        {"{\"usr\":{}}",                   "did you mean \"user\""           },
        {"{\"user\":{\"prefx\":\"\"}}",    "did you mean \"prefix\""         },
        {"{\"user\":3}",                   "template.user: must be an object"},
        {"{\"trim\":3}",                   "true or false"                   },
        {"{\"train_on\":\"some\"}",        "\"all\" or \"last\""             },
        {"{\"thinking\":\"keep\"}",        "chatml has no thoughts"          },
        {"{\"think\":{\"open\":\"<t>\"}}", "\"open\" and \"close\""          },
        {"{\"system_in\":\"here\"}",       "\"own\" or \"first\" or \"last\""},
        {"{\"assistant\":{\"end\":\"\"}}", "assistant.end"                   },
        {"[]",                             "must be an object"               },
    };
    struct cs_arena *arena = cs_arena_new(0);

    (void)state;
    for (size_t i = 0; i < CS_ARRAY_LEN(rows); i++) {
        struct cs_template chat;
        struct cs_err err = {0};
        json_t *node = json_loads(rows[i].json, 0, NULL);
        assert_int_equal(cs_template_read(node, arena, &chat, &err), CS_INVALID);
        if (strstr(err.text, rows[i].text) == NULL)
            fail_msg("%s: %s", rows[i].json, err.text);
        json_decref(node);
    }
    cs_arena_free(arena);
}

static void template_needs_its_tokens(void **state)
{
    struct world w;
    struct cs_err err = {0};
    json_t *node = json_loads("{\"assistant\":{\"end\":\"<|done|>\"}}", 0, NULL);
    struct cs_template chat;

    (void)state;
    open_world(&w, "null");
    assert_string_equal(w.chat.name, "chatml");
    assert_int_equal(cs_template_read(node, w.arena, &chat, &err), CS_OK);
    assert_int_equal(cs_template_check(&chat, w.tok, &err), CS_INVALID);
    assert_non_null(strstr(err.text, "<|done|>"));
    json_decref(node);
    close_world(&w);
}

/* As tokenizer(text) of transformers; chat templates do without. */
static void what_the_tokenizer_puts_around_a_text_is_there_where_it_is_asked_for(void **state)
{
    static const char *const wants[] = {"{\"name\":\"plain\"}",
                                        "{\"name\":\"vicuna_v1\",\"add_special_tokens\":true}"};
    static const char *const refuses[] = {"{\"name\":\"plain\",\"add_special_tokens\":false}",
                                          "{\"name\":\"vicuna_v1\"}"};
    struct cs_record *record = NULL;
    struct cs_sample sample = {0};
    char post[400];
    struct world w;

    (void)state;
    for (int i = 0; i < 4; i++) {
        const bool is_around = i < 2;
        open_world(&w, is_around ? wants[i] : refuses[i - 2]);
        const int bos = cs_tokenizer_id(w.tok, "<s>"), eos = cs_tokenizer_id(w.tok, "</s>");
        close_world(&w);
        snprintf(post, sizeof post,
                 "{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":\"<s>\"}},"
                 "{\"Sequence\":"
                 "{\"id\":\"A\"}},{\"SpecialToken\":{\"id\":\"</"
                 "s>\"}}],\"special_tokens\":{\"<s>\":{\"ids\":[%d,%d]},"
                 "\"</s>\":{\"ids\":[%d]}}}",
                 bos, bos, eos);
        open_world_with(&w, is_around ? wants[i] : refuses[i - 2], post);
        assert_int_equal(make(&w, ONE("\"image\":\"p\",", "<image>hello", "red"), &record, &sample),
                         CS_OK);
        const int n = sample.n_tokens;
        assert_int_equal(sample.ids[0] == bos && sample.ids[1] == bos, is_around);
        assert_int_equal(sample.ids[n - 1] == eos && sample.labels[n - 2] == eos &&
                             sample.labels[n - 3] >= 0,
                         is_around || i == 3); /* an answer of Vicuna ends with it */
        assert_int_equal(sample.labels[0], -1);
        assert_int_equal(sample.ids[sample.media[0].row[0]], w.rules.token_id[0]);
        cs_sample_free(&sample);
        cs_record_free(record);
        close_world(&w);
    }
}

static void a_text_alone_is_trained_where_the_template_takes_it(void **state)
{
    (void)state;
    expect("{\"name\":\"plain\"}", "{\"text\":\"hello red\"}", "hello red\n", " red\n");
    expect_bad("{\"name\":\"chatml\"}", "{\"text\":\"hello red\"}", CS_INVALID,
               "a text without a question: template chatml");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chatml_trains_answers_and_im_end),
        cmocka_unit_test(llama3_trains_answers_and_eot),
        cmocka_unit_test(vicuna_trains_the_space_answers_and_eos),
        cmocka_unit_test(plain_trains_answers_and_newline),
        cmocka_unit_test(last_turn_only_and_muted_turns),
        cmocka_unit_test(own_template_from_a_table),
        cmocka_unit_test(answer_that_repeats_the_question_trains_once),
        cmocka_unit_test(special_spellings_in_content_stay_text),
        cmocka_unit_test(content_cannot_complete_a_marker),
        cmocka_unit_test(pictures_keep_their_places),
        cmocka_unit_test(missing_placeholder_is_prepended_or_rejected),
        cmocka_unit_test(bad_samples_say_why),
        cmocka_unit_test(too_long_after_expansion_is_dropped_whole),
        cmocka_unit_test(python_json_is_accepted),
        cmocka_unit_test(template_mistakes_are_named),
        cmocka_unit_test(template_needs_its_tokens),
        cmocka_unit_test(what_the_tokenizer_puts_around_a_text_is_there_where_it_is_asked_for),
        cmocka_unit_test(a_text_alone_is_trained_where_the_template_takes_it),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
