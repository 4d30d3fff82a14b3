/* Tokenizer: exact ids, special tokens, what is refused, and no quadratic time. The oracle for
 * everything else is tests/e2e/test_oracle_tokenizer.sh. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "input/tok/tokenizer.h"
#include "support/chat.h"

static struct cs_tokenizer *open_json(json_t *json)
{
    char *text = json_dumps(json, JSON_COMPACT);
    struct cs_tokenizer *tok = NULL;
    struct cs_err err = {0};

    if (cs_tokenizer_parse(text, strlen(text), "t", &tok, &err) != CS_OK)
        fail_msg("%s", err.text);
    free(text);
    json_decref(json);
    return tok;
}

static void expect_text(const struct cs_tokenizer *tok, const char *text, bool allow_special,
                        const char *pieces)
{
    struct cs_tokens tokens = {0};
    struct cs_buf got = {0};

    assert_int_equal(cs_tokenizer_encode(tok, text, strlen(text), allow_special, &tokens, NULL),
                     CS_OK);
    for (size_t i = 0; i < tokens.n; i++) {
        if (i > 0)
            cs_buf_addc(&got, '|');
        assert_int_equal(cs_tokenizer_decode(tok, &tokens.items[i].id, 1, false, &got, NULL),
                         CS_OK);
    }
    assert_string_equal(cs_buf_str(&got), pieces);
    cs_tokens_free(&tokens);
    cs_buf_free(&got);
}

static void merges_by_rank_and_offsets(void **state)
{
    struct cs_tokenizer *tok = open_json(chat_tokenizer_json());
    struct cs_tokens t = {0};

    (void)state;
    expect_text(tok, "hello red", true, "hello| red");
    expect_text(tok, "hell", true, "hell");
    expect_text(tok, "redder", true, "red|d|e|r");
    assert_int_equal(cs_tokenizer_encode(tok, "hello red", 9, true, &t, NULL), CS_OK);
    assert_int_equal(t.n, 2);
    assert_int_equal(t.items[0].begin, 0);
    assert_int_equal(t.items[0].end, 5);
    assert_int_equal(t.items[1].begin, 5);
    assert_int_equal(t.items[1].end, 9);
    cs_tokens_free(&t);
    cs_tokenizer_close(tok);
}

static void specials_only_where_they_are_allowed(void **state)
{
    struct cs_tokenizer *tok = open_json(chat_tokenizer_json());
    const char *text = "a<s>b<s>c";
    struct cs_text_range plain = {4, 9};
    struct cs_tokens t = {0};

    (void)state;
    expect_text(tok, "<s>red</s>", true, "<s>|red|</s>");
    expect_text(tok, "<s>red</s>", false, "<|s|>|red|<|/|s|>");
    assert_int_equal(cs_tokenizer_encode_mixed(tok, text, 9, &plain, 1, &t, NULL), CS_OK);
    assert_int_equal(t.n, 1 + 1 + 1 + 3 + 1);
    assert_int_equal(t.items[1].id, cs_tokenizer_id(tok, "<s>"));
    assert_true(cs_tokenizer_is_special(tok, t.items[1].id));
    for (size_t i = 2; i < t.n; i++)
        assert_false(cs_tokenizer_is_special(tok, t.items[i].id));
    /* an added token that the file does not call special becomes so */
    expect_text(tok, "<image>", false, "<image>");
    assert_int_equal(cs_tokenizer_set_special(tok, "<image>", NULL), CS_OK);
    expect_text(tok, "<image>", false, "<|i|m|a|g|e|>");
    assert_int_equal(cs_tokenizer_set_special(tok, "<video>", NULL), CS_NOT_FOUND);
    cs_tokens_free(&t);
    cs_tokenizer_close(tok);
}

/* would take minutes if a merge or a match restarted from the beginning */
static void long_pieces_are_not_quadratic(void **state)
{
    struct cs_tokenizer *tok = open_json(chat_tokenizer_json());
    size_t n = 1000000;
    char *text = malloc(n);

    (void)state;
    for (int k = 0; k < 4; k++) {
        struct cs_tokens t = {0};
        for (size_t i = 0; i < n; i++)
            text[i] = k == 0 ? 'l' : k == 1 ? ' ' : k == 2 ? "hello"[i % 5] : '<';
        assert_int_equal(cs_tokenizer_encode(tok, text, n, true, &t, NULL), CS_OK);
        assert_int_equal(t.n, k == 0 ? n / 2 : k == 2 ? n / 5 : n);
        cs_tokens_free(&t);
    }
    free(text);
    cs_tokenizer_close(tok);
}

static void decode_refuses_unknown_ids(void **state)
{
    struct cs_tokenizer *tok = open_json(chat_tokenizer_json());
    int32_t ids[] = {0, 5000, -1};
    struct cs_buf out = {0};

    (void)state;
    assert_int_equal(cs_tokenizer_vocab(tok), 256 + 7 + 9);
    assert_int_equal(cs_tokenizer_id(tok, "nothing"), -1);
    assert_int_equal(cs_tokenizer_decode(tok, &ids[1], 1, false, &out, NULL), CS_INVALID);
    assert_int_equal(cs_tokenizer_decode(tok, &ids[2], 1, false, &out, NULL), CS_INVALID);
    cs_buf_free(&out);
    cs_tokenizer_close(tok);
}

