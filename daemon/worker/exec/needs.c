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
        const struct cs_stage_model *stage = exec->stage[s];
        needs |= CS_INPUT_TOKENS;
        if (stage->is_last || stage->layer[stage->stage->n_layers - 1].picks_labels)
            needs |= CS_INPUT_LABELS;
        if (stage->is_last && is_eval)
            needs |= CS_INPUT_CORRECT;
    }
    return needs;
}
