/* Trace files and job directories into the store. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "console/store/store.h"
#include "core/base/str.h"
#include "core/base/system/io.h"
#include "core/trace/tracefile.h"
#include "core/wire/line.h"
#include "core/wire/wire.h"

enum { MAX_PROGRAMS = 64 };

static const size_t max_bytes = (size_t)1 << 30;
static const size_t adopt_bytes = (size_t)64 << 20; /* read while the screen waits */

struct replay {
    struct cs_store *store;
    struct cs_trace_head head;
    struct cs_arena *arena; /* head and programs */

    struct program {
        int32_t n_slots;
        const struct cs_span_keys *keys;
    } program[MAX_PROGRAMS];

    int n_programs, n_steps;
};

static const struct cs_span_keys *find_keys(const struct replay *replay, int32_t n_slots)
{
    for (int i = replay->n_programs - 1; i >= 0; i--)
        if (replay->program[i].n_slots == n_slots)
            return replay->program[i].keys;
    return NULL;
}

static void add_program(struct replay *replay, const struct cs_trace_record *record)
{
    if (replay->n_programs == MAX_PROGRAMS) { /* the one unused for longest */
        memmove(replay->program, replay->program + 1, (MAX_PROGRAMS - 1) * sizeof *replay->program);
        replay->n_programs--;
    }
    struct cs_span_keys *keys = CS_NEW_ARRAY(replay->arena, struct cs_span_keys, record->n_ranks);
    for (int32_t r = 0; r < record->n_ranks; r++) {
        struct cs_span_key *key =
            CS_NEW_ARRAY(replay->arena, struct cs_span_key, record->keys[r].n);
        if (record->keys[r].n)
            memcpy(key, record->keys[r].key, record->keys[r].n * sizeof *key);
        keys[r] = (struct cs_span_keys){key, record->keys[r].n};
    }
    replay->program[replay->n_programs++] = (struct program){record->n_slots, keys};
}

/* stages name the ranks of the first replica */
static int32_t replicas_of(const struct cs_trace_head *head)
{
    int32_t ranks = 1;
    for (int32_t s = 0; s < head->n_stages; s++)
        ranks = head->stage[s].rank >= ranks ? head->stage[s].rank + 1 : ranks;
    return head->n_ranks / ranks;
}

static void add_step(struct replay *replay, const struct cs_trace_record *record)
{
    struct cs_store *store = replay->store;
    const struct cs_span_keys *keys = find_keys(replay, record->n_slots);
    bool is_predicted = record->type == CS_TRACE_PREDICTED;
    struct cs_timeline *to = is_predicted ? &store->predicted : &store->measured;
    if (!keys || record->n_ranks != replay->head.n_ranks)
        return;
    const struct cs_span_input in = {.n_ranks = record->n_ranks,
                                     .n_stages = replay->head.n_stages,
                                     .replicas = replicas_of(&replay->head),
                                     .keys = keys,
                                     .events = record->events};
    cs_timeline_set(to, &in, is_predicted ? -1 : record->step, record->n_slots);
    if (is_predicted) { /* again, with measured costs: no longer what planning said */
        store->is_calibrated =
            replay->head.predicted_ns > 0 && to->spans.makespan_ns != replay->head.predicted_ns;
        return;
    }
    cs_store_measured(store);
    replay->n_steps++;
    store->train.step = record->step;
    store->train.step_ns = to->spans.makespan_ns;
    store->train.slots = record->n_slots;
    store->train.wall_ns = store->now_ns = record->wall_ns;
    cs_series_put(store->step_ms, record->step, (double)to->spans.makespan_ns / 1e6);
}

static void add_record(struct replay *replay, const struct cs_trace_record *record)
{
    if (record->type == CS_TRACE_PROGRAM)
        add_program(replay, record);
    else if (record->type == CS_TRACE_STEP || record->type == CS_TRACE_PREDICTED)
        add_step(replay, record);
}

static void set_head(struct replay *replay)
{
    struct cs_store *store = replay->store;
    const struct cs_trace_head *head = &replay->head;
    struct cs_store_job *job = cs_store_job_at(store, 1);
    store->is_replay = store->is_connected = true;
    cs_str_copy(store->node, sizeof store->node, "replay");
    cs_str_copy(job->name, sizeof job->name, "trace");
    cs_str_copy(job->state, sizeof job->state, "REPLAY");
    cs_str_copy(job->spec_hash, sizeof job->spec_hash, head->spec_hash);
    cs_str_copy(job->plan_hash, sizeof job->plan_hash, head->plan_hash);
    job->generation = head->generation;
    job->predicted_step_ns = head->predicted_ns;
    cs_store_select(store, job->id);
    cs_store_stages(store, head->n_stages, head->n_ranks);
    for (int32_t s = 0; s < head->n_stages; s++) {
        cs_str_copy(store->stages[s].name, sizeof store->stages[s].name, head->stage[s].name);
        store->stages[s].rank = head->stage[s].rank;
    }
}

