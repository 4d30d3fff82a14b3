/* Hugging Face directories: layouts of names, shards, refusals. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/base/arena.h"
#include "store/hf/hfdir.h"
#include "support/tmpdir.h"

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

static void put(const char *dir, const char *name, const char *text)
{
    tmpdir_write(tmpdir_path(dir, name), text, strlen(text));
}

/* file with one fp32 tensor [2] per name, values value, value + 1 */
static void put_tensors(const char *dir, const char *file, const char *const *names, int n,
                        float value)
{
    float f[2] = {value, value + 1};
    struct cs_st_out out[8];
    assert_true(n <= 8);
    for (int i = 0; i < n; i++)
        out[i] = (struct cs_st_out){
            .name = names[i], .dtype = CS_F32, .n_dims = 1, .dim = {2}, .data = f};
    assert_int_equal(cs_st_write(tmpdir_path(dir, file), out, n, NULL, NULL, NULL), CS_OK);
}

static void refuses(const char *dir, const char *part, enum cs_status status, const char *text)
{
    struct cs_err err = {0};
    struct cs_hfdir *hf = NULL;
    enum cs_status st = cs_hfdir_open(dir, part, &hf, &err);
    if (st != status || !strstr(err.text, text))
        fail_msg("%s \"%s\", want %s \"%s\"", cs_status_slug(st), err.text, cs_status_slug(status),
                 text);
    assert_null(hf);
}

static struct cs_hfdir *opened(const char *dir, const char *part)
{
    struct cs_err err = {0};
    struct cs_hfdir *hf = NULL;
    if (cs_hfdir_open(dir, part, &hf, &err) != CS_OK)
        fail_msg("%s", err.text);
    return hf;
}

static void fits(const char *model, const char *part)
{
    char path[4096];
    struct cs_err err = {0};
    struct cs_arch arch;
    struct cs_arena *arena = cs_arena_new(0);
    snprintf(path, sizeof(path), "tests/golden/models/%s", model);
    struct cs_hfdir *hf = opened(source_path(path), part);
    if (cs_arch_from_config(cs_hfdir_config(hf), arena, &arch, &err) != CS_OK ||
        cs_hfdir_check(hf, &arch, &err) != CS_OK)
        fail_msg("%s %s: %s", model, part, err.text);
    arch.ffn_width++;
    assert_int_equal(cs_hfdir_check(hf, &arch, &err), CS_CORRUPT);
    assert_non_null(strstr(err.text, "the configuration wants ["));
    assert_non_null(strstr(err.text, "; ...")); /* three are named, more do not fit */
    cs_hfdir_close(hf);
    cs_arena_free(arena);
}

static void golden_models_fit_their_configurations(void **state)
{
    (void)state;
    fits("siglip", "");
    fits("llama", "");
    fits("qwen2", "");
    fits("llama3-tied", "");
    fits("llava-siglip-qwen2", "vision");
    fits("llava-siglip-qwen2", "llm");
}

