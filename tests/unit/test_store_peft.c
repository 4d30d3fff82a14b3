/* Adapters are named as PEFT's model over the whole composite names them, and read back so. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "core/arch/read/composite.h"
#include "core/base/arena.h"
#include "store/fsio.h"
#include "store/hf/peft.h"
#include "support/tmpdir.h"

#define LAYER "layers.0.self_attn.q_proj"

static struct cs_param params[] = {
    {.tensor = "model." LAYER ".weight",        .n_dims = 2, .dim = {6, 4}},
    {.tensor = "model." LAYER ".lora_A.weight", .n_dims = 2, .dim = {2, 4}},
    {.tensor = "model." LAYER ".lora_B.weight", .n_dims = 2, .dim = {6, 2}},
};
static struct cs_layer one_layer = {.first_param = 0, .n_params = 3};
static struct cs_module llm = {.name = "llm", .kind = CS_MODULE_LLM};
static struct cs_graph_adapter adapter = {.param = 0, .a = 1, .b = 2, .rank = 2, .scale = 2};
static const struct cs_graph graph = {.modules = &llm,
                                      .n_modules = 1,
                                      .layers = &one_layer,
                                      .n_layers = 1,
                                      .params = params,
                                      .n_params = 3,
                                      .adapters = &adapter,
                                      .n_adapters = 1,
                                      .tied_param = -1};

static enum cs_status ones(void *user, const struct cs_param *param, float *out, struct cs_err *err)
{
    (void)user, (void)err;
    for (int64_t i = 0; i < param->dim[0] * param->dim[1]; i++)
        out[i] = 1;
    return CS_OK;
}

static const struct cs_composite_family *family_of(const char *model_type)
{
    json_t *config = json_pack("{s:s}", "model_type", model_type);
    const struct cs_composite_family *family = cs_composite_of(config);
    json_decref(config);
    assert_non_null(family);
    return family;
}

/* layer: what the class of transformers calls the layer */
static void check(const struct cs_composite_family *family, const char *layer)
{
    char *tmp = tmpdir_new(), path[CS_PATH_CAP], name[256];
    struct cs_err err = {.text = ""};
    struct cs_peft *peft = NULL;
    struct cs_st_file *file = NULL;
    json_t *rows = NULL;

    if (cs_peft_write(&graph, &llm, family, "/base", ones, NULL, tmp, &err) != CS_OK)
        fail_msg("%s", err.text);
    assert_int_equal(cs_path(path, &err, "%s/adapter_model.safetensors", tmp), CS_OK);
    assert_int_equal(cs_st_open(path, &file, &err), CS_OK);
    snprintf(name, sizeof name, "base_model.model.%s.lora_A.weight", layer);
    assert_non_null(cs_st_find(file, name));
    cs_st_close(file);
    assert_int_equal(cs_peft_open(tmp, &peft, &err), CS_OK);
    assert_non_null(cs_peft_find(peft, family, CS_MODULE_LLM, params[1].tensor));
    assert_int_equal(cs_peft_rows(peft, "llm", &rows, &err), CS_OK);
    const json_t *row = json_array_get(rows, 0);
    assert_string_equal(json_string_value(json_object_get(row, "targets")), "model." LAYER);
    assert_float_equal(json_number_value(json_object_get(row, "alpha")), 4, 1e-9);
    json_decref(rows);
    cs_peft_close(peft);
    tmpdir_free(tmp);
}

static void a_language_model_alone_has_its_own_names(void **state)
{
    (void)state;
    check(NULL, "model." LAYER);
}

static void composites_have_the_names_of_their_classes(void **state)
{
    static const char *const inside[] = {"llava", "gemma3", "qwen2_vl", "qwen2_5_vl", "qwen3_vl"};
    (void)state;
    for (size_t i = 0; i < CS_ARRAY_LEN(inside); i++)
        check(family_of(inside[i]), "model.language_model." LAYER);
    check(family_of("smolvlm"), "model.text_model." LAYER);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_language_model_alone_has_its_own_names),
        cmocka_unit_test(composites_have_the_names_of_their_classes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
