/* The attention of every block and the frequencies of its rotation, in every spelling, as the classes of
 * transformers make them of a config.json. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

#include "support/arch_config.h"

static void assert_same_arch(const struct cs_arch *a, const struct cs_arch *b)
{
    assert_string_equal(a->family, b->family);
    assert_int_equal(a->attention->rope.kind, b->attention->rope.kind);
    assert_true(fabs(a->attention->rope.theta - b->attention->rope.theta) <= 0);
    assert_true(fabs(a->attention->rope.factor - b->attention->rope.factor) <= 0);
    assert_true(fabs(a->attention->rope.low_freq - b->attention->rope.low_freq) <= 0);
    assert_true(fabs(a->attention->rope.high_freq - b->attention->rope.high_freq) <= 0);
    assert_int_equal(a->attention->rope.original_positions, b->attention->rope.original_positions);
    assert_int_equal(a->width, b->width);
    assert_int_equal(a->attention->head_dim, b->attention->head_dim);
    assert_int_equal(a->attention->n_kv_heads, b->attention->n_kv_heads);
    assert_int_equal(a->is_tied, b->is_tied);
    assert_int_equal(a->vocab, b->vocab);
}

static void old_and_new_spelling_are_equal(void **state)
{
    static const char *const pairs[][2] = {
        {"\"rope_theta\": 500000.0, \"rope_scaling\": {\"type\": \"llama3\", \"factor\": 32.0, "
         "\"low_freq_factor\": 1.0, \"high_freq_factor\": 4.0, "
         "\"original_max_position_embeddings\": 8192}, \"torch_dtype\": \"bfloat16\"", "\"rope_parameters\": {\"rope_type\": \"llama3\", \"rope_theta\": 500000.0, \"factor\": "
         "32.0, \"low_freq_factor\": 1.0, \"high_freq_factor\": 4.0, "
         "\"original_max_position_embeddings\": 8192}, \"dtype\": \"bfloat16\""},
        {"\"rope_theta\": 1000000.0, \"rope_scaling\": null",
         "\"rope_parameters\": {\"rope_type\": \"default\", \"rope_theta\": 1000000.0}"                                                                                       },
        {"\"rope_scaling\": {\"rope_type\": \"linear\", \"factor\": 2}",
         "\"rope_parameters\": {\"rope_type\": \"linear\", \"factor\": 2, \"rope_theta\": 10000}"                                                                             },
    };
    (void)state;
    for (size_t i = 0; i < CS_ARRAY_LEN(pairs); i++) {
        struct cs_arena *arena = cs_arena_new(0);
        struct cs_arch arch[2];
        for (int k = 0; k < 2; k++)
            cs_test_arch_text(
                cs_arena_printf(arena, "{\"model_type\": \"llama\", %s}", pairs[i][k]), arena,
                &arch[k]);
        assert_same_arch(&arch[0], &arch[1]);
        cs_arena_free(arena);
    }
}

/* Written from the definition, in wavelengths, in another order than the code. */
static double llama3_reference(int i, double theta, int dim, double factor, double low, double high,
                               double original)
{
    const double two_pi = 6.283185307179586;
    double wavelength = two_pi * exp(log(theta) * (2.0 * i / dim));
    double turns = original / wavelength;
    double keep = turns >= high ? 1 : turns <= low ? 0 : (turns - low) / (high - low);
    return two_pi / wavelength * (keep + (1 - keep) / factor);
}

/* What LlamaRotaryEmbedding of transformers 5.17 makes of every pair of spellings: inv_freq[1] of a
 * head of 16, a model of 128 positions. */