enum cs_status cs_store_trace(struct cs_store *store, const void *bytes, size_t n,
                              struct cs_err *err)
{
    struct replay replay = {.store = store, .arena = cs_arena_new(0)};
    struct cs_trace_record record;
    size_t at = 0;
    enum cs_status status = cs_trace_head_decode(bytes, n, replay.arena, &replay.head, &at, err);
    if (status == CS_OK)
        set_head(&replay);
    while (status == CS_OK) {
        struct cs_arena *scratch = cs_arena_new(0);
        status = cs_trace_record_decode(bytes, n, &at, scratch, &record, err);
        if (status == CS_OK)
            add_record(&replay, &record);
        cs_arena_free(scratch);
    }
    cs_arena_free(replay.arena);
    if (status != CS_NOT_FOUND) /* the end of the file */
        return status;
    struct cs_store_job *job = cs_store_job_at(store, store->job);
    job->step = store->train.step + 1;
    job->step_ns = store->train.step_ns;
    store->version++;
    return replay.n_steps > 0 || store->predicted.arena
               ? CS_OK
               : cs_fail(err, CS_NOT_FOUND, "the trace holds no step yet");
}

/* --- the rest of a job directory -------------------------------------------------------------- */

static json_t *read_json(const char *dir, const char *name)
{
    char path[CS_PATH_CAP];
    struct cs_buf text = {0};
    json_t *out = NULL;
    if (cs_path(path, NULL, "%s/%s", dir, name) == CS_OK &&
        cs_read_file(path, CS_LINE_MAX, &text, NULL) == CS_OK)
        (void)!cs_line_parse(cs_buf_str(&text), text.len, &out, NULL);
    cs_buf_free(&text);
    return out;
}

/* Only documents that belong to the trace: plans change between generations. */
static void read_documents(struct cs_store *store, const char *dir)
{
    json_t *spec = read_json(dir, "spec.json"), *plan = read_json(dir, "plan.json");
    struct cs_store_job *job = cs_store_job_at(store, store->job);
    const char *hash = plan ? cs_msg_str(plan, "hash", "") : "";
    if (plan && strcmp(hash, job->plan_hash) != 0) {
        json_decref(plan);
        plan = NULL;
    }
    if (spec) {
        json_t *profile = read_json(dir, "profile.json");
        cs_store_documents(store, spec, plan);
        cs_store_profile(store, profile);
        json_decref(profile);
        cs_str_copy(job->name, sizeof job->name, cs_msg_str(spec, "name", job->name));
        job->steps = cs_msg_int(spec, "steps", job->steps);
    }
    json_decref(spec);
    json_decref(plan);
}

static void read_lines(struct cs_store *store, const char *path,
                       void (*take)(struct cs_store *store, const char *line, size_t n,
                                    int32_t rank),
                       int32_t rank)
{
    struct cs_buf text = {0};
    if (cs_read_file(path, max_bytes, &text, NULL) == CS_OK) {
        const char *at = cs_buf_str(&text), *end = at + text.len, *newline;
        while (at < end && (newline = memchr(at, '\n', (size_t)(end - at)))) {
            take(store, at, (size_t)(newline - at), rank);
            at = newline + 1;
        }
    }
    cs_buf_free(&text);
}

/* A runner's row is the event that a daemon would make of it. */
static void take_row(struct cs_store *store, const char *line, size_t n, int32_t rank)
{
    json_t *msg = NULL;
    (void)rank;
    if (cs_line_parse(line, n, &msg, NULL) != CS_OK)
        return;
    if (strcmp(cs_msg_type(msg), "runner.step") == 0) {
        json_object_del(msg, "job");
        cs_store_step_message(store, msg, true);
    } else if (strcmp(cs_msg_type(msg), "runner.note") == 0) {
        json_object_set_new(msg, "type", json_string("event.note"));
        json_object_del(msg, "job");
        cs_store_message(store, msg);
    }
    json_decref(msg);
}

static void take_log(struct cs_store *store, const char *line, size_t n, int32_t rank)
{
    cs_lines_add_log(&store->logs, rank, line, n, false);
}

