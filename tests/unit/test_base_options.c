/* What users hand to programs: command lines against an option table, and environment variables. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/system/environment.h"
#include "core/program/options.h"

struct values {
    bool quiet, colour;
    int64_t steps, bytes, wait_ns;
    double lr;
    const char *name;
    int mode;
};

static const char *const modes[] = {"auto", "always", "never", NULL};
static const struct cs_option options[] = {
    {"quiet",  'q', CS_OPT_FLAG,     0, 0,           NULL,    NULL,   NULL,  "say less",         offsetof(struct values, quiet)  },
    {"colour", 0,   CS_OPT_FLAG,     0, 0,           "yes",   NULL,   NULL,  "use colour",
     offsetof(struct values,                                                                                             colour) },
    {"steps",  'n', CS_OPT_INT,      1, 100,         "10",    NULL,   NULL,  "steps to run",
     offsetof(struct values,                                                                                             steps)  },
    {"memory", 'm', CS_OPT_SIZE,     0, 0,           "64KiB", NULL,   NULL,  "memory to use",
     offsetof(struct values,                                                                                             bytes)  },
    {"wait",   'w', CS_OPT_DURATION, 0, 60000000000, "1s",    NULL,   NULL,  "how long to wait",
     offsetof(struct values,                                                                                             wait_ns)},
    {"lr",     0,   CS_OPT_NUMBER,   0, 1,           "0.5",   NULL,   NULL,  "learning rate",    offsetof(struct values, lr)     },
    {"name",   0,   CS_OPT_STRING,   0, 8,           NULL,    "NAME", NULL,  "name of the job",
     offsetof(struct values,                                                                                             name)   },
    {"mode",   0,   CS_OPT_ENUM,     0, 0,           "auto",  NULL,   modes, "when",             offsetof(struct values, mode)   },
};
static const struct cs_cli program = {.name = "prog",
                                      .version = "1.2.3",
                                      .summary = "Does things.",
                                      .usage = "[options] [FILE...]",
                                      .options = options,
                                      .n_options = CS_ARRAY_LEN(options),
                                      .max_args = -1};

#define ARGS_MAX 16

/* splits line at spaces; "_" stands for an empty argument */
static enum cs_status parse(const struct cs_cli *p, const char *line, struct values *v,
                            struct cs_args *args, struct cs_err *err)
{
    static char text[256];
    static char *argv[ARGS_MAX];
    int argc = 0;
    *v = (struct values){.name = "unset"};
    strcpy(text, line);
    argv[argc++] = text + strlen(text);
    for (char *word = strtok(text, " "); word && argc < ARGS_MAX; word = strtok(NULL, " ")) {
        if (strcmp(word, "_") == 0)
            *word = '\0';
        argv[argc++] = word;
    }
    return cs_options_parse(p, argc, argv, v, args, err);
}

static void defaults_are_parsed(void **state)
{
    (void)state;
    struct values v;
    struct cs_args args;
    assert_int_equal(parse(&program, "", &v, &args, NULL), CS_OK);
    assert_false(v.quiet);
    assert_true(v.colour);
    assert_int_equal(v.steps, 10);
    assert_int_equal(v.bytes, 65536);
    assert_int_equal(v.wait_ns, 1000000000);
    assert_true(fabs(v.lr - 0.5) <= 0);
    assert_string_equal(v.name, "unset");
    assert_int_equal(v.mode, 0);
    assert_int_equal(args.n, 0);
}

static void every_form_is_understood(void **state)
{
    (void)state;
    static const char *const lines[] = {
        "--quiet --steps=7 --memory 2MiB --wait=1m --name=x --mode never --no-colour a b",
        "a -qn7 -m2M -w 60s --name x --mode=never --colour=no b",
        "-n 7 a --name=x -q b --mode=never --colour=false -m 2048KiB --wait 1m00s",
        "--steps 99 -n7 --quiet=yes -m2097152 -w60 --mode=never --name x --no-colour -- a b",
    };
    for (size_t i = 0; i < CS_ARRAY_LEN(lines); i++) {
        struct values v;
        struct cs_args args;
        struct cs_err err;
        if (parse(&program, lines[i], &v, &args, &err) != CS_OK)
            fail_msg("%s: %s", lines[i], err.text);
        assert_true(v.quiet);
        assert_false(v.colour);
        assert_int_equal(v.steps, 7);
        assert_int_equal(v.bytes, 2 << 20);
        assert_int_equal(v.wait_ns, INT64_C(60000000000));
        assert_string_equal(v.name, "x");
        assert_int_equal(v.mode, 2);
        assert_int_equal(args.n, 2);
        assert_string_equal(args.items[0], "a");
        assert_string_equal(args.items[1], "b");
    }
}

