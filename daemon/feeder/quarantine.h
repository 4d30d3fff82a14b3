/* Bad samples: counted once each, listed in JOBDIR/quarantine.jsonl, refused beyond a share. */
#ifndef CS_FEEDER_QUARANTINE_H
#define CS_FEEDER_QUARANTINE_H

#include "feeder/loader.h"

struct cs_quarantine;

/* set: "train" or "eval", written to every line. Lines of an earlier generation are read back, so
 * that a sample is listed once per job. path: quarantine.jsonl, made when needed. */
enum cs_status cs_quarantine_open(const char *path, const char *set, const struct cs_source *source,
                                  struct cs_quarantine **out, struct cs_err *err) CS_NODISCARD;
void cs_quarantine_close(struct cs_quarantine *q); /* accepts NULL */
/* *is_new: not met before. The count stands also when the line cannot be written (CS_IO,
 * CS_NO_SPACE). */
enum cs_status cs_quarantine_add(struct cs_quarantine *q, const struct cs_load *load, bool *is_new,
                                 struct cs_err *err) CS_NODISCARD;
uint64_t cs_quarantine_count(const struct cs_quarantine *q); /* distinct samples */

#endif
