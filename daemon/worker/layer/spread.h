/* Expert parallelism: rows on their way to the ranks of their experts and back. A rank has some of the
 * experts of a layer, whole, and other rows than the ranks that have the rest: other slots, or other
 * rows of one. It sends the rows of its pairs (kernels/experts.h), which stand in places by expert and
 * therefore by rank, to whoever has the expert, and gets those of all ranks for its own experts:
 * counts first, so that none is dropped and no expert has a capacity. What comes is put by expert, of
 * one expert by rank and place: its order, hence every bit, is the same from run to run.
 *
 * Who they are is run->experts. They run one program on as many slots; each of them comes to every
 * exchange, also without a row. A wait between two of them is at the same point of that program, so
 * what is proved of one replica holds for all: they cannot hang. In a rehearsal nobody is met, and as
 * many rows come as can. Host only: counts are read where they lie. */
#ifndef CS_WORKER_LAYER_SPREAD_H
#define CS_WORKER_LAYER_SPREAD_H

#include "worker/layer/layers.h"

struct cs_spread {
    struct cs_run *run;
    struct cs_context *ranks; /* NULL: all experts are here, nothing moves */
    int64_t sent, come;       /* own pairs; those of the experts that are here */
    int32_t experts;          /* that are here */
    const int32_t *first;     /* (experts + 1) of what has come, by expert */
    const int32_t *out_at;    /* (ranks + 1) places before those that go to a rank */
    const int32_t *in_at;     /* (ranks + 1) what has come before what a rank has sent */
    const int32_t *index;     /* (come) where what is by expert lies by rank */
};

/* An array with a row for each pair. */
struct cs_travel {
    int64_t width; /* fp32 numbers */
    void *out;     /* (sent, width) by place */
    void *here;    /* (come, width) by expert; out where nothing moves */
    void *in;      /* (come, width) between the two */
};

/* the layer has only some of its experts on this rank: all ranks come to its ffn */
bool cs_layer_is_spread(const struct cs_run *run, const struct cs_layer_model *l);
/* Routes of rows (0: none, nothing in routes is read). first: memory of that array. Everything else is
 * scratch. */
void cs_spread_open(struct cs_run *run, const struct cs_layer_model *l, int64_t rows,
                    const struct cs_moe_routes *routes, struct cs_scratch *first,
                    struct cs_spread *out);
/* here NULL: scratch */
struct cs_travel cs_spread_travel(const struct cs_spread *s, int64_t width, void *out, void *here);
/* n arrays together: from out to here, and from here to out */
void cs_spread_go(const struct cs_spread *s, const struct cs_travel *travel, int n);
void cs_spread_back(const struct cs_spread *s, const struct cs_travel *travel, int n);

#endif