static void both_llava_layouts_give_component_names(void **state)
{
    static const char *const saved[] = {
        "vision_tower.vision_model.post_layernorm.weight", "language_model.model.norm.weight",
        "language_model.lm_head.weight", "multi_modal_projector.linear_1.weight"};
    static const char *const memory[] = {"model.vision_tower.vision_model.post_layernorm.weight",
                                         "model.language_model.norm.weight", "lm_head.weight",
                                         "model.multi_modal_projector.linear_1.weight"};
    put(*state, "config.json",
        "{\"model_type\":\"llava\",\"vision_config\":{\"hidden_size\":3},"
        "\"text_config\":{\"hidden_size\":5},\"projector_hidden_act\":\"gelu\","
        "\"vision_feature_select_strategy\":\"full\"}");
    for (int layout = 0; layout < 2; layout++) {
        put_tensors(*state, "model.safetensors", layout ? memory : saved, 4, 7);
        struct cs_hfdir *hf = opened(*state, "llm");
        assert_int_equal(cs_hfdir_count(hf), 2);
        assert_non_null(cs_hfdir_tensor(hf, "model.norm.weight", NULL));
        assert_non_null(cs_hfdir_tensor(hf, "lm_head.weight", NULL));
        assert_null(cs_hfdir_tensor(hf, "linear_1.weight", NULL));
        cs_hfdir_close(hf);
        hf = opened(*state, "vision");
        assert_int_equal(cs_hfdir_count(hf), 1);
        const struct cs_st_tensor *t =
            cs_hfdir_tensor(hf, "post_layernorm.weight", "vision_model.post_layernorm.weight");
        float f[2] = {0};
        assert_non_null(t);
        assert_int_equal(cs_st_read_f32(t, 0, 2, f, NULL), CS_OK);
        assert_true(f[0] == 7 && f[1] == 8);
        cs_hfdir_close(hf);
        hf = opened(*state, "projector");
        assert_int_equal(cs_hfdir_count(hf), 1);
        assert_non_null(cs_hfdir_tensor(hf, "linear_1.weight", NULL));
        assert_int_equal(json_integer_value(json_object_get(cs_hfdir_config(hf), "in_width")), 3);
        assert_int_equal(json_integer_value(json_object_get(cs_hfdir_config(hf), "out_width")), 5);
        cs_hfdir_close(hf);
    }
    refuses(*state, "", CS_INVALID, "vision, llm or projector");
    refuses(*state, "audio", CS_INVALID, "audio");
    struct cs_hfdir *hf = NULL;
    assert_int_equal(cs_hfdir_open_kind(*state, CS_MODULE_LLM, &hf, NULL), CS_OK);
    assert_int_equal(cs_hfdir_count(hf), 2);
    cs_hfdir_close(hf);
}

static void tensor_in_both_layouts_is_refused(void **state)
{
    static const char *const names[] = {"language_model.model.norm.weight",
                                        "model.language_model.norm.weight"};
    put(*state, "config.json", "{\"model_type\":\"llava\",\"text_config\":{}}");
    put_tensors(*state, "model.safetensors", names, 2, 1);
    refuses(*state, "llm", CS_CORRUPT, "twice");
}

static void shards_are_found_through_the_index(void **state)
{
    static const char *const a[] = {"a", "stray"}, *const b[] = {"b", "c"};
    put(*state, "config.json", "{\"model_type\":\"llama\"}");
    put_tensors(*state, "model-00001-of-00002.safetensors", a, 2, 1);
    put_tensors(*state, "model-00002-of-00002.safetensors", b, 2, 5);
    put(*state, "model.safetensors.index.json",
        "{\"metadata\":{\"total_size\":24},\"weight_map\":{\"a\":\"model-00001-of-00002."
        "safetensors\","
        "\"b\":\"model-00002-of-00002.safetensors\",\"c\":\"model-00002-of-00002.safetensors\"}}");
    struct cs_hfdir *hf = opened(*state, "");
    float f[2] = {0};
    assert_int_equal(cs_hfdir_count(hf), 3); /* the index decides, not the shard */
    assert_int_equal(cs_hfdir_count_strays(hf), 1);
    assert_string_equal(cs_hfdir_stray(hf, 0)->name, "stray");
    assert_int_equal(cs_st_read_f32(cs_hfdir_tensor(hf, "c", NULL), 0, 2, f, NULL), CS_OK);
    assert_true(f[0] == 5 && f[1] == 6);
    cs_hfdir_close(hf);
    put(*state, "model.safetensors.index.json",
        "{\"weight_map\":{\"x\":\"model-00001-of-00002.safetensors\"}}");
    refuses(*state, "", CS_CORRUPT, "tensor x should be in");
    put(*state, "model.safetensors.index.json", "{\"weight_map\":{\"a\":\"model-9.safetensors\"}}");
    refuses(*state, "", CS_NOT_FOUND, "model-9.safetensors");
    put(*state, "model.safetensors.index.json", "{\"weight_map\":{}}");
    refuses(*state, "", CS_CORRUPT, "weight_map");
    put(*state, "model-9.safetensors", "");
    put(*state, "model.safetensors.index.json", "{\"weight_map\":{\"a\":\"model-9.safetensors\"}}");
    refuses(*state, "", CS_CORRUPT, "the file has 0");
}

