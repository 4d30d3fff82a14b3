/* Tokenizer: exact ids, special tokens, what is refused, and no quadratic time. Kinds of vocabularies are
 * compared in test_input_tokenizer_kinds.c, and by tests/e2e/test_oracle_tokenizer.sh. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "input/make/bpe_train.h"
#include "input/tok/tokenizer.h"
#include "support/chat.h"
#include "support/limited.h"
#include "support/tmpdir.h"

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
        {"model", "type",               "\"WordPiece\"",                                                         "unsupported tokenizer: model WordPiece"},
        {"model", "dropout",            "0.1",                                                                   "unsupported tokenizer: dropout"        },
        {"model", "end_of_word_suffix", "\"</w></w></w></w></w></w></w>\"",
         "end_of_word_suffix \"</w>"                                                                                                                     },
        {"model", "type",               "\"Unigram\"",                                                           "model.vocab is missing, or no list"    },
        {"model", "merges",             "[\"h e x\"]",                                                           "merge 0 is not a pair"                 },
        {"model", "merges",             "[[\"h\",\"zz\"]]",                                                      "outside the vocabulary"                },
        {"model", "merges",             "7",                                                                     "merges is 7"                           },
        {"model", "vocab",              "{}",                                                                    "transformers makes it 0"               },
        {"model", "vocab",              "{\"a\":-1}",                                                            "model.vocab[a] is"                     },
        {"model", "vocab",              "{\"a\":999999999}",                                                     "model.vocab[a] is"                     },
        {"model", "vocab",              "[]",                                                                    "model.vocab"                           },
        {"",      "model",              "3",                                                                     "model is 3"                            },
        {"",      "normalizer",         "{\"type\":\"BertNormalizer\"}",
         "unsupported tokenizer: normalizer BertNormalizer"                                                                                              },
        {"",      "normalizer",         "{\"type\":\"SentencePiece\"}",
         "unsupported tokenizer: normalizer SentencePiece"                                                                                               },
        {"",      "normalizer",         "{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"AAA\"}",
         "is no base64"                                                                                                                                  },
        {"",      "normalizer",         "{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"/////w==\"}",
         "holds no trie"                                                                                                                                 },
        {"",      "normalizer",         "{\"type\":\"Replace\",\"content\":\"\",\"pattern\":{}}",
         "Replace pattern"                                                                                                                               },
        {"",      "decoder",            "{\"type\":\"CTC\"}",                                                    "unsupported tokenizer: decoder CTC"    },
        {"",      "decoder",            "{\"type\":\"Replace\",\"content\":\"\",\"pattern\":{\"Regex\":\"a\"}}",
         "decoder Replace without a String"                                                                                                              },
        {"",      "pre_tokenizer",      "{\"type\":\"BertPreTokenizer\"}",                                       "pre-tokenizer BertPreTokenizer"        },
        {"",      "pre_tokenizer",
         "{\"type\":\"Metaspace\",\"replacement\":\"_\",\"prepend_scheme\":\"odd\"}",                            "prepend_scheme \"odd\""                },
        {"",      "pre_tokenizer",
         "{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"ByteLevel\"},{\"type\":\"Digits\"}]"
         "}",                                                                                                    "pre-tokenizer Digits after ByteLevel"  },
        {"",      "pre_tokenizer",      "{\"type\":\"Metaspace\"}",                                              "Metaspace has no replacement"          },
        {"",      "pre_tokenizer",
         "{\"type\":\"Split\",\"pattern\":{\"Regex\":\"a\"},\"behavior\":\"Odd\"}",                              "Split behavior \"Odd\""                },
        {"",      "pre_tokenizer",
         "{\"type\":\"Split\",\"pattern\":{\"Regex\":\"\\\\h+\"},\"behavior\":\"Isolated\"}",                    "construct \"\\h\""                     },
        {"",      "pre_tokenizer",
         "{\"type\":\"Split\",\"pattern\":{\"Regex\":\"[[:alpha:]]\"},\"behavior\":\"Isolated\"}",               "construct \"[:a\""                     },
        {"",      "pre_tokenizer",
         "{\"type\":\"Split\",\"pattern\":{\"Regex\":\"(?<n>a)\"},\"behavior\":\"Isolated\"}",                   "construct \"(?<n\""                    },
        {"",      "pre_tokenizer",
         "{\"type\":\"Split\",\"pattern\":{\"Regex\":\"a{2}+\"},\"behavior\":\"Isolated\"}",                     "construct \"}+\""                      },
        {"",      "pre_tokenizer",
         "{\"type\":\"Split\",\"pattern\":{\"Regex\":\"(a\"},\"behavior\":\"Isolated\"}",                        "unsupported tokenizer: regex"          },
        {"",      "added_tokens",       "[{\"id\":3,\"content\":\"other\"}]",                                    "the id of \"other\" is 3"              },
        {"",      "added_tokens",       "[{\"id\":-3,\"content\":\"x\"}]",                                       "added_tokens[0].id is -3"              },
        {"",      "added_tokens",       "[{\"id\":300}]",                                                        "has no content"                        },
        {"",      "added_tokens",       "{}",                                                                    "added_tokens is {}"                    },
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

static void write_json(const char *dir, const char *name, const json_t *document)
{
    char file[64];
    char *text = json_dumps(document, JSON_COMPACT);

    snprintf(file, sizeof(file), "%s.json", name);
    tmpdir_write(tmpdir_path(dir, file), text, strlen(text));
    free(text);
}

static void compare_tokens(const struct cs_tokenizer *tok, const char *text, json_t *expected)
{
    const char *name = json_string_value(json_object_get(expected, "name")), *key = NULL;
    json_t *named = json_object_get(expected, "named"), *value = NULL;
    const json_t *ids = json_object_get(expected, "ids");
    struct cs_tokens got = {0};
    size_t i = 0;

    json_array_foreach(json_object_get(expected, "added"), i, value)
    {
        int id = 0, is_special = 0;
        const char *content = NULL;
        assert_int_equal(json_unpack(value, "[i,s,b]", &id, &content, &is_special), 0);
        if (cs_tokenizer_id(tok, content) != id || cs_tokenizer_is_special(tok, id) != is_special)
            fail_msg("%s: %s is %d, special %d; transformers has %d, %d", name, content,
                     cs_tokenizer_id(tok, content), cs_tokenizer_is_special(tok, id), id,
                     is_special);
    }
    json_object_foreach(named, key, value)
    {
        assert_non_null(cs_tokenizer_named(tok, key));
        assert_string_equal(cs_tokenizer_named(tok, key), json_string_value(value));
    }
    assert_int_equal(cs_tokenizer_encode(tok, text, strlen(text), true, &got, NULL), CS_OK);
    if (got.n != json_array_size(ids))
        fail_msg("%s: %zu tokens, transformers has %zu", name, got.n, json_array_size(ids));
    json_array_foreach(ids, i, value) if (got.items[i].id != json_integer_value(value))
        fail_msg("%s: token %zu is %d", name, i, got.items[i].id);
    cs_tokens_free(&got);
}

/* added_tokens_decoder, named tokens, special_tokens_map.json, added_tokens.json and their precedence */
static void tokens_of_every_document_are_those_of_transformers(void **state)
{
    json_t *golden = json_load_file(source_path("tests/golden/tokens.json"), 0, NULL), *one = NULL;
    size_t i = 0;

    (void)state;
    assert_non_null(golden);
    json_array_foreach(json_object_get(golden, "cases"), i, one)
    {
        char *dir = tmpdir_new();
        json_t *tokenizer = json_object_get(golden, "tokenizer"), *files = NULL, *document = NULL;
        struct cs_tokenizer *tok = NULL;
        struct cs_err err = {0};
        const char *name = NULL;
        json_object_set(tokenizer, "added_tokens", json_object_get(one, "own"));
        write_json(dir, "tokenizer", tokenizer);
        files = json_object_get(one, "files");
        json_object_foreach(files, name, document) write_json(dir, name, document);
        if (cs_tokenizer_open(dir, &tok, &err) != CS_OK)
            fail_msg("%s: %s", json_string_value(json_object_get(one, "name")), err.text);
        compare_tokens(tok, json_string_value(json_object_get(golden, "text")), one);
        cs_tokenizer_close(tok);
        tmpdir_free(dir);
    }
    assert_true(i > 20);
    json_decref(golden);
}

