/* Tokenizers of every kind of file: the ids and the decoded texts of `tokenizers`, `sentencepiece` and
 * `tiktoken` (tests/golden/tokenizers.json), and what is wrong with broken files. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "input/tok/files/made.h"
#include "input/tok/text/forms.h"
#include "input/tok/tokenizer.h"
#include "support/tmpdir.h"

static json_t *golden;

static int load(void **state)
{
    (void)state;
    golden = json_load_file(source_path("tests/golden/tokenizers.json"), 0, NULL);
    return golden == NULL;
}

static int unload(void **state)
{
    (void)state;
    json_decref(golden);
    return 0;
}

static void add_hex(const char *hex, struct cs_buf *out)
{
    for (; hex[0] != '\0' && hex[1] != '\0'; hex += 2) {
        const char pair[] = {hex[0], hex[1], '\0'};
        cs_buf_addc(out, (char)strtol(pair, NULL, 16));
    }
}

static const json_t *find_case(const char *name)
{
    const json_t *one = NULL;
    size_t i = 0;

    json_array_foreach(json_object_get(golden, "cases"), i, one)
    {
        if (strcmp(json_string_value(json_object_get(one, "name")), name) == 0)
            return one;
    }
    fail_msg("no case %s", name);
    return NULL;
}

/* The file of a case. */
static struct cs_buf content_of(const json_t *one)
{
    const json_t *text = json_object_get(one, "base64");
    struct cs_buf out = {0};

    if (text != NULL) {
        assert_true(tok_base64(json_string_value(text), json_string_length(text), &out));
    } else {
        char *json = json_dumps(json_object_get(one, "json"), JSON_COMPACT);
        cs_buf_adds(&out, json);
        free(json);
    }
    return out;
}

static struct cs_tokenizer *open_case(const json_t *one, const char *dir)
{
    const char *file = json_string_value(json_object_get(one, "file"));
    struct cs_buf content = content_of(one);
    struct cs_tokenizer *tok = NULL;
    struct cs_err err = {0};

    tmpdir_write(tmpdir_path(dir, file), cs_buf_str(&content), content.len);
    if (cs_tokenizer_open(dir, &tok, &err) != CS_OK)
        fail_msg("%s: %s", json_string_value(json_object_get(one, "name")), err.text);
    cs_buf_free(&content);
    return tok;
}

static void compare_text(const struct cs_tokenizer *tok, const json_t *one, size_t i)
{
    const char *name = json_string_value(json_object_get(one, "name"));
    const bool is_special =
        strcmp(json_string_value(json_object_get(one, "file")), "tokenizer.json") == 0;
    const json_t *want = json_array_get(json_object_get(one, "ids"), i);
    const json_t *back = json_array_get(json_object_get(one, "decoded"), i);
    struct cs_buf text = {0}, got_text = {0}, want_text = {0};
    struct cs_tokens got = {0};
    int32_t *ids = NULL;

    add_hex(json_string_value(json_array_get(json_object_get(golden, "texts"), i)), &text);
    assert_int_equal(cs_tokenizer_encode(tok, cs_buf_str(&text), text.len, is_special, &got, NULL),
                     CS_OK);
    if (got.n != json_array_size(want))
        fail_msg("%s: text %zu has %zu tokens, not %zu", name, i, got.n, json_array_size(want));
    ids = calloc(got.n + 1, sizeof *ids);
    for (size_t k = 0; k < got.n; k++) {
        const struct cs_token *t = &got.items[k];
        ids[k] = t->id;
        if (t->id != json_integer_value(json_array_get(want, k)))
            fail_msg("%s: text %zu: token %zu is %d", name, i, k, t->id);
        if (t->begin > t->end || t->end > text.len || (k > 0 && t->begin < t[-1].begin))
            fail_msg("%s: text %zu: token %zu stands at %u to %u", name, i, k, t->begin, t->end);
    }
    assert_int_equal(cs_tokenizer_decode(tok, ids, got.n, false, &got_text, NULL), CS_OK);
    if (json_is_string(back)) {
        add_hex(json_string_value(back), &want_text);
        if (strcmp(cs_buf_str(&got_text), cs_buf_str(&want_text)) != 0)
            fail_msg("%s: text %zu comes back as \"%s\", not \"%s\"", name, i,
                     cs_buf_str(&got_text), cs_buf_str(&want_text));
    }
    free(ids);
    cs_tokens_free(&got);
    cs_buf_free(&text);
    cs_buf_free(&got_text);
    cs_buf_free(&want_text);
}

