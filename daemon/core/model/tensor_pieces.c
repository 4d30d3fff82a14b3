/* Between the arrays of ranks and those of whole parameters: pieces are slices of the whole. */
#include <string.h>

#include "core/base/system/parallel.h"
#include "core/model/tensor_parallel.h"

/* Where piece k would begin in the whole if its first element were that of the rank's array. */
static int64_t shift_of(const struct cs_tp_part *part, int32_t k)
{
    int64_t before = 0;
    for (int32_t i = 0; i < k; i++)
        before += part->end[i] - part->begin[i];
    return part->begin[k] - before;
}

static int32_t pieces(const struct cs_tp_part *part)
{
    return part->dim < 0 ? 1 : part->n;
}

/* a rectangle of the rank's array, in indices of the whole as they are in piece k */
static struct cs_slice shifted(const struct cs_tp_part *part, struct cs_slice slice, int32_t k)
{
    if (part->dim >= 0) {
        slice.begin[part->dim] += shift_of(part, k);
        slice.end[part->dim] += shift_of(part, k);
    }
    if (part->experts.end > 0) {
        slice.begin[0] += part->experts.begin;
        slice.end[0] += part->experts.begin;
    }
    return slice;
}

/* what piece k has of such a rectangle; false: nothing */
static bool in_piece(const struct cs_tp_part *part, const struct cs_slice *in, int32_t k,
                     struct cs_slice *out)
{
    struct cs_slice piece = *in;
    if (part->dim >= 0) {
        piece.begin[part->dim] = part->begin[k];
        piece.end[part->dim] = part->end[k];
    }
    return cs_slice_meet(in, &piece, out);
}

int cs_tp_slices(const struct cs_tp_part *part, const struct cs_param *own, int64_t at, int64_t n,
                 struct cs_tp_slice out[CS_TP_SLICES])
{
    struct cs_slice rectangle[CS_SLICE_FLAT_MAX];
    const struct cs_slice all = cs_slice_whole(own);
    const int n_rectangles = cs_slice_from_flat(&all, at, n, rectangle);
    int64_t begin = 0;
    int n_out = 0;
    for (int i = 0; i < n_rectangles; i++) {
        for (int32_t k = 0; k < pieces(part); k++) {
            struct cs_tp_slice *s = &out[n_out];
            s->in = shifted(part, rectangle[i], k);
            s->at = begin;
            n_out += in_piece(part, &s->in, k, &s->whole);
        }
        begin += cs_slice_count(&rectangle[i]);
    }
    return n_out;
}

/* of the slice from one array to another; both contain it */
static void copy(const struct cs_slice *slice, const struct cs_slice *from_slice, const float *from,
                 const struct cs_slice *to_slice, float *to)
{
    const int64_t n = cs_slice_runs(slice, from_slice, to_slice);
    for (int64_t i = 0; i < n; i++) {
        const struct cs_copy_run run = cs_slice_run(slice, from_slice, to_slice, i);
        memcpy(to + run.to, from + run.from, (size_t)run.n * sizeof *to);
    }
}

void cs_tp_slice_take(const struct cs_tp_slice *slice, const float *range, float *to)
{
    copy(&slice->whole, &slice->in, range + slice->at, &slice->whole, to);
}

void cs_tp_slice_put(const struct cs_tp_slice *slice, const float *from, float *range)
{
    copy(&slice->whole, &slice->whole, from, &slice->in, range + slice->at);
}

/* the rank's array as a rectangle of the whole, as it lies for piece k */
static struct cs_slice frame(const struct cs_tp_part *part, const struct cs_param *whole, int32_t k)
{
    struct cs_slice own = cs_slice_whole(whole);
    if (part->dim >= 0)
        own.end[part->dim] = cs_tp_extent(part);
    if (part->experts.end > 0)
        own.end[0] = part->experts.end - part->experts.begin;
    return shifted(part, own, k);
}

void cs_tp_take(const struct cs_tp_part *part, const struct cs_param *whole, const float *from,
                float *to)
{
    const struct cs_slice all = cs_slice_whole(whole);
    for (int32_t k = 0; k < pieces(part); k++) {
        const struct cs_slice own = frame(part, whole, k);
        struct cs_slice piece;
        if (in_piece(part, &own, k, &piece))
            copy(&piece, &all, from, &own, to);
    }
}

void cs_tp_put(const struct cs_tp_part *part, const struct cs_param *whole, const float *from,
               float *to)
{
    const struct cs_slice all = cs_slice_whole(whole);
    for (int32_t k = 0; k < pieces(part); k++) {
        const struct cs_slice own = frame(part, whole, k);
        struct cs_slice piece;
        if (in_piece(part, &own, k, &piece))
            copy(&piece, &own, from, &all, to);
    }
}

/* A piece as it is made: its elements in the order of its runs, which are all of one length. */
struct piece {
    const struct cs_tp_making *making;
    struct cs_slice slice, all, own;
    int64_t run_n;
    float *to;
};

static void make_range(void *user, int64_t first, int64_t n)
{
    const struct piece *p = user;
    for (int64_t at = first, m; at < first + n; at += m) {
        const struct cs_copy_run run = cs_slice_run(&p->slice, &p->all, &p->own, at / p->run_n);
        const int64_t in = at % p->run_n, left = first + n - at;
        m = run.n - in < left ? run.n - in : left;
        p->making->make(p->making->user, run.from + in, m, p->to + run.to + in);
    }
}

void cs_tp_make(const struct cs_tp_part *part, const struct cs_param *whole,
                const struct cs_tp_making *making, float *to)
{
    for (int32_t k = 0; k < pieces(part); k++) {
        struct piece p = {
            .making = making, .all = cs_slice_whole(whole), .own = frame(part, whole, k), .to = to};
        if (!in_piece(part, &p.own, k, &p.slice))
            continue;
        p.run_n = cs_slice_run(&p.slice, &p.all, &p.own, 0).n;
        cs_parallel_for(making->threads, cs_slice_count(&p.slice), making->grain, make_range, &p);
    }
}
