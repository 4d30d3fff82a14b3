/* What tokenizers put around a text of their own accord: as `tokenizers` does by the post-processor, and as
 * transformers does by the flags of tokenizer_config.json where there is no tokenizer.json. */
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
#include "input/tok/tokenizer.h"
#include "support/tmpdir.h"

#define TOKEN(name)    "{\"SpecialToken\":{\"id\":\"" name "\",\"type_id\":0}}"
#define TEXT           "{\"Sequence\":{\"id\":\"A\",\"type_id\":0}}"
#define IDS(name, ids) "\"" name "\":{\"id\":\"" name "\",\"ids\":[" ids "]}"
#define TEMPLATE(s, i)                                                                             \
    "{\"type\":\"TemplateProcessing\",\"single\":[" s "],\"special_tokens\":{" i "}}"
#define BYTES           "{\"type\":\"ByteLevel\",\"trim_offsets\":true}"
#define SEQUENCE(parts) "{\"type\":\"Sequence\",\"processors\":[" parts "]}"
#define BOS             TEMPLATE(TOKEN("<s>") "," TEXT, IDS("<s>", "2"))

/* a, b, <s>, </s>, [C] */
static enum cs_status open_with(const char *post, struct cs_tokenizer **tok, struct cs_err *err)
{
    char text[2000];
    const int n = snprintf(text, sizeof text,
                           "{\"added_tokens\":[{\"id\":2,\"content\":\"<s>\",\"special\":true},{"
                           "\"id\":3,\"content\":\"</s>\","
                           "\"special\":true},{\"id\":4,\"content\":\"[C]\",\"special\":true}],"
                           "\"post_processor\":%s,\"model\":{"
                           "\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"<s>\":2,\"</"
                           "s>\":3,\"[C]\":4},\"merges\":[]}}",
                           post);

    assert_true(n > 0 && (size_t)n < sizeof text);
    return cs_tokenizer_parse(text, (size_t)n, "t", tok, err);
}

/* Ids of "ab" as digits. */
static void around(const struct cs_tokenizer *tok, char out[16])
{
    struct cs_tokens tokens = {0};
    struct cs_err err = {0};

    assert_int_equal(cs_tokenizer_encode(tok, "ab", 2, false, &tokens, &err), CS_OK);
    assert_int_equal(cs_tokenizer_surround(tok, 2, &tokens, &err), CS_OK);
    assert_true(tokens.n < 16);
    for (size_t i = 0; i < tokens.n; i++) {
        out[i] = (char)('0' + tokens.items[i].id);
        assert_true(tokens.items[i].begin <= tokens.items[i].end && tokens.items[i].end <= 2);
        assert_true(i == 0 || tokens.items[i].begin >= tokens.items[i - 1].begin);
    }
    out[tokens.n] = '\0';
    cs_tokens_free(&tokens);
}

static void post_processors_do_as_the_originals(void **state)
{
    static const struct {
        const char *post, *want; /* encode("ab").ids of tokenizers 0.22 */
    } rows[] = {
        {"null",                                           "01"                               },
        {BYTES,                                            "01"                               },
        {BOS,                                              "201"                              },
        {TEMPLATE(TOKEN("<s>") "," TEXT "," TOKEN("</s>"), IDS("<s>",                           "2") "," IDS("</s>", "3")),
         "2013"},
        {TEMPLATE(TEXT "," TOKEN("</s>"),                                           IDS("</s>",                                                                                "3")), "013"},
        {TEMPLATE(TOKEN("[C]") "," TOKEN("<s>") "," TEXT,                  IDS("[C]", "4,2") "," IDS("<s>", "2")),
         "42201"},
        {"{\"type\":\"BertProcessing\",\"sep\":[\"</s>\",3],\"cls\":[\"[C]\",4]}",                                           "4013"                                                                             },
        {"{\"type\":\"RobertaProcessing\",\"sep\":[\"</s>\",3],\"cls\":[\"<s>\",2]}",                      "2013"                                    },
        {SEQUENCE(BYTES "," BOS),                                          "201"                                                                            },
    };
    struct cs_tokenizer *tok = NULL;
    struct cs_err err = {0};
    char got[16];

    (void)state;
    for (size_t i = 0; i < CS_ARRAY_LEN(rows); i++) {
        if (open_with(rows[i].post, &tok, &err) != CS_OK)
            fail_msg("%s: %s", rows[i].post, err.text);
        around(tok, got);
        assert_string_equal(got, rows[i].want);
        cs_tokenizer_close(tok);
    }
}

