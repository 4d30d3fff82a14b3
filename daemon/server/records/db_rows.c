/* Step rows and notes in the history. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/wire/wire.h"
#include "server/records/db_private.h"

static const char *const step_columns[] = {
    "step",         "kind",        "loss",     "grad_norm",      "lr",        "step_ms",
    "bubble",       "exact_match", "tokens",   "trained_tokens", "samples",   "wall_ns",
    "data_wait_us", "energy_mj",   "sources",  "context",        "mem_bytes", "mfu",
    "parts",        "modules",     "sequence", "aux_loss"};
/* of rows that stand for several steps, after these */
static const char *const folded_columns[] = {"steps", "loss_min", "loss_max", "grad_norm_max",
                                             "step_ms_max"};

/* NULL: nothing */
static void bind_json(sqlite3_stmt *s, int at, const json_t *value)
{
    char *text = value != NULL ? json_dumps(value, JSON_COMPACT | JSON_SORT_KEYS) : NULL;
    if (text != NULL)
        sqlite3_bind_text(s, at, text, -1, SQLITE_TRANSIENT);
    free(text);
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
    cs_db_bind_text(s, 3, row->kind);
    sqlite3_bind_double(s, 4, row->loss);
    if (isnan(row->loss) && strcmp(row->kind, "train") == 0)
        cs_db_bind_text(s, 5, "nan"); /* a diverged loss is known, not unknown */
    int at = 6;
    for (size_t i = 0; i < CS_ARRAY_LEN(reals); i++)
        sqlite3_bind_double(s, at++, reals[i]);
    for (size_t i = 0; i < CS_ARRAY_LEN(ints); i++)
        sqlite3_bind_int64(s, at++, ints[i]);
    if (row->energy_mj >= 0)
        sqlite3_bind_int64(s, at, row->energy_mj);
    bind_json(s, at + 1, row->sources);
    bind_json(s, at + 2, row->context);
    if (row->mem_bytes >= 0)
        sqlite3_bind_int64(s, at + 3, row->mem_bytes);
    sqlite3_bind_double(s, at + 4, row->mfu);
    bind_json(s, at + 5, row->parts);
    bind_json(s, at + 6, row->modules);
    bind_json(s, at + 7, row->sequence);
    sqlite3_bind_double(s, at + 8, row->aux_loss);
    return cs_db_finish(db, Q_STEP_PUT, err);
}

json_t *cs_db_step_columns(bool is_folded)
{
    json_t *names = json_array();
    for (size_t i = 0; i < CS_ARRAY_LEN(step_columns); i++)
        json_array_append_new(names, json_string(step_columns[i]));
    for (size_t i = 0; is_folded && i < CS_ARRAY_LEN(folded_columns); i++)
        json_array_append_new(names, json_string(folded_columns[i]));
    return names;
}

/* A text, or of a column of objects and lists what was kept as one. */
static json_t *text_json(sqlite3_stmt *s, int at)
{
    const char *text = (const char *)sqlite3_column_text(s, at);
    static const char *const documents[] = {"sources", "context", "parts", "modules", "sequence"};
    for (size_t i = 0; i < CS_ARRAY_LEN(documents); i++)
        if (strcmp(sqlite3_column_name(s, at), documents[i]) == 0)
            return json_loads(text, 0, NULL);
    return json_string(text);
}

static json_t *column_json(sqlite3_stmt *s, int at)
{
    switch (sqlite3_column_type(s, at)) {
    case SQLITE_INTEGER:
        return json_integer(sqlite3_column_int64(s, at));
    case SQLITE_FLOAT:
        return cs_json_num(sqlite3_column_double(s, at));
    case SQLITE_TEXT:
        return text_json(s, at);
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
    enum cs_status status = rc == SQLITE_DONE ? CS_OK : cs_db_fail(db, "reading", err);
    sqlite3_reset(s);
    sqlite3_clear_bindings(s);
    return status;
}

static int64_t step_of(const json_t *rows, size_t at)
{
    return json_integer_value(json_array_get(json_array_get(rows, at), 0));
}

/* Two rows more than asked for are read: a step has at most two, and they stay together. */
enum cs_status cs_db_steps(struct cs_db *db, const struct cs_step_query *query, json_t *rows,
                           int64_t *next, struct cs_err *err)
{
    const int which = query->is_folded ? Q_FOLDED : Q_STEPS;
    sqlite3_stmt *s = db->query[which];
    sqlite3_bind_int64(s, 1, query->job);
    sqlite3_bind_int64(s, 2, query->after);
    sqlite3_bind_int64(s, 3, query->every > 0 ? query->every : 1);
    sqlite3_bind_int64(s, 4, query->limit + 2);
    *next = -1;
    CS_TRY(rows_json(db, which, rows, err));
    size_t n = json_array_size(rows), keep = (size_t)query->limit;
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
    cs_db_bind_text(s, 3, level);
    cs_db_bind_text(s, 4, text);
    return cs_db_finish(db, Q_NOTE_ADD, err);
}

enum cs_status cs_db_notes(struct cs_db *db, int64_t job, int64_t limit, json_t *rows,
                           struct cs_err *err)
{
    sqlite3_bind_int64(db->query[Q_NOTES], 1, job);
    sqlite3_bind_int64(db->query[Q_NOTES], 2, limit);
    return rows_json(db, Q_NOTES, rows, err);
}

static enum cs_status remove_rows(struct cs_db *db, int64_t job, struct cs_err *err)
{
    static const int queries[] = {Q_STEPS_REMOVE, Q_NOTES_REMOVE, Q_JOB_REMOVE};

    for (size_t i = 0; i < CS_ARRAY_LEN(queries); i++) {
        sqlite3_bind_int64(db->query[queries[i]], 1, job);
        CS_TRY(cs_db_finish(db, queries[i], err));
    }
    return CS_OK;
}

enum cs_status cs_db_job_remove(struct cs_db *db, int64_t job, struct cs_err *err)
{
    CS_TRY(cs_db_begin(db, err));
    enum cs_status status = remove_rows(db, job, err);
    if (status == CS_OK)
        status = cs_db_commit(db, err);
    if (status != CS_OK)
        cs_db_rollback(db);
    return status;
}
