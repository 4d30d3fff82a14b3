/* The command table: everything that is made from it holds all of it. */
#include "console/command.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

#include "console/cli/docs/command_docs.h"
#include "console/cli/docs/complete.h"

static void names_and_keys_are_unique(void **state)
{
    const struct cs_command *const *c = cs_commands.row;
    int n = cs_commands.n;
    (void)state;
    assert_true(n > 20);
    for (int i = 0; i < n; i++)
        for (int k = 0; k < i; k++) {
            assert_string_not_equal(c[i]->name, c[k]->name);
            assert_true(c[i]->key == 0 || c[i]->key != c[k]->key);
        }
}

static void changing_jobs_needs_more_than_a_viewer(void **state)
{
    static const char *const names[] = {"run",  "submit",     "pause",      "resume",
                                        "stop", "checkpoint", "daemon stop"};
    (void)state;
    for (size_t i = 0; i < CS_ARRAY_LEN(names); i++) {
        const struct cs_command *command = NULL;
        char copy[32], *argv[3] = {copy};
        int words, n_words = 1;
        snprintf(copy, sizeof(copy), "%s", names[i]);
        char *space = strchr(copy, ' ');
        if (space) {
            *space = '\0';
            argv[n_words++] = space + 1;
        }
        assert_int_equal(cs_command_find(&cs_commands, n_words, argv, &command, &words, NULL),
                         CS_OK);
        assert_string_equal(command->name, names[i]);
        assert_int_equal(words, n_words);
        assert_true(command->role > CS_ROLE_VIEWER);
    }
}

static void the_longest_name_wins(void **state)
{
    char *argv[] = {(char[]){"data"}, (char[]){"make"}, (char[]){"shapes"}, (char[]){"DIR"}};
    const struct cs_command *command;
    int words;
    (void)state;
    assert_int_equal(cs_command_find(&cs_commands, 4, argv, &command, &words, NULL), CS_OK);
    assert_string_equal(command->name, "data make shapes");
    assert_int_equal(words, 3);
}

static void unknown_commands_get_the_nearest_name(void **state)
{
    char *argv[] = {(char[]){"exprot"}};
    const struct cs_command *command;
    struct cs_err err;
    int words;
    (void)state;
    assert_int_equal(cs_command_find(&cs_commands, 1, argv, &command, &words, &err), CS_USAGE);
    assert_string_equal(err.text, "there is no command 'exprot'; did you mean 'export'?");
}

static void every_default_obeys_its_own_range(void **state)
{
    const struct cs_command *const *c = cs_commands.row;
    int n = cs_commands.n;
    (void)state;
    for (int i = 0; i < n; i++) {
        struct cs_option options[32];

        union {
            struct cs_cmd_common common;
            max_align_t align;
            unsigned char bytes[CS_COMMAND_VALUES];
        } values = {.bytes = {0}};
        struct cs_args args;
        struct cs_err err = {.text = ""};
        char name[64], *argv[] = {(char[]){"x"}, (char[]){"a"}, (char[]){"b"}, NULL};
        size_t n_options = cs_command_options(c[i], options, CS_ARRAY_LEN(options));
        struct cs_cli cli = cs_command_cli(c[i], options, n_options, name, sizeof(name));
        assert_true(n_options > c[i]->n_options);
        assert_in_range(c[i]->values_size, sizeof values.common, sizeof values);
        for (size_t o = 0; o < c[i]->n_options; o++) /* none overwrites those of all commands */
            assert_in_range(options[o].offset, sizeof values.common, c[i]->values_size - 1);
        if (cs_options_parse(&cli, 1 + c[i]->min_args, argv, &values, &args, &err) != CS_OK)
            fail_msg("%s: %s", name, err.text);
        assert_int_equal(args.n, c[i]->min_args);
    }
}

static int count(const char *text, const char *part)
{
    int n = 0;
    for (const char *p = text; (p = strstr(p, part)); p += strlen(part))
        n++;
    return n;
}

static void help_list_manual_and_completion_hold_every_command(void **state)
{
    struct cs_buf help = {0}, list = {0}, mdoc = {0}, bash = {0};
    const struct cs_command *const *c = cs_commands.row;
    int n = cs_commands.n;
    (void)state;
    cs_commands_help(&cs_commands, 80, &help);
    cs_commands_list(&cs_commands, &list);
    cs_commands_mdoc(&cs_commands, &mdoc);
    assert_true(cs_commands_completion("bash", &bash));
    assert_true(cs_commands_completion("zsh", &bash));
    assert_true(cs_commands_completion("fish", &bash));
    assert_false(cs_commands_completion("tcsh", &bash));
    for (int i = 0; i < n; i++) {
        char line[200];
        assert_non_null(strstr(help.data, c[i]->help));
        snprintf(line, sizeof(line), "%s\t%c\t", c[i]->name, c[i]->key ? c[i]->key : '-');
        assert_non_null(strstr(list.data, line));
        snprintf(line, sizeof(line), ".It Cm %s Ar ", c[i]->name);
        assert_int_equal(count(mdoc.data, line), 1);
        for (size_t o = 0; o < c[i]->n_options; o++) {
            snprintf(line, sizeof(line), "\t%s\t", c[i]->options[o].name);
            assert_non_null(strstr(list.data, line));
        }
    }
    assert_int_equal(count(mdoc.data, ".Bl "), count(mdoc.data, ".El\n"));
    cs_buf_free(&help);
    cs_buf_free(&list);
    cs_buf_free(&mdoc);
    cs_buf_free(&bash);
}

