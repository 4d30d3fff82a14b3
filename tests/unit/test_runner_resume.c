/* Where a job goes on, and what it refuses to go on from: damaged and missing checkpoints, another
 * training's, files that were changed meanwhile, directories that cannot hold any. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "core/wire/wire.h"
#include "runner/job/resume.h"
#include "store/ckpt/checkpoint.h"
#include "support/spec.h"
#include "support/tmpdir.h"

/* the disk as a test wants it, 0: as it is */
static uint64_t free_bytes;

int statvfs(const char *path, struct statvfs *out)
{
    *out = (struct statvfs){.f_frsize = 1, .f_bavail = free_bytes ? free_bytes : UINT64_C(1) << 50};
    return access(path, F_OK);
}

struct job {
    char *dir, shared[400]; /* shared: for checkpoints of several jobs, "": each in its own */
    struct cs_test_spec spec;
    const char *eval; /* file of the evaluation, NULL: none */
    struct cs_run_job run;
    struct cs_err err;
};

static int setup(void **state)
{
    struct job *job = calloc(1, sizeof *job);
    job->dir = tmpdir_new();
    job->spec = (struct cs_test_spec){.n_encoders = -1, .llm_layers = 1, .seed = 7};
    job->run.ckpt_lock.fd = -1;
    free_bytes = 0;
    *state = job;
    return 0;
}

static int teardown(void **state)
{
    struct job *job = *state;
    cs_run_job_close(&job->run);
    tmpdir_free(job->dir);
    free(job);
    return 0;
}

static void write_text(const struct job *job, const char *name, const char *text)
{
    tmpdir_write(tmpdir_path(job->dir, name), text, strlen(text));
}

/* Opens a job of this number anew, as its runner would. */
static void open_job(struct job *job, const char *number)
{
    struct cs_buf text = {0};
    char path[400];
    cs_run_job_close(&job->run);
    if (!tmpdir_has(job->dir, "train.json"))
        write_text(job, "train.json", "[{\"id\":\"a\"},{\"id\":\"b\"},{\"id\":\"c\"}]");
    job->spec.json = tmpdir_path(job->dir, "train.json");
    json_t *spec = cs_test_spec_json(&job->spec);
    json_t *llm = json_array_get(json_object_get(json_object_get(spec, "model"), "modules"), 0);
    json_object_set_new(llm, "tokenizer", json_string(job->dir));
    json_object_set_new(spec, "checkpoint", json_pack("{s:i, s:s}", "keep", 2, "dir", job->shared));
    if (job->eval != NULL) {
        json_t *data = json_deep_copy(json_object_get(spec, "data"));
        json_object_set_new(data, "json", json_string(tmpdir_path(job->dir, job->eval)));
        json_object_set_new(spec, "eval", json_pack("{s:o, s:i}", "data", data, "every_steps", 3));
    }
    snprintf(path, sizeof path, "%s", tmpdir_path(job->dir, number));
    assert_true(mkdir(path, 0755) == 0 || errno == EEXIST);
    cs_json_pretty(spec, &text);
    tmpdir_write(tmpdir_path(path, "spec.json"), text.data, text.len);
    cs_buf_free(&text);
    json_decref(spec);
    if (cs_run_job_open(path, &job->run, &job->err) != CS_OK)
        fail_msg("%s", job->err.text);
}

static enum cs_status find(struct job *job, const char *number)
{
    open_job(job, number);
    return cs_run_resume_find(&job->run, &job->err);
}

static void refused(struct job *job, const char *number, const char *const *words)
{
    assert_int_equal(find(job, number), CS_REFUSED);
    for (; *words; words++)
        if (!strstr(job->err.text, *words))
            fail_msg("no '%s' in: %s", *words, job->err.text);
}

#define REFUSED(job, number, ...) refused(job, number, (const char *const[]){__VA_ARGS__, NULL})

static void found(struct job *job, const char *number, int64_t step)
{
    if (find(job, number) != CS_OK)
        fail_msg("%s", job->err.text);
    assert_int_equal(job->run.checkpoint_step, step);
    assert_int_equal(job->run.first_step, step + 1);
}

