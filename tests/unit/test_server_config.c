/* Options of the daemon: defaults, file, command line; what a reload takes over. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

#include "core/base/system/io.h"
#include "server/state/config.h"
#include "tests/support/tmpdir.h"

static char *dir;

static int start(void **state)
{
    (void)state;
    dir = tmpdir_new();
    return setenv("XDG_CONFIG_HOME", dir, 1);
}

static int end(void **state)
{
    (void)state;
    tmpdir_free(dir);
    return 0;
}

static enum cs_status read_with(const char *text, const char *option, struct cs_config *out,
                                struct cs_err *err)
{
    bool wants_exit;
    const char *path = tmpdir_path(dir, "conf");
    tmpdir_write(path, text, strlen(text));
    char *argv[] = {(char *)(uintptr_t) "cornstarchd", (char *)(uintptr_t) "-f",
                    (char *)(uintptr_t)path, (char *)(uintptr_t)option, NULL};
    return cs_config_read(option ? 4 : 3, argv, out, &wants_exit, err);
}

static void the_command_line_wins_over_the_file_over_the_defaults(void **state)
{
    (void)state;
    struct cs_config c;
    struct cs_err err = {0};
    assert_int_equal(
        read_with("# mine\n\n  cpu-devices = 3 \r\nstate-dir=/some dir\nidle-exit = 10m\n",
                  "--cpu-devices=5", &c, &err),
        CS_OK);
    assert_int_equal(c.cpu_devices, 5);
    assert_string_equal(c.state_dir, "/some dir");
    assert_int_equal(c.idle_exit_ns, 600000000000);
    assert_int_equal(c.max_connections, 256);
    assert_int_equal(c.hello_timeout_ns, 5000000000);
    cs_config_free(&c);
}

static void mistakes_name_file_and_line(void **state)
{
    (void)state;

    static const struct {
        const char *text, *line, *word;
    } cases[] = {
        {"cpu-devices = 3\ncpu-device = 4\n", "conf:2", "cpu-devices" },
        {"cpu-devices = 0\n",                 "conf:1", "1..1024"     },
        {"cpu-devices = many\n",              "conf:1", "whole number"},
        {"cpu-devices 3\n",                   "conf:1", "key = value" },
        {"= 3\n",                             "conf:1", "key = value" },
        {"\nbackground = yes\n",              "conf:2", "command line"},
        {"help = yes\n",                      "conf:1", "unknown"     },
        {"log-level = loud\n",                "conf:1", "error, warn" },
    };

    for (size_t i = 0; i < CS_ARRAY_LEN(cases); i++) {
        struct cs_config c;
        struct cs_err err = {0};
        assert_int_not_equal(read_with(cases[i].text, NULL, &c, &err), CS_OK);
        if (!strstr(err.text, cases[i].line) || !strstr(err.text, cases[i].word))
            fail_msg("'%s' gives '%s'", cases[i].text, err.text);
    }
}

static void a_reload_takes_limits_and_leaves_places(void **state)
{
    (void)state;
    struct cs_config now, fresh;
    struct cs_err err;
    assert_int_equal(read_with("state-dir = /a\ncpu-devices = 2\n", NULL, &now, &err), CS_OK);
    assert_int_equal(
        read_with("state-dir = /b\ncpu-devices = 6\nqueue-entries = 99\n", NULL, &fresh, &err),
        CS_OK);
    cs_config_take_reloadable(&now, &fresh);
    cs_config_free(&fresh);
    assert_int_equal(now.cpu_devices, 6);
    assert_int_equal(now.queue_entries, 99);
    assert_string_equal(now.state_dir, "/a");
    cs_config_free(&now);
}

static void the_users_file_is_read_when_none_is_named(void **state)
{
    (void)state;
    struct cs_config c;
    struct cs_err err;
    bool wants_exit;
    char *argv[] = {(char *)(uintptr_t) "cornstarchd", NULL};
    assert_int_equal(cs_config_read(1, argv, &c, &wants_exit, &err), CS_OK);
    assert_int_equal(c.cpu_devices, 8);
    assert_int_equal(cs_mkdirs(tmpdir_path(dir, "cornstarch"), &err), CS_OK);
    tmpdir_write(tmpdir_path(dir, "cornstarch/cornstarch.conf"), "cpu-devices = 7", 15);
    assert_int_equal(cs_config_read(1, argv, &c, &wants_exit, &err), CS_OK);
    assert_int_equal(c.cpu_devices, 7);
    cs_config_free(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_command_line_wins_over_the_file_over_the_defaults),
        cmocka_unit_test(mistakes_name_file_and_line),
        cmocka_unit_test(a_reload_takes_limits_and_leaves_places),
        cmocka_unit_test(the_users_file_is_read_when_none_is_named),
    };
    return cmocka_run_group_tests(tests, start, end);
}
