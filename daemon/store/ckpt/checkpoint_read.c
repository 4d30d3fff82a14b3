/* Reading a checkpoint under any layout: its files are an owner map, what is wanted is another, and
 * the moves between them are read. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/arena.h"
#include "store/ckpt/checkpoint.h"
#include "store/ckpt/ckpt_entry.h"
#include "store/ckpt/ckpt_manifest.h"
#include "store/fsio.h"

/* What the files hold of one parameter: some of ckpt->held, whose owners are files. */
struct parameter {
    const char *name;
    enum cs_ckpt_kind kind;
    struct cs_slice whole; /* param: the index of this entry */
    int32_t first, n;
};

struct cs_ckpt {
    char *path;
    json_t *info, *trainer;
    struct cs_st_file **file;
    bool *is_moments; /* (n_files) of opt/ */
    int n_files;
    struct cs_arena *arena;
    struct parameter *parameter; /* by kind and name */
    int32_t n_parameters;
    struct cs_holding *held;           /* by parameter */
    const struct cs_st_tensor **where; /* of held */
};

static enum cs_status open_files(struct cs_ckpt *ckpt, struct cs_err *err)
{
    char path[CS_PATH_CAP];
    const json_t *files = json_object_get(ckpt->info, "files");
    size_t n = json_array_size(files);
    ckpt->file = calloc(n + 1, sizeof *ckpt->file);
    ckpt->is_moments = calloc(n + 1, sizeof *ckpt->is_moments);
    if (!ckpt->file || !ckpt->is_moments)
        return cs_fail(err, CS_NO_MEMORY, "no memory for the %zu files of %s", n, ckpt->path);
    for (size_t i = 0; i < n; i++) {
        const char *name = json_string_value(json_object_get(json_array_get(files, i), "name"));
        CS_TRY(cs_path(path, err, "%s/%s", ckpt->path, name));
        if (strcmp(name, "trainer.json") == 0)
            continue;
        CS_TRY(cs_st_open(path, &ckpt->file[ckpt->n_files], err));
        ckpt->is_moments[ckpt->n_files] = strncmp(name, "opt/", 4) == 0;
        ckpt->n_files++;
    }
    CS_TRY(cs_path(path, err, "%s/trainer.json", ckpt->path));
    return cs_fs_read_json(path, &ckpt->trainer, err);
}

/* An entry of a file on its way into the index. */
struct found {
    struct cs_ckpt_entry entry;
    const struct cs_st_tensor *tensor;
    int32_t file;
};

static int by_name(const void *a, const void *b)
{
    const struct cs_ckpt_entry *x = &((const struct found *)a)->entry;
    const struct cs_ckpt_entry *y = &((const struct found *)b)->entry;
    return x->kind != y->kind ? (x->kind > y->kind) - (x->kind < y->kind)
                              : strcmp(x->name, y->name);
}

static int by_place(const void *a, const void *b)
{
    const struct cs_slice *x = &((const struct found *)a)->entry.slice;
    const struct cs_slice *y = &((const struct found *)b)->entry.slice;
    const int order = by_name(a, b);
    for (int32_t d = 0; order == 0 && d < CS_SLICE_DIMS; d++)
        if (x->begin[d] != y->begin[d])
            return x->begin[d] > y->begin[d] ? 1 : -1;
    return order;
}

static enum cs_status find_entries(struct cs_ckpt *ckpt, struct found *out, struct cs_err *err)
{
    for (int f = 0; f < ckpt->n_files; f++)
        for (int i = 0; i < cs_st_count(ckpt->file[f]); i++, out++) {
            out->tensor = cs_st_at(ckpt->file[f], i);
            out->file = f;
            CS_TRY(cs_ckpt_entry_read(out->tensor, ckpt->is_moments[f], ckpt->arena, &out->entry,
                                      err));
        }
    return CS_OK;
}

/* The n entries of one parameter, which must be all of it, each element once. */
static enum cs_status add_parameter(struct cs_ckpt *ckpt, const struct found *found, int32_t n,
                                    int32_t first, struct cs_err *err)
{
    const int32_t id = ckpt->n_parameters++;
    struct parameter *p = &ckpt->parameter[id];
    struct cs_holding *held = &ckpt->held[first];
    *p = (struct parameter){found->entry.name, found->entry.kind, found->entry.whole, first, n};
    p->whole.param = id;
    for (int32_t i = 0; i < n; i++) {
        struct cs_slice whole = found[i].entry.whole;
        whole.param = id;
        if (memcmp(&whole, &p->whole, sizeof whole) != 0)
            return cs_fail(err, CS_CORRUPT, "%s has one shape in %s and another in %s", p->name,
                           cs_st_path(found->tensor->file), cs_st_path(found[i].tensor->file));
        held[i] = (struct cs_holding){found[i].entry.slice, found[i].file};
        held[i].slice.param = id;
        ckpt->where[first + i] = found[i].tensor;
    }
    return cs_owners_check(&(struct cs_owner_map){held, n}, &p->whole, p->name, err);
}