/* The job saves: what it found before says what the checkpoint is of. */
static void save(struct job *job, const char *number, int64_t step)
{
    static const float values[1 << 16];
    const struct cs_graph *graph = job->run.graph;
    struct cs_ckpt_part *part = calloc((size_t)graph->n_params, sizeof *part);
    struct cs_ckpt_file files[2];
    int n = 0;
    for (int i = 0; i < graph->n_params; i++) {
        assert_true(graph->params[i].count <= (int64_t)CS_ARRAY_LEN(values));
        if (graph->params[i].is_trainable)
            part[n++] = (struct cs_ckpt_part){&graph->params[i], cs_slice_whole(&graph->params[i]),
                                              values, values, values};
    }
    const struct cs_ckpt_origin origin = {
        job->run.spec->hash, job->run.spec->trained_hash, "plan", 0, graph->params,
        graph->n_params};
    json_t *trainer = json_pack("{s:{}}", "cursor");
    cs_run_resume_describe(&job->run, "cpu", strtol(number, NULL, 10), trainer);
    if (cs_ckpt_write_rank(job->run.ckpt_dir, step, 0, part, n, files, &job->err) != CS_OK ||
        cs_ckpt_commit(job->run.ckpt_dir, step, &origin, trainer, files, 2, &job->err) != CS_OK)
        fail_msg("%s", job->err.text);
    json_decref(trainer);
    free(part);
}

static void damage(const struct job *job, int64_t step)
{
    char path[CS_PATH_CAP + 100];
    size_t n;
    snprintf(path, sizeof path, "%s/ckpt-%lld/params/rank-0.safetensors", job->run.ckpt_dir,
             (long long)step);
    char *bytes = tmpdir_read(path, &n);
    bytes[n / 2] ^= 1;
    tmpdir_write(path, bytes, n);
    free(bytes);
}

static void a_damaged_only_checkpoint_is_refused_unless_it_begins_anew(void **state)
{
    struct job *job = *state;
    found(job, "1", -1);
    save(job, "1", 9);
    damage(job, 9);
    REFUSED(job, "1", "ckpt-9", "damaged", "--from-start");
    write_text(job, "1/" CS_RUN_FROM_START, "");
    found(job, "1", -1);
    assert_true(tmpdir_has(job->dir, "1/ckpt/ckpt-9")); /* looking moves nothing */
    assert_int_equal(cs_run_resume_settle(&job->run, &job->err), CS_OK);
    assert_int_equal(job->run.n_before, 1);
    assert_true(tmpdir_has(job->dir, "1/ckpt/before-1/ckpt-9"));
    found(job, "1", -1); /* asked for once */
}

static void a_skipped_checkpoint_is_named_and_put_aside(void **state)
{
    struct job *job = *state;
    found(job, "1", -1);
    save(job, "1", 9);
    save(job, "1", 19);
    damage(job, 19);
    found(job, "1", 9);
    assert_int_equal(job->run.n_skips, 1);
    assert_int_equal(job->run.skips[0].step, 19);
    assert_non_null(strstr(job->run.skips[0].text, "damaged"));
    assert_int_equal(cs_run_resume_settle(&job->run, &job->err), CS_OK);
    assert_true(tmpdir_has(job->dir, "1/ckpt/ckpt-19.bad"));
    found(job, "1", 9);
    assert_int_equal(job->run.n_skips, 0);
}

static void a_checkpoint_that_was_told_of_and_is_gone_is_not_passed_over(void **state)
{
    struct job *job = *state;
    found(job, "1", -1);
    save(job, "1", 9);
    write_text(job, "1/state.json", "{\"checkpoint_step\": 19}");
    found(job, "1", 9);
    assert_int_equal(job->run.n_skips, 1);
    assert_int_equal(job->run.skips[0].step, 19);
    cs_run_job_close(&job->run);
    assert_int_equal(rename(tmpdir_path(job->dir, "1/ckpt"), tmpdir_path(job->dir, "away")), 0);
    REFUSED(job, "1", "step 19", "--from-start");
}

