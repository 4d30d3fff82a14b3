/* What a job reads from outside besides its specification: data sets, tokenizer, the weights that stay
 * as they are. Their fingerprints go into every checkpoint; a job that goes on on other files would
 * train on something else. Pictures are not among them. */
#ifndef CS_RUNNER_INPUTS_H
#define CS_RUNNER_INPUTS_H

#include <jansson.h>

#include "core/model/graph.h"

/* [{"what": "data.json", "path", "bytes", "xxh3", "samples": of data sets}]; *out is a new reference.
 * Files over 256 MiB are hashed in 64 samples, with their ends. */
enum cs_status cs_run_inputs_read(const struct cs_spec *spec, const struct cs_graph *graph,
                                  json_t **out, struct cs_err *err) CS_NODISCARD;
/* CS_REFUSED names the first that is another, with what it was and is. then NULL: from before there
 * were any, nothing to compare. */
enum cs_status cs_run_inputs_compare(const json_t *then, const json_t *now,
                                     struct cs_err *err) CS_NODISCARD;

#endif
