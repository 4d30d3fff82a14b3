/* Chooses the numbers of ranks that a search tries. */
#include "core/search/problem/widths.h"

enum { FEW_RANKS = 16 };

static bool is_power_of_two(int32_t n)
{
    return (n & (n - 1)) == 0;
}

int32_t cs_search_widths(int32_t n_ranks, int32_t per_node, int32_t widest, uint64_t asked,
                         int32_t *out)
{
    int32_t n = 0;
    for (int32_t w = 1; w <= widest && w <= CS_SEARCH_WIDEST; w++)
        if (n_ranks <= FEW_RANKS || (asked >> (w - 1) & 1) != 0 || is_power_of_two(w) ||
            per_node % w == 0 || (widest > per_node && n_ranks % w == 0))
            out[n++] = w;
    return n;
}

const struct cs_search_ratio cs_search_ratio[CS_SEARCH_RATIOS] = {
    {1,  16},
    {1,  8 },
    {1,  6 },
    {1,  4 },
    {1,  3 },
    {2,  5 },
    {1,  2 },
    {3,  5 },
    {2,  3 },
    {3,  4 },
    {1,  1 },
    {4,  3 },
    {3,  2 },
    {5,  3 },
    {2,  1 },
    {5,  2 },
    {3,  1 },
    {4,  1 },
    {6,  1 },
    {8,  1 },
    {16, 1 },
};

bool cs_search_tries_ratio(struct cs_search_ratio ratio, int32_t n_ranks)
{
    if (ratio.times > 1 && ratio.over > 1)
        return n_ranks <= FEW_RANKS;
    return is_power_of_two(ratio.times * ratio.over) || n_ranks <= FEW_RANKS || n_ranks % 3 == 0;
}
