/* Tells what happens to a job in sentences and one progress line. */
#include "console/screen/plain.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "console/draw/fmt.h"
#include "core/base/say.h"
#include "core/base/str.h"
#include "core/base/units.h"
#include "core/wire/alarm.h"
#include "core/wire/wire.h"

enum { BAR_CELLS = 24, TWENTIETHS = 20 };

struct cs_plain {
    FILE *out;
    bool has_bar, is_bar_drawn;
    int cols, bar_width;
    int64_t job, steps;
    char state[16];
    int64_t twentieth; /* last one that was told, -1 none */
    double mean_ns;    /* moving average of the step time, 0 none */
    double wait_ns;    /* the same of what the rank that waits longest waits for data */
    json_t *sources;   /* of the last training step that had some, NULL none */
};

struct cs_plain *cs_plain_new(FILE *out, bool has_bar, int cols)
{
    struct cs_plain *plain = calloc(1, sizeof *plain);
    CS_ASSERT(plain);
    *plain = (struct cs_plain){
        .out = out, .has_bar = has_bar, .cols = cols > 0 ? cols : 80, .twentieth = -1};
    return plain;
}

static void clear_bar(struct cs_plain *plain)
{
    if (plain->is_bar_drawn)
        fprintf(plain->out, "\r%*s\r", plain->bar_width, "");
    plain->is_bar_drawn = false;
}

void cs_plain_free(struct cs_plain *plain)
{
    if (!plain)
        return;
    if (plain->is_bar_drawn)
        fputc('\n', plain->out);
    fflush(plain->out);
    json_decref(plain->sources);
    free(plain);
}

/* text of peers, made harmless */
static void put_line(struct cs_plain *plain, const char *text)
{
    struct cs_buf line = {0};
    cs_str_escape(&line, text, strlen(text), false);
    clear_bar(plain);
    cs_say(plain->out, "%s\n", cs_buf_str(&line));
    fflush(plain->out);
    cs_buf_free(&line);
}

void cs_plain_say(struct cs_plain *plain, const char *fmt, ...)
{
    char text[CS_STORE_LINE * 4];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    put_line(plain, text);
}

void cs_plain_job(struct cs_plain *plain, const json_t *job)
{
    const char *state = cs_msg_str(job, "state", ""), *reason = cs_msg_str(job, "reason", "");
    int64_t id = cs_msg_int(job, "id", 0);
    plain->steps = cs_msg_int(job, "steps", plain->steps);
    if (id == plain->job && strcmp(state, plain->state) == 0)
        return;
    plain->job = id;
    cs_str_copy(plain->state, sizeof plain->state, state);
    cs_plain_say(plain, "job %lld (%s) is %s%s%s", (long long)id, cs_msg_str(job, "name", "-"),
                 state, reason[0] ? ": " : ".", reason);
}

static int64_t left_ns(const struct cs_plain *plain, int64_t done)
{
    double left = (double)(plain->steps - done) * plain->mean_ns;
    return plain->steps >= done && plain->mean_ns > 0 && left < 9e18 ? (int64_t)left : -1;
}

/* ", balance loss 2.01" of experts; "" where none is trained */
static const char *balance_text(char out[64], const json_t *step)
{
    char loss[CS_FMT_CAP];
    out[0] = '\0';
    if (json_object_get(step, "aux_loss") == NULL)
        return out;
    cs_fmt_known_loss(loss, sizeof loss, cs_msg_num(step, "aux_loss", (double)NAN));
    snprintf(out, 64, ", balance loss %s", loss);
    return out;
}

