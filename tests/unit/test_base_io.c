/* Files and the user's directories, in a temporary directory. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/base/system/clock.h"
#include "core/base/system/cores.h"
#include "core/base/system/io.h"
#include "core/base/system/laps.h"
#include "core/base/system/pages.h"
#include "core/base/system/parallel.h"
#include "core/program/dirs.h"
#include "core/program/temp.h"
#include "support/limited.h"

static char root[64];

static int make_root(void **state)
{
    (void)state;
    strcpy(root, "/tmp/cs-io-XXXXXX");
    return mkdtemp(root) ? 0 : -1;
}

static int remove_root(void **state)
{
    (void)state;
    char command[128];
    snprintf(command, sizeof(command), "rm -rf '%s'", root);
    return system(command);
}

static const char *in_root(const char *name)
{
    static char path[CS_PATH_CAP];
    assert_int_equal(cs_path(path, NULL, "%s/%s", root, name), CS_OK);
    return path;
}

static unsigned mode_of(const char *path)
{
    struct stat sb;
    assert_int_equal(stat(path, &sb), 0);
    return (unsigned)(sb.st_mode & 07777);
}

static int entries(void)
{
    char command[128];
    int n = -1;
    snprintf(command, sizeof(command), "ls -A '%s' | wc -l", root);
    FILE *f = popen(command, "r");
    assert_int_equal(fscanf(f, "%d", &n), 1);
    pclose(f);
    return n;
}

static void atomic_write_replaces_and_leaves_no_rest(void **state)
{
    (void)state;
    struct cs_buf buf = {0};
    const char *path = in_root("file");
    assert_int_equal(cs_write_file_atomic(path, "old", 3, 0640, NULL), CS_OK);
    assert_int_equal(cs_write_file_atomic(path, "newer", 5, 0640, NULL), CS_OK);
    assert_int_equal(mode_of(path), 0640);
    cs_buf_adds(&buf, "has ");
    assert_int_equal(cs_read_file(path, 5, &buf, NULL), CS_OK);
    assert_string_equal(buf.data, "has newer");
    assert_int_equal(entries(), 1);
    /* a directory in the way: the rename fails, the temporary file goes */
    struct cs_err err;
    assert_int_equal(mkdir(in_root("dir"), 0700), 0);
    assert_int_not_equal(cs_write_file_atomic(in_root("dir"), "x", 1, 0600, &err), CS_OK);
    assert_int_equal(entries(), 2);
    assert_int_equal(cs_write_file_atomic(in_root("no/file"), "x", 1, 0600, &err), CS_NOT_FOUND);
    cs_buf_free(&buf);
}

/* what a process that was killed in the middle left, and what one that lives is writing */
static void what_killed_writers_left_goes_with_the_next_write(void **state)
{
    (void)state;
    char gone[CS_PATH_CAP], alive[CS_PATH_CAP];
    pid_t pid = fork();
    if (pid == 0)
        _exit(0);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    assert_int_equal(cs_path(gone, NULL, "%s/swept.tmp-%ld", root, (long)pid), CS_OK);
    assert_int_equal(cs_path(alive, NULL, "%s/swept.tmp-%ld", root, (long)getppid()), CS_OK);
    const int before = entries();
    fclose(fopen(gone, "w"));
    fclose(fopen(alive, "w"));
    assert_int_equal(cs_write_file_atomic(in_root("swept"), "x", 1, 0600, NULL), CS_OK);
    assert_int_equal(access(gone, F_OK), -1);
    assert_int_equal(access(alive, F_OK), 0);
    unlink(alive);
    unlink(in_root("swept"));
    assert_int_equal(entries(), before);
}

static void modes_are_what_the_umask_leaves(void **state)
{
    (void)state;
    static const mode_t masks[] = {077, 022, 002};
    for (size_t i = 0; i < CS_ARRAY_LEN(masks); i++) {
        const mode_t old = umask(masks[i]);
        assert_int_equal(cs_write_file_atomic(in_root("masked"), "x", 1, 0666, NULL), CS_OK);
        assert_int_equal(cs_mkdirs_shared(in_root("shared/deep"), NULL), CS_OK);
        umask(old);
        assert_int_equal(mode_of(in_root("masked")), 0666u & ~masks[i]);
        assert_int_equal(mode_of(in_root("shared/deep")), 0777u & ~masks[i]);
        unlink(in_root("masked"));
        rmdir(in_root("shared/deep"));
        rmdir(in_root("shared"));
    }
}

