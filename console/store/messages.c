/* The daemon's messages into the store: one row per type. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "console/store/store.h"
#include "core/base/str.h"
#include "core/base/units.h"
#include "core/wire/alarm.h"
#include "core/wire/wire.h"

static const int64_t max_step = (int64_t)1 << 53; /* what the schema allows; sums stay in range */

static double mean_of(const json_t *list)
{
    double sum = 0, value;
    size_t n = 0;
    for (size_t i = 0; i < json_array_size(list); i++)
        if (cs_json_to_num(json_array_get(list, i), &value) && isfinite(value)) {
            sum += value;
            n++;
        }
    return n ? sum / (double)n : (double)NAN;
}

static void read_alarms(struct cs_store_job *job, const json_t *alarms)
{
    struct cs_buf text = {0};
    const json_t *worst = cs_alarm_worst(alarms);
    enum cs_log_level level;
    job->n_alarms = (int)json_array_size(alarms);
    if (worst == NULL)
        return;
    cs_alarm_print(&text, worst);
    cs_str_copy(job->alarm, sizeof job->alarm, cs_buf_str(&text));
    job->alarm_level =
        cs_log_level_parse(cs_msg_str(worst, "level", ""), &level) ? (int)level : CS_WARN;
    cs_buf_free(&text);
}

static void read_labels(struct cs_store_job *job, const json_t *o)
{
    const json_t *tags = cs_msg_arr(o, "tags");
    size_t used = 0;
    job->tags[0] = '\0';
    for (size_t i = 0; i < json_array_size(tags) && used < sizeof job->tags; i++)
        used += (size_t)snprintf(job->tags + used, sizeof job->tags - used, "%s%s", i ? " " : "",
                                 json_string_value(json_array_get(tags, i)));
    cs_str_copy(job->note, sizeof job->note, cs_msg_str(o, "note", ""));
}

static struct cs_store_job *read_job(struct cs_store *store, const json_t *o)
{
    int64_t id = cs_msg_int(o, "id", 0);
    if (id < 1)
        return NULL;
    struct cs_store_job *job = cs_store_job_at(store, id);
    job->ended_ns = job->stopped_ns = 0;
    cs_str_copy(job->name, sizeof job->name, cs_msg_str(o, "name", job->name[0] ? job->name : "-"));

    const struct {
        char *to;
        size_t cap;
        const char *key;
    } texts[] = {
        {job->state,     sizeof job->state,     "state"    },
        {job->owner,     sizeof job->owner,     "owner"    },
        {job->reason,    sizeof job->reason,    "reason"   },
        {job->dir,       sizeof job->dir,       "dir"      },
        {job->spec_hash, sizeof job->spec_hash, "spec_hash"},
        {job->plan_hash, sizeof job->plan_hash, "plan_hash"},
    };

    for (size_t i = 0; i < CS_ARRAY_LEN(texts); i++) {
        cs_str_copy(texts[i].to, texts[i].cap, cs_msg_str(o, texts[i].key, ""));
    }

    const struct {
        int64_t *to;
        const char *key;
    } ints[] = {
        {&job->step,              "step"             },
        {&job->steps,             "steps"            },
        {&job->submitted_ns,      "submitted_ns"     },
        {&job->started_ns,        "started_ns"       },
        {&job->ended_ns,          "ended_ns"         },
        {&job->stopped_ns,        "stopped_ns"       },
        {&job->checkpoint_step,   "checkpoint_step"  },
        {&job->predicted_step_ns, "predicted_step_ns"},
        {&job->step_ns,           "step_ns"          },
        {&job->generation,        "generation"       },
        {&job->energy_mj,         "energy_mj"        },
        {&job->step_energy_mj,    "step_energy_mj"   },
    };

    for (size_t i = 0; i < CS_ARRAY_LEN(ints); i++)
        *ints[i].to = cs_msg_int(o, ints[i].key, *ints[i].to);
    job->loss = cs_msg_num(o, "loss", job->loss);
    job->exact_match = cs_msg_num(o, "exact_match", job->exact_match);
    job->bubble = cs_msg_num(o, "mean_bubble", job->bubble);
    job->tokens_per_j = cs_msg_num(o, "tokens_per_j", job->tokens_per_j);
    if (cs_msg_arr(o, "bubble"))
        job->bubble = mean_of(cs_msg_arr(o, "bubble"));
    job->place = cs_msg_int(o, "place", 0);
    read_labels(job, o);
    read_alarms(job, cs_msg_arr(o, "alarms"));
    return job;
}

