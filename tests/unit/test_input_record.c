/* Records: whose files stand under which key, keys of turns and samples that are read, refused and
 * unknown, and that no key that is read can be misspelt or of another type without a word. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "input/data/record/record.h"
#include "input/data/shard/json_tolerant.h"
#include "support/keys.h"

static struct cs_arena *arena;

/* Single quotes stand for double ones. */
static json_t *parse(const char *text)
{
    char *copy = strdup(text);
    json_t *json = NULL;
    struct cs_err err;

    for (char *p = copy; *p != '\0'; p++)
        *p = *p == '\'' ? '"' : *p;
    if (cs_json_tolerant(copy, strlen(copy), 0, &json, &err) != CS_OK)
        fail_msg("%s: %s", text, err.text);
    free(copy);
    return json;
}

static enum cs_status read_text(const struct cs_record_keys *keys, const char *text,
                                struct cs_findings *findings, struct cs_record **record,
                                struct cs_err *err)
{
    json_t *json = parse(text);
    enum cs_status status = cs_record_read(json, keys, findings, record, err);

    json_decref(json);
    return status;
}

static const struct cs_record_keys *one(const char *token)
{
    return test_keys(&token, 1, arena);
}

static void expect_bad(const char *text, const char *why)
{
    struct cs_record *record = NULL;
    struct cs_err err = {0};

    if (read_text(one("<image>"), text, NULL, &record, &err) == CS_OK)
        fail_msg("%s: is read", text);
    if (strstr(err.text, why) == NULL)
        fail_msg("%s: \"%s\", want \"%s\"", text, err.text, why);
    assert_null(record);
}

#define Q     "{'from':'human','value':'<image>q'}"
#define A     "{'from':'gpt','value':'a'}"
#define TALK  "'conversations':[" Q "," A "]"
#define PLAIN "'conversations':[{'from':'human','value':'q'}," A "]"

static void picture_keys_belong_to_the_only_encoder_whatever_its_token(void **state)
{
    static const char *const tokens[] = {"<image>", "<|image_pad|>", "<photo>", "[IMG]", "<img_1>"};
    static const char *const samples[] = {
        "{'image':'x.png'," TALK "}",
        "{'images':['x.png']," TALK "}",
        "{'image':{'path':'x.png','bytes':null}," TALK "}",
        "{'image':null,'images':[{'path':'x.png'}]," TALK "}",
        "{'messages':[{'role':'user','content':[{'type':'image','image':'x.png','text':null},"
        "{'type':'text','text':'q','image':null}]},{'role':'assistant','content':'a'}]}",
        "{'images':['x.png'],'messages':[{'role':'user','content':[{'type':'image'},"
        "{'type':'text','text':'q'}]},{'role':'assistant','content':'a'}]}",
    };

    (void)state;
    for (size_t t = 0; t < CS_ARRAY_LEN(tokens); t++)
        for (size_t i = 0; i < CS_ARRAY_LEN(samples); i++) {
            struct cs_record *record = NULL;
            struct cs_err err = {0};
            if (read_text(one(tokens[t]), samples[i], NULL, &record, &err) != CS_OK)
                fail_msg("%s %s: %s", tokens[t], samples[i], err.text);
            assert_int_equal(record->n_files[0], 1);
            assert_string_equal(record->files[0][0].name, "x.png");
            assert_int_equal(record->turns[0].n_parts, 2);
            assert_int_equal(record->turns[0].parts[0].encoder, 0);
            assert_string_equal(record->turns[0].parts[0].text, tokens[t]);
            cs_record_free(record);
        }
}

