/* A model directory as the modules of a job's document. */
#include <string.h>

#include "core/base/arena.h"
#include "store/hf/hfdir_parts.h"

static const char *const kinds[] = {
    [CS_MODULE_ENCODER] = "encoder", [CS_MODULE_PROJECTOR] = "projector", [CS_MODULE_LLM] = "llm"};
_Static_assert(CS_ARRAY_LEN(kinds) == CS_MODULE_KINDS, "a word for each kind");

/* "vision.encoder", "vision.projector", "llm" */
static json_t *name_of(const struct cs_hfdir *dir, enum cs_module_kind kind)
{
    const struct cs_composite_family *family = dir->composite.family;
    if (kind == CS_MODULE_LLM)
        return json_string("llm");
    return json_sprintf("%s.%s", family ? family->branch : "vision", kinds[kind]);
}

enum cs_status cs_hfdir_projector_settings(const struct cs_hfdir *dir, json_t **out,
                                           struct cs_err *err)
{
    struct cs_projector p;
    CS_TRY(cs_hfdir_projector(dir, &p, err));
    *out = json_pack("{s:s, s:i, s:s, s:b, s:b}", "family", p.family, "layers", (int)p.n_layers,
                     "activation", p.activation, "bias", (int)p.has_bias, "keeps_class",
                     (int)p.keeps_class);
    if (p.group > 1)
        json_object_set_new(*out, "group", json_integer(p.group));
    if (p.has_newline)
        json_object_set_new(*out, "newline", json_true());
    if (p.norm_eps > 0)
        json_object_set_new(*out, "norm_eps", json_real((double)p.norm_eps));
    return *out != NULL ? CS_OK : cs_fail(err, CS_NO_MEMORY, "no memory for a projector");
}

static json_t *module_of(const struct cs_hfdir *dir, enum cs_module_kind kind)
{
    json_t *module =
        json_pack("{s:o, s:s, s:s, s:s, s:O}", "name", name_of(dir, kind), "kind", kinds[kind],
                  "dir", dir->path, "init", "weights", "config", dir->config);
    const char *mask =
        dir->composite.family ? cs_composite_mask(dir->composite.family, dir->root) : NULL;
    if (module && kind == CS_MODULE_LLM && mask)
        json_object_set_new(module, "mask", json_string(mask));
    json_t *settings = NULL; /* whoever reads the configuration says what is wrong with it */
    if (module && kind == CS_MODULE_PROJECTOR &&
        cs_hfdir_projector_settings(dir, &settings, NULL) == CS_OK)
        json_object_update_new(module, settings);
    if (!module || kind != CS_MODULE_ENCODER)
        return module;
    json_object_set_new(module, "token", json_string("<image>"));
    if (dir->processor)
        json_object_set(module, "processor", dir->processor);
    if (dir->composite.family && !dir->composite.has_final_norm)
        json_object_set_new(module, "feature_layer", json_integer(dir->composite.feature_layer));
    return module;
}

/* of a plain directory by its architecture */
static enum cs_status kind_of(const struct cs_hfdir *dir, enum cs_module_kind *out,
                              struct cs_err *err)
{
    struct cs_arch arch;
    struct cs_arena *arena = cs_arena_new(0);
    const enum cs_status status = cs_hfdir_arch(dir, NULL, arena, &arch, err);
    *out = dir->composite.family ? dir->kind : arch.kind;
    cs_arena_free(arena);
    return dir->composite.family ? CS_OK : status;
}

static enum cs_status add_module(const char *path, const char *part, json_t *list,
                                 struct cs_err *err)
{
    struct cs_hfdir *dir = NULL;
    enum cs_module_kind kind = CS_MODULE_LLM;
    CS_TRY(cs_hfdir_open(path, part, &dir, err));
    enum cs_status status = kind_of(dir, &kind, err);
    if (status == CS_OK && json_array_append_new(list, module_of(dir, kind)) != 0)
        status = cs_fail(err, CS_NO_MEMORY, "no memory for the modules of %s", path);
    cs_hfdir_close(dir);
    return status;
}

enum cs_status cs_hfdir_modules(const char *path, json_t **out, struct cs_err *err)
{
    const char *part[CS_MODULE_KINDS];
    int n = 0;
    json_t *list = json_array();
    *out = NULL;
    enum cs_status status = cs_hfdir_list(path, part, &n, err);
    for (int i = 0; status == CS_OK && i < n; i++)
        status = add_module(path, part[i], list, err);
    if (status == CS_OK)
        *out = list;
    else
        json_decref(list);
    return status;
}
