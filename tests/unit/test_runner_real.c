/* The runner with the real feeder and workers of this build: equal weights on one and on three
 * ranks, and a run that was killed and resumed ends where an undisturbed one does, to the bit. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <jansson.h>
#include <png.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/hash.h"
#include "core/wire/line.h"
#include "core/wire/wire.h"
#include "runner/job/job.h"
#include "runner/runner.h"
#include "store/ckpt/checkpoint.h"
#include "support/chat.h"
#include "support/spec.h"
#include "support/tmpdir.h"

enum { SAMPLES = 40, STEPS = 12 };

struct job {
    char *dir;
    char path[300];
    bool has_eval; /* after steps 7 and 11 */
    struct cs_runner_options options;
};

static int setup(void **state)
{
    const char *bin = getenv("CORNSTARCH_BIN");
    char worker[400], feeder[400];
    struct job *job = calloc(1, sizeof *job);
    snprintf(worker, sizeof worker, "%s/cornstarch-worker", bin ? bin : "build/bin");
    snprintf(feeder, sizeof feeder, "%s/cornstarch-feeder", bin ? bin : "build/bin");
    setenv("CORNSTARCH_WORKER", worker, 1);
    setenv("CORNSTARCH_FEEDER", feeder, 1);
    job->dir = tmpdir_new();
    setenv("XDG_RUNTIME_DIR", job->dir, 1);
    *state = job;
    return 0;
}

static int teardown(void **state)
{
    struct job *job = *state;
    tmpdir_free(job->dir);
    free(job);
    return 0;
}

/* One picture that every third sample shows. */
static void write_picture(const struct job *job)
{
    const uint8_t pixels[12] = {255, 0, 0, 0, 255, 0, 0, 0, 255, 90, 90, 90};
    png_image image = {
        .version = PNG_IMAGE_VERSION, .width = 2, .height = 2, .format = PNG_FORMAT_RGB};
    assert_true(
        png_image_write_to_file(&image, tmpdir_path(job->dir, "p.png"), 0, pixels, 0, NULL));
}

static void write_data(const struct job *job)
{
    static const char *const channel[] = {"\"channel\":\"pictures\",", "\"channel\":\"words\",",
                                          ""};
    json_t *tokenizer = chat_tokenizer_json();
    char *text = json_dumps(tokenizer, JSON_COMPACT);
    struct cs_buf data = {0};
    tmpdir_write(tmpdir_path(job->dir, "tokenizer.json"), text, strlen(text));
    cs_buf_adds(&data, "[");
    for (int i = 0; i < SAMPLES; i++)
        cs_buf_addf(
            &data,
            "%s{\"id\":\"s%d\",%s%s\"conversations\":[{\"from\":\"human\",\"value\":\"%swhat is %d "
            "and %.*s\"},{\"from\":\"gpt\",\"value\":\"it is %d\"}]}\n",
            i ? "," : "", i, i % 3 ? "" : "\"image\":\"p.png\",", channel[i % 3],
            i % 3 ? "" : "<image>", i, i % 7, "aaaaaaa", i * 3 % 11);
    cs_buf_adds(&data, "]");
    tmpdir_write(tmpdir_path(job->dir, "train.json"), data.data, data.len);
    cs_buf_free(&data);
    free(text);
    json_decref(tokenizer);
}

