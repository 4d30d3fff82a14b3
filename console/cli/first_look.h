/* A first look at the data of a job, before it is planned or submitted: what could never be trained is
 * refused here and not after its ranks have started. */
#ifndef CS_CLI_FIRST_LOOK_H
#define CS_CLI_FIRST_LOOK_H

#include <jansson.h>

#include "core/base/buf.h"
#include "core/doc/findings.h"

/* document: of a job; one without data is not looked at. findings (may be NULL): keys of samples that
 * nothing reads. lines: which keys hold whose files; warnings: lines that begin so. Either may be
 * NULL. */
enum cs_status cs_first_look(const json_t *document, struct cs_findings *findings,
                             struct cs_buf *lines, struct cs_buf *warnings,
                             struct cs_err *err) CS_NODISCARD;

#endif
