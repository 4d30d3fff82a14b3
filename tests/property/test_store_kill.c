/* kill -9 at any moment of saving: the newest checkpoint always verifies, and nothing is
 * damaged. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "store/ckpt/checkpoint.h"
#include "support/tmpdir.h"

enum { COUNT = 4096, KILLS = 40 };

static float values[COUNT];

/* saves step after step, every third one again, keeping two, until killed; never returns */
static void save_forever(const char *dir, int64_t step)
{
    const struct cs_param param = {.name = "llm/a", .n_dims = 1, .dim = {COUNT}, .count = COUNT};
    for (;; step++) {
        struct cs_ckpt_file files[4];
        json_t *trainer = json_pack("{s:I}", "step", (json_int_t)step);
        for (int i = 0; i < COUNT; i++)
            values[i] = (float)step;
        const struct cs_ckpt_part own = {&param, cs_slice_whole(&param), values, values, values};
        const struct cs_ckpt_origin origin = {"spec", "trained", "plan", 0, NULL, 0};
        for (int again = 0; again < 1 + (step % 3 == 0); again++) {
            if (cs_ckpt_write_rank(dir, step, 0, &own, 1, &files[0], NULL) != CS_OK ||
                cs_ckpt_write_rank(dir, step, 1, NULL, 0, &files[2], NULL) != CS_OK ||
                cs_ckpt_commit(dir, step, &origin, trainer, files, 4, NULL) != CS_OK)
                _exit(1);
        }
        json_decref(trainer);
        if (cs_ckpt_clean(dir, NULL) != CS_OK || cs_ckpt_prune(dir, 2, step, NULL) != CS_OK)
            _exit(2);
    }
}

static void count_skip(void *user, int64_t step, const struct cs_err *why)
{
    (void)step;
    (void)why;
    ++*(int *)user;
}

static void any_kill_leaves_a_verified_checkpoint(void **state)
{
    char *dir = tmpdir_new(), path[4096];
    int64_t last = 0;
    int n_moved = 0;
    (void)state;
    srand(7);
    /* a busy machine gets longer, until some kills did fall between saves */
    for (int kill_no = 0; kill_no < KILLS || (n_moved <= 3 && kill_no < 20 * KILLS); kill_no++) {
        int64_t step = -1;
        int n_skipped = 0, status = 0;
        const struct timespec pause = {0,
                                       1000L * (1000 + rand() % (30000 * (1 + kill_no / KILLS)))};
        pid_t pid = fork();
        if (pid == 0)
            save_forever(dir, last + 1);
        nanosleep(&pause, NULL);
        kill(pid, SIGKILL);
        waitpid(pid, &status, 0);
        assert_true(WIFSIGNALED(status)); /* it never failed by itself */
        const struct cs_ckpt_search search = {true, NULL, count_skip, &n_skipped};
        enum cs_status st = cs_ckpt_latest(dir, &search, &step, path, NULL);
        assert_int_equal(n_skipped, 0);
        if (st == CS_NOT_FOUND && last == 0)
            continue; /* killed before the first one was complete */
        assert_int_equal(st, CS_OK);
        assert_true(step >= last);
        n_moved += step > last;
        last = step;
        struct cs_ckpt *ckpt = NULL;
        const struct cs_param param = {
            .name = "llm/a", .n_dims = 1, .dim = {COUNT}, .count = COUNT};
        assert_int_equal(cs_ckpt_open(path, &ckpt, NULL), CS_OK);
        assert_int_equal(cs_ckpt_read(ckpt, &param, "exp_avg_sq", values, NULL), CS_OK);
        assert_true(values[0] == (float)step && values[COUNT - 1] == (float)step);
        assert_int_equal(json_integer_value(json_object_get(cs_ckpt_trainer(ckpt), "step")), step);
        cs_ckpt_close(ckpt);
    }
    assert_true(n_moved > 3);
    assert_int_equal(cs_ckpt_clean(dir, NULL), CS_OK);
    assert_int_equal(cs_ckpt_prune(dir, 1, last, NULL), CS_OK);
    assert_int_equal(tmpdir_count(dir), 1);
    tmpdir_free(dir);
}

/* Every rename of a commit and of what follows it, counted: at the last one the process is gone. */
static struct {
    int left; /* -1: never */
    bool is_after, has_exchange;
} fatal = {-1, false, true};

static bool is_fatal(void)
{
    return fatal.left >= 0 && fatal.left-- == 0;
}

int rename(const char *from, const char *to)
{
    const bool ends = is_fatal();
    if (ends && !fatal.is_after)
        _exit(9);
    const int rc = renameat(AT_FDCWD, from, AT_FDCWD, to);
    if (ends)
        _exit(9);
    return rc;
}

int renameat2(int from_dir, const char *from, int to_dir, const char *to, unsigned flags)
{
    if (!fatal.has_exchange && flags != 0) {
        errno = EINVAL;
        return -1;
    }
    return (int)syscall(SYS_renameat2, from_dir, from, to_dir, to, flags);
}

/* Step 1 is there; it is saved once more, then step 2, keeping one. */
static void save_again(const char *dir)
{
    const struct cs_param param = {.name = "llm/a", .n_dims = 1, .dim = {COUNT}, .count = COUNT};
    const struct cs_ckpt_part own = {&param, cs_slice_whole(&param), values, values, values};
    const struct cs_ckpt_origin origin = {"spec", "trained", "plan", 0, NULL, 0};
    json_t *trainer = json_object();
    for (int64_t step = 1; step <= 2; step++) {
        struct cs_ckpt_file files[2];
        if (cs_ckpt_write_rank(dir, step, 0, &own, 1, files, NULL) != CS_OK ||
            cs_ckpt_commit(dir, step, &origin, trainer, files, 2, NULL) != CS_OK ||
            cs_ckpt_prune(dir, 1, step, NULL) != CS_OK)
            _exit(1);
    }
    json_decref(trainer);
}

static void a_kill_at_any_rename_leaves_a_checkpoint(void **state)
{
    (void)state;
    for (int round = 0; round < 4; round++) {
        int rc = 9;
        fatal.has_exchange = round & 1;
        fatal.is_after = round & 2;
        for (int at = 0; rc == 9; at++) {
            char *dir = tmpdir_new(), path[4096];
            int64_t step = -1;
            int status = 0;
            save_again(dir);
            const pid_t pid = fork();
            if (pid == 0) {
                fatal.left = at;
                save_again(dir);
                _exit(0);
            }
            waitpid(pid, &status, 0);
            rc = WEXITSTATUS(status);
            assert_true(rc == 0 || rc == 9);
            assert_int_equal(cs_ckpt_clean(dir, NULL), CS_OK);
            const struct cs_ckpt_search search = {.is_deep = true};
            assert_int_equal(cs_ckpt_latest(dir, &search, &step, path, NULL), CS_OK);
            assert_int_equal(step, 2);
            tmpdir_free(dir);
            assert_true(at < 100);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_kill_at_any_rename_leaves_a_checkpoint),
                                       cmocka_unit_test(any_kill_leaves_a_verified_checkpoint)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
