/* A conversion from the directory to the result; see convert.h. */
#include <dirent.h>
#include <string.h>
#include <sys/stat.h>

#include "store/convert/parts.h"
#include "store/hf/export_parts.h"

static bool ends(const char *name, const char *with)
{
    const size_t len = strlen(name), tail = strlen(with);
    return len >= tail && strcmp(name + len - tail, with) == 0;
}

/* Weights of whatever kind, and what is written anew. */
static bool is_left(const struct cs_conversion *c, const char *name)
{
    static const char *const ended[] = {".safetensors", ".safetensors.index.json",
                                        ".bin",         ".bin.index.json",
                                        ".pt",          ".pth",
                                        ".ckpt",        ".gguf",
                                        ".h5",          ".msgpack",
                                        ".onnx"};
    const bool is_other = c->from != c->to;
    for (size_t i = 0; i < CS_ARRAY_LEN(ended); i++)
        if (ends(name, ended[i]))
            return true;
    return strcmp(name, "config.json") == 0 || name[0] == '.' ||
           (is_other && (strcmp(name, "preprocessor_config.json") == 0 || ends(name, ".py")));
}

/* Tokenizer, processors, templates and what else lies beside the weights, byte for byte. */
static enum cs_status copy_files(const struct cs_conversion *c)
{
    char from[CS_PATH_CAP], to[CS_PATH_CAP];
    struct stat st;
    DIR *list = opendir(c->asked->dir);
    enum cs_status status = CS_OK;
    if (!list)
        return cs_fail_errno(c->err, "looking into %s", c->asked->dir);
    for (struct dirent *e; status == CS_OK && (e = readdir(list));) {
        if (is_left(c, e->d_name))
            continue;
        status = cs_path(from, c->err, "%s/%s", c->asked->dir, e->d_name);
        if (status == CS_OK)
            status = cs_path(to, c->err, "%s/%s", c->root, e->d_name);
        if (status == CS_OK && stat(from, &st) == 0 && S_ISREG(st.st_mode))
            status = cs_fs_copy(from, to, c->err);
    }
    closedir(list);
    return status;
}

static const struct cs_composite_family *family_named(const char *model_type)
{
    int n;
    const struct cs_composite_family *families = cs_composite_families(&n);
    for (int i = 0; i < n; i++)
        if (strcmp(families[i].model_type, model_type) == 0)
            return &families[i];
    return NULL;
}

/* Layouts of one model that have a model_type each. */
static enum cs_status choose_family(struct cs_conversion *c)
{
    static const char *const pairs[][2] = {
        {"internvl", "internvl_chat"}
    };

    c->to = c->from;
    if (!c->asked->family)
        return CS_OK;
    for (size_t i = 0; c->from && i < CS_ARRAY_LEN(pairs); i++)
        for (int k = 0; k < 2; k++)
            if (strcmp(pairs[i][k], c->asked->family) == 0 &&
                (strcmp(pairs[i][0], c->from->model_type) == 0 ||
                 strcmp(pairs[i][1], c->from->model_type) == 0))
                c->to = family_named(c->asked->family);
    if (c->to && strcmp(c->to->model_type, c->asked->family) == 0)
        return CS_OK;
    return cs_fail(c->err, CS_UNSUPPORTED,
                   "%s is %s, which is not known in the layout of %s: internvl and internvl_chat "
                   "are layouts of one model",
                   c->asked->dir, c->from ? c->from->model_type : "no composite", c->asked->family);
}

static enum cs_status choose_dtype(struct cs_conversion *c)
{
    static const struct {
        const char *name;
        enum cs_dtype dtype;
    } known[] = {
        {"float32",  CS_F32 },
        {"bfloat16", CS_BF16},
        {"float16",  CS_F16 },
    };

    c->dtype = CS_DTYPES;
    for (size_t i = 0; c->asked->dtype && i < CS_ARRAY_LEN(known); i++)
        if (strcmp(known[i].name, c->asked->dtype) == 0)
            c->dtype = known[i].dtype;
    return !c->asked->dtype || c->dtype != CS_DTYPES
               ? CS_OK
               : cs_fail(c->err, CS_INVALID,
                         "dtype \"%s\": float32, bfloat16 and float16 are written",
                         c->asked->dtype);
}

static enum cs_status open_parts(struct cs_conversion *c)
{
    const char *parts[CS_MODULE_KINDS];
    int n = 0;
    CS_TRY(cs_hfdir_list(c->asked->dir, parts, &n, c->err));
    for (int i = 0; i < n; i++) {
        struct cs_arch arch;
        struct cs_hfdir *dir = NULL;
        CS_TRY(cs_hfdir_open(c->asked->dir, parts[i], &dir, c->err));
        const enum cs_status status = cs_hfdir_arch(dir, NULL, c->arena, &arch, c->err);
        if (status != CS_OK) {
            cs_hfdir_close(dir);
            return status;
        }
        c->part[arch.kind] = dir;
        c->arch[arch.kind] = arch;
        const struct cs_composite *root = cs_hfdir_composite(dir);
        c->from = root ? root->family : NULL;
    }
    return CS_OK;
}

/* Experts go together or apart where blocks have some; a family that has them may have none in this model. */
static enum cs_status check_experts(const struct cs_conversion *c)
{
    static const char *const words[] = {CS_CONVERT_EXPERTS(CS_CONVERT_WORD) NULL};
    int32_t n = 0;
    if (c->asked->experts == CS_CONVERT_EXPERTS_keep)
        return CS_OK;
    for (int kind = 0; kind < CS_MODULE_KINDS; kind++)
        n += c->part[kind] ? cs_arch_expert_blocks(&c->arch[kind]) : 0;
    return n > 0
               ? CS_OK
               : cs_fail(c->err, CS_INVALID, "no block of %s has experts: leave experts \"%s\" out",
                         c->asked->dir, words[c->asked->experts]);
}

static enum cs_status convert_to(struct cs_conversion *c)
{
    CS_TRY(cs_convert_config(c));
    for (int kind = 0; kind < CS_MODULE_KINDS; kind++)
        if (c->part[kind])
            CS_TRY(cs_convert_part(c, kind));
    for (int i = 0; i < c->n_out; i++)
        if (!c->out[i].name)
            return cs_fail(c->err, CS_UNSUPPORTED,
                           "a tensor of the model has no name in the layout of %s",
                           c->to->model_type);
    CS_TRY(copy_files(c));
    return cs_convert_write(c);
}

static enum cs_status run(struct cs_conversion *c)
{
    struct cs_export_target target;
    CS_TRY(choose_dtype(c));
    CS_TRY(open_parts(c));
    CS_TRY(check_experts(c));
    CS_TRY(choose_family(c));
    CS_TRY(cs_export_begin(&target, c->asked->out, c->err));
    c->root = target.root;
    return cs_export_end(&target, convert_to(c), c->err);
}

enum cs_status cs_convert_run(const struct cs_convert *convert, struct cs_convert_report *report,
                              struct cs_err *err)
{
    struct cs_conversion c = {
        .asked = convert, .report = report, .arena = cs_arena_new(0), .err = err};
    *report = (struct cs_convert_report){0};
    const enum cs_status status = run(&c);
    for (int kind = 0; kind < CS_MODULE_KINDS; kind++)
        cs_hfdir_close(c.part[kind]);
    json_decref(c.config);
    cs_arena_free(c.arena);
    return status;
}
