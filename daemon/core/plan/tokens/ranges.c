/* Cuts of a sequence into contiguous ranges: near-equal parts, and the two chunks of a zigzag. */
#include "core/plan/tokens/ranges.h"

struct cs_token_range cs_balance_part(int32_t n_tokens, int32_t n_parts, int32_t i)
{
    const int32_t each = n_tokens / n_parts, more = n_tokens % n_parts;
    const int32_t begin = i * each + (i < more ? i : more);
    return (struct cs_token_range){begin, begin + each + (i < more)};
}

void cs_balance_zigzag_ranges(int32_t n_tokens, int32_t ranks, int32_t rank,
                              struct cs_token_range out[2])
{
    out[0] = cs_balance_part(n_tokens, 2 * ranks, rank);
    out[1] = cs_balance_part(n_tokens, 2 * ranks, 2 * ranks - 1 - rank);
}
