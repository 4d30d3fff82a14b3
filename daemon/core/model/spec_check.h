/* What must hold between keys of the specification. Internal to spec*.c. */
#ifndef CS_MODEL_SPEC_CHECK_H
#define CS_MODEL_SPEC_CHECK_H

#include "core/model/spec_read.h"

/* Names and kinds agree, every encoder has its projector, one llm, placeholders differ, configs and
 * directories are there where parameters come from them. */
enum cs_status cs_spec_check_modules(const struct cs_spec_reader *reader,
                                     const struct cs_spec *spec) CS_NODISCARD;
/* plan.parallel.<name> names a branch of the model */
enum cs_status cs_spec_check_branch(const struct cs_spec_reader *reader, const struct cs_spec *spec,
                                    const char *name) CS_NODISCARD;
/* the rest: every branch has a layout, globs are well formed, the plan hash is one */
enum cs_status cs_spec_check(const struct cs_spec_reader *reader,
                             const struct cs_spec *spec) CS_NODISCARD;

#endif