/* The owner map of the files, parameter by parameter. */
static enum cs_status make_index(struct cs_ckpt *ckpt, struct cs_err *err)
{
    int32_t n = 0;
    for (int f = 0; f < ckpt->n_files; f++)
        n += cs_st_count(ckpt->file[f]);
    ckpt->arena = cs_arena_new(0);
    struct found *found = CS_NEW_ARRAY(ckpt->arena, struct found, n + 1);
    ckpt->parameter = CS_NEW_ARRAY(ckpt->arena, struct parameter, n + 1);
    ckpt->held = CS_NEW_ARRAY(ckpt->arena, struct cs_holding, n + 1);
    ckpt->where = CS_NEW_ARRAY(ckpt->arena, const struct cs_st_tensor *, n + 1);
    CS_TRY(find_entries(ckpt, found, err));
    qsort(found, (size_t)n, sizeof *found, by_place);
    for (int32_t first = 0, end; first < n; first = end) {
        for (end = first + 1; end < n && by_name(&found[first], &found[end]) == 0;)
            end++;
        CS_TRY(add_parameter(ckpt, &found[first], end - first, first, err));
    }
    return CS_OK;
}

enum cs_status cs_ckpt_open(const char *path, struct cs_ckpt **out, struct cs_err *err)
{
    struct cs_ckpt *made = calloc(1, sizeof *made);
    *out = NULL;
    if (!made || !(made->path = strdup(path))) {
        free(made);
        return cs_fail(err, CS_NO_MEMORY, "no memory to open %s", path);
    }
    enum cs_status status = cs_ckpt_verify(path, false, &made->info, err);
    if (status == CS_OK)
        status = open_files(made, err);
    if (status == CS_OK)
        status = make_index(made, err);
    if (status != CS_OK) {
        cs_ckpt_close(made);
        return cs_wrap(err, status, "opening checkpoint %s", path);
    }
    *out = made;
    return CS_OK;
}

void cs_ckpt_close(struct cs_ckpt *ckpt)
{
    if (!ckpt)
        return;
    for (int i = 0; i < ckpt->n_files; i++)
        cs_st_close(ckpt->file[i]);
    free(ckpt->file);
    free(ckpt->is_moments);
    cs_arena_free(ckpt->arena);
    json_decref(ckpt->info);
    json_decref(ckpt->trainer);
    free(ckpt->path);
    free(ckpt);
}

int64_t cs_ckpt_step(const struct cs_ckpt *ckpt)
{
    return json_integer_value(json_object_get(ckpt->info, "step"));
}

const json_t *cs_ckpt_trainer(const struct cs_ckpt *ckpt)
{
    return ckpt->trainer;
}

const json_t *cs_ckpt_info(const struct cs_ckpt *ckpt)
{
    return ckpt->info;
}

static const struct parameter *find(const struct cs_ckpt *ckpt, const char *name,
                                    enum cs_ckpt_kind kind)
{
    int32_t low = 0, high = ckpt->n_parameters;
    while (low < high) {
        const int32_t middle = low + (high - low) / 2;
        const struct parameter *p = &ckpt->parameter[middle];
        const int order =
            p->kind != kind ? (kind > p->kind) - (kind < p->kind) : strcmp(name, p->name);
        if (order == 0)
            return p;
        low = order > 0 ? middle + 1 : low;
        high = order > 0 ? high : middle;
    }
    return NULL;
}

static enum cs_status look_up(const struct cs_ckpt *ckpt, const struct cs_param *param,
                              const char *kind, const struct parameter **out, struct cs_err *err)
{
    const enum cs_ckpt_kind which = cs_ckpt_kind_of(kind);
    if (which == CS_CKPT_KINDS)
        return cs_fail(err, CS_INVALID, "a checkpoint holds master, exp_avg and exp_avg_sq, not %s",
                       kind);
    *out = find(ckpt, param->name, which);
    if (*out == NULL)
        return cs_fail(err, CS_NOT_FOUND, "checkpoint %s holds no %s of %s", ckpt->path, kind,
                       param->name);
    const struct cs_slice *whole = &(*out)->whole;
    bool is_same = whole->n_dims == param->n_dims;
    for (int d = 0; is_same && d < param->n_dims; d++)
        is_same = whole->end[d] == param->dim[d];
    if (!is_same)
        return cs_fail(err, CS_INVALID,
                       "checkpoint %s: %s of %s has another shape (%lld elements) than the model "
                       "wants (%lld): it is of another model",
                       ckpt->path, kind, param->name, (long long)cs_slice_count(whole),
                       (long long)param->count);
    return CS_OK;
}