static void index_may_not_leave_the_directory(void **state)
{
    static const char *const names[] = {"../secret.safetensors",
                                        "/etc/x.safetensors",
                                        "sub/x.safetensors",
                                        "..\\\\x.safetensors",
                                        "..",
                                        "",
                                        "x.bin",
                                        ".safetensors"};
    put(*state, "config.json", "{\"model_type\":\"llama\"}");
    for (size_t i = 0; i < CS_ARRAY_LEN(names); i++) {
        char text[200];
        snprintf(text, sizeof(text), "{\"weight_map\":{\"a\":\"%s\"}}", names[i]);
        put(*state, "model.safetensors.index.json", text);
        refuses(*state, "", CS_REFUSED, "not the plain name");
    }
}

static void pickles_are_refused_with_advice(void **state)
{
    put(*state, "config.json", "{\"model_type\":\"llama\"}");
    put(*state, "pytorch_model.bin", "x");
    refuses(*state, "", CS_UNSUPPORTED, "save_pretrained");
}

static void directory_without_weights_opens_and_fails_the_check(void **state)
{
    struct cs_arena *arena = cs_arena_new(0);
    struct cs_arch arch;
    struct cs_err err = {0};
    put(*state, "config.json",
        "{\"model_type\":\"llama\",\"hidden_size\":8,\"num_attention_heads\":2,"
        "\"num_hidden_layers\":1,\"intermediate_size\":16,\"vocab_size\":10}");
    struct cs_hfdir *hf = opened(*state, "");
    assert_false(cs_hfdir_has_tokenizer(hf));
    assert_null(cs_hfdir_processor(hf));
    assert_null(cs_hfdir_tensor(hf, "a", "b"));
    assert_int_equal(cs_arch_from_config(cs_hfdir_config(hf), arena, &arch, &err), CS_OK);
    assert_int_equal(cs_hfdir_check(hf, &arch, &err), CS_NOT_FOUND);
    assert_non_null(strstr(err.text, "random"));
    cs_hfdir_close(hf);
    cs_arena_free(arena);
    put(*state, "tokenizer.json", "{}");
    put(*state, "processor_config.json", "{\"image_processor\":{\"size\":7}}");
    hf = opened(*state, "");
    assert_true(cs_hfdir_has_tokenizer(hf));
    assert_int_equal(json_integer_value(json_object_get(cs_hfdir_processor(hf), "size")), 7);
    cs_hfdir_close(hf);
    /* who calls it stands around it */
    put(*state, "processor_config.json",
        "{\"image_processor\":{\"size\":7},\"processor_class\":\"InternVLProcessor\"}");
    hf = opened(*state, "");
    assert_string_equal(
        json_string_value(json_object_get(cs_hfdir_processor(hf), "processor_class")),
        "InternVLProcessor");
    cs_hfdir_close(hf);
    /* as in transformers 5: what is nested in processor_config.json holds over the old file */
    put(*state, "preprocessor_config.json", "{\"size\":9}");
    hf = opened(*state, "");
    assert_int_equal(json_integer_value(json_object_get(cs_hfdir_processor(hf), "size")), 7);
    cs_hfdir_close(hf);
    put(*state, "processor_config.json", "{\"image_processor\":null,\"patch_size\":7}");
    hf = opened(*state, "");
    assert_int_equal(json_integer_value(json_object_get(cs_hfdir_processor(hf), "size")), 9);
    cs_hfdir_close(hf);
}

/* root | text_config: tied when one of them says so, as LlavaConfig and its model do */
static void embeddings_of_a_composite_are_tied_by_root_or_text(void **state)
{
    static const char *const flags[] = {"", ",\"tie_word_embeddings\":false",
                                        ",\"tie_word_embeddings\":true"};
    for (int root = 0; root < 3; root++)
        for (int text = 0; text < 3; text++) {
            char config[300];
            snprintf(config, sizeof(config),
                     "{\"model_type\":\"llava\",\"vision_config\":{},"
                     "\"vision_feature_select_strategy\":\"full\",\"text_config\":{\"hidden_size\":"
                     "5%s}%s}",
                     flags[text], flags[root]);
            put(*state, "config.json", config);
            struct cs_hfdir *hf = opened(*state, "llm");
            assert_int_equal(
                json_is_true(json_object_get(cs_hfdir_config(hf), "tie_word_embeddings")),
                root == 2 || text == 2);
            assert_int_equal(cs_hfdir_composite(hf)->is_tied, root == 2 || text == 2);
            cs_hfdir_close(hf);
        }
}

