/* Sweeps, searches and explanations of plans as text. */
#ifndef CS_CONSOLE_WHATIF_EXPLAIN_H
#define CS_CONSOLE_WHATIF_EXPLAIN_H

#include <jansson.h>

#include "core/base/buf.h"
#include "core/plan/plan.h"

/* A "cornstarch.plans/1" document of a sweep or search: one row per plan; explains: why, and what
 * the others lose; compares: the choices of other planners. width: columns of the tables, 0: no
 * limit. */
void cs_sweep_text(const json_t *document, bool explains, bool compares, int width,
                   struct cs_buf *out);
/* Explanation of one given plan: {"explain": {"cut": [...], "binds": [...]}, "planners": [...],
 * "others": [...]}: the search told to look at its layout alone (where that knows none of this kind the plan's
 * own reasons), then what planners choose on these devices and the best plans that jobs run there. */
enum cs_status cs_plan_explain(const struct cs_spec *spec, const struct cs_graph *graph,
                               const struct cs_plan *plan, const struct cs_here *here,
                               struct cs_arena *arena, json_t **out,
                               struct cs_err *err) CS_NODISCARD;
void cs_explain_text(const json_t *explanation, bool compares, int width, struct cs_buf *out);

#endif
