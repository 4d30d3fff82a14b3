/* Import of a job's journal (JOBDIR/journal, one JSON line per step, note and state change) by
 * offset. */
#ifndef CS_SERVER_JOURNAL_H
#define CS_SERVER_JOURNAL_H

#include "server/jobs/job.h"

/* read what is new; updates row (step, loss, exact_match ...) and the database */
enum cs_status cs_journal_import(struct cs_job *job, struct cs_err *err) CS_NODISCARD;

/* What was imported last, by a daemon before: last_row of the job, as far as the end of its journal tells. */
void cs_journal_remember(struct cs_job *job);

/* the notes of the daemons before (record.h), into a database that has none of the job */
enum cs_status cs_journal_import_notes(struct cs_job *job, struct cs_err *err) CS_NODISCARD;

#endif
