/* Keeps the history in SQLite. Prepared statements are made on first use and kept; NaN binds as NULL,
 * which means unknown. */
#include "server/db.h"

#include <math.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/wire/wire.h"

enum { SCHEMA_VERSION = 2 };

static const char schema_sql[] =
    "CREATE TABLE IF NOT EXISTS job (id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL,"
    " state TEXT NOT NULL, owner TEXT NOT NULL, spec_hash TEXT, plan_hash TEXT, reason TEXT, dir "
    "TEXT,"
    " step INTEGER, steps INTEGER, submitted_ns INTEGER, started_ns INTEGER, ended_ns INTEGER,"
    " generation INTEGER, checkpoint_step INTEGER, predicted_step_ns INTEGER, step_ns INTEGER,"
    " exit_code INTEGER, ranks INTEGER, journal_offset INTEGER, loss REAL, exact_match REAL,"
    " device TEXT, gpus TEXT, energy_mj INTEGER, energy_steps INTEGER, energy_tokens INTEGER);"
    "CREATE TABLE IF NOT EXISTS step (job INTEGER NOT NULL REFERENCES job(id), step INTEGER NOT "
    "NULL,"
    " kind TEXT NOT NULL, loss REAL, loss_text TEXT, grad_norm REAL, lr REAL, step_ms REAL, bubble "
    "REAL,"
    " exact_match REAL, tokens INTEGER, trained_tokens INTEGER, samples INTEGER, wall_ns INTEGER,"
    " data_wait_us INTEGER, energy_mj INTEGER, PRIMARY KEY (job, step, kind)) WITHOUT ROWID;"
    "CREATE TABLE IF NOT EXISTS note (job INTEGER NOT NULL, wall_ns INTEGER, level TEXT, text "
    "TEXT);"
    "CREATE INDEX IF NOT EXISTS note_job ON note(job);";

/* from version 1, which knew no GPUs */
static const char upgrade_sql[] =
    "BEGIN; ALTER TABLE job ADD COLUMN device TEXT; ALTER TABLE job ADD COLUMN gpus TEXT;"
    "ALTER TABLE job ADD COLUMN energy_mj INTEGER; ALTER TABLE job ADD COLUMN energy_steps INTEGER;"
    "ALTER TABLE job ADD COLUMN energy_tokens INTEGER;"
    "ALTER TABLE step ADD COLUMN energy_mj INTEGER; PRAGMA user_version = 2; COMMIT;";

#define JOB_COLUMNS                                                                                \
    "name, state, owner, spec_hash, plan_hash, reason, dir, step, steps, submitted_ns, "           \
    "started_ns, "                                                                                 \
    "ended_ns, generation, checkpoint_step, predicted_step_ns, step_ns, exit_code, ranks, "        \
    "journal_offset, energy_mj, energy_steps, energy_tokens, device, gpus, loss, exact_match"

enum { Q_JOB_ADD, Q_JOB_SAVE, Q_JOBS, Q_STEP_PUT, Q_STEPS, Q_NOTE_ADD, Q_NOTES, Q_COUNT };

static const char *const sql[Q_COUNT] = {
    [Q_JOB_ADD] =
        "INSERT INTO job (" JOB_COLUMNS
        ") VALUES (?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11,?12,?13,?14,?15,?16,?17,?18,?19,?20,?21,"
        "?22,?23,?24,?25,?26)",
    [Q_JOB_SAVE] =
        "UPDATE job SET (" JOB_COLUMNS
        ") = (?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11,?12,?13,?14,?15,?16,?17,?18,?19,?20,?21,"
        "?22,?23,?24,?25,?26) WHERE id = ?27",
    [Q_JOBS] = "SELECT " JOB_COLUMNS ", id FROM job ORDER BY id DESC LIMIT ?1",
    [Q_STEP_PUT] = "INSERT OR REPLACE INTO step (job, step, kind, loss, loss_text, grad_norm, lr,"
                   " step_ms, bubble, exact_match, tokens, trained_tokens, samples, wall_ns,"
                   " data_wait_us, energy_mj)"
                   " VALUES (?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11,?12,?13,?14,?15,?16)",
    [Q_STEPS] =
        "SELECT step, kind, coalesce(loss_text, loss), grad_norm, lr, step_ms, bubble,"
        " exact_match, tokens, trained_tokens, samples, wall_ns, data_wait_us, energy_mj FROM step"
        " WHERE"
        " job = ?1 AND step > ?2 AND (step % ?3 = 0 OR kind = 'eval') ORDER BY step, kind DESC"
        " LIMIT ?4",
    [Q_NOTE_ADD] = "INSERT INTO note (job, wall_ns, level, text) VALUES (?1,?2,?3,?4)",
    [Q_NOTES] =
        "SELECT wall_ns, level, text FROM (SELECT rowid r, * FROM note WHERE job = ?1 ORDER BY"
        " rowid DESC LIMIT ?2) ORDER BY r",
};

