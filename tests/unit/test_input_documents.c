/* Reviewing the documents of model directories as a whole: what they say together. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "input/documents/documents.h"
#include "store/safetensors.h"
#include "support/spec.h"
#include "support/tmpdir.h"

#define LLAVA                                                                                      \
    "{\"model_type\": \"llava\", \"vision_feature_select_strategy\": \"full\", "                   \
    "\"vision_feature_layer\": -1, \"projector_hidden_act\": \"gelu\", "                           \
    "\"multimodal_projector_bias\": true, %s \"vision_config\": {\"model_type\": "                 \
    "\"siglip_vision_model\", \"image_size\": 28, \"patch_size\": 7}, \"text_config\": "           \
    "{\"model_type\": \"llama\"}}"
/* "a" is token 0, the placeholder 1 */
#define TOKENIZER                                                                                  \
    "{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0}, \"merges\": []}, \"added_tokens\": "   \
    "[{\"id\": 1, \"content\": \"<image>\", \"special\": true}], \"pre_tokenizer\": {\"type\": "   \
    "\"ByteLevel\"}}"

static void put(const char *dir, const char *name, const char *text)
{
    tmpdir_write(tmpdir_path(dir, name), text, strlen(text));
}

static void put_llava(const char *dir, const char *keys)
{
    char text[1000];
    snprintf(text, sizeof text, LLAVA, keys);
    put(dir, "config.json", text);
}

static bool is_said(const struct cs_findings *findings, enum cs_finding_kind kind, const char *part)
{
    bool is_there = false;
    for (int i = 0; i < findings->n; i++)
        is_there |=
            findings->items[i].kind == kind && strstr(findings->items[i].text, part) != NULL;
    return is_there;
}

/* A job whose encoder and language model are both in dir. */
static enum cs_status review_job(const char *dir, struct cs_err *err)
{
    struct cs_arena *arena = cs_arena_new(0);
    struct cs_findings findings = {.arena = arena};
    struct cs_spec *spec = NULL;
    json_t *root = cs_test_spec_json(&(struct cs_test_spec){.vision_dir = dir, .llm_dir = dir});
    json_object_set_new(json_object_get(root, "data"), "template",
                        json_pack("{s:s}", "name", "plain"));
    assert_int_equal(cs_spec_read(root, arena, &spec, err), CS_OK);
    enum cs_status status = cs_documents_review_job(spec, &findings, err);
    json_decref(root);
    cs_arena_free(arena);
    return status;
}

static void the_placeholder_must_be_the_token_that_the_directory_names(void **state)
{
    struct cs_err err = {.text = ""};
    put(*state, "tokenizer.json", TOKENIZER);
    put_llava(*state, "\"image_token_index\": 1,");
    if (review_job(*state, &err) != CS_OK)
        fail_msg("%s", err.text);
    put_llava(*state, "\"image_token_index\": 0,");
    assert_int_equal(review_job(*state, &err), CS_INVALID);
    assert_non_null(strstr(err.text, "the placeholder <image> of vision.encoder is token 1 of"));
    assert_non_null(strstr(err.text, "config.json is 0"));
    put_llava(*state, "\"image_token_index\": 0, \"image_token_id\": 1,"); /* this one holds */
    assert_int_equal(review_job(*state, &err), CS_OK);
}

static enum cs_status review_whisper(const char *dir, struct cs_findings *findings,
                                     struct cs_err *err)
{
    const struct cs_arch arch = {.kind = CS_MODULE_ENCODER, .family = "whisper", .channels = 80};

    *findings = (struct cs_findings){.arena = findings->arena};
    return cs_documents_review_beside(dir, &arch, findings, err);
}

static void extractors_of_sounds_are_reviewed(void **state)
{
    struct cs_findings findings = {.arena = cs_arena_new(0)};
    struct cs_err err = {.text = ""};

    assert_int_equal(review_whisper(*state, &findings, &err), CS_OK);
    assert_true(is_said(&findings, CS_FINDING_DEFAULT, "log-mel features of 80 bands"));
    put(*state, "preprocessor_config.json",
        "{\"feature_extractor_type\": \"WhisperFeatureExtractor\", \"feature_size\": 80, \"hob\": "
        "1}");
    assert_int_equal(review_whisper(*state, &findings, &err), CS_OK);
    assert_true(is_said(&findings, CS_FINDING_UNKNOWN, "hob"));
    put(*state, "processor_config.json",
        "{\"feature_extractor\": {\"feature_extractor_type\": \"WhisperFeatureExtractor\", "
        "\"feature_size\": 128}, \"audio_token\": \"<|AUDIO|>\"}");
    assert_int_equal(review_whisper(*state, &findings, &err), CS_INVALID);
    assert_true(is_said(&findings, CS_FINDING_SHADOWED, "it is not used: feature_extractor"));
    assert_non_null(strstr(err.text, "feature_size is 128"));
    cs_arena_free(findings.arena);
}

