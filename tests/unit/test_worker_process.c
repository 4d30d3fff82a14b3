/* cornstarch-worker as processes: two ranks, slots through shared memory, messages on the control
 * line; against one rank in this process. */
#include <cblas.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

#include "core/base/hash.h"
#include "core/plan/json/plan_json.h"
#include "core/sched/lower/lower.h"
#include "core/wire/wire.h"
#include "support/device.h"
#include "support/need.h"
#include "support/planned.h"
#include "support/step.h"
#include "support/tmpdir.h"
#include "worker/session.h"

enum { RANKS = 2, N_STEPS = 5, RING_EVENTS = 4096, N_SLOTS = 2 };

struct cluster {
    struct cs_test_planned made;
    char *dir;
    pid_t pid[RANKS];
    struct cs_control *control[RANKS];
    struct cs_ring ring[RANKS];
    void *ring_memory[RANKS], *pool_memory;
    size_t pool_bytes;
    struct cs_pool *pool;
};

static int shared(size_t bytes, void **memory)
{
    const int fd = memfd_create("test", 0);
    assert_true(fd >= 0 && ftruncate(fd, (off_t)bytes) == 0);
    *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    assert_true(*memory != MAP_FAILED);
    return fd;
}

static void make_plan(struct cluster *c, const char *rules)
{
    const struct cs_test_spec options = {
        .is_tied = true, .vision_layers = 1, .llm_layers = 1, .rules = rules};
    c->made = cs_test_plan(&options);
    assert_int_equal(c->made.plan->n_ranks, RANKS);
}

static const char *worker_path(void)
{
    static char path[4096];
    const char *bin = getenv("CORNSTARCH_BIN");
    snprintf(path, sizeof path, "%s/cornstarch-worker", bin != NULL ? bin : "build/bin");
    return path;
}

/* Child: control on 3, ring on 4, pool on 5, peer on 6. */
static void start(struct cluster *c, int rank, int control, int ring, int pool, int peer)
{
    c->pid[rank] = fork();
    assert_true(c->pid[rank] >= 0);
    if (c->pid[rank] != 0)
        return;
    const int fds[] = {control, ring, pool, peer};
    int high[4];
    for (int i = 0; i < 4; i++)
        high[i] = fcntl(fds[i], F_DUPFD, 100);
    for (int i = 0; i < 4; i++)
        if (dup2(high[i], 3 + i) == -1)
            _exit(126);
    for (int fd = 7; fd < 256; fd++)
        close(fd);
    execl(worker_path(), "cornstarch-worker", (char *)NULL);
    _exit(127);
}

static json_t *read_message(struct cluster *c, int rank, const char *type)
{
    json_t *msg = NULL;
    struct cs_err err = {0};
    need(cs_control_read(c->control[rank], &msg, &err), &err);
    if (strcmp(cs_msg_type(msg), type) != 0)
        fail_msg("rank %d sent %s, wanted %s: %s", rank, cs_msg_type(msg), type,
                 cs_msg_str(msg, "text", ""));
    return msg;
}

static void send_boot(struct cluster *c, int rank, const char *resume)
{
    json_t *boot = cs_msg_new("worker.boot");
    cs_msg_set_int(boot, "rank", rank);
    cs_msg_set_int(boot, "ranks", RANKS);
    cs_msg_set(boot, "spec", json_incref(c->made.root));
    cs_msg_set(boot, "plan", cs_plan_json(c->made.plan, c->made.graph));
    cs_msg_set_str(boot, "job_dir", c->dir);
    cs_msg_set_int(boot, "generation", 0);
    cs_msg_set_str(boot, "resume", resume);
    cs_msg_set_int(boot, "ring_fd", 4);
    cs_msg_set_int(boot, "pool_fd", 5);
    cs_msg_set(boot, "peers", json_pack("[[i, i]]", 1 - rank, 6));
    cs_control_send(c->control[rank], boot);
}

/* [part, microseconds] of all that a rank does before it is ready, each once */
static void check_start(const json_t *start)
{
    static const char *const parts[] = {"plan",    "device",     "communicators",
                                        "tables",  "parameters", "interpreter",
                                        "buffers", "weights",    "program"};
    assert_int_equal(json_array_size(start), CS_ARRAY_LEN(parts));
    for (size_t i = 0; i < CS_ARRAY_LEN(parts); i++) {
        const json_t *part = json_array_get(start, i);
        assert_string_equal(json_string_value(json_array_get(part, 0)), parts[i]);
        assert_true(json_integer_value(json_array_get(part, 1)) >= 0);
    }
}