enum { WORDS = 3, WIDTH = 4 };

/* A llama of one block, whose embedding and head are what is given; NULL: not in the file. */
static void put_words(const char *dir, const char *flag, bool is_llava, const float *embed,
                      const float *head, enum cs_dtype head_dtype)
{
    static const char model[] =
        "\"model_type\":\"llama\",\"hidden_size\":4,\"num_attention_heads\":1,\"vocab_size\":3,"
        "\"num_hidden_layers\":1,\"intermediate_size\":4";
    char config[600];
    struct cs_st_out out[2];
    int n = 0;
    if (is_llava)
        snprintf(config, sizeof config,
                 "{\"model_type\":\"llava\",\"vision_config\":{},"
                 "\"text_config\":{%s}%s}",
                 model, flag);
    else
        snprintf(config, sizeof config, "{%s%s}", model, flag);
    put(dir, "config.json", config);
    const struct cs_st_out one = {
        .dtype = CS_F32, .n_dims = 2, .dim = {WORDS, WIDTH},
                .is_f32 = 1
    };
    if (embed) {
        out[n] = one;
        out[n].name =
            is_llava ? "model.language_model.embed_tokens.weight" : "model.embed_tokens.weight";
        out[n++].data = embed;
    }
    if (head) {
        out[n] = one;
        out[n].name = "lm_head.weight";
        out[n].dtype = head_dtype;
        out[n++].data = head;
    }
    assert_int_equal(cs_st_write(tmpdir_path(dir, "model.safetensors"), out, n, NULL, NULL, NULL),
                     CS_OK);
}

/* What transformers 5.17 makes of flag and matrices: one row each, for a language model alone and
 * for a composite whose root has the flag. */
static void the_head_is_the_embedding_where_flag_and_weights_agree(void **state)
{
    static const float a[WORDS * WIDTH] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12},
                                 b[WORDS * WIDTH] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 13};
    static const char yes[] = ",\"tie_word_embeddings\":true", no[] = "";

    static const struct {
        const char *flag;
        const float *embed, *head;
        enum cs_dtype head_dtype;
        bool is_tied, is_broken, has_embed;
    } rows[] = {
        {yes, a,    NULL, CS_F32,  true,  false, true },
        {yes, a,    a,    CS_F32,  true,  false, true },
        {yes, a,    a,    CS_BF16, true,  false, true }, /* the same numbers */
        {yes, a,    b,    CS_F32,  false, true,  true }, /* kept apart */
        {yes, NULL, b,    CS_F32,  true,  false, true }, /* the one that is there */
        {no,  a,    a,    CS_F32,  false, false, true },
        {no,  a,    b,    CS_F32,  false, false, true },
        {no,  NULL, b,    CS_F32,  false, false, false},
    };

    for (size_t i = 0; i < 2 * CS_ARRAY_LEN(rows); i++) {
        const bool is_llava = i % 2 == 1;
        put_words(*state, rows[i / 2].flag, is_llava, rows[i / 2].embed, rows[i / 2].head,
                  rows[i / 2].head_dtype);
        struct cs_hfdir *hf = opened(*state, is_llava ? "llm" : "");
        const struct cs_st_tensor *embed = cs_hfdir_tensor(hf, "model.embed_tokens.weight", NULL);
        assert_int_equal(json_is_true(json_object_get(cs_hfdir_config(hf), "tie_word_embeddings")),
                         rows[i / 2].is_tied);
        assert_int_equal(cs_hfdir_is_tie_broken(hf), rows[i / 2].is_broken);
        assert_int_equal(embed != NULL, rows[i / 2].has_embed);
        float last = 0;
        if (embed)
            assert_int_equal(cs_st_read_f32(embed, WORDS * WIDTH - 1, 1, &last, NULL), CS_OK);
        assert_true(!embed || last == (rows[i / 2].embed ? 12 : 13));
        cs_hfdir_close(hf);
    }
}