static const char *const step_columns[] = {
    "step",        "kind",   "loss",           "grad_norm", "lr",      "step_ms",      "bubble",
    "exact_match", "tokens", "trained_tokens", "samples",   "wall_ns", "data_wait_us", "energy_mj"};

struct cs_db {
    sqlite3 *handle;
    sqlite3_stmt *query[Q_COUNT];
    bool is_full; /* synchronous=FULL is set */
};

static enum cs_status fail(const struct cs_db *db, const char *what, struct cs_err *err)
{
    int code = sqlite3_errcode(db->handle);
    return cs_fail(err, code == SQLITE_FULL ? CS_NO_SPACE : CS_IO, "database: %s: %s", what,
                   sqlite3_errmsg(db->handle));
}

static enum cs_status run(struct cs_db *db, const char *text, struct cs_err *err)
{
    if (sqlite3_exec(db->handle, text, NULL, NULL, NULL) != SQLITE_OK)
        return fail(db, "changing", err);
    return CS_OK;
}

/* Real damage stops us: going on would spread it. A torn log is no damage, SQLite cuts it. */
static enum cs_status check_pages(struct cs_db *db, struct cs_err *err)
{
    sqlite3_stmt *s = NULL;
    char found[200] = "";
    int rc = sqlite3_prepare_v2(db->handle, "PRAGMA quick_check(1)", -1, &s, NULL);
    if (rc == SQLITE_OK && sqlite3_step(s) == SQLITE_ROW)
        snprintf(found, sizeof(found), "%s", (const char *)sqlite3_column_text(s, 0));
    else
        snprintf(found, sizeof(found), "%s", sqlite3_errmsg(db->handle));
    sqlite3_finalize(s);
    if (strcmp(found, "ok") == 0)
        return CS_OK;
    return cs_fail(err, CS_CORRUPT,
                   "the history is damaged (%s); move it away to start with an empty one, the job "
                   "directories keep their journals and checkpoints",
                   found);
}

static enum cs_status check_version(struct cs_db *db, const char *path, struct cs_err *err)
{
    sqlite3_stmt *s = NULL;
    int version = -1;
    if (sqlite3_prepare_v2(db->handle, "PRAGMA user_version", -1, &s, NULL) == SQLITE_OK &&
        sqlite3_step(s) == SQLITE_ROW)
        version = sqlite3_column_int(s, 0);
    sqlite3_finalize(s);
    if (version < 0)
        return fail(db, "reading its version", err);
    if (version > SCHEMA_VERSION)
        return cs_fail(err, CS_UNSUPPORTED,
                       "%s was written by a newer cornstarchd (schema %d, this one knows %d)", path,
                       version, SCHEMA_VERSION);
    char text[64];
    if (version == 1)
        return run(db, upgrade_sql, err);
    snprintf(text, sizeof(text), "PRAGMA user_version = %d", SCHEMA_VERSION);
    return version == SCHEMA_VERSION ? CS_OK : run(db, text, err);
}

