/* Keeps the history in SQLite. Prepared statements are made on first use and kept; NaN binds as NULL,
 * which means unknown. */
#include "server/records/db.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/buf.h"
#include "server/records/db_private.h"

enum { SCHEMA_VERSION = 10 };

static const char schema_sql[] =
    "CREATE TABLE IF NOT EXISTS job (id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL,"
    " state TEXT NOT NULL, owner TEXT NOT NULL, spec_hash TEXT, plan_hash TEXT, reason TEXT, dir "
    "TEXT,"
    " step INTEGER, steps INTEGER, submitted_ns INTEGER, started_ns INTEGER, ended_ns INTEGER,"
    " generation INTEGER, checkpoint_step INTEGER, predicted_step_ns INTEGER, step_ns INTEGER,"
    " exit_code INTEGER, ranks INTEGER, journal_offset INTEGER, loss REAL, exact_match REAL,"
    " device TEXT, gpus TEXT, energy_mj INTEGER, energy_steps INTEGER, energy_tokens INTEGER,"
    " tags TEXT, note TEXT, stopped_ns INTEGER, bubble REAL, stop INTEGER);"
    "CREATE TABLE IF NOT EXISTS step (job INTEGER NOT NULL REFERENCES job(id), step INTEGER NOT "
    "NULL,"
    " kind TEXT NOT NULL, loss REAL, loss_text TEXT, grad_norm REAL, lr REAL, step_ms REAL, bubble "
    "REAL,"
    " exact_match REAL, tokens INTEGER, trained_tokens INTEGER, samples INTEGER, wall_ns INTEGER,"
    " data_wait_us INTEGER, energy_mj INTEGER, sources TEXT, context TEXT, mem_bytes INTEGER,"
    " mfu REAL, parts TEXT, modules TEXT, sequence TEXT, aux_loss REAL, PRIMARY KEY (job, step, "
    "kind)) "
    "WITHOUT ROWID;"
    "CREATE TABLE IF NOT EXISTS note (job INTEGER NOT NULL, wall_ns INTEGER, level TEXT, text "
    "TEXT);"
    "CREATE INDEX IF NOT EXISTS note_job ON note(job);";

/* from version 1, which knew no GPUs, 2, which knew no sources of samples, 3, which knew no contexts,
 * 4, which knew no memory and no parts of a step, 5, which knew no tags, 6, which knew no sequences,
 * 7, which knew neither pauses nor the bubble of a job, 8, which knew no loss of the experts' balance, and 9, which
 * forgot a stop that no runner had heard of */
static const char *const upgrade_sql[] = {
    [1] = "BEGIN; ALTER TABLE job ADD COLUMN device TEXT; ALTER TABLE job ADD COLUMN gpus TEXT;"
          "ALTER TABLE job ADD COLUMN energy_mj INTEGER; ALTER TABLE job ADD COLUMN energy_steps "
          "INTEGER;"
          "ALTER TABLE job ADD COLUMN energy_tokens INTEGER;"
          "ALTER TABLE step ADD COLUMN energy_mj INTEGER; PRAGMA user_version = 2; COMMIT;",
    [2] = "BEGIN; ALTER TABLE step ADD COLUMN sources TEXT; PRAGMA user_version = 3; COMMIT;",
    [3] = "BEGIN; ALTER TABLE step ADD COLUMN context TEXT; PRAGMA user_version = 4; COMMIT;",
    [4] = "BEGIN; ALTER TABLE step ADD COLUMN mem_bytes INTEGER; ALTER TABLE step ADD COLUMN mfu "
          "REAL; ALTER TABLE step ADD COLUMN parts TEXT; ALTER TABLE step ADD COLUMN modules TEXT;"
          "PRAGMA user_version = 5; COMMIT;",
    [5] = "BEGIN; ALTER TABLE job ADD COLUMN tags TEXT; ALTER TABLE job ADD COLUMN note TEXT;"
          "PRAGMA user_version = 6; COMMIT;",
    [6] = "BEGIN; ALTER TABLE step ADD COLUMN sequence TEXT; PRAGMA user_version = 7; COMMIT;",
    [7] = "BEGIN; ALTER TABLE job ADD COLUMN stopped_ns INTEGER;"
          "ALTER TABLE job ADD COLUMN bubble REAL; PRAGMA user_version = 8; COMMIT;",
    [8] = "BEGIN; ALTER TABLE step ADD COLUMN aux_loss REAL; PRAGMA user_version = 9; COMMIT;",
    [9] = "BEGIN; ALTER TABLE job ADD COLUMN stop INTEGER; PRAGMA user_version = 10; COMMIT;",
};