static void a_tensor_in_two_shards_is_refused(void **state)
{
    static const char *const a[] = {"a", "b"}, *const b[] = {"b", "c"};
    put(*state, "config.json", "{\"model_type\":\"llama\"}");
    put_tensors(*state, "model-00001-of-00002.safetensors", a, 2, 1);
    put_tensors(*state, "model-00002-of-00002.safetensors", b, 2, 5);
    put(*state, "model.safetensors.index.json",
        "{\"weight_map\":{\"a\":\"model-00001-of-00002.safetensors\","
        "\"b\":\"model-00002-of-00002.safetensors\"}}");
    refuses(*state, "", CS_CORRUPT, "holds tensor b twice, in ");
}

static void weights_under_names_that_nobody_reads_are_told(void **state)
{
    static const char *const a[] = {"a"};
    put(*state, "config.json", "{\"model_type\":\"llama\"}");
    put_tensors(*state, "model-00001-of-00002.safetensors", a, 1, 1);
    refuses(*state, "", CS_NOT_FOUND,
            "holds model-00001-of-00002.safetensors, but neither model.safetensors nor the index");
}

static void weights_that_are_no_numbers_are_named_with_their_place(void **state)
{
    float values[WORDS * WIDTH] = {0};
    struct cs_err err = {0};
    struct cs_arena *arena = cs_arena_new(0);
    struct cs_arch arch;
    for (int i = 0; i < 2; i++) {
        values[6] = i == 0 ? NAN : -INFINITY;
        put_words(*state, "", false, values, NULL, CS_F32);
        struct cs_hfdir *hf = opened(*state, "");
        const struct cs_st_tensor *embed = cs_hfdir_tensor(hf, "model.embed_tokens.weight", NULL);
        assert_int_equal(cs_hfdir_arch(hf, NULL, arena, &arch, &err), CS_OK);
        assert_int_equal(cs_hfdir_check_values(hf, &arch, &err), CS_CORRUPT);
        assert_non_null(strstr(err.text, i == 0 ? "model.embed_tokens.weight: element [1, 2] is NaN"
                                                : "element [1, 2] is infinite"));
        float out[WORDS * WIDTH];
        assert_int_equal(cs_st_read_finite(embed, 0, 6, out, &err), CS_OK);
        assert_int_equal(cs_st_read_finite(embed, 4, 6, out, &err), CS_CORRUPT);
        assert_non_null(strstr(err.text, "[1, 2]"));
        cs_hfdir_close(hf);
    }
    cs_arena_free(arena);
}

static void tensors_that_nobody_reads_are_listed(void **state)
{
    static const char *const names[] = {"model.norm.weight", "model.layers.0.self_attn.q_proj.bias",
                                        "model.layers.0.self_attn.rotary_emb.inv_freq"};
    struct cs_err err = {0};
    struct cs_arena *arena = cs_arena_new(0);
    struct cs_arch arch;
    struct cs_unread *unread = NULL;
    put_words(*state, "", false, NULL, NULL, CS_F32);
    put_tensors(*state, "model.safetensors", names, 3, 1);
    struct cs_hfdir *hf = opened(*state, "");
    assert_int_equal(cs_hfdir_arch(hf, NULL, arena, &arch, &err), CS_OK);
    assert_int_equal(cs_hfdir_unread(hf, &arch, arena, &unread), 2);
    assert_string_equal(unread[0].name, names[1]);
    assert_string_equal(unread[0].why, "");
    assert_string_equal(unread[1].why, "frequencies, which are computed");
    cs_hfdir_close(hf);

    static const char *const parts[] = {"language_model.model.norm.weight", "audio_tower.conv",
                                        "vision_tower.post_layernorm.weight"};
    put_words(*state, "", true, NULL, NULL, CS_F32);
    put_tensors(*state, "model.safetensors", parts, 3, 1);
    hf = opened(*state, "llm");
    assert_int_equal(cs_hfdir_count_strays(hf), 1); /* those of the other parts are none */
    assert_string_equal(cs_hfdir_stray(hf, 0)->name, "audio_tower.conv");
    cs_hfdir_close(hf);
    cs_arena_free(arena);
}