static void draw_bar(struct cs_plain *plain, int64_t done, const json_t *step)
{
    char loss[CS_FMT_CAP], ms[CS_FMT_CAP], eta[CS_FMT_CAP], bar[BAR_CELLS + 1], text[256], more[64];
    double share = plain->steps > 0 ? (double)done / (double)plain->steps : 0;
    int full = share >= 1 ? BAR_CELLS : share > 0 ? (int)(share * BAR_CELLS) : 0;
    memset(bar, '#', (size_t)full);
    memset(bar + full, '.', (size_t)(BAR_CELLS - full));
    bar[BAR_CELLS] = '\0';
    cs_fmt_known_loss(loss, sizeof loss, cs_msg_num(step, "loss", (double)NAN));
    cs_fmt_ms(ms, sizeof ms, plain->mean_ns > 0 ? plain->mean_ns : (double)NAN);
    cs_fmt_elapsed(eta, sizeof eta, left_ns(plain, done));
    snprintf(text, sizeof text, "[%s] %3d%%  step %lld/%lld  loss %s%s  %s ms/step  eta %s", bar,
             (int)(share * 100), (long long)done, (long long)plain->steps, loss,
             balance_text(more, step), ms, eta);
    if ((int)strlen(text) > plain->cols - 1 && plain->cols > 1)
        text[plain->cols - 1] = '\0';
    clear_bar(plain);
    plain->bar_width = (int)strlen(text);
    plain->is_bar_drawn = true;
    cs_say(plain->out, "%s", text);
    fflush(plain->out);
}

static void say_step(struct cs_plain *plain, int64_t done, const json_t *step)
{
    char loss[CS_FMT_CAP], time[CS_UNITS_CAP], left[CS_UNITS_CAP] = "", more[64];
    cs_fmt_known_loss(loss, sizeof loss, cs_msg_num(step, "loss", (double)NAN));
    cs_duration_print(time, sizeof time, (uint64_t)(plain->mean_ns > 0 ? plain->mean_ns : 0));
    if (plain->steps > done && left_ns(plain, done) >= 0)
        cs_duration_print(left, sizeof left, (uint64_t)left_ns(plain, done));
    cs_plain_say(plain, "step %lld of %lld: loss %s%s, %s per step%s%s", (long long)done,
                 (long long)plain->steps, loss, balance_text(more, step), time,
                 left[0] ? ", about " : "", left[0] ? strcat(left, " left") : "");
}

/* "  loss by source: coco 1.21, alpaca 0.87" */
static void say_sources(struct cs_plain *plain, const char *label, const json_t *sources)
{
    struct cs_buf text = {0};
    char loss[CS_FMT_CAP];
    const char *name = NULL;
    json_t *one = NULL;
    json_object_foreach((json_t *)(uintptr_t)sources, name, one)
    {
        cs_fmt_known_loss(loss, sizeof loss, cs_msg_num(one, "loss", (double)NAN));
        cs_buf_addf(&text, "%s%s %s", text.len > 0 ? ", " : label, name, loss);
    }
    if (text.len > 0)
        put_line(plain, cs_buf_str(&text));
    cs_buf_free(&text);
}

static void say_eval(struct cs_plain *plain, int64_t done, const json_t *step)
{
    char loss[CS_FMT_CAP];
    int64_t samples = cs_msg_int(step, "samples", 0), correct = cs_msg_int(step, "correct", 0);
    cs_fmt_known_loss(loss, sizeof loss, cs_msg_num(step, "loss", (double)NAN));
    if (samples > 0)
        cs_plain_say(plain, "evaluation after step %lld: exact match %.3f (%lld of %lld), loss %s",
                     (long long)done, (double)correct / (double)samples, (long long)correct,
                     (long long)samples, loss);
    else
        cs_plain_say(plain, "evaluation after step %lld: loss %s", (long long)done, loss);
    say_sources(plain, "  loss by source: ", cs_msg_obj(step, "sources"));
}