static void of_two_spellings_of_rope_that_of_transformers_holds(void **state)
{
    static const struct {
        const char *keys;
        double freq;
        int shadowed, unread;
    } rows[] = {

#define LINEAR "\"rope_scaling\": {\"type\": \"linear\", \"factor\": 4.0}"
#define NEW    "\"rope_parameters\": {\"rope_type\": \"default\", \"rope_theta\": 500.0}"
#define LLAMA3                                                                                     \
    "\"rope_type\": \"llama3\", \"factor\": 4.0, \"low_freq_factor\": 1.0, \"high_freq_factor\": " \
    "4.0"
        {LINEAR,                                                                                           0.079057, 0, 0},
        {NEW ", " LINEAR,                                                                                  0.079057, 1, 0},
        {NEW ", " LINEAR ", \"rope_theta\": 7777.0",                                                       0.081581, 1, 0},
        {"\"rope_scaling\": {}, \"rope_parameters\": {\"rope_type\": \"linear\", \"factor\": 2.0, "
         "\"rope_theta\": 500.0}",                                                                0.229932, 0, 0},
        {"\"rope_scaling\": null, \"rope_parameters\": {\"rope_type\": \"linear\", \"factor\": "
         "2.0, \"rope_theta\": 500.0}",                                                           0.229932, 0, 0},
        {NEW ", \"rope_theta\": 7777.0",                                                                   0.459863, 1, 0},
        {"\"rope_parameters\": {\"rope_type\": \"default\"}, \"rope_theta\": 7777.0",                      0.326324, 0,
         0                                                                                                               },
        {"\"rope_scaling\": {\"type\": \"linear\", \"rope_type\": \"default\", \"factor\": 4.0}",
         0.316228,                                                                                                   1, 1},
        {"\"rope_scaling\": {\"factor\": 4.0}",                                                            0.316228, 0, 1},
        {"\"rope_scaling\": {" LLAMA3 "}",                                                                 0.316228, 0, 0},
        {"\"rope_scaling\": {" LLAMA3 "}, \"original_max_position_embeddings\": 32",                       0.127324, 0,
         0                                                                                                               },
        {"\"rope_scaling\": {" LLAMA3
         ", \"original_max_position_embeddings\": 64}, \"original_max_position_embeddings\": 32", 0.127324, 1, 0},
#undef LINEAR
#undef NEW
#undef LLAMA3
    };

    (void)state;
    for (size_t i = 0; i < CS_ARRAY_LEN(rows); i++) {
        struct cs_arena *arena = cs_arena_new(0);
        struct cs_findings findings = {.arena = arena};
        struct cs_arch arch;
        struct cs_err err = {.text = ""};
        float freq[8];
        json_t *config = json_loads(
            cs_arena_printf(arena,
                            "{\"model_type\": \"llama\", \"hidden_size\": 64, "
                            "\"num_attention_heads\": 4, \"max_position_embeddings\": 128, %s}",
                            rows[i].keys),
            0, NULL);
        assert_non_null(config);
        if (cs_arch_read(&(struct cs_config_source){"config.json", "", config, &findings}, arena,
                         &arch, &err) != CS_OK)
            fail_msg("%s: %s", rows[i].keys, err.text);
        cs_rope_inv_freq(&arch.attention->rope, freq);
        if (fabs((double)freq[1] - rows[i].freq) > 1e-6 ||
            cs_findings_count(&findings, CS_FINDING_SHADOWED) != rows[i].shadowed ||
            cs_findings_count(&findings, CS_FINDING_UNKNOWN) != rows[i].unread)
            fail_msg("%s: inv_freq[1] %g, %d shadowed, %d unread", rows[i].keys, (double)freq[1],
                     cs_findings_count(&findings, CS_FINDING_SHADOWED),
                     cs_findings_count(&findings, CS_FINDING_UNKNOWN));
        json_decref(config);
        cs_arena_free(arena);
    }
}

