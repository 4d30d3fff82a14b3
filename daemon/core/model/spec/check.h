/* What must hold between keys of the specification. Internal to spec*.c. */
#ifndef CS_MODEL_SPEC_CHECK_H
#define CS_MODEL_SPEC_CHECK_H

#include "core/model/spec/read.h"

/* Names and kinds agree, every encoder has its projector, one llm, placeholders differ, configs and
 * directories are there where parameters come from them. */
enum cs_status cs_spec_check_modules(const struct cs_spec_reader *reader,
                                     const struct cs_spec *spec) CS_NODISCARD;
/* plan.parallel.<name> names a branch of the model */
enum cs_status cs_spec_check_branch(const struct cs_spec_reader *reader, const struct cs_spec *spec,
                                    const char *name) CS_NODISCARD;
/* globs of rules are well formed */
enum cs_status cs_spec_check_rules(const struct cs_spec_reader *reader,
                                   const struct cs_spec *spec) CS_NODISCARD;
/* every branch has a layout */
enum cs_status cs_spec_check_parallel(const struct cs_spec_reader *reader,
                                      const struct cs_spec *spec) CS_NODISCARD;
/* the plan's hash is one, or empty */
enum cs_status cs_spec_check_hash(const struct cs_spec_reader *reader,
                                  const struct cs_spec *spec) CS_NODISCARD;

#endif