static void every_kind_equals_its_original(void **state)
{
    const size_t n_texts = json_array_size(json_object_get(golden, "texts"));
    const json_t *one = NULL;
    size_t i = 0;

    (void)state;
    assert_true(n_texts >= 30);
    json_array_foreach(json_object_get(golden, "cases"), i, one)
    {
        char *dir = tmpdir_new();
        struct cs_tokenizer *tok = open_case(one, dir);
        for (size_t k = 0; k < n_texts; k++)
            compare_text(tok, one, k);
        cs_tokenizer_close(tok);
        tmpdir_free(dir);
    }
    assert_true(i >= 30);
}

/* Special tokens are found only where that is allowed, also by models that have them as pieces. */
static void no_model_makes_a_special_token_of_text(void **state)
{
    static const char *const names[] = {"t5-Unigram", "sp-unigram-bytes", "sp-bpe", "tekken",
                                        "words"};
    static const char text[] = "a <s> b</s><|im_end|> <unk>";

    (void)state;
    for (size_t i = 0; i < CS_ARRAY_LEN(names); i++) {
        char *dir = tmpdir_new();
        struct cs_tokenizer *tok = open_case(find_case(names[i]), dir);
        const int32_t s = cs_tokenizer_id(tok, "<s>"), unk = cs_tokenizer_id(tok, "<unk>");
        struct cs_tokens got = {0};
        int n_special = 0;
        assert_true(s >= 0 && unk >= 0 && cs_tokenizer_is_special(tok, s));
        assert_int_equal(cs_tokenizer_encode(tok, text, strlen(text), false, &got, NULL), CS_OK);
        for (size_t k = 0; k < got.n; k++)
            if (cs_tokenizer_is_special(tok, got.items[k].id) && got.items[k].id != unk)
                fail_msg("%s: token %zu is special", names[i], k);
        got.n = 0;
        assert_int_equal(cs_tokenizer_encode(tok, text, strlen(text), true, &got, NULL), CS_OK);
        for (size_t k = 0; k < got.n; k++)
            n_special += got.items[k].id == s;
        assert_int_equal(n_special, 1);
        cs_tokens_free(&got);
        cs_tokenizer_close(tok);
        tmpdir_free(dir);
    }
}

/* The mark of a word's beginning: before the text alone, or (legacy) after special tokens too. */
static void a_text_after_a_special_token_begins_as_the_configuration_says(void **state)
{
    static const struct {
        const char *config;
        int n_marked; /* of "the" at the beginning and behind the special token */
    } rows[] = {
        {"{}",                            1},
        {"{\"legacy\": true}",            2},
        {"{\"add_prefix_space\": false}", 0},
    };

    (void)state;
    for (size_t i = 0; i < CS_ARRAY_LEN(rows); i++) {
        char *dir = tmpdir_new();
        tmpdir_write(tmpdir_path(dir, "tokenizer_config.json"), rows[i].config,
                     strlen(rows[i].config));
        struct cs_tokenizer *tok = open_case(find_case("sp-bpe"), dir);
        const int32_t marked = cs_tokenizer_id(tok, "\xe2\x96\x81the");
        struct cs_tokens got = {0};
        int n_marked = 0;
        assert_true(marked >= 0);
        assert_int_equal(cs_tokenizer_encode(tok, "the</s>the", 10, true, &got, NULL), CS_OK);
        for (size_t k = 0; k < got.n; k++)
            n_marked += got.items[k].id == marked;
        assert_int_equal(n_marked, rows[i].n_marked);
        cs_tokens_free(&got);
        cs_tokenizer_close(tok);
        tmpdir_free(dir);
    }
}

