/* Rows of found plans ("cornstarch.plans/1") as text: what a sweep or search lists, in the shell and on the
 * screen. */
#ifndef CS_CONSOLE_WHATIF_FOUND_H
#define CS_CONSOLE_WHATIF_FOUND_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/base/buf.h"
#include "core/base/units.h"

struct cs_found_cells { /* "-" what the row does not have */
    char runs[8];       /* "yes" "no": jobs run it */
    char step[CS_UNITS_CAP], mean[CS_UNITS_CAP], p95[CS_UNITS_CAP], memory[CS_UNITS_CAP],
        expected[CS_UNITS_CAP], slot[CS_UNITS_CAP], tokens[CS_UNITS_CAP], bubble[32], ranks[16];
    struct cs_buf layout; /* freed by the caller */
};

/* as_job: step, slot, tokens, memory and bubble are those of the plan that a job makes of it, where the row has
 * them: what `plan` and the Plan view tell of it. Else the search's own, by which all rows compare. */
void cs_found_cells(const json_t *row, bool as_job, struct cs_found_cells *c);

#endif
