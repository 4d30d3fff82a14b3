/* Tensor and expert parallelism: what each of the ranks that share a stage, or its experts, has of its
 * parameters.
 *
 * A block's first products are cut by columns of what they make (heads, inner columns of the MLP),
 * its second ones by what they read, so that a half needs one sum over the ranks forward and one
 * backward (Shoeybi et al. 2019, Megatron-LM). The words of the vocabulary are cut too: a rank looks up
 * its own and has their logits. Which dimension of a parameter is cut, and into what,
 * says a table of roles; tensors that a family fuses are cut section by section. With more ranks
 * than heads of keys and values several ranks have the same one.
 *
 * Experts go to ranks whole, neighbours together: a rank has nothing at all of the tensor of an expert
 * that is elsewhere, and some indices of the first dimension of one that holds all experts.
 *
 * Between these products a block looks at rows one by one. Where ranks split them there (Korthikanti et
 * al. 2022), the sum becomes a reduce-scatter of rows behind a second product and an all-gather before the
 * next first one; what norms and scales of a rank train is made of its rows only.
 *
 * A rank then is like a rank with a smaller model: its graph is the whole one with fewer heads and
 * narrower layers (cs_tp_view), and its arrays hold the pieces of a parameter one behind the other.
 * Pure. */
#ifndef CS_MODEL_TENSOR_PARALLEL_H
#define CS_MODEL_TENSOR_PARALLEL_H

#include "core/model/slice.h"

/* One of the ranks that share a stage, and of those that share its experts. ranks, ep 0 or 1: it has
 * all of it. */
struct cs_tp {
    int32_t ranks, at;
    int32_t ep, ep_at;
    bool splits_rows; /* sequence parallelism: between products of a block each has some rows */
};

enum { CS_TP_MOST = 64 };

/* Of n things those that a rank has: begin to end - 1. The shares differ by one, the last is as large as
 * any. */
struct cs_tp_share {
    int64_t begin, end;
};

struct cs_tp_share cs_tp_share(int64_t n, struct cs_tp tp);
/* Of n heads in groups of neighbours that belong together (queries of one head of keys): whole groups, or,
 * where there are fewer groups than ranks, heads. */
struct cs_tp_share cs_tp_heads(int64_t n, int64_t groups, struct cs_tp tp);
/* A kind of attention becomes that of a rank: its numbers of heads. */
void cs_tp_attention(struct cs_attention *attention, struct cs_tp tp);

enum { CS_TP_PIECES = 3 }; /* of one parameter: fused queries, keys and values */

/* What a rank has of a parameter. */
struct cs_tp_part {
    int32_t dim; /* that is cut, -1: none; with an empty range the rank has nothing of it */
    int32_t n; /* pieces: ranges of that dimension, as they follow each other in the rank's array */
    int64_t begin[CS_TP_PIECES], end[CS_TP_PIECES];

    struct {
        int64_t begin, end;
    } experts; /* those of the first dimension, of a tensor that is cut in another one; 0, 0: all */

    int32_t holders; /* ranks that have the same: this one is the holder-th of that many */
    int32_t holder;  /* neighbours */
    bool is_summed;  /* each holder has a part of the gradient: theirs are added once a step */
};

/* The stages of a branch can be shared by that many ranks. CS_PLAN names the layer that they cannot
 * share, and numbers that they can. */
enum cs_status cs_tp_check(const struct cs_graph *graph, int32_t branch, int32_t ranks,
                           struct cs_err *err) CS_NODISCARD;
/* So many ranks can share the experts of a branch. CS_PLAN says why not. */
enum cs_status cs_ep_check(const struct cs_graph *graph, int32_t branch, int32_t ep,
                           struct cs_err *err) CS_NODISCARD;
/* of an expert: different ranks with the same rest of a stage may have it */
bool cs_param_is_of_expert(const struct cs_param *param);
/* param: of the whole graph; ranks as checked */
void cs_tp_part_of(const struct cs_graph *whole, const struct cs_param *param, struct cs_tp tp,
                   struct cs_tp_part *out);
/* elements of the part in the dimension that is cut; and all of them */
int64_t cs_tp_extent(const struct cs_tp_part *part);
int64_t cs_tp_count(const struct cs_tp_part *part, const struct cs_param *whole);
/* The rank's array from that of the whole parameter; the reverse, each element to its place. */
void cs_tp_take(const struct cs_tp_part *part, const struct cs_param *whole, const float *from,
                float *to);
void cs_tp_put(const struct cs_tp_part *part, const struct cs_param *whole, const float *from,
               float *to);
/* What cs_tp_take gives, of values that nobody has whole: make() makes elements first .. first + n - 1 of the whole
 * parameter, on several threads and up to `grain` at a time, each once. */
typedef void cs_tp_make_fn(void *user, int64_t first, int64_t n, float *out);

struct cs_tp_making {
    cs_tp_make_fn *make;
    void *user;
    int threads;
    int64_t grain;
};

void cs_tp_make(const struct cs_tp_part *part, const struct cs_param *whole,
                const struct cs_tp_making *making, float *to);

/* What a range of the rank's array has of a slice of the whole parameter: `in` is the rectangle of the
 * range that has it, whose array begins at element `at` of the range. Indices are of the whole. */
struct cs_tp_slice {
    struct cs_slice whole, in;
    int64_t at;
};

enum { CS_TP_SLICES = CS_TP_PIECES * CS_SLICE_FLAT_MAX };

/* Elements at .. at + n - 1 of the rank's array; returns how many slices they are. own: the parameter
 * as the rank has it. */
int cs_tp_slices(const struct cs_tp_part *part, const struct cs_param *own, int64_t at, int64_t n,
                 struct cs_tp_slice out[CS_TP_SLICES]);
/* between the array of the range and that of the slice (of its elements alone) */
void cs_tp_slice_take(const struct cs_tp_slice *slice, const float *range, float *to);
void cs_tp_slice_put(const struct cs_tp_slice *slice, const float *from, float *range);

/* The rank's array of fresh values (cs_param_fill_fresh). */
void cs_param_fill_part(const struct cs_module *module, uint64_t seed, const struct cs_param *param,
                        const struct cs_tp_part *part, int threads, float *out);

/* A rank's view of a graph: the same layers and parameters, as small as the rank has them. */
struct cs_tp_view {
    const struct cs_graph *whole, *graph;
    const struct cs_tp_part *part; /* (n_params) */
};

/* tp: (n_branches) the rank in each branch, ranks as checked */
void cs_tp_view_make(const struct cs_graph *whole, const struct cs_tp *tp, struct cs_arena *arena,
                     struct cs_tp_view *out);

#endif
