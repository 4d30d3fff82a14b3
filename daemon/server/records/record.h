/* What the daemon alone knows of a job, kept in the job's directory: JOBDIR/job.json holds the fields
 * that no other file tells (job_row.h), JOBDIR/notes what happened to the job while no runner lived.
 * With them the history can be made again from the directories. */
#ifndef CS_SERVER_RECORD_H
#define CS_SERVER_RECORD_H

#include "core/base/system/io.h"
#include "server/records/job_row.h"

/* atomically, into dir */
enum cs_status cs_record_write(const char *dir, const struct cs_job_row *row,
                               struct cs_err *err) CS_NODISCARD;
/* Fields of the record over those of row. CS_NOT_FOUND: there is none (a job of an older release). */
enum cs_status cs_record_read(const char *dir, struct cs_job_row *row,
                              struct cs_err *err) CS_NODISCARD;

/* One line, a runner.note as in a journal. */
enum cs_status cs_record_note(const char *dir, int64_t wall_ns, const char *level, const char *text,
                              struct cs_err *err) CS_NODISCARD;

#endif