static void write_job(struct job *job, const char *name, const struct cs_test_spec *options)
{
    json_t *spec = cs_test_spec_json(options), *module;
    json_t *modules = json_object_get(json_object_get(spec, "model"), "modules");
    json_t *data = json_object_get(spec, "data");
    char command[400];
    struct cs_buf text = {0};
    size_t i;
    write_picture(job);
    write_data(job);
    json_array_foreach(modules, i, module)
    {
        if (strcmp(cs_msg_str(module, "kind", ""), "llm") != 0)
            continue;
        json_object_set_new(module, "tokenizer", json_string(job->dir));
        json_object_set_new(json_object_get(module, "config"), "vocab_size", json_integer(300));
    }
    json_object_set_new(data, "json", json_string(tmpdir_path(job->dir, "train.json")));
    json_object_set_new(data, "images", json_string(job->dir));
    json_object_set_new(data, "template", json_pack("{s:s}", "name", "plain"));
    if (job->has_eval) {
        json_t *eval = json_pack("{s:O, s:i, s:s, s:i}", "data", data, "every_steps", 8, "metric",
                                 "exact_match", "max_samples", 20);
        json_object_set_new(spec, "eval", eval);
    }
    json_object_set_new(spec, "checkpoint",
                        json_pack("{s:i,s:i,s:s}", "every_steps", 4, "keep", 2, "dir", ""));
    snprintf(job->path, sizeof job->path, "%s/%s", job->dir, name);
    snprintf(command, sizeof command, "mkdir -p %s", job->path);
    assert_int_equal(system(command), 0);
    cs_json_pretty(spec, &text);
    tmpdir_write(tmpdir_path(job->path, "spec.json"), text.data, text.len);
    cs_buf_free(&text);
    json_decref(spec);
    job->options = (struct cs_runner_options){
        .job_dir = job->path, .hang_ns = 30000000000, .started_fd = -1, .is_foreground = true};
}

static pid_t start(const struct job *job)
{
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        struct cs_err err = {0};
        if (!getenv("TEST_VERBOSE") && !freopen("/dev/null", "w", stderr))
            _exit(99);
        _exit((int)cs_runner_run(&job->options, &err));
    }
    assert_true(pid > 0);
    return pid;
}

static void run_to_the_end(const struct job *job)
{
    int status = -1;
    pid_t pid = start(job);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    json_t *state = json_load_file(tmpdir_path(job->path, "state.json"), 0, NULL);
    if (status != 0)
        fail_msg("%s", cs_msg_str(state, "reason", "no state file"));
    assert_string_equal(cs_msg_str(state, "state", ""), "DONE");
    json_decref(state);
}

/* The losses of the sources of a step are its loss. */
static void check_sources(const json_t *row)
{
    const json_t *sources = json_object_get(row, "sources");
    const char *name = NULL;
    json_t *one = NULL;
    double sum = 0;
    int64_t tokens = 0;
    json_object_foreach((json_t *)(uintptr_t)sources, name, one)
    {
        assert_true(strcmp(name, "pictures") == 0 || strcmp(name, "words") == 0 ||
                    strcmp(name, "other") == 0);
        assert_true(cs_msg_int(one, "tokens", 0) > 0);
        sum += cs_msg_num(one, "loss", (double)NAN) * (double)cs_msg_int(one, "tokens", 0);
        tokens += cs_msg_int(one, "tokens", 0);
    }
    assert_int_equal(tokens, cs_msg_int(row, "trained_tokens", -1));
    assert_true(fabs(sum / (double)tokens - cs_msg_num(row, "loss", (double)NAN)) <= 1e-9);
}

/* losses by step, the last row of a step wins; returns the number of steps seen */
static int losses_of(const struct job *job, double loss[STEPS])
{
    size_t n = 0;
    int seen = 0;
    char *text = tmpdir_read(tmpdir_path(job->path, "journal"), &n);
    for (int i = 0; i < STEPS; i++)
        loss[i] = -1;
    for (char *line = text; line && *line;) {
        char *end = strchr(line, '\n');
        json_t *row = NULL;
        if (!end) /* being written */
            break;
        assert_int_equal(cs_line_parse(line, (size_t)(end - line), &row, NULL), CS_OK);
        int64_t step = cs_msg_int(row, "step", -1);
        if (strcmp(cs_msg_type(row), "runner.step") == 0 && step >= 0 && step < STEPS) {
            seen += loss[step] < 0;
            loss[step] = cs_msg_num(row, "loss", -1);
            check_sources(row);
        }
        json_decref(row);
        line = end + 1;
    }
    free(text);
    return seen;
}

