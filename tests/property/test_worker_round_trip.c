/* What is exported and opened again is the model that was trained: for every kind of projector, layer
 * of features and tie, a script makes a model, one step trains it, it is exported, a script that says
 * nothing but the directories opens it, and the next step has the same loss to the bit. */
#include "worker/train/trainer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

#include "lua/eval.h"
#include "store/fsio.h"
#include "store/hf/export.h"
#include "support/device.h"
#include "support/need.h"
#include "support/planned.h"
#include "support/step.h"
#include "support/tmpdir.h"

enum { SEED = 9 };

struct job {
    struct cs_test_planned made;
    struct cs_trainer *trainer;
};

/* The modules that a script gives in the document of a job. */
static json_t *document_of(const char *script)
{
    struct cs_err err = {.text = ""};
    struct cs_lua *lua = NULL;
    struct cs_script_result result = {0};
    need(cs_lua_open(NULL, NULL, NULL, &lua, &err), &err);
    if (cs_lua_run_text(lua, "script", script, &result, &err) != CS_OK)
        fail_msg("%s\n%s", err.text, script);
    assert_int_equal(result.kind, CS_SCRIPT_PLAN);
    json_t *root = cs_test_spec_json(NULL);
    json_object_set(root, "model", json_object_get(result.document, "model"));
    cs_script_result_free(&result);
    cs_lua_close(lua);
    return root;
}

/* vision, projector, llm: Lua */
static json_t *script_of(const char *vision, const char *projector, const char *llm)
{
    char text[4096];
    const int n = snprintf(
        text, sizeof text,
        "local cs = require 'cornstarch'\n"
        "local model = cs.mllm { encoders = { vision = { from = %s, projector = %s } }, llm = %s "
        "}\n"
        "return cs.plan { model = model:train('*'), cluster = cs.cluster { device = 'cpu' },\n"
        "  parallel = { vision = { pp = 1 }, llm = { pp = 1 } }, seq_tokens = 128, slots = 4 }\n",
        vision, projector, llm);
    assert_in_range(n, 1, sizeof text - 1);
    return document_of(text);
}

static void open_job(struct job *j, json_t *root)
{
    struct cs_err err = {.text = ""};
    *j = (struct job){.made = cs_test_plan_json(root, NULL)};
    cs_test_put_on_one_rank(j->made.plan);
    const struct cs_trainer_config config = {.spec = j->made.spec,
                                             .graph = j->made.graph,
                                             .plan = j->made.plan,
                                             .device = cs_test_device()};
    need(cs_trainer_new(&config, &j->trainer, &err), &err);
    need(cs_params_load(j->trainer->params, SEED, &err), &err);
}

static void close_job(struct job *j)
{
    cs_trainer_free(j->trainer);
    cs_test_planned_free(&j->made);
}

static double run(struct job *j, int64_t number)
{
    struct cs_err err = {.text = ""};
    struct cs_test_step step;
    struct cs_step_result result;
    cs_test_step_new(&step, &j->made.plan->budget, 2, number);
    cs_test_step_random(&step, (uint64_t)(50 + number), 199, 100);
    need(cs_trainer_step(j->trainer, &step.manifest, step.slot, NULL, &result, &err), &err);
    cs_test_step_free(&step);
    assert_true(result.has_loss && result.trained_tokens > 0);
    return result.loss_sum;
}

static double loss_of(json_t *root, int64_t number)
{
    struct job j;
    open_job(&j, root);
    const double loss = run(&j, number);
    close_job(&j);
    return loss;
}

static enum cs_status give(void *user, const struct cs_param *param, float *out, struct cs_err *err)
{
    const struct cs_shard *shard = cs_params_find(((struct job *)user)->trainer->params, param->id);
    return cs_device_read(cs_test_device(), out, shard->master != NULL ? shard->master : shard->w,
                          (size_t)param->count * sizeof *out, err);
}

