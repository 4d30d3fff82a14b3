/* cornstarch-feeder: started by the runner, boots over descriptor 3, feeds until the last step.
 *
 * A control thread reads the runner's requests; when the runner is gone it stops the pool, so
 * nobody waits for a feeder without a master. The main thread feeds and is the only one that
 * writes. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/say.h"
#include "core/base/system/io.h"
#include "core/plan/json/plan_json.h"
#include "core/plan/plan.h"
#include "core/program/options.h"
#include "core/program/process.h"
#include "core/wire/line.h"
#include "core/wire/wire.h"
#include "feeder/feeder.h"

enum { CONTROL_FD = 3, CACHE_BYTES = 256 * 1024 * 1024 };

struct process {
    struct cs_line_reader *reader;
    struct cs_arena *arena;
    json_t *boot;
    struct cs_feeder_config config;
    struct cs_feeder_request request;
    void *memory;
    size_t memory_bytes;
    pthread_t control;
    bool has_control, is_cut; /* is_cut: the runner no longer reads */
    _Atomic bool is_ending;
};

static void send_message(void *user, json_t *msg)
{
    struct process *p = user;
    struct cs_buf line = {0};
    struct cs_err err = {0};

    if (cs_msg_encode(msg, &line, &err) != CS_OK)
        cs_say(stderr, "cornstarch-feeder: %s\n", err.text);
    else if (!p->is_cut && cs_write_all(CONTROL_FD, line.data, line.len, &err) != CS_OK)
        p->is_cut = true;
    if (p->is_cut && p->config.pool != NULL)
        cs_pool_stop(p->config.pool);
    cs_buf_free(&line);
    json_decref(msg);
}

/* The next message, NULL at the end of the stream. Bad lines are an error: the runner is ours. */
static enum cs_status receive(struct process *p, json_t **msg, struct cs_err *err)
{
    char bytes[CS_LINE_FEED_MAX];

    for (;;) {
        ssize_t n = 0;
        CS_TRY(cs_line_next(p->reader, msg, err));
        if (*msg != NULL)
            return cs_msg_check(*msg, err);
        n = read(CONTROL_FD, bytes, sizeof(bytes));
        if (n == -1 && errno == EINTR)
            continue;
        if (n == -1)
            return cs_fail_errno(err, "reading from the runner");
        if (n == 0)
            return CS_OK;
        CS_TRY(cs_line_feed(p->reader, bytes, (size_t)n, err));
    }
}

static void *control(void *arg)
{
    struct process *p = arg;
    struct cs_err err = {0};
    json_t *msg = NULL;

    while (receive(p, &msg, &err) == CS_OK && msg != NULL) {
        if (strcmp(cs_msg_type(msg), "feeder.request") == 0) {
            bool is_stop = cs_msg_bool(msg, "stop", false);
            if (cs_msg_bool(msg, "checkpoint", false))
                atomic_store(&p->request.checkpoint, true);
            /* a stop saves unless the message says otherwise */
            if (is_stop && cs_msg_bool(msg, "checkpoint", true))
                atomic_store(&p->request.stop, true);
            else if (is_stop)
                atomic_store(&p->request.stop_now, true);
        }
        json_decref(msg);
        msg = NULL;
    }
    json_decref(msg);
    if (!atomic_load(&p->is_ending)) /* the workers still read what was published last */
        cs_pool_stop(p->config.pool);
    return NULL;
}

static enum cs_status map_pool(struct process *p, const struct cs_slot_budget *budget,
                               struct cs_err *err)
{
    int fd = (int)cs_msg_int(p->boot, "pool_fd", -1);
    struct stat st;

    if (fstat(fd, &st) == -1)
        return cs_fail_errno(err, "slot pool, descriptor %d", fd);
    p->memory_bytes = (size_t)st.st_size;
    p->memory = mmap(NULL, p->memory_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (p->memory == MAP_FAILED) {
        p->memory = NULL;
        return cs_fail_errno(err, "cannot map %zu bytes of the slot pool", p->memory_bytes);
    }
    close(fd);
    return cs_pool_attach(p->memory, p->memory_bytes, budget, -1, &p->config.pool, err);
}

static enum cs_status boot(struct process *p, struct cs_err *err)
{
    struct cs_spec *spec = NULL;
    struct cs_graph *graph = NULL;
    struct cs_plan *plan = NULL;

