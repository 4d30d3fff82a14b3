/* What reading documents brought to light, as text and as JSON. */
#ifndef CS_CLI_FINDINGS_H
#define CS_CLI_FINDINGS_H

#include <jansson.h>

#include "core/base/buf.h"
#include "core/doc/findings.h"

/* What a script left to its functions (cs_script_result.defaults, may be NULL), as settings that nothing
 * gave. */
void cs_findings_add_script(struct cs_findings *findings, const json_t *defaults);
/* Unknown and shadowed keys, a line each; with_defaults: then the settings that nothing gave. Nothing
 * where there is nothing to say. */
void cs_findings_text(const struct cs_findings *findings, bool with_defaults, struct cs_buf *out);
/* the same as a list of "finding" objects, a new reference */
json_t *cs_findings_json(const struct cs_findings *findings, bool with_defaults);

#endif
