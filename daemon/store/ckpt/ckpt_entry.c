/* Writing and reading the names of a checkpoint's entries: parameter, kind, range, shape. */
#include "store/ckpt/ckpt_entry.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/buf.h"

static const struct {
    const char *name, *suffix;
} kinds[CS_CKPT_KINDS] = {
    [CS_CKPT_MASTER] = {"master",     ""           },
    [CS_CKPT_EXP_AVG] = {"exp_avg",    ".exp_avg"   },
    [CS_CKPT_EXP_AVG_SQ] = {"exp_avg_sq", ".exp_avg_sq"},
};

enum cs_ckpt_kind cs_ckpt_kind_of(const char *name)
{
    int kind = 0;
    while (kind < CS_CKPT_KINDS && strcmp(name, kinds[kind].name) != 0)
        kind++;
    return (enum cs_ckpt_kind)kind;
}

static bool is_same(const struct cs_slice *a, const struct cs_slice *b)
{
    const size_t bytes = (size_t)a->n_dims * sizeof a->begin[0];
    return a->n_dims == b->n_dims && memcmp(a->begin, b->begin, bytes) == 0 &&
           memcmp(a->end, b->end, bytes) == 0;
}

const char *cs_ckpt_entry_name(const struct cs_ckpt_entry *entry, struct cs_arena *arena)
{
    struct cs_buf text = {0};
    const struct cs_slice *s = &entry->slice;
    cs_buf_addf(&text, "%s%s", entry->name, kinds[entry->kind].suffix);
    if (!is_same(s, &entry->whole)) {
        for (int32_t d = 0; d < s->n_dims; d++)
            cs_buf_addf(&text, "%c%lld:%lld/%lld", d > 0 ? ',' : '[', (long long)s->begin[d],
                        (long long)s->end[d], (long long)entry->whole.end[d]);
        cs_buf_adds(&text, "]");
    }
    const char *name = cs_arena_strdup(arena, cs_buf_str(&text));
    cs_buf_free(&text);
    return name;
}

/* A whole number and the character behind it. */
static bool take(const char **at, int64_t *out, char stop)
{
    char *end;
    const bool is_digit = **at >= '0' && **at <= '9';
    *out = is_digit ? (int64_t)strtoll(*at, &end, 10) : 0;
    if (!is_digit || *end != stop)
        return false;
    *at = end + 1;
    return true;
}

/* "3:10/64,0:8/8]" */
static bool take_ranges(const char *at, int n_dims, struct cs_ckpt_entry *out)
{
    bool is_good = true;
    for (int d = 0; is_good && d < n_dims; d++)
        is_good = take(&at, &out->slice.begin[d], ':') && take(&at, &out->slice.end[d], '/') &&
                  take(&at, &out->whole.end[d], d + 1 < n_dims ? ',' : ']') &&
                  out->slice.begin[d] < out->slice.end[d] && out->slice.end[d] <= out->whole.end[d];
    return is_good && *at == '\0';
}

static bool fits(const struct cs_st_tensor *tensor, const struct cs_slice *slice)
{
    bool is = tensor->dtype == CS_F32;
    for (int d = 0; is && d < tensor->n_dims; d++)
        is = tensor->dim[d] == slice->end[d] - slice->begin[d];
    return is;
}

/* Cuts the suffix of a moment off: the longer one is tried first. */
static bool take_kind(char *name, bool is_moment, enum cs_ckpt_kind *kind)
{
    const size_t len = strlen(name);
    *kind = CS_CKPT_MASTER;
    for (int k = CS_CKPT_KINDS - 1; is_moment && k > 0; k--) {
        const size_t n = strlen(kinds[k].suffix);
        if (len > n && strcmp(name + len - n, kinds[k].suffix) == 0) {
            name[len - n] = '\0';
            *kind = (enum cs_ckpt_kind)k;
            return true;
        }
    }
    return !is_moment;
}

enum cs_status cs_ckpt_entry_read(const struct cs_st_tensor *tensor, bool is_moment,
                                  struct cs_arena *arena, struct cs_ckpt_entry *out,
                                  struct cs_err *err)
{
    char *name = cs_arena_strdup(arena, tensor->name);
    const size_t len = strlen(name);
    char *range = len > 0 && name[len - 1] == ']' ? strrchr(name, '[') : NULL;
    bool is_good = tensor->n_dims > 0 && tensor->n_dims <= CS_SLICE_DIMS && tensor->count > 0;
    *out = (struct cs_ckpt_entry){.name = name};
    if (is_good) {
        out->whole.n_dims = out->slice.n_dims = tensor->n_dims;
        for (int d = 0; d < tensor->n_dims; d++)
            out->whole.end[d] = out->slice.end[d] = tensor->dim[d];
    }
    if (is_good && range != NULL) {
        *range = '\0';
        is_good = take_ranges(range + 1, tensor->n_dims, out);
    }
    if (!is_good || !fits(tensor, &out->slice) || !take_kind(name, is_moment, &out->kind))
        return cs_fail(
            err, CS_CORRUPT,
            "%s of %s is no part of a parameter in fp32 with the shape that it has there",
            tensor->name, cs_st_path(tensor->file));
    return CS_OK;
}
