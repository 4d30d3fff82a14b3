/* Samples of a job written down for a program that renders them too: their messages, with contents in parts and as
 * texts, and the text that they become here. */
#ifndef CS_CONSOLE_CLI_SHARED_CHECK_TEMPLATE_SAMPLES_H
#define CS_CONSOLE_CLI_SHARED_CHECK_TEMPLATE_SAMPLES_H

#include <stdio.h>

#include "console/cli/shared/job_data.h"

/* {template, names}, then {sample, messages, texts, text} a line; samples that cannot be read or rendered
 * are left out. */
enum cs_status cs_template_put_samples(const struct cs_job_data *d, const char *template_,
                                       FILE *file, struct cs_err *err) CS_NODISCARD;

#endif