static void several_encoders_have_keys_of_their_own(void **state)
{
    static const struct cs_record_encoder pair[] = {
        {.name = "near", .token = "<image>",      .key = ""},
        {.name = "far",  .token = "<|far_view|>", .key = ""}
    };
    static const struct cs_record_encoder twice[] = {
        {.name = "near", .token = "<image>", .key = ""},
        {.name = "far",  .token = "<image>", .key = ""}
    };
    static const struct cs_record_encoder neither[] = {
        {.name = "near", .token = "<|a|>", .key = ""    },
        {.name = "far",  .token = "<|b|>", .key = "scan"}
    };
    struct cs_record_keys *keys = NULL;
    struct cs_record *record = NULL;
    struct cs_err err = {0};

    (void)state;
    assert_int_equal(cs_record_keys_new(pair, 2, arena, &keys, &err), CS_OK);
    assert_string_equal(keys->encoder[0].said, "image|images|near|nears");
    assert_int_equal(read_text(keys,
                               "{'image':'n.png','far_view':'f.png','conversations':[{'from':"
                               "'human','value':'<far_view><image>'}," A "]}",
                               NULL, &record, &err),
                     CS_OK);
    assert_string_equal(record->files[0][0].name, "n.png");
    assert_string_equal(record->files[1][0].name, "f.png");
    assert_int_equal(record->turns[0].parts[0].encoder, 1);
    cs_record_free(record);
    assert_int_equal(cs_record_keys_new(twice, 2, arena, &keys, &err), CS_INVALID);
    assert_non_null(strstr(err.text, "\"image\""));
    assert_int_equal(cs_record_keys_new(neither, 2, arena, &keys, &err), CS_OK);
    assert_string_equal(keys->encoder[1].said, "scan|scans");
    assert_int_equal(read_text(keys, "{'image':'x.png'," PLAIN "}", NULL, &record, &err),
                     CS_UNSUPPORTED); /* nobody's */
    assert_non_null(strstr(err.text, "image is \"x.png\": no encoder"));
}

/* "Hi" as a file, in the ways in which data sets bring one, and its conversation */
#define B64    "SGk="
#define URI    "'data:image/png;base64," B64 "'"
#define ANSWER "{'role':'assistant','content':'a'}"
#define BLOCK_IN(...)                                                                              \
    "{'messages':[{'role':'user','content':[" __VA_ARGS__ ",{'type':'text','text':'q'}]}," ANSWER  \
    "]}"

static void samples_of_many_shapes_are_the_same_conversation(void **state)
{
    static const char *const samples[] = {
        "{'image':" URI "," TALK "}",
        "{'images':[{'bytes':'" B64 "','path':null}]," TALK "}",
        "{'images':[{'base64':'SGk'}]," TALK "}",
        "{'image_url':" URI "," TALK "}",
        BLOCK_IN("{'type':'image_url','image_url':{'url':" URI ",'detail':'high'}}"),
        BLOCK_IN("{'type':'input_image','image_url':" URI "}"),
        BLOCK_IN("{'type':'image','image':" URI "}"),
        BLOCK_IN("{'type':'image','base64':'" B64 "'}"),
        BLOCK_IN("{'type':'image','url':" URI "}"),
        "{'images':[" URI "],'texts':[{'user':'<image>q','assistant':'a'}]}",
        "{'images':[" URI "],'conversation':[{'human':'<image>q','assistant':'a'}]}",
        "{'images':[" URI "],'instruction':'<image>q','input':'','output':'a'}",
        "{'images':[" URI "],'query':'<image>q','response':'a','history':[]}",
        "{'images':[" URI "],'question':'<image>q','answer':'a','data_source':'x'}",
        "{'images':[" URI "],'messages':[{'role':'user','content':'<image>q'}," ANSWER
        "],'channel':'x'}",
    };

    (void)state;
    for (size_t i = 0; i < CS_ARRAY_LEN(samples); i++) {
        struct cs_record *r = NULL;
        struct cs_err err = {0};
        if (read_text(one("<image>"), samples[i], NULL, &r, &err) != CS_OK)
            fail_msg("%s: %s", samples[i], err.text);
        if (r->n_files[0] != 1 || r->files[0][0].n_bytes != 2 ||
            memcmp(r->files[0][0].bytes, "Hi", 2) != 0 || r->n_turns != 2 ||
            r->turns[0].n_parts != 2 || r->turns[0].parts[0].encoder != 0 ||
            strcmp(r->turns[0].parts[1].text, "q") != 0 ||
            strcmp(r->turns[1].parts[0].text, "a") != 0)
            fail_msg("%s: is read otherwise", samples[i]);
        cs_record_free(r);
    }
}

