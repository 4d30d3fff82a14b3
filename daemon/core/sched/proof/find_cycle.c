/* Looks for a cycle in the precedence graph, and writes it down. */
#include "core/sched/proof/find_cycle.h"

enum { MAX_SHOWN = 8 };

bool cs_precedence_is_acyclic(const struct cs_precedence *graph, struct cs_arena *arena,
                              uint32_t **open_out)
{
    uint32_t *open = CS_NEW_ARRAY(arena, uint32_t, (size_t)graph->n_nodes + 1);
    uint32_t *ready = CS_NEW_ARRAY(arena, uint32_t, (size_t)graph->n_nodes + 1);
    uint32_t n_ready = 0, n_done = 0;
    for (uint32_t n = 0; n < graph->n_nodes; n++) {
        open[n] = graph->node[n].n_preds;
        if (open[n] == 0)
            ready[n_ready++] = n;
    }
    while (n_done < n_ready) {
        uint32_t n = ready[n_done++];
        for (uint32_t i = graph->first_succ[n]; i < graph->first_succ[n + 1]; i++)
            if (--open[graph->succs[i]] == 0)
                ready[n_ready++] = graph->succs[i];
    }
    if (open_out)
        *open_out = open;
    return n_done == graph->n_nodes;
}

/* a predecessor that is left too; every node that is left has one */
static uint32_t before(const struct cs_precedence *graph, const uint32_t *open, uint32_t node)
{
    const struct cs_precedence_node *n = &graph->node[node];
    for (uint32_t i = 0; i < n->n_preds; i++)
        if (open[graph->preds[n->first_pred + i]] > 0)
            return graph->preds[n->first_pred + i];
    return node;
}

void cs_precedence_cycle_text(const struct cs_precedence *graph, const uint32_t *open,
                              struct cs_arena *arena, struct cs_buf *out)
{
    bool *seen = CS_NEW_ARRAY(arena, bool, (size_t)graph->n_nodes + 1);
    uint32_t node = 0, shown = 0;
    while (node < graph->n_nodes && open[node] == 0)
        node++;
    if (node == graph->n_nodes)
        return;
    for (; !seen[node]; node = before(graph, open, node))
        seen[node] = true;
    uint32_t start = node;
    do {
        const struct cs_precedence_node *n = &graph->node[node];
        if (!n->is_meeting && shown++ < MAX_SHOWN) {
            cs_buf_adds(out, shown > 1 ? " waits for " : "");
            cs_action_text(graph->program, n->rank, n->action, out);
        }
        node = before(graph, open, node);
    } while (node != start);
    if (shown > MAX_SHOWN)
        cs_buf_adds(out, " ...");
}
