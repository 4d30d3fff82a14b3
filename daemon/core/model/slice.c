/* Arithmetic of slices: cutting a flat range, walking through a slice, planning moves. */
#include "core/model/slice.h"

#include <stdio.h>
#include <string.h>

struct cs_slice cs_slice_whole(const struct cs_param *param)
{
    struct cs_slice out = {.param = param->id, .n_dims = param->n_dims};
    for (int32_t d = 0; d < param->n_dims; d++)
        out.end[d] = param->dim[d];
    return out;
}

static int64_t extent(const struct cs_slice *slice, int32_t d)
{
    return slice->end[d] - slice->begin[d];
}

int64_t cs_slice_count(const struct cs_slice *slice)
{
    int64_t n = 1;
    for (int32_t d = 0; d < slice->n_dims; d++)
        n *= extent(slice, d);
    return n;
}

bool cs_slice_meet(const struct cs_slice *a, const struct cs_slice *b, struct cs_slice *out)
{
    struct cs_slice common = *a;
    if (a->param != b->param || a->n_dims != b->n_dims)
        return false;
    for (int32_t d = 0; d < a->n_dims; d++) {
        common.begin[d] = a->begin[d] > b->begin[d] ? a->begin[d] : b->begin[d];
        common.end[d] = a->end[d] < b->end[d] ? a->end[d] : b->end[d];
        if (common.begin[d] >= common.end[d])
            return false;
    }
    *out = common;
    return true;
}

const char *cs_slice_text(const struct cs_slice *slice, char out[CS_SLICE_TEXT])
{
    int used = snprintf(out, CS_SLICE_TEXT, "[");
    for (int32_t d = 0; d < slice->n_dims; d++)
        used += snprintf(out + used, (size_t)(CS_SLICE_TEXT - used), "%s%lld:%lld", d ? "," : "",
                         (long long)slice->begin[d], (long long)slice->end[d]);
    snprintf(out + used, (size_t)(CS_SLICE_TEXT - used), "]");
    return out;
}

/* elements that one index of each dimension spans in the array of a slice */
static void strides(const struct cs_slice *of, int64_t out[CS_SLICE_DIMS])
{
    int64_t n = 1;
    for (int32_t d = of->n_dims; d-- > 0; n *= extent(of, d))
        out[d] = n;
}

/* The largest slice that begins at element `at` and ends before `end`: whole indices of the
 * outermost dimension that allows it. */
static struct cs_slice first_of(const struct cs_slice *whole, int64_t at, int64_t end)
{
    int64_t stride[CS_SLICE_DIMS];
    struct cs_slice out = *whole;
    int32_t d = 0;
    strides(whole, stride);
    while (at % stride[d] != 0 || end - at < stride[d])
        d++;
    for (int32_t k = 0; k <= d; k++) {
        out.begin[k] = at / stride[k] % extent(whole, k);
        out.end[k] = out.begin[k] + 1;
    }
    const int64_t most = whole->end[d] - out.begin[d], fit = (end - at) / stride[d];
    out.end[d] = out.begin[d] + (fit < most ? fit : most);
    return out;
}

int cs_slice_from_flat(const struct cs_slice *whole, int64_t at, int64_t n,
                       struct cs_slice out[CS_SLICE_FLAT_MAX])
{
    const int64_t end = at + n;
    int n_out = 0;
    for (; at < end; at += cs_slice_count(&out[n_out++])) {
        CS_ASSERT(n_out < 2 * whole->n_dims - 1);
        out[n_out] = first_of(whole, at, end);
    }
    return n_out;
}

bool cs_slice_to_flat(const struct cs_slice *whole, const struct cs_slice *slice, int n_slices,
                      int64_t *at, int64_t *n)
{
    *at = *n = 0;
    for (int i = 0; i < n_slices; i++) {
        if (cs_slice_runs(&slice[i], whole, &slice[i]) != 1)
            return false;
        const struct cs_copy_run run = cs_slice_run(&slice[i], whole, &slice[i], 0);
        if (i == 0)
            *at = run.from;
        if (run.from != *at + *n)
            return false;
        *n += run.n;
    }
    return true;
}

/* The first dimension whose indices lie side by side in both arrays: all behind it are whole. */
static int32_t run_dim(const struct cs_slice *slice, const struct cs_slice *from,
                       const struct cs_slice *to)
{
    int32_t d = slice->n_dims - 1;
    while (d > 0 && extent(slice, d) == extent(from, d) && extent(slice, d) == extent(to, d))
        d--;
    return d;
}

int64_t cs_slice_runs(const struct cs_slice *slice, const struct cs_slice *from,
                      const struct cs_slice *to)
{
    int64_t n = 1;
    for (int32_t d = run_dim(slice, from, to); d-- > 0;)
        n *= extent(slice, d);
    return n;
}

struct cs_copy_run cs_slice_run(const struct cs_slice *slice, const struct cs_slice *from,
                                const struct cs_slice *to, int64_t index)
{
    int64_t from_stride[CS_SLICE_DIMS], to_stride[CS_SLICE_DIMS];
    struct cs_copy_run run = {.n = 1};
    const int32_t last = run_dim(slice, from, to);
    strides(from, from_stride);
    strides(to, to_stride);
    for (int32_t d = last; d < slice->n_dims; d++)
        run.n *= extent(slice, d);
    for (int32_t d = slice->n_dims; d-- > 0;) {
        const int64_t at = slice->begin[d] + (d < last ? index % extent(slice, d) : 0);
        index /= d < last ? extent(slice, d) : 1;
        run.from += (at - from->begin[d]) * from_stride[d];
        run.to += (at - to->begin[d]) * to_stride[d];
    }
    return run;
}

