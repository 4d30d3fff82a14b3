/* Says where ranks are and who is to blame: a dead or stuck rank is named with its step, action and
 * samples, read from its ring. */
#include "runner/processes/blame.h"

#include <stdio.h>
#include <string.h>

#include "core/base/units.h"
#include "core/sched/span_keys.h"
#include "core/wire/wire.h"
#include "runner/processes/guilt.h"
#include "runner/processes/procstat.h"
#include "runner/state/records.h"
#include "runner/steps/step_reports.h"

void cs_blame_name(const struct cs_runner *r, const struct cs_child *child, char *out, size_t cap)
{
    if (child->rank < 0)
        snprintf(out, cap, "the feeder");
    else
        cs_run_rank_name(r->generation.plan, child->rank, out, cap);
}

/* The action a ring head shows, in words; false when it shows none. */
static bool action_of(struct cs_runner *r, const struct cs_child *child, char *out, size_t cap)
{
    const struct cs_step_report *report = cs_step_report_current(r, child);
    const struct cs_span_keys *keys = NULL;
    int32_t action = atomic_load(&child->ring.head->action);
    if (action < 0)
        action = atomic_load(&child->ring.head->comm_action);
    if (action < 0)
        return false;
    int slots = report ? (int)report->slots : r->generation.plan->slots;
    if (cs_keys_get(&r->generation.keys, slots, report && report->is_eval, &keys, NULL) != CS_OK ||
        (uint32_t)action >= keys[child->rank].n)
        return false;
    cs_program_key_text(&keys[child->rank].key[action], out, cap);
    return true;
}

static void samples_of(const struct cs_child *child, char *out, size_t cap)
{
    size_t n = 0;
    out[0] = '\0';
    for (int i = 0; i < 4 && n < cap; i++) {
        const unsigned long long id = atomic_load(&child->ring.head->last_samples[i]);
        if (id > 0)
            n += (size_t)snprintf(out + n, cap - n, "%s %llu", n == 0 ? ", samples" : "", id - 1);
    }
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

static void describe(struct cs_runner *r, const struct cs_child *child, char *out, size_t cap)
{
    char name[260], where[400];
    const bool is_ending = !child->has_exited && cs_procstat(child->pid).is_ending;
    cs_blame_name(r, child, name, sizeof name);
    cs_blame_where(r, child, where, sizeof where);
    const char *last = child->log ? cs_logfile_last(child->log) : "";
    const char *says = last[0] ? "; its last output: " : "";
    if (cs_guilt_is_stopped(child))
        snprintf(out, cap, "%s stands still%s (the process is stopped); others waited in vain",
                 name, where);
    else if (child->has_exited && child->signal)
        snprintf(out, cap, "%s died (signal %d)%s%s%.200s", name, child->signal, where, says, last);
    else if (child->error.status != CS_OK)
        snprintf(out, cap, "%s failed%s: %.500s", name, where, child->error.text);
    else if (is_ending)
        snprintf(out, cap, "%s died%s, but its process does not come to its end%s%.200s", name,
                 where, says, last);
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

/* Where everybody was when it happened: who stands where names who waited for whom. */
static void note_last_actions(struct cs_runner *r)
{
    enum { MOST = 8 };

    char name[260], where[400];
    for (int i = 0; i < r->generation.n_ranks && i < MOST; i++) {
        if (r->child[i].ring.head == NULL)
            continue;
        cs_blame_name(r, &r->child[i], name, sizeof name);
        cs_blame_where(r, &r->child[i], where, sizeof where);
        cs_run_note(r, CS_INFO, "last action of %s:%s", name, where);
    }
}

enum cs_status cs_blame(struct cs_runner *r, const struct cs_child *child, const char *text,
                        struct cs_err *err)
{
    if (r->culprit == NULL)
        note_last_actions(r);
    json_decref(r->culprit);
    r->culprit = culprit_of(r, child, text);
    return cs_fail(err, CS_JOB_FAILED, "%s", text);
}

/* Others that did not end because of the culprit, and, of one that has only lost the others, who is still there. */
static void add_others(const struct cs_runner *r, const struct cs_child *culprit, char *out,
                       size_t cap)
{
    const bool is_victim = cs_guilt_of(culprit) <= CS_GUILT_VICTIM;
    const struct cs_child *first = NULL;
    char name[260], more[40] = "";
    int n = 0;
    for (int i = 0; i <= r->generation.n_ranks; i++) {
        const struct cs_child *child = &r->child[i];
        const bool is_one = is_victim ? child->rank >= 0 && cs_guilt_is_quiet(child)
                                      : cs_guilt_of(child) >= CS_GUILT_FAILED;
        if (child == culprit || !is_one)
            continue;
        first = first != NULL ? first : child;
        n++;
    }
    if (n == 0)
        return;
    cs_blame_name(r, first, name, sizeof name);
    if (n > 1)
        snprintf(more, sizeof more, " and %d more", n - 1);
    if (is_victim)
        snprintf(out, cap, "; %s%s still %s, without a word", name, more,
                 CS_NOUN(n, "runs", "run"));
    else
        snprintf(out, cap, "; %s%s failed beside it", name, more);
}

enum cs_status cs_blame_decide(struct cs_runner *r, struct cs_err *err)
{
    const struct cs_child *worst = cs_guilt_worst(r);
    if (worst == NULL)
        return CS_OK;
    char text[1300];
    describe(r, worst, text, 900);
    add_others(r, worst, text + strlen(text), sizeof text - strlen(text));
    return cs_blame(r, worst, text, err);
}
