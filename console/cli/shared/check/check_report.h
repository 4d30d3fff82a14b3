/* What `data check` found, as a document and as text. */
#ifndef CS_CONSOLE_CLI_SHARED_CHECK_CHECK_REPORT_H
#define CS_CONSOLE_CLI_SHARED_CHECK_CHECK_REPORT_H

#include "core/base/buf.h"
#include "input/data/check.h"

/* use: "train" or "eval". A new reference. */
json_t *cs_check_report(const char *use, const struct cs_source *source,
                        const struct cs_check *check);
/* Appends. positions: of the language model, 0: not known */
void cs_check_text(const char *use, const struct cs_source *source, int32_t seq_tokens,
                   int32_t positions, const struct cs_check *check, struct cs_buf *out);

#endif
