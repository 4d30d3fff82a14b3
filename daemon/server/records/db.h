/* History in SQLite (WAL): jobs, their notes, and the step series. One writer, the daemon. It is an
 * index over the job directories: what is in it is found there too, and can be put in again.
 *
 * A change of a job's state is one transaction with full synchronisation, committed before it is
 * answered; step rows are batched with relaxed synchronisation: the journals in the job directories
 * are the truth, rows are imported by offset and can be imported again. */
#ifndef CS_SERVER_DB_H
#define CS_SERVER_DB_H

#include <jansson.h>
#include <stdint.h>

#include "core/base/status.h"
#include "server/records/job_row.h"

struct cs_db;

/* CS_CORRUPT: it is damaged, or no history; CS_UNSUPPORTED: a newer cornstarchd wrote it */
enum cs_status cs_db_open(const char *path, struct cs_db **out, struct cs_err *err) CS_NODISCARD;
void cs_db_close(struct cs_db *db);

/* the largest number that any job ever had here; 0: none */
enum cs_status cs_db_last_id(struct cs_db *db, int64_t *id, struct cs_err *err) CS_NODISCARD;
enum cs_status cs_db_has_job(struct cs_db *db, int64_t id, bool *has,
                             struct cs_err *err) CS_NODISCARD;
/* New or not. is_durable: a promise to a client (state changes); false: progress figures */
enum cs_status cs_db_job_put(struct cs_db *db, const struct cs_job_row *row, bool is_durable,
                             struct cs_err *err) CS_NODISCARD;
/* with its step rows and notes; its number stays used */
enum cs_status cs_db_job_remove(struct cs_db *db, int64_t job, struct cs_err *err) CS_NODISCARD;
/* newest first */
enum cs_status cs_db_jobs(struct cs_db *db, int64_t limit,
                          void (*each)(void *, const struct cs_job_row *), void *user,
                          struct cs_err *err) CS_NODISCARD;

struct cs_step_row {
    int64_t step;
    const char *kind; /* "train" | "eval" */
    double loss, grad_norm, lr, step_ms, bubble, exact_match;
    int64_t tokens, trained_tokens, samples, wall_ns, data_wait_us;
    int64_t energy_mj; /* -1 unknown */
    int64_t mem_bytes; /* the same */
    double mfu;
    double aux_loss;        /* of the experts' balance */
    const json_t *sources;  /* {name: {loss, tokens}}, NULL: none have names */
    const json_t *context;  /* [rank, rows, pairs, flops, wait_us], NULL: rows are not split */
    const json_t *parts;    /* {name: ms}, NULL: not told */
    const json_t *modules;  /* {name: {mfu, busy}}, NULL: not told */
    const json_t *sequence; /* of the slot with most work, NULL: not told */
};

struct cs_step_query {
    int64_t job, after, limit;
    int64_t every;  /* one row in so many steps */
    bool is_folded; /* that is the mean of those steps, and ends with their last */
};
enum cs_status cs_db_begin(struct cs_db *db, struct cs_err *err) CS_NODISCARD; /* a batch of rows */
enum cs_status cs_db_commit(struct cs_db *db, struct cs_err *err) CS_NODISCARD;
void cs_db_rollback(struct cs_db *db); /* fine without a transaction */
/* the last row of (job, step, kind) wins */
enum cs_status cs_db_step_put(struct cs_db *db, int64_t job, const struct cs_step_row *row,
                              struct cs_err *err) CS_NODISCARD;
/* rows after a step as arrays in the order of cs_db_step_columns; evaluations always. At most limit
 * rows and whole steps; *next: the step to go on after, -1: that was all. A single step is never
 * cut. */
enum cs_status cs_db_steps(struct cs_db *db, const struct cs_step_query *query, json_t *rows,
                           int64_t *next, struct cs_err *err) CS_NODISCARD;
json_t *cs_db_step_columns(bool is_folded);

enum cs_status cs_db_note_add(struct cs_db *db, int64_t job, int64_t wall_ns, const char *level,
                              const char *text, struct cs_err *err) CS_NODISCARD;
enum cs_status cs_db_notes(struct cs_db *db, int64_t job, int64_t limit, json_t *rows,
                           struct cs_err *err) CS_NODISCARD;

#endif
