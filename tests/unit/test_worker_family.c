/* Every golden of a model family that lies beside the project: outputs, loss, gradients and five steps
 * as transformers has them; adapters as PEFT has them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "store/convert/convert.h"
#include "store/safetensors.h"
#include "support/device.h"
#include "support/tmpdir.h"
#include "worker/selftest/selftest.h"

/* PATH/golden.safetensors is there */
static bool has_golden(const char *path)
{
    char name[4096];
    struct stat st;
    snprintf(name, sizeof name, "%s/golden.safetensors", path);
    return stat(name, &st) == 0;
}

/* Where the goldens are: CORNSTARCH_GOLDEN, else beside the project's folder. */
static bool find_goldens(char out[4096])
{
    struct stat st;
    const char *given = getenv("CORNSTARCH_GOLDEN");
    const char *path = given != NULL ? given : source_path("../shared/golden");
    return stat(path, &st) == 0 && realpath(path, out) != NULL;
}

/* Returns how many comparisons failed, after saying which. */
static int run_one(const char *dir, const char *adapter)
{
    struct cs_selftest test;
    struct cs_err err = {0};
    int n_bad = 0;
    const enum cs_status status =
        cs_selftest_family(&(struct cs_selftest_request){.dir = dir, .adapter = adapter},
                           cs_test_device(), &test, &err);
    if (status != CS_OK) {
        print_error("%s: %s\n", dir, err.text);
        return 1;
    }
    for (int i = 0; i < test.n_checks; i++) {
        const struct cs_selftest_check *c = &test.check[i];
        if (cs_selftest_is_good(c))
            continue;
        print_error("%s: %s is off by %g, allowed is %g: %s\n", dir, c->what, c->deviation,
                    c->limit, c->where);
        n_bad++;
    }
    return n_bad + (test.n_checks == 0);
}

/* All goldens in a folder; returns how many there are. */
static int run_all(const char *folder)
{
    char root[4096], path[8192];
    struct dirent **entry = NULL;
    int n_run = 0, n_bad = 0;
    assert_non_null(realpath(folder, root));
    const int n = scandir(root, &entry, NULL, alphasort);
    for (int i = 0; i < n; i++) {
        snprintf(path, sizeof path, "%s/%s", root, entry[i]->d_name);
        if (entry[i]->d_name[0] != '.' && has_golden(path)) {
            n_run++;
            n_bad += run_one(path, NULL) > 0;
        }
        free(entry[i]);
    }
    free(entry);
    if (n_bad > 0)
        fail_msg("%d of %d families are not as transformers has them", n_bad, n_run);
    return n_run;
}

static void every_family_is_as_transformers_has_it(void **state)
{
    char root[4096], path[8192];
    (void)state;
    if (!find_goldens(root))
        skip();
    snprintf(path, sizeof path, "%s/models", root);
    assert_true(run_all(path) >= 39);
}

/* Options that no golden beside the project has: tests/golden/make_variants.py says which. */
static void rarer_options_are_as_transformers_has_them(void **state)
{
    (void)state;
    assert_true(run_all(source_path("tests/golden/variants")) >= 10);
}

static void adapters_are_as_peft_has_them(void **state)
{
    char root[4096], path[8192], adapter[8192];
    (void)state;
    if (!find_goldens(root))
        skip();
    snprintf(path, sizeof path, "%s/models/llama", root);
    snprintf(adapter, sizeof adapter, "%s/lora/llama", root);
    assert_int_equal(run_one(path, adapter), 0);
}

/* Of layers that only some families have, and of a tower beside the language model. */
static void rarer_adapters_are_as_peft_has_them(void **state)
{
    static const char *const rows[][2] = {
        {"models/qwen3.5",    "variants/adapters/qwen3.5" },
        {"variants/mistral3", "variants/adapters/mistral3"},
    };

    char name[256], dir[4096], adapter[4096];
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        snprintf(name, sizeof name, "tests/golden/%s", rows[i][0]);
        assert_non_null(realpath(source_path(name), dir));
        snprintf(name, sizeof name, "tests/golden/%s", rows[i][1]);
        assert_non_null(realpath(source_path(name), adapter));
        assert_int_equal(run_one(dir, adapter), 0);
    }
}

/* What the model in dir computes after five steps on the golden's input, its logits; malloc'ed. */
static float *trained_logits(const char *tmp, const char *name, const char *dir, int64_t *n)
{
    char path[8192];
    struct cs_selftest test;
    struct cs_err err = {0};
    struct cs_st_file *file = NULL;
    snprintf(path, sizeof path, "%s", tmpdir_path(tmp, name));
    const struct cs_selftest_request asked = {.dir = dir, .written = path};
    if (cs_selftest_family(&asked, cs_test_device(), &test, &err) != CS_OK)
        fail_msg("%s: %s", dir, err.text);
    strcat(path, "/after.safetensors");
    assert_int_equal(cs_st_open(path, &file, &err), CS_OK);
    const struct cs_st_tensor *logits = cs_st_find(file, "logits");
    float *values = malloc((size_t)logits->count * sizeof *values);
    assert_int_equal(cs_st_read_f32(logits, 0, *n = logits->count, values, &err), CS_OK);
    cs_st_close(file);
    return values;
}

