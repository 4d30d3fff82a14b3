/* Experts on devices: how many rows of every slot come from each of the ranks that share them, told over the
 * job's sockets once a step, so that the host knows the sizes of all messages before it enqueues them. */
#include <stdlib.h>

#include "worker/exec/messages/context.h"
#include "worker/slot/split.h"

/* of a slot: rows of most layers; of recurrent ones, where a context's are in order */
enum { KINDS = 2 };

static void count_own(const struct cs_exec *exec, int32_t *rows)
{
    for (int32_t s = 0; s < exec->expert_slots; s++) {
        const struct cs_input *in = &exec->inputs[s];
        rows[KINDS * s] = in->llm_rows;
        rows[KINDS * s + 1] = in->split != NULL ? in->split->stretch.n : in->llm_rows;
    }
}

static enum cs_status exchange(const struct cs_exec *exec, struct cs_err *err)
{
    const struct cs_exec_peers *peers = &exec->expert_peers;
    const int32_t n = exec->experts.n, each = KINDS * exec->expert_slots;
    int32_t *const own = exec->expert_rows + exec->experts.place * each;
    struct cs_xfer *x = calloc(2 * (size_t)n, sizeof *x);
    int n_xfers = 0;
    if (x == NULL)
        return cs_fail(err, CS_NO_MEMORY, "no memory for the rows of %d ranks", n);
    for (int32_t r = 0; r < n; r++) {
        if (r == exec->experts.place)
            continue;
        const size_t bytes = (size_t)each * sizeof *own;
        x[n_xfers++] =
            (struct cs_xfer){.peer = peers->rank[r], .data = own, .bytes = bytes, .is_send = 1};
        x[n_xfers++] = (struct cs_xfer){
            .peer = peers->rank[r], .data = exec->expert_rows + r * each, .bytes = bytes};
    }
    const enum cs_status status = exec->config.comm->table->exchange(exec->config.comm, x, n_xfers,
                                                                     exec->config.deadline_ms, err);
    free(x);
    return status;
}

/* Memory was planned for as many. */
static enum cs_status check(const struct cs_exec *exec, struct cs_err *err)
{
    const int32_t most = exec->config.plan->budget.seq_tokens, each = KINDS * exec->expert_slots;
    for (int32_t i = 0; i < exec->experts.n * each; i++)
        if (exec->expert_rows[i] < 0 || exec->expert_rows[i] > most)
            return cs_fail(err, CS_CORRUPT, "rank %d says that it has %d rows of a slot of %d",
                           exec->expert_peers.rank[i / each], exec->expert_rows[i], most);
    return CS_OK;
}

enum cs_status cs_exec_meet_experts(struct cs_exec *exec, struct cs_err *err)
{
    const int32_t n = exec->experts.n;
    if (n < 2 || exec->config.device->mem == NULL)
        return CS_OK;
    const int32_t each = KINDS * exec->program->n_slots;
    int32_t *rows = realloc(exec->expert_rows, (size_t)(n * each) * sizeof *rows);
    if (rows == NULL)
        return cs_fail(err, CS_NO_MEMORY, "no memory for the rows of %d ranks", n);
    exec->expert_rows = rows;
    exec->expert_slots = exec->program->n_slots;
    count_own(exec, rows + exec->experts.place * each);
    CS_TRY(exchange(exec, err));
    return check(exec, err);
}