static void what_is_not_understood_is_refused(void **state)
{
    static const struct {
        const char *post, *text;
    } rows[] = {
        {"{\"type\":\"Other\"}",         "post_processor Other"          },
        {"{}",                           "post_processor without"        },
        {SEQUENCE("1"),                  "post_processor without"        },
        {TEMPLATE(TOKEN("<s>") "," TEXT, ""),                              "single[0]"},
        {TEMPLATE(TOKEN("<s>") "," TEXT,                              IDS("<s>",                                 "99")), "no token 99"},
        {TEMPLATE(TOKEN("<s>") "," TEXT,                        IDS("<s>",           "\"x\"")), "no token -1"},
        {TEMPLATE(TOKEN("<s>"), IDS("<s>", "2")), "no place for the text"},
        {TEMPLATE(TOKEN("<s>") "," TEXT,                 IDS("<s>",                                                 "2,2,2,2,2,2,2,2,2")), "more than 8 tokens"},
        {"{\"type\":\"BertProcessing\"}",                     "no token -1"                                               },
        {SEQUENCE(BOS "," BOS),                              "several post_processors"                                },
    };
    struct cs_tokenizer *tok = NULL;
    struct cs_err err = {0};

    (void)state;
    for (size_t i = 0; i < CS_ARRAY_LEN(rows); i++) {
        assert_int_not_equal(open_with(rows[i].post, &tok, &err), CS_OK);
        assert_null(tok);
        if (strstr(err.text, rows[i].text) == NULL)
            fail_msg("%s: \"%s\"", rows[i].post, err.text);
    }
}

/* The model of SentencePiece of the goldens has <s> and </s>; see add_bos_token of transformers 5. */
static void flags_count_where_the_vocabulary_is_another_file(void **state)
{
    static const struct {
        const char *config;
        bool has_bos, has_eos;
    } rows[] = {
        {"{\"bos_token\":\"<s>\",\"eos_token\":\"</s>\"}",                         false, false},
        {"{\"bos_token\":\"<s>\",\"eos_token\":\"</s>\",\"add_bos_token\":true}",  true,  false},
        {"{\"bos_token\":\"<s>\",\"eos_token\":\"</"
         "s>\",\"add_bos_token\":true,\"add_eos_token\":true}",           true,  true },
        {"{\"bos_token\":\"<s>\",\"add_bos_token\":false,\"add_eos_token\":true}", false, false},
    };

    json_t *golden = json_load_file(source_path("tests/golden/tokenizers.json"), 0, NULL);
    const json_t *one = NULL;
    size_t i = 0;

    (void)state;
    json_array_foreach(json_object_get(golden, "cases"), i, one)
    {
        if (strcmp(json_string_value(json_object_get(one, "name")), "sp-bpe") == 0)
            break;
    }
    assert_non_null(one);
    for (size_t r = 0; r < CS_ARRAY_LEN(rows); r++) {
        const json_t *text = json_object_get(one, "base64");
        char *dir = tmpdir_new();
        struct cs_buf file = {0};
        struct cs_tokens tokens = {0};
        struct cs_tokenizer *tok = NULL;
        struct cs_err err = {0};
        assert_true(tok_base64(json_string_value(text), json_string_length(text), &file));
        tmpdir_write(tmpdir_path(dir, "tokenizer.model"), cs_buf_str(&file), file.len);
        tmpdir_write(tmpdir_path(dir, "tokenizer_config.json"), rows[r].config,
                     strlen(rows[r].config));
        assert_int_equal(cs_tokenizer_open(dir, &tok, &err), CS_OK);
        assert_int_equal(cs_tokenizer_encode(tok, "ab", 2, false, &tokens, &err), CS_OK);
        const size_t n = tokens.n;
        assert_int_equal(cs_tokenizer_surround(tok, 2, &tokens, &err), CS_OK);
        assert_int_equal(tokens.n, n + rows[r].has_bos + rows[r].has_eos);
        assert_int_equal(tokens.items[0].id == cs_tokenizer_id(tok, "<s>"), rows[r].has_bos);
        assert_int_equal(tokens.items[tokens.n - 1].id == cs_tokenizer_id(tok, "</s>"),
                         rows[r].has_eos);
        cs_tokens_free(&tokens);
        cs_tokenizer_close(tok);
        cs_buf_free(&file);
        tmpdir_free(dir);
    }
    json_decref(golden);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(post_processors_do_as_the_originals),
        cmocka_unit_test(what_is_not_understood_is_refused),
        cmocka_unit_test(flags_count_where_the_vocabulary_is_another_file),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
