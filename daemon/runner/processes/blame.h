/* Who ended a generation: the culprit, with its step, action and samples. */
#ifndef CS_RUNNER_BLAME_H
#define CS_RUNNER_BLAME_H

#include "runner/state/state.h"

/* "rank 2 (llm.1)" or "the feeder" */
void cs_blame_name(const struct cs_runner *r, const struct cs_child *child, char *out, size_t cap);
/* " in step 3 at F0.1, samples ..."; "" of the feeder */
void cs_blame_where(struct cs_runner *r, const struct cs_child *child, char *out, size_t cap);
/* Sets the culprit; always CS_JOB_FAILED with the text. */
enum cs_status cs_blame(struct cs_runner *r, const struct cs_child *child, const char *text,
                        struct cs_err *err);
/* Of children that died or reported errors, the one that caused it: CS_JOB_FAILED and the culprit;
 * CS_OK: nobody did. */
enum cs_status cs_blame_decide(struct cs_runner *r, struct cs_err *err) CS_NODISCARD;

#endif
