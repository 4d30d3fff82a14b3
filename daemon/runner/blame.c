/* Where ranks are and who is to blame: a dead or stuck rank is named with its step, action and
 * samples, read from its ring. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/wire/wire.h"
#include "runner/parts.h"

static const int64_t second_ns = 1000000000;

enum { STOPPED_SECONDS = 5, FAIL_FACTOR = 10, STEP_FACTOR = 10 };

/* "rank 2 (llm.1)" or "the feeder" */
static void name_of(const struct cs_runner *r, const struct cs_child *child, char *out, size_t cap)
{
    if (child->rank < 0)
        snprintf(out, cap, "the feeder");
    else
        cs_job_rank_name(r->job.plan, child->rank, out, cap);
}

/* The action a ring head shows, in words; false when it shows none. */
static bool action_of(struct cs_runner *r, const struct cs_child *child, char *out, size_t cap)
{
    const struct cs_row *row = cs_rows_current(r, child);
    const struct cs_span_keys *keys = NULL;
    int32_t action = atomic_load(&child->ring.head->action);
    if (action < 0)
        action = atomic_load(&child->ring.head->comm_action);
    if (action < 0)
        return false;
    int slots = row ? (int)row->slots : r->job.plan->slots;
    if (cs_keys_get(&r->keys, slots, row && row->is_eval, &keys, NULL) != CS_OK ||
        (uint32_t)action >= keys[child->rank].n)
        return false;
    cs_span_key_text(&keys[child->rank].key[action], out, cap);
    return true;
}

static void samples_of(const struct cs_child *child, char *out, size_t cap)
{
    unsigned long long id[4];
    out[0] = '\0';
    for (int i = 0; i < 4; i++)
        id[i] = atomic_load(&child->ring.head->last_samples[i]);
    if (id[0] | id[1] | id[2] | id[3])
        snprintf(out, cap, ", samples %llu %llu %llu %llu", id[0], id[1], id[2], id[3]);
}

void cs_blame_where(struct cs_runner *r, const struct cs_child *child, char *out, size_t cap)
{
    char action[160], samples[120];
    if (child->rank < 0) {
        out[0] = '\0';
        return;
    }
    int64_t step = atomic_load(&child->ring.head->step);
    if (step < 0) {
        snprintf(out, cap, " before its first step");
        return;
    }
    samples_of(child, samples, sizeof samples);
    if (action_of(r, child, action, sizeof action))
        snprintf(out, cap, " in step %lld at %s%s", (long long)step, action, samples);
    else
        snprintf(out, cap, " in step %lld between two actions%s", (long long)step, samples);
}

/* How likely a child is the cause rather than a victim of another's end. */
static int guilt_of(const struct cs_child *child)
{
    enum cs_status status = child->error.status;
    bool has_ended_badly =
        child->has_exited && (child->signal || child->exit_code || !child->is_done);
    if (child->pid <= 0 || (status == CS_OK && !has_ended_badly))
        return 0;
    if (child->has_exited && child->signal)
        return 5;
    if (status == CS_OK)
        return 3; /* ended without a word */
    if (status == CS_INTERRUPTED)
        return 1;
    return status == CS_PEER_GONE || status == CS_TIMEOUT || status == CS_UNREACHABLE ? 2 : 4;
}

static void describe(struct cs_runner *r, const struct cs_child *child, char *out, size_t cap)
{
    char name[260], where[400];
    name_of(r, child, name, sizeof name);
    cs_blame_where(r, child, where, sizeof where);
    const char *last = child->log ? cs_logfile_last(child->log) : "";
    const char *says = last[0] ? "; its last output: " : "";
    if (child->has_exited && child->signal)
        snprintf(out, cap, "%s died (signal %d)%s%s%.200s", name, child->signal, where, says, last);
    else if (child->error.status != CS_OK)
        snprintf(out, cap, "%s failed%s: %.500s", name, where, child->error.text);
    else
        snprintf(out, cap, "%s ended with code %d%s%s%.200s", name, child->exit_code, where, says,
                 last);
}

static json_t *culprit_of(struct cs_runner *r, const struct cs_child *child, const char *text)
{
    json_t *out = json_object();
    char action[160];
    cs_msg_set_int(out, "rank", child->rank);
    cs_msg_set_int(out, "pid", child->pid);
    if (child->has_exited) {
        cs_msg_set_int(out, "exit", child->exit_code);
        cs_msg_set_int(out, "signal", child->signal);
    }
    if (child->rank >= 0) {
        cs_msg_set_int(out, "step", atomic_load(&child->ring.head->step));
        if (action_of(r, child, action, sizeof action))
            cs_msg_set_str(out, "action", action);
        else if (child->error_action[0])
            cs_msg_set_str(out, "action", child->error_action);
    }
    cs_msg_set_str(out, "text", text);
    return out;
}