enum cs_status cs_db_open(const char *path, struct cs_db **out, struct cs_err *err)
{
    struct cs_db *db = calloc(1, sizeof *db);
    if (!db)
        return cs_fail(err, CS_NO_MEMORY, "no memory for the database");
    enum cs_status status = CS_OK;
    if (sqlite3_open(path, &db->handle) != SQLITE_OK)
        status = fail(db, "opening", err);
    sqlite3_busy_timeout(db->handle, 5000);
    if (status == CS_OK)
        status = run(db,
                     "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL; PRAGMA foreign_keys=ON;"
                     "PRAGMA wal_autocheckpoint=1000; PRAGMA trusted_schema=OFF",
                     err);
    if (status == CS_OK)
        status = check_pages(db, err);
    if (status == CS_OK)
        status = check_version(db, path, err);
    if (status == CS_OK)
        status = run(db, schema_sql, err);
    for (int i = 0; status == CS_OK && i < Q_COUNT; i++)
        if (sqlite3_prepare_v3(db->handle, sql[i], -1, SQLITE_PREPARE_PERSISTENT, &db->query[i],
                               NULL) != SQLITE_OK)
            status = fail(db, sql[i], err);
    if (status != CS_OK) {
        cs_db_close(db);
        return cs_wrap(err, status, "opening %s", path);
    }
    *out = db;
    return CS_OK;
}

void cs_db_close(struct cs_db *db)
{
    if (!db)
        return;
    for (int i = 0; i < Q_COUNT; i++)
        sqlite3_finalize(db->query[i]);
    sqlite3_close(db->handle);
    free(db);
}

static void bind_text(sqlite3_stmt *s, int at, const char *text)
{
    sqlite3_bind_text(s, at, text, -1, SQLITE_TRANSIENT);
}

static void bind_job(sqlite3_stmt *s, const struct cs_job_row *row)
{
    const char *texts[] = {row->name,      row->state,  row->owner, row->spec_hash,
                           row->plan_hash, row->reason, row->dir};
    const int64_t ints[] = {
        row->step,      row->steps,        row->submitted_ns,    row->started_ns,
        row->ended_ns,  row->generation,   row->checkpoint_step, row->predicted_step_ns,
        row->step_ns,   row->exit_code,    row->ranks,           row->journal_offset,
        row->energy_mj, row->energy_steps, row->energy_tokens};
    int at = 1;
    for (size_t i = 0; i < CS_ARRAY_LEN(texts); i++)
        bind_text(s, at++, texts[i]);
    for (size_t i = 0; i < CS_ARRAY_LEN(ints); i++)
        sqlite3_bind_int64(s, at++, ints[i]);
    bind_text(s, at++, row->device);
    bind_text(s, at++, row->gpus);
    sqlite3_bind_double(s, at++, row->loss);
    sqlite3_bind_double(s, at, row->exact_match);
}

static enum cs_status finish(struct cs_db *db, int query, struct cs_err *err)
{
    sqlite3_stmt *s = db->query[query];
    int rc = sqlite3_step(s);
    enum cs_status status =
        rc == SQLITE_DONE || rc == SQLITE_ROW ? CS_OK : fail(db, sql[query], err);
    sqlite3_reset(s);
    sqlite3_clear_bindings(s);
    return status;
}

static enum cs_status set_durable(struct cs_db *db, bool is_durable, struct cs_err *err)
{
    if (db->is_full == is_durable || !sqlite3_get_autocommit(db->handle))
        return CS_OK;
    db->is_full = is_durable;
    return run(db, is_durable ? "PRAGMA synchronous=FULL" : "PRAGMA synchronous=NORMAL", err);
}

enum cs_status cs_db_job_add(struct cs_db *db, struct cs_job_row *row, struct cs_err *err)
{
    CS_TRY(set_durable(db, true, err));
    bind_job(db->query[Q_JOB_ADD], row);
    CS_TRY(finish(db, Q_JOB_ADD, err));
    row->id = sqlite3_last_insert_rowid(db->handle);
    return CS_OK;
}

enum cs_status cs_db_reserve_ids(struct cs_db *db, int64_t up_to, struct cs_err *err)
{
    char text[256];
    snprintf(
        text, sizeof(text),
        "INSERT INTO sqlite_sequence (name, seq) SELECT 'job', 0 WHERE NOT EXISTS (SELECT 1 FROM"
        " sqlite_sequence WHERE name = 'job');"
        "UPDATE sqlite_sequence SET seq = max(seq, %lld) WHERE name = 'job'",
        (long long)up_to);
    return run(db, text, err);
}