/* model directories without weights, the language model with its tokenizer's one token */
static void make_sources(const char *tmp)
{
    static const char *const names[] = {"vision", "llm", "tied"};
    static const char tokenizer[] =
        "{\"added_tokens\":[{\"id\":198,\"content\":\"<image>\"}],\"model\":{\"vocab\":{}}}";
    for (int i = 0; i < 3; i++) {
        char path[64];
        json_t *config =
            i == 0 ? cs_test_siglip_config(3, 48) : cs_test_llm_config(2, 48, i == 2, true);
        assert_int_equal(mkdir(tmpdir_path(tmp, names[i]), 0755), 0);
        snprintf(path, sizeof path, "%s/config.json", names[i]);
        assert_int_equal(cs_fs_write_json(tmpdir_path(tmp, path), config, NULL, NULL, NULL), CS_OK);
        snprintf(path, sizeof path, "%s/tokenizer.json", names[i]);
        tmpdir_write(tmpdir_path(tmp, path), tokenizer, sizeof tokenizer - 1);
        json_decref(config);
    }
}

/* number: of the folder it is exported to; projector: Lua; features: keys of the encoder; has_llava: one composite directory is written too */
static void goes_round(const char *tmp, int number, const char *projector, const char *features,
                       bool is_tied, bool has_llava)
{
    struct cs_err err = {.text = ""};
    struct cs_export_report report;
    struct job j;
    char vision[1024], again[1024], llm[512], out[64], parts[512];
    snprintf(vision, sizeof vision, "cs.hf { dir = '%s', init = 'random' }%s",
             tmpdir_path(tmp, "vision"), features);
    snprintf(llm, sizeof llm, "cs.hf { dir = '%s', init = 'random' }",
             tmpdir_path(tmp, is_tied ? "tied" : "llm"));
    open_job(&j, script_of(vision, projector, llm));
    run(&j, 0);
    snprintf(out, sizeof out, "out%d", number);
    snprintf(parts, sizeof parts, "%s", tmpdir_path(tmp, out));
    need(cs_export_model(j.made.spec, j.made.graph, give, &j, "float32", parts, &report, &err),
         &err);
    assert_int_equal(report.n_not_finite, 0);
    assert_int_equal(report.no_whole == NULL, has_llava);
    const double loss = run(&j, 1);
    close_job(&j);

    const char *kind = strstr(projector, "linear") ? "linear" : "mlp";
    snprintf(vision, sizeof vision, "cs.hf '%s/vision'", parts);
    snprintf(again, sizeof again, "cs.projector.%s { from = '%s/projector' }", kind, parts);
    snprintf(llm, sizeof llm, "cs.hf '%s/llm'", parts);
    const double of_parts = loss_of(script_of(vision, again, llm), 1);
    if (memcmp(&of_parts, &loss, sizeof loss) != 0)
        fail_msg("%s%s tied %d: %.17g, opened again %.17g", projector, features, is_tied, loss,
                 of_parts);
    if (!has_llava)
        return;
    snprintf(vision, sizeof vision, "cs.hf { dir = '%s/llava', part = 'vision' }", parts);
    snprintf(again, sizeof again, "cs.projector.mlp { from = '%s/llava' }", parts);
    snprintf(llm, sizeof llm, "cs.hf { dir = '%s/llava', part = 'llm' }", parts);
    const double of_llava = loss_of(script_of(vision, again, llm), 1);
    if (memcmp(&of_llava, &loss, sizeof loss) != 0)
        fail_msg("%s%s tied %d: %.17g, llava opened again %.17g", projector, features, is_tied,
                 loss, of_llava);
}

static void an_exported_model_goes_on_as_it_was(void **state)
{
    static const char *const activations[] = {"gelu", "gelu_pytorch_tanh", "relu", "silu",
                                              "quick_gelu"};
    static const char *const features[] = {"", ", feature_layer = -2", ", final_norm = true"};
    char *tmp = tmpdir_new();
    (void)state;
    make_sources(tmp);
    for (int i = 0; i < 7 * 2 * 3 * 2; i++) {
        char projector[256];
        const int kind = i % 7, has_bias = i / 7 % 2, feature = i / 14 % 3, is_tied = i / 42;
        const char *bias = has_bias ? "true" : "false";
        if (kind < 5)
            snprintf(projector, sizeof projector,
                     "cs.projector.mlp { activation = '%s', bias = %s }", activations[kind], bias);
        else
            snprintf(projector, sizeof projector, "cs.projector.%s { %sbias = %s }",
                     kind == 5 ? "mlp" : "linear", kind == 5 ? "layers = 1, " : "", bias);
        goes_round(tmp, i, projector, features[feature], is_tied, kind < 5 && feature < 2);
    }
    tmpdir_free(tmp);
}