static void another_name_is_the_same_command(void **state)
{
    static const char *const rows[][2] = {
        {"ls",     "jobs"  },
        {"ps",     "jobs"  },
        {"kill",   "stop"  },
        {"watch",  "attach"},
        {"remove", "rm"    },
    };
    (void)state;
    for (size_t i = 0; i < CS_ARRAY_LEN(rows); i++) {
        char word[32], *argv[] = {word, (char[]){"3"}};
        const struct cs_command *command = NULL;
        int words = 0;
        snprintf(word, sizeof word, "%s", rows[i][0]);
        assert_int_equal(cs_command_find(&cs_commands, 2, argv, &command, &words, NULL), CS_OK);
        assert_string_equal(command->name, rows[i][1]);
        assert_int_equal(words, 1);
    }
}

static void no_other_name_is_taken_twice(void **state)
{
    (void)state;
    for (int i = 0; i < cs_commands.n; i++) {
        char list[128], *save = NULL;
        snprintf(list, sizeof list, "%s",
                 cs_commands.row[i]->aliases ? cs_commands.row[i]->aliases : "");
        for (char *word = strtok_r(list, " ", &save); word; word = strtok_r(NULL, " ", &save)) {
            const struct cs_command *command = NULL;
            char *argv[] = {word};
            int words = 0;
            assert_int_equal(cs_command_find(&cs_commands, 1, argv, &command, &words, NULL), CS_OK);
            assert_ptr_equal(command, cs_commands.row[i]);
        }
    }
}

/* the words that are offered, a space between two, then the kind of what else may stand there */
static void expect_completion(const char *line, const char *want)
{
    char text[200], got[2000] = "", *words[16], *save = NULL;
    int n = 0;
    struct cs_completion found;
    snprintf(text, sizeof text, "%s", line);
    for (char *word = strtok_r(text, " ", &save); word && n < 15; word = strtok_r(NULL, " ", &save))
        words[n++] = word;
    char empty[] = "";
    if (n == 0 || line[strlen(line) - 1] == ' ')
        words[n++] = empty;
    cs_complete(&cs_commands, n, words, &found);
    for (const char *at = cs_buf_str(&found.lines); *at; at += strcspn(at, "\n") + 1)
        snprintf(got + strlen(got), sizeof got - strlen(got), "%.*s ", (int)strcspn(at, "\t"), at);
    snprintf(got + strlen(got), sizeof got - strlen(got), "<%s>", found.kind);
    cs_buf_free(&found.lines);
    assert_string_equal(got, want);
}

static void a_line_is_completed_by_the_table(void **state)
{
    (void)state;
    expect_completion("attac", "attach <>");
    expect_completion("model ", "init show check convert <>");
    expect_completion("data make ", "shapes <>");
    expect_completion("daemon st", "start stop status <>");
    expect_completion("pause ", "<ID>");
    expect_completion("pause --json ", "<ID>");
    expect_completion("pause --socket ", "<PATH>");
    expect_completion("kill ", "<ID>"); /* by another name */
    expect_completion("run --pl", "--plain <>");
    expect_completion("run --tag x ", "<SCRIPT>");
    expect_completion("rm 1 ", "<ID>"); /* any number of them */
    expect_completion("resume 1 ", "<SCRIPT>");
    expect_completion("pause 1 ", "<>");
    expect_completion("jobs --state fa", "failed <STATE>");
    expect_completion("jobs --state failed,l", "failed,lost <STATE>");
    expect_completion("jobs --tag ", "<TAG>");
    expect_completion("help daemon und", "undrain <COMMAND>");
    expect_completion("--read", "--read-only <>");
    expect_completion("nothing of this kind ", "<>");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_and_keys_are_unique),
        cmocka_unit_test(changing_jobs_needs_more_than_a_viewer),
        cmocka_unit_test(the_longest_name_wins),
        cmocka_unit_test(unknown_commands_get_the_nearest_name),
        cmocka_unit_test(every_default_obeys_its_own_range),
        cmocka_unit_test(help_list_manual_and_completion_hold_every_command),
        cmocka_unit_test(another_name_is_the_same_command),
        cmocka_unit_test(no_other_name_is_taken_twice),
        cmocka_unit_test(a_line_is_completed_by_the_table),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