void cs_plain_step(struct cs_plain *plain, const json_t *step)
{
    int64_t number = cs_msg_int(step, "step", -1), done = number + (number < INT64_MAX);
    double step_ns = (double)cs_msg_int(step, "step_ns", 0);
    if (done < 1)
        return;
    if (strcmp(cs_msg_str(step, "kind", "train"), "eval") == 0) {
        say_eval(plain, done, step);
        return;
    }
    if (cs_msg_obj(step, "sources") != NULL) {
        json_decref(plain->sources);
        plain->sources = json_incref(json_object_get(step, "sources"));
    }
    if (step_ns > 0) {
        const double wait_ns = 1e3 * (double)cs_msg_int(step, "data_wait_us", 0);
        const double keeps = plain->mean_ns > 0 ? 0.9 : 0;
        plain->mean_ns = keeps * plain->mean_ns + (1 - keeps) * step_ns;
        plain->wait_ns =
            0.9 * plain->wait_ns + 0.1 * wait_ns; /* in the first all waits for the feeder */
    }
    if (plain->has_bar) {
        draw_bar(plain, done, step);
        return;
    }
    int64_t at = plain->steps > 0 ? (int64_t)((double)done / (double)plain->steps * TWENTIETHS) : 0;
    if (at != plain->twentieth)
        say_step(plain, done, step);
    plain->twentieth = at;
}

void cs_plain_note(struct cs_plain *plain, const json_t *note)
{
    struct cs_buf text = {0};
    if (cs_msg_str(note, "rule", "")[0])
        cs_alarm_print(&text, note);
    else
        cs_buf_addf(&text, "%s: %s", cs_msg_str(note, "level", "info"),
                    cs_msg_str(note, "text", ""));
    put_line(plain, cs_buf_str(&text));
    cs_buf_free(&text);
}

void cs_plain_message(struct cs_plain *plain, const json_t *msg)
{
    const char *type = cs_msg_type(msg);
    if (strcmp(type, "event.job") == 0 && cs_msg_obj(msg, "job"))
        cs_plain_job(plain, cs_msg_obj(msg, "job"));
    else if (strcmp(type, "event.step") == 0)
        cs_plain_step(plain, msg);
    else if (strcmp(type, "event.note") == 0)
        cs_plain_note(plain, msg);
    else if (strcmp(type, "gap") == 0)
        cs_plain_say(plain, "%lld %s dropped: this console was too slow",
                     (long long)cs_msg_int(msg, "count", 0),
                     CS_NOUN(cs_msg_int(msg, "count", 0), "message was", "messages were"));
}

/* --- report ----------------------------------------------------------------------------------- */

static void report_times(struct cs_plain *plain, const struct cs_store *store,
                         const struct cs_store_job *job)
{
    char predicted[CS_UNITS_CAP] = "unknown", measured[CS_UNITS_CAP] = "unknown";
    int64_t predicted_ns =
        store->predicted.arena ? store->predicted.spans.makespan_ns : job->predicted_step_ns;
    if (predicted_ns > 0)
        cs_duration_print(predicted, sizeof predicted, (uint64_t)predicted_ns);
    if (plain->mean_ns > 0 || job->step_ns > 0) /* of the last steps, where they were watched */
        cs_duration_print(measured, sizeof measured,
                          plain->mean_ns > 0 ? (uint64_t)plain->mean_ns : (uint64_t)job->step_ns);
    cs_plain_say(plain, "  step time    predicted %s%s, measured %s", predicted,
                 store->is_calibrated     ? " (calibrated)"
                 : store->is_uncalibrated ? " (not calibrated)"
                                          : "",
                 measured);
}

/* Why a step takes longer than it was predicted to: predictions know of no wait for data. */
static void report_data_wait(struct cs_plain *plain)
{
    static const double worth_telling = 0.1;
    char wait[CS_UNITS_CAP], step[CS_UNITS_CAP];
    if (!(plain->wait_ns > worth_telling * plain->mean_ns))
        return;
    cs_duration_print(wait, sizeof wait, (uint64_t)plain->wait_ns);
    cs_duration_print(step, sizeof step, (uint64_t)plain->mean_ns);
    cs_plain_say(plain,
                 "  data         ranks wait for it %s of %s a step, and predictions do not count "
                 "that: raise "
                 "data_threads where cores are idle, give smaller pictures, or keep them decoded "
                 "(cache of cs.data)",
                 wait, step);
}

