/* Circles in the precedence graph; see circle.h. */
#include "core/sched/proof/circle.h"

enum { MAX_SHOWN = 8 };

bool cs_net_is_acyclic(const struct cs_net *net, struct cs_arena *arena, uint32_t **open_out)
{
    uint32_t *open = CS_NEW_ARRAY(arena, uint32_t, (size_t)net->n_nodes + 1);
    uint32_t *ready = CS_NEW_ARRAY(arena, uint32_t, (size_t)net->n_nodes + 1);
    uint32_t n_ready = 0, n_done = 0;
    for (uint32_t n = 0; n < net->n_nodes; n++) {
        open[n] = net->node[n].n_preds;
        if (open[n] == 0)
            ready[n_ready++] = n;
    }
    while (n_done < n_ready) {
        uint32_t n = ready[n_done++];
        for (uint32_t i = net->first_succ[n]; i < net->first_succ[n + 1]; i++)
            if (--open[net->succs[i]] == 0)
                ready[n_ready++] = net->succs[i];
    }
    if (open_out)
        *open_out = open;
    return n_done == net->n_nodes;
}

/* a predecessor that is left too; every node that is left has one */
static uint32_t before(const struct cs_net *net, const uint32_t *open, uint32_t node)
{
    const struct cs_net_node *n = &net->node[node];
    for (uint32_t i = 0; i < n->n_preds; i++)
        if (open[net->preds[n->first_pred + i]] > 0)
            return net->preds[n->first_pred + i];
    return node;
}

void cs_net_circle_text(const struct cs_net *net, const uint32_t *open, struct cs_arena *arena,
                        struct cs_buf *out)
{
    bool *seen = CS_NEW_ARRAY(arena, bool, (size_t)net->n_nodes + 1);
    uint32_t node = 0, shown = 0;
    while (node < net->n_nodes && open[node] == 0)
        node++;
    if (node == net->n_nodes)
        return;
    for (; !seen[node]; node = before(net, open, node))
        seen[node] = true;
    uint32_t start = node;
    do {
        const struct cs_net_node *n = &net->node[node];
        if (!n->is_meeting && shown++ < MAX_SHOWN) {
            cs_buf_adds(out, shown > 1 ? " waits for " : "");
            cs_action_text(net->program, n->rank, n->action, out);
        }
        node = before(net, open, node);
    } while (node != start);
    if (shown > MAX_SHOWN)
        cs_buf_adds(out, " ...");
}