static void start_workers(struct cluster *c, const char *resume)
{
    struct cs_err err = {0};
    const struct cs_pool_shape shape = {.n_slots = 8, .n_manifests = 8, .n_readers = RANKS};
    int peer[2], ring_fd[RANKS], control[RANKS][2];
    c->pool_bytes = cs_pool_bytes(&shape, &c->made.plan->budget);
    const int pool_fd = shared(c->pool_bytes, &c->pool_memory);
    cs_pool_init(c->pool_memory, &shape, &c->made.plan->budget);
    need(cs_pool_attach(c->pool_memory, c->pool_bytes, &c->made.plan->budget, -1, &c->pool, &err),
         &err);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, peer), 0);
    for (int r = 0; r < RANKS; r++) {
        ring_fd[r] = shared(cs_ring_bytes(RING_EVENTS), &c->ring_memory[r]);
        cs_ring_init(c->ring_memory[r], RING_EVENTS, r);
        need(cs_ring_attach(c->ring_memory[r], cs_ring_bytes(RING_EVENTS), &c->ring[r], &err),
             &err);
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, control[r]), 0);
    }
    for (int r = 0; r < RANKS; r++)
        start(c, r, control[r][1], ring_fd[r], pool_fd, peer[r]);
    for (int r = 0; r < RANKS; r++) {
        close(control[r][1]);
        close(peer[r]);
        close(ring_fd[r]);
        need(cs_control_new(control[r][0], &c->control[r], &err), &err);
        send_boot(c, r, resume);
    }
    close(pool_fd);
    char hash[RANKS][65];
    for (int r = 0; r < RANKS; r++) {
        json_t *ready = read_message(c, r, "worker.ready");
        check_start(cs_msg_arr(ready, "start"));
        snprintf(hash[r], sizeof hash[r], "%s", cs_msg_str(ready, "program_hash", ""));
        json_decref(ready);
    }
    assert_int_equal(strlen(hash[0]), 64);
    assert_string_equal(hash[0], hash[1]);
    for (int r = 0; r < RANKS; r++)
        cs_control_send(c->control[r], cs_msg_new("worker.go"));
}

static void stop_workers(struct cluster *c)
{
    for (int r = 0; r < RANKS; r++) {
        cs_control_free(c->control[r]);
        munmap(c->ring_memory[r], cs_ring_bytes(RING_EVENTS));
    }
    cs_pool_detach(c->pool);
    munmap(c->pool_memory, c->pool_bytes);
}

static int exit_code(struct cluster *c, int rank)
{
    int state;
    assert_int_equal(waitpid(c->pid[rank], &state, 0), c->pid[rank]);
    return WIFEXITED(state) ? WEXITSTATUS(state) : 128 + WTERMSIG(state);
}

static void fill(struct cs_test_step *step, const struct cluster *c, int64_t number)
{
    cs_test_step_new(step, &c->made.plan->budget, N_SLOTS, number);
    cs_test_step_random(step, (uint64_t)number + 11, 199, 60);
}

/* copy a step into the pool and publish it */
static void feed(struct cluster *c, int64_t number, int32_t kind, uint32_t flags)
{
    struct cs_test_step step;
    struct cs_err err = {0};
    fill(&step, c, number);
    step.manifest.kind = kind;
    step.manifest.flags = flags;
    for (int s = 0; s < N_SLOTS; s++) {
        struct cs_slot slot;
        uint64_t seq;
        need(cs_pool_take(c->pool, &slot, &seq, &err), &err);
        if (s == 0)
            step.manifest.first_slot = seq;
        memcpy(slot.head, (char *)step.memory + step.layout.bytes * (size_t)s, step.layout.bytes);
    }
    need(cs_pool_publish(c->pool, &step.manifest, &err), &err);
    cs_test_step_free(&step);
}

struct run {
    double loss[N_STEPS], norm[N_STEPS], eval_loss;
    int64_t correct;
    char weights[512][33];
};