/* those of jobs are made from the table of their fields */
static const char *const sql[Q_COUNT] = {
    [Q_HAS_JOB] = "SELECT 1 FROM job WHERE id = ?1",
    [Q_LAST_ID] = "SELECT max(coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'job'), 0),"
                  " coalesce((SELECT max(id) FROM job), 0))",
    [Q_STEP_PUT] = "INSERT OR REPLACE INTO step (job, step, kind, loss, loss_text, grad_norm, lr,"
                   " step_ms, bubble, exact_match, tokens, trained_tokens, samples, wall_ns,"
                   " data_wait_us, energy_mj, sources, context, mem_bytes, mfu, parts, modules,"
                   " sequence, aux_loss)"
                   " VALUES (?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11,?12,?13,?14,?15,?16,?17,?18,?19,"
                   "?20,?21,?22,?23,?24)",
    [Q_STEPS] =
        "SELECT step, kind, coalesce(loss_text, loss), grad_norm, lr, step_ms, bubble,"
        " exact_match, tokens, trained_tokens, samples, wall_ns, data_wait_us, energy_mj, sources,"
        " context, mem_bytes, mfu, parts, modules, sequence, aux_loss FROM step WHERE"
        " job = ?1 AND step > ?2 AND (step % ?3 = 0 OR kind = 'eval') ORDER BY step, kind DESC"
        " LIMIT ?4",
    /* What is no number is that of the last of the steps; it is looked up after the rest is put
     * together, as sorting would carry it along. Columns have the names of the table's. */
    [Q_FOLDED] =
        "SELECT last, of, g.loss, g.grad_norm, g.lr, g.step_ms, g.bubble, g.exact_match, g.tokens,"
        " g.trained_tokens, g.samples, g.wall_ns, g.data_wait_us, g.energy_mj,"
        " s.sources AS sources, s.context AS context, g.mem_bytes, g.mfu, s.parts AS parts,"
        " s.modules AS modules, g.sequence AS sequence, g.aux_loss, n, loss_min, loss_max, "
        "norm_max, ms_max"
        " FROM (SELECT max(step) AS last, kind AS of,"
        " coalesce(avg(loss), max(loss_text)) AS loss, avg(grad_norm) AS grad_norm, avg(lr) AS lr,"
        " avg(step_ms) AS step_ms, avg(bubble) AS bubble, avg(exact_match) AS exact_match,"
        " avg(tokens) AS tokens, avg(trained_tokens) AS trained_tokens, avg(samples) AS samples,"
        " max(wall_ns) AS wall_ns, avg(data_wait_us) AS data_wait_us, avg(energy_mj) AS energy_mj,"
        " max(mem_bytes) AS mem_bytes, avg(mfu) AS mfu, max(sequence) AS sequence,"
        " avg(aux_loss) AS aux_loss, count(*) AS n,"
        " min(loss) AS loss_min, max(loss) AS loss_max, max(grad_norm) AS norm_max,"
        " max(step_ms) AS ms_max FROM step WHERE job = ?1 AND step > ?2"
        " GROUP BY kind, CASE kind WHEN 'eval' THEN step ELSE step / ?3 END) AS g"
        " JOIN step AS s ON s.job = ?1 AND s.step = last AND s.kind = of"
        " ORDER BY 1, 2 DESC LIMIT ?4",
    [Q_NOTE_ADD] = "INSERT INTO note (job, wall_ns, level, text) VALUES (?1,?2,?3,?4)",
    [Q_NOTES] =
        "SELECT wall_ns, level, text FROM (SELECT rowid r, * FROM note WHERE job = ?1 ORDER BY"
        " wall_ns DESC, rowid DESC LIMIT ?2) ORDER BY wall_ns, r",
    [Q_STEPS_REMOVE] = "DELETE FROM step WHERE job = ?1",
    [Q_NOTES_REMOVE] = "DELETE FROM note WHERE job = ?1",
    [Q_JOB_REMOVE] = "DELETE FROM job WHERE id = ?1",
};

enum cs_status cs_db_fail(const struct cs_db *db, const char *what, struct cs_err *err)
{
    static const struct {
        int code;
        enum cs_status status;
    } known[] = {
        {SQLITE_FULL,    CS_NO_SPACE},
        {SQLITE_NOTADB,  CS_CORRUPT },
        {SQLITE_CORRUPT, CS_CORRUPT },
    };

    enum cs_status status = CS_IO;
    for (size_t i = 0; i < CS_ARRAY_LEN(known); i++)
        if (sqlite3_errcode(db->handle) == known[i].code)
            status = known[i].status;
    return cs_fail(err, status, "database: %s: %s", what, sqlite3_errmsg(db->handle));
}

