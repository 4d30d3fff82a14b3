/* Makes maps of row intervals, and finds what of one concerns a rank. */
#include "core/plan/tokens/row_map.h"

#include <string.h>

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
    return end->is_send ? (struct cs_row_meets){end->sharer, end->here}
                        : (struct cs_row_meets){end->sharer % end->there, end->there};
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
            if (piece != NULL)
                piece[n] = (struct cs_row_piece){end->is_maker ? r->to : r->from, k,
                                                 end->is_maker ? r->from_row : r->to_row, r->n};
            n++;
        }
    return n;
}
