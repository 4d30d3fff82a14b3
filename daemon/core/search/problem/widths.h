/* How many ranks share what a search lays out: tp, cp and ep, and replicas of an encoder for one of the LLM. */
#ifndef CS_SEARCH_PROBLEM_WIDTHS_H
#define CS_SEARCH_PROBLEM_WIDTHS_H

#include <stdbool.h>
#include <stdint.h>

enum { CS_SEARCH_WIDEST = 64 /* ranks of a tp * cp group */, CS_SEARCH_RATIOS = 21 };

/* How far groups of ranks reach. asked: bit w - 1, so many ranks of a group are asked for. */
struct cs_search_reach {
    bool may_leave_node; /* tp * cp groups */
    uint64_t asked;
};

/* Of at most 16 ranks every number up to `widest`; of more powers of two, and what divides the ranks of a node, or
 * where groups may leave nodes all ranks: other numbers leave some of them idle, and are
 * tried where they are asked for. Rising, out (CS_SEARCH_WIDEST);
 * returns how many. widest: at most CS_SEARCH_WIDEST. */
int32_t cs_search_widths(int32_t n_ranks, int32_t per_node, int32_t widest, uint64_t asked,
                         int32_t *out);

/* dp of an encoder over that of the LLM. */
struct cs_search_ratio {
    int8_t times, over; /* without a common divisor */
};

/* from 1/16 to 16 */
extern const struct cs_search_ratio cs_search_ratio[CS_SEARCH_RATIOS];
/* Thirds are tried where ranks come in threes, or are few; where neither divides the other of few ranks. */
bool cs_search_tries_ratio(struct cs_search_ratio ratio, int32_t n_ranks);

#endif
