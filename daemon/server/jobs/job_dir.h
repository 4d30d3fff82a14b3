/* The directories of jobs, STATE/jobs/NUMBER. A job exists from the moment its directory does: that is
 * filled under another name and renamed, so there is never one without the other. No number is used
 * twice: STATE/last-job holds the last one, whatever became of its directory. */
#ifndef CS_SERVER_JOB_DIR_H
#define CS_SERVER_JOB_DIR_H

#include "server/records/job_row.h"
#include "server/state/state.h"

/* the directory of a job */
enum cs_status cs_job_dir_path(const struct cs_server *server, int64_t id, char out[CS_PATH_CAP],
                               struct cs_err *err) CS_NODISCARD;
bool cs_job_dir_is_there(const struct cs_job_row *row);
/* DIR/NAME as a JSON object, the caller's; NULL: it cannot be read */
json_t *cs_job_dir_get(const char *dir, const char *name, size_t max_bytes);
/* DIR/NAME, atomically; DIR is there */
enum cs_status cs_job_dir_put(const char *dir, const char *name, const json_t *document,
                              struct cs_err *err) CS_NODISCARD;
/* Gives row a number and its directory, with specification and record. On failure nothing is left. */
enum cs_status cs_job_dir_make(struct cs_server *server, struct cs_job_row *row, const json_t *spec,
                               struct cs_err *err) CS_NODISCARD;
/* takes a job back that was just made */
void cs_job_dir_remove(const struct cs_job_row *row);

/* Numbers of the directories that are there, rising (*n of them, free *out). What a daemon that was
 * killed in cs_job_dir_make has left is removed; server->last_job is above all numbers ever used. */
enum cs_status cs_job_dir_scan(struct cs_server *server, int64_t **out, size_t *n,
                               struct cs_err *err) CS_NODISCARD;

#endif
