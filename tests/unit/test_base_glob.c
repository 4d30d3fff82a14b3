/* Globs of module paths, and the nearest name to a misspelt one. */
#include "core/base/glob.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

#include "core/base/near.h"
#include "core/base/status.h"

static void glob_matches_path_and_everything_below(void **state)
{
    static const struct {
        const char *glob, *path;
        bool matches;
    } rows[] = {
        {"vision",                            "vision",                   true },
        {"vision",                            "vision.encoder",           true },
        {"vision",                            "vision.encoder.layers.3",  true },
        {"vision",                            "vision2.encoder",          false},
        {"vision.encoder",                    "vision",                   false},
        {"vision.encoder",                    "vision.encoder.embed",     true },
        {"*",                                 "llm.layers.3",             true },
        {"*",                                 "x",                        true },
        {"*.layers",                          "llm.layers.12",            true },
        {"*.layers.1",                        "llm.layers.1",             true },
        {"*.layers.1",                        "llm.layers.12",            false},
        {"*.encoder.*",                       "depth.encoder.norm",       true },
        {"*.encoder.*",                       "depth.projector",          false},
        {"*.1",                               "a.1.b.10",                 true },
        {"*.1",                               "a.10.b.1",                 true },
        {"*.1",                               "a.10.b.11",                false},
        {"llm.layers.0-3",                    "llm.layers.0",             true },
        {"llm.layers.0-3",                    "llm.layers.3",             true },
        {"llm.layers.0-3",                    "llm.layers.4",             false},
        {"llm.layers.0-3",                    "llm.layers.30",            false},
        {"llm.layers.9-11",                   "llm.layers.10.mlp",        true },
        {"*.0-3",                             "vision.encoder.layers.2",  true },
        {"*.0-3",                             "vision.encoder.layers.23", false},
        {"*.layers.2-3.*",                    "llm.layers.3.q",           true },
        {"llm.layers.0-3",                    "llm.layers.0-3",           false},
        {"*a*b*c",                            "xxaxxbxxbxxc",             true },
        {"*a*b*c",                            "xxaxxcxxb",                false},
        {"",                                  "llm",                      false},
        {"llm.head",                          "llm.heads",                false},
        {"llm.layers.0-99999999999999999999", "llm.layers.7",             true },
    };

    (void)state;
    for (size_t i = 0; i < CS_ARRAY_LEN(rows); i++) {
        if (cs_glob_match(rows[i].glob, rows[i].path) != rows[i].matches)
            fail_msg("\"%s\" on \"%s\" should be %d", rows[i].glob, rows[i].path, rows[i].matches);
    }
}

static void malformed_globs_are_named(void **state)
{
    (void)state;
    assert_null(cs_glob_problem("*"));
    assert_null(cs_glob_problem("vision.encoder.layers.0-3"));
    assert_string_equal(cs_glob_problem(""), "the glob is empty");
    assert_string_equal(cs_glob_problem("llm.layers.3-1"), "the range runs backwards");
    assert_string_equal(cs_glob_problem("llm..head"), "the glob has an empty component");
    assert_string_equal(cs_glob_problem("llm."), "the glob has an empty component");
    assert_non_null(cs_glob_problem("llm layers"));
    assert_non_null(cs_glob_problem("llm.layer?"));
}

static void distance_counts_swaps_once(void **state)
{
    (void)state;
    assert_int_equal(cs_near_distance("", ""), 0);
    assert_int_equal(cs_near_distance("abc", ""), 3);
    assert_int_equal(cs_near_distance("", "ab"), 2);
    assert_int_equal(cs_near_distance("kitten", "sitting"), 3);
    assert_int_equal(cs_near_distance("vision", "visoin"), 1);
    assert_int_equal(cs_near_distance("ca", "abc"), 3); /* optimal string alignment, not 2 */
    assert_int_equal(cs_near_distance("Seed", "seed"), 0);
}

static void nearest_name_is_found_or_nothing(void **state)
{
    static const char *const names[] = {"seed", "steps", NULL, "batch_samples", "pp"};
    (void)state;
    assert_string_equal(cs_near("sead", names, 5), "seed");
    assert_string_equal(cs_near("step", names, 5), "steps");
    assert_string_equal(cs_near("batch_sample", names, 5), "batch_samples");
    assert_string_equal(cs_near("p", names, 5), "pp");
    assert_null(cs_near("q", names, 5));
    assert_null(cs_near("learning_rate", names, 5));
    assert_null(cs_near("seed", names, 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(glob_matches_path_and_everything_below),
        cmocka_unit_test(malformed_globs_are_named),
        cmocka_unit_test(distance_counts_swaps_once),
        cmocka_unit_test(nearest_name_is_found_or_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