static void a_path_is_tried_before_it_is_written(void **state)
{
    (void)state;
    struct cs_err err;
    const int before = entries();
    assert_int_equal(cs_temp_try(in_root("later"), &err), CS_OK);
    assert_int_equal(entries(), before);
    assert_int_not_equal(cs_temp_try(in_root("no/later"), &err), CS_OK);
    assert_non_null(strstr(err.text, "no/later cannot be written"));
}

static void read_stops_at_its_limit(void **state)
{
    (void)state;
    struct cs_buf buf = {0};
    struct cs_err err;
    cs_buf_adds(&buf, "kept");
    assert_int_equal(cs_read_file(in_root("file"), 4, &buf, &err), CS_LIMIT);
    assert_string_equal(buf.data, "kept");
    assert_non_null(strstr(err.text, "4 bytes"));
    /* stat says 0 bytes of it */
    assert_int_equal(cs_read_file("/proc/self/maps", 40, &buf, &err), CS_LIMIT);
    assert_string_equal(buf.data, "kept");
    assert_int_equal(cs_read_file(in_root("gone"), 4, &buf, &err), CS_NOT_FOUND);
    assert_int_equal(cs_read_file(root, 4, &buf, &err), CS_INVALID); /* a directory */
    cs_buf_free(&buf);
}

static enum cs_status read_large(void *user)
{
    struct cs_buf buf = {0};
    struct cs_err err = {0};
    const enum cs_status status = cs_read_file(in_root("large"), 1 << 30, &buf, &err);
    (void)user;
    return strstr(err.text, "large") != NULL && buf.len == 0 ? status : CS_INTERNAL;
}

static void a_file_too_large_for_the_memory_is_an_error(void **state)
{
    (void)state;
    if (!cs_test_can_limit())
        skip();
    assert_int_equal(cs_write_file_atomic(in_root("large"), "x", 1, 0600, NULL), CS_OK);
    assert_int_equal(truncate(in_root("large"), 200 << 20), 0);
    assert_int_equal(cs_test_within_mib(64, read_large, NULL), CS_NO_MEMORY);
    assert_int_equal(unlink(in_root("large")), 0);
}

static void full_disk_is_no_space(void **state)
{
    (void)state;
    struct cs_err err;
    FILE *f = fopen("/dev/full", "w");
    if (!f)
        skip();
    assert_int_equal(cs_write_all(fileno(f), "x", 1, &err), CS_NO_SPACE);
    fclose(f);
}

static void missing_parents_are_made_private(void **state)
{
    (void)state;
    struct cs_err err;
    assert_int_equal(cs_mkdirs(in_root("a//b/c/"), NULL), CS_OK);
    assert_int_equal(cs_mkdirs(in_root("a/b"), NULL), CS_OK);
    assert_int_equal(mode_of(in_root("a/b/c")), 0700);
    assert_int_equal(cs_mkdirs(in_root("file/x"), &err), CS_EXISTS);
    assert_non_null(strstr(err.text, "not a directory"));
    assert_int_equal(cs_mkdirs("", &err), CS_INVALID);
}

static void state_directory_follows_xdg(void **state)
{
    (void)state;
    char dir[CS_PATH_CAP];
    struct cs_err err;
    setenv("HOME", "/home/ada", 1);
    unsetenv("XDG_STATE_HOME");
    unsetenv("CORNSTARCH_STATE_DIR");
    assert_int_equal(cs_dir_state(dir, NULL), CS_OK);
    assert_string_equal(dir, "/home/ada/.local/state/cornstarch");
    setenv("XDG_STATE_HOME", "relative", 1); /* the rules say: ignore */
    assert_int_equal(cs_dir_state(dir, NULL), CS_OK);
    assert_string_equal(dir, "/home/ada/.local/state/cornstarch");
    setenv("XDG_STATE_HOME", "/var/s", 1);
    assert_int_equal(cs_dir_state(dir, NULL), CS_OK);
    assert_string_equal(dir, "/var/s/cornstarch");
    setenv("CORNSTARCH_STATE_DIR", "/srv/state",
           1); /* of every program, before what sessions say */
    assert_int_equal(cs_dir_state(dir, NULL), CS_OK);
    assert_string_equal(dir, "/srv/state");
    setenv("CORNSTARCH_STATE_DIR", "state", 1);
    assert_int_equal(cs_dir_state(dir, &err), CS_INVALID);
    assert_non_null(strstr(err.text, "CORNSTARCH_STATE_DIR must be an absolute path, not 'state'"));
    unsetenv("CORNSTARCH_STATE_DIR");
}