/* idle share of a rank beside the work of all its stages */
static double rank_bubble(const struct cs_store *store, const struct cs_timeline *timeline,
                          int32_t rank)
{
    double bubble = 1;
    for (int32_t s = 0; s < store->n_stages; s++)
        if (store->stages[s].rank == rank)
            bubble -= 1 - cs_timeline_stage(timeline, s, rank).bubble;
    return bubble < 0 ? 0 : bubble;
}

/* the first stage of its rank names all that the rank has */
static bool list_stages(const struct cs_store *store, int32_t first, struct cs_buf *names)
{
    const int32_t rank = store->stages[first].rank;
    cs_buf_reset(names);
    for (int32_t s = 0; s < store->n_stages; s++) {
        if (store->stages[s].rank != rank)
            continue;
        if (s < first)
            return false;
        cs_buf_addf(names, "%s%s", s > first ? ", " : "", store->stages[s].name);
    }
    return true;
}

static void report_bubbles(struct cs_plain *plain, const struct cs_store *store)
{
    struct cs_buf names = {0};
    for (int32_t s = 0; s < store->n_stages; s++) {
        char was[CS_FMT_CAP], plan[CS_FMT_CAP];
        const int32_t rank = store->stages[s].rank;
        if (!list_stages(store, s, &names))
            continue;
        cs_fmt_percent(was, sizeof was, rank_bubble(store, &store->measured, rank));
        cs_fmt_percent(plan, sizeof plan, rank_bubble(store, &store->predicted, rank));
        cs_plain_say(plain, "  bubble       %-12s rank %d  measured %s, predicted %s",
                     cs_buf_str(&names), rank, was, plan);
    }
    cs_buf_free(&names);
}

static void report_alarms(struct cs_plain *plain, const json_t *alarms)
{
    for (size_t i = 0; i < json_array_size(alarms); i++) {
        struct cs_buf text = {0};
        cs_buf_adds(&text, i ? "               " : "  alarms       ");
        cs_alarm_print(&text, json_array_get(alarms, i));
        put_line(plain, cs_buf_str(&text));
        cs_buf_free(&text);
    }
}

void cs_plain_report(struct cs_plain *plain, struct cs_store *store, const struct cs_plain_end *end)
{
    const struct cs_store_job *job = cs_store_selected(store);
    char loss[CS_FMT_CAP];
    if (!job)
        return;
    cs_store_adopt_trace(store);
    cs_fmt_known_loss(loss, sizeof loss, job->loss);
    cs_plain_say(plain, "job %lld (%s): %s%s%s", (long long)job->id, job->name, job->state,
                 job->reason[0] ? ": " : "", job->reason);
    if (job->steps >= 0)
        cs_plain_say(plain, "  steps        %lld of %lld",
                     (long long)(job->step > 0 ? job->step : 0), (long long)job->steps);
    cs_plain_say(plain, "  loss         %s", loss);
    say_sources(plain, "  by source    ", plain->sources);
    if (isfinite(job->exact_match))
        cs_plain_say(plain, "  held-out exact match: %.2f", job->exact_match);
    report_times(plain, store, job);
    report_data_wait(plain);
    char energy[120];
    cs_fmt_energy(energy, sizeof energy, job->energy_mj, job->step_energy_mj, job->tokens_per_j);
    if (energy[0])
        cs_plain_say(plain, "  energy       %s (of its GPUs)", energy);
    report_bubbles(plain, store);
    report_alarms(plain, end->alarms);
    if (end->result_dir)
        cs_plain_say(plain, "  result       %s", end->result_dir);
    if (end->next_command)
        cs_plain_say(plain, "next: %s", end->next_command);
}
