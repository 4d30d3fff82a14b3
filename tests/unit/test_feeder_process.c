/* cornstarch-feeder as a process: boot over descriptor 3, steps through a memfd, stop, death of the
 * runner. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <png.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/system/io.h"
#include "core/data/pool.h"
#include "core/plan/json/plan_json.h"
#include "core/wire/line.h"
#include "core/wire/wire.h"
#include "support/chat.h"
#include "support/planned.h"
#include "support/tmpdir.h"

struct world {
    char *dir;
    struct cs_test_planned job;
    void *memory;
    size_t bytes;
    int pool_fd, socket;
    pid_t pid;
    struct cs_pool *pool;
    struct cs_line_reader *reader;
    struct cs_err err;
};

static void write_files(struct world *w)
{
    static const char samples[] = "[{\"id\":\"a\",\"image\":\"a.png\",\"conversations\":[{\"from\":"
                                  "\"human\",\"value\":\"<image>q\"},"
                                  "{\"from\":\"gpt\",\"value\":\"red\"}]},{\"id\":\"b\","
                                  "\"conversations\":[{\"from\":\"human\","
                                  "\"value\":\"hello\"},{\"from\":\"gpt\",\"value\":\"hello\"}]}]";
    unsigned char pixels[9 * 9 * 3] = {1, 2, 3};
    png_image image = {
        .version = PNG_IMAGE_VERSION, .width = 9, .height = 9, .format = PNG_FORMAT_RGB};
    json_t *tok = chat_tokenizer_json();
    char *text = json_dumps(tok, JSON_COMPACT);

    w->dir = tmpdir_new();
    tmpdir_write(tmpdir_path(w->dir, "tokenizer.json"), text, strlen(text));
    tmpdir_write(tmpdir_path(w->dir, "train.json"), samples, sizeof(samples) - 1);
    assert_true(png_image_write_to_file(&image, tmpdir_path(w->dir, "a.png"), 0, pixels, 0, NULL));
    free(text);
    json_decref(tok);
}

static void make_plan(struct world *w, int steps)
{
    const struct cs_cluster cluster = {cs_device_class_find("cpu"), 1, 8};
    json_t *module = NULL, *data = NULL;
    size_t i = 0;
    json_t *root = cs_test_spec_json(&(struct cs_test_spec){.batch_samples = 3, .steps = steps});
    json_array_foreach(json_object_get(json_object_get(root, "model"), "modules"), i, module)
    {
        if (strcmp(json_string_value(json_object_get(module, "kind")), "llm") != 0)
            continue;
        json_object_set_new(module, "tokenizer", json_string(w->dir));
        json_object_set_new(json_object_get(module, "config"), "vocab_size", json_integer(300));
    }
    data = json_object_get(root, "data");
    json_object_set_new(data, "json", json_string(tmpdir_path(w->dir, "train.json")));
    json_object_set_new(data, "images", json_string(w->dir));
    w->job = cs_test_plan_json(root, &cluster);
}

static void send_json(struct world *w, json_t *msg)
{
    struct cs_buf line = {0};

    assert_int_equal(cs_msg_encode(msg, &line, &w->err), CS_OK);
    assert_int_equal(cs_write_all(w->socket, line.data, line.len, &w->err), CS_OK);
    cs_buf_free(&line);
    json_decref(msg);
}

static void start(struct world *w, int steps, const char *broken)
{
    struct cs_pool_shape shape = {.n_slots = 16, .n_manifests = 4, .n_readers = 1};
    const char *bin = getenv("CORNSTARCH_BIN");
    char path[CS_PATH_CAP];
    int pair[2];

    memset(w, 0, sizeof(*w));
    if (bin == NULL)
        skip();
    write_files(w);
    if (broken != NULL)
        tmpdir_write(tmpdir_path(w->dir, "train.json"), broken, strlen(broken));
    make_plan(w, steps);
    snprintf(path, sizeof(path), "%s/cornstarch-feeder", bin);
    w->bytes = cs_pool_bytes(&shape, &w->job.plan->budget);
    w->pool_fd = memfd_create("pool", 0);
    assert_int_equal(ftruncate(w->pool_fd, (off_t)w->bytes), 0);
    w->memory = mmap(NULL, w->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, w->pool_fd, 0);
    assert_true(w->memory != MAP_FAILED);
    cs_pool_init(w->memory, &shape, &w->job.plan->budget);
    assert_int_equal(
        cs_pool_attach(w->memory, w->bytes, &w->job.plan->budget, 0, &w->pool, &w->err), CS_OK);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    w->socket = pair[0];
    w->pid = fork();
    if (w->pid == 0) {
        int a = fcntl(pair[1], F_DUPFD, 20), b = fcntl(w->pool_fd, F_DUPFD, 20);
        if (dup2(a, 3) == 3 && dup2(b, 4) == 4) {
            close(a);
            close(b);
            execl(path, path, (char *)NULL);
        }
        _exit(99);
    }
    close(pair[1]);
    w->reader = cs_line_reader_new();
    cs_line_reader_limit(w->reader, 0);
    json_t *boot = cs_msg_new("feeder.boot");
    cs_msg_set(boot, "spec", json_incref(w->job.root));
    cs_msg_set(boot, "plan", cs_plan_json(w->job.plan, w->job.graph));
    cs_msg_set_str(boot, "job_dir", w->dir);
    cs_msg_set_int(boot, "pool_fd", 4);
    cs_msg_set_int(boot, "first_step", 0);
    send_json(w, boot);
}

static json_t *receive(struct world *w)
{
    char bytes[4096];
    json_t *msg = NULL;

    for (;;) {
        assert_int_equal(cs_line_next(w->reader, &msg, &w->err), CS_OK);
        if (msg != NULL)
            return msg;
        ssize_t n = read(w->socket, bytes, sizeof(bytes));
        if (n <= 0)
            return NULL;
        assert_int_equal(cs_line_feed(w->reader, bytes, (size_t)n, &w->err), CS_OK);
    }
}

static void expect(struct world *w, const char *type)
{
    json_t *msg = receive(w);

    assert_non_null(msg);
    if (strcmp(cs_msg_type(msg), type) != 0)
        fail_msg("%s instead of %s: %s", cs_msg_type(msg), type, cs_msg_str(msg, "text", ""));
    json_decref(msg);
}

static uint32_t consume(struct world *w, int64_t *step)
{
    struct cs_manifest m;

    assert_int_equal(cs_pool_next(w->pool, &m, NULL, &w->err), CS_OK);
    for (int k = 0; k < m.n_slots; k++)
        cs_pool_release(w->pool, &m, k);
    assert_int_equal(m.n_samples, 3);
    *step = m.step;
    return m.flags;
}

static void finish(struct world *w, int want)
{
    int status = 0;

    alarm(60); /* against a hang */
    assert_int_equal(waitpid(w->pid, &status, 0), w->pid);
    alarm(0);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), want);
    cs_pool_detach(w->pool);
    munmap(w->memory, w->bytes);
    close(w->pool_fd);
    if (w->socket != -1)
        close(w->socket);
    cs_line_reader_free(w->reader);
    cs_test_planned_free(&w->job);
    tmpdir_free(w->dir);
}