static void double_dash_and_single_dash_are_arguments(void **state)
{
    (void)state;
    struct values v;
    struct cs_args args;
    assert_int_equal(parse(&program, "- -- -q --steps --", &v, &args, NULL), CS_OK);
    assert_false(v.quiet);
    assert_int_equal(args.n, 4);
    assert_string_equal(args.items[0], "-");
    assert_string_equal(args.items[3], "--");
}

static void wrong_command_lines_say_what_is_wrong(void **state)
{
    (void)state;

    static const struct {
        const char *line, *says;
    } rows[] = {
        {"--stesp=3",                    "did you mean --steps?"                     },
        {"--zzzzzzzz",                   "unknown option --zzzzzzzz; try prog --help"},
        {"-z",                           "unknown option -z"                         },
        {"--steps",                      "--steps needs a value"                     },
        {"-n",                           "--steps needs a value"                     },
        {"--steps=0",                    "0 is outside 1..100"                       },
        {"--steps=101",                  "101 is outside 1..100"                     },
        {"--steps=7x",                   "'7x' is not a whole number"                },
        {"--steps=_",                    "is not a whole number"                     },
        {"--steps=99999999999999999999", "is not a whole number"                     },
        {"--memory=lots",                "is not a size"                             },
        {"--memory=16EiB",               "is not a size"                             },
        {"--wait=61s",                   "outside"                                   },
        {"--wait=soon",                  "is not a time"                             },
        {"--lr=1.5",                     "1.5 is outside 0..1"                       },
        {"--lr=nan",                     "is not a number"                           },
        {"--lr=1e999",                   "is not a number"                           },
        {"--name=123456789",             "longer than 8 bytes"                       },
        {"--mode=sometimes",             "is not one of auto, always, never"         },
        {"--quiet=maybe",                "is not yes or no"                          },
        {"--no-steps",                   "unknown option --no-steps"                 },
        {"--=3",                         "unknown option --"                         },
    };

    for (size_t i = 0; i < CS_ARRAY_LEN(rows); i++) {
        struct values v;
        struct cs_args args;
        struct cs_err err = {0};
        assert_int_equal(parse(&program, rows[i].line, &v, &args, &err), CS_USAGE);
        if (!strstr(err.text, rows[i].says))
            fail_msg("%s: '%s' lacks '%s'", rows[i].line, err.text, rows[i].says);
    }
}

static void number_of_arguments_is_checked(void **state)
{
    (void)state;
    struct cs_cli p = program;
    struct values v;
    struct cs_args args;
    struct cs_err err;
    p.min_args = 1;
    p.max_args = 2;
    assert_int_equal(parse(&p, "-q", &v, &args, &err), CS_USAGE);
    assert_int_equal(parse(&p, "a -q", &v, &args, &err), CS_OK);
    assert_int_equal(parse(&p, "a b c", &v, &args, &err), CS_USAGE);
    assert_non_null(strstr(err.text, "'c'"));
}

static void subcommand_keeps_its_own_options(void **state)
{
    (void)state;
    struct cs_cli p = program;
    struct values v;
    struct cs_args args;
    p.stops_at_positional = true;
    assert_int_equal(parse(&p, "-q run --plain -n", &v, &args, NULL), CS_OK);
    assert_true(v.quiet);
    assert_int_equal(args.n, 3);
    assert_string_equal(args.items[1], "--plain");
}

static void help_and_version_win_over_later_errors(void **state)
{
    (void)state;
    struct values v;
    struct cs_args args;
    assert_int_equal(parse(&program, "--help --nonsense", &v, &args, NULL), CS_OK);
    assert_true(args.wants_help);
    assert_int_equal(parse(&program, "-V", &v, &args, NULL), CS_OK);
    assert_true(args.wants_version);
}