static void blame(struct cs_runner *r, const struct cs_child *child, const char *text)
{
    struct cs_err err = {0};
    json_decref(r->culprit);
    r->culprit = culprit_of(r, child, text);
    (void)cs_fail(&err, CS_JOB_FAILED, "%s", text);
    cs_run_fail(r, &err);
}

void cs_blame_decide(struct cs_runner *r)
{
    const struct cs_child *worst = NULL;
    for (int i = 0; i <= r->n_ranks; i++)
        if (guilt_of(&r->child[i]) > (worst ? guilt_of(worst) : 0))
            worst = &r->child[i];
    if (!worst)
        return;
    char text[1000];
    describe(r, worst, text, sizeof text);
    blame(r, worst, text);
}

/* 'T' while a process is stopped, 0 when /proc does not say */
static char process_state(pid_t pid)
{
    char path[64], text[512];
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd == -1)
        return 0;
    ssize_t n = read(fd, text, sizeof text - 1);
    close(fd);
    text[n > 0 ? n : 0] = '\0';
    const char *name_end = strrchr(text, ')');
    return name_end && name_end[1] == ' ' ? name_end[2] : 0;
}

static int64_t age_ns(const struct cs_runner *r, const struct cs_child *child, int64_t now_ns)
{
    int64_t last_ns = (int64_t)atomic_load(&child->ring.head->progress_ns);
    return now_ns - (last_ns > r->go_ns ? last_ns : r->go_ns);
}

/* Of ranks that all stand still: the stopped one, else one that computes (the others wait for it),
 * else the one that stands longest; the feeder when every rank waits for data. */
static struct cs_child *find_stuck(struct cs_runner *r, int64_t now_ns)
{
    struct cs_child *computes = NULL, *oldest = NULL;
    bool is_anyone_in_action = false;
    for (int i = 0; i < r->n_ranks; i++) {
        struct cs_child *child = &r->child[i];
        if (child->has_exited || child->is_done)
            continue;
        bool is_computing = atomic_load(&child->ring.head->action) >= 0;
        bool is_in_comm = atomic_load(&child->ring.head->comm_action) >= 0;
        is_anyone_in_action = is_anyone_in_action || is_computing || is_in_comm;
        if (process_state(child->pid) == 'T')
            return child;
        if (is_computing && (!computes || age_ns(r, child, now_ns) > age_ns(r, computes, now_ns)))
            computes = child;
        if (!oldest || age_ns(r, child, now_ns) > age_ns(r, oldest, now_ns))
            oldest = child;
    }
    if (!is_anyone_in_action && cs_feeder(r)->pid > 0 && !cs_feeder(r)->is_done)
        return cs_feeder(r);
    return computes ? computes : oldest;
}

static void tell_stuck(struct cs_runner *r, struct cs_child *child, int64_t still_ns,
                       int64_t limit_ns)
{
    char name[260], where[400], text[900];
    name_of(r, child, name, sizeof name);
    cs_blame_where(r, child, where, sizeof where);
    snprintf(text, sizeof text, "%s stands still%s for %lld s%s", name, where,
             (long long)(still_ns / second_ns),
             process_state(child->pid) == 'T' ? " (the process is stopped)" : "");
    if (still_ns > FAIL_FACTOR * limit_ns) {
        blame(r, child, text);
    } else if (!child->is_hang_told) {
        child->is_hang_told = true;
        cs_run_note(r, CS_WARN, "%s", text);
    }
}

void cs_blame_watch(struct cs_runner *r)
{
    int64_t now_ns = cs_now_ns(), youngest_ns = INT64_MAX;
    int64_t limit_ns = STEP_FACTOR * r->slowest_ns;
    limit_ns = r->options->hang_ns > limit_ns ? r->options->hang_ns : limit_ns;
    for (int i = 0; i < r->n_ranks; i++) {
        const struct cs_child *child = &r->child[i];
        if (child->has_exited || child->is_done)
            continue;
        int64_t still_ns = age_ns(r, child, now_ns);
        youngest_ns = still_ns < youngest_ns ? still_ns : youngest_ns;
        if (still_ns > STOPPED_SECONDS * second_ns && process_state(child->pid) == 'T')
            tell_stuck(r, &r->child[i], still_ns, limit_ns);
    }
    if (youngest_ns == INT64_MAX)
        return;
    if (youngest_ns > limit_ns)
        tell_stuck(r, find_stuck(r, now_ns), youngest_ns, limit_ns);
    else if (youngest_ns < second_ns)
        for (int i = 0; i <= r->n_ranks; i++)
            r->child[i].is_hang_told = false;
}
