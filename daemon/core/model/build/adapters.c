/* Which matrices of a model have LoRA adapters. Names of targets are PEFT's: the last parts of the names
 * of layers, or globs. */
#include <stdio.h>
#include <string.h>

#include "core/base/glob.h"
#include "core/base/near.h"
#include "core/model/build/parts.h"

/* Matrices that one product multiplies rows with. */
static bool is_target(enum cs_param_role role)
{
    switch ((int)role) {
    case CS_PARAM_Q_W:
    case CS_PARAM_K_W:
    case CS_PARAM_V_W:
    case CS_PARAM_O_W:
    case CS_PARAM_GATE_W:
    case CS_PARAM_UP_W:
    case CS_PARAM_DOWN_W:
    case CS_PARAM_MIX_QKV_W:
    case CS_PARAM_MIX_Z_W:
    case CS_PARAM_MIX_B_W:
    case CS_PARAM_MIX_A_W:
    case CS_PARAM_MIX_OUT_W:
        return true;
    default:
        return false;
    }
}

/* "model.layers.0.self_attn.q_proj" of "....q_proj.weight" */
static size_t layer_name(const char *tensor)
{
    static const char end[] = ".weight";
    const size_t len = strlen(tensor), n = sizeof end - 1;
    return len > n && strcmp(tensor + len - n, end) == 0 ? len - n : len;
}

static bool matches_word(const char *word, const char *name)
{
    const size_t len = strlen(word), all = strlen(name);
    if (strcmp(word, "all-linear") == 0 || strcmp(word, name) == 0)
        return true;
    if (strpbrk(word, "*?[") != NULL)
        return cs_glob_match(word, name);
    return all > len && name[all - len - 1] == '.' && strcmp(name + all - len, word) == 0;
}

/* the next of the targets, NULL: there is none; *at: behind it */
static const char *next_word(const char **at, char word[256])
{
    const size_t len = strcspn(*at, "|");
    if (**at == '\0')
        return NULL;
    snprintf(word, 256, "%.*s", (int)len, *at);
    *at += len + ((*at)[len] == '|');
    return word;
}

static bool matches(const char *targets, const char *tensor)
{
    char name[512], word[256];
    snprintf(name, sizeof name, "%.*s", (int)layer_name(tensor), tensor);
    for (const char *at = targets; next_word(&at, word) != NULL;)
        if (matches_word(word, name))
            return true;
    return false;
}

const struct cs_spec_adapter *cs_graph_adapter_of(const struct cs_spec *spec,
                                                  const struct cs_module *module,
                                                  const struct cs_tensor_info *info)
{
    for (int32_t i = spec->n_adapters - 1; is_target(info->role) && i >= 0; i--)
        if (strcmp(spec->adapters[i].module, module->name) == 0 &&
            matches(spec->adapters[i].targets, info->name))
            return &spec->adapters[i];
    return NULL;
}

/* what could have been named */
static const char *near_target(const struct cs_graph *graph, const struct cs_spec_adapter *row,
                               struct cs_arena *arena)
{
    const char **names = CS_NEW_ARRAY(arena, const char *, graph->n_params + 1);
    int n = 0;
    for (int32_t i = 0; i < graph->n_params; i++) {
        const struct cs_param *p = &graph->params[i];
        if (!is_target(p->role) || strcmp(graph->modules[p->module].name, row->module) != 0)
            continue;
        const char *name = cs_arena_strndup(arena, p->tensor, layer_name(p->tensor));
        const char *last = strrchr(name, '.');
        names[n++] = last != NULL ? last + 1 : name;
    }
    const char *near = cs_near(row->targets, names, n);
    return near != NULL ? near : n > 0 ? names[0] : NULL;
}

/* Layers that a directory has adapters of, every one of which must be used. */
static enum cs_status check_saved(const struct cs_graph *graph, const struct cs_spec_adapter *row,
                                  int32_t number, struct cs_err *err)
{
    char word[256];
    for (const char *at = row->targets; next_word(&at, word) != NULL;) {
        bool is_used = *row->dir == '\0';
        for (int32_t k = 0; !is_used && k < graph->n_adapters; k++)
            is_used = matches(word, graph->params[graph->adapters[k].param].tensor);
        if (!is_used)
            return cs_fail(err, CS_UNSUPPORTED,
                           "model.adapters[%d]: %s has an adapter of %s, which is no matrix of a "
                           "block of %s that can have one",
                           number, row->dir, word, row->module);
    }
    return CS_OK;
}

static bool has_module(const struct cs_graph *graph, const char *name)
{
    for (int32_t m = 0; m < graph->n_modules; m++)
        if (strcmp(graph->modules[m].name, name) == 0)
            return true;
    return false;
}

enum cs_status cs_graph_check_adapters(const struct cs_graph *graph, const struct cs_spec *spec,
                                       struct cs_arena *arena, struct cs_err *err)
{
    for (int32_t i = 0; i < spec->n_adapters; i++) {
        const struct cs_spec_adapter *row = &spec->adapters[i];
        bool is_used = false;
        if (!has_module(graph, row->module))
            return cs_fail(err, CS_INVALID, "model.adapters[%d].module: there is no module \"%s\"",
                           i, row->module);
        for (int32_t k = 0; k < graph->n_adapters; k++)
            is_used = is_used || graph->adapters[k].spec == row;
        const char *near = is_used ? NULL : near_target(graph, row, arena);
        if (!is_used)
            return cs_fail(
                err, CS_INVALID,
                "model.adapters[%d].targets \"%s\" matches no matrix of a block of %s that "
                "a later entry does not match; its matrices are like \"%s\"",
                i, row->targets, row->module, near != NULL ? near : "(none)");
        CS_TRY(check_saved(graph, row, i, err));
    }
    for (int32_t k = 0; k < graph->n_adapters; k++) {
        const struct cs_param *param = &graph->params[graph->adapters[k].param];
        if (param->is_trainable)
            return cs_fail(err, CS_INVALID,
                           "%s has an adapter and is trained itself: freeze it (model:freeze), or "
                           "leave the adapter away",
                           param->name);
    }
    return CS_OK;
}
