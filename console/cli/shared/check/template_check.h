/* What the model's own chat template makes of the samples of a job, beside what ours does. Python renders
 * it, where python3 with jinja2 is there. */
#ifndef CS_CONSOLE_CLI_SHARED_CHECK_TEMPLATE_CHECK_H
#define CS_CONSOLE_CLI_SHARED_CHECK_TEMPLATE_CHECK_H

#include "console/cli/shared/job_data.h"

/* d->source is open. Prints a line, or adds "template" to set (of the document) where that is not NULL: how
 * many samples were compared, and the first that differs with both texts around the place. CS_UNSUPPORTED:
 * there is no template of the model's own, or no Python that could render it; CS_INVALID: a sample
 * differs. */
enum cs_status cs_template_compare(const struct cs_job_data *d, json_t *set,
                                   struct cs_err *err) CS_NODISCARD;

#endif