static void on_jobs(struct cs_store *store, const json_t *msg)
{
    const json_t *jobs = cs_msg_arr(msg, "jobs");
    store->n_jobs = 0;
    for (size_t i = 0; i < json_array_size(jobs); i++)
        read_job(store, json_array_get(jobs, i));
}

/* A plan or a prediction other than the one that is shown: ask again. */
static void check_plan(struct cs_store *store, const struct cs_store_job *job)
{
    const char *shown = store->model.plan ? store->model.plan->hash : "";
    if (job && job->id == store->job && job->plan_hash[0] != '\0' &&
        (strcmp(job->plan_hash, shown) != 0 || job->predicted_step_ns != store->shown_step_ns))
        store->wants_show = true;
}

/* What a runner logs before the daemon has found it does not come live: with every new state the past
 * is asked for again. */
static void on_job_event(struct cs_store *store, const json_t *msg)
{
    const json_t *object = cs_msg_obj(msg, "job");
    const struct cs_store_job *known = cs_store_find(store, cs_msg_int(object, "id", 0));
    if (known && known->id == store->job &&
        strcmp(known->state, cs_msg_str(object, "state", "")) != 0)
        store->wants_past = true;
    check_plan(store, read_job(store, object));
}

/* A selected one stays shown as it was; nothing more comes about it. */
static void on_gone(struct cs_store *store, const json_t *msg)
{
    const int64_t id = cs_msg_int(msg, "job", 0);
    for (int i = 0; i < store->n_jobs; i++)
        if (store->jobs[i].id == id) {
            memmove(&store->jobs[i], &store->jobs[i + 1],
                    (size_t)(store->n_jobs - i - 1) * sizeof *store->jobs);
            store->n_jobs--;
            return;
        }
}

/* A daemon that knows no profiles sends a prediction that its costs do not explain. */
static void check_costs(struct cs_store *store, const struct cs_store_job *job)
{
    static const double alike = 1e-3;
    double ours = (double)store->predicted.spans.makespan_ns, its = (double)job->predicted_step_ns;
    store->is_uncalibrated = !store->is_calibrated && store->predicted.arena && ours > 0 &&
                             its > 0 && fabs(its / ours - 1) > alike;
}

static void on_show(struct cs_store *store, const json_t *msg)
{
    const struct cs_store_job *job = read_job(store, cs_msg_obj(msg, "job"));
    if (!job || job->id != store->job)
        return;
    store->wants_show = false;
    store->shown_step_ns = job->predicted_step_ns;
    cs_store_documents(store, cs_msg_obj(msg, "spec"), cs_msg_obj(msg, "plan"));
    cs_store_profile(store, cs_msg_obj(msg, "profile"));
    check_costs(store, job);
}

static bool is_selected(const struct cs_store *store, const json_t *msg)
{
    return store->job != 0 && cs_msg_int(msg, "job", store->job) == store->job;
}