static void a_directory_belongs_to_one_training(void **state)
{
    struct job *job = *state;
    char train[300];
    snprintf(job->shared, sizeof job->shared, "%s", tmpdir_path(job->dir, "shared"));
    found(job, "1", -1);
    save(job, "1", 9);
    found(job, "2", 9); /* the same training goes on, and it is known whose checkpoint it is */
    assert_int_equal(job->run.from_job, 1);
    job->spec.seed = 8;
    REFUSED(job, "3", "seed is 7 there and 8 in this job", "checkpoint.dir of its own",
            "'cornstarch-console resume ID --from-start'");
    job->spec.seed = 7;
    job->spec.steps = 99;
    REFUSED(job, "3", "steps is 10 there and 99");
    job->spec.steps = 0;
    job->spec.llm_pp = 1; /* a layout may change */
    job->spec.slots = 2;
    found(job, "3", 9);
    snprintf(train, sizeof train, "%s", tmpdir_path(job->dir, "train.json"));
    job->spec.seed = 8;
    write_text(job, "3/" CS_RUN_FROM_START, "");
    found(job, "3", -1);
}

static void a_directory_is_locked_through_whatever_path(void **state)
{
    struct job *job = *state;
    struct cs_ckpt_dir other;
    char link[400];
    snprintf(job->shared, sizeof job->shared, "%s", tmpdir_path(job->dir, "shared"));
    found(job, "1", -1);
    cs_run_job_close(&job->run);
    snprintf(link, sizeof link, "%s", tmpdir_path(job->dir, "link"));
    assert_int_equal(symlink(job->shared, link), 0);
    assert_int_equal(cs_ckpt_dir_take(link, &other, &job->err), CS_OK);
    REFUSED(job, "1", "another job writes", job->shared);
    assert_true(cs_ckpt_dir_is_there(&other));
    assert_int_equal(rename(job->shared, tmpdir_path(job->dir, "moved")), 0);
    assert_false(cs_ckpt_dir_is_there(&other));
    cs_ckpt_dir_leave(&other);
    found(job, "1", -1);
}

static void changed_inputs_are_refused_with_both_values(void **state)
{
    struct job *job = *state;
    static const char old[] = "[{\"id\":\"a\"},{\"id\":\"b\"},{\"id\":\"c\"}]";
    write_text(job, "tokenizer.json", "{}");
    write_text(job, "model.safetensors", "weights");
    job->spec.llm_dir = job->dir;
    job->spec.rules = "train:* freeze:llm.layers.0";
    found(job, "1", -1);
    save(job, "1", 9);
    found(job, "1", 9);
    write_text(job, "train.json", "[{\"id\":\"a\"}]");
    REFUSED(job, "1", "train.json", "data.json", "3 samples", "1 sample,",
            "'cornstarch-console resume ID --from-start'");
    write_text(job, "train.json", "[{\"id\":\"a\"},{\"id\":\"B\"},{\"id\":\"c\"}]"); /* as long */
    REFUSED(job, "1", "train.json", "was 3 samples", "is 3 samples", "xxh3");
    write_text(job, "train.json", old);
    write_text(job, "tokenizer.json", "{ }");
    REFUSED(job, "1", "tokenizer.json", "2 bytes", "3 bytes");
    write_text(job, "tokenizer.json", "{}");
    write_text(job, "tokenizer_config.json", "{}");
    REFUSED(job, "1", "tokenizer_config.json", "was not there");
    assert_int_equal(unlink(tmpdir_path(job->dir, "tokenizer_config.json")), 0);
    write_text(job, "model.safetensors", "Weights");
    REFUSED(job, "1", "model.safetensors", "frozen weights of llm");
    write_text(job, "model.safetensors", "weights");
    found(job, "1", 9);
}