static void long_texts_are_not_quadratic(void **state)
{
    static const char *const names[] = {"t5-Unigram", "sp-unigram", "sp-bpe",
                                        "llama2",     "tekken",     "gemma"};
    const size_t n = 300000;
    char *text = malloc(n);

    (void)state;
    for (size_t i = 0; i < CS_ARRAY_LEN(names); i++) {
        char *dir = tmpdir_new();
        struct cs_tokenizer *tok = open_case(find_case(names[i]), dir);
        for (int k = 0; k < 3; k++) {
            struct cs_tokens got = {0};
            memset(text, "a <"[k], n);
            assert_int_equal(cs_tokenizer_encode(tok, text, n, true, &got, NULL), CS_OK);
            assert_true(got.n <= n + 1);
            cs_tokens_free(&got);
        }
        cs_tokenizer_close(tok);
        tmpdir_free(dir);
    }
    free(text);
}

static void expect_refusal(const char *name, const void *bytes, size_t n, const char *text)
{
    char *dir = tmpdir_new();
    struct cs_tokenizer *tok = NULL;
    struct cs_err err = {0};

    tmpdir_write(tmpdir_path(dir, name), bytes, n);
    assert_int_not_equal(cs_tokenizer_open(dir, &tok, &err), CS_OK);
    assert_null(tok);
    if (strstr(err.text, text) == NULL || strstr(err.text, name) == NULL)
        fail_msg("%s: \"%s\" says nothing of \"%s\"", name, err.text, text);
    tmpdir_free(dir);
}

static void broken_files_are_named_with_what_is_wrong(void **state)
{
    static const struct {
        const char *name, *bytes, *text;
    } rows[] = {
        {"tokenizer.model", "",                                                           "no trainer_spec"                      },
        {"tokenizer.model",
         "\x0a\x03\x0a\x05"
         "a",                                                                             "a piece has no text"                  },
        {"tokenizer.model", "\x0a\x7f",                                                   "a field is cut"                       },
        {"tokenizer.model", "\x0a\x03\x0a\x01\xff",                                       "not UTF-8"                            },
        {"tokenizer.model",
         "\x0a\x03\x0a\x01"
         "a\x0a\x03\x0a\x01"
         "a",                                                                             "\"a\" is there twice"                 },
        {"tokenizer.model",
         "\x0a\x05\x0a\x01"
         "a\x18\x09",                                                                     "type that is not known"               },
        {"tokenizer.model", "\x12\x02\x18\x01\x1a\x02\x18\x01",                           "no unknown piece"                     },
        {"tokenizer.model", "\x12\x02\x18\x04",                                           "model type 4 of SentencePiece"        },
        {"tokenizer.model",
         "\x0a\x05\x0a\x01"
         "a\x18\x06\x0a\x05\x0a\x01"
         "u\x18\x02\x12\x02\x18\x01\x1a\x02\x18\x01",                                     "pieces of bytes without byte_fallback"},
        {"tokenizer.model", "IQ== 0\nIg== 1\n",                                           "a tiktoken file of 2 ranks"           },
        {"tokenizer.model", "IQ== 0\nIQ== 1\n",                                           "line 2: rank 1"                       },
        {"tokenizer.model", "IQ== 0\nIg== 2\n",                                           "line 2: rank 2"                       },
        {"qwen.tiktoken",   "IQ== 0\n!! 1\n",                                             "line 2 is no token in base64"         },
        {"tekken.json",     "[]",                                                         "not an object"                        },
        {"tekken.json",     "{\"config\":{}}",                                            "config.pattern is missing"            },
        {"tekken.json",     "{\"config\":{\"pattern\":\"a\",\"default_vocab_size\":-1}}",
         "default_vocab_size is -1"                                                                                              },
        {"tekken.json",
         "{\"config\":{\"pattern\":\"a\",\"default_vocab_size\":2,\"default_num_special_tokens\":1}"
         "}",                                                                             "vocab has 0 tokens"                   },
    };

    (void)state;
    for (size_t i = 0; i < CS_ARRAY_LEN(rows); i++)
        expect_refusal(rows[i].name, rows[i].bytes, strlen(rows[i].bytes), rows[i].text);
}

/* The settings stand behind the pieces: what is cut misses them. */
static void cut_models_are_errors(void **state)
{
    struct cs_buf whole = content_of(find_case("sp-bpe-user"));
    int n_fine = 0;

    (void)state;
    for (size_t n = 0; n < whole.len; n += 1 + n / 16) {
        char *dir = tmpdir_new();
        struct cs_tokenizer *tok = NULL;
        tmpdir_write(tmpdir_path(dir, "tokenizer.model"), whole.data, n);
        n_fine += cs_tokenizer_open(dir, &tok, NULL) == CS_OK;
        cs_tokenizer_close(tok);
        tmpdir_free(dir);
    }
    assert_int_equal(n_fine, 0);
    cs_buf_free(&whole);
}