static void runtime_directory_must_be_ours_alone(void **state)
{
    (void)state;
    char dir[CS_PATH_CAP], expected[CS_PATH_CAP];
    struct cs_err err;
    setenv("XDG_RUNTIME_DIR", root, 1);
    setenv("CORNSTARCH_RUNTIME_DIR", "/srv/run", 1);
    assert_int_equal(cs_dir_runtime(dir, &err), CS_OK);
    assert_string_equal(dir, "/srv/run");
    unsetenv("CORNSTARCH_RUNTIME_DIR");
    assert_int_equal(cs_dir_runtime(dir, &err), CS_OK);
    assert_string_equal(dir, in_root("cornstarch"));
    assert_int_equal(mode_of(dir), 0700);
    assert_int_equal(cs_dir_runtime(dir, &err), CS_OK); /* again */
    assert_int_equal(chmod(dir, 0750), 0);
    assert_int_equal(cs_dir_runtime(dir, &err), CS_REFUSED);
    assert_int_equal(rmdir(dir), 0);
    assert_int_equal(symlink(in_root("a"), dir), 0);
    assert_int_equal(cs_dir_runtime(dir, &err), CS_REFUSED); /* a link, even to our own */
    assert_int_equal(unlink(dir), 0);
    unsetenv("XDG_RUNTIME_DIR");
    setenv("TMPDIR", root, 1);
    assert_int_equal(cs_dir_runtime(dir, &err), CS_OK);
    snprintf(expected, sizeof(expected), "%s/cornstarch-%u", root, (unsigned)geteuid());
    assert_string_equal(dir, expected);
    if (geteuid() == 0) {
        assert_int_equal(chown(dir, 12345, 12345), 0);
        assert_int_equal(cs_dir_runtime(dir, &err), CS_REFUSED);
        assert_non_null(strstr(err.text, "12345"));
    }
}

/* A session's directory goes at logout, a batch job has none; root may write anywhere, so that what
 * stands in the way is a file. */
static void without_a_session_there_is_a_checked_place(void **state)
{
    (void)state;
    char dir[CS_PATH_CAP], why[300];
    struct cs_err err;
    static const char *const sessions[] = {"gone", "file"};
    char place[300], expected[CS_PATH_CAP];
    snprintf(place, sizeof place, "%s", in_root("later"));
    snprintf(expected, sizeof expected, "%s/cornstarch-%u", place, (unsigned)geteuid());
    assert_int_equal(mkdir(place, 0700), 0);
    setenv("TMPDIR", place, 1);
    FILE *f = fopen(in_root("file"), "w");
    assert_non_null(f);
    fclose(f);
    for (size_t i = 0; i < CS_ARRAY_LEN(sessions); i++) {
        setenv("XDG_RUNTIME_DIR", in_root(sessions[i]), 1);
        assert_int_equal(cs_dir_runtime_why(dir, why, sizeof why, &err), CS_OK);
        assert_string_equal(dir, expected);
        assert_int_equal(mode_of(dir), 0700);
        assert_non_null(strstr(why, sessions[i]));
        /* the place is checked as well, and both reasons are said */
        assert_int_equal(chmod(dir, 0755), 0);
        assert_int_equal(cs_dir_runtime(dir, &err), CS_REFUSED);
        assert_non_null(strstr(err.text, sessions[i]));
        assert_non_null(strstr(err.text, "chmod 700"));
        assert_int_equal(rmdir(dir), 0);
        assert_int_equal(symlink(in_root("a"), dir), 0);
        assert_int_equal(cs_dir_runtime(dir, &err), CS_REFUSED);
        assert_int_equal(unlink(dir), 0);
    }
    unsetenv("XDG_RUNTIME_DIR");
    unsetenv("TMPDIR");
}

