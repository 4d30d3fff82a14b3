/* Step reports: what the feeder announced and the ranks reported of one manifest. */
#ifndef CS_RUNNER_STEP_REPORTS_H
#define CS_RUNNER_STEP_REPORTS_H

#include "runner/state/state.h"

/* feeder.step; *out (may be NULL): the report, valid until the next call. CS_INTERNAL: the feeder is
 * too far ahead. */
enum cs_status cs_step_report_announce(struct cs_runner *r, const json_t *msg,
                                       const struct cs_step_report **out,
                                       struct cs_err *err) CS_NODISCARD;
/* worker.step; CS_INTERNAL: of another step than was published */
enum cs_status cs_step_report_add(struct cs_runner *r, struct cs_child *child, const json_t *msg,
                                  struct cs_err *err) CS_NODISCARD;
/* The next complete report, in order of the manifests; the caller frees it. */
bool cs_step_report_take(struct cs_runner *r, struct cs_step_report *out);
void cs_step_report_free(struct cs_step_report *report); /* what it holds */
void cs_step_reports_free(struct cs_runner *r);
/* the manifest a rank works on, NULL when it is not announced */
const struct cs_step_report *cs_step_report_current(const struct cs_runner *r,
                                                    const struct cs_child *child);

#endif
