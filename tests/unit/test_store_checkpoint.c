/* Checkpoints: what was committed is read back; what was not, or was damaged, is never taken for
 * one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/hash.h"
#include "store/ckpt/checkpoint.h"
#include "support/tmpdir.h"

enum { N = 12 };

static const struct cs_param params[] = {
    {.id = 0, .name = "llm/a", .n_dims = 2, .dim = {3, 4}, .count = N, .is_trainable = true},
    {.id = 1, .name = "llm/b", .n_dims = 1, .dim = {N},    .count = N, .is_trainable = true},
};

static int make_dir(void **state)
{
    *state = tmpdir_new();
    return 0;
}

static int drop_dir(void **state)
{
    tmpdir_free(*state);
    return 0;
}

static void fill(float *f, int64_t step, int rank, float part)
{
    for (int i = 0; i < N; i++)
        f[i] = (float)step + 100 * (float)rank + part + (float)i / 64;
}

/* rank r owns parameter r */
static enum cs_status write_ranks(const char *dir, int64_t step, struct cs_ckpt_file files[4],
                                  struct cs_err *err)
{
    float master[N], m[N], v[N];
    for (int rank = 0; rank < 2; rank++) {
        const struct cs_ckpt_part own = {&params[rank], cs_slice_whole(&params[rank]), master, m,
                                         v};
        fill(master, step, rank, 0);
        fill(m, step, rank, 0.25f);
        fill(v, step, rank, 0.5f);
        CS_TRY(cs_ckpt_write_rank(dir, step, rank, &own, 1, &files[2 * rank], err));
    }
    return CS_OK;
}

static enum cs_status save(const char *dir, int64_t step, const char *spec_hash, struct cs_err *err)
{
    struct cs_ckpt_file files[4];
    CS_TRY(write_ranks(dir, step, files, err));
    json_t *trainer = json_pack("{s:I, s:s}", "cursor", (json_int_t)(3 * step), "seed", "17");
    const struct cs_ckpt_origin origin = {spec_hash, spec_hash, "plan", 2, params, 2};
    enum cs_status st = cs_ckpt_commit(dir, step, &origin, trainer, files, 4, err);
    json_decref(trainer);
    return st;
}

static void saved(const char *dir, int64_t step, const char *spec_hash)
{
    struct cs_err err = {0};
    if (save(dir, step, spec_hash, &err) != CS_OK)
        fail_msg("%s", err.text);
}

static void note_skip(void *user, int64_t step, const struct cs_err *why)
{
    char *all = user;
    (void)step;
    strncat(all, why->text, 3000 - strlen(all) - 1);
    strncat(all, "\n", 3000 - strlen(all) - 1);
}

/* step of the newest, -1 for none; skipped: 3000 bytes */
static int64_t latest(const char *dir, bool is_deep, char *skipped)
{
    char path[4096];
    int64_t step = -1;
    skipped[0] = '\0';
    const struct cs_ckpt_search search = {is_deep, NULL, note_skip, skipped};
    enum cs_status st = cs_ckpt_latest(dir, &search, &step, path, NULL);
    assert_true(st == CS_OK || st == (skipped[0] ? CS_CORRUPT : CS_NOT_FOUND));
    return st == CS_OK ? step : -1;
}

static void committed_checkpoint_is_read_back_to_the_bit(void **state)
{
    struct cs_ckpt *ckpt = NULL;
    struct cs_err err = {0};
    float want[N], got[N];
    static const char *const kinds[] = {"master", "exp_avg", "exp_avg_sq"};
    saved(*state, 10, "spec");
    assert_int_equal(tmpdir_count(*state), 1);
    assert_int_equal(cs_ckpt_open(tmpdir_path(*state, "ckpt-10"), &ckpt, &err), CS_OK);
    assert_int_equal(cs_ckpt_step(ckpt), 10);
    assert_int_equal(json_integer_value(json_object_get(cs_ckpt_trainer(ckpt), "cursor")), 30);
    assert_string_equal(json_string_value(json_object_get(cs_ckpt_info(ckpt), "spec_hash")),
                        "spec");
    for (int rank = 0; rank < 2; rank++)
        for (int k = 0; k < 3; k++) {
            fill(want, 10, rank, 0.25f * (float)k);
            assert_int_equal(cs_ckpt_read(ckpt, &params[rank], kinds[k], got, &err), CS_OK);
            assert_memory_equal(got, want, sizeof(want));
        }
    struct cs_param other = params[0];
    assert_int_equal(cs_ckpt_read(ckpt, &other, "grad", got, &err), CS_INVALID);
    other.name = "llm/none";
    assert_int_equal(cs_ckpt_read(ckpt, &other, "master", got, &err), CS_NOT_FOUND);
    assert_non_null(strstr(err.text, "llm/none"));
    other = params[0];
    other.dim[0] = 4;
    other.dim[1] = 3;
    assert_int_equal(cs_ckpt_read(ckpt, &other, "master", got, &err), CS_INVALID);
    cs_ckpt_close(ckpt);
}

