/* Every composite that lies beside the project, over pipeline stages and replicas, with parts frozen and
 * with activations made again: the losses and gradients of transformers, and those of one rank. Language
 * models alone over ranks that split their rows and share their matrices: a few, with CORNSTARCH_LONG every
 * family. With sanitizers, which take five times as long, each composite has a fifth of the layouts, and each layout
 * a fifth of the composites; as released all have all. */
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

/* clang-format off */
static const struct cs_selftest_layout layouts[] = {
    {.stages = 2, .encoder_stages = 1, .replicas = 1},
    {.stages = 3, .encoder_stages = 2, .replicas = 1, .schedule = "zb-h1", .recompute = "full"},
    {.stages = 2, .encoder_stages = 2, .replicas = 1, .modality = "encoder-colocated"},
    {.stages = 2, .encoder_stages = 1, .replicas = 2, .recompute = "selective"},
    {.stages = 2, .encoder_stages = 1, .replicas = 2, .is_bare = true},
    {.stages = 3, .encoder_stages = 1, .replicas = 2, .schedule = "zb-h1", .train = "*.projector llm"},
    {.stages = 3, .encoder_stages = 2, .replicas = 1, .train = "*.encoder *.projector"},
    {.stages = 2, .encoder_stages = 1, .replicas = 2, .train = "*.projector"},
    {.stages = 2, .encoder_stages = 2, .replicas = 1, .schedule = "zb-h2", .train = "*.encoder llm.layers.1"},
    {.stages = 1, .encoder_stages = 1, .replicas = 1, .context = 2},
    {.stages = 2, .encoder_stages = 1, .replicas = 1, .context = 3, .recompute = "selective", .is_bare = true},
    {.stages = 1, .encoder_stages = 2, .replicas = 2, .context = 2, .schedule = "zb-h1", .train = "*.projector"},
    {.stages = 1, .encoder_stages = 1, .replicas = 1, .tensors = 2, .encoder_tensors = 2},
    {.stages = 2, .encoder_stages = 1, .replicas = 1, .tensors = 2, .is_bare = true, .recompute = "selective"},
    {.stages = 1, .encoder_stages = 1, .replicas = 2, .tensors = 2, .schedule = "zb-h1", .train = "*.projector"},
    {.stages = 2, .encoder_stages = 1, .replicas = 2, .zero = 3, .is_bare = true},
    {.stages = 1, .encoder_stages = 1, .replicas = 2, .context = 2, .zero = 2, .recompute = "full"},
    {.stages = 1, .encoder_stages = 1, .replicas = 1, .tensors = 2, .encoder_tensors = 2, .splits_rows = true},
    {.stages = 2, .encoder_stages = 1, .replicas = 1, .tensors = 2, .splits_rows = true, .recompute = "full", .is_bare = true},
    {.stages = 1, .encoder_stages = 1, .replicas = 1, .context = 2, .modality = "encoder-colocated"},
    {.stages = 1, .encoder_stages = 1, .replicas = 1, .context = 3, .encoder_context = 2, .schedule = "zb-h1"},
};

/* of language models alone */
static const struct cs_selftest_layout text_layouts[] = {
    {.stages = 1, .encoder_stages = 1, .replicas = 1, .context = 2},
    {.stages = 2, .encoder_stages = 1, .replicas = 1, .context = 3, .schedule = "zb-h1", .recompute = "selective"},
    {.stages = 1, .encoder_stages = 1, .replicas = 2, .context = 2, .recompute = "full"},
    {.stages = 1, .encoder_stages = 1, .replicas = 1, .tensors = 2},
    {.stages = 2, .encoder_stages = 1, .replicas = 1, .tensors = 2, .context = 2, .schedule = "zb-h1"},
};

/* of models with experts */
static const struct cs_selftest_layout expert_layouts[] = {
    {.stages = 1, .encoder_stages = 1, .replicas = 2, .experts = 2},
    {.stages = 1, .encoder_stages = 1, .replicas = 2, .experts = 2, .is_bare = true, .recompute = "full"},
    {.stages = 2, .encoder_stages = 1, .replicas = 1, .context = 2, .experts = 2, .schedule = "zb-h1", .recompute = "selective"},
    {.stages = 1, .encoder_stages = 1, .replicas = 2, .context = 2, .experts = 4},
    {.stages = 2, .encoder_stages = 1, .replicas = 2, .experts = 2, .train = "llm.layers.1"},
    {.stages = 1, .encoder_stages = 1, .replicas = 2, .tensors = 2, .experts = 2},
};