/* the same steps on one rank in this process */
static void run_here(struct cluster *c, struct run *out)
{
    struct cs_err err = {0};
    struct cs_trainer *t;
    struct cs_plan plan = *c->made.plan;
    plan.n_ranks = 1;
    plan.n_groups = 0; /* they were of other ranks */
    plan.stages = cs_arena_alloc(c->made.arena, sizeof *plan.stages * (size_t)plan.n_stages);
    memcpy(plan.stages, c->made.plan->stages, sizeof *plan.stages * (size_t)plan.n_stages);
    for (int s = 0; s < plan.n_stages; s++)
        plan.stages[s].rank = 0;
    const struct cs_trainer_config config = {
        .spec = c->made.spec, .graph = c->made.graph, .plan = &plan, .device = cs_test_device()};
    need(cs_trainer_new(&config, &t, &err), &err);
    need(cs_params_load(t->params, c->made.spec->seed, &err), &err);
    for (int s = 0; s < N_STEPS; s++) {
        struct cs_test_step step;
        struct cs_step_result r;
        fill(&step, c, s);
        need(cs_trainer_step(t, &step.manifest, step.slot, NULL, &r, &err), &err);
        out->loss[s] = r.loss_sum;
        out->norm[s] = r.grad_norm;
        if (s == N_STEPS - 1) {
            step.manifest.kind = CS_STEP_EVAL;
            need(cs_trainer_step(t, &step.manifest, step.slot, NULL, &r, &err), &err);
            out->eval_loss = r.loss_sum;
            out->correct = r.n_exact;
        }
        cs_test_step_free(&step);
    }
    for (int32_t i = 0; i < t->params->n; i++)
        if (t->params->shard[i].is_counted)
            need(cs_params_hash(t->params, &t->params->shard[i],
                                out->weights[t->params->shard[i].param->id], &err),
                 &err);
    cs_trainer_free(t);
}

static void read_step(struct cluster *c, int64_t step, struct run *out)
{
    for (int r = 0; r < RANKS; r++) {
        json_t *msg = read_message(c, r, "worker.step");
        assert_int_equal(cs_msg_int(msg, "step", -1), step);
        assert_int_equal(cs_msg_int(msg, "rank", -1), r);
        if (strcmp(cs_msg_str(msg, "kind", ""), "eval") == 0) {
            if (r == RANKS - 1) {
                out->eval_loss = cs_msg_num(msg, "loss_sum", -1);
                out->correct = cs_msg_int(msg, "correct", -1);
            }
        } else {
            out->norm[step] = cs_msg_num(msg, "grad_norm", -1);
            if (r == RANKS - 1)
                out->loss[step] = cs_msg_num(msg, "loss_sum", -1);
            else
                assert_null(json_object_get(msg, "loss_sum"));
        }
        json_decref(msg);
    }
}

static void commit(struct cluster *c, int64_t step, char path[4096])
{
    struct cs_ckpt_file files[2 * RANKS];
    struct cs_err err = {0};
    int n = 0;
    char dir[4096];
    for (int r = 0; r < RANKS; r++) {
        json_t *msg = read_message(c, r, "worker.saved"), *file;
        size_t i;
        assert_int_equal(cs_msg_int(msg, "step", -1), step);
        json_array_foreach(cs_msg_arr(msg, "files"), i, file)
        {
            memset(&files[n], 0, sizeof files[n]);
            snprintf(files[n].name, sizeof files[n].name, "%s", cs_msg_str(file, "path", ""));
            snprintf(files[n].xxh3, sizeof files[n].xxh3, "%s", cs_msg_str(file, "hash", ""));
            files[n++].bytes = (uint64_t)cs_msg_int(file, "bytes", 0);
        }
        json_decref(msg);
    }
    snprintf(dir, sizeof dir, "%s/ckpt", c->dir);
    json_t *trainer = json_pack("{s:I}", "step", (json_int_t)step);
    const struct cs_ckpt_origin origin = {
        c->made.spec->hash, c->made.spec->hash, c->made.plan->hash, 0, NULL, 0};
    need(cs_ckpt_commit(dir, step, &origin, trainer, files, n, &err), &err);
    json_decref(trainer);
    int64_t found;
    need(cs_ckpt_latest(dir, &(struct cs_ckpt_search){.is_deep = true}, &found, path, &err), &err);
    assert_int_equal(found, step);
}

static void read_done(struct cluster *c, struct run *out)
{
    for (int r = 0; r < RANKS; r++) {
        json_t *msg = read_message(c, r, "worker.done"), *entry;
        size_t i;
        json_array_foreach(cs_msg_arr(msg, "weights"), i, entry)
        {
            const json_int_t id = json_integer_value(json_array_get(entry, 0));
            assert_in_range(id, 0, 511);
            assert_string_equal(out->weights[id], ""); /* one rank answers for a parameter */
            snprintf(out->weights[id], 33, "%s", json_string_value(json_array_get(entry, 1)));
        }
        json_decref(msg);
        assert_int_equal(exit_code(c, r), 0);
    }
}