/* A golden without its gradients, whose names are those of one layout. */
static void put_inputs(const char *from, const char *to)
{
    struct cs_st_file *file = NULL;
    struct cs_st_out out[64];
    int n = 0;
    assert_int_equal(cs_st_open(from, &file, NULL), CS_OK);
    for (int i = 0; i < cs_st_count(file); i++) {
        const struct cs_st_tensor *t = cs_st_at(file, i);
        if (strncmp(t->name, "grad.", 5) == 0)
            continue;
        assert_in_range(n, 0, 63);
        out[n] =
            (struct cs_st_out){.name = t->name, .dtype = t->dtype, .n_dims = t->n_dims, .from = t};
        memcpy(out[n++].dim, t->dim, sizeof t->dim);
    }
    assert_int_equal(cs_st_write(to, out, n, NULL, NULL, NULL), CS_OK);
    cs_st_close(file);
}

/* A copy of a golden's directory in which one input is another one, or one more. */
static const char *copy_with(const char *tmp, const char *variant, struct cs_st_out more)
{
    static const char *const files[] = {"config.json", "model.safetensors"};
    char from[8192], path[8192];
    struct cs_st_file *file = NULL;
    struct cs_st_out out[256];
    int n = 0;
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        snprintf(from, sizeof from, "tests/golden/variants/%s/%s", variant, files[i]);
        assert_non_null(realpath(source_path(from), path));
        assert_int_equal(symlink(path, tmpdir_path(tmp, files[i])), 0);
    }
    snprintf(from, sizeof from, "tests/golden/variants/%s/golden.safetensors", variant);
    assert_int_equal(cs_st_open(source_path(from), &file, NULL), CS_OK);
    for (int i = 0; i < cs_st_count(file); i++) {
        const struct cs_st_tensor *t = cs_st_at(file, i);
        if (strcmp(t->name, more.name) == 0)
            continue;
        assert_in_range(n, 0, 254);
        out[n] =
            (struct cs_st_out){.name = t->name, .dtype = t->dtype, .n_dims = t->n_dims, .from = t};
        memcpy(out[n++].dim, t->dim, sizeof t->dim);
    }
    out[n++] = more;
    assert_int_equal(cs_st_write(tmpdir_path(tmp, "golden.safetensors"), out, n, NULL, NULL, NULL),
                     CS_OK);
    cs_st_close(file);
    return tmp;
}

static void what_nothing_reads_of_a_golden_is_refused(void **state)
{
    static const int64_t hidden[36] = {0, 1, 1};
    static const float frames[3 * 4 * 4] = {0};

    static const struct {
        struct cs_st_out more;
        const char *says;
    } rows[] = {
        {{.name = "in.position_ids", .dtype = CS_I64, .n_dims = 2, .dim = {2, 18}, .data = hidden},
         "input in.position_ids is not known"                                          },
        {{.name = "in.attention_mask",
          .dtype = CS_I64,
          .n_dims = 2,
          .dim = {2, 18},
          .data = hidden},
         "in.attention_mask hides element 0: only rows behind all others can be hidden"},
        {{.name = "in.pixel_attention_mask",
          .dtype = CS_I64,
          .n_dims = 2,
          .dim = {2, 18},
          .data = hidden},
         "in.pixel_attention_mask hides element 0: parts of pictures cannot be hidden" },
        {{.name = "in.pixel_values_videos",
          .dtype = CS_F32,
          .n_dims = 3,
          .dim = {3, 4, 4},
          .data = frames},
         "other videos are not supported"                                              },
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char *tmp = tmpdir_new();
        struct cs_selftest test;
        struct cs_err err = {0};
        const struct cs_selftest_request asked = {.dir = copy_with(tmp, "idefics3", rows[i].more)};
        assert_int_equal(cs_selftest_family(&asked, cs_test_device(), &test, &err), CS_UNSUPPORTED);
        if (strstr(err.text, rows[i].says) == NULL)
            fail_msg("\"%s\" does not say \"%s\"", err.text, rows[i].says);
        tmpdir_free(tmp);
    }
}