/* The manifest of step 10 as it is now, sealed again. */
static void seal(const char *dir, json_t *manifest)
{
    char hex[33];
    json_object_del(manifest, "xxh3");
    char *text = json_dumps(manifest, JSON_COMPACT | JSON_SORT_KEYS);
    cs_xxh3_128_hex(text, strlen(text), hex);
    json_object_set_new(manifest, "xxh3", json_string(hex));
    assert_int_equal(json_dump_file(manifest, tmpdir_path(dir, "ckpt-10/checkpoint.json"), 0), 0);
    json_decref(manifest);
    free(text);
}

/* Version 1 had no slices and said less in checkpoint.json. */
static void version_1_is_still_read(void **state)
{
    struct cs_ckpt *ckpt = NULL;
    struct cs_err err = {0};
    float want[N], got[N];
    saved(*state, 10, "spec");
    const char *path = tmpdir_path(*state, "ckpt-10/checkpoint.json");
    json_t *manifest = json_load_file(path, 0, NULL);
    assert_non_null(manifest);
    json_object_del(manifest, "trained_hash");
    json_object_del(manifest, "generation");
    json_object_set_new(manifest, "schema", json_string("cornstarch.checkpoint/1"));
    seal(*state, manifest);
    if (cs_ckpt_open(tmpdir_path(*state, "ckpt-10"), &ckpt, &err) != CS_OK)
        fail_msg("%s", err.text);
    fill(want, 10, 1, 0.5f);
    assert_int_equal(cs_ckpt_read(ckpt, &params[1], "exp_avg_sq", got, &err), CS_OK);
    assert_memory_equal(got, want, sizeof(want));
    cs_ckpt_close(ckpt);
}

static void killed_save_is_not_a_checkpoint(void **state)
{
    char skipped[3000];
    struct cs_ckpt_file files[4];
    assert_int_equal(latest(*state, false, skipped), -1);
    assert_int_equal(latest(tmpdir_path(*state, "absent"), false, skipped), -1);
    saved(*state, 10, "spec");
    assert_int_equal(write_ranks(*state, 20, files, NULL), CS_OK); /* no commit */
    assert_true(tmpdir_has(*state, "ckpt-20.tmp"));
    assert_int_equal(latest(*state, true, skipped), 10);
    assert_string_equal(skipped, ""); /* leftovers are no damage */
    assert_int_equal(cs_ckpt_clean(*state, NULL), CS_OK);
    assert_false(tmpdir_has(*state, "ckpt-20.tmp"));
    assert_true(tmpdir_has(*state, "ckpt-10"));
}

/* change the file, expect step 20 to be skipped naming it, and 10 to be found */
static void damaged(const char *dir, bool is_deep, const char *name)
{
    char skipped[3000];
    assert_int_equal(latest(dir, is_deep, skipped), 10);
    if (!strstr(skipped, "ckpt-20") || !strstr(skipped, name))
        fail_msg("skipped: %s", skipped);
}

static void damage_is_found_and_named(void **state)
{
    static const char *const names[] = {"params/rank-0.safetensors", "opt/rank-1.safetensors",
                                        "trainer.json", "checkpoint.json"};
    char inside[200], skipped[3000];
    saved(*state, 10, "spec");
    for (size_t i = 0; i < CS_ARRAY_LEN(names); i++) {
        size_t size = 0;
        saved(*state, 20, "spec");
        assert_int_equal(latest(*state, true, skipped), 20);
        snprintf(inside, sizeof(inside), "ckpt-20/%s", names[i]);
        char *bytes = tmpdir_read(tmpdir_path(*state, inside), &size);
        assert_non_null(bytes);
        tmpdir_write(tmpdir_path(*state, inside), bytes,
                     size - 2); /* cut: more than the last newline */
        damaged(*state, false, names[i]);
        bytes[size / 2] = (char)(bytes[size / 2] ^ 1); /* flipped bit */
        tmpdir_write(tmpdir_path(*state, inside), bytes, size);
        damaged(*state, true, names[i]);
        free(bytes);
        assert_int_equal(unlink(tmpdir_path(*state, inside)), 0); /* missing */
        damaged(*state, false, names[i]);
    }
}