/* change one thing of a good file: path of keys, new value (JSON), what the error must say */
static void unknown_constructs_are_named(void **state)
{
    static const struct {
        const char *object, *key, *value, *text;
    } rows[] = {
        {"model", "type",               "\"WordPiece\"",                                           "unsupported tokenizer: model WordPiece"   },
        {"model", "byte_fallback",      "true",                                                    "unsupported tokenizer: byte_fallback"     },
        {"model", "dropout",            "0.1",                                                     "unsupported tokenizer: dropout"           },
        {"model", "end_of_word_suffix", "\"</w>\"",                                                "unsupported tokenizer: end_of_word_suffix"},
        {"model", "merges",             "[\"h e x\"]",                                             "merge 0 is not a pair"                    },
        {"model", "merges",             "[[\"h\",\"zz\"]]",                                        "outside the vocabulary"                   },
        {"model", "merges",             "7",                                                       "merges is not a list"                     },
        {"model", "vocab",              "{}",                                                      "outside the vocabulary"                   },
        {"model", "vocab",              "{\"a\":-1}",                                              "the id of \"a\""                          },
        {"model", "vocab",              "{\"a\":999999999}",                                       "the id of \"a\""                          },
        {"model", "vocab",              "[]",                                                      "model.vocab"                              },
        {"",      "model",              "3",                                                       "no \"model\""                             },
        {"",      "normalizer",         "{\"type\":\"NFKC\"}",                                     "unsupported tokenizer: normalizer NFKC"   },
        {"",      "pre_tokenizer",      "null",                                                    "no pre-tokenizer"                         },
        {"",      "pre_tokenizer",      "{\"type\":\"Metaspace\"}",
         "unsupported tokenizer: pre-tokenizer Metaspace"                                                                                     },
        {"",      "pre_tokenizer",
         "{\"type\":\"Split\",\"pattern\":{\"Regex\":\"a\"},\"behavior\":\"Isolated\"}",           "no ByteLevel"                             },
        {"",      "pre_tokenizer",
         "{\"type\":\"Split\",\"pattern\":{\"Regex\":\"a\"},\"behavior\":\"Odd\"}",                "Split behavior \"Odd\""                   },
        {"",      "pre_tokenizer",
         "{\"type\":\"Split\",\"pattern\":{\"Regex\":\"\\\\h+\"},\"behavior\":\"Isolated\"}",      "construct \"\\h\""                        },
        {"",      "pre_tokenizer",
         "{\"type\":\"Split\",\"pattern\":{\"Regex\":\"[[:alpha:]]\"},\"behavior\":\"Isolated\"}", "construct \"[:a\""                        },
        {"",      "pre_tokenizer",
         "{\"type\":\"Split\",\"pattern\":{\"Regex\":\"(?<n>a)\"},\"behavior\":\"Isolated\"}",     "construct \"(?<n\""                       },
        {"",      "pre_tokenizer",
         "{\"type\":\"Split\",\"pattern\":{\"Regex\":\"a{2}+\"},\"behavior\":\"Isolated\"}",       "construct \"}+\""                         },
        {"",      "pre_tokenizer",
         "{\"type\":\"Split\",\"pattern\":{\"Regex\":\"(a\"},\"behavior\":\"Isolated\"}",          "unsupported tokenizer: regex"             },
        {"",      "added_tokens",       "[{\"id\":3,\"content\":\"other\"}]",                      "id 3 is both"                             },
        {"",      "added_tokens",       "[{\"id\":-3,\"content\":\"x\"}]",                         "the id of \"x\""                          },
        {"",      "added_tokens",       "[{\"id\":300}]",                                          "has no content"                           },
        {"",      "added_tokens",       "{}",                                                      "added_tokens is not a list"               },
    };

    (void)state;
    for (size_t i = 0; i < CS_ARRAY_LEN(rows); i++) {
        json_t *json = chat_tokenizer_json();
        json_t *object = rows[i].object[0] == '\0' ? json : json_object_get(json, rows[i].object);
        struct cs_tokenizer *tok = NULL;
        struct cs_err err = {0};
        json_object_set_new(object, rows[i].key, json_loads(rows[i].value, JSON_DECODE_ANY, NULL));
        char *text = json_dumps(json, JSON_COMPACT);
        assert_int_not_equal(cs_tokenizer_parse(text, strlen(text), "tok.json", &tok, &err), CS_OK);
        assert_null(tok);
        if (strstr(err.text, rows[i].text) == NULL || strstr(err.text, "tok.json") == NULL)
            fail_msg("%s = %s: %s", rows[i].key, rows[i].value, err.text);
        free(text);
        json_decref(json);
    }
}

static void cut_files_are_corrupt(void **state)
{
    json_t *json = chat_tokenizer_json();
    char *text = json_dumps(json, JSON_COMPACT);
    size_t n = strlen(text);

    (void)state;
    for (size_t i = 0; i < 100; i++) {
        struct cs_tokenizer *tok = NULL;
        assert_int_equal(cs_tokenizer_parse(text, n * i / 100, "t", &tok, NULL), CS_CORRUPT);
    }
    free(text);
    json_decref(json);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(merges_by_rank_and_offsets),
        cmocka_unit_test(specials_only_where_they_are_allowed),
        cmocka_unit_test(long_pieces_are_not_quadratic),
        cmocka_unit_test(decode_refuses_unknown_ids),
        cmocka_unit_test(unknown_constructs_are_named),
        cmocka_unit_test(cut_files_are_corrupt),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
