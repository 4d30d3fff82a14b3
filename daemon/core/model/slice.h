/* Slices of parameters: who holds which part of what, and how it comes to those who want it.
 *
 * A slice is a rectangle of one parameter: a range of indices in every dimension. Fused weights and
 * parts of a flat array are several slices. An owner map lists slices with their owners (ranks, or
 * the files of a checkpoint). Two owner maps give the moves: every wanted element once, from the
 * first owner that has it. Saving, loading, exporting and resuming under another layout are these
 * functions. All of them are pure. Arrays are row-major; an array "of a slice" holds its elements
 * and nothing else. */
#ifndef CS_MODEL_SLICE_H
#define CS_MODEL_SLICE_H

#include "core/model/graph.h"

enum {
    CS_SLICE_DIMS = CS_TENSOR_DIMS,
    CS_SLICE_FLAT_MAX = 2 * CS_SLICE_DIMS - 1,
    CS_SLICE_TEXT = 256
};

/* Elements begin[d] .. end[d] - 1 of every dimension d; never empty. */
struct cs_slice {
    int32_t param; /* a number that means the same parameter in all slices that are compared */
    int32_t n_dims;
    int64_t begin[CS_SLICE_DIMS], end[CS_SLICE_DIMS];
};

struct cs_slice cs_slice_whole(const struct cs_param *param);
int64_t cs_slice_count(const struct cs_slice *slice); /* elements */
/* false: they have no element in common, or are of different parameters */
bool cs_slice_meet(const struct cs_slice *a, const struct cs_slice *b, struct cs_slice *out);
/* "[3:10,0:64]"; returns out */
const char *cs_slice_text(const struct cs_slice *slice, char out[CS_SLICE_TEXT]);

/* Elements at .. at + n - 1 of a parameter as an array, in slices: they lie one behind the other in
 * that array. Returns how many, at most 2 * n_dims - 1; n = 0: none. */
int cs_slice_from_flat(const struct cs_slice *whole, int64_t at, int64_t n,
                       struct cs_slice out[CS_SLICE_FLAT_MAX]);
/* The range of elements that slices are together, in this order; false: they are no range. */
bool cs_slice_to_flat(const struct cs_slice *whole, const struct cs_slice *slice, int n_slices,
                      int64_t *at, int64_t *n);

/* Copying a slice from the array of one that contains it to the array of another goes by runs of
 * neighbours. */
struct cs_copy_run {
    int64_t from, to, n; /* elements of the two arrays */
};

int64_t cs_slice_runs(const struct cs_slice *slice, const struct cs_slice *from,
                      const struct cs_slice *to);
struct cs_copy_run cs_slice_run(const struct cs_slice *slice, const struct cs_slice *from,
                                const struct cs_slice *to, int64_t index);

struct cs_holding {
    struct cs_slice slice;
    int32_t owner;
};

struct cs_owner_map {
    const struct cs_holding *held;
    int32_t n;
};

/* The elements of `slice` go from an entry of one map to an entry of the other. */
struct cs_move {
    struct cs_slice slice;
    int32_t from, to; /* indices in the maps */
};

/* What brings every element that `want` lists there once, from an entry of the same owner where one
 * has it, else from the first in `have`. name(user, param) is for messages. CS_CORRUPT: nobody has
 * an element, with parameter and range. Moves are in order of `want`, in arena. */
typedef const char *cs_param_name(const void *user, int32_t param);
enum cs_status cs_moves_make(const struct cs_owner_map *have, const struct cs_owner_map *want,
                             cs_param_name *name, const void *user, struct cs_arena *arena,
                             struct cs_move **out, int32_t *n, struct cs_err *err) CS_NODISCARD;
/* The entries hold every element of `whole` exactly once. CS_CORRUPT names the range that is
 * missing, held twice, or beyond the shape. */
enum cs_status cs_owners_check(const struct cs_owner_map *map, const struct cs_slice *whole,
                               const char *name, struct cs_err *err) CS_NODISCARD;

#endif
