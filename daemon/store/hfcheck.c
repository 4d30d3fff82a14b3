/* Does a directory hold what an architecture needs? See hfdir.h. */
#include <inttypes.h>

#include "core/base/arena.h"
#include "core/base/buf.h"
#include "store/hfdir.h"

enum { MAX_NAMED = 3 };

static void add_shape(struct cs_buf *text, const int64_t *dim, int n_dims)
{
    cs_buf_addc(text, '[');
    for (int i = 0; i < n_dims; i++)
        cs_buf_addf(text, i ? ", %" PRId64 : "%" PRId64, dim[i]);
    cs_buf_addc(text, ']');
}

static bool has_shape(const struct cs_st_tensor *tensor, const int64_t *dim, int n_dims)
{
    bool is_same = tensor->n_dims == n_dims;
    for (int i = 0; is_same && i < n_dims; i++)
        is_same = tensor->dim[i] == dim[i];
    return is_same;
}

/* true when all is well; else what is wrong is appended */
static bool check_one(const struct cs_hfdir *dir, const struct cs_tensor_info *info,
                      struct cs_buf *text)
{
    const struct cs_st_tensor *tensor = cs_hfdir_tensor(dir, info->name, info->alt);
    if (!tensor) {
        cs_buf_addf(text, "; %s is missing", info->name);
        return false;
    }
    if (!has_shape(tensor, info->dim, info->n_dims)) {
        cs_buf_addf(text, "; %s is ", tensor->name);
        add_shape(text, tensor->dim, tensor->n_dims);
        cs_buf_adds(text, ", the configuration wants ");
        add_shape(text, info->dim, info->n_dims);
        return false;
    }
    if (tensor->dtype > CS_F64) {
        cs_buf_addf(text, "; %s is %s, not a float", tensor->name, cs_dtype_name(tensor->dtype));
        return false;
    }
    return true;
}

enum cs_status cs_hfdir_check(const struct cs_hfdir *dir, const struct cs_arch *arch,
                              struct cs_err *err)
{
    struct cs_arena *arena = NULL;
    struct cs_tensor_info *info = NULL;
    struct cs_buf text = {0}, unused = {0};
    enum cs_status status = CS_OK;
    int n_bad = 0;
    if (cs_hfdir_count(dir) == 0)
        return cs_fail(
            err, CS_NOT_FOUND,
            "%s holds no weights of this component (model.safetensors or "
            "model.safetensors.index.json); ask for init \"random\" to start from new ones",
            cs_hfdir_path(dir));
    arena = cs_arena_new(0);
    int n = cs_arch_tensors(arch, arena, &info);
    for (int i = 0; i < n; i++)
        n_bad += !check_one(dir, &info[i], n_bad < MAX_NAMED ? &text : &unused);
    if (n_bad > 0)
        status = cs_fail(err, CS_CORRUPT, "%s: %d of %d tensors do not fit%s%s", cs_hfdir_path(dir),
                         n_bad, n, cs_buf_str(&text), n_bad > MAX_NAMED ? "; ..." : "");
    cs_buf_free(&text);
    cs_buf_free(&unused);
    cs_arena_free(arena);
    return status;
}
