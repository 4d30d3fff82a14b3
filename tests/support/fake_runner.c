/* A runner without workers, for tests of the daemon: the same command line, files, lock, socket and
 * messages as cornstarch-runner, steps by the clock.
 *
 * The job's name in spec.json says how it behaves, words separated by commas: ms=N time of a step,
 * kill=N SIGKILL to itself after step N, quit=N exit (code=N, else 0) without a word after step N, refuse: exit 4
 * at the start as for another plan, late=MS open the socket so much later, deaf: close the socket
 * of every peer at once, nosocket: never open one, flood=N notes per step,
 * big=N of N bytes, hold: no step before a peer is there, gate=N: only N steps, then only as many
 * as the file "go" in its directory says (tests/support/daemon.h, test_let), asleep: nothing at all
 * while that is 0, alarm=N: an alarm at each of the first N steps, unfit: its --check refuses,
 * look: its --check waits for the file "look" in its directory, garbage: every peer first gets
 * lines that are wrong. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "core/base/system/clock.h"
#include "core/base/system/io.h"
#include "core/wire/line.h"
#include "core/wire/wire.h"

enum { MAX_PEERS = 8 };

struct fake {
    const char *dir, *socket;
    char name[256];
    int64_t job, steps, done, generation, checkpoint_step;
    int journal, listener, n_peers;
    int peers[MAX_PEERS];
    struct cs_line_reader *lines[MAX_PEERS];
    const char *state;
    bool is_stopping, is_now, is_pausing;
};

static int64_t option(const struct fake *f, const char *key, int64_t dflt)
{
    const char *at = strstr(f->name, key);
    return at ? strtoll(at + strlen(key), NULL, 10) : dflt;
}

static void send_line(struct fake *f, int peer, const json_t *msg)
{
    struct cs_buf line = {0};
    struct cs_err err;
    if (cs_msg_encode(msg, &line, &err) == CS_OK)
        (void)!cs_write_all(f->peers[peer], line.data, line.len, &err);
    cs_buf_free(&line);
}

static void tell(struct fake *f, json_t *msg, bool is_kept)
{
    struct cs_buf line = {0};
    struct cs_err err;
    cs_msg_set_int(msg, "job", f->job);
    CS_ASSERT(cs_msg_encode(msg, &line, &err) == CS_OK);
    if (is_kept)
        CS_ASSERT(cs_write_all(f->journal, line.data, line.len, &err) == CS_OK);
    for (int i = 0; i < f->n_peers; i++)
        send_line(f, i, msg);
    cs_buf_free(&line);
    json_decref(msg);
}

/* The last of its alarms as an object or a note, of alarms so many. */
static json_t *loss_alarm(json_t *msg, int64_t count)
{
    char text[64];
    snprintf(text, sizeof(text), "the loss is odd in %lld steps", (long long)count);
    cs_msg_set_str(msg, "rule", "loss_odd");
    cs_msg_set_str(msg, "level", "warn");
    cs_msg_set_str(msg, "text", text);
    cs_msg_set_int(msg, "step", count - 1);
    cs_msg_set_int(msg, "count", count);
    cs_msg_set_int(msg, "wall_ns", count); /* the same in all places */
    return msg;
}

static int64_t n_alarms(const struct fake *f)
{
    const int64_t most = option(f, "alarm=", 0);
    return f->done < most ? f->done : most;
}

static json_t *state_message(const struct fake *f, const char *type)
{
    json_t *msg = cs_msg_new(type);
    cs_msg_set_str(msg, "state", f->state);
    cs_msg_set_int(msg, "step", f->done - 1);
    cs_msg_set_int(msg, "generation", f->generation);
    cs_msg_set_int(msg, "checkpoint_step", f->checkpoint_step);
    cs_msg_set_int(msg, "wall_ns", cs_wall_ns());
    if (n_alarms(f) > 0)
        cs_msg_set(msg, "alarms", json_pack("[o]", loss_alarm(json_object(), n_alarms(f))));
    return msg;
}

