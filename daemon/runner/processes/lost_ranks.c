/* Notices ranks that die (their pidfd becomes readable) and ranks that stand still (their ring shows
 * no progress). */
#include "runner/processes/lost_ranks.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "runner/processes/blame.h"
#include "runner/processes/output.h"
#include "runner/state/alarms.h"
#include "runner/state/records.h"

static const int64_t second_ns = 1000000000;

enum { STOPPED_SECONDS = 5, FAIL_FACTOR = 10, STEP_FACTOR = 10 };

static void on_death(evutil_socket_t fd, short what, void *user)
{
    (void)what;
    struct cs_child *child = user;
    siginfo_t info = {0};
    if (waitid((idtype_t)P_PIDFD, (id_t)fd, &info, WEXITED | WNOHANG) == -1 || info.si_pid == 0)
        return;
    cs_conn_drain(child->conn); /* its last words came before its end */
    cs_output_read(child);
    child->has_exited = true;
    if (info.si_code == CLD_EXITED)
        child->exit_code = info.si_status;
    else
        child->signal = info.si_status;
    event_del(child->exit_event);
    cs_log(child->runner->log, CS_INFO, "child.exit", CS_KV("rank", child->rank),
           CS_KV("code", child->exit_code), CS_KV("signal", child->signal));
    child->runner->calls->on_ended(child);
}

void cs_lost_ranks_add(struct cs_child *child)
{
    child->exit_event =
        event_new(child->runner->base, child->pidfd, EV_READ | EV_PERSIST, on_death, child);
    CS_ASSERT(child->exit_event != NULL);
    event_add(child->exit_event, NULL);
}

void cs_lost_ranks_remove(struct cs_child *child)
{
    if (child->exit_event != NULL)
        event_free(child->exit_event);
    child->exit_event = NULL;
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
    for (int i = 0; i < r->generation.n_ranks; i++) {
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
    struct cs_child *feeder = &r->child[r->generation.n_ranks];
    if (!is_anyone_in_action && feeder->pid > 0 && !feeder->is_done)
        return feeder;
    return computes ? computes : oldest;
}

static enum cs_status tell_stuck(struct cs_runner *r, struct cs_child *child, int64_t still_ns,
                                 int64_t limit_ns, struct cs_err *err)
{
    char name[260], where[400], text[900];
    cs_blame_name(r, child, name, sizeof name);
    cs_blame_where(r, child, where, sizeof where);
    snprintf(text, sizeof text, "%s stands still%s for %lld s%s", name, where,
             (long long)(still_ns / second_ns),
             process_state(child->pid) == 'T' ? " (the process is stopped)" : "");
    if (still_ns > FAIL_FACTOR * limit_ns)
        return cs_blame(r, child, text, err);
    if (!child->is_hang_told) {
        child->is_hang_told = true;
        cs_run_alarm(r, CS_ALERT_STANDSTILL, CS_WARN, r->last_step + 1, "%s", text);
    }
    return CS_OK;
}

enum cs_status cs_lost_ranks_look(struct cs_runner *r, struct cs_err *err)
{
    int64_t now_ns = cs_now_ns(), youngest_ns = INT64_MAX;
    int64_t limit_ns = STEP_FACTOR * r->slowest_ns;
    limit_ns = r->options->hang_ns > limit_ns ? r->options->hang_ns : limit_ns;
    for (int i = 0; i < r->generation.n_ranks; i++) {
        const struct cs_child *child = &r->child[i];
        if (child->has_exited || child->is_done)
            continue;
        int64_t still_ns = age_ns(r, child, now_ns);
        youngest_ns = still_ns < youngest_ns ? still_ns : youngest_ns;
        if (still_ns > STOPPED_SECONDS * second_ns && process_state(child->pid) == 'T')
            CS_TRY(tell_stuck(r, &r->child[i], still_ns, limit_ns, err));
    }
    if (youngest_ns == INT64_MAX)
        return CS_OK;
    if (youngest_ns > limit_ns)
        return tell_stuck(r, find_stuck(r, now_ns), youngest_ns, limit_ns, err);
    for (int i = 0; i <= r->generation.n_ranks && youngest_ns < second_ns; i++)
        r->child[i].is_hang_told = false;
    return CS_OK;
}
