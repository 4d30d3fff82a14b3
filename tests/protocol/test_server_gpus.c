/* GPUs of the daemon over its socket, against the stand-in library of tests/support/lib: inventory,
 * readings while somebody watches, leases, what runners get to see. */
#include <dirent.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

#include "core/base/system/io.h"
#include "core/wire/wire.h"
#include "tests/support/daemon.h"
#include "tests/support/spec.h"
#include "tests/support/tmpdir.h"

static struct test_daemon d;
static struct test_client *c;

static void cards(const char *text)
{
    tmpdir_write(tmpdir_path(d.dir, "cards"), text, strlen(text));
}

static int start_with(const char *text, const char *option, const char *value)
{
    char library[512];
    const char *bin = getenv("CORNSTARCH_BIN");
    memset(&d, 0, sizeof d);
    d.dir = tmpdir_new();
    d.options[0] = option;
    d.options[1] = value;
    snprintf(library, sizeof library, "%s/../lib/libfake-nvml.so", bin ? bin : ".");
    setenv("CORNSTARCH_NVML", library, 1);
    setenv("CORNSTARCH_FAKE_NVML", tmpdir_path(d.dir, "cards"), 1);
    unsetenv("CUDA_VISIBLE_DEVICES");
    cards(text);
    test_daemon_start(&d);
    c = test_client_open(&d);
    return 0;
}

static int start(void **state)
{
    (void)state;
    return start_with("count 3\n0 energy error 3\n1 process 1 1048576\n", NULL, NULL);
}

static int end(void **state)
{
    (void)state;
    if (c)
        test_client_close(c);
    c = NULL;
    test_daemon_end(&d);
    return 0;
}

static json_t *gpus(void)
{
    json_t *reply = test_client_call(c, "node.show", json_pack("{s:b}", "gpus", 1));
    json_t *devices = json_incref(cs_msg_arr(reply, "devices"));
    struct cs_err err = {.text = ""};
    if (cs_msg_check(reply, &err) != CS_OK)
        fail_msg("%s", err.text);
    json_decref(reply);
    return devices;
}

static int64_t holder(int gpu)
{
    json_t *devices = gpus();
    int64_t job = cs_msg_int(json_array_get(devices, (size_t)gpu), "job", -1);
    json_decref(devices);
    return job;
}

static int64_t submit_spec(const char *name, const struct cs_test_spec *spec, json_t *cluster)
{
    json_t *doc = cs_test_spec_json(spec);
    json_object_set_new(doc, "name", json_string(name));
    if (cluster)
        json_object_set_new(json_object_get(doc, "plan"), "cluster", cluster);
    json_t *reply = test_client_call(c, "job.submit", json_pack("{s:o}", "spec", doc));
    int64_t job = cs_msg_int(reply, "job", -1);
    if (job < 0) {
        char *text = json_dumps(reply, 0);
        fail_msg("%s", text);
    }
    json_decref(reply);
    return job;
}

static int64_t submit(const char *name, int steps, int ranks, json_t *cluster)
{
    const struct cs_test_spec two = {
        .steps = steps, .vision_pp = 1, .llm_pp = ranks - 1, .llm_layers = 8};
    const struct cs_test_spec one = {.steps = steps, .n_encoders = -1, .llm_pp = 1};
    return submit_spec(name, ranks < 2 ? &one : &two, cluster);
}

static void wait_state(int64_t job, const char *words)
{
    json_decref(test_wait_state(c, job, words));
}

static void unknown_values_are_null_and_known_ones_are_there(void **state)
{
    (void)state;
    json_t *devices = gpus();
    assert_int_equal(json_array_size(devices), 3);
    const json_t *first = json_array_get(devices, 0), *second = json_array_get(devices, 1);
    assert_true(json_is_null(json_object_get(first, "energy_mj")));
    assert_int_equal(cs_msg_int(first, "power_mw", 0), 262000);
    assert_true(cs_msg_int(second, "energy_mj", 0) > 0);
    const json_t *processes = cs_msg_arr(second, "processes");
    assert_int_equal(json_array_size(processes), 1);
    assert_int_equal(cs_msg_int(json_array_get(processes, 0), "mem_bytes", 0), 1048576);
    json_decref(devices);
    json_t *node = test_client_call(c, "node.show", NULL);
    assert_string_equal(cs_msg_str(node, "here", ""), "h100-80g:3");
    assert_string_equal(cs_msg_str(node, "driver", ""), "580.95.05");
    assert_int_equal(json_array_size(cs_msg_arr(node, "devices")), 3);
    json_decref(node);
}

