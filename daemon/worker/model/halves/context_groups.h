/* Groups of heads of keys that travel one after the other (context.h), by what all ranks know. Forward two of as
 * many heads were the fastest (tests/bench/RESULTS.md). Backward attention waits for the keys of the first, and
 * somebody for the gradients of the last: both have as few heads as are worth a message. */
#ifndef CS_WORKER_MODEL_CONTEXT_GROUPS_H
#define CS_WORKER_MODEL_CONTEXT_GROUPS_H

#include "worker/layer/layers.h"

enum { CS_CONTEXT_GROUPS = 64 }; /* at most */

struct cs_context_groups {
    int32_t n, begin[CS_CONTEXT_GROUPS + 1]; /* of the heads of keys */
};

struct cs_context_groups cs_context_groups_of(const struct cs_run *run,
                                              const struct cs_attention_shape *shape, bool is_back);

#endif
