/* The trace file of a job on disk: the events of the last 200 to 400 steps
 * (core/trace/tracefile.h). Appended; when it holds twice the kept number of steps it is rewritten
 * with the newest half. A new plan starts a new file. Steps that a full disk does
 * not take wait in memory (4 MiB); what is lost then never costs the job. */
#ifndef CS_RUNNER_TRACELOG_H
#define CS_RUNNER_TRACELOG_H

#include "core/trace/tracefile.h"

struct cs_tracelog;

/* keep: 200. An existing file with the same hashes goes on. */
enum cs_status cs_tracelog_open(const char *path, const struct cs_trace_head *head, int keep,
                                struct cs_tracelog **out, struct cs_err *err) CS_NODISCARD;
void cs_tracelog_close(struct cs_tracelog *log); /* accepts NULL */
/* the simulated step, once per file; type PREDICTED */
enum cs_status cs_tracelog_predict(struct cs_tracelog *log, const struct cs_trace_record *step,
                                   const struct cs_span_keys *keys,
                                   struct cs_err *err) CS_NODISCARD;
/* the same, whether there is one or not; readers take the last */
enum cs_status cs_tracelog_predict_again(struct cs_tracelog *log,
                                         const struct cs_trace_record *step,
                                         const struct cs_span_keys *keys,
                                         struct cs_err *err) CS_NODISCARD;
/* keys: of the program of this step, written before its first use */
enum cs_status cs_tracelog_add(struct cs_tracelog *log, const struct cs_trace_record *step,
                               const struct cs_span_keys *keys, struct cs_err *err) CS_NODISCARD;

#endif