/* Language models of other families, by the keys that they have beside or instead of Llama's. */
static void families_go_on_as_they_were(void **state)
{
    static const char *const families[] = {
        CS_TEST_GEMMA4,
        CS_TEST_PHI3,
        "{\"model_type\": \"gemma3_text\", \"head_dim\": 16, \"rope_parameters\": null, "
        "\"sliding_window\": 6}",
        "{\"model_type\": \"mistral\", \"sliding_window\": 6}",
        "{\"model_type\": \"llama\", \"mlp_bias\": true, \"attention_bias\": true}",
    };
    static const char tokenizer[] =
        "{\"added_tokens\":[{\"id\":198,\"content\":\"<image>\"}],\"model\":{\"vocab\":{}}}";
    (void)state;
    for (size_t i = 0; i < CS_ARRAY_LEN(families); i++) {
        char *tmp = tmpdir_new(), vision[512], llm[512], out[512];
        struct cs_err err = {.text = ""};
        struct cs_export_report report;
        struct job j;
        json_t *config = cs_test_llm_config(3, 48, i == 0, false);
        make_sources(tmp);
        json_object_update_new(config, json_loads(families[i], 0, NULL));
        assert_int_equal(mkdir(tmpdir_path(tmp, "family"), 0755), 0);
        assert_int_equal(
            cs_fs_write_json(tmpdir_path(tmp, "family/config.json"), config, NULL, NULL, NULL),
            CS_OK);
        tmpdir_write(tmpdir_path(tmp, "family/tokenizer.json"), tokenizer, sizeof tokenizer - 1);
        json_decref(config);
        snprintf(vision, sizeof vision, "cs.hf { dir = '%s', init = 'random' }",
                 tmpdir_path(tmp, "vision"));
        snprintf(llm, sizeof llm, "cs.hf { dir = '%s', init = 'random' }",
                 tmpdir_path(tmp, "family"));
        open_job(&j, script_of(vision, "cs.projector.mlp {}", llm));
        run(&j, 0);
        snprintf(out, sizeof out, "%s", tmpdir_path(tmp, "out"));
        need(cs_export_model(j.made.spec, j.made.graph, give, &j, "float32", out, &report, &err),
             &err);
        const double loss = run(&j, 1);
        close_job(&j);
        snprintf(vision, sizeof vision, "cs.hf '%.400s/vision'", out);
        snprintf(llm, sizeof llm, "cs.hf '%.400s/llm'", out);
        char projector[512];
        snprintf(projector, sizeof projector, "cs.projector.mlp { from = '%.400s/projector' }",
                 out);
        const double again = loss_of(script_of(vision, projector, llm), 1);
        if (memcmp(&again, &loss, sizeof loss) != 0)
            fail_msg("%s: %.17g, opened again %.17g", families[i], loss, again);
        tmpdir_free(tmp);
    }
}

static void settings_beside_the_projector_hold_against_the_script(void **state)
{
    static const char *const keys[] = {", feature_layer = -1", ", final_norm = true"};
    char *tmp = tmpdir_new(), script[2048];
    struct cs_err err = {.text = ""};
    (void)state;
    make_sources(tmp);
    goes_round(tmp, 0, "cs.projector.mlp { activation = 'silu' }", ", feature_layer = -2", false,
               true);
    for (size_t i = 0; i < CS_ARRAY_LEN(keys); i++) {
        struct cs_lua *lua = NULL;
        struct cs_script_result result = {0};
        const char *out = tmpdir_path(tmp, "out0");
        snprintf(script, sizeof script,
                 "local cs = require 'cornstarch'\n"
                 "return cs.mllm { encoders = { vision = { from = cs.hf '%s/vision',\n"
                 "  projector = cs.projector.mlp { from = '%s/projector' }%s } },\n"
                 "  llm = cs.hf '%s/llm' }",
                 out, out, keys[i], out);
        need(cs_lua_open(NULL, NULL, NULL, &lua, &err), &err);
        assert_int_not_equal(cs_lua_run_text(lua, "script", script, &result, &err), CS_OK);
        assert_non_null(strstr(err.text, "/projector, which the weights were trained with"));
        cs_script_result_free(&result);
        cs_lua_close(lua);
    }
    tmpdir_free(tmp);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_exported_model_goes_on_as_it_was),
        cmocka_unit_test(families_go_on_as_they_were),
        cmocka_unit_test(settings_beside_the_projector_hold_against_the_script),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