static void llama3_frequencies_equal_the_definition(void **state)
{
    struct cs_arena *arena = cs_arena_new(0);
    struct cs_arch arch;
    float freq[64];
    int n_mixed = 0;
    (void)state;
    json_t *config = cs_test_config("llama3-tied");
    cs_test_arch(config, arena, &arch);
    cs_rope_inv_freq(&arch.attention->rope, freq);
    for (int i = 0; i < 8; i++) {
        double want = llama3_reference(i, 5e5, 16, 8, 1, 4, 32);
        assert_true(fabs((double)freq[i] - want) <= 1e-7 * want);
    }
    json_decref(config);
    cs_test_arch_text("{\"model_type\": \"llama\", \"rope_theta\": 500000.0, \"rope_scaling\": "
                      "{\"rope_type\": \"llama3\", \"factor\": 32.0, \"low_freq_factor\": 1.0, "
                      "\"high_freq_factor\": 4.0, \"original_max_position_embeddings\": 8192}}",
                      arena, &arch);
    cs_rope_inv_freq(&arch.attention->rope, freq);
    for (int i = 0; i < 64; i++) {
        double want = llama3_reference(i, 5e5, 128, 32, 1, 4, 8192);
        double plain = pow(5e5, -2.0 * i / 128);
        assert_true(fabs((double)freq[i] - want) <= 1e-7 * want);
        n_mixed += want < plain * 0.999 && want > plain / 32 * 1.001;
    }
    assert_true(n_mixed > 0); /* all three ranges are met */
    cs_arena_free(arena);
}

static void linear_and_default_frequencies_equal_the_definition(void **state)
{
    struct cs_arena *arena = cs_arena_new(0);
    struct cs_arch arch;
    float plain[64], linear[64];
    (void)state;
    cs_test_arch_text("{\"model_type\": \"llama\"}", arena, &arch);
    cs_rope_inv_freq(&arch.attention->rope, plain);
    cs_test_arch_text(
        "{\"model_type\": \"llama\", \"rope_scaling\": {\"type\": \"linear\", \"factor\": "
        "4.0}}",
        arena, &arch);
    cs_rope_inv_freq(&arch.attention->rope, linear);
    for (int i = 0; i < 64; i++) {
        double want = 1 / exp(log(1e4) * i / 64);
        assert_true(fabs((double)plain[i] - want) <= 1e-7 * want);
        assert_true(fabs((double)linear[i] - want / 4) <= 1e-7 * want);
    }
    cs_arena_free(arena);
}

/* As transformers has it: a model with one rotation reads whether the bounds are whole, one with a rotation
 * for each kind of layer does not. */
static void bounds_of_yarn_are_whole_where_kinds_have_their_own(void **state)
{
#define YARN                                                                                       \
    "{\"rope_type\": \"yarn\", \"factor\": 8, \"original_max_position_embeddings\": 64, "          \
    "\"truncate\": "

    static const struct {
        const char *text[2];
        bool is_same;
    } rows[] = {
        {{"{\"model_type\": \"llama\", \"rope_parameters\": " YARN "true}}",
          "{\"model_type\": \"llama\", \"rope_parameters\": " YARN "false}}"},
         false},
        {{"{\"model_type\": \"gemma3_text\", \"layer_types\": [\"full_attention\"], "
          "\"num_hidden_layers\": 1, "
          "\"rope_parameters\": {\"full_attention\": " YARN "true}}}",
          "{\"model_type\": \"gemma3_text\", \"layer_types\": [\"full_attention\"], "
          "\"num_hidden_layers\": 1, "
          "\"rope_parameters\": {\"full_attention\": " YARN "false}}}"},
         true },
    };

#undef YARN
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct cs_arena *arena = cs_arena_new(0);
        struct cs_arch arch[2];
        float freq[2][128] = {{0}};
        for (int k = 0; k < 2; k++) {
            cs_test_arch_text(rows[i].text[k], arena, &arch[k]);
            cs_rope_inv_freq(&arch[k].attention->rope, freq[k]);
        }
        assert_int_equal(memcmp(freq[0], freq[1], sizeof freq[0]) == 0, rows[i].is_same);
        cs_arena_free(arena);
    }
}

