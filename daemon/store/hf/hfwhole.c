/* Experts that a file keeps together, as the classes of transformers 5 have them in memory, are found under
 * the names that they have one by one: pieces of the same bytes. */
#include <stdlib.h>
#include <string.h>

#include "core/base/arena.h"
#include "store/hf/hfdir_parts.h"

/* Elements of all tensors that are pieces of the same one. */
static int64_t whole_count(const struct cs_tensor_info *info, int n, const char *whole)
{
    int64_t sum = 0;
    for (int i = 0; i < n; i++) {
        int64_t count = 1;
        for (int d = 0; d < info[i].n_dims; d++)
            count *= info[i].dim[d];
        sum += info[i].whole != NULL && strcmp(info[i].whole, whole) == 0 ? count : 0;
    }
    return sum;
}

static struct cs_st_tensor piece_of(const struct cs_st_tensor *whole,
                                    const struct cs_tensor_info *info)
{
    struct cs_st_tensor piece = *whole;
    const uint64_t at = (uint64_t)info->whole_at * cs_dtype_bytes(whole->dtype);
    piece.n_dims = info->n_dims;
    piece.count = 1;
    for (int d = 0; d < info->n_dims; d++)
        piece.count *= piece.dim[d] = info->dim[d];
    piece.data = (const char *)whole->data + at;
    piece.offset += at;
    return piece;
}

/* A tensor by itself becomes one of the list, with a name of its own. */
static bool add(struct cs_hfdir *dir, struct cs_st_tensor tensor, const char *name)
{
    char *own = strdup(name);
    if (own == NULL)
        return false;
    dir->name[dir->n_tensors] = own;
    dir->tensor[dir->n_tensors] = tensor;
    dir->tensor[dir->n_tensors++].name = own;
    return true;
}

/* `out`: an empty directory with room, which gets what dir has, cut. */
static bool cut_all(const struct cs_hfdir *dir, const struct cs_tensor_info *info, int n,
                    struct cs_hfdir *out)
{
    bool is_well = true;
    for (int i = 0; is_well && i < dir->n_tensors; i++) {
        const struct cs_st_tensor *t = &dir->tensor[i];
        const bool is_whole = whole_count(info, n, t->name) == t->count;
        bool is_cut = false;
        for (int k = 0; is_well && is_whole && k < n; k++)
            if (info[k].whole != NULL && strcmp(info[k].whole, t->name) == 0 &&
                cs_hfdir_tensor(dir, info[k].name, info[k].alt) == NULL) {
                is_cut = true;
                is_well = add(out, piece_of(t, &info[k]), info[k].name);
            }
        if (is_well && !is_cut)
            is_well = add(out, *t, t->name);
    }
    return is_well;
}

static enum cs_status replace(struct cs_hfdir *dir, const struct cs_tensor_info *info, int n,
                              struct cs_err *err)
{
    const size_t room = (size_t)dir->n_tensors + (size_t)n + 1;
    struct cs_hfdir cut = {.tensor = calloc(room, sizeof *cut.tensor),
                           .name = calloc(room, sizeof *cut.name)};
    const bool is_well = cut.tensor != NULL && cut.name != NULL && cut_all(dir, info, n, &cut);
    struct cs_hfdir gone = is_well ? *dir : cut;
    if (is_well) {
        dir->tensor = cut.tensor;
        dir->name = cut.name;
        dir->n_tensors = cut.n_tensors;
        cs_hfdir_sort(dir);
    }
    for (int i = 0; gone.name != NULL && i < gone.n_tensors; i++)
        free(gone.name[i]);
    free(gone.name);
    free(gone.tensor);
    return is_well ? CS_OK
                   : cs_fail(err, CS_NO_MEMORY, "no memory for the experts of %s", dir->path);
}

enum cs_status cs_hfdir_cut_wholes(struct cs_hfdir *dir, struct cs_err *err)
{
    struct cs_arch arch;
    struct cs_err unread;
    struct cs_tensor_info *info = NULL;
    struct cs_arena *arena = cs_arena_new(0);
    enum cs_status status = CS_OK;
    bool has_any = false;
    if (dir->n_tensors > 0 && cs_hfdir_arch(dir, NULL, arena, &arch, &unread) == CS_OK &&
        arch.experts.n > 0) {
        const int n = cs_arch_tensors(&arch, arena, &info);
        for (int i = 0; i < n && !has_any; i++)
            has_any = info[i].whole != NULL && cs_hfdir_tensor(dir, info[i].whole, NULL) != NULL;
        if (has_any)
            status = replace(dir, info, n, err);
    }
    cs_arena_free(arena);
    return status;
}