    CS_TRY(receive(p, &p->boot, err));
    if (p->boot == NULL || strcmp(cs_msg_type(p->boot), "feeder.boot") != 0)
        return cs_fail(err, CS_STATE, "feeder.boot expected, got \"%s\"",
                       p->boot == NULL ? "" : cs_msg_type(p->boot));
    CS_TRY(cs_spec_read(cs_msg_obj(p->boot, "spec"), p->arena, &spec, err));
    CS_TRY(cs_graph_build(spec, true, p->arena, &graph, err));
    CS_TRY(cs_plan_read(cs_msg_obj(p->boot, "plan"), graph, p->arena, &plan, err));
    p->config.spec = spec;
    p->config.graph = graph;
    p->config.budget = &plan->budget;
    p->config.plan = plan;
    p->config.job_dir = cs_msg_str(p->boot, "job_dir", "");
    p->config.cursor = cs_msg_obj(p->boot, "cursor");
    p->config.first_step = cs_msg_int(p->boot, "first_step", 0);
    p->config.is_eval_first = cs_msg_bool(p->boot, "eval_first", false);
    p->config.n_threads = (int)cs_msg_int(p->boot, "threads", 0);
    p->config.cache_bytes = CACHE_BYTES;
    p->config.request = &p->request;
    p->config.send = send_message;
    p->config.user = p;
    CS_TRY(map_pool(p, &plan->budget, err));
    if (pthread_create(&p->control, NULL, control, p) != 0)
        return cs_fail(err, CS_NO_MEMORY, "cannot start the control thread");
    p->has_control = true;
    return CS_OK;
}

static void tell_error(struct process *p, const struct cs_err *err)
{
    json_t *msg = cs_msg_new("feeder.error");

    cs_say(stderr, "cornstarch-feeder: %s\n", err->text);
    cs_msg_set_str(msg, "status", cs_status_slug(err->status));
    cs_msg_set_str(msg, "text", err->text);
    send_message(p, msg);
}

int main(int argc, char **argv)
{
    struct process p = {0};
    struct cs_err err = {0};
    enum cs_status status = CS_OK;

    cs_process_begin("cornstarch-feeder");
    if (argc > 1) {
        bool is_version = strcmp(argv[1], "--version") == 0;
        if (is_version)
            cs_say(stdout, "cornstarch-feeder %s\n", CORNSTARCH_VERSION);
        else
            cs_say(stderr,
                   "cornstarch-feeder takes no arguments: the runner starts it and talks to "
                   "it over descriptor 3; see cornstarch-feeder(8)\n");
        return is_version ? 0 : 1;
    }
    (void)signal(SIGPIPE, SIG_IGN);
    p.arena = cs_arena_new(0);
    p.reader = cs_line_reader_new();
    cs_line_reader_limit(p.reader, 0);
    status = boot(&p, &err);
    if (status == CS_OK)
        status = cs_feeder_run(&p.config, &err);
    if (status != CS_OK && status != CS_INTERRUPTED)
        tell_error(&p, &err);
    if (p.has_control) { /* it sits in read(2): let that end, without stopping the pool */
        atomic_store(&p.is_ending, true);
        (void)shutdown(CONTROL_FD, SHUT_RD);
        (void)pthread_join(p.control, NULL);
    }
    if (p.config.pool != NULL)
        cs_pool_detach(p.config.pool);
    if (p.memory != NULL)
        (void)munmap(p.memory, p.memory_bytes);
    json_decref(p.boot);
    cs_line_reader_free(p.reader);
    cs_arena_free(p.arena);
    return status == CS_OK || status == CS_INTERRUPTED ? 0 : cs_status_exit(status);
}