static void readings_come_every_second_to_those_who_ask(void **state)
{
    (void)state;
    int64_t last = 0;
    json_decref(test_client_call(c, "sub.open",
                                 json_pack("{s:b,s:b,s:b}", "gpus", 1, "gauges", 0, "events", 0)));
    for (int i = 0; i < 3; i++) {
        json_t *m = test_client_next(c);
        assert_string_equal(cs_msg_type(m), "event.gpus");
        const json_t *gpu = json_array_get(cs_msg_arr(m, "devices"), 1);
        assert_true(cs_msg_int(gpu, "energy_mj", 0) > last); /* the counter goes up */
        last = cs_msg_int(gpu, "energy_mj", 0);
        assert_int_equal(json_array_size(cs_msg_arr(gpu, "history")), i + 1);
        if (i == 1)
            cards("count 3\n1 temp 81\n1 throttle 32\n");
        json_decref(m);
    }
    json_t *m = test_client_next(c);
    const json_t *gpu = json_array_get(cs_msg_arr(m, "devices"), 1);
    assert_int_equal(cs_msg_int(gpu, "temp_c", 0), 81);
    assert_string_equal(cs_msg_str(gpu, "throttle", ""), "thermal");
    json_decref(m);
}

/* a word of the environment of the job's runner */
static void runner_env(int64_t job, const char *name, char *out, size_t cap)
{
    char number[32], path[300];
    DIR *proc = opendir("/proc");
    snprintf(number, sizeof number, "--job%c%lld%c", 0, (long long)job, 0);
    snprintf(out, cap, "(no runner)");
    for (const struct dirent *e; (e = readdir(proc));) {
        struct cs_buf line = {0}, env = {0};
        snprintf(path, sizeof path, "/proc/%.20s/cmdline", e->d_name);
        if (cs_read_file(path, 65536, &line, NULL) == CS_OK &&
            memmem(line.data, line.len, d.dir, strlen(d.dir)) &&
            memmem(line.data, line.len, number, strlen("--job") + 2 + strlen(number + 6))) {
            snprintf(path, sizeof path, "/proc/%.20s/environ", e->d_name);
            snprintf(out, cap, "(not set)");
            size_t at = 0, n = strlen(name);
            if (cs_read_file(path, 1 << 20, &env, NULL) == CS_OK)
                for (; at < env.len; at += strlen(env.data + at) + 1)
                    if (strncmp(env.data + at, name, n) == 0 && env.data[at + n] == '=')
                        snprintf(out, cap, "%s", env.data + at + n + 1);
        }
        cs_buf_free(&line);
        cs_buf_free(&env);
    }
    closedir(proc);
}

/* The driver hangs: who does not ask for its figures notices nothing, who does gets the last
 * ones. */