/* Kinds by block as digits, and the window of each kind (0: none), as Qwen2Config gives them. */
static void blocks_have_the_attention_that_transformers_gives_them(void **state)
{
    static const struct {
        const char *keys, *kinds;
        int n, window[2];
    } rows[] = {
        {"",                                                                                 "0000", 1, {0}      },
        {"\"sliding_window\": 8, \"max_window_layers\": 1",                                  "0000", 1, {0}      },
        {"\"use_sliding_window\": true, \"sliding_window\": null, \"max_window_layers\": 1",
         "0000",                                                                                     1,
         {0}                                                                                                     },
        {"\"use_sliding_window\": true, \"sliding_window\": 8",
         "0000",                                                                                     1,
         {0}                                                                                                     }, /* from block 28 on */
        {"\"use_sliding_window\": true, \"max_window_layers\": 3",                           "0001", 2, {0, 4096}},
        {"\"use_sliding_window\": true, \"sliding_window\": 8, \"max_window_layers\": 0",
         "0000",                                                                                     1,
         {8}                                                                                                     },
        {"\"use_sliding_window\": true, \"sliding_window\": 8, \"layer_types\": "
         "[\"sliding_attention\", "
         "\"full_attention\", \"sliding_attention\", \"full_attention\"]",          "0101",
         2,                                                                                             {8, 0}   },
        {"\"use_sliding_window\": true, \"layer_types\": null, \"max_window_layers\": 2",
         "0011",                                                                                     2,
         {0, 4096}                                                                                               },
    };

    (void)state;
    for (size_t i = 0; i < CS_ARRAY_LEN(rows); i++) {
        struct cs_arena *arena = cs_arena_new(0);
        struct cs_arch arch;
        cs_test_arch_text(
            cs_arena_printf(arena, "{\"model_type\": \"qwen2\", \"num_hidden_layers\": 4%s%s}",
                            rows[i].keys[0] != '\0' ? ", " : "", rows[i].keys),
            arena, &arch);
        assert_int_equal(arch.n_attentions, rows[i].n);
        for (int b = 0; b < 4; b++)
            assert_int_equal(cs_arch_block_attention(&arch, b), rows[i].kinds[b] - '0');
        for (int k = 0; k < rows[i].n; k++) {
            const struct cs_attention *a = &arch.attention[k];
            const int window = rows[i].window[k];
            assert_int_equal(a->rule.kind, window > 0 ? CS_MASK_WINDOW : CS_MASK_CAUSAL);
            assert_int_equal(a->rule.window, window);
            assert_int_equal(a->n_heads, 32);
            assert_int_equal(a->head_dim, 128);
            assert_true(fabs((double)a->scale - 1 / sqrt(128.0)) <= 1e-7);
            assert_true(cs_rope_is_same(&a->rope, &arch.attention[0].rope));
        }
        cs_arena_free(arena);
    }
}

/* ---- configs.json: what the classes of transformers make of configurations ---- */

static double number(const json_t *object, const char *key, double absent)
{
    const json_t *v = json_object_get(object, key);
    return v == NULL ? absent : json_is_boolean(v) ? json_is_true(v) : json_number_value(v);
}

static void assert_number(const char *config, const char *what, double got, double want)
{
    if (!(fabs(got - want) <= 1e-6 * fabs(want) + 1e-12))
        fail_msg("%s: %s is %.9g, the class has %.9g", config, what, got, want);
}

/* the same frequencies and factor, whatever the kind is called */
static void check_rope(const char *config, const struct cs_rope *rope, const json_t *want)
{
    float freq[512];
    const json_t *list = json_object_get(want, "inv_freq");
    cs_rope_inv_freq(rope, freq);
    assert_number(config, "number of frequencies", rope->dims / 2, (double)json_array_size(list));
    for (size_t i = 0; i < json_array_size(list); i++)
        assert_number(config, "an inverse frequency", (double)freq[i],
                      json_number_value(json_array_get(list, i)));
    assert_number(config, "the factor of cosine and sine",
                  rope->amplitude > 0 ? rope->amplitude : 1, number(want, "scaling", 1));
}