static void feeds_to_the_last_step_and_ends(void **state)
{
    struct world w;
    int64_t step = -1;

    (void)state;
    start(&w, 3, NULL);
    expect(&w, "feeder.ready");
    for (int s = 0; s < 3; s++)
        expect(&w, "feeder.step");
    expect(&w, "feeder.done");
    assert_null(receive(&w)); /* it has ended; what it published can still be read */
    for (int s = 0; s < 3; s++) {
        assert_int_equal(consume(&w, &step), s == 2 ? CS_STEP_LAST | CS_STEP_CHECKPOINT : 0);
        assert_int_equal(step, s);
    }
    finish(&w, 0);
}

static void requests_are_taken_at_the_next_manifest(void **state)
{
    struct world w;
    int64_t step = -1;
    uint32_t flags = 0;
    int n_saves = 0;

    (void)state;
    start(&w, 100000, NULL);
    expect(&w, "feeder.ready");
    json_t *msg = cs_msg_new("feeder.request");
    cs_msg_set_bool(msg, "checkpoint", true);
    send_json(&w, msg);
    for (int s = 0; s < 5000 && n_saves == 0; s++) /* the feeder is ahead, how far nobody knows */
        n_saves += consume(&w, &step) == CS_STEP_CHECKPOINT;
    assert_int_equal(n_saves, 1);
    msg = cs_msg_new("feeder.request");
    cs_msg_set_bool(msg, "stop", true);
    send_json(&w, msg);
    for (int s = 0; s < 5000 && (flags & CS_STEP_LAST) == 0; s++)
        flags = consume(&w, &step);
    assert_int_equal(flags, CS_STEP_LAST | CS_STEP_CHECKPOINT);
    finish(&w, 0);
}

static void ends_when_the_runner_is_gone(void **state)
{
    struct world w;

    (void)state;
    start(&w, 100000, NULL);
    expect(&w, "feeder.ready");
    close(w.socket); /* it waits for room in the pool by now or soon */
    w.socket = -1;
    finish(&w, 0);
}

static void broken_data_is_told_and_the_exit_code_is_not_0(void **state)
{
    struct world w;
    json_t *msg = NULL;

    (void)state;
    start(&w, 3, "[");
    msg = receive(&w);
    assert_non_null(msg);
    assert_string_equal(cs_msg_type(msg), "feeder.error");
    assert_string_equal(cs_msg_str(msg, "status", ""), "corrupt");
    assert_non_null(strstr(cs_msg_str(msg, "text", ""), "train.json"));
    json_decref(msg);
    finish(&w, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(feeds_to_the_last_step_and_ends),
        cmocka_unit_test(requests_are_taken_at_the_next_manifest),
        cmocka_unit_test(ends_when_the_runner_is_gone),
        cmocka_unit_test(broken_data_is_told_and_the_exit_code_is_not_0),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