static void a_driver_that_hangs_holds_up_nobody(void **state)
{
    (void)state;
    struct test_client *asker = test_client_open(&d);
    json_t *m;
    test_client_text(asker, "{\"type\":\"sub.open\",\"id\":1,\"gpus\":true}");
    json_decref(test_client_next(asker));
    cards("count 3\nhold 1\n");
    for (int i = 0; i < 10; i++) { /* for longer than a reading stays fresh */
        json_decref(test_client_call(c, "ping", NULL));
        usleep(100000);
    }
    test_client_text(asker, "{\"type\":\"node.show\",\"id\":2,\"gpus\":true}");
    int64_t job = submit("ms=1", 3, 1, NULL); /* all of a job's life meanwhile */
    json_decref(test_wait_state(c, job, "DONE"));
    while (m = test_client_next(asker), cs_msg_id(m) != 2) /* readings from before */
        json_decref(m);
    assert_string_equal(cs_msg_type(m), "node.show");
    assert_int_equal(cs_msg_int(json_array_get(cs_msg_arr(m, "devices"), 1), "temp_c", 0), 58);
    json_decref(m);
    cards("count 3\n1 temp 82\n");
    do { /* it goes on by itself */
        m = test_client_next(asker);
        int64_t temp_c = cs_msg_int(json_array_get(cs_msg_arr(m, "devices"), 1), "temp_c", 0);
        json_decref(m);
        if (temp_c == 82)
            break;
    } while (true);
    cards("count 3\nhold 1\n");
    test_client_close(asker);
    json_t *devices = gpus(); /* the driver is asked */
    json_decref(devices);
    kill(d.pid, SIGTERM);
    assert_int_equal(test_daemon_wait(&d), 0); /* the end of the daemon does not wait for it */
}

static void jobs_get_gpus_of_their_own(void **state)
{
    (void)state;
    char seen[300];
    int64_t a = submit("ms=10", 2000, 2, NULL), b = submit("ms=10", 2000, 1, NULL),
            e = submit("ms=1", 3, 1, NULL);
    wait_state(a, "RUN");
    wait_state(b, "RUN");
    assert_int_equal(holder(0), a);
    assert_int_equal(holder(1), a);
    assert_int_equal(holder(2), b);
    runner_env(a, "CUDA_VISIBLE_DEVICES", seen, sizeof seen);
    assert_string_equal(seen, "GPU-a1111111-2222-3333-4444-555555555555,"
                              "GPU-b1111111-2222-3333-4444-555555555555");
    runner_env(b, "CUDA_VISIBLE_DEVICES", seen, sizeof seen);
    assert_string_equal(seen, "GPU-c1111111-2222-3333-4444-555555555555");
    runner_env(b, "CUDA_DEVICE_ORDER", seen, sizeof seen);
    assert_string_equal(seen, "PCI_BUS_ID");
    wait_state(e, "QUEUED");
    /* a CPU job needs none of them and does not wait behind e's GPUs for ever */
    json_decref(test_client_call(c, "job.stop", json_pack("{s:I}", "job", (json_int_t)e)));
    int64_t cpu =
        submit("ms=1", 3, 2,
               json_pack("{s:i,s:i,s:s}", "nodes", 1, "devices_per_node", 8, "device", "cpu"));
    wait_state(cpu, "DONE");
    json_decref(test_client_call(c, "job.stop", json_pack("{s:I}", "job", (json_int_t)a)));
    wait_state(a, "CANCELLED");
    int64_t f = submit("ms=10", 2000, 1, NULL);
    wait_state(f, "RUN");
    assert_int_equal(holder(0), f); /* the lowest that is free */
}

static void every_replica_gets_gpus_of_its_own(void **state)
{
    (void)state;
    const struct cs_test_spec spec = {
        .steps = 2000, .n_encoders = -1, .llm_pp = 1, .dp = 2, .slots = 2};
    const struct cs_test_spec more = {
        .vision_pp = 1, .llm_pp = 1, .llm_layers = 8, .dp = 2, .slots = 2};
    const int64_t a = submit_spec("ms=10", &spec, NULL), b = submit("ms=10", 2000, 1, NULL);
    wait_state(a, "RUN");
    wait_state(b, "RUN");
    assert_int_equal(holder(0), a);
    assert_int_equal(holder(1), a);
    assert_int_equal(holder(2), b);
    test_expect_error(/* two by two ranks, three GPUs */
                      test_client_call(c, "job.submit",
                                       json_pack("{s:o}", "spec", cs_test_spec_json(&more))),
                      "plan_invalid");
}