static void write_state_file(struct fake *f, const json_t *msg)
{
    char path[CS_PATH_CAP];
    struct cs_buf text = {0};
    struct cs_err err;
    CS_ASSERT(cs_path(path, &err, "%s/state.json", f->dir) == CS_OK);
    json_t *doc = json_copy((json_t *)(uintptr_t)msg);
    cs_msg_set_str(doc, "socket", f->socket);
    cs_json_pretty(doc, &text);
    json_decref(doc);
    CS_ASSERT(cs_write_file_atomic(path, text.data, text.len, 0600, &err) == CS_OK);
    cs_buf_free(&text);
}

static void set_state(struct fake *f, const char *state)
{
    f->state = state;
    json_t *msg = state_message(f, "runner.state");
    write_state_file(f, msg);
    tell(f, msg, true);
}

static json_t *read_json(const struct fake *f, const char *name)
{
    char path[CS_PATH_CAP];
    struct cs_buf text = {0};
    struct cs_err err;
    json_t *out = NULL;
    CS_ASSERT(cs_path(path, &err, "%s/%s", f->dir, name) == CS_OK);
    if (cs_read_file(path, 1 << 24, &text, &err) == CS_OK)
        (void)!cs_line_parse(cs_buf_str(&text), text.len, &out, &err);
    cs_buf_free(&text);
    return out;
}

static void listen_here(struct fake *f)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    f->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CS_ASSERT(strlen(f->socket) < sizeof(at.sun_path));
    memcpy(at.sun_path, f->socket, strlen(f->socket) + 1);
    unlink(f->socket);
    CS_ASSERT(bind(f->listener, (struct sockaddr *)&at, sizeof(at)) == 0);
    CS_ASSERT(listen(f->listener, 8) == 0);
}

static void welcome(struct fake *f)
{
    int fd = accept4(f->listener, NULL, NULL, SOCK_CLOEXEC);
    if (fd == -1)
        return;
    if (f->n_peers == MAX_PEERS || strstr(f->name, "deaf")) {
        close(fd);
        return;
    }
    int i = f->n_peers++;
    f->peers[i] = fd;
    f->lines[i] = cs_line_reader_new();
    cs_line_reader_limit(f->lines[i], 0);
    static const char garbage[] =
        "not JSON\n[1]\n{\"type\":\"runner.step\"}\n{\"type\":\"no.such\"}\n"
        "{\"type\":\"runner.state\",\"state\":\"DANCING\"}\n"
        "{\"type\":\"runner.state\",\"state\":\"QUEUED\"}\n\xff\xfe\n";
    if (strstr(f->name, "garbage"))
        (void)!write(fd, garbage, sizeof(garbage) - 1);
    json_t *hello = cs_msg_new("runner.hello");
    cs_msg_set_int(hello, "major", CS_PROTOCOL_MAJOR);
    cs_msg_set_int(hello, "minor", CS_PROTOCOL_MINOR);
    cs_msg_set_int(hello, "job", f->job);
    cs_msg_set_int(hello, "pid", getpid());
    cs_msg_set_int(hello, "generation", f->generation);
    send_line(f, i, hello);
    json_decref(hello);
}

static void obey(struct fake *f, int peer, const json_t *msg)
{
    const char *type = cs_msg_type(msg);
    if (strcmp(type, "runner.status") == 0) {
        json_t *status = state_message(f, "runner.status");
        cs_msg_set_int(status, "id", cs_msg_id(msg));
        cs_msg_set_bool(status, "reply", true);
        send_line(f, peer, status);
        json_decref(status);
    } else if (strcmp(type, "runner.pause") == 0) {
        f->is_pausing = true;
    } else if (strcmp(type, "runner.stop") == 0) {
        f->is_stopping = strstr(f->name, "overtaken") == NULL; /* it ends for a pause already */
        f->is_now = cs_msg_bool(msg, "now", false);
    } else if (strcmp(type, "runner.checkpoint") == 0) {
        f->checkpoint_step = f->done - 1;
        json_t *note = cs_msg_new("runner.note");
        cs_msg_set_str(note, "level", "info");
        cs_msg_set_str(note, "text", "checkpoint written");
        cs_msg_set_int(note, "wall_ns", cs_wall_ns());
        tell(f, note, true);
    }
}

