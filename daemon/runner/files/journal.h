/* The journal of a job: one JSON object per line, appended; and its state file.
 *
 * Rows are the runner's own messages (runner.step, runner.state, runner.note), so that whoever
 * reads the socket reads the journal with the same code. Of several runner.step rows with the same
 * step and kind the last one holds. The end of a file may be torn after a crash; opening cuts it
 * off. */
#ifndef CS_RUNNER_JOURNAL_H
#define CS_RUNNER_JOURNAL_H

#include <jansson.h>
#include <stddef.h>

#include "core/base/status.h"

struct cs_journal;

enum cs_status cs_journal_open(const char *path, struct cs_journal **out,
                               struct cs_err *err) CS_NODISCARD;
void cs_journal_close(struct cs_journal *journal); /* syncs; accepts NULL */
/* CS_OK: the row is in the file, or waits in memory (4 MiB) for the disk to take it. CS_NO_SPACE, CS_IO:
 * it is lost; rows before it are whole. */
enum cs_status cs_journal_add(struct cs_journal *journal, const json_t *row,
                              struct cs_err *err) CS_NODISCARD;
/* Writes what waits, and syncs when rows were added since the last time. Not CS_OK: rows still wait. */
enum cs_status cs_journal_sync(struct cs_journal *journal, struct cs_err *err) CS_NODISCARD;
bool cs_journal_waits(const struct cs_journal *journal);
/* the path still leads to this journal */
bool cs_journal_is_there(const struct cs_journal *journal, const char *path);

#endif