/* A console says how many ranks it planned; a client that does not is counted for. */
static void the_planned_number_of_ranks_is_leased(void **state)
{
    (void)state;
    const struct cs_test_spec spec = {.steps = 2000, .n_encoders = -1, .llm_pp = 1};
    json_t *doc = cs_test_spec_json(&spec);
    json_object_set_new(doc, "name", json_string("ms=10"));
    json_t *reply =
        test_client_call(c, "job.submit", json_pack("{s:O, s:i}", "spec", doc, "ranks", 2));
    const int64_t job = cs_msg_int(reply, "job", -1);
    json_decref(reply);
    wait_state(job, "RUN");
    assert_int_equal(holder(0), job);
    assert_int_equal(holder(1), job);
    assert_int_equal(holder(2), 0);
    test_expect_error(
        test_client_call(c, "job.submit", json_pack("{s:o, s:i}", "spec", doc, "ranks", 4)),
        "plan_invalid"); /* there are three GPUs */
}

static void leases_outlive_the_daemon(void **state)
{
    (void)state;
    int64_t a = submit("ms=10", 2000, 1, NULL), b = submit("ms=10", 2000, 1, NULL);
    wait_state(b, "RUN");
    json_decref(test_client_call(c, "job.stop", json_pack("{s:I}", "job", (json_int_t)a)));
    wait_state(a, "CANCELLED");
    test_client_close(c);
    test_daemon_kill(&d, SIGKILL);
    test_daemon_start(&d);
    c = test_client_open(&d);
    wait_state(b, "RUN");
    assert_int_equal(holder(1), b);
    assert_int_equal(holder(0), 0);
}

static void more_than_there_is_is_refused(void **state)
{
    (void)state;
    struct cs_test_spec large = {.vision_pp = 1, .llm_pp = 3, .llm_layers = 8};
    test_expect_error(
        test_client_call(c, "job.submit", json_pack("{s:o}", "spec", cs_test_spec_json(&large))),
        "plan_invalid");
}

static int start_cpu(void **state)
{
    (void)state;
    return start_with("count 2\n", "--devices", "cpu:4");
}

static void cpu_devices_leave_the_gpus_alone(void **state)
{
    (void)state;
    json_t *node = test_client_call(c, "node.show", NULL), *devices = gpus();
    assert_int_equal(json_array_size(cs_msg_arr(node, "devices")), 4);
    assert_string_equal(cs_msg_str(node, "here", "-"), "cpu:4");
    assert_non_null(strstr(cs_msg_str(node, "gpus_note", ""), "--devices cpu:4"));
    assert_int_equal(json_array_size(devices), 2); /* shown all the same */
    json_decref(devices);
    json_decref(node);
    int64_t job = submit("ms=1", 3, 2, NULL);
    wait_state(job, "DONE");
    struct cs_test_spec spec = {.vision_pp = 1, .llm_pp = 1};
    json_t *doc = cs_test_spec_json(&spec);
    json_object_set_new(
        json_object_get(doc, "plan"), "cluster",
        json_pack("{s:i,s:i,s:s}", "nodes", 1, "devices_per_node", 2, "device", "h100-80g"));
    test_expect_error(test_client_call(c, "job.submit", json_pack("{s:o}", "spec", doc)),
                      "plan_invalid");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(unknown_values_are_null_and_known_ones_are_there, start,
                                        end),
        cmocka_unit_test_setup_teardown(readings_come_every_second_to_those_who_ask, start, end),
        cmocka_unit_test_setup_teardown(a_driver_that_hangs_holds_up_nobody, start, end),
        cmocka_unit_test_setup_teardown(jobs_get_gpus_of_their_own, start, end),
        cmocka_unit_test_setup_teardown(every_replica_gets_gpus_of_its_own, start, end),
        cmocka_unit_test_setup_teardown(the_planned_number_of_ranks_is_leased, start, end),
        cmocka_unit_test_setup_teardown(leases_outlive_the_daemon, start, end),
        cmocka_unit_test_setup_teardown(more_than_there_is_is_refused, start, end),
        cmocka_unit_test_setup_teardown(cpu_devices_leave_the_gpus_alone, start_cpu, end),
    };
    return cmocka_run_group_tests_name("server/gpus", tests, NULL, NULL);
}
