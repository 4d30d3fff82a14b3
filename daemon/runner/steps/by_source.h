/* The loss of a step by the sources of its samples (core/data/sources.h), where these have names. */
#ifndef CS_RUNNER_STEPS_BY_SOURCE_H
#define CS_RUNNER_STEPS_BY_SOURCE_H

#include <jansson.h>

#include "core/data/sources.h"

/* Adds what a rank reports: a list of [number, sum, tokens]. source: (CS_SOURCES_MAX) */
void cs_by_source_add(struct cs_source_loss *source, const json_t *reported);
void cs_by_source_join(struct cs_source_loss *source, const struct cs_source_loss *other);
/* Into the row of a step: "sources", {name: {loss, tokens}} of those that have tokens. names: by number; none: nothing
 * is said. */
void cs_by_source_set(json_t *row, const struct cs_source_loss *source, const json_t *names);

#endif
