/* Jobs of tiny models in any layout, run to their ends: ranks are threads that talk through the socket transport. */
#ifndef CS_TESTS_SUPPORT_LAYOUT_RUN_H
#define CS_TESTS_SUPPORT_LAYOUT_RUN_H

#include "support/layout_train.h"

extern const int layout_single[16]; /* every stage on rank 0 */

/* The job with samples that depend on the step alone; ranks: of every stage, NULL: as planned. What is frozen
 * must stay, what is trained must change, copies of a tied embedding must be one. Values are kept of jobs of
 * LAYOUT_REPLICA_SLOTS or LAYOUT_LANE_SLOTS slots: layout_free. */
void layout_run(const struct cs_test_spec *options, const int *ranks, struct layout_outcome *out);
/* is_lazy: on devices with streams (support/lazy_device.h) */
void layout_run_on(bool is_lazy, const struct cs_test_spec *options, const int *ranks,
                   struct layout_outcome *out);
void layout_free(struct layout_outcome *o);

#endif
