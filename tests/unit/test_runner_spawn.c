/* The start of a child: its descriptors, whatever numbers are free, and what stops it. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

#include "runner/processes/spawn.h"
#include "tests/support/tmpdir.h"

enum { N = 12 };

struct place {
    char *dir, script[300], out[300];
    int fds[N], output;
};

/* fds[i] reads the text "i"; the child prints what its descriptors 3, 4, ... read */
static int setup(void **state)
{
    static struct place p;
    char text[1000] = "#!/bin/sh\n";
    p = (struct place){.dir = tmpdir_new()};
    for (int i = 0; i < N; i++) {
        char name[16], line[16];
        snprintf(name, sizeof name, "%d", i);
        snprintf(line, sizeof line, "%d\n", i);
        tmpdir_write(tmpdir_path(p.dir, name), line, strlen(line));
        p.fds[i] = open(tmpdir_path(p.dir, name), O_RDONLY | O_CLOEXEC);
        assert_true(p.fds[i] > 2);
        size_t used = strlen(text); /* sh knows descriptors of one digit */
        snprintf(text + used, sizeof text - used, "cat /proc/self/fd/%d\n", 3 + i);
    }
    snprintf(p.script, sizeof p.script, "%s", tmpdir_path(p.dir, "script"));
    snprintf(p.out, sizeof p.out, "%s", tmpdir_path(p.dir, "out"));
    tmpdir_write(p.script, text, strlen(text));
    assert_int_equal(chmod(p.script, 0700), 0);
    p.output = open(p.out, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    *state = &p;
    return 0;
}

static int teardown(void **state)
{
    struct place *p = *state;
    for (int i = 0; i < N; i++)
        close(p->fds[i]);
    close(p->output);
    tmpdir_free(p->dir);
    return 0;
}

static enum cs_status spawn(const struct place *p, const char *path, struct cs_err *err)
{
    const struct cs_spawn spawn = {
        .path = path, .name = "child", .fds = p->fds, .n_fds = N, .output_fd = p->output};
    pid_t pid;
    int pidfd, status;
    enum cs_status started = cs_spawn(&spawn, &pid, &pidfd, err);
    if (started != CS_OK)
        return started;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    close(pidfd);
    assert_int_equal(status, 0);
    return CS_OK;
}

static char *read_out(const struct place *p)
{
    size_t n;
    char *text = tmpdir_read(p->out, &n);
    assert_non_null(text);
    return text;
}

static void expect_all_in_order(const struct place *p)
{
    char want[100] = "";
    struct cs_err err = {0};
    if (spawn(p, p->script, &err) != CS_OK)
        fail_msg("%s", err.text);
    for (int i = 0; i < N; i++)
        snprintf(want + strlen(want), sizeof want - strlen(want), "%d\n", i);
    char *text = read_out(p);
    assert_string_equal(text, want);
    free(text);
}

static void limit_files(rlim_t n)
{
    struct rlimit limit;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = n ? n : limit.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

/* 64 is far below any number that a program might like to use */
static void descriptors_are_placed_by_what_is_free(void **state)
{
    limit_files(64);
    expect_all_in_order(*state);
    limit_files(0);
}

/* each source has the number that another one is to get */
static void sources_may_have_any_numbers(void **state)
{
    struct place *p = *state;
    for (int i = 0, j = N - 1; i < j; i++, j--) { /* swap what the numbers mean */
        int a = dup(p->fds[i]);
        dup2(p->fds[j], p->fds[i]);
        dup2(a, p->fds[j]);
        close(a);
        int t = p->fds[i];
        p->fds[i] = p->fds[j];
        p->fds[j] = t;
    }
    expect_all_in_order(p);
}

static void what_stops_a_child_is_the_error_and_in_its_log(void **state)
{
    struct place *p = *state;
    struct cs_err err = {0};
    assert_int_not_equal(spawn(p, "/nowhere/worker", &err), CS_OK);
    assert_non_null(strstr(err.text, "/nowhere/worker: No such file"));
    char *text = read_out(p);
    assert_non_null(strstr(text, "/nowhere/worker: No such file"));
    free(text);
    limit_files(3 + N + 6); /* the pipe to the parent fits, not all sources at once */
    assert_int_not_equal(spawn(p, p->script, &err), CS_OK);
    limit_files(0);
    assert_non_null(strstr(err.text, "ulimit -n"));
    assert_non_null(strstr(err.text, strerror(EMFILE)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(descriptors_are_placed_by_what_is_free, setup, teardown),
        cmocka_unit_test_setup_teardown(sources_may_have_any_numbers, setup, teardown),
        cmocka_unit_test_setup_teardown(what_stops_a_child_is_the_error_and_in_its_log, setup,
                                        teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