/* What the evaluations of a job are of: their curve would go on from other samples. */
static void a_changed_evaluation_is_refused_with_both_values(void **state)
{
    struct job *job = *state;
    static const char old[] = "[{\"id\":\"a\"},{\"id\":\"b\"}]";
    write_text(job, "eval.json", old);
    write_text(job, "other.json", old);
    job->eval = "eval.json";
    found(job, "1", -1);
    save(job, "1", 9);
    found(job, "1", 9);
    write_text(job, "eval.json", "[{\"id\":\"a\"}]");
    REFUSED(job, "1", "eval.json", "eval.data.json", "was 2 samples", "is 1 sample,");
    write_text(job, "eval.json", "[{\"id\":\"a\"},{\"id\":\"B\"}]"); /* as long */
    REFUSED(job, "1", "eval.json", "was 2 samples", "is 2 samples", "xxh3", "--from-start");
    write_text(job, "eval.json", old);
    found(job, "1", 9);
    assert_int_equal(unlink(tmpdir_path(job->dir, "eval.json")), 0);
    assert_int_not_equal(find(job, "1"), CS_OK);
    assert_non_null(strstr(job->err.text, "eval.json"));
    job->eval = "other.json"; /* the same samples elsewhere */
    found(job, "1", 9);
    job->eval = NULL;
    REFUSED(job, "1", "eval.data.json", "is not there");
}

/* Where everything is trained the checkpoint holds it all. */
static void weights_that_are_trained_may_change(void **state)
{
    struct job *job = *state;
    write_text(job, "model.safetensors", "weights");
    job->spec.llm_dir = job->dir;
    found(job, "1", -1);
    save(job, "1", 9);
    write_text(job, "model.safetensors", "others");
    found(job, "1", 9);
}

static void the_precision_of_a_job_is_that_of_its_checkpoint(void **state)
{
    struct job *job = *state;
    found(job, "1", -1);
    assert_string_equal(job->run.spec->precision, "");
    save(job, "1", 9);
    found(job, "1", 9);
    assert_string_equal(job->run.spec->precision, "fp32");
    assert_int_equal(cs_spec_check_precision(job->run.spec, "h100-80g", NULL), CS_OK);
}

static void a_directory_that_cannot_be_written_is_refused_before_anything(void **state)
{
    struct job *job = *state;
    write_text(job, "file", "");
    snprintf(job->shared, sizeof job->shared, "%s", tmpdir_path(job->dir, "file/ckpt"));
    assert_int_not_equal(find(job, "1"), CS_OK);
    assert_non_null(strstr(job->err.text, "file"));
    snprintf(job->shared, sizeof job->shared, "/proc/self/ckpt");
    assert_int_not_equal(find(job, "1"), CS_OK);
    assert_non_null(strstr(job->err.text, "checkpoints cannot be written to /proc/self/ckpt"));
}

static void room_for_one_checkpoint_is_asked_for_and_for_more_is_said(void **state)
{
    struct job *job = *state;
    found(job, "1", -1);
    assert_string_equal(job->run.room_warning, "");
    const uint64_t one = cs_ckpt_bytes(job->run.graph->params, job->run.graph->n_params);
    free_bytes = one - 1;
    assert_int_equal(find(job, "1"), CS_NO_SPACE);
    assert_non_null(strstr(job->err.text, "1/ckpt"));
    free_bytes = 2 * one; /* two are kept, and the third is being written */
    found(job, "1", -1);
    assert_non_null(strstr(job->run.room_warning, "checkpoint.keep"));
    free_bytes = 3 * one;
    found(job, "1", -1);
    assert_string_equal(job->run.room_warning, "");
}

#define JOB(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        JOB(a_damaged_only_checkpoint_is_refused_unless_it_begins_anew),
        JOB(a_skipped_checkpoint_is_named_and_put_aside),
        JOB(a_checkpoint_that_was_told_of_and_is_gone_is_not_passed_over),
        JOB(a_directory_belongs_to_one_training),
        JOB(a_directory_is_locked_through_whatever_path),
        JOB(changed_inputs_are_refused_with_both_values),
        JOB(a_changed_evaluation_is_refused_with_both_values),
        JOB(weights_that_are_trained_may_change),
        JOB(the_precision_of_a_job_is_that_of_its_checkpoint),
        JOB(a_directory_that_cannot_be_written_is_refused_before_anything),
        JOB(room_for_one_checkpoint_is_asked_for_and_for_more_is_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