enum cs_status cs_db_job_save(struct cs_db *db, const struct cs_job_row *row, bool is_durable,
                              struct cs_err *err)
{
    CS_TRY(set_durable(db, is_durable, err));
    bind_job(db->query[Q_JOB_SAVE], row);
    sqlite3_bind_int64(db->query[Q_JOB_SAVE], 27, row->id);
    return finish(db, Q_JOB_SAVE, err);
}

static void copy_text(sqlite3_stmt *s, int at, char *out, size_t cap)
{
    const unsigned char *text = sqlite3_column_text(s, at);
    snprintf(out, cap, "%s", text ? (const char *)text : "");
}

static double real_or_nan(sqlite3_stmt *s, int at)
{
    return sqlite3_column_type(s, at) == SQLITE_NULL ? (double)NAN : sqlite3_column_double(s, at);
}

static void read_job(sqlite3_stmt *s, struct cs_job_row *row)
{
    const struct {
        char *at;
        size_t cap;
    } texts[] = {
        {row->name,      sizeof(row->name)     },
        {row->state,     sizeof(row->state)    },
        {row->owner,     sizeof(row->owner)    },
        {row->spec_hash, sizeof(row->spec_hash)},
        {row->plan_hash, sizeof(row->plan_hash)},
        {row->reason,    sizeof(row->reason)   },
        {row->dir,       sizeof(row->dir)      },
    };

    int64_t *ints[] = {
        &row->step,      &row->steps,        &row->submitted_ns,    &row->started_ns,
        &row->ended_ns,  &row->generation,   &row->checkpoint_step, &row->predicted_step_ns,
        &row->step_ns,   &row->exit_code,    &row->ranks,           &row->journal_offset,
        &row->energy_mj, &row->energy_steps, &row->energy_tokens};
    int at = 0;
    for (size_t i = 0; i < CS_ARRAY_LEN(texts); i++)
        copy_text(s, at++, texts[i].at, texts[i].cap);
    for (size_t i = 0; i < CS_ARRAY_LEN(ints); i++)
        *ints[i] = sqlite3_column_int64(s, at++);
    copy_text(s, at++, row->device, sizeof(row->device));
    copy_text(s, at++, row->gpus, sizeof(row->gpus));
    row->loss = real_or_nan(s, at++);
    row->exact_match = real_or_nan(s, at++);
    row->id = sqlite3_column_int64(s, at);
}

enum cs_status cs_db_jobs(struct cs_db *db, int64_t limit,
                          void (*each)(void *, const struct cs_job_row *), void *user,
                          struct cs_err *err)
{
    sqlite3_stmt *s = db->query[Q_JOBS];
    struct cs_job_row *row = calloc(1, sizeof *row);
    if (!row)
        return cs_fail(err, CS_NO_MEMORY, "no memory for a job");
    sqlite3_bind_int64(s, 1, limit);
    int rc;
    while ((rc = sqlite3_step(s)) == SQLITE_ROW) {
        read_job(s, row);
        each(user, row);
    }
    enum cs_status status = rc == SQLITE_DONE ? CS_OK : fail(db, "reading jobs", err);
    sqlite3_reset(s);
    free(row);
    return status;
}

enum cs_status cs_db_begin(struct cs_db *db, struct cs_err *err)
{
    CS_TRY(set_durable(db, false, err));
    return run(db, "BEGIN IMMEDIATE", err);
}

enum cs_status cs_db_commit(struct cs_db *db, struct cs_err *err)
{
    return run(db, "COMMIT", err);
}

void cs_db_rollback(struct cs_db *db)
{
    if (!sqlite3_get_autocommit(db->handle))
        (void)!sqlite3_exec(db->handle, "ROLLBACK", NULL, NULL, NULL);
}

enum cs_status cs_db_step_put(struct cs_db *db, int64_t job, const struct cs_step_row *row,
                              struct cs_err *err)
{
    sqlite3_stmt *s = db->query[Q_STEP_PUT];
    const double reals[] = {row->grad_norm, row->lr, row->step_ms, row->bubble, row->exact_match};
    const int64_t ints[] = {row->tokens, row->trained_tokens, row->samples, row->wall_ns,
                            row->data_wait_us};
    sqlite3_bind_int64(s, 1, job);
    sqlite3_bind_int64(s, 2, row->step);
    bind_text(s, 3, row->kind);
    sqlite3_bind_double(s, 4, row->loss);
    if (isnan(row->loss) && strcmp(row->kind, "train") == 0)
        bind_text(s, 5, "nan"); /* a diverged loss is known, not unknown */
    int at = 6;
    for (size_t i = 0; i < CS_ARRAY_LEN(reals); i++)
        sqlite3_bind_double(s, at++, reals[i]);
    for (size_t i = 0; i < CS_ARRAY_LEN(ints); i++)
        sqlite3_bind_int64(s, at++, ints[i]);
    if (row->energy_mj >= 0)
        sqlite3_bind_int64(s, at, row->energy_mj);
    return finish(db, Q_STEP_PUT, err);
}

