/* Opens the history and makes it agree with the job directories. */
#include "server/life/history.h"

#include <errno.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/base/str.h"
#include "core/base/system/clock.h"
#include "core/base/units.h"
#include "core/wire/wire.h"
#include "server/jobs/job.h"
#include "server/jobs/job_dir.h"
#include "server/jobs/journal.h"
#include "server/life/job_spec.h"
#include "server/records/record.h"

enum { MAX_JOBS = 10000 };

/* --- the file --------------------------------------------------------------------------------- */

/* PATH.WORD-SECONDS, -2, -3, ... behind it until nothing has that name: what was kept before stays. */
static enum cs_status free_name(const char *path, const char *word, char out[CS_PATH_CAP],
                                struct cs_err *err)
{
    const long long seconds = cs_wall_ns() / 1000000000;
    struct stat sb;
    CS_TRY(cs_path(out, err, "%s.%s-%lld", path, word, seconds));
    for (int i = 2; lstat(out, &sb) == 0; i++)
        CS_TRY(cs_path(out, err, "%s.%s-%lld-%d", path, word, seconds, i));
    return CS_OK;
}

/* Kept for who wants to look, its log with it. */
static enum cs_status set_aside(const char *path, const char *word, char kept[CS_PATH_CAP],
                                struct cs_err *err)
{
    static const char *const parts[] = {"", "-wal", "-shm"};
    char from[CS_PATH_CAP], to[CS_PATH_CAP];
    CS_TRY(free_name(path, word, kept, err));
    for (size_t i = 0; i < CS_ARRAY_LEN(parts); i++) {
        CS_TRY(cs_path(from, err, "%s%s", path, parts[i]));
        CS_TRY(cs_path(to, err, "%s%s", kept, parts[i]));
        if (rename(from, to) == -1 && errno != ENOENT)
            return cs_fail_errno(err, "moving %s away", from);
    }
    return CS_OK;
}

static enum cs_status open_file(const char *path, struct cs_db **out, struct cs_err *err)
{
    struct stat sb;
    if (stat(path, &sb) == 0 && !S_ISREG(sb.st_mode))
        return cs_fail(err, CS_CORRUPT, "%s is not a file", path);
    return cs_db_open(path, out, err);
}

enum cs_status cs_history_open(struct cs_server *server, struct cs_err *err)
{
    char path[CS_PATH_CAP], kept[CS_PATH_CAP];
    CS_TRY(cs_path(path, err, "%s/history.db", server->state_dir));
    if (server->config.is_rebuild)
        CS_TRY(set_aside(path, "before-rebuild", kept, err));
    enum cs_status status = open_file(path, &server->db, err);
    if (status != CS_CORRUPT)
        return status;
    const struct cs_err why = *err;
    CS_TRY(set_aside(path, "damaged", kept, err));
    cs_log(server->log, CS_WARN, "history.damaged", CS_KV("error", (const char *)why.text),
           CS_KV("kept", (const char *)kept));
    snprintf(server->warning, sizeof server->warning, "the history was damaged and is kept as %s",
             strrchr(kept, '/') + 1);
    return open_file(path, &server->db, err);
}

/* --- a job from its directory ----------------------------------------------------------------- */

/* The owner of the directory submitted the job, when its specification was written. */
static void guess_origin(struct cs_job_row *row)
{
    char path[CS_PATH_CAP];
    struct stat sb;
    if (cs_path(path, NULL, "%s/spec.json", row->dir) != CS_OK || stat(path, &sb) == -1)
        return;
    const struct passwd *user = getpwuid(sb.st_uid);
    cs_str_copy(row->owner, sizeof row->owner, user ? user->pw_name : "?");
    row->submitted_ns = (int64_t)sb.st_mtim.tv_sec * 1000000000 + sb.st_mtim.tv_nsec;
}

/* A directory without a record: one of an older release, or damaged. */
static void guess_row(struct cs_server *server, const json_t *document, struct cs_job_row *row)
{
    struct cs_spec *spec;
    struct cs_err err;
    struct cs_arena *arena = cs_arena_new(0);
    json_t *state = cs_job_dir_get(row->dir, "state.json", 1 << 20);
    const struct cs_job_state_row *last = cs_job_state_find(cs_msg_str(state, "state", ""));
    guess_origin(row);
    cs_str_copy(row->name, sizeof row->name, cs_msg_str(document, "name", ""));
    row->steps = cs_msg_int(document, "steps", 0);
    if (cs_spec_read(document, arena, &spec, &err) != CS_OK ||
        cs_job_spec_take(server, spec, 0, row, &err) != CS_OK)
        cs_log(server->log, CS_WARN, "job.guess", CS_KV("job", row->id),
               CS_KV("error", (const char *)err.text));
    cs_arena_free(arena);
    row->generation = cs_msg_int(state, "generation", 0);
    row->checkpoint_step = cs_msg_int(state, "checkpoint_step", -1);
    row->exit_code = cs_msg_int(state, "exit", 0);
    cs_str_copy(row->plan_hash, sizeof row->plan_hash,
                cs_msg_str(state, "plan_hash", row->plan_hash));
    cs_str_copy(row->state, sizeof row->state,
                cs_job_state_row(last ? last->state : CS_STATE_LOST)->name);
    cs_str_copy(row->reason, sizeof row->reason,
                last ? cs_msg_str(state, "reason", "")
                     : "its record is lost; resume goes on from the newest checkpoint");
    json_decref(state);
}