/* All hashes fit and one rank's file is another's: an element is there twice, another nowhere. */
static void one_that_verifies_and_does_not_open_is_skipped(void **state)
{
    char skipped[3000];
    size_t size = 0;
    saved(*state, 5, "spec");
    saved(*state, 10, "spec");
    json_t *manifest = json_load_file(tmpdir_path(*state, "ckpt-10/checkpoint.json"), 0, NULL);
    json_t *files = json_object_get(manifest, "files"), *first = json_array_get(files, 0);
    char *bytes = tmpdir_read(tmpdir_path(*state, "ckpt-10/params/rank-0.safetensors"), &size);
    tmpdir_write(tmpdir_path(*state, "ckpt-10/params/rank-1.safetensors"), bytes, size);
    json_object_set(json_array_get(files, 2), "bytes", json_object_get(first, "bytes"));
    json_object_set(json_array_get(files, 2), "xxh3", json_object_get(first, "xxh3"));
    seal(*state, manifest);
    free(bytes);
    assert_int_equal(latest(*state, true, skipped), 5);
    assert_non_null(strstr(skipped, "llm/a"));
}

static void what_ranks_did_not_write_whole_is_not_committed(void **state)
{
    struct cs_ckpt_file files[4];
    struct cs_err err = {0};
    char skipped[3000];
    const struct cs_ckpt_origin origin = {"spec", "trained", "plan", 0, params, 2};
    json_t *trainer = json_object();
    saved(*state, 10, "spec");
    assert_int_equal(write_ranks(*state, 20, files, &err), CS_OK);
    assert_int_equal(cs_ckpt_commit(*state, 20, &origin, trainer, files, 2, &err), CS_CORRUPT);
    assert_non_null(strstr(err.text, "llm/b"));
    assert_int_equal(latest(*state, true, skipped), 10);
    json_decref(trainer);
}

static void every_cut_of_the_manifest_is_refused(void **state)
{
    size_t size = 0;
    saved(*state, 5, "spec");
    const char *path = tmpdir_path(*state, "ckpt-5/checkpoint.json");
    char *name = strdup(path), *bytes = tmpdir_read(path, &size);
    for (size_t cut = 0; cut + 1 < size; cut++) { /* the last byte is the newline */
        struct cs_ckpt *ckpt = NULL;
        tmpdir_write(name, bytes, cut);
        assert_int_not_equal(cs_ckpt_open(tmpdir_path(*state, "ckpt-5"), &ckpt, NULL), CS_OK);
        assert_null(ckpt);
    }
    free(bytes);
    free(name);
}

static void renamed_or_escaping_manifests_are_refused(void **state)
{
    char skipped[3000];
    const struct cs_ckpt_origin origin = {"s", "t", "p", 0, NULL, 0};
    struct cs_ckpt_file bad = {.name = "params/../../x.safetensors", .bytes = 1};
    struct cs_err err = {0};
    saved(*state, 10, "spec");
    char *from = strdup(tmpdir_path(*state, "ckpt-10"));
    assert_int_equal(rename(from, tmpdir_path(*state, "ckpt-11")), 0);
    assert_int_equal(latest(*state, false, skipped), -1);
    assert_non_null(strstr(skipped, "step 10"));
    free(from);
    json_t *trainer = json_object();
    memset(bad.xxh3, '0', 32);
    assert_int_equal(cs_ckpt_commit(*state, 3, &origin, trainer, &bad, 1, &err), CS_INVALID);
    snprintf(bad.name, sizeof(bad.name), "params/rank-0.safetensors");
    assert_int_equal(cs_ckpt_commit(*state, 3, &origin, trainer, &bad, 1, &err), CS_NOT_FOUND);
    assert_int_equal(cs_ckpt_commit(*state, 3, &origin, trainer, NULL, 0, &err), CS_INVALID);
    json_decref(trainer);
}

static void files_of_an_earlier_attempt_are_dropped(void **state)
{
    struct cs_ckpt_file files[2];
    float f[N] = {0};
    const struct cs_ckpt_part own = {&params[0], cs_slice_whole(&params[0]), f, f, f};
    assert_int_equal(cs_ckpt_write_rank(*state, 10, 7, &own, 1, files, NULL), CS_OK);
    saved(*state, 10, "spec");
    assert_false(tmpdir_has(*state, "ckpt-10/params/rank-7.safetensors"));
    assert_true(tmpdir_has(*state, "ckpt-10/params/rank-1.safetensors"));
}

