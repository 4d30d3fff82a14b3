/* The cache on disk: what was put is what comes, damaged or foreign files are not there, the least recently read
 * goes first, the size holds, also with several processes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "input/media/disk_cache.h"
#include "input/media/disk_room.h"
#include "support/tmpdir.h"

enum { BYTES = 5000 };

static void fill(unsigned char *data, size_t n, uint64_t seed)
{
    for (size_t i = 0; i < n; i++) {
        seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        data[i] = (unsigned char)(seed >> 56);
    }
}

static void key_of(uint64_t i, char key[CS_DISK_KEY])
{
    cs_disk_cache_key(&i, sizeof i, "settings", 1, key);
}

static void put(struct cs_disk_cache *cache, uint64_t i)
{
    unsigned char data[BYTES];
    char key[CS_DISK_KEY];

    key_of(i, key);
    fill(data, BYTES, i);
    cs_disk_cache_put(cache, key, data, BYTES);
}

/* whether it is there; if so it is right */
static bool has(struct cs_disk_cache *cache, uint64_t i)
{
    unsigned char got[BYTES], want[BYTES];
    char key[CS_DISK_KEY];

    key_of(i, key);
    if (!cs_disk_cache_get(cache, key, got, BYTES))
        return false;
    fill(want, BYTES, i);
    assert_memory_equal(got, want, BYTES);
    return true;
}

static struct cs_disk_cache *open_cache(const char *dir, uint64_t max_bytes)
{
    struct cs_disk_cache *cache = NULL;
    struct cs_err err = {0};

    if (cs_disk_cache_open(dir, max_bytes, &cache, &err) != CS_OK)
        fail_msg("%s", err.text);
    return cache;
}

static void what_was_put_comes_also_later(void **state)
{
    char *dir = tmpdir_new();
    struct cs_disk_cache *cache = open_cache(tmpdir_path(dir, "a/b"), 1 << 20);
    unsigned char other[BYTES + 1];
    char key[CS_DISK_KEY];

    (void)state;
    assert_false(has(cache, 1));
    put(cache, 1);
    put(cache, 1);
    assert_true(has(cache, 1));
    key_of(1, key);
    assert_false(cs_disk_cache_get(NULL, key, other, BYTES));
    cs_disk_cache_close(cache);
    cache = open_cache(tmpdir_path(dir, "a/b"), 1 << 20);
    assert_true(has(cache, 1));
    assert_false(cs_disk_cache_get(cache, key, other, BYTES + 1)); /* of another length: gone */
    assert_false(has(cache, 1));
    cs_disk_cache_close(cache);
    tmpdir_free(dir);
}

static void keys_say_contents_settings_and_how(void **state)
{
    char key[5][CS_DISK_KEY];

    (void)state;
    cs_disk_cache_key("ab", 2, "s", 1, key[0]);
    cs_disk_cache_key("ac", 2, "s", 1, key[1]);
    cs_disk_cache_key("ab", 2, "t", 1, key[2]);
    cs_disk_cache_key("ab", 2, "s", 2, key[3]);
    cs_disk_cache_key("a", 1, "bs", 1, key[4]);
    for (int i = 0; i < 5; i++)
        for (int k = 0; k < i; k++)
            assert_string_not_equal(key[i], key[k]);
    assert_int_equal(strlen(key[0]), 32);
}

static void damaged_entries_are_not_there(void **state)
{
    char *dir = tmpdir_new(), path[4096], key[CS_DISK_KEY];
    struct cs_disk_cache *cache = open_cache(dir, 1 << 20);

    (void)state;
    for (int round = 0; round < 3; round++) {
        put(cache, 7);
        key_of(7, key);
        snprintf(path, sizeof path, "%s/%.2s/%s", dir, key, key);
        size_t n = 0;
        char *bytes = tmpdir_read(path, &n);
        bytes[round == 0 ? 3 : round == 1 ? 12 : 900] ^= 1; /* magic, hash, data */
        tmpdir_write(path, bytes, n);
        free(bytes);
        assert_false(has(cache, 7));
        assert_int_not_equal(access(path, F_OK), 0);
    }
    put(cache, 7);
    assert_true(has(cache, 7));
    cs_disk_cache_close(cache);
    tmpdir_free(dir);
}

static void set_time(const char *dir, uint64_t i, time_t when)
{
    char path[4096], key[CS_DISK_KEY];
    const struct timespec times[] = {{.tv_sec = when}, {.tv_sec = when}};

    key_of(i, key);
    snprintf(path, sizeof path, "%s/%.2s/%s", dir, key, key);
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
}

static void the_least_recently_read_goes_first(void **state)
{
    char *dir = tmpdir_new();
    struct cs_disk_cache *cache = open_cache(dir, 1 << 20);

    (void)state;
    for (uint64_t i = 0; i < 20; i++) {
        put(cache, i);
        set_time(dir, i, 1000 + (time_t)i);
    }
    assert_true(has(cache, 0)); /* read now */
    cs_disk_cache_close(cache);
    cache = open_cache(dir, 10 * (BYTES + 24)); /* clears up: nine tenths stay */
    assert_true(has(cache, 0));
    for (uint64_t i = 1; i < 20; i++)
        assert_int_equal(has(cache, i), i >= 12);
    cs_disk_cache_close(cache);
    tmpdir_free(dir);
}

