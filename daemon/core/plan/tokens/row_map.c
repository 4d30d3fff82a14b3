/* Makes maps of row intervals, and finds what of one concerns a rank. */
#include "core/plan/tokens/row_map.h"

#include <string.h>

#include "core/model/tensor_parallel.h"

/* goes on where the one before ends, at both ends */
static bool goes_on(const struct cs_row_interval *last, int32_t from, int32_t to)
{
    return last->from == from && last->to == to;
}

void cs_row_map_make(const int32_t *begin, int32_t n_from, const int32_t *to, int32_t n_to,
                     struct cs_row_interval *interval, int32_t *from_rows, int32_t *to_rows,
                     struct cs_row_map *out)
{
    int32_t n = 0;
    memset(to_rows, 0, (size_t)n_to * sizeof *to_rows);
    for (int32_t p = 0; p < n_from; p++) {
        from_rows[p] = begin[p + 1] - begin[p];
        for (int32_t row = begin[p]; row < begin[p + 1]; row++) {
            const int32_t its = to != NULL ? to[row] : 0;
            if (n > 0 && goes_on(&interval[n - 1], p, its))
                interval[n - 1].n++;
            else
                interval[n++] = (struct cs_row_interval){p, row - begin[p], its, to_rows[its], 1};
            to_rows[its]++;
        }
    }
    *out = (struct cs_row_map){n_from, n_to, n, interval, from_rows, to_rows};
}

struct cs_row_meets cs_row_meets(const struct cs_row_end *end)
{
    const int32_t receivers = end->is_send ? end->there : end->here,
                  senders = end->is_send ? end->here : end->there;
    if (end->is_cut && senders > receivers)
        return (struct cs_row_meets){end->sharer % receivers, receivers};
    return end->is_send ? (struct cs_row_meets){end->sharer, end->here}
                        : (struct cs_row_meets){end->sharer % end->there, end->there};
}

/* of the rows of the part that receives, those that go between this rank and a sharer of the other end */
static struct cs_tp_share cut(const struct cs_row_end *end, int32_t sharer, int32_t n)
{
    const int32_t receivers = end->is_send ? end->there : end->here,
                  senders = end->is_send ? end->here : end->there,
                  receiver = end->is_send ? sharer : end->sharer,
                  sender = end->is_send ? end->sharer : sharer;
    const int32_t turns = (senders - receiver + receivers - 1) / receivers;
    if (!end->is_cut)
        return (struct cs_tp_share){0, n};
    const struct cs_tp_share own =
        cs_tp_share(n, (struct cs_tp){.ranks = receivers, .at = receiver});
    if (turns <= 1)
        return own;
    const struct cs_tp_share turn =
        cs_tp_share(own.end - own.begin, (struct cs_tp){.ranks = turns, .at = sender / receivers});
    return (struct cs_tp_share){own.begin + turn.begin, own.begin + turn.end};
}

bool cs_row_map_is_own(const struct cs_row_end *end, const struct cs_row_interval *interval,
                       int32_t receiver)
{
    const int32_t senders = end->is_send ? end->here : end->there;
    const int32_t part = end->is_maker == end->is_send ? interval->from : interval->to;
    return end->is_same && receiver / senders == part;
}

/* What of an interval is between this rank and a sharer; n 0: nothing. */
static struct cs_row_piece piece_of(const struct cs_row_map *map, const struct cs_row_end *end,
                                    const struct cs_row_interval *r, int32_t sharer)
{
    const bool is_maker_sent = end->is_maker == end->is_send; /* rows, not gradients */
    const int32_t part = end->is_maker ? r->to : r->from;
    const int32_t receiver =
        end->is_send ? part * end->there + sharer : end->part * end->here + end->sharer;
    const int32_t first = is_maker_sent ? r->to_row : r->from_row;
    const struct cs_tp_share share =
        cut(end, sharer, is_maker_sent ? map->to_rows[r->to] : map->from_rows[r->from]);
    const int32_t begin = share.begin > first ? (int32_t)share.begin - first : 0;
    const int32_t stop = share.end < first + r->n ? (int32_t)share.end - first : r->n;
    const bool is_none = stop <= begin || cs_row_map_is_own(end, r, receiver);
    return (struct cs_row_piece){part, sharer, (end->is_maker ? r->from_row : r->to_row) + begin,
                                 is_none ? 0 : stop - begin};
}

int32_t cs_row_map_pieces(const struct cs_row_map *map, const struct cs_row_end *end,
                          struct cs_row_piece *piece)
{
    const struct cs_row_meets meets = cs_row_meets(end);
    int32_t n = 0;
    for (int32_t k = meets.first; k < end->there; k += meets.step)
        for (int32_t i = 0; i < map->n; i++) {
            const struct cs_row_interval *r = &map->interval[i];
            if ((end->is_maker ? r->from : r->to) != end->part)
                continue;
            const struct cs_row_piece one = piece_of(map, end, r, k);
            if (one.n == 0)
                continue;
            if (piece != NULL)
                piece[n] = one;
            n++;
        }
    return n;
}

bool cs_row_map_joins(const struct cs_row_map *map, const struct cs_row_end *end, int32_t part,
                      int32_t sharer)
{
    for (int32_t i = 0; i < map->n; i++) {
        const struct cs_row_interval *r = &map->interval[i];
        if (r->from == (end->is_maker ? end->part : part) &&
            r->to == (end->is_maker ? part : end->part) && piece_of(map, end, r, sharer).n > 0)
            return true;
    }
    return false;
}