static json_t *weights_of(const struct job *job)
{
    json_t *doc = json_load_file(tmpdir_path(job->path, "weights.json"), 0, NULL);
    assert_non_null(doc);
    assert_true(json_object_size(json_object_get(doc, "xxh3")) > 10);
    return doc;
}

static void assert_same_end(const struct job *a, const struct job *b)
{
    double x[STEPS], y[STEPS];
    assert_int_equal(losses_of(a, x), STEPS);
    assert_int_equal(losses_of(b, y), STEPS);
    for (int i = 0; i < STEPS; i++) {
        assert_true(x[i] > 0);
        assert_memory_equal(&x[i], &y[i], sizeof x[i]);
    }
    assert_true(x[STEPS - 1] < x[0]);
    json_t *wa = weights_of(a), *wb = weights_of(b);
    assert_true(json_equal(json_object_get(wa, "xxh3"), json_object_get(wb, "xxh3")));
    json_decref(wa);
    json_decref(wb);
    json_t *sa = json_load_file(tmpdir_path(a->path, "state.json"), 0, NULL);
    json_t *sb = json_load_file(tmpdir_path(b->path, "state.json"), 0, NULL);
    assert_string_equal(cs_msg_str(sa, "weights_hash", "a"), cs_msg_str(sb, "weights_hash", "b"));
    json_decref(sa);
    json_decref(sb);
}

static int by_name(const void *a, const void *b)
{
    return strcmp((*(const struct cs_param *const *)a)->name,
                  (*(const struct cs_param *const *)b)->name);
}

/* The hash of the weights is SHA-256 over names, with their NUL, and fp32 values of what is trained, by name. */
static void assert_hash_is_of_the_checkpoint(const struct job *made)
{
    struct cs_run_job job;
    struct cs_ckpt *ckpt = NULL;
    struct cs_err err = {0};
    char hash[65];
    assert_int_equal(cs_run_job_open(made->path, &job, &err), CS_OK);
    char at[400];
    snprintf(at, sizeof at, "%s/ckpt/ckpt-%d", made->path, STEPS - 1);
    assert_int_equal(cs_ckpt_open(at, &ckpt, &err), CS_OK);
    const struct cs_param **param = calloc((size_t)job.graph->n_params, sizeof *param);
    for (int i = 0; i < job.graph->n_params; i++)
        param[i] = &job.graph->params[i];
    qsort(param, (size_t)job.graph->n_params, sizeof *param, by_name);
    struct cs_sha256 *sha = cs_sha256_new();
    for (int i = 0; i < job.graph->n_params; i++) {
        float *value = malloc((size_t)param[i]->count * sizeof *value);
        assert_true(param[i]->is_trainable);
        assert_int_equal(cs_ckpt_read(ckpt, param[i], "master", value, &err), CS_OK);
        cs_sha256_add(sha, param[i]->name, strlen(param[i]->name) + 1);
        cs_sha256_add(sha, value, (size_t)param[i]->count * sizeof *value);
        free(value);
    }
    cs_sha256_end(sha, hash);
    cs_sha256_free(sha);
    free(param);
    cs_ckpt_close(ckpt);
    cs_run_job_close(&job);
    json_t *end = json_load_file(tmpdir_path(made->path, "state.json"), 0, NULL);
    assert_string_equal(cs_msg_str(end, "weights_hash", ""), hash);
    json_decref(end);
}