/* Settings of the root are read, or refused with their name; the language model alone needs none. */
static void the_root_of_a_composite_is_read_or_refused(void **state)
{
#define LLAVA(keys)                                                                                \
    "{\"model_type\":\"llava\",\"vision_config\":{\"hidden_size\":3},\"text_config\":{\"hidden_"   \
    "size\":5}," keys "}"
#define FULL "\"vision_feature_select_strategy\":\"full\""
/* a tower without a class row */
#define SIGLIP(keys)                                                                               \
    "{\"model_type\":\"llava\",\"vision_config\":{\"model_type\":\"siglip_vision_model\"},"        \
    "\"text_config\":{\"hidden_size\":5}," keys "}"

    static const struct {
        const char *config;
        enum cs_status status;
        const char *message;
    } rows[] = {
        {LLAVA(FULL ",\"vision_feature_layer\":\"-2\""),           CS_INVALID,
         "vision_feature_layer is \"-2\"; it must be"                                                    },
        {LLAVA(FULL ",\"vision_feature_layer\":[-2,-1]"),          CS_UNSUPPORTED,
         "features of several layers"                                                                    },
        {SIGLIP("\"vision_feature_select_strategy\":\"default\""), CS_UNSUPPORTED,
         "vision_feature_select_strategy is \"default\""                                                 },
        {SIGLIP("\"image_seq_length\":16"),                        CS_UNSUPPORTED,
         "vision_feature_select_strategy is not given"                                                   },
        {LLAVA(FULL ",\"projector_hidden_act\":\"mish\""),         CS_UNSUPPORTED,
         "projector_hidden_act \"mish\" is not supported"                                                },
        {LLAVA(FULL ",\"multimodal_projector_bias\":0"),           CS_INVALID,
         "multimodal_projector_bias is 0; it must be true or false"                                      },
        {LLAVA(FULL ",\"tie_word_embeddings\":\"yes\""),           CS_INVALID,
         "tie_word_embeddings is \"yes\""                                                                },
        {LLAVA(FULL ",\"image_token_id\":-1"),                     CS_INVALID,     "image_token_id is -1"},
    };

    for (size_t i = 0; i < CS_ARRAY_LEN(rows); i++) {
        put(*state, "config.json", rows[i].config);
        refuses(*state, "vision", rows[i].status, rows[i].message);
    }
    put(*state, "config.json",
        LLAVA(FULL
              ",\"vision_feature_layer\":-1,\"projector_hidden_act\":\"relu\","
              "\"multimodal_projector_bias\":false,\"image_token_index\":4,\"image_token_id\":7"));
    struct cs_hfdir *hf = opened(*state, "projector");
    const struct cs_composite *root = cs_hfdir_composite(hf);
    assert_int_equal(root->feature_layer, -1);
    assert_int_equal(root->image_token, 7);
    assert_string_equal(root->activation, "relu");
    assert_false(root->has_bias);
    assert_string_equal(json_string_value(json_object_get(cs_hfdir_config(hf), "activation")),
                        "relu");
    cs_hfdir_close(hf);
    put(*state, "config.json", LLAVA("\"vision_feature_select_strategy\":\"default\""));
    hf = opened(*state, "llm");
    assert_int_equal(cs_hfdir_composite(hf)->feature_layer, -2); /* the default of the class */
    cs_hfdir_close(hf);
#undef LLAVA
#undef SIGLIP
#undef FULL
}

/* Rows that become one are a matter of the tower where the projector's keys do not say it. */
static void projectors_are_told_with_what_their_towers_say(void **state)
{
    static const struct {
        const char *config;
        int group;
        bool has_newline; /* a learned row that ends lines */
    } rows[] = {
        {"{\"model_type\":\"gemma3\",\"mm_tokens_per_image\":4,\"image_token_index\":9,"
         "\"text_config\":{\"model_type\":\"gemma3_text\",\"hidden_size\":48},"
         "\"vision_config\":{\"model_type\":\"siglip_vision_model\",\"hidden_size\":48,"
         "\"image_size\":28,\"patch_size\":7,\"num_attention_heads\":4,"
         "\"num_hidden_layers\":2,\"intermediate_size\":96}}",                            4, false},
        {"{\"model_type\":\"llava_next\",\"image_token_index\":9,"
         "\"text_config\":{\"model_type\":\"llama\",\"hidden_size\":48},"
         "\"vision_config\":{\"model_type\":\"clip_vision_model\",\"hidden_size\":48,"
         "\"image_size\":28,\"patch_size\":7,\"num_attention_heads\":4,"
         "\"num_hidden_layers\":2,\"intermediate_size\":96}}",                            0, true },
        {"{\"model_type\":\"voxtral\",\"audio_token_id\":24,"
         "\"text_config\":{\"model_type\":\"llama\",\"hidden_size\":48},"
         "\"audio_config\":{\"model_type\":\"voxtral_encoder\",\"hidden_size\":48,"
         "\"intermediate_size\":192,\"num_attention_heads\":4,\"num_hidden_layers\":2}}", 4, false},
    };

    for (size_t i = 0; i < CS_ARRAY_LEN(rows); i++) {
        struct cs_err err = {0};
        json_t *settings = NULL;
        put(*state, "config.json", rows[i].config);
        struct cs_hfdir *hf = opened(*state, "projector");
        if (cs_hfdir_projector_settings(hf, &settings, &err) != CS_OK)
            fail_msg("%s", err.text);
        assert_int_equal(json_integer_value(json_object_get(settings, "group")), rows[i].group);
        assert_int_equal(json_is_true(json_object_get(settings, "newline")), rows[i].has_newline);
        json_decref(settings);
        cs_hfdir_close(hf);
    }
}

