/* Workers and a feeder that speak the protocol and fail as they are told, but compute nothing. */
#include "support/pretend_ranks.h"

#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "core/base/system/clock.h"
#include "core/data/pool.h"
#include "core/plan/json/plan_json.h"
#include "core/sched/lower/lower.h"
#include "core/trace/ring.h"
#include "core/wire/line.h"
#include "core/wire/wire.h"
#include "runner/processes/procstat.h"
#include "store/ckpt/checkpoint.h"

/* an end that comes after the words of victims: longer than the runner waits for who is known to have died; than it
 * waits for whom nothing shows of */
enum { CONTROL = 3, LATE_END_MS = 1000, FADE_MS = 3500 };

struct fake {
    struct cs_arena *arena;
    struct cs_line_reader *lines;
    json_t *boot;
    struct cs_spec *spec;
    struct cs_graph *graph;
    struct cs_plan *plan;
    struct cs_pool *pool;
    struct cs_ring ring;
    int rank;
};

#define MUST(expr)                                                                                 \
    do {                                                                                           \
        struct cs_err err_ = {0}, *err = &err_;                                                    \
        if ((expr) != CS_OK) {                                                                     \
            fprintf(stderr, "fake: %s: %s\n", #expr, err->text);                                   \
            _exit(90);                                                                             \
        }                                                                                          \
    } while (0)

/* FAKE_FAULT: RANK:STEP:WHAT, several with commas between them */
static bool has_fault(int rank, int64_t step, const char *what)
{
    char want[64];
    const int n = snprintf(want, sizeof want, "%d:%lld:%s", rank, (long long)step, what);
    for (const char *fault = getenv("FAKE_FAULT"); fault != NULL; fault = strchr(fault, ',')) {
        fault += *fault == ',';
        if (strncmp(fault, want, (size_t)n) == 0 && (fault[n] == '\0' || fault[n] == ','))
            return true;
    }
    return false;
}

static void say(json_t *msg)
{
    struct cs_buf line = {0};
    size_t sent = 0;
    MUST(cs_msg_encode(msg, &line, err));
    while (sent < line.len) {
        ssize_t n = send(CONTROL, line.data + sent, line.len - sent, MSG_NOSIGNAL);
        if (n <= 0)
            _exit(91);
        sent += (size_t)n;
    }
    json_decref(msg);
    cs_buf_free(&line);
}

/* the next message; NULL when none is there and is_waiting is false, or at the end of stream */
static json_t *hear(struct fake *f, bool is_waiting)
{
    for (;;) {
        json_t *msg = NULL;
        char bytes[4096];
        MUST(cs_line_next(f->lines, &msg, err));
        if (msg)
            return msg;
        ssize_t n = recv(CONTROL, bytes, sizeof bytes, is_waiting ? 0 : MSG_DONTWAIT);
        if (n <= 0)
            return NULL;
        MUST(cs_line_feed(f->lines, bytes, (size_t)n, err));
    }
}

static void *map_fd(int fd, size_t *bytes)
{
    struct stat st;
    if (fstat(fd, &st) != 0)
        _exit(92);
    *bytes = (size_t)st.st_size;
    void *at = mmap(NULL, *bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    return at == MAP_FAILED ? NULL : at;
}

static void boot(struct fake *f)
{
    size_t bytes;
    f->arena = cs_arena_new(0);
    f->lines = cs_line_reader_new();
    cs_line_reader_limit(f->lines, 0);
    f->boot = hear(f, true);
    if (!f->boot)
        _exit(93);
    MUST(cs_msg_check(f->boot, err));
    f->rank = (int)cs_msg_int(f->boot, "rank", -1);
    MUST(cs_spec_read(cs_msg_obj(f->boot, "spec"), f->arena, &f->spec, err));
    MUST(cs_graph_build(f->spec, false, f->arena, &f->graph, err));
    MUST(cs_plan_read(cs_msg_obj(f->boot, "plan"), f->graph, f->arena, &f->plan, err));
    void *pool = map_fd((int)cs_msg_int(f->boot, "pool_fd", -1), &bytes);
    MUST(cs_pool_attach(pool, bytes, &f->plan->budget, f->rank, &f->pool, err));
    if (f->rank < 0)
        return;
    void *ring = map_fd((int)cs_msg_int(f->boot, "ring_fd", -1), &bytes);
    MUST(cs_ring_attach(ring, bytes, &f->ring, err));
}

/* --- worker ---------------------------------------------------------------------------------- */

static void sleep_ms(int64_t ms)
{
    struct timespec t = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    nanosleep(&t, NULL);
}

static void report_error(const struct fake *f, int64_t step, const char *status, const char *text)
{
    json_t *msg = cs_msg_new("worker.error");
    cs_msg_set_int(msg, "rank", f->rank);
    cs_msg_set_int(msg, "step", step);
    cs_msg_set_str(msg, "status", status);
    cs_msg_set_str(msg, "text", text);
    say(msg);
    _exit(1);
}

static void *die_later(void *unused)
{
    (void)unused;
    sleep_ms(FADE_MS);
    kill(getpid(), SIGKILL);
    return NULL;
}

/* As a process with much on a device: its files are closed, and its end takes long. */
static void fade(void)
{
    pthread_t other;
    if (pthread_create(&other, NULL, die_later, NULL) != 0)
        _exit(96);
    pthread_exit(NULL);
}

/* the fault of another rank as its neighbours see it */
static bool is_victim(const struct fake *f, int64_t step)
{
    static const char *const fatal[] = {"kill", "exit", "error", "mute",
                                        "fade", "lag",  "tell",  "deaf"};
    for (size_t i = 0; i < CS_ARRAY_LEN(fatal); i++)
        for (int r = 0; r < f->plan->n_ranks; r++)
            if (r != f->rank && has_fault(r, step, fatal[i]))
                return true;
    return false;
}

static void suffer(struct fake *f, int64_t step)
{
    if (has_fault(f->rank, step, "kill"))
        kill(getpid(), SIGKILL);
    if (has_fault(f->rank, step, "exit")) {
        printf("giving up for a reason\n");
        fflush(stdout);
        _exit(42);
    }
    if (has_fault(f->rank, step, "mute"))
        _exit(0);
    if (has_fault(f->rank, step, "error"))
        report_error(f, step, "invalid", "the sky is green");
    if (has_fault(f->rank, step, "fade"))
        fade();
    if (has_fault(f->rank, step, "deaf")) /* others have lost it, but it runs */
        pause();
    if (has_fault(f->rank, step, "lag") || has_fault(f->rank, step, "tell"))
        sleep_ms(LATE_END_MS);
    if (has_fault(f->rank, step, "lag"))
        kill(getpid(), SIGKILL);
    if (has_fault(f->rank, step, "tell"))
        report_error(f, step, "io", "the disk is on fire");
    if (has_fault(f->rank, step, "stop"))
        kill(getpid(), SIGSTOP);
    if (is_victim(f, step))
        report_error(f, step, "peer_gone", "a peer is gone");
    for (int r = 0; r < f->plan->n_ranks; r++)
        if (r != f->rank && has_fault(r, step, "stop"))
            pause(); /* waits for it */
}

/* every action of the program takes 1000 ns, one after the other */
static void run_program(struct fake *f, const struct cs_manifest *m)
{
    struct cs_program *program = NULL;
    struct cs_arena *arena = cs_arena_new(0);
    bool is_eval = m->kind == CS_STEP_EVAL;
    MUST(cs_program_make(f->plan, f->graph, m->n_slots, is_eval, arena, &program, err));
    const struct cs_rank_program *mine = &program->rank[f->rank];
    uint64_t start_ns = (uint64_t)cs_now_ns();
    uint16_t flags = is_eval ? CS_EVENT_EVAL : 0;
    atomic_store(&f->ring.head->step, m->step);
    for (uint32_t i = 0; i < mine->n_actions; i++) {
        bool is_compute = cs_op_stream((enum cs_op)mine->actions[i].op) == CS_STREAM_COMPUTE;
        atomic_store(is_compute ? &f->ring.head->action : &f->ring.head->comm_action, (int32_t)i);
        atomic_store(&f->ring.head->progress_ns, (uint64_t)cs_now_ns());
        if (mine->actions[i].op == CS_OP_FWD && mine->actions[i].slot == 0 && !is_eval) {
            atomic_store(&f->ring.head->last_samples[0], (uint64_t)(m->step + 1001));
            suffer(f, m->step);
        }
        struct cs_event e = {.start_ns = start_ns + i * 1000,
                             .end_ns = start_ns + i * 1000 + 1000,
                             .step = (uint32_t)m->step,
                             .action = i,
                             .kind = CS_EVENT_ACTION,
                             .flags = flags};
        cs_ring_put(&f->ring, &e);
        atomic_store(is_compute ? &f->ring.head->action : &f->ring.head->comm_action, -1);
    }
    struct cs_event whole = {.start_ns = start_ns,
                             .end_ns = start_ns + mine->n_actions * 1000,
                             .step = (uint32_t)m->step,
                             .kind = CS_EVENT_STEP,
                             .flags = flags};
    cs_ring_put(&f->ring, &whole);
    cs_arena_free(arena);
}

/* FAKE_NAN: from this step on nothing is finite */
static bool is_broken(int64_t step)
{
    const char *from = getenv("FAKE_NAN");
    return from != NULL && step >= atoi(from);
}

static void report_step(const struct fake *f, const struct cs_manifest *m)
{
    bool is_eval = m->kind == CS_STEP_EVAL;
    const double loss = is_broken(m->step) ? (double)NAN : 5.0 - 0.25 * (double)m->step;
    json_t *msg = cs_msg_new("worker.step");
    cs_msg_set_int(msg, "rank", f->rank);
    cs_msg_set_int(msg, "step", m->step);
    cs_msg_set_str(msg, "kind", is_eval ? "eval" : "train");
    if (f->rank == f->plan->n_ranks - 1) {
        cs_msg_set_num(msg, "loss_sum", (double)m->trained_tokens * loss);
        cs_msg_set_int(msg, "trained_tokens", m->trained_tokens);
        if (is_eval) {
            cs_msg_set_int(msg, "samples", m->n_samples);
            cs_msg_set_int(msg, "correct", m->n_samples / 2);
        }
    }
    if (!is_eval) {
        cs_msg_set_num(msg, "grad_norm", is_broken(m->step) ? (double)NAN : 1.5);
        cs_msg_set_bool(msg, "is_skipped", is_broken(m->step));
        cs_msg_set_num(msg, "lr", 0.125);
    }
    cs_msg_set_int(msg, "messages_sent", 3);
    cs_msg_set_int(msg, "bytes_sent", 300);
    say(msg);
}

/* rank 0 owns all parameters; their value depends on the step only */
static void save(const struct fake *f, int64_t step)
{
    json_t *msg, *list = json_array();
    struct cs_ckpt_file files[2];
    char dir[4200];
    if (has_fault(f->rank, step, "save")) {
        msg = cs_msg_new("worker.save_failed");
        cs_msg_set(msg, "error", json_pack("{s:s,s:s}", "status", "no_space", "text", "disk full"));
        cs_msg_set_int(msg, "rank", f->rank);
        cs_msg_set_int(msg, "step", step);
        say(msg);
        json_decref(list);
        return;
    }
    struct cs_ckpt_part *part = CS_NEW_ARRAY(f->arena, struct cs_ckpt_part, f->graph->n_params + 1);
    int n = 0;
    for (int i = 0; i < f->graph->n_params && f->rank == 0; i++) {
        const struct cs_param *p = &f->graph->params[i];
        float *value = CS_NEW_ARRAY(f->arena, float, p->count);
        for (int64_t k = 0; k < p->count; k++)
            value[k] = is_broken(step) ? (float)NAN : (float)(step + i) + (float)k;
        if (p->is_trainable)
            part[n++] = (struct cs_ckpt_part){p, cs_slice_whole(p), value, value, value};
    }
    snprintf(dir, sizeof dir, "%s/ckpt", cs_msg_str(f->boot, "job_dir", ""));
    MUST(cs_ckpt_write_rank(dir, step, f->rank, part, n, files, err));
    for (int i = 0; i < 2; i++)
        json_array_append_new(list, json_pack("{s:s,s:I,s:s,s:I}", "path", files[i].name, "bytes",
                                              (json_int_t)files[i].bytes, "hash", files[i].xxh3,
                                              "nonfinite", (json_int_t)files[i].n_nonfinite));
    msg = cs_msg_new("worker.saved");
    cs_msg_set_int(msg, "rank", f->rank);
    cs_msg_set_int(msg, "step", step);
    cs_msg_set(msg, "files", list);
    say(msg);
}

/* a worker of this job is stopped */
static bool is_one_stopped(void)
{
    char path[64], pids[400] = "", *rest = pids;
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", getppid(), getppid());
    FILE *file = fopen(path, "re");
    if (file == NULL || fgets(pids, sizeof pids, file) == NULL)
        _exit(95);
    fclose(file);
    for (long pid; (pid = strtol(rest, &rest, 10)) > 0;)
        if (cs_procstat((pid_t)pid).state == 'T')
            return true;
    return false;
}

/* "ready": it waits for ever; "late": it computes for long, and others wait for it; "halt": it computes, then is stopped,
 * and others wait for ever; "gone": it is stopped, and others give up */
static void get_ready(const struct fake *f)
{
    enum { HALT_MS = 500, LATE_MS = 3500 };

    const bool has_halt = has_fault(f->rank, 0, "halt"), has_gone = has_fault(f->rank, 0, "gone"),
               is_late = has_fault(f->rank, 0, "late");
    const int64_t until_ns = cs_now_ns() + 1000000 * (int64_t)(is_late ? LATE_MS : HALT_MS);
    if (has_fault(f->rank, 0, "ready"))
        pause();
    while ((has_halt || is_late) && cs_now_ns() < until_ns)
        ;
    if (has_halt || has_gone)
        kill(getpid(), SIGSTOP);
    for (int r = 0; r < f->plan->n_ranks; r++) {
        if (r != f->rank && has_fault(r, 0, "late"))
            sleep_ms(LATE_MS);
        if (r != f->rank && has_fault(r, 0, "halt"))
            pause();
        if (r == f->rank || !has_fault(r, 0, "gone"))
            continue;
        while (!is_one_stopped())
            sleep_ms(5);
        report_error(f, -1, "timeout", "others did not come");
    }
}

static void work(struct fake *f)
{
    struct cs_program *program = NULL;
    const char *step_ms = getenv("FAKE_STEP_MS"), *log_lines = getenv("FAKE_LOG_LINES");
    MUST(cs_program_make(f->plan, f->graph, f->plan->slots, false, f->arena, &program, err));
    get_ready(f);
    json_t *ready = cs_msg_new("worker.ready");
    cs_msg_set_int(ready, "rank", f->rank);
    cs_msg_set_str(ready, "program_hash", program->hash);
    cs_msg_set_int(ready, "params", f->graph->n_elements);
    cs_msg_set_int(ready, "trained", f->graph->n_trained);
    say(ready);
    json_t *go = hear(f, true);
    if (!go || strcmp(cs_msg_type(go), "worker.go") != 0)
        _exit(94);
    json_decref(go);
    struct cs_manifest m = {.flags = cs_msg_bool(f->boot, "is_over", false) ? CS_STEP_LAST : 0};
    while (!(m.flags & CS_STEP_LAST)) {
        if (cs_pool_next(f->pool, &m, NULL, NULL) != CS_OK)
            report_error(f, m.step, "interrupted", "stopped");
        run_program(f, &m);
        for (int s = 0; s < m.n_slots; s++)
            cs_pool_release(f->pool, &m, s);
        sleep_ms(step_ms ? atoi(step_ms) : 0);
        for (int i = 0; f->rank == 0 && log_lines && i < atoi(log_lines); i++)
            printf("line %d of step %lld, and some more text to make it longer than it was\n", i,
                   (long long)m.step);
        fflush(stdout);
        report_step(f, &m);
        if (m.flags & CS_STEP_CHECKPOINT)
            save(f, m.step);
    }
    json_t *done = cs_msg_new("worker.done");
    cs_msg_set_int(done, "rank", f->rank);
    cs_msg_set_int(done, "step", m.step);
    say(done);
    if (has_fault(f->rank, m.step, "done"))
        kill(getpid(), SIGSTOP);
    _exit(0);
}

/* --- feeder ---------------------------------------------------------------------------------- */

static void publish(struct fake *f, struct cs_manifest *m)
{
    m->n_slots = 1 + (int)(m->step % f->plan->slots);
    m->n_samples = f->spec->batch_samples;
    m->trained_tokens = getenv("FAKE_UNTRAINED") != NULL ? 0 : 40 + m->step;
    for (int s = 0; s < m->n_slots; s++) {
        struct cs_slot slot;
        uint64_t seq = 0;
        if (cs_pool_take(f->pool, &slot, &seq, NULL) != CS_OK)
            _exit(1);
        m->first_slot = s == 0 ? seq : m->first_slot;
        slot.head->step = m->step;
    }
    if (cs_pool_publish(f->pool, m, NULL) != CS_OK)
        _exit(1);
    json_t *msg = cs_msg_new("feeder.step");
    cs_msg_set_int(msg, "step", m->step);
    cs_msg_set_str(msg, "kind", m->kind == CS_STEP_EVAL ? "eval" : "train");
    cs_msg_set_int(msg, "flags", m->flags);
    cs_msg_set_int(msg, "slots", m->n_slots);
    cs_msg_set_int(msg, "samples", m->n_samples);
    cs_msg_set_int(msg, "trained_tokens", m->trained_tokens);
    if (getenv("FAKE_ROWS") != NULL) /* of every slot, and no items */
        cs_msg_set(msg, "rows", json_pack("[[i, i]]", atoi(getenv("FAKE_ROWS")), 0));
    cs_msg_set(
        msg, "cursor",
        json_pack("{s:I}", "position", (json_int_t)((m->step + 1) * f->spec->batch_samples)));
    say(msg);
}

static void check_requests(struct fake *f, struct cs_manifest *m)
{
    json_t *msg;
    while ((msg = hear(f, false))) {
        if (cs_msg_bool(msg, "checkpoint", false))
            m->flags |= CS_STEP_CHECKPOINT;
        if (cs_msg_bool(msg, "stop", false))
            m->flags |= CS_STEP_LAST;
        json_decref(msg);
    }
}

static void evaluate(struct fake *f, int64_t step)
{
    struct cs_manifest m = {.step = step, .kind = CS_STEP_EVAL, .flags = CS_STEP_EVAL_FIRST};
    publish(f, &m);
    m = (struct cs_manifest){.step = step, .kind = CS_STEP_EVAL, .flags = CS_STEP_EVAL_LAST};
    publish(f, &m);
}

static void feed(struct fake *f)
{
    int64_t first = cs_msg_int(f->boot, "first_step", 0);
    int64_t position = cs_msg_int(cs_msg_obj(f->boot, "cursor"), "position", 0);
    if (position != first * f->spec->batch_samples) {
        fprintf(stderr, "fake: cursor %lld at step %lld\n", (long long)position, (long long)first);
        _exit(95);
    }
    if (has_fault(-1, 0, "ready"))
        pause();
    json_t *msg = cs_msg_new("feeder.ready");
    cs_msg_set_int(msg, "samples", 1000);
    cs_msg_set_int(msg, "eval_samples", 10);
    say(msg);
    struct cs_manifest m = {.flags = first < f->spec->steps ? 0 : CS_STEP_LAST};
    for (int64_t step = first; !(m.flags & CS_STEP_LAST); step++) {
        m = (struct cs_manifest){.step = step, .kind = CS_STEP_TRAIN};
        if (step + 1 == f->spec->steps)
            m.flags |= CS_STEP_CHECKPOINT | CS_STEP_LAST;
        if (f->spec->checkpoint_every && (step + 1) % f->spec->checkpoint_every == 0)
            m.flags |= CS_STEP_CHECKPOINT;
        if (getenv("FAKE_EVAL") && step % 5 == 4) {
            /* the evaluation stands before the flags that end everything */
            check_requests(f, &m);
            uint32_t flags = m.flags;
            m.flags = 0;
            publish(f, &m);
            evaluate(f, step);
            if (flags & CS_STEP_LAST)
                _exit(96); /* tests choose lengths where this does not happen */
            continue;
        }
        check_requests(f, &m);
        if (has_fault(-1, step, "kill"))
            kill(getpid(), SIGKILL);
        publish(f, &m);
    }
    say(cs_msg_new("feeder.done"));
    _exit(0);
}

bool pretend_is(const char *title, const char *program)
{
    const size_t n = strlen(program);
    return strncmp(title, program, n) == 0 && (title[n] == '\0' || title[n] == ':');
}

void pretend_main(char **argv)
{
    struct fake f = {0};
    const bool is_worker = pretend_is(argv[0], "cornstarch-worker");
    if (!is_worker && !pretend_is(argv[0], "cornstarch-feeder")) {
        if (getenv("CORNSTARCH_PRETEND") == NULL)
            return;
        /* a process of a job that does not know what it is would run the tests, which start jobs */
        fprintf(stderr, "started as \"%s\", which is no process of a job\n", argv[0]);
        _exit(98);
    }
    boot(&f);
    if (is_worker)
        work(&f);
    feed(&f);
}