static void saving_a_step_again_replaces_it(void **state)
{
    char skipped[3000];
    saved(*state, 10, "one");
    saved(*state, 10, "two");
    assert_int_equal(tmpdir_count(*state), 1);
    struct cs_ckpt *ckpt = NULL;
    assert_int_equal(latest(*state, true, skipped), 10);
    assert_int_equal(cs_ckpt_open(tmpdir_path(*state, "ckpt-10"), &ckpt, NULL), CS_OK);
    assert_string_equal(json_string_value(json_object_get(cs_ckpt_info(ckpt), "spec_hash")), "two");
    cs_ckpt_close(ckpt);
}

static void retention_keeps_the_newest_and_what_is_not_ours(void **state)
{
    char skipped[3000];
    saved(*state, 9000, "another run"); /* of nobody we know */
    for (int64_t step = 10; step <= 50; step += 10)
        saved(*state, step, "spec");
    assert_int_equal(mkdir(tmpdir_path(*state, "ckpt-best"), 0755), 0);
    assert_int_equal(mkdir(tmpdir_path(*state, "ckpt-030"), 0755), 0);
    assert_int_equal(unlink(tmpdir_path(*state, "ckpt-20/trainer.json")), 0); /* damaged */
    assert_int_equal(cs_ckpt_clean(*state, NULL), CS_OK);
    assert_int_equal(tmpdir_count(*state), 8);
    assert_int_equal(cs_ckpt_prune(*state, 2, 50, NULL), CS_OK);
    assert_true(tmpdir_has(*state, "ckpt-50") && tmpdir_has(*state, "ckpt-40"));
    assert_false(tmpdir_has(*state, "ckpt-30") || tmpdir_has(*state, "ckpt-10"));
    assert_true(tmpdir_has(*state, "ckpt-20")); /* evidence */
    assert_true(tmpdir_has(*state, "ckpt-9000") && tmpdir_has(*state, "ckpt-best") &&
                tmpdir_has(*state, "ckpt-030"));
    assert_int_equal(cs_ckpt_prune(*state, 1, 50, NULL), CS_OK);
    assert_true(tmpdir_has(*state, "ckpt-50"));
    assert_false(tmpdir_has(*state, "ckpt-40"));
    assert_int_equal(latest(*state, true, skipped), 9000);
}

static void save_value(const char *dir, int64_t step, float value)
{
    const float f[N] = {value};
    struct cs_ckpt_file files[2];
    struct cs_err err = {0};
    const struct cs_ckpt_part own = {&params[0], cs_slice_whole(&params[0]), f, f, f};
    const struct cs_ckpt_origin origin = {"spec", "trained", "plan", 0, params, 1};
    json_t *trainer = json_object();
    assert_int_equal(cs_ckpt_write_rank(dir, step, 0, &own, 1, files, &err), CS_OK);
    assert_int_equal(files[0].n_nonfinite, isfinite(value) ? 0 : 1);
    assert_int_equal(cs_ckpt_commit(dir, step, &origin, trainer, files, 2, &err), CS_OK);
    assert_int_equal(cs_ckpt_prune(dir, 1, step, &err), CS_OK);
    json_decref(trainer);
}

static void retention_never_removes_the_last_finite_one(void **state)
{
    save_value(*state, 10, 1);
    save_value(*state, 20, 2);
    save_value(*state, 30, (float)NAN);
    save_value(*state, 40, (float)INFINITY);
    assert_true(tmpdir_has(*state, "ckpt-40") && tmpdir_has(*state, "ckpt-20"));
    assert_int_equal(tmpdir_count(*state), 2);
    save_value(*state, 50, 3);
    assert_int_equal(tmpdir_count(*state), 1);
}

/* Whatever the layout was, whoever wrote it, and whatever the clock says. */
static void checkpoints_of_the_first_version_go_like_others(void **state)
{
    const struct timeval future[2] = {
        {4000000000, 0},
        {4000000000, 0}
    };
    saved(*state, 10, "before the layout changed");
    json_t *manifest = json_load_file(tmpdir_path(*state, "ckpt-10/checkpoint.json"), 0, NULL);
    json_object_del(manifest, "trained_hash");
    json_object_set_new(manifest, "schema", json_string("cornstarch.checkpoint/1"));
    seal(*state, manifest);
    assert_int_equal(utimes(tmpdir_path(*state, "ckpt-10/checkpoint.json"), future), 0);
    saved(*state, 20, "spec");
    assert_int_equal(cs_ckpt_prune(*state, 1, 20, NULL), CS_OK);
    assert_true(tmpdir_has(*state, "ckpt-20"));
    assert_int_equal(tmpdir_count(*state), 1);
}