static void bad_configurations_are_refused_by_name(void **state)
{
    refuses(*state, "", CS_NOT_FOUND, "config.json");
    put(*state, "config.json", "{\"model_type\":");
    refuses(*state, "", CS_CORRUPT, "config.json");
    put(*state, "config.json", "[]");
    refuses(*state, "", CS_CORRUPT, "object");
    put(*state, "config.json", "{\"a\":1,\"a\":2}");
    refuses(*state, "", CS_CORRUPT, "duplicate");
    put(*state, "config.json", "{\"model_type\":\"llama\"}");
    refuses(*state, "llm", CS_INVALID, "not that of a composite");
}

/* The root of an export, or a directory of models: what was meant is one below. */
static void a_directory_of_models_names_them(void **state)
{
    static const char *const folders[] = {"vision", "llm", "empty", ".hidden"};
    const char *parts[CS_MODULE_KINDS];
    struct cs_err err = {0};
    int n = 0;
    for (size_t i = 0; i < CS_ARRAY_LEN(folders); i++)
        assert_int_equal(mkdir(tmpdir_path(*state, folders[i]), 0755), 0);
    put(*state, "llm/config.json", "{}");
    put(*state, "vision/config.json", "{}");
    put(*state, ".hidden/config.json", "{}");
    refuses(*state, "", CS_NOT_FOUND, "has no config.json, but holds model directories: name ");
    assert_int_equal(cs_hfdir_list(*state, parts, &n, &err), CS_NOT_FOUND);
    assert_non_null(strstr(err.text, "/llm, "));
    assert_string_equal(err.text + strlen(err.text) - strlen("/vision"), "/vision");
    assert_null(strstr(err.text, "hidden"));
    assert_null(strstr(err.text, "empty"));
    refuses(tmpdir_path(*state, "empty"), "", CS_NOT_FOUND, "is not a Hugging Face model");
    refuses(tmpdir_path(*state, "gone"), "", CS_NOT_FOUND, "is not a Hugging Face model");
    put(*state, "empty/adapter_config.json", "{}");
    refuses(tmpdir_path(*state, "empty"), "", CS_NOT_FOUND, "holds an adapter, not a model: ");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, make_dir, drop_dir)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(golden_models_fit_their_configurations),
        TEST(both_llava_layouts_give_component_names),
        TEST(tensor_in_both_layouts_is_refused),
        TEST(shards_are_found_through_the_index),
        TEST(index_may_not_leave_the_directory),
        TEST(pickles_are_refused_with_advice),
        TEST(embeddings_of_a_composite_are_tied_by_root_or_text),
        TEST(the_head_is_the_embedding_where_flag_and_weights_agree),
        TEST(a_tensor_in_two_shards_is_refused),
        TEST(weights_under_names_that_nobody_reads_are_told),
        TEST(weights_that_are_no_numbers_are_named_with_their_place),
        TEST(tensors_that_nobody_reads_are_listed),
        TEST(the_root_of_a_composite_is_read_or_refused),
        TEST(projectors_are_told_with_what_their_towers_say),
        TEST(directory_without_weights_opens_and_fails_the_check),
        TEST(a_directory_of_models_names_them),
        TEST(bad_configurations_are_refused_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
