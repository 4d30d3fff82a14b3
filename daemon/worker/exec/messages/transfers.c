/* Messages as transfers between ranks: hosts' communication thread moves them (communicate.c), on devices
 * with streams they are enqueued (messages.c). */
#include "worker/exec/messages/messages.h"

#include <stdlib.h>

/* A rank of the LLM with rows of an encoder says so with their gradients to all parts of it, with one byte
 * to those whose items have none: who made nothing of a slot must not be ahead of the others, whose rows
 * still lie where those of a later slot will (worker/memory/plan.h). Between different numbers of lanes all
 * rows have places of their own, and nobody has to. */
static bool says_so(const struct cs_exec *exec, const struct cs_action *action,
                    const struct cs_row_map *map)
{
    return action->is_grad && map->n_from > 1 &&
           !cs_plan_is_uneven(exec->config.plan, action->edge);
}

static bool have_rows(const struct cs_row_map *map, int32_t from, int32_t to)
{
    for (int32_t i = 0; i < map->n; i++)
        if (map->interval[i].from == from && map->interval[i].to == to)
            return true;
    return false;
}

/* Parts of the other end without rows of the own part. */
static int add_bytes(const struct cs_exec *exec, const struct cs_action *action,
                     const struct cs_row_map *map, struct cs_xfer *xfer)
{
    const struct cs_row_end end = cs_exec_row_end(exec, action);
    const int32_t n = end.is_maker ? map->n_to : map->n_from;
    int n_added = 0;
    for (int32_t p = 0; p < n; p++) {
        const int32_t from = end.is_maker ? end.part : p, to = end.is_maker ? p : end.part;
        if (map->to_rows[to] == 0 || have_rows(map, from, to))
            continue;
        const struct cs_row_piece piece = {.part = p, .sharer = cs_row_meets(&end).first};
        if (piece.sharer < end.there)
            xfer[n_added++] = (struct cs_xfer){.peer = cs_exec_piece_rank(exec, action, &piece),
                                               .data = exec->byte,
                                               .bytes = 1,
                                               .is_send = action->op == CS_OP_SEND};
    }
    return n_added;
}

/* Loads of experts go with all rows; between stages of one branch these are one piece. */
static int add_loads(const struct cs_exec *exec, const struct cs_action *action,
                     const struct cs_message *message, int n_pieces, struct cs_xfer *xfer)
{
    if (message->loads == NULL)
        return 0;
    for (int i = 0; i < n_pieces; i++)
        xfer[n_pieces + i] =
            (struct cs_xfer){.peer = xfer[i].peer,
                             .data = message->loads,
                             .bytes = (size_t)exec->config.plan->edges[action->edge].load_bytes,
                             .is_send = xfer[i].is_send};
    return n_pieces;
}

enum cs_status cs_exec_transfers(const struct cs_exec *exec, const struct cs_action *action,
                                 const struct cs_message *message, struct cs_xfer **out, int *n,
                                 struct cs_err *err)
{
    const struct cs_row_map *map = cs_exec_row_map(exec, action);
    const size_t row =
        (size_t)exec->config.plan->edges[action->edge].width * exec->config.device->ops->act_bytes;
    const bool is_said = map != NULL && says_so(exec, action, map);
    const int32_t n_bytes = is_said ? map->n_from + map->n_to : 0;
    struct cs_row_piece *piece;
    int32_t n_pieces;
    *out = NULL;
    *n = 0;
    CS_TRY(cs_exec_pieces(exec, action, message, &piece, &n_pieces, err));
    struct cs_xfer *xfer = calloc((size_t)(2 * n_pieces + n_bytes) + 1, sizeof *xfer);
    if (xfer == NULL) {
        free(piece);
        return cs_fail(err, CS_NO_MEMORY, "no memory for the %d pieces of a message", n_pieces);
    }
    for (int32_t i = 0; i < n_pieces; i++)
        xfer[i] = (struct cs_xfer){.peer = cs_exec_piece_rank(exec, action, &piece[i]),
                                   .data = (char *)message->data + (size_t)piece[i].row * row,
                                   .bytes = (size_t)piece[i].n * row,
                                   .is_send = action->op == CS_OP_SEND};
    *n = n_pieces + add_loads(exec, action, message, n_pieces, xfer);
    if (is_said)
        *n += add_bytes(exec, action, map, xfer + *n);
    free(piece);
    *out = xfer;
    return CS_OK;
}