static void turns_of_other_shapes_keep_their_order_and_weights(void **state)
{
    static const char *const samples[] = {
        "{'system':'s','query':'c','response':'d','history':[['a','b']]}",
        "{'system':'s','instruction':'c','output':'d','history':[['a','b']]}",
        "{'system':'s','texts':[{'user':'a','assistant':'b'},{'user':'c','assistant':'d'}]}",
        "{'messages':[{'role':'developer','content':'s'},{'role':'user','content':'a'},{'role':"
        "'bot','content':'b'},{'user':'c','assistant':'d'}]}",
    };
    struct cs_record *r = NULL;
    struct cs_err err = {0};

    (void)state;
    for (size_t i = 0; i < CS_ARRAY_LEN(samples); i++) {
        if (read_text(one("<image>"), samples[i], NULL, &r, &err) != CS_OK)
            fail_msg("%s: %s", samples[i], err.text);
        assert_int_equal(r->n_turns, 5);
        for (int t = 0; t < 5; t++)
            assert_memory_equal(r->turns[t].parts[0].text, &"sabcd"[t], 1);
        cs_record_free(r);
    }
    assert_int_equal(read_text(one("<image>"),
                               "{'channel':'x','texts':[{'user':'a','assistant':'b','loss':0,"
                               "'reasoning':'w'},{'user':'c','assistant':'d'}]}",
                               NULL, &r, &err),
                     CS_OK);
    assert_string_equal(r->channel, "x");
    assert_true(r->turns[1].is_muted && !r->turns[3].is_muted);
    assert_string_equal(r->turns[1].thought, "w");
    cs_record_free(r);
    assert_int_equal(
        read_text(one("<image>"), "{'image':'x.png','caption':'c','id':3}", NULL, &r, &err), CS_OK);
    assert_true(r->n_turns == 2 && r->turns[0].n_parts == 0);
    cs_record_free(r);
    expect_bad("{'captions':'c'}", "no question with its answer; the sample has captions");
    expect_bad("{'instruction':'c'}", "no question with its answer");
    expect_bad("{'query':'a','response':'b','history':[['x']]}", "history[0]");
    expect_bad("{'texts':[{'user':'a','assistant':['b']}]}", "texts[0]");
}

static void bytes_that_are_none_are_refused(void **state)
{
    (void)state;
    expect_bad("{'image':'data:image/png,abc'," TALK "}", "not in base64");
    expect_bad("{'image':'data:image/png;base64,a*b='," TALK "}", "no base64");
    expect_bad("{'image':'data:image/png;base64,'," TALK "}", "no base64");
    expect_bad("{'image':{'bytes':7}," TALK "}", "image is 7: it must be a file in base64");
    expect_bad("{'image':'https://x/y.png'," TALK "}", "nothing is fetched from the net");
    expect_bad("{'image':{'url':'http://x/y.png'}," TALK "}", "nothing is fetched from the net");
}

