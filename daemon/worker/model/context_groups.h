/* Groups of heads of keys that travel one after the other (context.h), by what all ranks know. Attention of the
 * first one waits until its keys are here, so it has as few heads as are worth a message; the others hide
 * behind it. Backward the gradients of the last one are awaited, so that has as few. */
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