json_t *cs_db_step_columns(void)
{
    json_t *names = json_array();
    for (size_t i = 0; i < CS_ARRAY_LEN(step_columns); i++)
        json_array_append_new(names, json_string(step_columns[i]));
    return names;
}

static json_t *column_json(sqlite3_stmt *s, int at)
{
    switch (sqlite3_column_type(s, at)) {
    case SQLITE_INTEGER:
        return json_integer(sqlite3_column_int64(s, at));
    case SQLITE_FLOAT:
        return cs_json_num(sqlite3_column_double(s, at));
    case SQLITE_TEXT:
        return json_string((const char *)sqlite3_column_text(s, at));
    default:
        return json_null();
    }
}

static enum cs_status rows_json(struct cs_db *db, int query, json_t *rows, struct cs_err *err)
{
    sqlite3_stmt *s = db->query[query];
    int rc;
    while ((rc = sqlite3_step(s)) == SQLITE_ROW) {
        json_t *row = json_array();
        for (int i = 0; i < sqlite3_column_count(s); i++)
            json_array_append_new(row, column_json(s, i));
        json_array_append_new(rows, row);
    }
    enum cs_status status = rc == SQLITE_DONE ? CS_OK : fail(db, sql[query], err);
    sqlite3_reset(s);
    sqlite3_clear_bindings(s);
    return status;
}

static int64_t step_of(const json_t *rows, size_t at)
{
    return json_integer_value(json_array_get(json_array_get(rows, at), 0));
}

/* Two rows more than asked for are read: a step has at most two, and they stay together. */
enum cs_status cs_db_steps(struct cs_db *db, int64_t job, int64_t after, int64_t limit,
                           int64_t every, json_t *rows, int64_t *next, struct cs_err *err)
{
    sqlite3_stmt *s = db->query[Q_STEPS];
    sqlite3_bind_int64(s, 1, job);
    sqlite3_bind_int64(s, 2, after);
    sqlite3_bind_int64(s, 3, every > 0 ? every : 1);
    sqlite3_bind_int64(s, 4, limit + 2);
    *next = -1;
    CS_TRY(rows_json(db, Q_STEPS, rows, err));
    size_t n = json_array_size(rows), keep = (size_t)limit;
    if (n <= keep)
        return CS_OK;
    while (keep > 0 && step_of(rows, keep - 1) == step_of(rows, keep))
        keep--;
    if (keep == 0) /* the first step alone is over the limit */
        for (keep = 1; keep < n && step_of(rows, keep) == step_of(rows, 0);)
            keep++;
    if (keep < n)
        *next = step_of(rows, keep - 1);
    while (json_array_size(rows) > keep)
        json_array_remove(rows, json_array_size(rows) - 1);
    return CS_OK;
}

enum cs_status cs_db_note_add(struct cs_db *db, int64_t job, int64_t wall_ns, const char *level,
                              const char *text, struct cs_err *err)
{
    sqlite3_stmt *s = db->query[Q_NOTE_ADD];
    sqlite3_bind_int64(s, 1, job);
    sqlite3_bind_int64(s, 2, wall_ns);
    bind_text(s, 3, level);
    bind_text(s, 4, text);
    return finish(db, Q_NOTE_ADD, err);
}

enum cs_status cs_db_notes(struct cs_db *db, int64_t job, int64_t limit, json_t *rows,
                           struct cs_err *err)
{
    sqlite3_bind_int64(db->query[Q_NOTES], 1, job);
    sqlite3_bind_int64(db->query[Q_NOTES], 2, limit);
    return rows_json(db, Q_NOTES, rows, err);
}