static void open_with_rules(struct cluster *c, const char *rules)
{
    memset(c, 0, sizeof *c);
    c->dir = tmpdir_new();
    make_plan(c, rules);
}

static void open_cluster(struct cluster *c)
{
    open_with_rules(c, NULL);
}

static void close_cluster(struct cluster *c)
{
    cs_test_planned_free(&c->made);
    tmpdir_free(c->dir);
}

/* Steps 0 and 1 in one pair of processes, the rest in another that resumes from the checkpoint. */
static void two_processes_and_a_resume_equal_one_rank(void **state)
{
    struct cluster c;
    struct run here = {.correct = -2}, there = {.correct = -1};
    char path[4096];
    (void)state;
    open_cluster(&c);
    run_here(&c, &here);
    start_workers(&c, "");
    feed(&c, 0, CS_STEP_TRAIN, 0);
    feed(&c, 1, CS_STEP_TRAIN, CS_STEP_CHECKPOINT | CS_STEP_LAST);
    read_step(&c, 0, &there);
    read_step(&c, 1, &there);
    commit(&c, 1, path);
    struct run ignored = {.correct = 0};
    read_done(&c, &ignored);
    stop_workers(&c);

    start_workers(&c, path);
    for (int s = 2; s < N_STEPS; s++)
        feed(&c, s, CS_STEP_TRAIN, 0);
    for (int s = 2; s < N_STEPS; s++)
        read_step(&c, s, &there);
    feed(&c, N_STEPS - 1, CS_STEP_EVAL, CS_STEP_LAST);
    read_step(&c, N_STEPS - 1, &there);
    read_done(&c, &there);
    for (int s = 0; s < N_STEPS; s++) {
        assert_memory_equal(&here.loss[s], &there.loss[s], sizeof(double));
        assert_memory_equal(&here.norm[s], &there.norm[s], sizeof(double));
    }
    assert_memory_equal(&here.eval_loss, &there.eval_loss, sizeof(double));
    assert_int_equal(here.correct, there.correct);
    for (int i = 0; i < c.made.graph->n_params; i++)
        assert_string_equal(here.weights[i], there.weights[i]);

    /* what the ring tells: every action of a training step once, a step row for each step */
    struct cs_event event;
    int n_steps = 0, n_actions = 0;
    while (cs_ring_get(&c.ring[1], &event, 1) == 1) {
        assert_true(event.end_ns >= event.start_ns && event.start_ns > 0);
        n_steps += event.kind == CS_EVENT_STEP;
        n_actions += event.kind == CS_EVENT_ACTION && event.step == 2;
    }
    struct cs_program *program;
    struct cs_err err = {0};
    need(cs_program_make(c.made.plan, c.made.graph, N_SLOTS, false, c.made.arena, &program, &err),
         &err);
    assert_int_equal(n_steps, N_STEPS - 2 + 1);
    assert_int_equal(n_actions, program->rank[1].n_actions);
    assert_int_equal(c.ring[1].head->step, N_STEPS - 1);
    stop_workers(&c);
    close_cluster(&c);
}

static void a_killed_peer_ends_the_other_with_peer_gone(void **state)
{
    struct cluster c;
    struct run run = {.correct = 0};
    (void)state;
    open_cluster(&c);
    start_workers(&c, "");
    feed(&c, 0, CS_STEP_TRAIN, 0);
    read_step(&c, 0, &run);
    assert_int_equal(kill(c.pid[0], SIGKILL), 0);
    assert_int_equal(exit_code(&c, 0), 128 + SIGKILL);
    feed(&c, 1, CS_STEP_TRAIN, 0);
    json_t *msg = read_message(&c, 1, "worker.error");
    assert_string_equal(cs_msg_str(msg, "status", ""), "peer_gone");
    assert_non_null(strstr(cs_msg_str(msg, "text", ""), "0"));
    assert_int_equal(cs_msg_int(msg, "step", -1), 1);
    assert_true(cs_msg_str(msg, "action", "")[0] != '\0');
    json_decref(msg);
    assert_int_equal(exit_code(&c, 1), 6);
    stop_workers(&c);
    close_cluster(&c);
}