/* Slices that are still looked for: a stack, because taking a piece out of one leaves several. */
struct wanted {
    struct cs_slice *slice;
    int32_t n, cap;
};

static void add(struct cs_arena *arena, struct wanted *list, const struct cs_slice *slice)
{
    if (list->n == list->cap) {
        const int32_t cap = list->cap > 0 ? 2 * list->cap : 16;
        struct cs_slice *more = CS_NEW_ARRAY(arena, struct cs_slice, cap);
        if (list->n > 0)
            memcpy(more, list->slice, (size_t)list->n * sizeof *more);
        list->slice = more;
        list->cap = cap;
    }
    list->slice[list->n++] = *slice;
}

/* What `from` has outside `piece`, which lies in it. */
static void add_rest(struct cs_arena *arena, struct wanted *list, struct cs_slice from,
                     const struct cs_slice *piece)
{
    for (int32_t d = 0; d < from.n_dims; d++) {
        struct cs_slice part = from;
        part.end[d] = piece->begin[d];
        if (part.begin[d] < part.end[d])
            add(arena, list, &part);
        part = from;
        part.begin[d] = piece->end[d];
        if (part.begin[d] < part.end[d])
            add(arena, list, &part);
        from.begin[d] = piece->begin[d];
        from.end[d] = piece->end[d];
    }
}

struct moves {
    struct cs_arena *arena;
    struct cs_move *move;
    int32_t n, cap;
};

static void add_move(struct moves *m, const struct cs_slice *slice, int32_t from, int32_t to)
{
    if (m->n == m->cap) {
        const int32_t cap = m->cap > 0 ? 2 * m->cap : 64;
        struct cs_move *more = CS_NEW_ARRAY(m->arena, struct cs_move, cap);
        if (m->n > 0)
            memcpy(more, m->move, (size_t)m->n * sizeof *more);
        m->move = more;
        m->cap = cap;
    }
    m->move[m->n++] = (struct cs_move){*slice, from, to};
}

/* Everything that an entry has of what is still looked for. */
static void take(struct moves *m, struct wanted *left, const struct cs_slice *has, int32_t from,
                 int32_t to)
{
    for (int32_t i = 0; i < left->n;) {
        const struct cs_slice whole = left->slice[i];
        struct cs_slice piece;
        if (!cs_slice_meet(&whole, has, &piece)) {
            i++;
            continue;
        }
        add_move(m, &piece, from, to);
        left->slice[i] = left->slice[--left->n];
        add_rest(m->arena, left, whole, &piece); /* its pieces do not meet `has` again */
    }
}

enum cs_status cs_moves_make(const struct cs_owner_map *have, const struct cs_owner_map *want,
                             cs_param_name *name, const void *user, struct cs_arena *arena,
                             struct cs_move **out, int32_t *n, struct cs_err *err)
{
    struct moves m = {.arena = arena};
    struct wanted left = {0};
    char text[CS_SLICE_TEXT];
    for (int32_t to = 0; to < want->n; to++) {
        const struct cs_holding *w = &want->held[to];
        left.n = 0;
        add(arena, &left, &w->slice);
        for (int is_other = 0; is_other < 2; is_other++)
            for (int32_t from = 0; from < have->n && left.n > 0; from++)
                if ((have->held[from].owner != w->owner) == is_other)
                    take(&m, &left, &have->held[from].slice, from, to);
        if (left.n > 0)
            return cs_fail(err, CS_CORRUPT, "nobody holds %s of %s",
                           cs_slice_text(&left.slice[0], text), name(user, w->slice.param));
    }
    *out = m.move;
    *n = m.n;
    return CS_OK;
}

static bool is_inside(const struct cs_slice *slice, const struct cs_slice *whole)
{
    bool is = slice->param == whole->param && slice->n_dims == whole->n_dims;
    for (int32_t d = 0; is && d < whole->n_dims; d++)
        is = slice->begin[d] >= whole->begin[d] && slice->end[d] <= whole->end[d] &&
             slice->begin[d] < slice->end[d];
    return is;
}

static const char *whole_name(const void *user, int32_t param)
{
    (void)param;
    return user;
}

enum cs_status cs_owners_check(const struct cs_owner_map *map, const struct cs_slice *whole,
                               const char *name, struct cs_err *err)
{
    char text[CS_SLICE_TEXT], shape[CS_SLICE_TEXT];
    const struct cs_holding all = {.slice = *whole, .owner = -1};
    const struct cs_owner_map want = {&all, 1};
    struct cs_slice both;
    struct cs_move *moves;
    int64_t n = 0;
    int32_t n_moves;
    for (int32_t i = 0; i < map->n; i++) {
        const struct cs_slice *slice = &map->held[i].slice;
        if (!is_inside(slice, whole))
            return cs_fail(err, CS_CORRUPT, "%s of %s lies outside its shape %s",
                           cs_slice_text(slice, text), name, cs_slice_text(whole, shape));
        n += cs_slice_count(slice);
        for (int32_t k = 0; k < i; k++)
            if (cs_slice_meet(slice, &map->held[k].slice, &both))
                return cs_fail(err, CS_CORRUPT, "%s of %s is held twice",
                               cs_slice_text(&both, text), name);
    }
    if (n == cs_slice_count(whole))
        return CS_OK;
    struct cs_arena *arena = cs_arena_new(0);
    const enum cs_status status =
        cs_moves_make(map, &want, whole_name, name, arena, &moves, &n_moves, err);
    cs_arena_free(arena);
    return status;
}
