/* Context parallelism: the LLM rows of a slot are split over the ranks that run a stage, in blocks.
 * Here is how large blocks are and how many rows a rank can have; which rank has which block says
 * core/plan/tokens/context_map.h. */
#ifndef CS_PLAN_CONTEXT_H
#define CS_PLAN_CONTEXT_H

#include "core/model/tensor_parallel.h"
#include "core/plan/plan.h"

/* Rows of a block: 128, halved down to 8 as long as ranks would have fewer than eight blocks. */
int32_t cs_context_block(int32_t n_rows, int32_t ranks);
/* Most blocks of a rank: half as many again as its share, so that memory stays bounded whatever the
 * work of the blocks is. */
int32_t cs_context_cap(int32_t n_blocks, int32_t ranks);
/* Most rows of a rank in a slot of at most n_rows. */
int32_t cs_context_most(int32_t n_rows, int32_t ranks);

enum { CS_CONTEXT_MOST_RANKS = 64 };

/* A degree per slot: short slots need no splitting. */
struct cs_context_degrees {
    int32_t ranks; /* of the context, at most CS_CONTEXT_MOST_RANKS */
    int32_t
        rows_each; /* that a rank has before another one shares a slot; 0: all share every slot */
    /* bit n - 1: n ranks can split a slot (cs_context_heads_degrees), as one and all always can; 0: any number can */
    uint64_t can;
};

bool cs_context_can_split(const struct cs_context_degrees *degrees, int32_t n);
/* How many of the ranks split a slot of n_rows: as few as have at most rows_each rows each and can. */
int32_t cs_context_degree(const struct cs_context_degrees *degrees, int32_t n_rows);
/* Most rows of a rank in a slot of at most n_rows, of whatever degree, where any number of ranks can split one (else
 * it is no more): as they are dealt out, and of rows that are cut in order (recurrent layers). */
int32_t cs_context_room(int32_t n_rows, int32_t ranks, int32_t rows_each);
int32_t cs_context_room_in_order(int32_t n_rows, int32_t ranks, int32_t rows_each);
/* Of n rows that a slot of the LLM has at most (or bytes of them), those of one rank; seq below 1: not known, all. */
int64_t cs_context_part(int64_t n, int32_t seq, int32_t ranks, int32_t rows_each);
/* Of n rows that a slot has at most (or bytes of them), those of one rank of a stage; an encoder's may have
 * those of several slots. */
int64_t cs_context_share(const struct cs_plan *plan, int32_t stage, int64_t n);

/* On devices heads go in groups, one beside the attention of another, where each has that many bytes of keys and values:
 * fewer do not fill a link as long as a group's launches take (tests/bench/RESULTS.md). */
enum { CS_CONTEXT_GROUPS_AHEAD = 2, CS_CONTEXT_GROUP_BYTES = 64 << 20 };

/* What attention takes while it runs: keys and values of all rows of the slot and their gradients, and
 * those of the rank's own rows as they come from every other rank; where the own keys are attended to by
 * themselves also an output with its statistics, or a gradient of queries, of either part. 0 where rows are not split. */
int64_t cs_context_bytes(const struct cs_attention *attention, int32_t cp, int64_t seq,
                         int64_t rows, bool own_first, int element);

/* The same where heads are exchanged, of a rank's heads behind tp: rows of its part of them as they go, as they come and
 * in the order of the slot; of slots of that degree which takes most. */
int64_t cs_context_heads_bytes(const struct cs_attention *attention,
                               const struct cs_context_degrees *degrees, int64_t seq, int64_t rows,
                               int element);

/* Where heads are exchanged and not keys (Ulysses; Jacobs et al. 2023): the ranks of a context each have some
 * heads of attention with the rows of the whole slot. They divide the heads of queries, and those of keys or, where
 * there are fewer of these than ranks, neighbours have the same one. Of a rank's heads: */
struct cs_context_heads {
    int32_t q, k;   /* heads of queries, of keys */
    int32_t copies; /* ranks that have the same ones of keys */
};

/* Of the heads of a rank of tp those of a rank of its context. false: they do not divide, and *out is not set. */
bool cs_context_heads(const struct cs_attention *attention, struct cs_tp tp, int32_t ranks,
                      struct cs_context_heads *out);
/* They divide in every layer of the LLM that attends, on every rank of tp. layer: the first one where they do not, or
 * NULL. */
bool cs_context_heads_divide(const struct cs_graph *graph, int32_t tp, int32_t ranks,
                             const struct cs_layer **layer);
/* Numbers of ranks, of so many, among which they divide, as cs_context_degrees.can has them. */
uint64_t cs_context_heads_degrees(const struct cs_graph *graph, int32_t tp, int32_t ranks);
/* of one kind of attention */
bool cs_context_attention_divides(const struct cs_attention *attention, int32_t tp, int32_t ranks);
/* A recurrent layer: its rows lie in order over the ranks, as many on each, whatever the map says. */
bool cs_context_is_stretched(const struct cs_layer *layer);
/* FLOPs by which rows are balanced, forward through the LLM: of a row (returned), and of a pair under every
 * kind of attention, per_pair (graph->n_attentions); 0 for those of encoders. Without layers whose rows
 * lie otherwise. */
double cs_context_flops(const struct cs_graph *graph, double *per_pair);

#endif
