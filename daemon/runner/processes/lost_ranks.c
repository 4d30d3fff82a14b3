/* Notices ranks that die (their pidfd becomes readable) and ranks that stand still (their ring shows
 * no progress). */
#include "runner/processes/lost_ranks.h"

#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/system/clock.h"
#include "runner/processes/blame.h"
#include "runner/processes/output.h"
#include "runner/processes/procstat.h"
#include "runner/state/records.h"

static const int64_t second_ns = 1000000000;

enum { STOPPED_SECONDS = 5, FAIL_FACTOR = 10, STEP_FACTOR = 10, GAP_SECONDS = 4 };

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

static int64_t age_ns(const struct cs_runner *r, const struct cs_child *child, int64_t now_ns)
{
    int64_t last_ns = (int64_t)atomic_load(&child->ring.head->progress_ns);
    return now_ns - (last_ns > r->blame_from_ns ? last_ns : r->blame_from_ns);
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
        if (cs_procstat(child->pid).state == 'T')
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
             cs_procstat(child->pid).state == 'T' ? " (the process is stopped)" : "");
    if (still_ns > FAIL_FACTOR * limit_ns)
        return cs_blame(r, child, text, err);
    if (!child->is_hang_told) {
        child->is_hang_told = true;
        cs_run_alarm(r, CS_ALERT_STANDSTILL, CS_WARN, r->last_step + 1, "%s", text);
    }
    return CS_OK;
}

/* We look every second. Where much more has passed, it was us who stood still (stopped, swapped out, the
 * machine asleep), ranks waited for us, and nobody is blamed for that time. */
static void forgive_own_gap(struct cs_runner *r, int64_t now_ns)
{
    const int64_t gap_ns = now_ns - r->looked_ns;
    r->looked_ns = now_ns;
    if (gap_ns < GAP_SECONDS * second_ns)
        return;
    r->blame_from_ns = now_ns;
    cs_run_alarm(r, CS_ALERT_STANDSTILL, CS_INFO, r->last_step + 1,
                 "the runner itself stood still for %lld s: it was stopped, or its machine was "
                 "busy or asleep",
                 (long long)(gap_ns / second_ns));
}

/* Who the others wait for at the start, or at the end: all that are ready, or that have ended, wait. */
static bool is_awaited(const struct cs_runner *r, const struct cs_child *child)
{
    const bool is_start = r->go_ns == 0;
    return child->pid > 0 && !child->has_exited &&
           (is_start ? !child->is_ready : child->is_done && child->rank >= 0);
}

/* Returns whether it is a rank that others may wait for: it is busy. Who only waits has a tick or a fault now and then. */
static bool look_at_process(struct cs_runner *r, struct cs_child *child, int64_t now_ns)
{
    enum { BUSY = 3 };

    const struct cs_procstat now = cs_procstat(child->pid);
    const uint64_t more = now.activity - child->activity;
    child->is_stopped = now.state == 'T';
    if (more > 0 || child->active_ns <= r->blame_from_ns) {
        child->activity = now.activity;
        child->active_ns = now_ns;
        child->is_hang_told = false;
    }
    return child->rank >= 0 && more >= BUSY && !child->is_stopped;
}

/* Ranks wait for each other: while one is busy, none that waits stands still. */
static void forgive_waits(struct cs_runner *r, int64_t now_ns)
{
    for (int i = 0; i < r->generation.n_ranks; i++)
        if (is_awaited(r, &r->child[i]) && !r->child[i].is_stopped)
            r->child[i].active_ns = now_ns;
}

/* A process that gets ready, or that closes what it has, shows no steps: it stands still when neither it nor any rank
 * that it may wait for computes or reads. A stopped one is to blame rather than those that wait for it, however long
 * they do. */
static enum cs_status look_at_processes(struct cs_runner *r, int64_t now_ns, struct cs_err *err)
{
    struct cs_child *stuck = NULL;
    bool is_busy = false;
    for (int i = 0; i <= r->generation.n_ranks; i++)
        if (is_awaited(r, &r->child[i]))
            is_busy = look_at_process(r, &r->child[i], now_ns) || is_busy;
    if (is_busy)
        forgive_waits(r, now_ns);
    for (int i = 0; i <= r->generation.n_ranks; i++) {
        struct cs_child *child = &r->child[i];
        if (is_awaited(r, child) &&
            (stuck == NULL || child->is_stopped > stuck->is_stopped ||
             (child->is_stopped == stuck->is_stopped && child->active_ns < stuck->active_ns)))
            stuck = child;
    }
    if (stuck == NULL)
        return CS_OK;
    const int64_t limit_ns = r->options->hang_ns, soon_ns = STOPPED_SECONDS * second_ns;
    const int64_t patience_ns = stuck->is_stopped && soon_ns < limit_ns ? soon_ns : limit_ns;
    if (now_ns - stuck->active_ns <= patience_ns)
        return CS_OK;
    return tell_stuck(r, stuck, now_ns - stuck->active_ns, limit_ns, err);
}

static enum cs_status look_at_steps(struct cs_runner *r, int64_t now_ns, struct cs_err *err)
{
    int64_t youngest_ns = INT64_MAX, limit_ns = STEP_FACTOR * r->slowest_ns;
    limit_ns = r->options->hang_ns > limit_ns ? r->options->hang_ns : limit_ns;
    for (int i = 0; i < r->generation.n_ranks; i++) {
        const struct cs_child *child = &r->child[i];
        if (child->has_exited || child->is_done)
            continue;
        int64_t still_ns = age_ns(r, child, now_ns);
        youngest_ns = still_ns < youngest_ns ? still_ns : youngest_ns;
        if (still_ns > STOPPED_SECONDS * second_ns && cs_procstat(child->pid).state == 'T')
            CS_TRY(tell_stuck(r, &r->child[i], still_ns, limit_ns, err));
    }
    if (youngest_ns == INT64_MAX)
        return look_at_processes(r, now_ns, err);
    if (youngest_ns > limit_ns)
        return tell_stuck(r, find_stuck(r, now_ns), youngest_ns, limit_ns, err);
    for (int i = 0; i <= r->generation.n_ranks && youngest_ns < second_ns; i++)
        r->child[i].is_hang_told = false;
    return CS_OK;
}

enum cs_status cs_lost_ranks_look(struct cs_runner *r, struct cs_err *err)
{
    const int64_t now_ns = cs_now_ns();
    forgive_own_gap(r, now_ns);
    if (r->go_ns == 0)
        return look_at_processes(r, now_ns, err);
    r->blame_from_ns = r->go_ns > r->blame_from_ns ? r->go_ns : r->blame_from_ns;
    return look_at_steps(r, now_ns, err);
}
