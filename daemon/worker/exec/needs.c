/* What the stages of a rank read of a slot. */
#include "worker/exec/exec.h"
#include "worker/exec/state/state.h"

unsigned cs_exec_needs(const struct cs_exec *exec, bool is_eval)
{
    unsigned needs = 0;
    for (int32_t s = 0; s < exec->config.plan->n_stages; s++) {
        if (exec->stage[s] == NULL)
            continue;
        if (exec->stage[s]->encoder >= 0) {
            needs |= CS_INPUT_ROWS | (exec->stage[s]->is_first ? CS_INPUT_PIXELS : 0u);
            continue;
        }
        needs |= CS_INPUT_TOKENS;
        if (exec->stage[s]->is_last)
            needs |= CS_INPUT_LABELS | (is_eval ? CS_INPUT_CORRECT : 0u);
    }
    return needs;
}
