/* Why a job failed: what was last, what to go on from, what to try. */
#ifndef CS_CONSOLE_VIEWS_FAILURE_H
#define CS_CONSOLE_VIEWS_FAILURE_H

#include "console/views/state/view.h"

bool cs_failure_is(const struct cs_store_job *job); /* its state says that it went wrong */
/* what people usually try then, by the words of the reason; never NULL */
const char *cs_failure_advice(const char *reason);
/* The panel, with its title; returns the rows it takes, 0 when the job did not fail. */
int cs_failure_draw(const struct cs_store *store, const struct cs_screen *screen,
                    const struct cs_store_job *job, struct cs_area area);
/* The failed job that every view should tell of: the selected one, else the newest that failed since
 * the screen was opened and is not dismissed; NULL none. */
const struct cs_store_job *cs_failure_to_tell(const struct cs_store *store,
                                              const struct cs_screen *screen);

#endif