static enum cs_status run(struct cs_db *db, const char *text, struct cs_err *err)
{
    if (sqlite3_exec(db->handle, text, NULL, NULL, NULL) != SQLITE_OK)
        return cs_db_fail(db, "changing", err);
    return CS_OK;
}

/* A torn log is no damage, SQLite cuts it. */
static enum cs_status check_pages(struct cs_db *db, struct cs_err *err)
{
    sqlite3_stmt *s = NULL;
    char found[200] = "";
    if (sqlite3_prepare_v2(db->handle, "PRAGMA quick_check(1)", -1, &s, NULL) != SQLITE_OK ||
        sqlite3_step(s) != SQLITE_ROW) {
        enum cs_status status = cs_db_fail(db, "checking", err);
        sqlite3_finalize(s);
        return status;
    }
    snprintf(found, sizeof(found), "%s", (const char *)sqlite3_column_text(s, 0));
    sqlite3_finalize(s);
    return strcmp(found, "ok") == 0 ? CS_OK
                                    : cs_fail(err, CS_CORRUPT, "the history is damaged: %s", found);
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
        return cs_db_fail(db, "reading its version", err);
    if (version > SCHEMA_VERSION)
        return cs_fail(err, CS_UNSUPPORTED,
                       "%s was written by a newer cornstarchd (schema %d, this one knows %d)", path,
                       version, SCHEMA_VERSION);
    char text[64];
    if (version == SCHEMA_VERSION)
        return CS_OK;
    for (; version > 0 && version < SCHEMA_VERSION; version++)
        if (sqlite3_exec(db->handle, upgrade_sql[version], NULL, NULL, NULL) == SQLITE_ERROR)
            return cs_fail(err, CS_CORRUPT, "it is no history of jobs: %s",
                           sqlite3_errmsg(db->handle));
    snprintf(text, sizeof(text), "PRAGMA user_version = %d", SCHEMA_VERSION);
    return run(db, text, err);
}

/* "INSERT INTO job (id, name, ...) VALUES (?1, ?2, ...) ON CONFLICT ...": ?1 the id, then the fields
 * in the order of their table */
static void put_sql(struct cs_buf *out)
{
    cs_buf_adds(out, "INSERT INTO job (id");
    for (int i = 0; i < cs_n_row_fields; i++)
        cs_buf_addf(out, ", %s", cs_row_fields[i].name);
    cs_buf_adds(out, ") VALUES (?1");
    for (int i = 0; i < cs_n_row_fields; i++)
        cs_buf_addf(out, ", ?%d", i + 2);
    cs_buf_adds(out, ") ON CONFLICT (id) DO UPDATE SET ");
    for (int i = 0; i < cs_n_row_fields; i++)
        cs_buf_addf(out, "%s%s = excluded.%s", i ? ", " : "", cs_row_fields[i].name,
                    cs_row_fields[i].name);
}

static void jobs_sql(struct cs_buf *out)
{
    cs_buf_adds(out, "SELECT id");
    for (int i = 0; i < cs_n_row_fields; i++)
        cs_buf_addf(out, ", %s", cs_row_fields[i].name);
    cs_buf_adds(out, " FROM job ORDER BY id DESC LIMIT ?1");
}

/* What cannot be asked is no history: columns are missing. */
static enum cs_status prepare(struct cs_db *db, int query, const char *text, struct cs_err *err)
{
    int code = sqlite3_prepare_v3(db->handle, text, -1, SQLITE_PREPARE_PERSISTENT,
                                  &db->query[query], NULL);
    if (code == SQLITE_OK)
        return CS_OK;
    enum cs_status status = cs_db_fail(db, "asking", err);
    if (code != SQLITE_ERROR)
        return status;
    return cs_fail(err, CS_CORRUPT, "it is no history of jobs: %s", sqlite3_errmsg(db->handle));
}

static enum cs_status prepare_all(struct cs_db *db, struct cs_err *err)
{
    static const struct {
        int query;
        void (*make)(struct cs_buf *);
    } made[] = {
        {Q_JOB_PUT, put_sql },
        {Q_JOBS,    jobs_sql},
    };

    for (size_t i = 0; i < CS_ARRAY_LEN(made); i++) {
        struct cs_buf text = {0};
        made[i].make(&text);
        enum cs_status status = prepare(db, made[i].query, cs_buf_str(&text), err);
        cs_buf_free(&text);
        CS_TRY(status);
    }
    for (int i = 0; i < Q_COUNT; i++)
        if (sql[i])
            CS_TRY(prepare(db, i, sql[i], err));
    return CS_OK;
}

