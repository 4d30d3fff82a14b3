/* Expert parallelism: rows on their way to the ranks of their experts and back. A rank has some of the
 * experts of a layer, whole, and other rows than the ranks that have the rest: other slots, or other
 * rows of one. Nothing is dropped and no expert has a capacity; the order of what an expert gets, hence every
 * bit, is the same from run to run: by rank, and of one rank by row.
 *
 * On hosts pairs travel (kernels/experts.h). A rank sends the rows of its pairs, which stand in places by
 * expert and therefore by rank, to whoever has the expert, and gets those of all ranks for its own experts:
 * counts first, of which every message has its size (all-to-all).
 *
 * On devices rows travel, to all ranks, each once however many experts it has (all-gather), and what comes back
 * of each rank is the weighted sum of the experts there (spread_rows.c). Sizes of messages must be known to the
 * host, which enqueues far ahead of the device: counts, which routers make there, would be waited for in every
 * layer, twice, with nothing behind them on its way, and no layer of a mixture could be a part of a graph. How
 * many rows a rank has is known before a step begins. It is not more that travels, either, where rows have as
 * many experts as there are ranks or more: n - 1 rows for each of a rank, and back, instead of top_k (n - 1) / n.
 * Every rank chooses the experts of all rows, from the same numbers, so that all have the same places; places of
 * experts that are elsewhere stay empty, 0.
 *
 * Who they are is run->experts. They run one program on as many slots; each of them comes to every
 * exchange, also without a row. A wait between two of them is at the same point of that program, so
 * what is proved of one replica holds for all: they cannot hang. In a rehearsal nobody is met, and as
 * many rows come as can. */
#ifndef CS_WORKER_LAYER_SPREAD_H
#define CS_WORKER_LAYER_SPREAD_H

#include "worker/layer/exchange.h"
#include "worker/layer/layers.h"

struct cs_spread {
    struct cs_run *run;
    struct cs_context *ranks; /* NULL: all experts are here, nothing moves */
    bool gathers;             /* rows travel, to all ranks */
    int64_t own_rows,
        rows; /* own rows; those whose routes are made here: the same, or of all ranks, in their order */
    int64_t own_at;       /* of these the first own one */
    int64_t places;       /* pairs of rows and experts */
    int64_t come;         /* places of arrays by expert, as products take them */
    int32_t experts;      /* that are here */
    const int32_t *first; /* (experts + 1) their first places in those arrays */
    bool is_stretched;    /* rows of a recurrent layer */
    /* where pairs travel */
    const int32_t *out_at; /* (ranks + 1) places before those that go to a rank */
    const int32_t *in_at;  /* (ranks + 1) what has come before what a rank has sent */
    const int32_t *index;  /* (come) where what is by expert lies by rank */
};

/* An array with a row for each pair. */
struct cs_travel {
    int64_t width; /* fp32 numbers */
    void *out;     /* (places, width) */
    void *here;    /* (come, width) by expert; out where no pairs travel */
    void *in;      /* (come, width) between the two */
};

/* the layer has only some of its experts on this rank: all ranks come to its ffn */
bool cs_layer_is_spread(const struct cs_run *run, const struct cs_layer_model *l);
/* rows, own_at and places, for own rows of the layer (0: none) */
void cs_spread_begin(struct cs_run *run, const struct cs_layer_model *l, int64_t rows,
                     struct cs_spread *out);
/* Acts of the own rows (own_rows, width) become those of all rows that have routes (rows, width): x itself, or
 * scratch. */
const void *cs_spread_rows(const struct cs_spread *s, int64_t width, const void *x);

/* The same in two steps, between which other things are computed. */
struct cs_spread_gather {
    const void *rows;
    struct cs_exchange moves; /* run NULL: none */
};

struct cs_spread_gather cs_spread_start_rows(const struct cs_spread *s, int64_t width,
                                             const void *x);
const void *cs_spread_finish_rows(const struct cs_spread_gather *gather);
/* The rest, from routes of all rows (rows 0: nothing in them is read). first: memory of that array, unless it is
 * a part of routes->first. Everything else is scratch. */
void cs_spread_open(struct cs_spread *s, const struct cs_layer_model *l,
                    const struct cs_moe_routes *routes, struct cs_scratch *first);
/* pairs travel; else nothing of the following happens */
bool cs_spread_moves(const struct cs_spread *s);
/* here NULL: scratch */
struct cs_travel cs_spread_travel(const struct cs_spread *s, int64_t width, void *out, void *here);
/* n arrays together: from out to here, and from here to out */
void cs_spread_go(const struct cs_spread *s, const struct cs_travel *travel, int n);
void cs_spread_back(const struct cs_spread *s, const struct cs_travel *travel, int n);

/* ---- where rows travel; else nothing happens (spread_rows.c) ---- */

/* acts (come, width) = 0, before a product fills the places of experts that are here */
void cs_spread_clear(const struct cs_spread *s, int64_t width, void *x);
/* rows and own_at */
void cs_spread_count_rows(struct cs_spread *s);
/* memory for a sum over the experts that are here, of all rows that have routes: own itself, or scratch */
void *cs_spread_part(const struct cs_spread *s, int64_t width, void *own);
/* own (own_rows, width) = all ranks' parts of them, summed in their order, + more (NULL: 0) */
void cs_spread_sum(const struct cs_spread *s, int64_t width, const void *part, const void *more,
                   void *own);
/* x (places) by place, 0 where an expert is elsewhere: of every place what the rank of its expert has */
void cs_spread_join(const struct cs_spread *s, float *x);

#endif
