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

/* its pictures are cut into tiles, whose rows a golden says nothing of */
static bool is_awaited(const char *name)
{
    return strcmp(name, "llava-onevision") == 0;
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
        if (entry[i]->d_name[0] != '.' && !is_awaited(entry[i]->d_name) && has_golden(path)) {
            n_run++;
            n_bad += run_one(path, NULL) > 0;
        }
        free(entry[i]);
    }
    free(entry);
    if (n_bad > 0)
        fail_msg("%d of %d families are not as transformers has them", n_bad, n_run);
    assert_true(n_run > 10);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_family_is_as_transformers_has_it),
        cmocka_unit_test(adapters_are_as_peft_has_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