/* every rank says what its start took, part by part */
static void assert_starts_are_told(const struct job *job, int ranks)
{
    size_t bytes = 0;
    char *log = tmpdir_read(tmpdir_path(job->path, "logs/runner.log"), &bytes);
    const char *at = log;
    for (int r = 0; r < ranks; r++) {
        at = strstr(at, " start=\"");
        assert_non_null(at);
        long long ms, plan, device;
        assert_int_equal(
            sscanf(at, " start=\"%lld ms: plan %lld, device %lld,", &ms, &plan, &device), 3);
        assert_true(ms >= plan + device - 1 && plan >= 0 && device >= 0);
        const char *end = strchr(at, '\n'), *last = strstr(at, ", program ");
        assert_true(end != NULL && last != NULL && last < end);
        at = end;
    }
    free(log);
}

static void three_ranks_equal_two_to_the_bit(void **state)
{
    struct job *a = *state, b = *a;
    write_job(a, "11", &(struct cs_test_spec){.llm_pp = 1, .steps = STEPS});
    run_to_the_end(a);
    write_job(&b, "12", &(struct cs_test_spec){.llm_pp = 2, .steps = STEPS});
    run_to_the_end(&b);
    assert_same_end(a, &b);
    assert_starts_are_told(&b, 3);
    assert_hash_is_of_the_checkpoint(&b);
}

static void killed_and_resumed_equals_undisturbed_to_the_bit(void **state)
{
    struct job *a = *state, b = *a;
    double loss[STEPS];
    int status;
    write_job(a, "21", &(struct cs_test_spec){.llm_pp = 2, .steps = STEPS});
    run_to_the_end(a);
    write_job(&b, "22", &(struct cs_test_spec){.llm_pp = 2, .steps = STEPS});
    pid_t pid = start(&b);
    while (waitpid(pid, &status, WNOHANG) == 0 && losses_of(&b, loss) < 6)
        usleep(500);
    kill(pid, SIGKILL); /* nothing to kill when it was faster: then the resume does nothing */
    waitpid(pid, &status, 0);
    run_to_the_end(&b);
    assert_same_end(a, &b);
}

/* Cut the journal before the row of an evaluation, as a kill before its end does. */
static void cut_before_eval(const struct job *job, int step)
{
    size_t n = 0;
    char *text = tmpdir_read(tmpdir_path(job->path, "journal"), &n);
    char *line = text;
    for (; *line; line = strchr(line, '\n') + 1) {
        json_t *row = NULL;
        assert_int_equal(cs_line_parse(line, (size_t)(strchr(line, '\n') - line), &row, NULL),
                         CS_OK);
        const bool is_it =
            strcmp(cs_msg_str(row, "kind", ""), "eval") == 0 && cs_msg_int(row, "step", -1) == step;
        json_decref(row);
        if (is_it)
            break;
    }
    assert_true(*line != '\0');
    tmpdir_write(tmpdir_path(job->path, "journal"), text, (size_t)(line - text));
    free(text);
}

/* [step, samples, correct, tokens, loss] of all evaluations in the journal; *n_trained: rows of
 * training steps */
static json_t *evals_of(const struct job *job, int *n_trained)
{
    json_t *list = json_array();
    size_t n = 0;
    char *text = tmpdir_read(tmpdir_path(job->path, "journal"), &n);
    *n_trained = 0;
    for (char *line = text; *line; line = strchr(line, '\n') + 1) {
        json_t *row = NULL;
        assert_int_equal(cs_line_parse(line, (size_t)(strchr(line, '\n') - line), &row, NULL),
                         CS_OK);
        *n_trained += strcmp(cs_msg_str(row, "kind", ""), "train") == 0;
        if (strcmp(cs_msg_str(row, "kind", ""), "eval") == 0)
            json_array_append_new(
                list,
                json_pack("[O, O, O, O, O, O, O]", json_object_get(row, "step"),
                          json_object_get(row, "samples"), json_object_get(row, "correct"),
                          json_object_get(row, "trained_tokens"), json_object_get(row, "loss"),
                          json_object_get(row, "exact_match"), json_object_get(row, "sources")));
        json_decref(row);
    }
    free(text);
    return list;
}

