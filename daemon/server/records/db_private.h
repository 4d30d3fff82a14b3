/* Private to db.c (the file, jobs) and db_rows.c (series, notes). */
#ifndef CS_SERVER_DB_PRIVATE_H
#define CS_SERVER_DB_PRIVATE_H

#include <sqlite3.h>

#include "server/records/db.h"

enum {
    Q_JOB_PUT,
    Q_JOBS,
    Q_HAS_JOB,
    Q_LAST_ID,
    Q_STEP_PUT,
    Q_STEPS,
    Q_FOLDED,
    Q_NOTE_ADD,
    Q_NOTES,
    Q_STEPS_REMOVE,
    Q_NOTES_REMOVE,
    Q_JOB_REMOVE,
    Q_COUNT
};

struct cs_db {
    sqlite3 *handle;
    sqlite3_stmt *query[Q_COUNT];
    bool is_full; /* synchronous=FULL is set */
};

/* what SQLite says last */
enum cs_status cs_db_fail(const struct cs_db *db, const char *what,
                          struct cs_err *err) CS_NODISCARD;
void cs_db_bind_text(sqlite3_stmt *s, int at, const char *text);
/* runs a bound statement that brings no rows, and unbinds it */
enum cs_status cs_db_finish(struct cs_db *db, int query, struct cs_err *err) CS_NODISCARD;

#endif