static enum cs_status set_up(struct cs_db *db, const char *path, struct cs_err *err)
{
    if (sqlite3_open(path, &db->handle) != SQLITE_OK)
        return cs_db_fail(db, "opening", err);
    sqlite3_busy_timeout(db->handle, 5000);
    CS_TRY(run(db,
               "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL; PRAGMA foreign_keys=ON;"
               "PRAGMA wal_autocheckpoint=1000; PRAGMA trusted_schema=OFF",
               err));
    CS_TRY(check_pages(db, err));
    CS_TRY(check_version(db, path, err));
    if (sqlite3_exec(db->handle, schema_sql, NULL, NULL, NULL) == SQLITE_ERROR)
        return cs_fail(err, CS_CORRUPT, "it is no history of jobs: %s", sqlite3_errmsg(db->handle));
    CS_TRY(run(db, schema_sql, err));
    return prepare_all(db, err);
}

enum cs_status cs_db_open(const char *path, struct cs_db **out, struct cs_err *err)
{
    struct cs_db *db = calloc(1, sizeof *db);
    if (!db)
        return cs_fail(err, CS_NO_MEMORY, "no memory for the database");
    enum cs_status status = set_up(db, path, err);
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

void cs_db_bind_text(sqlite3_stmt *s, int at, const char *text)
{
    sqlite3_bind_text(s, at, text, -1, SQLITE_TRANSIENT);
}

static void bind_job(sqlite3_stmt *s, const struct cs_job_row *const_row)
{
    struct cs_job_row *row = (struct cs_job_row *)(uintptr_t)const_row; /* read only */
    sqlite3_bind_int64(s, 1, row->id);
    for (int i = 0; i < cs_n_row_fields; i++) {
        const struct cs_row_field *f = &cs_row_fields[i];
        if (f->type == CS_ROW_TEXT)
            cs_db_bind_text(s, i + 2, cs_row_text(row, f));
        else if (f->type == CS_ROW_INT)
            sqlite3_bind_int64(s, i + 2, *cs_row_int(row, f));
        else
            sqlite3_bind_double(s, i + 2, *cs_row_real(row, f));
    }
}

enum cs_status cs_db_finish(struct cs_db *db, int query, struct cs_err *err)
{
    sqlite3_stmt *s = db->query[query];
    int rc = sqlite3_step(s);
    enum cs_status status =
        rc == SQLITE_DONE || rc == SQLITE_ROW ? CS_OK : cs_db_fail(db, "writing", err);
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

enum cs_status cs_db_job_put(struct cs_db *db, const struct cs_job_row *row, bool is_durable,
                             struct cs_err *err)
{
    CS_TRY(set_durable(db, is_durable, err));
    bind_job(db->query[Q_JOB_PUT], row);
    return cs_db_finish(db, Q_JOB_PUT, err);
}

/* The first column of the first row; *has false: there is none. */
static enum cs_status ask_int(struct cs_db *db, int query, int64_t *out, bool *has,
                              struct cs_err *err)
{
    sqlite3_stmt *s = db->query[query];
    int rc = sqlite3_step(s);
    *has = rc == SQLITE_ROW;
    *out = *has ? sqlite3_column_int64(s, 0) : 0;
    enum cs_status status = *has || rc == SQLITE_DONE ? CS_OK : cs_db_fail(db, "reading", err);
    sqlite3_reset(s);
    sqlite3_clear_bindings(s);
    return status;
}

enum cs_status cs_db_last_id(struct cs_db *db, int64_t *id, struct cs_err *err)
{
    bool has;
    return ask_int(db, Q_LAST_ID, id, &has, err);
}

enum cs_status cs_db_has_job(struct cs_db *db, int64_t id, bool *has, struct cs_err *err)
{
    int64_t ignored;
    sqlite3_bind_int64(db->query[Q_HAS_JOB], 1, id);
    return ask_int(db, Q_HAS_JOB, &ignored, has, err);
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
    cs_row_init(row);
    row->id = sqlite3_column_int64(s, 0);
    for (int i = 0; i < cs_n_row_fields; i++) {
        const struct cs_row_field *f = &cs_row_fields[i];
        if (f->type == CS_ROW_TEXT)
            copy_text(s, i + 1, cs_row_text(row, f), f->cap);
        else if (f->type == CS_ROW_INT)
            *cs_row_int(row, f) = sqlite3_column_int64(s, i + 1);
        else
            *cs_row_real(row, f) = real_or_nan(s, i + 1);
    }
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
    enum cs_status status = rc == SQLITE_DONE ? CS_OK : cs_db_fail(db, "reading jobs", err);
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