/* CS_NOT_FOUND: it holds no job */
static enum cs_status read_directory(struct cs_server *server, struct cs_job_row *row,
                                     struct cs_err *err)
{
    json_t *spec = cs_job_dir_get(row->dir, "spec.json", CS_SPEC_MAX_BYTES);
    if (!spec)
        return cs_fail(err, CS_NOT_FOUND, "%s holds no job: its spec.json cannot be read",
                       row->dir);
    if (cs_record_read(row->dir, row, err) != CS_OK)
        guess_row(server, spec, row);
    json_decref(spec);
    return CS_OK;
}

static enum cs_status take_in(struct cs_server *server, int64_t id, struct cs_err *err)
{
    struct cs_job_row row;
    cs_row_init(&row);
    row.id = id;
    CS_TRY(cs_job_dir_path(server, id, row.dir, err));
    CS_TRY(read_directory(server, &row, err));
    CS_TRY(cs_db_job_put(server->db, &row, true, err));
    struct cs_job *job = cs_job_add(server, &row);
    CS_TRY(cs_journal_import_notes(job, err));
    CS_TRY(cs_journal_import(job, err));
    cs_job_note(job, "warn", "taken in from its directory: the history did not know it");
    cs_job_save(job);
    return CS_OK;
}

/* --- all of them ------------------------------------------------------------------------------ */

/* Of a job in the database the directory's record holds: the index may be an old copy, or the daemon
 * died between the two. The state directory may have moved. */
static void load_one(void *user, const struct cs_job_row *row)
{
    struct cs_server *server = user;
    struct cs_job *job = cs_job_add(server, row);
    struct cs_err err;
    enum cs_status status = cs_job_dir_path(server, row->id, job->row.dir, &err);
    if (status == CS_OK && cs_job_dir_is_there(&job->row))
        status = cs_record_read(job->row.dir, &job->row, &err);
    if (status == CS_NOT_FOUND) /* of an older release */
        status = cs_record_write(job->row.dir, &job->row, &err);
    if (status != CS_OK)
        cs_log(server->log, CS_WARN, "job.record", CS_KV("job", row->id),
               CS_KV("error", (const char *)err.text));
    if (cs_job_is_recent(job))
        cs_journal_remember(job);
}

static int by_id(const void *a, const void *b)
{
    const struct cs_job *const *x = a, *const *y = b;
    return ((*x)->row.id > (*y)->row.id) - ((*x)->row.id < (*y)->row.id);
}

static enum cs_status take_in_missing(struct cs_server *server, const int64_t *number, size_t n,
                                      int64_t *taken, struct cs_err *err)
{
    struct cs_err why;
    *taken = 0;
    for (size_t i = 0; i < n; i++) {
        bool has;
        CS_TRY(cs_db_has_job(server->db, number[i], &has, err));
        if (has)
            continue;
        if (take_in(server, number[i], &why) == CS_OK)
            ++*taken;
        else
            cs_log(server->log, CS_WARN, "job.adopt", CS_KV("job", number[i]),
                   CS_KV("error", (const char *)why.text));
    }
    return CS_OK;
}

static void tell_taken(struct cs_server *server, int64_t taken)
{
    const size_t used = strlen(server->warning), cap = sizeof server->warning;
    if (taken > 0) {
        snprintf(server->warning + used, cap - used,
                 "%s%lld job%s missing in the history and taken in from %s", used ? "; " : "",
                 (long long)taken, CS_NOUN(taken, " was", "s were"),
                 CS_NOUN(taken, "its directory", "their directories"));
        cs_log(server->log, CS_WARN, "history.rebuilt", CS_KV("jobs", taken));
    }
}

enum cs_status cs_history_load(struct cs_server *server, struct cs_err *err)
{
    int64_t *number, taken;
    size_t n;
    CS_TRY(cs_job_dir_scan(server, &number, &n, err));
    enum cs_status status = cs_db_jobs(server->db, MAX_JOBS, load_one, server, err);
    if (status == CS_OK)
        status = take_in_missing(server, number, n, &taken, err);
    free(number);
    CS_TRY(status);
    tell_taken(server, taken);
    if (server->n_jobs > 0)
        qsort(server->jobs, server->n_jobs, sizeof(struct cs_job *), by_id);
    return CS_OK;
}