void cs_store_step_message(struct cs_store *store, const json_t *msg, bool is_mine)
{
    bool is_eval = strcmp(cs_msg_str(msg, "kind", "train"), "eval") == 0;
    const struct cs_store_step step = {
        .step = cs_msg_int(msg, "step", -1),
        .step_ns = cs_msg_int(msg, "step_ns", 0),
        .tokens = cs_msg_int(msg, "tokens", 0),
        .trained_tokens = cs_msg_int(msg, "trained_tokens", 0),
        .samples = cs_msg_int(msg, "samples", 0),
        .correct = cs_msg_int(msg, "correct", 0),
        .slots = cs_msg_int(msg, "slots", 0),
        .messages = cs_msg_int(msg, "messages_sent", 0),
        .bytes = cs_msg_int(msg, "bytes_sent", 0),
        .data_wait_us = cs_msg_int(msg, "data_wait_us", cs_msg_int(msg, "data_wait_ns", 0) / 1000),
        .wall_ns = cs_msg_int(msg, "wall_ns", 0),
        .loss = cs_msg_num(msg, "loss", (double)NAN),
        .grad_norm = cs_msg_num(msg, "grad_norm", (double)NAN),
        .aux_loss = cs_msg_num(msg, "aux_loss", (double)NAN),
        .lr = cs_msg_num(msg, "lr", (double)NAN)};
    if (step.step < 0 || step.step > max_step)
        return;
    int64_t id = cs_msg_int(msg, "job", is_mine ? store->job : 0);
    struct cs_store_job *job =
        id > 0 && cs_store_find(store, id) ? cs_store_job_at(store, id) : NULL;
    if (job && is_eval && step.samples > 0)
        job->exact_match = (double)step.correct / (double)step.samples;
    if (job && !is_eval) {
        job->step = step.step + 1;
        job->loss = step.loss;
        job->step_ns = step.step_ns ? step.step_ns : job->step_ns;
        if (cs_msg_arr(msg, "bubble"))
            job->bubble = mean_of(cs_msg_arr(msg, "bubble"));
    }
    if (!is_mine)
        return;
    cs_metrics_add(&store->metrics, msg);
    *(is_eval ? &store->eval : &store->train) = step;
    if (!is_eval) {
        cs_store_context_message(store, msg);
        cs_series_put(store->loss, step.step, step.loss);
        if (step.step_ns > 0)
            cs_series_put(store->step_ms, step.step, (double)step.step_ns / 1e6);
    }
}

static void on_step(struct cs_store *store, const json_t *msg)
{
    cs_store_step_message(store, msg, is_selected(store, msg));
}

static int find_column(const json_t *columns, const char *name)
{
    for (size_t i = 0; i < json_array_size(columns); i++) {
        const char *text = json_string_value(json_array_get(columns, i));
        if (text && strcmp(text, name) == 0)
            return (int)i;
    }
    return -1;
}

static double cell(const json_t *row, int column)
{
    double value;
    return column >= 0 && cs_json_to_num(json_array_get(row, (size_t)column), &value) ? value
                                                                                      : (double)NAN;
}

static void on_metrics(struct cs_store *store, const json_t *msg)
{
    const json_t *columns = cs_msg_arr(msg, "columns"), *rows = cs_msg_arr(msg, "rows");
    int step_at = find_column(columns, "step"), kind_at = find_column(columns, "kind");
    int loss_at = find_column(columns, "loss"), ms_at = find_column(columns, "step_ms");
    for (size_t i = 0; i < json_array_size(rows) && step_at >= 0; i++) {
        const json_t *row = json_array_get(rows, i);
        const json_t *step = json_array_get(row, (size_t)step_at);
        const char *kind =
            kind_at < 0 ? NULL : json_string_value(json_array_get(row, (size_t)kind_at));
        if (!json_is_integer(step) || json_integer_value(step) < 0 ||
            json_integer_value(step) > max_step || (kind && strcmp(kind, "train") != 0) ||
            json_integer_value(step) <= cs_series_last_step(store->loss))
            continue; /* what arrived live meanwhile is newer */
        cs_series_put(store->loss, json_integer_value(step), cell(row, loss_at));
        if (isfinite(cell(row, ms_at)))
            cs_series_put(store->step_ms, json_integer_value(step), cell(row, ms_at));
    }
    cs_store_metrics_rows(&store->metrics, msg);
}

static void on_spans(struct cs_store *store, const json_t *msg)
{
    const json_t *rows = cs_msg_arr(msg, "spans");
    if (!is_selected(store, msg) || store->n_stages == 0 || store->is_measured_held)
        return;
    int64_t slots = cs_msg_int(msg, "slots", store->model.plan ? store->model.plan->slots : 1);
    if (cs_timeline_rows(&store->measured, rows, cs_msg_int(msg, "step", 0),
                         slots < 1 || slots > 65536 ? 1 : (int32_t)slots, store->n_ranks,
                         store->n_stages, store->model.plan, store->model.graph, NULL) == CS_OK) {
        cs_timeline_waits(&store->measured, cs_msg_arr(msg, "waits"));
        cs_store_measured(store);
    }
}

static void on_log(struct cs_store *store, const json_t *msg)
{
    const char *line = cs_msg_str(msg, "line", "");
    if (is_selected(store, msg))
        cs_lines_add_log(&store->logs, (int32_t)cs_msg_int(msg, "rank", -2), line, strlen(line),
                         false);
}

