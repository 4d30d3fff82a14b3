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
    assert_true(cs_commands_completion(&cs_commands, "bash", &bash));
    assert_false(cs_commands_completion(&cs_commands, "fish", &bash));
    for (int i = 0; i < n; i++) {
        char line[200];
        assert_non_null(strstr(help.data, c[i]->help));
        snprintf(line, sizeof(line), "%s\t%c\t", c[i]->name, c[i]->key ? c[i]->key : '-');
        assert_non_null(strstr(list.data, line));
        snprintf(line, sizeof(line), ".It Cm %s Ar ", c[i]->name);
        assert_int_equal(count(mdoc.data, line), 1);
        snprintf(line, sizeof(line), "    \"%s \"*) list=", c[i]->name);
        assert_int_equal(count(bash.data, line), 1);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_and_keys_are_unique),
        cmocka_unit_test(changing_jobs_needs_more_than_a_viewer),
        cmocka_unit_test(the_longest_name_wins),
        cmocka_unit_test(unknown_commands_get_the_nearest_name),
        cmocka_unit_test(every_default_obeys_its_own_range),
        cmocka_unit_test(help_list_manual_and_completion_hold_every_command),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
