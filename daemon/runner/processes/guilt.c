/* Tells causes from victims, by how processes ended and what they said. */
#include "runner/processes/guilt.h"

#include "runner/processes/procstat.h"

static const int64_t second_ns = 1000000000;

enum { ENDING_S = 60, VICTIMS_S = 3 };

bool cs_guilt_is_quiet(const struct cs_child *child)
{
    return child->pid > 0 && !child->has_exited && child->error.status == CS_OK;
}

bool cs_guilt_is_stopped(const struct cs_child *child)
{
    return cs_guilt_is_quiet(child) && cs_procstat(child->pid).state == 'T';
}

/* How is not known yet. */
static bool is_ending(const struct cs_child *child)
{
    return cs_guilt_is_quiet(child) && !child->is_done && cs_procstat(child->pid).is_ending;
}

static bool is_victim(enum cs_status status)
{
    return status == CS_PEER_GONE || status == CS_TIMEOUT || status == CS_UNREACHABLE;
}

static bool has_ended_badly(const struct cs_child *child)
{
    return child->has_exited && (child->exit_code != 0 || !child->is_done);
}

enum cs_guilt cs_guilt_of(const struct cs_child *child)
{
    if (child->pid <= 0)
        return CS_GUILT_NONE;
    if (child->has_exited && child->signal != 0)
        return CS_GUILT_DIED;
    if (child->error.status == CS_INTERRUPTED)
        return CS_GUILT_TOLD_TO_END;
    if (child->error.status != CS_OK)
        return is_victim(child->error.status) ? CS_GUILT_VICTIM : CS_GUILT_FAILED;
    return has_ended_badly(child) || cs_guilt_is_stopped(child) || is_ending(child)
               ? CS_GUILT_SILENT
               : CS_GUILT_NONE;
}

const struct cs_child *cs_guilt_worst(const struct cs_runner *r)
{
    const struct cs_child *worst = NULL;
    enum cs_guilt most = CS_GUILT_NONE;
    for (int i = 0; i <= r->generation.n_ranks; i++) {
        const enum cs_guilt guilt = cs_guilt_of(&r->child[i]);
        if (guilt <= most)
            continue;
        most = guilt;
        worst = &r->child[i];
    }
    return worst;
}

bool cs_guilt_is_open(const struct cs_runner *r, int64_t waited_ns)
{
    const struct cs_child *worst = cs_guilt_worst(r);
    bool is_one_ending = false, is_one_quiet = false;
    for (int i = 0; i <= r->generation.n_ranks; i++) {
        is_one_ending = is_one_ending || is_ending(&r->child[i]);
        is_one_quiet = is_one_quiet || cs_guilt_is_quiet(&r->child[i]);
    }
    if (worst == NULL)
        return false;
    if (is_one_ending)
        return waited_ns < ENDING_S * second_ns;
    return is_one_quiet && cs_guilt_of(worst) <= CS_GUILT_VICTIM &&
           waited_ns < VICTIMS_S * second_ns;
}