/* What was logged before; asked for after the selection, and again where something was lost. */
static void on_logs(struct cs_store *store, const json_t *msg)
{
    const json_t *lines = cs_msg_arr(msg, "lines");
    cs_lines_begin_past(&store->logs);
    for (size_t i = 0; i < json_array_size(lines); i++) {
        const json_t *row = json_array_get(lines, i), *text = json_array_get(row, 1);
        if (json_is_string(text))
            cs_lines_add_log(&store->logs, (int32_t)json_integer_value(json_array_get(row, 0)),
                             json_string_value(text), json_string_length(text), true);
    }
}

static void add_note(struct cs_store *store, int64_t wall_ns, const char *level, const char *text,
                     bool is_past)
{
    struct cs_lines_new note = {.rank = -3,
                                .level = CS_INFO,
                                .wall_ns = wall_ns,
                                .text = text,
                                .n = strlen(text),
                                .is_past = is_past};
    if (!cs_log_level_parse(level, &note.level) && strcmp(level, "warning") == 0)
        note.level = CS_WARN; /* of an older daemon */
    cs_lines_add(&store->notes, &note);
}

static void on_note(struct cs_store *store, const json_t *msg)
{
    if (is_selected(store, msg))
        add_note(store, cs_msg_int(msg, "wall_ns", store->now_ns), cs_msg_str(msg, "level", "info"),
                 cs_msg_str(msg, "text", ""), false);
}

static void on_events(struct cs_store *store, const json_t *msg)
{
    const json_t *events = cs_msg_arr(msg, "events");
    cs_lines_begin_past(&store->notes);
    for (size_t i = 0; i < json_array_size(events); i++) {
        const json_t *row = json_array_get(events, i);
        const char *level = json_string_value(json_array_get(row, 1));
        const char *text = json_string_value(json_array_get(row, 2));
        if (level && text)
            add_note(store, json_integer_value(json_array_get(row, 0)), level, text, true);
    }
}

static void on_gap(struct cs_store *store, const json_t *msg)
{
    int64_t count = cs_msg_int(msg, "count", 0);
    char text[96];
    if (count > 0 && count <= max_step && store->n_gaps <= max_step)
        store->n_gaps += count;
    const int n = snprintf(text, sizeof text, "%lld %s dropped: this console was too slow",
                           (long long)count, CS_NOUN(count, "message was", "messages were"));
    store->wants_past = true;
    cs_lines_add(
        &store->logs,
        &(struct cs_lines_new){
            .rank = -3, .level = CS_WARN, .wall_ns = store->now_ns, .text = text, .n = (size_t)n});
}

static void on_hello(struct cs_store *store, const json_t *msg)
{
    cs_str_copy(store->node, sizeof store->node, cs_msg_str(msg, "node", ""));
}

static void on_node(struct cs_store *store, const json_t *msg)
{
    struct cs_here here;
    on_hello(store, msg);
    if (cs_here_read(cs_msg_str(msg, "here", ""), &here, NULL) == CS_OK)
        store->here = here;
    cs_store_gpus_message(store, msg);
}

static const struct {
    const char *type;
    bool is_reply;
    void (*handle)(struct cs_store *store, const json_t *msg);
} handlers[] = {
    {"hello.ok",    true,  on_hello             },
    {"node.show",   true,  on_node              },
    {"jobs.list",   true,  on_jobs              },
    {"job.show",    true,  on_show              },
    {"job.metrics", true,  on_metrics           },
    {"job.events",  true,  on_events            },
    {"job.logs",    true,  on_logs              },
    {"event.job",   false, on_job_event         },
    {"event.gone",  false, on_gone              },
    {"event.step",  false, on_step              },
    {"event.spans", false, on_spans             },
    {"event.log",   false, on_log               },
    {"event.note",  false, on_note              },
    {"event.gpus",  false, cs_store_gpus_message},
    {"gap",         false, on_gap               },
};

void cs_store_message(struct cs_store *store, const json_t *msg)
{
    for (size_t i = 0; i < CS_ARRAY_LEN(handlers); i++) {
        if (strcmp(cs_msg_type(msg), handlers[i].type) != 0 ||
            cs_msg_is_reply(msg) != handlers[i].is_reply)
            continue;
        handlers[i].handle(store, msg);
        store->version++;
        return;
    }
}
