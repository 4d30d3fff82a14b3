/* History in SQLite (WAL): jobs, their notes, and the step series. One writer, the daemon.
 *
 * A change of a job's state is one transaction with full synchronisation, committed before it is
 * answered; step rows are batched with relaxed synchronisation: the journals in the job directories
 * are the truth, rows are imported by offset and can be imported again. */
#ifndef CS_SERVER_DB_H
#define CS_SERVER_DB_H

#include <jansson.h>
#include <stdint.h>

#include "core/base/status.h"

struct cs_db;

struct cs_job_row {
    int64_t id;
    char name[256], state[16], owner[64], spec_hash[65], plan_hash[65], reason[1024], dir[4096];
    int64_t step, steps, submitted_ns, started_ns, ended_ns, generation, checkpoint_step;
    int64_t predicted_step_ns, step_ns, exit_code, ranks, journal_offset;
    double loss, exact_match; /* NAN: unknown */
    char device[8];           /* what its ranks are: "cpu" or "cuda" */
    char gpus[256];           /* numbers of the GPUs it holds or held last, "2,3" */
    int64_t energy_mj, energy_steps, energy_tokens; /* of training steps with a known energy */
};

enum cs_status cs_db_open(const char *path, struct cs_db **out, struct cs_err *err) CS_NODISCARD;
void cs_db_close(struct cs_db *db);

/* assigns row->id: larger than every id before, and than those that were reserved */
enum cs_status cs_db_job_add(struct cs_db *db, struct cs_job_row *row,
                             struct cs_err *err) CS_NODISCARD;
/* no new job gets an id up to this one: its directory is there already (a history that was moved
 * away) */
enum cs_status cs_db_reserve_ids(struct cs_db *db, int64_t up_to, struct cs_err *err) CS_NODISCARD;
/* is_durable: a promise to a client (state changes); false: progress figures */
enum cs_status cs_db_job_save(struct cs_db *db, const struct cs_job_row *row, bool is_durable,
                              struct cs_err *err) CS_NODISCARD;
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
};
enum cs_status cs_db_begin(struct cs_db *db, struct cs_err *err) CS_NODISCARD; /* a batch of rows */
enum cs_status cs_db_commit(struct cs_db *db, struct cs_err *err) CS_NODISCARD;
void cs_db_rollback(struct cs_db *db); /* fine without a transaction */
/* the last row of (job, step, kind) wins */
enum cs_status cs_db_step_put(struct cs_db *db, int64_t job, const struct cs_step_row *row,
                              struct cs_err *err) CS_NODISCARD;
/* rows after a step as arrays in the order of cs_db_step_columns; every: one row in so many steps,
 * evaluations always. At most limit rows and whole steps; *next: the step to go on after, -1: that
 * was all. A single step is never cut. */
enum cs_status cs_db_steps(struct cs_db *db, int64_t job, int64_t after, int64_t limit,
                           int64_t every, json_t *rows, int64_t *next,
                           struct cs_err *err) CS_NODISCARD;
json_t *cs_db_step_columns(void);

enum cs_status cs_db_note_add(struct cs_db *db, int64_t job, int64_t wall_ns, const char *level,
                              const char *text, struct cs_err *err) CS_NODISCARD;
enum cs_status cs_db_notes(struct cs_db *db, int64_t job, int64_t limit, json_t *rows,
                           struct cs_err *err) CS_NODISCARD;

#endif
