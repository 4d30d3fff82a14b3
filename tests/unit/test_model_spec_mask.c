/* The mask of an LLM in a job: what is accepted, what is refused and how. */
#include "core/model/spec.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

#include "support/spec.h"

static const struct cs_spec_module *find_llm(const struct cs_spec *spec)
{
    for (int i = 0; i < spec->n_modules; i++)
        if (spec->module[i].kind == CS_MODULE_LLM)
            return &spec->module[i];
    fail_msg("no llm");
    return NULL;
}

static enum cs_status read(const struct cs_test_spec *options, struct cs_arena *arena,
                           json_t **root, struct cs_spec **spec, struct cs_err *err)
{
    *root = cs_test_spec_json(options);
    return cs_spec_read(*root, arena, spec, err);
}

static void an_llm_is_causal_by_default(void **state)
{
    (void)state;
    struct cs_arena *arena = cs_arena_new(0);
    struct cs_spec *spec = NULL;
    json_t *root;
    struct cs_err err = {.text = ""};
    assert_int_equal(read(NULL, arena, &root, &spec, &err), CS_OK);
    assert_string_equal(find_llm(spec)->mask, "causal");
    assert_int_equal(find_llm(spec)->window, 0);
    assert_int_equal(find_llm(spec)->prefix, 0);
    json_decref(root);
    cs_arena_free(arena);
}

static void every_rule_is_read(void **state)
{
    (void)state;

    static const struct {
        const char *mask;
        int window, prefix;
    } rows[] = {
        {"causal",             0,   0 },
        {"packed",             0,   0 },
        {"cornstarch",         0,   0 },
        {"image_bidir",        0,   0 },
        {"modality_bidir",     0,   0 },
        {"item",               0,   0 },
        {"window",             512, 0 },
        {"prefix",             0,   64},
        {"image_bidir_window", 12,  0 },
        {"image_window",       12,  0 },
        {"image_window",       0,   0 },
    };

    for (size_t i = 0; i < CS_ARRAY_LEN(rows); i++) {
        struct cs_arena *arena = cs_arena_new(0);
        struct cs_spec *spec = NULL;
        struct cs_err err = {.text = ""};
        json_t *root;
        const struct cs_test_spec options = {
            .mask = rows[i].mask, .window = rows[i].window, .prefix = rows[i].prefix};
        if (read(&options, arena, &root, &spec, &err) != CS_OK)
            fail_msg("%s", err.text);
        assert_string_equal(find_llm(spec)->mask, rows[i].mask);
        assert_int_equal(find_llm(spec)->window, rows[i].window);
        assert_int_equal(find_llm(spec)->prefix, rows[i].prefix);
        json_decref(root);
        cs_arena_free(arena);
    }
}

/* full is no rule of a language model: a token would see the one that it is to predict */
static void bad_masks_are_refused_in_words(void **state)
{
    (void)state;

    static const struct {
        const char *mask;
        int window, prefix;
        const char *text;
    } rows[] = {
        {"full",          0,  0,       "model.modules[2].mask is \"full\"; accepted: causal|" },
        {"bidirectional", 0,  0,       "accepted: causal|packed|cornstarch|"                  },
        {"window",        0,  0,       "is \"window\", which needs window of at least 1 token"},
        {"prefix",        0,  0,       "is \"prefix\", which needs prefix of at least 1 token"},
        {"window",        4,  4,
         "model.modules[2].prefix is 4, but mask is \"window\"; "
         "set mask to \"prefix\" or leave prefix out"                                         },
        {NULL,            4,  0,       "model.modules[2].window is 4, but mask is \"causal\"" },
        {"window",        -1, 0,       "model.modules[2].window is -1"                        },
        {"prefix",        0,  1 << 25, "model.modules[2].prefix is 33554432"                  },
    };

    for (size_t i = 0; i < CS_ARRAY_LEN(rows); i++) {
        struct cs_arena *arena = cs_arena_new(0);
        struct cs_spec *spec = NULL;
        struct cs_err err = {.text = ""};
        json_t *root;
        const struct cs_test_spec options = {
            .mask = rows[i].mask, .window = rows[i].window, .prefix = rows[i].prefix};
        assert_int_equal(read(&options, arena, &root, &spec, &err), CS_INVALID);
        if (strstr(err.text, rows[i].text) == NULL)
            fail_msg("row %zu: \"%s\" does not say \"%s\"", i, err.text, rows[i].text);
        json_decref(root);
        cs_arena_free(arena);
    }
}