static void hear(struct fake *f, int peer)
{
    char bytes[4096];
    struct cs_err err;
    json_t *msg = NULL;
    ssize_t n = read(f->peers[peer], bytes, sizeof(bytes));
    if (n <= 0) {
        close(f->peers[peer]);
        cs_line_reader_free(f->lines[peer]);
        f->n_peers--;
        f->peers[peer] = f->peers[f->n_peers];
        f->lines[peer] = f->lines[f->n_peers];
        return;
    }
    CS_ASSERT(cs_line_feed(f->lines[peer], bytes, (size_t)n, &err) == CS_OK);
    while (cs_line_next(f->lines[peer], &msg, &err) == CS_OK && msg) {
        obey(f, peer, msg);
        json_decref(msg);
    }
}

static void serve(struct fake *f, int64_t until_ns)
{
    for (int64_t left; (left = until_ns - cs_now_ns()) > 0;) {
        struct pollfd fds[MAX_PEERS + 1] = {
            {.fd = f->listener, .events = POLLIN}
        };
        for (int i = 0; i < f->n_peers; i++)
            fds[i + 1] = (struct pollfd){.fd = f->peers[i], .events = POLLIN};
        int n = f->n_peers;
        if (poll(fds, (nfds_t)n + 1, (int)(left / 1000000) + 1) <= 0)
            continue;
        for (int i = n; i > 0; i--)
            if (fds[i].revents)
                hear(f, i - 1);
        if (fds[0].revents)
            welcome(f);
        if (f->is_stopping || f->is_pausing)
            return;
    }
}

/* Steps it may do by now. */
static int64_t allowed(const struct fake *f)
{
    char path[CS_PATH_CAP];
    struct cs_buf text = {0};
    struct cs_err err;
    int64_t n = option(f, "gate=", INT64_MAX);
    if (n == INT64_MAX)
        return n;
    CS_ASSERT(cs_path(path, &err, "%s/go", f->dir) == CS_OK);
    if (cs_read_file(path, 100, &text, &err) == CS_OK)
        n = strtoll(cs_buf_str(&text), NULL, 10);
    cs_buf_free(&text);
    return n;
}

static void do_step(struct fake *f)
{
    json_t *msg = cs_msg_new("runner.step");
    cs_msg_set_int(msg, "step", f->done);
    cs_msg_set_str(msg, "kind", "train");
    cs_msg_set_num(msg, "loss", 10.0 / (double)(f->done + 1));
    cs_msg_set_int(msg, "tokens", 100);
    cs_msg_set_int(msg, "samples", 8);
    cs_msg_set_int(msg, "step_ns", 1000000);
    cs_msg_set_int(msg, "wall_ns", cs_wall_ns());
    tell(f, msg, true);
    for (int64_t i = 0; i < option(f, "flood=", 0); i++) {
        size_t bytes = (size_t)option(f, "big=", 20);
        char *text = malloc(bytes + 1);
        CS_ASSERT(text != NULL);
        memset(text, 'x', bytes);
        text[bytes] = '\0';
        json_t *note = cs_msg_new("runner.note");
        cs_msg_set_str(note, "level", "info");
        cs_msg_set_str(note, "text", text);
        tell(f, note, false);
        free(text);
    }
    f->done++;
    if (f->done <= option(f, "alarm=", 0)) {
        json_t *state = state_message(f, "runner.state");
        tell(f, loss_alarm(cs_msg_new("runner.note"), f->done), true);
        write_state_file(f, state);
        json_decref(state);
    }
    if (f->done == option(f, "kill=", -1))
        raise(SIGKILL);
    if (f->done == option(f, "quit=", -1))
        _exit((int)option(f, "code=", 0));
}