static void one_value_is_set_by_name(void **state)
{
    (void)state;
    struct values v = {0};
    struct cs_err err;
    assert_int_equal(cs_options_set(&program, "steps", "12", &v, &err), CS_OK);
    assert_int_equal(v.steps, 12);
    assert_int_equal(cs_options_set(&program, "steps", "1200", &v, &err), CS_USAGE);
    assert_int_equal(v.steps, 12);
    assert_int_equal(cs_options_set(&program, "help", "yes", &v, &err), CS_USAGE);
}

static void help_names_every_option_within_the_width(void **state)
{
    (void)state;
    for (int width = 50; width <= 120; width += 35) {
        struct cs_buf out = {0};
        cs_options_help(&program, width, &out);
        for (size_t i = 0; i < CS_ARRAY_LEN(options); i++)
            assert_non_null(strstr(out.data, options[i].name));
        assert_non_null(strstr(out.data, "usage: prog [options] [FILE...]\n"));
        assert_non_null(strstr(out.data, "--help"));
        for (const char *line = out.data; *line; line = strchr(line, '\n') + 1)
            assert_true(strcspn(line, "\n") <= (size_t)width);
        cs_buf_free(&out);
    }
}

static void listing_is_for_machines(void **state)
{
    (void)state;
    struct cs_buf out = {0};
    cs_options_list(&program, &out);
    assert_non_null(strstr(out.data, "steps\tn\tint\tN\t1\t100\t10\t-\tsteps to run\n"));
    assert_non_null(strstr(out.data, "mode\t-\tenum\tWORD\t-\t-\tauto\tauto|always|never\twhen\n"));
    cs_buf_reset(&out);
    cs_options_version(&program, &out);
    assert_string_equal(out.data, "prog 1.2.3\n");
    cs_buf_free(&out);
}

static void refused(const char *name, const char *text, const char *why)
{
    struct cs_err err = {0};
    assert_int_equal(setenv(name, text, 1), 0);
    if (why == NULL) {
        assert_int_equal(cs_environment_check(&err), CS_OK);
    } else {
        assert_int_equal(cs_environment_check(&err), CS_INVALID);
        if (strstr(err.text, why) == NULL)
            fail_msg("%s=%s: %s", name, text, err.text);
    }
    unsetenv(name);
}