static void check_layers(const char *config, const struct cs_arch *arch, const json_t *c)
{
    const json_t *layers = json_object_get(c, "layers"), *ropes = json_object_get(c, "ropes");
    assert_number(config, "layers", arch->n_layers, (double)json_array_size(layers));
    for (int32_t i = 0; i < arch->n_layers; i++) {
        const json_t *want = json_array_get(layers, (size_t)i);
        const struct cs_attention *a = &arch->attention[cs_arch_block_attention(arch, i)];
        assert_number(config, "window", a->rule.window, number(want, "window", 0));
        assert_int_equal(a->rule.kind,
                         number(want, "window", 0) > 0 ? CS_MASK_WINDOW : CS_MASK_CAUSAL);
        assert_number(config, "head_dim", a->head_dim, number(want, "head_dim", 0));
        assert_number(config, "kv heads", a->n_kv_heads, number(want, "num_key_value_heads", 0));
        check_rope(config, &a->rope, json_array_get(ropes, (size_t)number(want, "rope", 0)));
    }
}

static void configurations_become_what_their_classes_make_of_them(void **state)
{
    json_error_t error;
    json_t *cases = json_load_file("tests/golden/configs.json", 0, &error);
    const json_t *c;
    size_t n;
    (void)state;
    if (cases == NULL)
        fail_msg("%s", error.text);
    assert_true(json_array_size(cases) > 30);
    json_array_foreach(cases, n, c)
    {
        struct cs_arena *arena = cs_arena_new(0);
        struct cs_arch a;
        const json_t *want = json_object_get(c, "want");
        char *text = json_dumps(json_object_get(c, "config"), 0);
        cs_test_arch(json_object_get(c, "config"), arena, &a);
        assert_number(text, "width", a.width, number(want, "hidden_size", 0));
        assert_number(text, "ffn", a.ffn_width, number(want, "intermediate_size", 0));
        assert_number(text, "heads", a.attention->n_heads, number(want, "num_attention_heads", 0));
        assert_number(text, "vocab", a.vocab, number(want, "vocab_size", 0));
        assert_number(text, "positions", a.max_positions,
                      number(want, "max_position_embeddings", 0));
        assert_number(text, "eps", (double)a.norm_eps, number(want, "rms_norm_eps", 0));
        /* inside of a composite that alone says so */
        if (json_object_get(want, "tie_word_embeddings") != NULL)
            assert_number(text, "tied", a.is_tied, number(want, "tie_word_embeddings", 0));
        assert_number(text, "initializer", (double)a.initializer_range,
                      number(want, "initializer_range", 0));
        assert_number(text, "cap", (double)a.logit_softcap,
                      number(want, "final_logit_softcapping", 0));
        assert_number(text, "attention's cap", (double)a.attention->softcap,
                      number(want, "attn_logit_softcapping", 0));
        check_layers(text, &a, c);
        free(text);
        cs_arena_free(arena);
    }
    json_decref(cases);
}