static void a_directory_without_a_tokenizer_says_what_was_looked_for(void **state)
{
    char *dir = tmpdir_new();
    struct cs_tokenizer *tok = NULL;
    struct cs_err err = {0};

    (void)state;
    assert_false(cs_tokenizer_is_in(dir));
    assert_int_equal(cs_tokenizer_open(dir, &tok, &err), CS_NOT_FOUND);
    assert_non_null(strstr(err.text, "tokenizer.model"));
    tmpdir_write(tmpdir_path(dir, "tekken.json"), "{}", 2);
    assert_true(cs_tokenizer_is_in(dir));
    tmpdir_free(dir);
}

/* A mark of Unicode 14 keeps its place behind one that would follow it, unless the tables are new. */
static void later_marks_combine_by_the_tables_of_today_alone(void **state)
{
    static const char text[] = "a\xe1\xab\x88\xe0\xbd\xb2"; /* U+1AC8, then U+0F72 */
    const struct tok_view in = {.bytes = text, .n = sizeof text - 1};
    struct tok_text out = {0};

    (void)state;
    assert_false(tok_normal_form(&(struct tok_forming){TOK_NFC, false}, &in, &out));
    tok_text_reset(&out);
    assert_true(tok_normal_form(&(struct tok_forming){TOK_NFC, true}, &in, &out));
    assert_memory_equal(out.bytes, "a\xe0\xbd\xb2\xe1\xab\x88", out.n);
    tok_text_free(&out);
}

/* A character stays as it is, gets shorter or longer; its parts are looked for across what combines. */
static void normal_forms_map_back_to_their_source(void **state)
{
    static const struct {
        enum tok_form form;
        const char *from, *to;
        uint32_t at, begin, end; /* byte `at` of the result came from there */
    } rows[] = {
        {TOK_NFC,  "ae\xcc\x81x",              "a\xc3\xa9x",               1, 1, 4},
        {TOK_NFD,  "a\xc3\xa9x",               "ae\xcc\x81x",              2, 1, 3},
        {TOK_NFKC, "\xef\xac\x81x",            "fix",                      2, 3, 4},
        {TOK_NFKC, "\xe3\x84\xb1\xe3\x85\x8f", "\xea\xb0\x80",             0, 0, 6},
        {TOK_NFKD, "\xef\xbd\xb6\xef\xbe\x9e", "\xe3\x82\xab\xe3\x82\x99", 3, 0, 6},
        {TOK_NFKC, "\xe3\x8b\xbf\xe2\x91\xa0",
         "\xe3\x8b\xbf"
         "1",                                                              3, 3, 6},
        {TOK_NFC,
         "\xff"
         "e\xcc\x81",                          "\xff\xc3\xa9",             1, 1, 4},
    };

    (void)state;
    for (size_t i = 0; i < CS_ARRAY_LEN(rows); i++) {
        const struct tok_view in = {.bytes = rows[i].from, .n = (uint32_t)strlen(rows[i].from)};
        struct tok_text out = {0};
        assert_true(tok_normal_form(&(struct tok_forming){rows[i].form, false}, &in, &out));
        assert_int_equal(out.n, strlen(rows[i].to));
        assert_memory_equal(out.bytes, rows[i].to, out.n);
        assert_int_equal(out.begin[rows[i].at], rows[i].begin);
        assert_int_equal(out.end[rows[i].at], rows[i].end);
        tok_text_free(&out);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kind_equals_its_original),
        cmocka_unit_test(no_model_makes_a_special_token_of_text),
        cmocka_unit_test(a_text_after_a_special_token_begins_as_the_configuration_says),
        cmocka_unit_test(long_texts_are_not_quadratic),
        cmocka_unit_test(broken_files_are_named_with_what_is_wrong),
        cmocka_unit_test(cut_models_are_errors),
        cmocka_unit_test(a_directory_without_a_tokenizer_says_what_was_looked_for),
        cmocka_unit_test(normal_forms_map_back_to_their_source),
        cmocka_unit_test(later_marks_combine_by_the_tables_of_today_alone),
    };

    return cmocka_run_group_tests(tests, load, unload);
}