static void what_is_put_aside_stays_and_counts_no_more(void **state)
{
    char skipped[3000];
    int n = 0;
    for (int64_t step = 10; step <= 30; step += 10)
        saved(*state, step, "spec");
    assert_int_equal(cs_ckpt_set_aside(*state, 30, NULL), CS_OK);
    assert_int_equal(latest(*state, true, skipped), 20);
    assert_true(tmpdir_has(*state, "ckpt-30.bad"));
    assert_int_equal(cs_ckpt_begin_anew(*state, &n, NULL), CS_OK);
    assert_int_equal(n, 2);
    assert_int_equal(latest(*state, true, skipped), -1);
    assert_true(tmpdir_has(*state, "before-1/ckpt-20") && tmpdir_has(*state, "before-1/ckpt-10"));
    saved(*state, 5, "spec");
    assert_int_equal(cs_ckpt_begin_anew(*state, &n, NULL), CS_OK);
    assert_true(tmpdir_has(*state, "before-2/ckpt-5"));
    assert_int_equal(cs_ckpt_begin_anew(*state, &n, NULL), CS_OK); /* nothing: no directory */
    assert_int_equal(n, 0);
    assert_false(tmpdir_has(*state, "before-3"));
}

static int save_limited(const char *dir, rlim_t limit, char *text, size_t text_bytes)
{
    int pipe_fd[2], status = 0;
    assert_int_equal(pipe(pipe_fd), 0);
    pid_t pid = fork();
    if (pid == 0) {
        struct cs_err err = {0};
        struct rlimit size = {limit, limit};
        signal(SIGXFSZ, SIG_IGN);
        setrlimit(RLIMIT_FSIZE, &size);
        enum cs_status st = save(dir, 20, "spec", &err);
        _exit(write(pipe_fd[1], err.text, sizeof(err.text)) > 0 ? (int)st : 99);
    }
    close(pipe_fd[1]);
    ssize_t n = read(pipe_fd[0], text, text_bytes - 1);
    text[n > 0 ? n : 0] = '\0';
    close(pipe_fd[0]);
    waitpid(pid, &status, 0);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void full_disk_fails_the_save_and_keeps_the_old(void **state)
{
    char text[1001], skipped[3000];
    int n_failed = 0;
    saved(*state, 10, "spec");
    for (rlim_t limit = 0; limit < 2000; limit += 50) { /* runs dry in every file of the save */
        int rc = save_limited(*state, limit, text, sizeof(text));
        if (rc == CS_OK) {
            assert_int_equal(latest(*state, true, skipped), 20);
            break;
        }
        n_failed++;
        assert_int_equal(rc, CS_NO_SPACE);
        assert_non_null(strstr(text, "bytes needed"));
        assert_non_null(strstr(text, "ckpt-20"));
        assert_int_equal(latest(*state, true, skipped), 10);
        assert_string_equal(skipped, "");
    }
    assert_true(n_failed > 8);
    assert_int_equal(latest(*state, true, skipped), 20); /* the last attempt had room */
}

static void unwritable_directory_is_named(void **state)
{
    struct cs_err err = {0};
    tmpdir_write(tmpdir_path(*state, "file"), "x", 1);
    assert_int_not_equal(save(tmpdir_path(*state, "file"), 1, "spec", &err), CS_OK);
    assert_non_null(strstr(err.text, "file"));
    if (geteuid() == 0) { /* root may write anywhere but here */
        assert_int_not_equal(save("/proc/self/ckpt", 1, "spec", &err), CS_OK);
        return;
    }
    assert_int_equal(chmod(*state, 0555), 0);
    assert_int_equal(save(*state, 1, "spec", &err), CS_REFUSED);
    assert_non_null(strstr(err.text, *state));
    assert_int_equal(chmod(*state, 0755), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, make_dir, drop_dir)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(committed_checkpoint_is_read_back_to_the_bit),
        TEST(version_1_is_still_read),
        TEST(killed_save_is_not_a_checkpoint),
        TEST(damage_is_found_and_named),
        TEST(every_cut_of_the_manifest_is_refused),
        TEST(renamed_or_escaping_manifests_are_refused),
        TEST(files_of_an_earlier_attempt_are_dropped),
        TEST(saving_a_step_again_replaces_it),
        TEST(retention_keeps_the_newest_and_what_is_not_ours),
        TEST(one_that_verifies_and_does_not_open_is_skipped),
        TEST(what_ranks_did_not_write_whole_is_not_committed),
        TEST(retention_never_removes_the_last_finite_one),
        TEST(checkpoints_of_the_first_version_go_like_others),
        TEST(what_is_put_aside_stays_and_counts_no_more),
        TEST(full_disk_fails_the_save_and_keeps_the_old),
        TEST(unwritable_directory_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