/* The job's mask takes the place of the causal rule; a window of the model's own stays, joined with
 * rules that mean something beside it. Rules of a layer without a window and of one with 9. */
static void a_mask_is_joined_with_windows_of_the_model_or_refused(void **state)
{
    (void)state;

    static const struct {
        const char *mask;
        int window;
        enum cs_mask_kind full, sliding; /* CS_MASK_KINDS: refused */
    } rows[] = {
        {"causal",       0, CS_MASK_CAUSAL,      CS_MASK_WINDOW      },
        {"packed",       0, CS_MASK_CAUSAL,      CS_MASK_WINDOW      },
        {"image_bidir",  0, CS_MASK_IMAGE_BIDIR, CS_MASK_IMAGE_WINDOW},
        {"image_window", 0, CS_MASK_CAUSAL,      CS_MASK_IMAGE_WINDOW},
        {"cornstarch",   0, CS_MASK_KINDS,       CS_MASK_KINDS       },
        {"image_window", 4, CS_MASK_KINDS,       CS_MASK_KINDS       },
    };

    for (size_t i = 0; i < CS_ARRAY_LEN(rows); i++) {
        struct cs_arena *arena = cs_arena_new(0);
        struct cs_err err = {.text = ""};
        struct cs_spec *spec = NULL;
        struct cs_graph *graph = NULL;
        const struct cs_test_spec options = {
            .mask = rows[i].mask, .window = rows[i].window, .is_qwen2 = true, .sliding_window = 9};
        json_t *root = cs_test_spec_json(&options);
        assert_int_equal(cs_spec_read(root, arena, &spec, &err), CS_OK);
        const enum cs_status status = cs_graph_build(spec, false, arena, &graph, &err);
        assert_int_equal(status, rows[i].full != CS_MASK_KINDS ? CS_OK : CS_UNSUPPORTED);
        if (status == CS_OK) {
            const struct cs_attention *a = graph->modules[graph->n_modules - 1].arch.attention;
            assert_int_equal(a[0].rule.kind, rows[i].full);
            assert_int_equal(a[1].rule.kind, rows[i].sliding);
            assert_int_equal(a[1].rule.window, 9);
        } else {
            assert_non_null(strstr(err.text, "window of 9 tokens"));
        }
        json_decref(root);
        cs_arena_free(arena);
    }
}

static void a_window_that_nobody_has_is_asked_for(void **state)
{
    (void)state;
    struct cs_arena *arena = cs_arena_new(0);
    struct cs_err err = {.text = ""};
    struct cs_spec *spec = NULL;
    struct cs_graph *graph = NULL;
    const struct cs_test_spec options = {.mask = "image_window"};
    json_t *root = cs_test_spec_json(&options);
    assert_int_equal(cs_spec_read(root, arena, &spec, &err), CS_OK);
    assert_int_equal(cs_graph_build(spec, false, arena, &graph, &err), CS_INVALID);
    assert_non_null(strstr(err.text, "without a window"));
    json_decref(root);
    cs_arena_free(arena);
}

static void a_mask_is_a_key_of_the_llm(void **state)
{
    (void)state;
    struct cs_arena *arena = cs_arena_new(0);
    struct cs_spec *spec = NULL;
    struct cs_err err = {.text = ""};
    json_t *root = cs_test_spec_json(NULL);
    json_t *modules = json_object_get(json_object_get(root, "model"), "modules");
    json_object_set_new(json_array_get(modules, 0), "mask", json_string("cornstarch"));
    assert_int_equal(cs_spec_read(root, arena, &spec, &err), CS_INVALID);
    assert_non_null(strstr(err.text, "model.modules[0].mask is a key of llm modules"));
    json_decref(root);
    cs_arena_free(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_llm_is_causal_by_default),
        cmocka_unit_test(every_rule_is_read),
        cmocka_unit_test(bad_masks_are_refused_in_words),
        cmocka_unit_test(a_mask_is_a_key_of_the_llm),
        cmocka_unit_test(a_mask_is_joined_with_windows_of_the_model_or_refused),
        cmocka_unit_test(a_window_that_nobody_has_is_asked_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