static void a_nested_processor_holds_and_the_other_is_named(void **state)
{
    static const char nested[] =
        "{\"image_processor\": {\"image_processor_type\": \"SiglipImageProcessor\", \"sise\": 7}}";
    struct cs_arena *arena = cs_arena_new(0);
    struct cs_findings findings = {.arena = arena};
    struct cs_err err;
    put_llava(*state, "\"image_token_index\": 1,");
    assert_int_equal(cs_documents_review(*state, CS_MODULE_ENCODER, &findings, &err), CS_OK);
    assert_true(is_said(&findings, CS_FINDING_DEFAULT, "there is none: pictures are resized"));
    put(*state, "processor_config.json", nested);
    put(*state, "preprocessor_config.json", "{\"image_processor_type\": 5}");
    assert_int_equal(cs_documents_review(*state, CS_MODULE_ENCODER, &findings, &err), CS_OK);
    assert_true(is_said(&findings, CS_FINDING_SHADOWED,
                        "preprocessor_config.json: it is not used: image_processor of"));
    assert_true(
        is_said(&findings, CS_FINDING_UNKNOWN,
                "image_processor.sise 7 is a key that nothing reads; did you mean \"size\""));
    put(*state, "processor_config.json", "{\"patch_size\": 14}");
    put(*state, "preprocessor_config.json", "{\"image_processor_type\": \"SiglipImageProcessor\"}");
    assert_int_equal(cs_documents_review(*state, CS_MODULE_ENCODER, &findings, &err), CS_INVALID);
    assert_non_null(strstr(err.text, "patch_size is 14, but the encoder's config.json has 7"));
    put(*state, "processor_config.json", "{\"vision_feature_select_strategy\": \"default\"}");
    assert_int_equal(cs_documents_review(*state, CS_MODULE_ENCODER, &findings, &err), CS_INVALID);
    assert_non_null(strstr(err.text, "count -1 rows beside those of a picture's patches"));
    put(*state, "processor_config.json",
        "{\"vision_feature_select_strategy\": \"default\", \"num_additional_image_tokens\": 1}");
    assert_int_equal(cs_documents_review(*state, CS_MODULE_ENCODER, &findings, &err), CS_OK);
    put(*state, "processor_config.json", "{\"image_break_token\": \"[NEXT]\"}");
    assert_int_equal(cs_documents_review(*state, CS_MODULE_ENCODER, &findings, &err),
                     CS_UNSUPPORTED);
    assert_non_null(strstr(err.text, "image_break_token is \"[NEXT]\""));
    cs_arena_free(arena);
}

static void a_tie_that_the_weights_break_is_found(void **state)
{
    static const float embed[8] = {1, 2, 3, 4, 5, 6, 7, 8}, head[8] = {1, 2, 3, 4, 5, 6, 7, 9};
    struct cs_arena *arena = cs_arena_new(0);
    struct cs_findings findings = {.arena = arena};
    struct cs_err err;
    struct cs_st_out out[2] = {
        {.name = "lm_head.weight",            .dtype = CS_F32, .n_dims = 2, .dim = {2, 4}, .data = embed},
        {.name = "model.embed_tokens.weight",
         .dtype = CS_F32,
         .n_dims = 2,
         .dim = {2, 4},
         .data = embed                                                                                  },
    };
    const char *weights = tmpdir_path(*state, "model.safetensors");
    put(*state, "config.json",
        "{\"model_type\": \"llama\", \"hidden_size\": 4, \"num_attention_heads\": 1, "
        "\"vocab_size\": 2, \"tie_word_embeddings\": true}");
    for (int i = 0; i < 2; i++) {
        assert_int_equal(cs_st_write(weights, out, 2, NULL, NULL, &err), CS_OK);
        assert_int_equal(cs_documents_review(*state, CS_MODULE_LLM, &findings, &err), CS_OK);
        assert_int_equal(
            is_said(&findings, CS_FINDING_SHADOWED, "tie_word_embeddings true is not used"), i);
        out[0].data = head;
    }
    cs_arena_free(arena);
}

static void unknown_keys_are_found_in_every_document(void **state)
{
    struct cs_arena *arena = cs_arena_new(0);
    struct cs_findings findings = {.arena = arena};
    struct cs_err err;
    put_llava(*state, "\"image_token_index\": 1, \"image_tokn\": 3,");
    put(*state, "tokenizer.json", TOKENIZER);
    put(*state, "tokenizer_config.json", "{\"added_tokens_decodr\": {}}");
    put(*state, "special_tokens_map.json", "{\"pad_tokn\": \"a\"}");
    put(*state, "preprocessor_config.json",
        "{\"image_processor_type\": \"SiglipImageProcessor\", \"do_resise\": false}");
    assert_int_equal(cs_documents_review(*state, CS_MODULE_LLM, &findings, &err), CS_OK);
    assert_int_equal(cs_documents_review(*state, CS_MODULE_ENCODER, &findings, &err), CS_OK);
    assert_true(is_said(&findings, CS_FINDING_UNKNOWN, "config.json: image_tokn 3"));
    assert_true(
        is_said(&findings, CS_FINDING_UNKNOWN, "tokenizer_config.json: added_tokens_decodr"));
    assert_true(is_said(&findings, CS_FINDING_UNKNOWN, "special_tokens_map.json: pad_tokn"));
    assert_true(is_said(&findings, CS_FINDING_UNKNOWN, "preprocessor_config.json: do_resise"));
    cs_arena_free(arena);
}

static int make_dir(void **state)
{
    *state = tmpdir_new();
    return 0;
}

static int drop_dir(void **state)
{
    tmpdir_free(*state);
    return 0;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, make_dir, drop_dir)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_placeholder_must_be_the_token_that_the_directory_names),
        TEST(extractors_of_sounds_are_reviewed),
        TEST(a_nested_processor_holds_and_the_other_is_named),
        TEST(a_tie_that_the_weights_break_is_found),
        TEST(unknown_keys_are_found_in_every_document),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