static void assert_state(const struct job *job, const struct job *whole, const char *reason)
{
    json_t *a = json_load_file(tmpdir_path(job->path, "state.json"), 0, NULL);
    json_t *b = json_load_file(tmpdir_path(whole->path, "state.json"), 0, NULL);
    assert_true(json_is_number(json_object_get(b, "exact_match")));
    assert_true(json_equal(json_object_get(a, "exact_match"), json_object_get(b, "exact_match")));
    assert_string_equal(cs_msg_str(a, "reason", ""), reason);
    json_decref(a);
    json_decref(b);
}

/* Killed when the last checkpoint was there and the rest was not. */
static void what_was_left_after_the_last_checkpoint_is_made_up_for(void **state)
{
    static const struct {
        bool has_eval, has_weights; /* of the last step */
    } rows[] = {
        {false, false},
        {true,  false},
        {false, true },
        {true,  true },
    };
    struct job *a = *state, b = *a;
    int n_trained;
    a->has_eval = b.has_eval = true;
    write_job(a, "31", &(struct cs_test_spec){.llm_pp = 2, .is_tied = true, .steps = STEPS});
    run_to_the_end(a);
    json_t *want = evals_of(a, &n_trained);
    assert_int_equal(json_array_size(want), 2);
    assert_int_equal(n_trained, STEPS);
    json_t *weights = weights_of(a);
    assert_int_equal(json_object_size(json_object_get(weights, "copies")), 1);
    write_job(&b, "32", &(struct cs_test_spec){.llm_pp = 2, .is_tied = true, .steps = STEPS});
    run_to_the_end(&b);
    for (size_t i = 0; i < CS_ARRAY_LEN(rows); i++) {
        if (!rows[i].has_eval)
            cut_before_eval(&b, STEPS - 1);
        if (!rows[i].has_weights)
            assert_int_equal(unlink(tmpdir_path(b.path, "weights.json")), 0);
        run_to_the_end(&b);
        assert_same_end(a, &b);
        json_t *have = evals_of(&b, &n_trained), *again = weights_of(&b);
        assert_true(json_equal(have, want));
        assert_int_equal(n_trained, STEPS); /* nothing was trained again */
        assert_true(json_equal(weights, again));
        const bool has_all = rows[i].has_eval && rows[i].has_weights;
        assert_state(&b, a, has_all ? "all steps were done already" : "");
        json_decref(have);
        json_decref(again);
    }
    json_decref(want);
    json_decref(weights);
}

/* Killed between a checkpoint and the evaluation of its step: it is made before training goes
 * on. */
static void a_checkpoint_that_was_not_evaluated_is(void **state)
{
    struct job *a = *state, b = *a;
    char command[400];
    int n_trained;
    a->has_eval = b.has_eval = true;
    write_job(a, "41", &(struct cs_test_spec){.llm_pp = 1, .steps = STEPS});
    run_to_the_end(a);
    write_job(&b, "42", &(struct cs_test_spec){.llm_pp = 1, .steps = STEPS});
    run_to_the_end(&b);
    cut_before_eval(&b, 7);
    snprintf(command, sizeof command, "rm -r %s/ckpt/ckpt-%d", b.path, STEPS - 1);
    assert_int_equal(system(command), 0);
    assert_true(tmpdir_has(b.path, "ckpt/ckpt-7"));
    run_to_the_end(&b);
    assert_same_end(a, &b);
    json_t *want = evals_of(a, &n_trained), *have = evals_of(&b, &n_trained);
    assert_true(json_equal(have, want));
    assert_int_equal(n_trained, STEPS);
    json_decref(want);
    json_decref(have);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(three_ranks_equal_two_to_the_bit, setup, teardown),
        cmocka_unit_test_setup_teardown(killed_and_resumed_equals_undisturbed_to_the_bit, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(what_was_left_after_the_last_checkpoint_is_made_up_for,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(a_checkpoint_that_was_not_evaluated_is, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
