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

static void every_family_is_as_transformers_has_it(void **state)
{
    char root[4096], path[8192];
    struct dirent **entry = NULL;
    int n_run = 0, n_bad = 0;
    (void)state;
    if (!find_goldens(root))
        skip();
    snprintf(path, sizeof path, "%s/models", root);
    const int n = scandir(path, &entry, NULL, alphasort);
    for (int i = 0; i < n; i++) {
        snprintf(path, sizeof path, "%s/models/%s", root, entry[i]->d_name);
        if (entry[i]->d_name[0] != '.' && has_golden(path)) {
            n_run++;
            n_bad += run_one(path, NULL) > 0;
        }
        free(entry[i]);
    }
    free(entry);
    if (n_bad > 0)
        fail_msg("%d of %d families are not as transformers has them", n_bad, n_run);
    assert_true(n_run >= 39);
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
        cmocka_unit_test(layouts_of_a_model_train_the_same),
        cmocka_unit_test(adapters_are_as_peft_has_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