static void what_a_turn_says_of_training_is_honoured_or_refused(void **state)
{
    static const struct {
        const char *key;
        bool is_muted;
    } good[] = {
        {"'loss':0",                  true },
        {"'loss':0.0",                true },
        {"'loss':false",              true },
        {"'weight':0",                true },
        {"'train':false",             true },
        {"'trainable':0",             true },
        {"'loss_scale':0",            true },
        {"'loss_weight':false",       true },
        {"'loss':false,'weight':0",   true },
        {"'loss':null",               false},
        {"'weight':1",                false},
        {"'train':true,'weight':1.0", false},
    };

    static const struct {
        const char *key, *why;
    } bad[] = {
        {"'loss':'false'",            "conversations[1].loss is \"false\""                  },
        {"'weight':0.5",              "conversations[1].weight is 0.5: an answer trains"    },
        {"'weight':2",                "conversations[1].weight is 2"                        },
        {"'weight':-1",               "conversations[1].weight is -1"                       },
        {"'train':[0]",               "conversations[1].train is [0]"                       },
        {"'train':true,'weight':0",   "says the opposite"                                   },
        {"'loss_mask':[0,1]",         "conversations[1].loss_mask is [0,1]"                 },
        {"'tool_calls':[{}]",         "conversations[1].tool_calls is [{}]"                 },
        {"'reasoning_content':['h']", "conversations[1].reasoning_content"                  },
        {"'image':'x.png'",           "conversations[1].image is \"x.png\": files of a turn"},
        {"'video':'x.mp4'",           "conversations[1].video is \"x.mp4\""                 },
        {"'content':'b'",             "conversations[1].content \"b\" is not used"          },
        {"'role':'user'",             "conversations[1].role \"user\" is not used"          },
    };

    char text[300];

    (void)state;
    for (size_t i = 0; i < CS_ARRAY_LEN(good); i++) {
        struct cs_record *record = NULL;
        struct cs_err err = {0};
        snprintf(text, sizeof text,
                 "{'conversations':[{'from':'human','value':'q'},{'from':'gpt','value':'a',%s}]}",
                 good[i].key);
        if (read_text(one("<image>"), text, NULL, &record, &err) != CS_OK)
            fail_msg("%s: %s", text, err.text);
        assert_int_equal(record->turns[1].is_muted, good[i].is_muted);
        cs_record_free(record);
    }
    for (size_t i = 0; i < CS_ARRAY_LEN(bad); i++) {
        snprintf(text, sizeof text,
                 "{'conversations':[{'from':'human','value':'q'},{'from':'gpt','value':'a',%s}]}",
                 bad[i].key);
        expect_bad(text, bad[i].why);
    }
    expect_bad("{'conversations':[{'from':'human','value':'q','loss':1}," A "]}",
               "conversations[0].loss is 1: only answers train");
}

static void system_at_the_top_is_the_first_turn(void **state)
{
    static const char *const none[] = {"{'system':null," PLAIN "}", "{'system':''," PLAIN "}"};
    struct cs_record *record = NULL;
    struct cs_err err = {0};

    (void)state;
    assert_int_equal(
        read_text(one("<image>"), "{'system':'be brief'," PLAIN "}", NULL, &record, &err), CS_OK);
    assert_int_equal(record->n_turns, 3);
    assert_int_equal(record->turns[0].role, CS_TURN_SYSTEM);
    assert_string_equal(record->turns[0].parts[0].text, "be brief");
    cs_record_free(record);
    for (size_t i = 0; i < CS_ARRAY_LEN(none); i++) {
        assert_int_equal(read_text(one("<image>"), none[i], NULL, &record, &err), CS_OK);
        assert_int_equal(record->n_turns, 2);
        cs_record_free(record);
    }
    expect_bad("{'system':7," PLAIN "}", "system is 7");
    expect_bad("{'system':'a','conversations':[{'from':'system','value':'b'}]}",
               "conversations[0] is a system turn");
}

