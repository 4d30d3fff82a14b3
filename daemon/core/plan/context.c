/* Sizes of what a rank of a context holds. */
#include "core/plan/context.h"

enum { LARGEST_BLOCK = 128, SMALLEST_BLOCK = 8, BLOCKS_OF_A_RANK = 8 };

int32_t cs_context_block(int32_t n_rows, int32_t ranks)
{
    int32_t block = LARGEST_BLOCK;
    while (block > SMALLEST_BLOCK && (int64_t)n_rows < (int64_t)BLOCKS_OF_A_RANK * block * ranks)
        block /= 2;
    return block;
}

int32_t cs_context_cap(int32_t n_blocks, int32_t ranks)
{
    const int64_t parts = 2 * (int64_t)ranks;
    return ranks == 1 ? n_blocks : (int32_t)((3 * (int64_t)n_blocks + parts - 1) / parts);
}

/* Shorter slots have blocks of at most this size: the cap of n blocks of b rows is at most
 * 3 n b / (2 ranks) + 3 b / (2 ranks) + b rows. */
int32_t cs_context_most(int32_t n_rows, int32_t ranks)
{
    const int64_t parts = 2 * (int64_t)ranks;
    const int64_t most =
        (3 * (int64_t)n_rows + parts - 1) / parts + 2 * (int64_t)cs_context_block(n_rows, ranks);
    return ranks == 1 || most > n_rows ? n_rows : (int32_t)most;
}

int64_t cs_context_share(const struct cs_plan *plan, int32_t stage, int64_t n)
{
    const int32_t seq = plan->budget.seq_tokens, cp = cs_plan_shape(plan, stage).cp;
    if (cp == 1 || seq < 1)
        return n;
    return (int64_t)((double)n / seq * cs_context_most(seq, cp));
}