/* every key that is read, with a value of another type or misspelt: an error or a finding */
static void wrong_and_unknown_keys_of_documents_are_said(void **state)
{
    static const struct {
        const char *file, *json, *text;
        bool is_error;
    } rows[] = {
        {"tokenizer_config",   "{\"added_tokens_decoder\":[]}",                            "added_tokens_decoder is []",    true },
        {"tokenizer_config",   "{\"added_tokens_decoder\":{\"300\":\"<x>\"}}",
         "added_tokens_decoder[300]",                                                                                       true },
        {"tokenizer_config",   "{\"added_tokens_decoder\":{\"300\":{}}}",
         "added_tokens_decoder[300] has no con",                                                                            true },
        {"tokenizer_config",   "{\"added_tokens_decoder\":{\"x\":{\"content\":\"<x>\"}}}",
         "\"x\" is no id",                                                                                                  true },
        {"tokenizer_config",
         "{\"added_tokens_decoder\":{\"300\":{\"content\":\"<x>\",\"special\":1}}}",       "special is 1",
         true                                                                                                                    },
        {"tokenizer_config",   "{\"added_token_decoder\":{}}",
         "did you mean \"added_tokens_decoder\"",                                                                           false},
        {"tokenizer_config",   "{\"bos_token\":7}",                                        "bos_token is 7",                true },
        {"tokenizer_config",   "{\"extra_special_tokens\":\"<x>\"}",                       "extra_special_tokens",          true },
        {"tokenizer_config",   "{\"split_special_tokens\":true}",                          "split_special_tokens",          true },
        {"tokenizer_config",   "{\"fast_tokenizer_files\":[\"tokenizer.4.json\"]}",
         "fast_tokenizer_files",                                                                                            true },
        {"tokenizer_config",   "{\"chat_template\":3}",                                    "chat_template is 3",            true },
        {"tokenizer_config",   "[]",                                                       "not an object",                 true },
        {"tokenizer_config",   "{",                                                        "tokenizer_config.json: line 1", true },
        {"special_tokens_map", "{\"eos_tokn\":\"x\"}",                                     "did you mean \"eos_token\"",    false},
        {"special_tokens_map", "{\"eos_token\":false}",                                    "eos_token is false",            true },
        {"added_tokens",       "{\"<x>\":\"300\"}",                                        "[<x>] is \"300\"",              true },
        {"added_tokens",       "{\"<x>\":-1}",                                             "[<x>] is -1",                   true },
    };

    (void)state;
    for (size_t i = 0; i < CS_ARRAY_LEN(rows); i++) {
        char *dir = tmpdir_new();
        json_t *own = chat_tokenizer_json(), *document = json_loads(rows[i].json, 0, NULL);
        struct cs_findings findings = {.arena = cs_arena_new(0)};
        struct cs_tokenizer *tok = NULL;
        struct cs_err err = {0};
        char file[64];
        write_json(dir, "tokenizer", own);
        snprintf(file, sizeof(file), "%s.json", rows[i].file);
        tmpdir_write(tmpdir_path(dir, file), rows[i].json, strlen(rows[i].json));
        enum cs_status status = cs_tokenizer_review(dir, &tok, &findings, &err);
        const char *said = rows[i].is_error ? err.text
                           : findings.n > 0 ? findings.items[0].text
                                            : "";
        if ((status != CS_OK) != rows[i].is_error || strstr(said, rows[i].text) == NULL ||
            (strstr(said, rows[i].file) == NULL && strstr(said, dir) == NULL))
            fail_msg("%s: %s: \"%s\"", rows[i].file, rows[i].json, said);
        cs_tokenizer_close(tok);
        cs_arena_free(findings.arena);
        json_decref(own);
        json_decref(document);
        tmpdir_free(dir);
    }
}