static void own_directory_holds_this_program(void **state)
{
    (void)state;
    char dir[CS_PATH_CAP];
    assert_int_equal(cs_dir_self(dir, NULL), CS_OK);
    assert_int_equal(dir[0], '/');
    strncat(dir, "/", sizeof(dir) - strlen(dir) - 1);
    strncat(dir, program_invocation_short_name, sizeof(dir) - strlen(dir) - 1);
    assert_int_equal(access(dir, X_OK), 0);
}

/* a FIFO without a writer would hang whoever opens it to read */
static void only_regular_files_are_opened(void **state)
{
    static const struct {
        const char *path, *what;
    } rows[] = {
        {"fifo",      "is a FIFO"            },
        {"to-fifo",   "is a FIFO"            },
        {".",         "is a directory"       },
        {"/dev/null", "is a character device"},
    };

    (void)state;
    struct cs_err err;
    struct cs_buf text = {0};
    uint64_t bytes = 0;
    int fd = -1;
    assert_int_equal(mkfifo(in_root("fifo"), 0600), 0);
    assert_int_equal(symlink("fifo", in_root("to-fifo")), 0);
    for (size_t i = 0; i < CS_ARRAY_LEN(rows); i++) {
        const char *path = rows[i].path[0] == '/' ? rows[i].path : in_root(rows[i].path);
        assert_int_equal(cs_open_regular(path, &fd, NULL, &err), CS_INVALID);
        assert_int_equal(fd, -1);
        assert_non_null(strstr(err.text, rows[i].what));
        assert_int_equal(cs_read_file(path, 100, &text, &err), CS_INVALID);
    }
    assert_int_equal(cs_open_regular(in_root("nothing"), &fd, NULL, &err), CS_NOT_FOUND);
    assert_int_equal(cs_write_file_atomic(in_root("plain"), "abc", 3, 0600, &err), CS_OK);
    assert_int_equal(cs_open_regular(in_root("plain"), &fd, &bytes, &err), CS_OK);
    assert_int_equal(bytes, 3);
    close(fd);
    cs_buf_free(&text);
}

static void path_that_does_not_fit_is_a_limit(void **state)
{
    (void)state;
    char path[CS_PATH_CAP];
    struct cs_err err;
    assert_int_equal(cs_path(path, &err, "%*s", CS_PATH_CAP - 1, "x"), CS_OK);
    assert_int_equal(cs_path(path, &err, "%*s", CS_PATH_CAP, "x"), CS_LIMIT);
}

static void cores_are_at_most_what_the_groups_allow(void **state)
{
    static const struct {
        const char *outer, *inner, *groups;
        int cores;
    } rows[] = {
        {"max 100000",    "250000 100000", "0::/g/job\n",              3},
        {"100000 100000", "250000 100000", "4:memory:/m\n0::/g/job\n", 1},
        {"400000 100000", "max 100000",    "0::/g/job\n",              4},
        {"max 100000",    "max 100000",    "0::/g/job\n",              0},
        {"400000 100000", "100000 100000", "0::/g\n",                  4},
        {"400000 100000", "100000 100000", "4:cpu:/g/job\n",           0}, /* the first version */
        {"many",          "-1 100000",     "0::/g/job\n",              0},
        {"100000 0",      "",              "0::/g/job\n",              0},
        {"100000 100000", "1 100000",      "0::/no/such",              0},
    };
    struct cs_err err;

    (void)state;
    assert_int_equal(cs_mkdirs(in_root("groups/g/job"), &err), CS_OK);
    for (size_t i = 0; i < CS_ARRAY_LEN(rows); i++) {
        assert_int_equal(cs_write_file_atomic(in_root("groups/g/cpu.max"), rows[i].outer,
                                              strlen(rows[i].outer), 0600, &err),
                         CS_OK);
        assert_int_equal(cs_write_file_atomic(in_root("groups/g/job/cpu.max"), rows[i].inner,
                                              strlen(rows[i].inner), 0600, &err),
                         CS_OK);
        assert_int_equal(cs_cgroup_cores(in_root("groups"), rows[i].groups), rows[i].cores);
    }
    assert_true(cs_usable_cores() >= 1);
}

