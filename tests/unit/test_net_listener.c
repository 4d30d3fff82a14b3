/* Sockets in the file system: long paths, files that are removed, descriptors that run out. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

#include "core/base/system/io.h"
#include "net/listener.h"
#include "net/unix.h"
#include "tests/support/tmpdir.h"

struct here {
    struct event_base *base;
    struct cs_listener *listener;
    char *dir, path[CS_PATH_CAP];
    int n_peers, n_deaf;
};

static void on_peer(void *user, int fd)
{
    struct here *here = user;
    if (fd == -1) {
        here->n_deaf++;
        return;
    }
    here->n_peers++;
    close(fd);
}

static void open_here(struct here *here, const char *name)
{
    struct cs_err err = {0};
    *here = (struct here){.base = event_base_new(), .dir = tmpdir_new()};
    assert_int_equal(cs_path(here->path, &err, "%s/%s", here->dir, name), CS_OK);
    char *slash = strrchr(here->path, '/');
    *slash = '\0';
    assert_int_equal(cs_mkdirs(here->path, &err), CS_OK);
    *slash = '/';
    if (cs_listener_open(here->base, here->path, on_peer, here, &here->listener, &err) != CS_OK)
        fail_msg("%s", err.text);
}

static void close_here(struct here *here)
{
    cs_listener_close(here->listener);
    assert_int_equal(access(here->path, F_OK), -1);
    event_base_free(here->base);
    tmpdir_free(here->dir);
}

/* can be reached at its path */
static void expect_heard(struct here *here)
{
    struct cs_err err = {0};
    int fd;
    const int before = here->n_peers;
    if (cs_unix_connect(here->path, true, "test", &fd, &err) != CS_OK)
        fail_msg("%s", err.text);
    event_base_loop(here->base, EVLOOP_NONBLOCK);
    assert_int_equal(here->n_peers, before + 1);
    close(fd);
}

static void a_removed_socket_comes_back(void **state)
{
    struct here here;
    int fd;
    (void)state;
    open_here(&here, "run/it.sock");
    assert_true(cs_listener_is_there(here.listener));
    expect_heard(&here);
    assert_int_equal(unlink(here.path), 0);
    assert_false(cs_listener_is_there(here.listener));
    assert_int_equal(cs_unix_connect(here.path, true, "test", &fd, NULL), CS_UNREACHABLE);
    assert_int_equal(cs_listener_move(here.listener, here.path, NULL), CS_OK);
    assert_true(cs_listener_is_there(here.listener));
    expect_heard(&here);
    /* another file in its place is not its own, and is left alone at the end */
    assert_int_equal(unlink(here.path), 0);
    FILE *f = fopen(here.path, "w");
    assert_non_null(f);
    fclose(f);
    assert_false(cs_listener_is_there(here.listener));
    assert_int_equal(cs_listener_move(here.listener, here.path, NULL), CS_OK);
    expect_heard(&here);
    close_here(&here);
}

static void a_failed_move_leaves_it_where_it_is(void **state)
{
    struct here here;
    char gone[CS_PATH_CAP];
    (void)state;
    open_here(&here, "it.sock");
    assert_int_equal(cs_path(gone, NULL, "%s/none/it.sock", here.dir), CS_OK);
    assert_int_not_equal(cs_listener_move(here.listener, gone, NULL), CS_OK);
    assert_string_equal(cs_listener_path(here.listener), here.path);
    expect_heard(&here);
    close_here(&here);
}

static void a_path_may_be_longer_than_an_address(void **state)
{
    struct here here;
    char name[300];
    (void)state;
    snprintf(name, sizeof name, "%0*d/with a space/it.sock", 200, 7);
    open_here(&here, name);
    expect_heard(&here);
    assert_int_equal(unlink(here.path), 0);
    assert_int_equal(cs_listener_move(here.listener, here.path, NULL), CS_OK);
    expect_heard(&here);
    close_here(&here);
}

static void without_descriptors_it_waits_for_the_next_tick(void **state)
{
    struct here here;
    struct rlimit old, low;
    int fd;
    (void)state;
    open_here(&here, "it.sock");
    assert_int_equal(cs_unix_connect(here.path, true, "test", &fd, NULL), CS_OK);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
    low = (struct rlimit){(rlim_t)fd + 1, old.rlim_max}; /* that was the lowest free one */
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
    for (int i = 0; i < 3; i++)
        event_base_loop(here.base, EVLOOP_NONBLOCK);
    assert_int_equal(here.n_deaf, 1); /* told once; it does not spin */
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
    cs_listener_tick(here.listener);
    event_base_loop(here.base, EVLOOP_NONBLOCK);
    assert_int_equal(here.n_peers, 1);
    close(fd);
    close_here(&here);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_removed_socket_comes_back),
        cmocka_unit_test(a_failed_move_leaves_it_where_it_is),
        cmocka_unit_test(a_path_may_be_longer_than_an_address),
        cmocka_unit_test(without_descriptors_it_waits_for_the_next_tick),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