static void environment_says_what_fits(void **state)
{
    static const char copies[] =
        "the environment variable CORNSTARCH_CHANNEL_COPIES must be engines or nccl, not 'Nccl'";

    static const struct {
        const char *name, *text, *why; /* NULL: it fits */
    } rows[] = {
        {"CORNSTARCH_CHANNEL_COPIES",    "nccl",                NULL                                      },
        {"CORNSTARCH_CHANNEL_COPIES",    "Nccl",                copies                                    },
        {"CORNSTARCH_TENSOR_COPIES",     "engines",             NULL                                      },
        {"CORNSTARCH_TENSOR_COPIES",     "ncc",                 "must be engines or nccl"                 },
        {"CORNSTARCH_ATTENTION_KERNELS", "mma",                 NULL                                      },
        {"CORNSTARCH_ATTENTION_KERNELS", "sm90",                "must be mma, portable or own"            },
        {"CORNSTARCH_GEMM_PLANS",        "measure",             "must be measured or first, not 'measure'"},
        {"CORNSTARCH_GRAPHS",            "on",                  "must be auto, off or always, not 'on'"   },
        {"CORNSTARCH_GRAPHS",            "",                    NULL                                      },
        {"CORNSTARCH_CONTEXT_OWN_FIRST", "0",                   NULL                                      },
        {"CORNSTARCH_CONTEXT_OWN_FIRST", "yes",                 "must be 1 or 0, not 'yes'"               },
        {"CORNSTARCH_REPLICA_STREAM",    "fast",                "must be urgent or normal"                },
        {"CORNSTARCH_REPLICA_CTAS",      "32",                  NULL                                      },
        {"CORNSTARCH_REPLICA_CTAS",      "33",                  "must be a number from 1 to 32, not '33'" },
        {"CORNSTARCH_REPLICA_CTAS",      "0",                   "must be a number from 1 to 32"           },
        {"CORNSTARCH_REPLICA_CTAS",      "4294967297",          "must be a number from 1 to 32"           },
        {"CORNSTARCH_REPLICA_CTAS",      "8x",                  "must be a number from 1 to 32"           },
        {"CORNSTARCH_REPLICA_CTAS",      "-1",                  "must be a number from 1 to 32"           },
        {"CORNSTARCH_CONTEXT_GROUPS",    "1024",                NULL                                      },
        {"CORNSTARCH_TENSOR_GROUPS",     "1025",                "must be a number from 1 to 1024"         },
        {"CORNSTARCH_STATE_DIR",         "here",                "must be an absolute path, not 'here'"    },
        {"CORNSTARCH_RUNTIME_DIR",       "./run",               "must be an absolute path, not './run'"   },
        {"CORNSTARCH_WORKER",            "/bin/sh",             NULL                                      },
        {"CORNSTARCH_WORKER",            "/nowhere/worker",     "must be a program that can be run"       },
        {"CORNSTARCH_FEEDER",            "/etc/passwd",         "must be a program that can be run"       },
        {"CORNSTARCH_RUNNER",            "runner",              "must be a program that can be run"       },
        {"CORNSTARCH_RUNNER",            "/tmp",                "must be a program that can be run"       },
        {"CORNSTARCH_NVML",              "none",                NULL                                      },
        {"CORNSTARCH_NVML",              "libnvidia-ml.so.2",   NULL                                      },
        {"CORNSTARCH_NVML",              "/nowhere/libnvml.so", "must be none or a library's file"        },
        {"CORNSTARCH_GRAPH",             "off",                 "did you mean CORNSTARCH_GRAPHS?"         },
        {"CORNSTARCH_TENSOR_COPYS",      "nccl",                "did you mean CORNSTARCH_TENSOR_COPIES?"  },
        {"CORNSTARCH_SOURCE",            "/src",                NULL                                      },
        {"CORNSTARCH_STATE_FILE",        "x",                   NULL                                      },
    };

    (void)state;
    for (size_t i = 0; i < CS_ARRAY_LEN(rows); i++)
        refused(rows[i].name, rows[i].text, rows[i].why);
}

static void environment_is_read(void **state)
{
    (void)state;
    assert_int_equal(cs_variable_number(CS_VAR_REPLICA_CTAS), 0);
    setenv("CORNSTARCH_REPLICA_CTAS", "17", 1);
    assert_int_equal(cs_variable_number(CS_VAR_REPLICA_CTAS), 17);
    setenv("CORNSTARCH_REPLICA_CTAS", "", 1);
    assert_int_equal(cs_variable_number(CS_VAR_REPLICA_CTAS), 0);
    assert_null(cs_variable_text(CS_VAR_REPLICA_CTAS));
    unsetenv("CORNSTARCH_REPLICA_CTAS");
    setenv("CORNSTARCH_GRAPHS", "off", 1);
    assert_true(cs_variable_is(CS_VAR_GRAPHS, "off"));
    assert_false(cs_variable_is(CS_VAR_GRAPHS, "of"));
    assert_false(cs_variable_is(CS_VAR_GEMM_PLANS, "off"));
    unsetenv("CORNSTARCH_GRAPHS");
    for (enum cs_variable v = 0; v < CS_VAR_COUNT; v++) { /* every row says all of it, in order */
        const struct cs_variable_row *row = cs_variable_row(v);
        assert_true(row->pages != 0 && row->help != NULL && row->dflt != NULL);
        assert_true(row->words[0].word != NULL || row->most > 0 || row->fits != NULL);
        assert_true(v == 0 || strcmp(cs_variable_row(v - 1)->name, row->name) < 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults_are_parsed),
        cmocka_unit_test(every_form_is_understood),
        cmocka_unit_test(double_dash_and_single_dash_are_arguments),
        cmocka_unit_test(wrong_command_lines_say_what_is_wrong),
        cmocka_unit_test(number_of_arguments_is_checked),
        cmocka_unit_test(subcommand_keeps_its_own_options),
        cmocka_unit_test(help_and_version_win_over_later_errors),
        cmocka_unit_test(one_value_is_set_by_name),
        cmocka_unit_test(help_names_every_option_within_the_width),
        cmocka_unit_test(listing_is_for_machines),
        cmocka_unit_test(environment_says_what_fits),
        cmocka_unit_test(environment_is_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