/* with a balancing loss of several blocks */
static const struct cs_selftest_layout balance_layouts[] = {
    {.stages = 2, .encoder_stages = 1, .replicas = 1},
    {.stages = 3, .encoder_stages = 1, .replicas = 1, .schedule = "gpipe", .recompute = "selective"},
    {.stages = 3, .encoder_stages = 1, .replicas = 1, .schedule = "zb-h1", .recompute = "full"},
    {.stages = 2, .encoder_stages = 1, .replicas = 1, .schedule = "interleaved"},
    {.stages = 2, .encoder_stages = 1, .replicas = 2, .zero = 3, .recompute = "full"},
    {.stages = 2, .encoder_stages = 1, .replicas = 1, .schedule = "zb-h2"},
    {.stages = 3, .encoder_stages = 1, .replicas = 1, .context = 2, .schedule = "zb-h1", .recompute = "full"},
    {.stages = 2, .encoder_stages = 1, .replicas = 1, .tensors = 2, .splits_rows = true},
    {.stages = 2, .encoder_stages = 1, .replicas = 2, .context = 2, .experts = 4, .schedule = "interleaved"},
    {.stages = 3, .encoder_stages = 1, .replicas = 1, .train = "llm.layers.1"},
    {.stages = 2, .encoder_stages = 1, .replicas = 1, .train = "llm.layers.2 llm.head"},
};

/* clang-format on */

#ifdef __SANITIZE_ADDRESS__
enum { SHARES = 5 };
#else
enum { SHARES = 1 };
#endif

static bool is_long(void)
{
    const char *asked = getenv("CORNSTARCH_LONG");
    return asked != NULL && *asked != '\0';
}

/* Where the goldens are: CORNSTARCH_GOLDEN, else beside the project's folder. */
static bool find_models(char out[4096])
{
    char path[4096];
    struct stat st;
    const char *given = getenv("CORNSTARCH_GOLDEN");
    snprintf(path, sizeof path, "%s/models",
             given != NULL ? given : source_path("../shared/golden"));
    return stat(path, &st) == 0 && realpath(path, out) != NULL;
}

static int count_bad(const char *dir, int number, const struct cs_selftest *test)
{
    int n_bad = 0;
    for (int i = 0; i < test->n_checks; i++) {
        const struct cs_selftest_check *c = &test->check[i];
        if (cs_selftest_is_good(c))
            continue;
        print_error("%s, layout %d: %s is off by %g, allowed is %g: %s\n", dir, number, c->what,
                    c->deviation, c->limit, c->where);
        n_bad++;
    }
    return n_bad + (test->n_checks < 3);
}

static enum cs_status run_layout(const char *dir, const struct cs_selftest_layout *layout,
                                 struct cs_selftest *test, struct cs_err *err)
{
    const struct cs_selftest_request request = {.dir = dir, .layout = layout};
    return cs_selftest_family(&request, cs_test_device(), test, err);
}

/* Returns how many of n layouts are not as they must be: of those from `first` on, every `step`-th. */
static int run_some(const char *dir, const struct cs_selftest_layout *layout, size_t n,
                    size_t first, size_t step)
{
    int n_bad = 0;
    for (size_t i = first; i < n; i += step) {
        struct cs_selftest test;
        struct cs_err err = {0};
        const enum cs_status status = run_layout(dir, &layout[i], &test, &err);
        if (status != CS_OK)
            print_error("%s, layout %zu: %s\n", dir, i, err.text);
        n_bad += status != CS_OK || count_bad(dir, (int)i, &test) > 0;
    }
    return n_bad;
}

static int run_model(const char *dir, const struct cs_selftest_layout *layout, size_t n)
{
    return run_some(dir, layout, n, 0, 1);
}

enum kind { NONE, TOWER, TEXT, COMPOSITE };

static enum kind kind_of(const char *dir)
{
    char path[8192];
    struct stat st;
    snprintf(path, sizeof path, "%s/golden.safetensors", dir);
    if (stat(path, &st) != 0)
        return NONE;
    snprintf(path, sizeof path, "%s/config.json", dir);
    json_t *config = json_load_file(path, 0, NULL);
    const bool is_joined = json_object_get(config, "vision_config") != NULL ||
                           json_object_get(config, "audio_config") != NULL;
    const bool has_words = json_object_get(config, "vocab_size") != NULL &&
                           json_object_get(config, "encoder_layers") == NULL; /* Whisper */
    json_decref(config);
    return is_joined ? COMPOSITE : has_words ? TEXT : TOWER;
}

/* All composites in a folder; returns how many there are. */
static int run_all(const char *folder)
{
    char root[4096], path[8192];
    struct dirent **entry = NULL;
    int n_run = 0, n_bad = 0;
    assert_non_null(realpath(folder, root));
    const int n = scandir(root, &entry, NULL, alphasort);
    for (int i = 0; i < n; i++) {
        snprintf(path, sizeof path, "%s/%s", root, entry[i]->d_name);
        if (entry[i]->d_name[0] != '.' && kind_of(path) == COMPOSITE) {
            const size_t step = is_long() ? 1 : SHARES, first = (size_t)n_run++ % step;
            n_bad += run_some(path, layouts, CS_ARRAY_LEN(layouts), first, step) > 0;
        }
        free(entry[i]);
    }
    free(entry);
    if (n_bad > 0)
        fail_msg("%d of %d composites differ over ranks", n_bad, n_run);
    return n_run;
}