static void what_nobody_reads_makes_the_sample_bad_where_it_matters(void **state)
{
    static const struct {
        const char *key, *why;
    } rows[] = {
        {"'video':'a.mp4'",                     "video is \"a.mp4\": no encoder"   },
        {"'videos':['a.mp4']",                  "videos is [\"a.mp4\"]: no encoder"},
        {"'audio':'a.wav'",                     "audio is \"a.wav\""               },
        {"'audios':['a.wav']",                  "audios is"                        },
        {"'image_file':'a.png'",                "image_file is"                    },
        {"'image_url':{'url':'http://x'}",      "image_url is"                     },
        {"'image':'a.png','images':['b.png']",  "is not used"                      },
        {"'image':7",                           "image is 7"                       },
        {"'image':['a.png',7]",                 "image[1] is 7"                    },
        {"'image':''",                          "image is \"\""                    },
        {"'image':{'path':null,'bytes':'A*A'}", "no base64"                        },
        {"'image':{'path':null,'bytes':null}",  "image is {"                       },
        {"'messages':[]",                       "messages [] is not used"          },
        {"'weight':0.1",                        "weight is 0.1"                    },
        {"'tools':[{}]",                        "tools is [{}]"                    },
        {"'chosen':'a'",                        "chosen is \"a\""                  },
    };

    char text[400];

    (void)state;
    for (size_t i = 0; i < CS_ARRAY_LEN(rows); i++) {
        snprintf(text, sizeof text, "{%s," PLAIN "}", rows[i].key);
        expect_bad(text, rows[i].why);
    }
    expect_bad("{'instruction':'a','outputs':'b','image':null}",
               "the sample has instruction, outputs");
    expect_bad("{'conversations':[" Q ",{'from':'gpt','value':42}]}",
               "conversations[1].value is 42");
    expect_bad("{'conversations':[" Q ",{'from':'gpt','value':true}]}",
               "conversations[1].value is true");
    expect_bad("{'conversations':[" Q ",{'from':'gpt','value':null}]}",
               "conversations[1] has no \"value\"");
    expect_bad("{'conversations':[" Q ",'a']}", "conversations[1] is \"a\": a turn is an object");
    expect_bad(
        "{'conversations':[{'from':'human','value':[{'type':'text','text':'a','image':'b.png'}]}]}",
        "conversations[0].value[0] is of type text and has a file");
    expect_bad("{'conversations':[{'from':'human','value':[{'type':'image','url':'http://x'}]}]}",
               "conversations[0].value[0].url");
    expect_bad("{'image':'a.png','conversations':[{'from':'human','value':[{'type':'image'},"
               "{'type':'image','image':'b.png'}]}]}",
               "files at its top too");
}

static void unknown_keys_are_findings_with_counts(void **state)
{
    struct cs_findings findings = {.arena = arena};
    struct cs_record *record = NULL;
    struct cs_err err = {0};

    (void)state;
    for (int i = 0; i < 3; i++) {
        assert_int_equal(
            read_text(one("<image>"),
                      "{'id':1,'systen':'x','conversations':[{'from':'human','value':'q','los':0},"
                      "{'from':'gpt','value':'a','los':0}]}",
                      &findings, &record, &err),
            CS_OK);
        cs_record_free(record);
    }
    assert_int_equal(findings.n, 2);
    assert_int_equal(findings.items[0].kind, CS_FINDING_UNKNOWN);
    assert_int_equal(findings.items[0].n, 3);
    assert_non_null(strstr(findings.items[0].text, "did you mean \"system\""));
    assert_int_equal(findings.items[1].n, 6); /* of every turn */
}

/* Each key that is read, misspelt or of another type: refused, or a finding, or what it says stands
 * in the record all the same. */
