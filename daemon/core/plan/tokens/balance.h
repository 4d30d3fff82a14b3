/* Token balance: blocks of a sequence (128 tokens) to context-parallel ranks so that no rank waits.
 *
 * Any assignment is legal, because keys are gathered by global position; only the largest load
 * counts. Loads are sums of doubles in block order: exact for whole numbers below 2^53. Nothing
 * depends on time, hash order or the machine: equal inputs give equal owners everywhere. Sources:
 * Cornstarch, distribution algorithms (uniform, zigzag, LPT, striped, the integer program); Graham
 * 1969 for the bound of LPT, 4/3 - 1/(3 ranks).
 *
 * cs.lab.balance{work={...}, ranks=W, how="best", seed=0, cap=0, nodes=} -> {owner={...},
 * load={...}} work -> work (n), ranks -> options.ranks, how -> cs_balance_how_from_name, seed, cap,
 * nodes as below; results: owner (n, counting from 0), load (ranks), max, mean, how (what "best"
 * took), proven (true: no assignment has a smaller largest load). */
#ifndef CS_PLAN_TOKENS_BALANCE_H
#define CS_PLAN_TOKENS_BALANCE_H

#include <stdint.h>

#include "core/base/arena.h"
#include "core/mask/runs.h"

enum { CS_BALANCE_BLOCK = 128, CS_BALANCE_NODES = 1 << 20, CS_BALANCE_BEST_NODES = 4096 };

enum cs_balance_how {
    CS_BALANCE_BEST, /* the smallest largest load of the others (random aside); ties: the first */
    CS_BALANCE_UNIFORM, /* contiguous, the remainder to the first ranks */
    CS_BALANCE_ZIGZAG, /* 2 * ranks near-equal chunks, rank r takes chunks r and 2 * ranks - 1 - r */
    CS_BALANCE_STRIPED, /* stripes of 16 blocks, halved until every rank gets two; first half of the
                           stripes round robin, second half reversed */
    CS_BALANCE_LPT,     /* heaviest first to the lightest rank; ties: earlier block, lower rank */
    CS_BALANCE_EXACT,   /* branch and bound from LPT; optimal unless the nodes run out */
    CS_BALANCE_RANDOM,  /* keyed shuffle dealt round robin: a baseline with equal counts */
    CS_BALANCE_HOWS
};

struct cs_balance_options {
    enum cs_balance_how how;
    int32_t ranks;
    int32_t cap;   /* most blocks of a rank, 0: none. ceil(n / ranks) makes equal tokens */
    int64_t nodes; /* EXACT and BEST: visited at most; 0: CS_BALANCE_NODES, CS_BALANCE_BEST_NODES,
                      both times 16 / ranks on more than 16 ranks (a node costs O(ranks)) */
    uint64_t seed; /* RANDOM */
};

struct cs_balance_result {
    int32_t *owner; /* (n) rank of every block */
    double *load;   /* (ranks) */
    double max, mean;
    enum cs_balance_how how; /* BEST: what it took */
    bool is_proven;          /* max equals a lower bound, or the search was exhausted */
    int64_t nodes;           /* visited */
};

/* work (n) >= 0 of every block; results in the arena.
 * CS_INVALID: no blocks or ranks, a work that is negative or not finite, cap * ranks < n, or a cap
 * that the named static layout breaks. */
enum cs_status cs_balance(const double *work, int32_t n, const struct cs_balance_options *options,
                          struct cs_arena *arena, struct cs_balance_result *out,
                          struct cs_err *err) CS_NODISCARD;

const char *cs_balance_how_name(enum cs_balance_how how);
bool cs_balance_how_from_name(const char *name, enum cs_balance_how *how);

/* Work of every block from what attention and the rest of the layer cost. Any unit; 0 leaves a term
 * out. {0, 1, 1, 0} counts active tiles as the reference does. */
struct cs_balance_cost {
    double per_pair;         /* allowed (query, key) pair */
    double per_tile_all;     /* tile that needs no test of the mask */
    double per_tile_partial; /* tile that does */
    double per_token;        /* linear layers, norms */
};

/* pairs (n_blocks) of cs_mask_block_pairs, needed with per_pair; tiles of query size `block`,
 * needed with the costs of tiles; both may be NULL else. work (ceil(n_tokens / block)). */
void cs_balance_work(const struct cs_balance_cost *cost, int32_t n_tokens, int32_t block,
                     const int64_t *pairs, const struct cs_mask_tiles *tiles, double *work);

#endif