static void every_composite_is_equal_over_ranks(void **state)
{
    char root[4096];
    (void)state;
    if (!find_models(root))
        skip();
    assert_true(run_all(root) >= 15);
}

static void rarer_composites_are_equal_over_ranks(void **state)
{
    (void)state;
    assert_true(run_all(source_path("tests/golden/variants")) >= 6);
}

/* One model's; false: it is not there. */
static bool run_text(const char *root, const char *name)
{
    char path[8192];
    snprintf(path, sizeof path, "%s/%s", root, name);
    if (kind_of(path) != TEXT)
        return false;
    if (run_model(path, text_layouts, CS_ARRAY_LEN(text_layouts)) > 0)
        fail_msg("%s differs over ranks", name);
    return true;
}

static void language_models_are_equal_over_ranks(void **state)
{
    static const char *const few[] = {"gemma4", "qwen3-moe", "qwen3.5"};
    char root[4096];
    struct dirent **entry = NULL;
    int n_run = 0;
    (void)state;
    for (size_t i = 0; i < CS_ARRAY_LEN(few); i++)
        assert_true(run_text(source_path("tests/golden/models"), few[i]));
    if (!is_long() || !find_models(root))
        return;
    const int n = scandir(root, &entry, NULL, alphasort);
    for (int i = 0; i < n; i++) {
        n_run += entry[i]->d_name[0] != '.' && run_text(root, entry[i]->d_name);
        free(entry[i]);
    }
    free(entry);
    assert_true(n_run >= 12);
}

/* Every stage counts, the last one knows all, and each gets it back. */
static void experts_are_balanced_over_all_stages(void **state)
{
    static const char *const here[] = {"mixtral-balance", "qwen3-moe-balance"};
    char path[8192];
    int n_bad = 0;
    (void)state;
    for (size_t i = 0; i < CS_ARRAY_LEN(here); i++) {
        snprintf(path, sizeof path, "%s/%s", source_path("tests/golden/models"), here[i]);
        n_bad += run_model(path, balance_layouts, CS_ARRAY_LEN(balance_layouts));
        n_bad += run_model(path, text_layouts, CS_ARRAY_LEN(text_layouts));
        n_bad += run_model(path, expert_layouts, CS_ARRAY_LEN(expert_layouts));
    }
    assert_int_equal(n_bad, 0);
}

/* One tensor for every expert, and one for all of them inside of a composite. */
static void models_with_experts_are_equal_over_ranks(void **state)
{
    static const char *const here[] = {"mixtral", "qwen3-moe"};
    char root[4096], path[8192];
    int n_bad = 0;
    (void)state;
    for (size_t i = 0; i < CS_ARRAY_LEN(here); i++) {
        snprintf(path, sizeof path, "%s/%s", source_path("tests/golden/models"), here[i]);
        n_bad += run_model(path, expert_layouts, CS_ARRAY_LEN(expert_layouts));
    }
    if (find_models(root)) {
        snprintf(path, sizeof path, "%s/qwen3-vl-moe", root);
        n_bad += run_model(path, expert_layouts, CS_ARRAY_LEN(expert_layouts));
    }
    assert_int_equal(n_bad, 0);
}

static void towers_alone_and_bad_layouts_are_refused(void **state)
{
    char root[4096], path[8192];
    struct cs_selftest test;
    struct cs_err err = {0};
    struct cs_selftest_layout layout = layouts[0];
    (void)state;
    if (!find_models(root))
        skip();
    snprintf(path, sizeof path, "%s/clip", root);
    assert_int_equal(run_layout(path, &layout, &test, &err), CS_UNSUPPORTED);
    assert_non_null(strstr(err.text, "tower"));
    snprintf(path, sizeof path, "%s/llama", root);
    layout.schedule = "backwards-first";
    assert_int_equal(run_layout(path, &layout, &test, &err), CS_INVALID);
    assert_non_null(strstr(err.text, "schedule"));
    layout = (struct cs_selftest_layout){.stages = 60, .encoder_stages = 1, .replicas = 1};
    assert_int_not_equal(run_layout(path, &layout, &test, &err), CS_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_composite_is_equal_over_ranks),
        cmocka_unit_test(rarer_composites_are_equal_over_ranks),
        cmocka_unit_test(language_models_are_equal_over_ranks),
        cmocka_unit_test(models_with_experts_are_equal_over_ranks),
        cmocka_unit_test(experts_are_balanced_over_all_stages),
        cmocka_unit_test(towers_alone_and_bad_layouts_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