struct encoding {
    const struct cs_tokenizer *tok;
    char *text;
    size_t n;
};

static enum cs_status encode_long(void *user)
{
    const struct encoding *e = user;
    struct cs_tokens tokens = {0};
    struct cs_err err = {0};
    const enum cs_status status = cs_tokenizer_encode(e->tok, e->text, e->n, false, &tokens, &err);
    if (status != CS_OK && strstr(err.text, "no memory") == NULL)
        return CS_INTERNAL;
    cs_tokens_free(&tokens);
    return status;
}

/* Wherever memory ends: in the map of the normalised text, in the pieces, in the tokens. */
static void a_text_too_long_for_the_memory_is_an_error(void **state)
{
    static const long limits[] = {4, 8, 12, 16, 24, 32, 40, 48, 56, 72, 96, 2000};
    static const char piece[] = "e\xcc\x81 a 1 "; /* e and a mark */
    struct encoding e = {.n = 2 << 20};
    int n_short = 0, n_fine = 0;

    (void)state;
    if (!cs_test_can_limit())
        skip();
    json_t *json = chat_tokenizer_json();
    json_object_set_new(json, "normalizer", json_pack("{s:s}", "type", "NFC"));
    struct cs_tokenizer *tok = open_json(json);
    e.tok = tok;
    e.n -= e.n % (sizeof piece - 1);
    e.text = malloc(e.n);
    for (size_t i = 0; i < e.n; i++)
        e.text[i] = piece[i % (sizeof piece - 1)];
    for (size_t i = 0; i < CS_ARRAY_LEN(limits); i++) {
        const enum cs_status status = cs_test_within_mib(limits[i], encode_long, &e);
        n_short += status == CS_NO_MEMORY;
        n_fine += status == CS_OK;
    }
    assert_int_equal(n_short + n_fine, CS_ARRAY_LEN(limits));
    assert_true(n_short >= 3 && n_fine >= 1);
    free(e.text);
    cs_tokenizer_close(tok);
}

static enum cs_status train_large(void *user)
{
    struct cs_err err = {0};
    json_t *out = NULL;
    const enum cs_status status = cs_bpe_train("a b a b", 7, 8192, NULL, 0, &out, &err);
    (void)user;
    json_decref(out);
    return status == CS_NO_MEMORY && strstr(err.text, "512 MiB") == NULL ? CS_INTERNAL : status;
}

static void a_vocabulary_too_large_for_the_memory_is_an_error(void **state)
{
    (void)state;
    if (!cs_test_can_limit())
        skip();
    assert_int_equal(cs_test_within_mib(100, train_large, NULL), CS_NO_MEMORY);
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
        cmocka_unit_test(tokens_of_every_document_are_those_of_transformers),
        cmocka_unit_test(wrong_and_unknown_keys_of_documents_are_said),
        cmocka_unit_test(a_text_too_long_for_the_memory_is_an_error),
        cmocka_unit_test(a_vocabulary_too_large_for_the_memory_is_an_error),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