static void run(struct fake *f)
{
    int64_t ms = option(f, "ms=", 2);
    set_state(f, "STARTING");
    while (strstr(f->name, "hold") && f->n_peers == 0)
        serve(f, cs_now_ns() + 10000000);
    set_state(f, "RUN");
    while (f->done < f->steps && !f->is_stopping && !f->is_pausing) {
        const bool is_held = f->done >= allowed(f);
        serve(f, cs_now_ns() + (is_held ? 5 : ms) * 1000000);
        if (!f->is_stopping && !f->is_pausing && !is_held)
            do_step(f);
    }
    if (!f->is_now)
        f->checkpoint_step = f->done - 1;
    if (f->done < f->steps)
        set_state(f, f->is_stopping ? "STOPPING" : "PAUSING");
    set_state(f, f->done >= f->steps ? "DONE" : f->is_stopping ? "CANCELLED" : "PAUSED");
}

static bool has_file(const struct fake *f, const char *name)
{
    char path[CS_PATH_CAP];
    return cs_path(path, NULL, "%s/%s", f->dir, name) == CS_OK && access(path, F_OK) == 0;
}

int main(int argc, char **argv)
{
    struct fake f = {.checkpoint_step = -1, .listener = -1, .state = "STARTING"};
    char path[CS_PATH_CAP];
    struct cs_err err;
    int lock = -1;
    bool is_check = false;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--job") == 0 && i + 1 < argc)
            f.job = atoll(argv[++i]);
        else if (strcmp(argv[i], "--socket") == 0 && i + 1 < argc)
            f.socket = argv[++i];
        else if ((strcmp(argv[i], "--lease") == 0 || strcmp(argv[i], "--devices") == 0) &&
                 i + 1 < argc)
            i++;
        else if (strcmp(argv[i], "--lock") == 0 && i + 1 < argc)
            lock = atoi(argv[++i]);
        else if (strcmp(argv[i], "--check") == 0)
            is_check = true;
        else if (argv[i][0] != '-')
            f.dir = argv[i];
    }
    CS_ASSERT(f.dir && (f.socket || is_check) && f.job > 0);
    signal(SIGPIPE, SIG_IGN);
    json_t *spec = read_json(&f, "spec.json"), *state = read_json(&f, "state.json");
    CS_ASSERT(spec != NULL);
    snprintf(f.name, sizeof(f.name), "%s", cs_msg_str(spec, "name", ""));
    f.steps = cs_msg_int(spec, "steps", 1);
    f.generation = cs_msg_int(state, "generation", -1) + 1;
    f.checkpoint_step = cs_msg_int(state, "checkpoint_step", -1);
    f.done = f.checkpoint_step + 1;
    json_decref(spec);
    json_decref(state);
    while (is_check && strstr(f.name, "look") && !has_file(&f, "look"))
        usleep(1000);
    if (is_check && strstr(f.name, "unfit"))
        fprintf(stderr, "cornstarch-runner: the only checkpoint is damaged\n");
    if (is_check)
        return strstr(f.name, "unfit") ? 3 : 0;
    if (lock == -1)
        lock = open(f.dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    while (strstr(f.name, "asleep") && allowed(&f) == 0)
        usleep(5000);
    if (flock(lock, LOCK_EX | LOCK_NB) == -1 || strstr(f.name, "refuse")) {
        fprintf(stderr, "cornstarch-runner: the plan differs from the previewed one\n");
        return 4;
    }
    CS_ASSERT(cs_path(path, &err, "%s/journal", f.dir) == CS_OK);
    f.journal = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    CS_ASSERT(f.journal != -1);
    usleep((useconds_t)option(&f, "late=", 0) * 1000);
    if (!strstr(f.name, "nosocket"))
        listen_here(&f);
    run(&f);
    unlink(f.socket);
    for (int i = 0; i < f.n_peers; i++)
        cs_line_reader_free(f.lines[i]);
    return 0;
}