/* what the daemon noted itself: messages, in the log a line as those of programs */
static void take_daemon_note(struct cs_store *store, const char *line, size_t n, int32_t rank)
{
    json_t *note = json_loadb(line, n, 0, NULL);
    const char *text = cs_msg_str(note, "text", NULL);
    struct cs_lines_new add = {.rank = rank,
                               .level = CS_INFO,
                               .wall_ns = cs_msg_int(note, "wall_ns", 0),
                               .text = text,
                               .n = text ? strlen(text) : 0};
    (void)cs_log_level_parse(cs_msg_str(note, "level", ""), &add.level);
    if (text) {
        cs_lines_add(&store->logs, &add);
        cs_lines_add(&store->notes, &add);
    }
    json_decref(note);
}

static void read_logs(struct cs_store *store, const char *dir)
{
    char path[CS_PATH_CAP];
    if (cs_path(path, NULL, "%s/logs", dir) != CS_OK)
        return;
    struct dirent **entry = NULL;
    int n = scandir(path, &entry, NULL, versionsort);
    for (int i = 0; i < n; i++) {
        int64_t rank = 0;
        char name[64] = "";
        size_t len = strlen(entry[i]->d_name);
        bool is_log =
            len > 4 && len < sizeof name && strcmp(entry[i]->d_name + len - 4, ".log") == 0;
        if (is_log)
            memcpy(name, entry[i]->d_name, len - 4);
        bool is_rank = cs_str_to_i64(name, &rank) && rank >= 0 && rank < 65536;
        if (is_log && cs_path(path, NULL, "%s/logs/%s", dir, entry[i]->d_name) == CS_OK)
            read_lines(store, path, take_log,
                       is_rank                       ? (int32_t)rank
                       : strcmp(name, "feeder") == 0 ? -1
                                                     : -2);
        free(entry[i]);
    }
    free(entry);
}

/* Directories of jobs are named by their numbers. */
static void name_job(struct cs_store *store, const char *dir)
{
    char path[CS_PATH_CAP];
    int64_t id = 0;
    const char *slash = realpath(dir, path) ? strrchr(path, '/') : NULL;
    if (!slash || !cs_str_to_i64(slash + 1, &id) || id <= 0)
        return;
    cs_store_job_at(store, store->job)->id = id;
    store->job = id;
}

enum cs_status cs_store_replay(struct cs_store *store, const char *trace_path, struct cs_err *err)
{
    struct cs_buf bytes = {0};
    char dir[CS_PATH_CAP], path[CS_PATH_CAP];
    enum cs_status status = cs_read_file(trace_path, max_bytes, &bytes, err);
    if (status == CS_OK)
        status = cs_store_trace(store, bytes.data, bytes.len, err);
    cs_buf_free(&bytes);
    if (status != CS_OK)
        return cs_wrap(err, status, "replaying %s", trace_path);
    const char *slash = strrchr(trace_path, '/');
    if (slash)
        CS_TRY(cs_path(dir, err, "%.*s", (int)(slash - trace_path), trace_path));
    else
        CS_TRY(cs_path(dir, err, "."));
    if (dir[0] == '\0')
        CS_TRY(cs_path(dir, err, "/"));
    name_job(store, dir);
    read_documents(store, dir);
    CS_TRY(cs_path(path, err, "%s/journal", dir));
    read_lines(store, path, take_row, -2);
    if (cs_path(path, NULL, "%s/notes", dir) == CS_OK)
        read_lines(store, path, take_daemon_note, -3);
    read_logs(store, dir);
    store->version++;
    return CS_OK;
}

void cs_store_adopt_trace(struct cs_store *store)
{
    const struct cs_store_job *job = cs_store_selected(store);
    struct cs_buf bytes = {0};
    char path[CS_PATH_CAP];
    if (!job || !job->dir[0] || store->measured.arena || !store->model.plan)
        return;
    struct cs_store *file = cs_store_new();
    if (cs_path(path, NULL, "%s/trace", job->dir) == CS_OK &&
        cs_read_file(path, adopt_bytes, &bytes, NULL) == CS_OK &&
        cs_store_trace(file, bytes.data, bytes.len, NULL) == CS_OK &&
        strcmp(cs_store_selected(file)->plan_hash, store->model.plan->hash) == 0) {
        store->measured = file->measured;
        file->measured = (struct cs_timeline){.step = -1};
        for (int32_t i = 0; i < store->n_stages && i < file->n_stages; i++)
            store->stages[i].work_ns = file->stages[i].work_ns;
        store->version++;
    }
    cs_buf_free(&bytes);
    cs_store_free(file);
}