static void several_processes_keep_the_size_and_the_bytes(void **state)
{
    enum { MAX = 40 * (BYTES + 24), CHILDREN = 3 };

    char *dir = tmpdir_new();
    struct cs_disk_cache *cache = open_cache(dir, MAX);
    pid_t child[CHILDREN];

    (void)state;
    for (int c = 0; c < CHILDREN; c++) {
        child[c] = fork();
        if (child[c] != 0)
            continue;
        struct cs_disk_cache *own = NULL;
        if (cs_disk_cache_open(dir, MAX, &own, NULL) != CS_OK)
            _exit(1);
        for (uint64_t i = 0; i < 300; i++) {
            unsigned char got[BYTES], want[BYTES];
            uint64_t which = (i * 7 + (uint64_t)c) % 120;
            char key[CS_DISK_KEY];
            key_of(which, key);
            fill(want, BYTES, which);
            if (cs_disk_cache_get(own, key, got, BYTES) && memcmp(got, want, BYTES) != 0)
                _exit(2);
            cs_disk_cache_put(own, key, want, BYTES);
        }
        cs_disk_cache_close(own);
        _exit(0);
    }
    for (int c = 0; c < CHILDREN; c++) {
        int how = 0;
        assert_int_equal(waitpid(child[c], &how, 0), child[c]);
        assert_true(WIFEXITED(how) && WEXITSTATUS(how) == 0);
    }
    /* Each clears up after a sixteenth of its own, and may have looked before the others wrote theirs; all 120 are
     * three times the size. */
    assert_true(cs_disk_room_bytes(dir) <= MAX + 2 * (CHILDREN + 1) * (MAX / 16 + BYTES + 24));
    cs_disk_cache_close(cache);
    cache = open_cache(dir, MAX);
    assert_true(cs_disk_room_bytes(dir) <= MAX);
    cs_disk_cache_close(cache);
    tmpdir_free(dir);
}

/* A disk without room, as far as this process can tell: files end at LIMIT bytes. */
static void what_cannot_be_written_whole_is_not_there(void **state)
{
    char *dir = tmpdir_new();
    struct cs_disk_cache *cache = open_cache(dir, 1 << 20);
    int how = 0;
    pid_t child = 0;

    (void)state;
    put(cache, 1);
    const uint64_t before = cs_disk_room_bytes(dir);
    child = fork();
    if (child == 0) {
        const struct rlimit limit = {BYTES / 2, BYTES / 2};
        struct cs_disk_cache_use use;
        unsigned char bytes[BYTES];
        char key[CS_DISK_KEY];
        signal(SIGXFSZ, SIG_IGN);
        if (setrlimit(RLIMIT_FSIZE, &limit) == -1)
            _exit(1);
        key_of(2, key);
        fill(bytes, BYTES, 2);
        cs_disk_cache_put(cache, key, bytes, BYTES);
        cs_disk_cache_use(cache, &use);
        key_of(1, key);
        _exit(use.n_kept == 1 && cs_disk_cache_get(cache, key, bytes, BYTES) ? 0 : 2);
    }
    assert_int_equal(waitpid(child, &how, 0), child);
    assert_true(WIFEXITED(how) && WEXITSTATUS(how) == 0);
    assert_int_equal(cs_disk_room_bytes(dir), before); /* nothing is left of the attempt */
    assert_false(has(cache, 2));
    assert_true(has(cache, 1));
    cs_disk_cache_close(cache);
    tmpdir_free(dir);
}

/* A file that a killed writer left is not an entry; it goes when it is old. */
static void what_a_killed_writer_left_goes(void **state)
{
    char *dir = tmpdir_new(), path[4096], key[CS_DISK_KEY];
    struct cs_disk_cache *cache = open_cache(dir, 1 << 20);

    (void)state;
    key_of(1, key);
    for (int is_old = 0; is_old < 2; is_old++) {
        const struct timespec times[2] = {{.tv_sec = is_old ? 1000 : time(NULL)},
                                          {.tv_sec = is_old ? 1000 : time(NULL)}};
        snprintf(path, sizeof path, "%s/%.2s/%s.tmp-1-1", dir, key, key);
        tmpdir_write(path, "half", 4);
        assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
        assert_false(has(cache, 1));
        assert_int_equal(cs_disk_room_bytes(dir), 0);
        cs_disk_room_clear(dir, 1 << 20);
        assert_int_equal(access(path, F_OK) == 0, !is_old);
    }
    cs_disk_cache_close(cache);
    tmpdir_free(dir);
}

static void a_folder_that_cannot_be_is_an_error(void **state)
{
    char *dir = tmpdir_new();
    struct cs_disk_cache *cache = NULL;

    (void)state;
    tmpdir_write(tmpdir_path(dir, "file"), "x", 1);
    assert_int_not_equal(cs_disk_cache_open(tmpdir_path(dir, "file"), 1000, &cache, NULL), CS_OK);
    assert_null(cache);
    cache = open_cache(dir, 100); /* smaller than any entry: nothing is kept */
    put(cache, 1);
    assert_false(has(cache, 1));
    cs_disk_cache_close(cache);
    tmpdir_free(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_put_comes_also_later),
        cmocka_unit_test(keys_say_contents_settings_and_how),
        cmocka_unit_test(damaged_entries_are_not_there),
        cmocka_unit_test(the_least_recently_read_goes_first),
        cmocka_unit_test(several_processes_keep_the_size_and_the_bytes),
        cmocka_unit_test(what_cannot_be_written_whole_is_not_there),
        cmocka_unit_test(what_a_killed_writer_left_goes),
        cmocka_unit_test(a_folder_that_cannot_be_is_an_error),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