static void frequencies_beyond_the_original_length_are_others(void **state)
{
    struct cs_arena *arena = cs_arena_new(0);
    struct cs_arch arch;
    float freq[8], beyond[8];
    (void)state;
    cs_test_arch_text("{\"model_type\": \"phi3\", \"hidden_size\": 16, \"num_attention_heads\": 4, "
                      "\"rope_scaling\": {\"type\": \"longrope\", \"short_factor\": [1, 2], "
                      "\"long_factor\": [4, 16]}}",
                      arena, &arch);
    cs_rope_inv_freq(&arch.attention->rope, freq);
    assert_true(cs_rope_inv_freq_long(&arch.attention->rope, 8192, beyond));
    for (int i = 0; i < 2; i++)
        assert_true(fabs((double)(freq[i] / beyond[i]) - (i == 0 ? 4 : 8)) <= 1e-6);
    cs_test_arch_text("{\"model_type\": \"llama\"}", arena, &arch);
    assert_false(cs_rope_inv_freq_long(&arch.attention->rope, 8192, beyond));
    cs_test_arch_text(
        "{\"model_type\": \"llama\", \"head_dim\": 8, \"max_position_embeddings\": 64, "
        "\"rope_scaling\": {\"type\": \"dynamic\", \"factor\": 2}}",
        arena, &arch);
    assert_int_equal(arch.attention->rope.original_positions, 64);
    assert_true(cs_rope_inv_freq_long(&arch.attention->rope, 96, beyond));
    for (int i = 0; i < 4; i++) { /* 2 x 96 / 64 - 1 = 2, and 8 / (8 - 2) */
        const double want = pow(1e4 * pow(2, 8.0 / 6), -i / 4.0);
        assert_true(fabs((double)beyond[i] - want) <= 1e-6 * want);
    }
    cs_arena_free(arena);
}

/* The position that turns each pair, as recomposition_frequencies of both classes puts them. */
static void pairs_turn_by_time_height_and_width(void **state)
{
    static const struct {
        const char *type, *axes;
        int section[3];
    } rows[] = {
        {"qwen2_vl_text", "0011112222", {2, 4, 4}},
        {"qwen3_vl_text", "0120120120", {4, 3, 3}},
        {"qwen3_vl_text", "0120120000", {6, 2, 2}},
    };

    (void)state;
    for (size_t i = 0; i < CS_ARRAY_LEN(rows); i++) {
        struct cs_arena *arena = cs_arena_new(0);
        struct cs_arch arch;
        cs_test_arch_text(cs_arena_printf(arena,
                                          "{\"model_type\": \"%s\", \"hidden_size\": 80, "
                                          "\"num_attention_heads\": 4, \"num_key_value_heads\": 2, "
                                          "\"head_dim\": 20, \"rope_scaling\": {\"rope_type\": "
                                          "\"default\", \"mrope_section\": [%d, %d, %d]}}",
                                          rows[i].type, rows[i].section[0], rows[i].section[1],
                                          rows[i].section[2]),
                          arena, &arch);
        for (int k = 0; k < 10; k++)
            assert_int_equal(cs_rope_axis(&arch.attention->rope, k), rows[i].axes[k] - '0');
        cs_arena_free(arena);
    }
}

/* Positions beyond the original length make queries larger, step by step. */
static void queries_grow_with_their_position(void **state)
{
    const struct cs_rope rope = {.query_growth = 0.5, .original_positions = 8}, none = {.dims = 2};
    (void)state;
    assert_true(fabs(cs_rope_query_scale(&rope, 7) - 1) <= 1e-12);
    assert_true(fabs(cs_rope_query_scale(&rope, 8) - (1 + 0.5 * log(2))) <= 1e-12);
    assert_true(fabs(cs_rope_query_scale(&rope, 31) - (1 + 0.5 * log(4))) <= 1e-12);
    assert_true(fabs(cs_rope_query_scale(&none, 31) - 1) <= 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(old_and_new_spelling_are_equal),
        cmocka_unit_test(of_two_spellings_of_rope_that_of_transformers_holds),
        cmocka_unit_test(llama3_frequencies_equal_the_definition),
        cmocka_unit_test(linear_and_default_frequencies_equal_the_definition),
        cmocka_unit_test(bounds_of_yarn_are_whole_where_kinds_have_their_own),
        cmocka_unit_test(blocks_have_the_attention_that_transformers_gives_them),
        cmocka_unit_test(configurations_become_what_their_classes_make_of_them),
        cmocka_unit_test(frequencies_beyond_the_original_length_are_others),
        cmocka_unit_test(pairs_turn_by_time_height_and_width),
        cmocka_unit_test(queries_grow_with_their_position),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
