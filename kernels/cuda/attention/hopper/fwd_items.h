/* The work of the forward pass of attention on Hopper (attention/hopper/fwd_sm90.cuh) in numbers: which item
 * or share of items a number of the counter stands for. Integers only, and nothing of CUDA, so that it
 * is tested without a GPU (C11, also compiled by nvcc). */
#ifndef CS_KERNELS_CUDA_ATTENTION_HOPPER_FWD_ITEMS_H
#define CS_KERNELS_CUDA_ATTENTION_HOPPER_FWD_ITEMS_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __CUDACC__
#define CS_FWD_INLINE static __forceinline__ __host__ __device__
#else
#define CS_FWD_INLINE static inline
#endif

enum {
    CS_FWD_MOST_SHARES = 8, /* of an item that is cut: who joins the pieces reads all of them */
    CS_FWD_JOIN_COSTS = 4,  /* steps */
};

/* An item is a query tile of a head. */
struct cs_fwd_items {
    int32_t n_q, heads;
    int32_t section;      /* heads that are worked on at the same time */
    const int32_t *count; /* (n_q) entries of a tile's list */
    const int32_t *order; /* (n_q) tiles, those with the most cells first */
    int32_t cut, shares;  /* so many items at the end may be cut into so many shares; 0, 0 */
};

/* Items of the last round of the blocks, and their shares. */
static inline void cs_fwd_cut(int32_t items, int32_t blocks, int32_t *cut, int32_t *shares)
{
    *cut = items % blocks;
    *shares = *cut * CS_FWD_MOST_SHARES < blocks ? *cut * CS_FWD_MOST_SHARES : blocks;
}

/* Item number i: heads come in sections, so small that their keys and values stay in the L2 cache
 * while all blocks work on them; in a section the dearest tiles come first, and a tile's heads one
 * after the other. */
CS_FWD_INLINE bool cs_fwd_item_at(const struct cs_fwd_items *a, int32_t i, int32_t *tile,
                                  int32_t *head)
{
    if (i >= a->n_q * a->heads)
        return false;
    const int32_t per_section = a->n_q * a->section, first = i / per_section * a->section;
    const int32_t left = a->heads - first, heads = a->section < left ? a->section : left;
    const int32_t at = i - first * a->n_q;
    *tile = a->order[at / heads];
    *head = first + at % heads;
    return true;
}

/* What one number of the counter stands for: an item, or a share of those that were cut, which is
 * the end of one and, perhaps, the begin of the next. */
struct cs_fwd_work {
    int32_t item, first, end; /* entries of its list */
    int32_t rest;             /* entries of the next item that follow */
    int32_t share, length;    /* length: entries of every item that was cut, 0: not cut */
};

/* Entries of each of the last items if they are worth cutting, else 0: when a share saves more than it
 * costs to join the pieces, and all are equally long. Every tile is looked at: their order is by the
 * cells that they have, so between two lists of one length there may be longer and shorter ones. */
CS_FWD_INLINE int32_t cs_fwd_cut_length(const struct cs_fwd_items *a)
{
    const int32_t n = a->n_q * a->heads, costs = CS_FWD_JOIN_COSTS;
    int32_t tile = 0, head = 0, last = 0;
    if (a->cut == 0 || !cs_fwd_item_at(a, n - a->cut, &tile, &head))
        return 0;
    const int32_t length = a->count[tile], before = head / a->section * a->section;
    if (length * a->cut < costs * a->shares || length * (a->shares - a->cut) <= costs * a->shares)
        return 0;
    cs_fwd_item_at(a, n - 1, &tile, &last);
    if (last / a->section != head / a->section)
        return 0;
    for (int32_t t = (n - a->cut - before * a->n_q) / (a->heads - before); t < a->n_q; t++)
        if (a->count[a->order[t]] != length)
            return 0;
    return length;
}

/* item n_q * heads: there is no more work */
CS_FWD_INLINE struct cs_fwd_work cs_fwd_work_of(const struct cs_fwd_items *a, int32_t number)
{
    const int32_t n = a->n_q * a->heads, whole = n - a->cut;
    struct cs_fwd_work work = {n, 0, 0, 0, 0, 0};
    int32_t length = 0, tile = 0, head = 0;
    if (number >= whole && (length = cs_fwd_cut_length(a)) > 0) {
        const int32_t share = number - whole, all = length * a->cut;
        if (share >= a->shares)
            return work;
        const int32_t begin = share * all / a->shares, end = (share + 1) * all / a->shares;
        const int32_t entries = end - begin;
        work.item = whole + begin / length;
        work.first = begin % length;
        work.end = entries < length - work.first ? work.first + entries : length;
        work.rest = entries - (work.end - work.first);
        work.share = share;
        work.length = length;
        return work;
    }
    if (!cs_fwd_item_at(a, number, &tile, &head))
        return work;
    work.item = number;
    work.end = a->count[tile];
    return work;
}

/* What a share holds of the item behind that of work, which has a rest. */
CS_FWD_INLINE struct cs_fwd_work cs_fwd_work_behind(struct cs_fwd_work work)
{
    work.item++;
    work.first = 0;
    work.end = work.rest;
    work.rest = 0;
    return work;
}

/* Which share has entry number i of those that were cut, all together. */
CS_FWD_INLINE int32_t cs_fwd_share_of(const struct cs_fwd_items *a, int32_t length, int32_t i)
{
    return ((i + 1) * a->shares - 1) / (length * a->cut);
}

/* The pieces that the item of work was cut into, which lie in shares from *first on; 1: not cut. */
CS_FWD_INLINE int32_t cs_fwd_pieces(const struct cs_fwd_items *a, const struct cs_fwd_work *work,
                                    int32_t *nth_cut, int32_t *first)
{
    *nth_cut = *first = 0;
    if (work->length == 0)
        return 1;
    *nth_cut = work->item - (a->n_q * a->heads - a->cut);
    *first = cs_fwd_share_of(a, work->length, *nth_cut * work->length);
    return cs_fwd_share_of(a, work->length, (*nth_cut + 1) * work->length - 1) + 1 - *first;
}

#endif