static void count_turns(void *user, int64_t first, int64_t n)
{
    atomic_int *turns = user;
    for (int64_t i = first; i < first + n; i++)
        atomic_fetch_add(&turns[i], 1);
}

static void a_parallel_loop_has_every_turn_once(void **state)
{
    static const int64_t counts[] = {0, 1, 63, 64, 65, 1000};
    static const int threads[] = {0, 1, 3, 300};

    (void)state;
    for (size_t c = 0; c < CS_ARRAY_LEN(counts); c++)
        for (size_t t = 0; t < CS_ARRAY_LEN(threads); t++)
            for (int64_t grain = 1; grain <= 64; grain *= 64) {
                static atomic_int turns[1001];
                for (int i = 0; i < 1001; i++)
                    atomic_store(&turns[i], 0);
                cs_parallel_for(threads[t], counts[c], grain, count_turns, turns);
                for (int64_t i = 0; i < 1001; i++)
                    assert_int_equal(atomic_load(&turns[i]), i < counts[c]);
            }
}

static void cores_are_shared_and_nobody_has_none(void **state)
{
    (void)state;
    assert_int_equal(cs_cores_each(0), cs_usable_cores());
    assert_int_equal(cs_cores_each(1), cs_usable_cores());
    assert_int_equal(cs_cores_each(1 << 20), 1);
}

static void laps_add_up(void **state)
{
    struct cs_laps laps;
    (void)state;
    cs_laps_take(NULL, "nobody asks");
    const int64_t begun = cs_now_ns();
    cs_laps_begin(&laps);
    for (int i = 0; i < CS_LAPS_MAX + 3; i++)
        cs_laps_take(&laps, i == 0 ? "first" : "later");
    assert_int_equal(laps.n, CS_LAPS_MAX);
    assert_string_equal(laps.lap[0].what, "first");
    assert_string_equal(laps.lap[CS_LAPS_MAX - 1].what, "later");
    int64_t sum = 0;
    for (int i = 0; i < laps.n; i++) {
        assert_true(laps.lap[i].ns >= 0);
        sum += laps.lap[i].ns;
    }
    assert_true(sum <= cs_now_ns() - begun);
    struct cs_laps slow = {.last_ns = cs_now_ns() - 1000000000};
    cs_laps_take(&slow, "a second");
    assert_true(slow.n == 1 && slow.lap[0].ns >= 1000000000);
}

static void arrays_are_aligned_and_all_of_them_is_there(void **state)
{
    static const size_t bytes[] = {0, 1, 4096, (size_t)40 << 20};
    (void)state;
    for (size_t i = 0; i < CS_ARRAY_LEN(bytes); i++) {
        char *p = cs_alloc_array(bytes[i]);
        assert_non_null(p);
        assert_int_equal((uintptr_t)p % 256, 0);
        memset(p, 1, bytes[i]);
        free(p);
    }
    assert_null(cs_alloc_array(SIZE_MAX - 5));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(atomic_write_replaces_and_leaves_no_rest),
        cmocka_unit_test(what_killed_writers_left_goes_with_the_next_write),
        cmocka_unit_test(modes_are_what_the_umask_leaves),
        cmocka_unit_test(a_path_is_tried_before_it_is_written),
        cmocka_unit_test(read_stops_at_its_limit),
        cmocka_unit_test(a_file_too_large_for_the_memory_is_an_error),
        cmocka_unit_test(full_disk_is_no_space),
        cmocka_unit_test(missing_parents_are_made_private),
        cmocka_unit_test(state_directory_follows_xdg),
        cmocka_unit_test(runtime_directory_must_be_ours_alone),
        cmocka_unit_test(without_a_session_there_is_a_checked_place),
        cmocka_unit_test(own_directory_holds_this_program),
        cmocka_unit_test(only_regular_files_are_opened),
        cmocka_unit_test(path_that_does_not_fit_is_a_limit),
        cmocka_unit_test(cores_are_at_most_what_the_groups_allow),
        cmocka_unit_test(cores_are_shared_and_nobody_has_none),
        cmocka_unit_test(a_parallel_loop_has_every_turn_once),
        cmocka_unit_test(laps_add_up),
        cmocka_unit_test(arrays_are_aligned_and_all_of_them_is_there),
    };
    return cmocka_run_group_tests(tests, make_root, remove_root);
}