static void a_save_that_fails_does_not_stop_training(void **state)
{
    struct cluster c;
    struct run run = {.correct = 0};
    (void)state;
    open_cluster(&c);
    tmpdir_write(tmpdir_path(c.dir, "ckpt"), "a file", 6); /* where the directory should be */
    start_workers(&c, "");
    feed(&c, 0, CS_STEP_TRAIN, CS_STEP_CHECKPOINT);
    read_step(&c, 0, &run);
    for (int r = 0; r < RANKS; r++)
        json_decref(read_message(&c, r, "worker.save_failed"));
    feed(&c, 1, CS_STEP_TRAIN, CS_STEP_LAST);
    read_step(&c, 1, &run);
    read_done(&c, &run);
    stop_workers(&c);
    close_cluster(&c);
}

/* the first rank has nothing to store: its files are there and empty */
static void a_frozen_rank_takes_part_in_checkpoints(void **state)
{
    struct cluster c;
    struct run run = {.correct = 0};
    char path[4096];
    (void)state;
    open_with_rules(&c, "train:llm.layers.*");
    start_workers(&c, "");
    feed(&c, 0, CS_STEP_TRAIN, CS_STEP_CHECKPOINT | CS_STEP_LAST);
    read_step(&c, 0, &run);
    commit(&c, 0, path);
    read_done(&c, &run);
    stop_workers(&c);
    struct run again = {.correct = 0};
    start_workers(&c, path);
    feed(&c, 1, CS_STEP_TRAIN, CS_STEP_LAST);
    read_step(&c, 1, &again);
    read_done(&c, &again);
    int n_same = 0;
    for (int i = 0; i < c.made.graph->n_params; i++) {
        const bool is_same = strcmp(run.weights[i], again.weights[i]) == 0;
        assert_int_equal(is_same, !c.made.graph->params[i].is_trainable);
        n_same += is_same;
    }
    assert_true(n_same > 0 && n_same < c.made.graph->n_params);
    stop_workers(&c);
    close_cluster(&c);
}

static void a_runner_that_dies_takes_its_workers_along(void **state)
{
    struct cluster c;
    (void)state;
    open_cluster(&c);
    start_workers(&c, "");
    for (int r = 0; r < RANKS; r++) {
        cs_control_free(c.control[r]);
        c.control[r] = NULL;
    }
    for (int r = 0; r < RANKS; r++)
        assert_int_equal(exit_code(&c, r), 5);
    stop_workers(&c);
    close_cluster(&c);
}

static void a_stopped_pool_ends_a_worker(void **state)
{
    struct cluster c;
    (void)state;
    open_cluster(&c);
    start_workers(&c, "");
    cs_pool_stop(c.pool);
    for (int r = 0; r < RANKS; r++)
        assert_int_equal(exit_code(&c, r), 1);
    stop_workers(&c);
    close_cluster(&c);
}

static void a_corrupt_slot_is_named(void **state)
{
    struct cluster c;
    struct cs_test_step step;
    struct cs_err err = {0};
    struct cs_slot slot;
    uint64_t seq;
    (void)state;
    open_cluster(&c);
    start_workers(&c, "");
    fill(&step, &c, 0);
    for (int s = 0; s < N_SLOTS; s++) {
        need(cs_pool_take(c.pool, &slot, &seq, &err), &err);
        memcpy(slot.head, (char *)step.memory + step.layout.bytes * (size_t)s, step.layout.bytes);
        slot.ids[slot.head->n_tokens - 1] = 199;
    }
    need(cs_pool_publish(c.pool, &step.manifest, &err), &err);
    json_t *msg = read_message(&c, 1, "worker.error");
    assert_string_equal(cs_msg_str(msg, "status", ""), "corrupt");
    assert_non_null(strstr(cs_msg_str(msg, "text", ""), "199"));
    json_decref(msg);
    assert_int_equal(exit_code(&c, 1), 6);
    assert_int_equal(exit_code(&c, 0), 6); /* its peer is gone */
    cs_test_step_free(&step);
    stop_workers(&c);
    close_cluster(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_processes_and_a_resume_equal_one_rank),
        cmocka_unit_test(a_killed_peer_ends_the_other_with_peer_gone),
        cmocka_unit_test(a_save_that_fails_does_not_stop_training),
        cmocka_unit_test(a_frozen_rank_takes_part_in_checkpoints),
        cmocka_unit_test(a_runner_that_dies_takes_its_workers_along),
        cmocka_unit_test(a_stopped_pool_ends_a_worker),
        cmocka_unit_test(a_corrupt_slot_is_named),
    };
    signal(SIGPIPE, SIG_IGN);
    /* a worker may choose faster kernels than this process has: bits are compared, so all use
     * these */
    setenv("OPENBLAS_CORETYPE", openblas_get_corename(), 0);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
