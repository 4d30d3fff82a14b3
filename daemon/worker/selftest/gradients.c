/* Gradients of the golden against ours, tensor by tensor, each found under the name that the class or
 * the files have for it. */
#include <string.h>

#include "worker/selftest/outcome.h"

static bool is_name(const struct cs_param *param, const char *prefix, const char *rest)
{
    const char *const whole = param->whole_at == 0 ? param->whole : NULL;
    const char *const names[] = {param->tensor, param->alt, whole};
    const size_t len = strlen(prefix);
    for (size_t i = 0; i < CS_ARRAY_LEN(names); i++)
        if (names[i] != NULL && strncmp(names[i], prefix, len) == 0 &&
            strcmp(names[i] + len, rest) == 0)
            return true;
    return false;
}

/* What ViT's class calls its tensors since it saves them under other names; each in the place of the
 * first that is found in turn. */
static const struct {
    const char *own, *saved;
} vit_names[] = {
    {".attention.q_proj.", ".attention.attention.query."},
    {".attention.k_proj.", ".attention.attention.key."  },
    {".attention.v_proj.", ".attention.attention.value."},
    {".attention.o_proj.", ".attention.output.dense."   },
    {".mlp.fc1.",          ".intermediate.dense."       },
    {".mlp.fc2.",          ".output.dense."             },
};

/* the name in the files of "layers.N.REST", in the arena */
static const char *vit_name(const struct cs_golden *g, const char *name)
{
    const char *found = NULL;
    size_t i = 0;
    if (strncmp(name, "layers.", 7) != 0)
        return name;
    while (i < CS_ARRAY_LEN(vit_names) && (found = strstr(name, vit_names[i].own)) == NULL)
        i++;
    if (found == NULL)
        return cs_arena_printf(g->arena, "encoder.layer.%s", name + 7);
    return cs_arena_printf(g->arena, "encoder.layer.%.*s%s%s", (int)(found - name - 7), name + 7,
                           vit_names[i].saved, found + strlen(vit_names[i].own));
}

static bool is_vit(const struct cs_golden *g)
{
    const struct cs_module *encoder = cs_graph_encoder(g->graph, 0);
    return encoder != NULL && strcmp(encoder->arch.family, "vit") == 0;
}

/* the parameter of a module of the directory that the class calls `name` */
static const struct cs_param *find_param(const struct cs_golden *g, const char *name)
{
    const bool has_vit = is_vit(g);
    for (int32_t i = 0; i < g->graph->n_params; i++) {
        const struct cs_param *param = &g->graph->params[i];
        const enum cs_module_kind kind = g->graph->modules[param->module].kind;
        const char *prefix;
        const char *rest =
            g->part[kind] != NULL ? cs_hfdir_own_name(g->part[kind], name, &prefix) : NULL;
        if (rest != NULL && has_vit && kind == CS_MODULE_ENCODER)
            rest = vit_name(g, rest);
        if (rest != NULL && is_name(param, prefix, rest))
            return param;
    }
    return NULL;
}

/* The class keeps both in one tensor, as experts: they are a group, so their gradients are one here
 * too (core/arch/arch.h). */
static bool is_together(const struct cs_param *a, const struct cs_param *b)
{
    return a->whole != NULL && b->whole != NULL && a->layer == b->layer &&
           strcmp(a->whole, b->whole) == 0;
}

/* What the class keeps the parameter in, in the arena: its gradient times scale, with those of the group
 * that it is one tensor with. *count: elements. */
static const float *grad_together(const struct cs_golden *g, const struct cs_outcome *outcome,
                                  const struct cs_param *param, double scale, int64_t *count)
{
    const struct cs_layer *layer = &g->graph->layers[param->layer];
    int64_t n = 0;
    for (int32_t i = layer->first_param; i < layer->first_param + layer->n_params; i++)
        n += is_together(param, &g->graph->params[i]) ? g->graph->params[i].count : 0;
    *count = n > 0 ? n : param->count;
    float *whole = CS_NEW_ARRAY(g->arena, float, *count + 1);
    for (int32_t i = layer->first_param; i < layer->first_param + layer->n_params; i++) {
        const struct cs_param *part = &g->graph->params[i];
        const bool is_part = n > 0 ? is_together(param, part) : part == param;
        for (int64_t k = 0; is_part && k < part->count; k++)
            whole[(n > 0 ? part->whole_at : 0) + k] = (float)((double)outcome->grad[i][k] * scale);
    }
    return whole;
}

/* noise: of the largest gradients. The gradient of a key's bias is zero, because it shifts a row of scores:
 * there rounding meets rounding. */
double cs_outcome_floor(const struct cs_golden *g, double noise)
{
    return (cs_device_is_f32(g->device) ? 1e3 : 5e4) * noise;
}

static enum cs_status compare(const struct cs_outcome *outcome, struct cs_golden *g,
                              const struct cs_param *param, const char *name, double scale,
                              double noise, struct cs_selftest_check *check, struct cs_err *err)
{
    float *want;
    int64_t count, n;
    const float *got = grad_together(g, outcome, param, scale, &n);
    CS_TRY(cs_golden_floats(g, name, &want, &count, err));
    if (count != n)
        return cs_fail(err, CS_CORRUPT, "%s: %s has %lld elements, %s has %lld",
                       cs_st_path(g->file), name, (long long)count, param->name, (long long)n);
    cs_selftest_compare(g, check,
                        (struct cs_selftest_pair){
                            .name = name,
                            .kind = CS_PAIR_VECTOR,
                            .n = count,
                            .got = got,
                            .want = want,
                            .unit = cs_outcome_floor(g, noise),
                        });
    return CS_OK;
}

/* whatever trains here has a gradient there */
static enum cs_status check_all_found(const struct cs_golden *g, const bool *is_found,
                                      struct cs_err *err)
{
    for (int32_t i = 0; i < g->graph->n_params; i++) {
        const struct cs_param *param = &g->graph->params[i];
        if (!is_found[i] && param->is_trainable &&
            g->part[g->graph->modules[param->module].kind] != NULL)
            return cs_fail(err, CS_CORRUPT, "%s has no gradient of %s", cs_st_path(g->file),
                           param->name);
    }
    return CS_OK;
}

enum cs_status cs_outcome_check_gradients(const struct cs_outcome *outcome, struct cs_golden *g,
                                          double scale, struct cs_selftest *out, struct cs_err *err)
{
    static const char begin[] = "grad.";
    float *norm;
    bool *is_found = CS_NEW_ARRAY(g->arena, bool, g->graph->n_params + 1);
    CS_TRY(cs_golden_floats(g, "step.norm", &norm, NULL, err));
    struct cs_selftest_check *check = cs_selftest_add(g, out, "gradients", 1e-3, 6.3e-2);
    for (int t = 0; t < cs_st_count(g->file); t++) {
        const char *name = cs_st_at(g->file, t)->name;
        if (strncmp(name, begin, sizeof begin - 1) != 0)
            continue;
        const struct cs_param *param = find_param(g, name + sizeof begin - 1);
        if (param == NULL)
            return cs_fail(err, CS_CORRUPT, "%s: %s is of no parameter that trains here",
                           cs_st_path(g->file), name);
        for (int32_t i = 0; i < g->graph->n_params; i++)
            is_found[i] |= i == param->id || is_together(param, &g->graph->params[i]);
        if (param->is_trainable)
            CS_TRY(compare(outcome, g, param, name, scale, 1e-6 * (double)norm[0], check, err));
    }
    if (check->n == 0) /* it holds none: nothing was compared, which is not good */
        return CS_OK;
    return check_all_found(g, is_found, err);
}
