/* Messages as transfers between ranks: hosts' communication thread moves them (communicate.c), on devices
 * with streams they are enqueued (messages.c). */
#include "worker/exec/messages/messages.h"

#include <stdlib.h>

/* One message on its way into a list. */
struct list {
    const struct cs_exec *exec;
    const struct cs_action *action;
    const struct cs_message *message;
    struct cs_exec_way way;
    struct cs_xfer *xfer;
    int n;
};

/* A rank of the LLM with rows of an encoder says so with their gradients to all parts of it, with one byte
 * to those whose items have none: who made nothing of a slot must not be ahead of the others, whose rows
 * still lie where those of a later slot will (worker/memory/plan.h). So do ranks of which each is sent a share,
 * where that has no rows. Between different numbers of lanes, or of ranks that share matrices, all rows have
 * places of their own, and nobody has to. */
static bool says_so(const struct list *l)
{
    const bool is_told = l->way.end.is_cut || (l->action->is_grad && l->way.map->n_from > 1);
    return is_told && !cs_plan_is_uneven(l->exec->config.plan, l->action->edge);
}

static void add(struct list *l, int32_t part, int32_t sharer, void *data, size_t bytes)
{
    l->xfer[l->n++] =
        (struct cs_xfer){.peer = cs_exec_way_rank(l->exec, l->action, &l->way, part, sharer),
                         .data = data,
                         .bytes = bytes,
                         .is_send = l->action->op == CS_OP_SEND};
}

/* whom this rank meets of a part: where nothing is cut others need not be told */
static int32_t met(const struct list *l, int32_t first)
{
    return l->way.end.is_cut || first >= l->way.end.there ? l->way.end.there : first + 1;
}

/* To parts of the other end, and sharers of them, that no rows go to or come from. */
static void add_bytes(struct list *l)
{
    const struct cs_row_map *map = l->way.map;
    const struct cs_row_end *end = &l->way.end;
    const struct cs_row_meets meets = cs_row_meets(end);
    const int32_t n = end->is_maker ? map->n_to : map->n_from;
    for (int32_t p = 0; says_so(l) && p < n; p++)
        for (int32_t k = meets.first; k < met(l, meets.first); k += meets.step)
            if (map->to_rows[end->is_maker ? p : end->part] > 0 &&
                !cs_row_map_joins(map, end, p, k))
                add(l, p, k, l->exec->byte, 1);
}

/* Loads of experts go with all rows, between stages of one branch. */
static void add_loads(struct list *l)
{
    const struct cs_row_meets meets = cs_row_meets(&l->way.end);
    const struct cs_edge *edge = &l->exec->config.plan->edges[l->action->edge];
    for (int32_t k = meets.first; l->message->loads != NULL && k < l->way.end.there;
         k += meets.step)
        add(l, 0, k, l->message->loads, (size_t)edge->load_bytes);
}

static void add_rows(struct list *l, const struct cs_row_piece *piece, int32_t n, size_t row)
{
    for (int32_t i = 0; i < n; i++)
        add(l, piece[i].part, piece[i].sharer,
            (char *)l->message->data + (size_t)piece[i].row * row, (size_t)piece[i].n * row);
}

static size_t row_bytes(const struct cs_exec *exec, const struct cs_action *action)
{
    return (size_t)exec->config.plan->edges[action->edge].width *
           exec->config.device->ops->act_bytes;
}

enum cs_status cs_exec_transfers(const struct cs_exec *exec, const struct cs_action *action,
                                 const struct cs_message *message, struct cs_xfer **out, int *n,
                                 struct cs_err *err)
{
    const size_t row = row_bytes(exec, action);
    struct list l = {.exec = exec, .action = action, .message = message};
    cs_exec_find_way(exec, action, (int32_t)(message->bytes / row), &l.way);
    const int32_t n_pieces = cs_row_map_pieces(l.way.map, &l.way.end, NULL);
    const size_t most = (size_t)n_pieces +
                        (size_t)(l.way.map->n_from + l.way.map->n_to + 1) * (size_t)l.way.end.there;
    struct cs_row_piece *piece = calloc((size_t)n_pieces + 1, sizeof *piece);
    l.xfer = calloc(most + 1, sizeof *l.xfer);
    *out = l.xfer;
    *n = 0;
    if (piece == NULL || l.xfer == NULL) {
        free(piece);
        return cs_fail(err, CS_NO_MEMORY, "no memory for the %d pieces of a message", n_pieces);
    }
    cs_row_map_pieces(l.way.map, &l.way.end, piece);
    add_rows(&l, piece, n_pieces, row);
    add_loads(&l);
    add_bytes(&l);
    free(piece);
    *n = l.n;
    return CS_OK;
}