static void no_key_is_lost_without_a_word(void **state)
{
    static const char text[] =
        "{'id':'7','system':'s','images':['x.png'],'conversations':[{'from':'human','value':"
        "[{'type':'image'},{'type':'text','text':'q'}]},{'from':'gpt','value':'a','loss':false}]}";
    static const char *const keys[] = {"system",  "images", "conversations", "0 from",
                                       "0 value", "1 loss", "1 value"}; /* of turn 0, 1 */
    static const char *const values[] = {"7", "{}", "true", "[7]"};

    (void)state;
    for (size_t k = 0; k < CS_ARRAY_LEN(keys); k++)
        for (size_t v = 0; v <= CS_ARRAY_LEN(values); v++) {
            struct cs_findings findings = {.arena = arena};
            struct cs_record *record = NULL;
            json_t *root = parse(text), *at = root;
            const char *key = keys[k];
            char wrong[64];
            if (key[1] == ' ') {
                at = json_array_get(json_object_get(root, "conversations"), (size_t)(key[0] - '0'));
                key += 2;
            }
            snprintf(wrong, sizeof wrong, "%sx", key);
            if (v == CS_ARRAY_LEN(values)) {
                json_object_set(at, wrong, json_object_get(at, key));
                json_object_del(at, key);
            } else {
                json_object_set_new(at, key, json_loads(values[v], JSON_DECODE_ANY, NULL));
            }
            /* {} says as little as null; "loss": true is read, as what it is */
            bool is_said =
                (strcmp(key, "loss") == 0 && v == 2) || (strcmp(key, "images") == 0 && v == 1);
            if (cs_record_read(root, one("<image>"), &findings, &record, NULL) == CS_OK &&
                findings.n == 0 && !is_said)
                fail_msg("%s, %s: silent", key, v < 4 ? values[v] : wrong);
            cs_record_free(record);
            json_decref(root);
        }
}

static void text_is_utf8_or_the_sample_is_bad(void **state)
{
    static const struct {
        const char *text, *why;
    } rows[] = {
        {"{\"a\":\"x\xc4\xe3\xba\xc3\"}", "not UTF-8 at byte 1007 of the file"       }, /* GBK */
        {"{\"a\":\"caf\xe9\"}",           "not UTF-8 at byte 1009"                   }, /* Latin-1 */
        {"{\"a\":\"\xed\xa0\x80\"}",      "not UTF-8 at byte 1006"                   }, /* CESU-8 */
        {"{\"a\":\"\xc0\xaf\"}",          "not UTF-8 at byte 1006"                   }, /* too long */
        {"{\"a\":\"\\ud800\"}",           "lone surrogate) at byte 1006"             },
        {"{\"a\":\"\\udc00\\ud800\"}",    "lone surrogate) at byte 1006"             },
        {"{\"a\":\"\\ud800\\u0041\"}",    "lone surrogate) at byte 1006"             },
        {"{\"a\":1,\"a\":2}",             "duplicate"                                },
        {"{\xc2\xa0\"a\":1}",             "a character outside a string at byte 1001"},
    };

    (void)state;
    for (size_t i = 0; i < CS_ARRAY_LEN(rows); i++) {
        json_t *json = NULL;
        struct cs_err err = {0};
        assert_int_equal(cs_json_tolerant(rows[i].text, strlen(rows[i].text), 1000, &json, &err),
                         CS_CORRUPT);
        if (strstr(err.text, rows[i].why) == NULL)
            fail_msg("%zu: %s", i, err.text);
    }
}

int main(void)
{
    const struct CMUnitTest cases[] = {
        cmocka_unit_test(picture_keys_belong_to_the_only_encoder_whatever_its_token),
        cmocka_unit_test(several_encoders_have_keys_of_their_own),
        cmocka_unit_test(samples_of_many_shapes_are_the_same_conversation),
        cmocka_unit_test(turns_of_other_shapes_keep_their_order_and_weights),
        cmocka_unit_test(bytes_that_are_none_are_refused),
        cmocka_unit_test(what_a_turn_says_of_training_is_honoured_or_refused),
        cmocka_unit_test(system_at_the_top_is_the_first_turn),
        cmocka_unit_test(what_nobody_reads_makes_the_sample_bad_where_it_matters),
        cmocka_unit_test(unknown_keys_are_findings_with_counts),
        cmocka_unit_test(no_key_is_lost_without_a_word),
        cmocka_unit_test(text_is_utf8_or_the_sample_is_bad),
    };

    arena = cs_arena_new(0);
    int failed = cmocka_run_group_tests(cases, NULL, NULL);
    cs_arena_free(arena);
    return failed;
}
