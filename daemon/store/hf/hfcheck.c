/* Does a directory hold what an architecture needs, and what does it hold beside that? See hfdir.h. */
#include <inttypes.h>
#include <string.h>

#include "core/base/arena.h"
#include "core/base/buf.h"
#include "store/hf/hfdir.h"

enum { MAX_NAMED = 3 };

static void add_shape(struct cs_buf *text, const int64_t *dim, int n_dims)
{
    cs_buf_addc(text, '[');
    for (int i = 0; i < n_dims; i++)
        cs_buf_addf(text, i ? ", %" PRId64 : "%" PRId64, dim[i]);
    cs_buf_addc(text, ']');
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
    if (!cs_hfdir_fits(tensor, info->role, info->dim, info->n_dims)) {
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

static enum cs_status check_shapes(const struct cs_hfdir *dir, const struct cs_tensor_info *info,
                                   int n, struct cs_err *err)
{
    struct cs_buf text = {0}, unused = {0};
    enum cs_status status = CS_OK;
    int n_bad = 0;
    for (int i = 0; i < n; i++)
        n_bad += !check_one(dir, &info[i], n_bad < MAX_NAMED ? &text : &unused);
    if (n_bad > 0)
        status = cs_fail(err, CS_CORRUPT, "%s: %d of %d tensors do not fit%s%s", cs_hfdir_path(dir),
                         n_bad, n, cs_buf_str(&text), n_bad > MAX_NAMED ? "; ..." : "");
    cs_buf_free(&text);
    cs_buf_free(&unused);
    return status;
}

enum cs_status cs_hfdir_check(const struct cs_hfdir *dir, const struct cs_arch *arch,
                              struct cs_err *err)
{
    struct cs_arena *arena = NULL;
    struct cs_tensor_info *info = NULL;
    if (cs_hfdir_count(dir) == 0)
        return cs_fail(
            err, CS_NOT_FOUND,
            "%s holds no weights of this component (model.safetensors or "
            "model.safetensors.index.json); ask for init \"random\" to start from new ones",
            cs_hfdir_path(dir));
    arena = cs_arena_new(0);
    int n = cs_arch_tensors(arch, arena, &info);
    enum cs_status status = check_shapes(dir, info, n, err);
    cs_arena_free(arena);
    return status;
}

enum cs_status cs_hfdir_check_values(const struct cs_hfdir *dir, const struct cs_arch *arch,
                                     struct cs_err *err)
{
    struct cs_arena *arena = cs_arena_new(0);
    struct cs_tensor_info *info = NULL;
    enum cs_status status = CS_OK;
    int n = cs_arch_tensors(arch, arena, &info);
    for (int i = 0; i < n && status == CS_OK; i++) {
        const struct cs_st_tensor *tensor = cs_hfdir_tensor(dir, info[i].name, info[i].alt);
        if (tensor)
            status = cs_st_check_finite(tensor, err);
    }
    cs_arena_free(arena);
    return status;
}

/* Tensors that no architecture reads, and why that changes nothing. */
static const struct {
    const char *begin, *end; /* of the name; "": any */
    const char *why;
    bool is_foreign; /* the class that a component is exported as does not have it either */
} unread[] = {
    {"",                             ".position_ids",        "positions, which are counted",               true },
    {"",                             ".rotary_emb.inv_freq", "frequencies, which are computed",            true },
    {"text_model.",                  "",                     "of the text half of the encoder",            true },
    {"vision_model.head.",           "",                     "the pool, which feeds nothing here",         false},
    {"head.",                        "",                     "the pool, which feeds nothing here",         false},
    {"post_layernorm.",              "",                     "of the class row, which feeds nothing here", false},
    {"vision_model.post_layernorm.", "",                     "of the class row, which feeds nothing here", false},
    {"pooler.",                      "",                     "the pool, which feeds nothing here",         false},
    {"embeddings.mask_token",        "",                     "of patches that are hidden in pretraining",  false},
    {"logit_scale",                  "",                     "of the contrastive loss",                    true },
    {"logit_bias",                   "",                     "of the contrastive loss",                    true },
    {"text_projection.",             "",                     "of the contrastive loss",                    true },
    {"visual_projection.",           "",                     "of the contrastive loss",                    true },
};

static int find_row(enum cs_module_kind kind, const char *name)
{
    size_t len = strlen(name);
    for (size_t i = 0; i < CS_ARRAY_LEN(unread); i++) {
        size_t end = strlen(unread[i].end);
        bool is_of_encoder = *unread[i].begin != '\0';
        if ((kind == CS_MODULE_ENCODER || !is_of_encoder) &&
            strncmp(name, unread[i].begin, strlen(unread[i].begin)) == 0 && len >= end &&
            strcmp(name + len - end, unread[i].end) == 0)
            return (int)i;
    }
    return -1;
}

bool cs_hfdir_is_foreign(const struct cs_arch *arch, const char *name)
{
    int row = find_row(arch->kind, name);
    return (row >= 0 && unread[row].is_foreign) ||
           (arch->kind == CS_MODULE_LLM && arch->is_tied && strcmp(name, "lm_head.weight") == 0);
}

static const char *why_unread(const struct cs_arch *arch, const char *name)
{
    int row = find_row(arch->kind, name);
    if (row >= 0)
        return unread[row].why;
    if (cs_hfdir_is_foreign(arch, name))
        return "the embedding once more";
    return "";
}

static bool is_read(const struct cs_tensor_info *info, int n, const char *name)
{
    for (int i = 0; i < n; i++)
        if (strcmp(info[i].name, name) == 0 || (info[i].alt && strcmp(info[i].alt, name) == 0))
            return true;
    return false;
}

int cs_hfdir_unread(const struct cs_hfdir *dir, const struct cs_arch *arch, struct cs_arena *arena,
                    struct cs_unread **out)
{
    struct cs_tensor_info *info = NULL;
    int n_info = cs_arch_tensors(arch, arena, &info), n = 0;
    struct cs_unread *list = CS_NEW_ARRAY(arena, struct cs_unread, cs_hfdir_count(dir) + 1);
    for (int i = 0; i < cs_hfdir_count(dir); i++) {
        const char *name = cs_hfdir_at(dir, i)->name;
        if (!is_read(info, n_info, name))
            list[n++] = (struct cs_unread){name, why_unread(arch, name)};
    }
    *out = list;
    return n;
}