/* A directory with an adapter of one more tensor than the others. */
static void put_adapter(const char *tmp, const char *more)
{
    static const float values[32] = {0};
    static const char config[] = "{\"peft_type\": \"LORA\", \"r\": 1, \"lora_alpha\": 1, "
                                 "\"modules_to_save\": [], \"target_parameters\": []}";
    const struct cs_st_out out[] = {
        {.name = "base_model.model.model.layers.0.self_attn.o_proj.lora_A.weight",
         .dtype = CS_F32,
         .n_dims = 2,
         .dim = {1, 16},
         .data = values                                                                                                                        },
        {.name = "base_model.model.model.layers.0.self_attn.o_proj.lora_B.weight",
         .dtype = CS_F32,
         .n_dims = 2,
         .dim = {16, 1},
         .data = values                                                                                                                        },
        {.name = more,                                                             .dtype = CS_F32, .n_dims = 2, .dim = {1, 16}, .data = values},
    };
    char path[8192];
    assert_int_equal(mkdir(tmpdir_path(tmp, "adapter"), 0700), 0);
    tmpdir_write(tmpdir_path(tmp, "adapter/adapter_config.json"), config, sizeof config - 1);
    assert_int_equal(cs_st_write(tmpdir_path(tmp, "adapter/adapter_model.safetensors"), out, 3,
                                 NULL, NULL, NULL),
                     CS_OK);
    assert_non_null(
        realpath(source_path("tests/golden/variants/llama-dynamic/golden.safetensors"), path));
    assert_int_equal(symlink(path, tmpdir_path(tmp, "golden.safetensors")), 0);
}

static void adapters_that_nothing_reads_are_refused(void **state)
{
    static const struct {
        const char *more, *says;
    } rows[] = {
        {"base_model.model.lm_head.lora_A.weight",
         "has an adapter of lm_head, which is no matrix of a block of llm"                                                   },
        {"base_model.model.model.embed_tokens.lora_embedding_A",
         "embed_tokens.lora_embedding_A is no factor of the adapter of a linear layer"                                       },
        {"base_model.model.model.layers.0.self_attn.o_proj.lora_magnitude_vector.weight",
         "lora_magnitude_vector.weight is no factor of the adapter of a linear layer"                                        },
        {"base_model.model.model.norm.weight",                                            "nor of a layer of modules_to_save"},
    };

    char dir[4096];
    (void)state;
    assert_non_null(realpath(source_path("tests/golden/variants/llama-dynamic"), dir));
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char *tmp = tmpdir_new();
        struct cs_selftest test;
        struct cs_err err = {0};
        const struct cs_selftest_request asked = {.dir = dir, .adapter = tmp};
        put_adapter(tmp, rows[i].more);
        assert_int_not_equal(cs_selftest_family(&asked, cs_test_device(), &test, &err), CS_OK);
        if (strstr(err.text, rows[i].says) == NULL)
            fail_msg("\"%s\" does not say \"%s\"", err.text, rows[i].says);
        tmpdir_free(tmp);
    }
}

/* However the files lie, the same numbers come out of training, to the bit. */
static void layouts_of_a_model_train_the_same(void **state)
{
    static const struct {
        const char *model;
        struct cs_convert asked;
    } rows[] = {
        {"internvl",         {.family = "internvl_chat"}                              },
        {"qwen2.5-vl",       {.names = CS_CONVERT_NAMES_nested, .shard_bytes = 100000}},
        {"llava-clip-llama", {.names = CS_CONVERT_NAMES_v4}                           },
        {"mixtral",          {.experts = CS_CONVERT_EXPERTS_fused}                    },
    };

    char root[4096], from[8192], golden[8192];
    (void)state;
    if (!find_goldens(root))
        skip();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char *tmp = tmpdir_new();
        struct cs_convert_report report;
        struct cs_err err = {0};
        struct cs_convert asked = rows[i].asked;
        int64_t n, n_other;
        snprintf(from, sizeof from, "%s/models/%s", root, rows[i].model);
        snprintf(golden, sizeof golden, "%s/golden.safetensors", from);
        asked.dir = from;
        asked.out = tmpdir_path(tmp, "converted");
        if (cs_convert_run(&asked, &report, &err) != CS_OK)
            fail_msg("%s: %s", from, err.text);
        put_inputs(golden, tmpdir_path(tmp, "converted/golden.safetensors"));
        float *one = trained_logits(tmp, "one", from, &n);
        float *other = trained_logits(tmp, "other", tmpdir_path(tmp, "converted"), &n_other);
        assert_int_equal(n, n_other);
        if (memcmp(one, other, (size_t)n * sizeof *one) != 0)
            fail_msg("%s trains to other numbers in another layout", rows[i].model);
        free(one);
        free(other);
        tmpdir_free(tmp);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_family_is_as_transformers_has_it),
        cmocka_unit_test(rarer_options_are_as_transformers_has_them),
        cmocka_unit_test(what_nothing_reads_of_a_golden_is_refused),
        cmocka_unit_test(layouts_of_a_model_train_the_same),
        cmocka_unit_test(adapters_are_as_peft_has_them),
        cmocka_unit_test(rarer_adapters_are_as_peft_has_them),
        cmocka_unit_test(adapters_that_nothing_reads_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