enum cs_status cs_ckpt_check_whole(const struct cs_ckpt *ckpt, const struct cs_param *params,
                                   int32_t n, struct cs_err *err)
{
    static const char *const kinds[] = {"master", "exp_avg", "exp_avg_sq"};
    const struct parameter *found;
    for (int32_t i = 0; i < n; i++)
        for (size_t k = 0; params[i].is_trainable && k < CS_ARRAY_LEN(kinds); k++) {
            const enum cs_status status = look_up(ckpt, &params[i], kinds[k], &found, err);
            if (status != CS_OK)
                return cs_wrap(err, status == CS_NOT_FOUND ? CS_CORRUPT : status,
                               "the checkpoint is not whole");
        }
    return CS_OK;
}

static const char *name_of(const void *user, int32_t param)
{
    return ((const struct cs_ckpt *)user)->parameter[param].name;
}

static enum cs_status read_move(const struct cs_ckpt *ckpt, const struct parameter *p,
                                const struct cs_move *move, const struct cs_slice *to, float *out,
                                struct cs_err *err)
{
    const int32_t at = p->first + move->from;
    const struct cs_slice *from = &ckpt->held[at].slice;
    const int64_t n = cs_slice_runs(&move->slice, from, to);
    for (int64_t i = 0; i < n; i++) {
        const struct cs_copy_run run = cs_slice_run(&move->slice, from, to, i);
        CS_TRY(cs_st_read_f32(ckpt->where[at], run.from, run.n, out + run.to, err));
    }
    return CS_OK;
}

/* n_parts slices, whose arrays follow each other in out */
static enum cs_status read_slices(const struct cs_ckpt *ckpt, const struct parameter *p,
                                  const struct cs_slice *part, int n_parts, float *out,
                                  struct cs_err *err)
{
    struct cs_holding want[CS_SLICE_FLAT_MAX];
    float *to[CS_SLICE_FLAT_MAX];
    struct cs_move *move;
    int32_t n_moves = 0;
    for (int i = 0; i < n_parts; i++) {
        want[i] = (struct cs_holding){part[i], -1};
        to[i] = i > 0 ? to[i - 1] + cs_slice_count(&part[i - 1]) : out;
    }
    const struct cs_owner_map have = {&ckpt->held[p->first], p->n}, wanted = {want, n_parts};
    struct cs_arena *arena = cs_arena_new(0);
    enum cs_status status =
        cs_moves_make(&have, &wanted, name_of, ckpt, arena, &move, &n_moves, err);
    for (int32_t i = 0; status == CS_OK && i < n_moves; i++)
        status = read_move(ckpt, p, &move[i], &part[move[i].to], to[move[i].to], err);
    cs_arena_free(arena);
    return status;
}

enum cs_status cs_ckpt_read_part(const struct cs_ckpt *ckpt, const struct cs_param *param,
                                 const char *kind, int64_t at, int64_t n, float *out,
                                 struct cs_err *err)
{
    struct cs_slice part[CS_SLICE_FLAT_MAX];
    const struct parameter *p = NULL;
    CS_TRY(look_up(ckpt, param, kind, &p, err));
    return read_slices(ckpt, p, part, cs_slice_from_flat(&p->whole, at, n, part), out, err);
}

enum cs_status cs_ckpt_read_slice(const struct cs_ckpt *ckpt, const struct cs_param *param,
                                  const char *kind, const struct cs_slice *slice, float *out,
                                  struct cs_err *err)
{
    const struct parameter *p = NULL;
    CS_TRY(look_up(ckpt, param, kind, &p, err));
    struct cs_slice own = *slice;
    own.param = p->whole.param;
    return read_slices(ckpt, p, &own, 1, out, err);
}

enum cs_status cs_ckpt_read(const struct cs_ckpt *ckpt, const struct cs_param *param,
                            const char *kind, float *out, struct cs_err *err)
{
    return cs_ckpt_read_part(ckpt, param, kind, 0, param->count, out, err);
}
