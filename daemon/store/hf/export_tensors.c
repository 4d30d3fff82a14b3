/* Which tensors an exported component holds and where their values come from. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/hf/export_parts.h"

/* closure of one parameter */
struct param_fill {
    const struct cs_export *ex;
    const struct cs_param *param;
    bool is_counted; /* in the report: a tensor is written twice where there is a llava directory */
};

/* as it will stand in the file */
static int64_t first_not_finite(enum cs_dtype dtype, const float *values, int64_t count)
{
    int64_t i = dtype == CS_BF16 ? 0 : cs_find_not_finite(values, count);
    for (; dtype == CS_BF16 && i < count; i++)
        if (!isfinite(cs_f32_from_bf16(cs_bf16_from_f32(values[i]))))
            break;
    return i == count ? -1 : i;
}

static void note_values(struct param_fill *fill, const float *values)
{
    struct cs_export_report *report = fill->ex->report;
    if (fill->is_counted)
        return;
    fill->is_counted = true;
    report->n_params++;
    int64_t bad = first_not_finite(fill->ex->dtype, values, fill->param->count);
    if (bad < 0)
        return;
    if (report->n_not_finite++ == 0)
        snprintf(report->not_finite, sizeof report->not_finite, "%s, element %lld of %lld",
                 fill->param->name, (long long)bad, (long long)fill->param->count);
}

static const struct cs_graph_adapter *adapter_of(const struct cs_graph *graph, int32_t param)
{
    for (int32_t i = 0; i < graph->n_adapters; i++)
        if (graph->adapters[i].param == param)
            return &graph->adapters[i];
    return NULL;
}

/* w (out, in) += scale b (out, rank) a (rank, in) */
static enum cs_status merge(const struct cs_export *ex, const struct cs_graph_adapter *adapter,
                            float *w, struct cs_err *err)
{
    const struct cs_param *a = &ex->graph->params[adapter->a], *b = &ex->graph->params[adapter->b];
    const int64_t rank = adapter->rank, in = a->dim[1], out = b->dim[0];
    float *values = malloc((size_t)(a->count + b->count) * sizeof *values);
    if (!values)
        return cs_fail(err, CS_NO_MEMORY, "no memory to merge %s", b->name);
    float *of_b = values + a->count;
    enum cs_status status = ex->source(ex->user, a, values, err);
    if (status == CS_OK)
        status = ex->source(ex->user, b, of_b, err);
    for (int64_t i = 0; status == CS_OK && i < out; i++)
        for (int64_t r = 0; r < rank; r++) {
            const float factor = adapter->scale * of_b[i * rank + r];
            for (int64_t k = 0; k < in; k++)
                w[i * in + k] += factor * values[r * in + k];
        }
    free(values);
    return status;
}

static enum cs_status fill_param(void *user, const struct cs_st_out *tensor, float *out,
                                 struct cs_err *err)
{
    struct param_fill *fill = user;
    const struct cs_graph_adapter *adapter = adapter_of(fill->ex->graph, fill->param->id);
    enum cs_status status = fill->ex->source(fill->ex->user, fill->param, out, err);
    if (status == CS_OK && adapter)
        status = merge(fill->ex, adapter, out, err);
    if (status == CS_OK)
        note_values(fill, out);
    return status == CS_OK ? status : cs_wrap(err, status, "exporting %s", tensor->name);
}

static enum cs_status fill_ones(void *user, const struct cs_st_out *tensor, float *out,
                                struct cs_err *err)
{
    (void)user;
    (void)err;
    int64_t count = 1;
    for (int i = 0; i < tensor->n_dims; i++)
        count *= tensor->dim[i];
    for (int64_t i = 0; i < count; i++)
        out[i] = 1;
    return CS_OK;
}

static enum cs_status fill_zeros(void *user, const struct cs_st_out *tensor, float *out,
                                 struct cs_err *err)
{
    CS_TRY(fill_ones(user, tensor, out, err));
    int64_t count = 1;
    for (int i = 0; i < tensor->n_dims; i++)
        count *= tensor->dim[i];
    memset(out, 0, (size_t)count * sizeof *out);
    return CS_OK;
}

const char *cs_export_plain_name(const struct cs_module *module, const char *name)
{
    static const char prefix[] = "vision_model.";
    bool is_long =
        module->kind == CS_MODULE_ENCODER && strncmp(name, prefix, sizeof(prefix) - 1) == 0;
    return is_long ? name + sizeof(prefix) - 1 : name;
}

static bool is_listed(const struct cs_export_part *part, const char *name)
{
    const char *plain = cs_export_plain_name(part->module, name);
    for (int i = 0; i < part->n_tensors; i++)
        if (strcmp(cs_export_plain_name(part->module, part->tensor[i].name), plain) == 0)
            return true;
    return false;
}

static struct cs_st_out *add(struct cs_export_part *part, const char *name, enum cs_dtype dtype,
                             const int64_t *dim, int n_dims)
{
    struct cs_st_out *out = &part->tensor[part->n_tensors++];
    *out = (struct cs_st_out){.name = name, .dtype = dtype, .n_dims = n_dims};
    memcpy(out->dim, dim, (size_t)n_dims * sizeof *dim);
    return out;
}

/* spelled as the source spells it */
static const char *spelling(const struct cs_export_part *part, const char *name, const char *alt)
{
    const struct cs_st_tensor *found = part->dir ? cs_hfdir_tensor(part->dir, name, alt) : NULL;
    return found ? found->name : name;
}

static void add_params(struct cs_export *ex, struct cs_export_part *part)
{
    const struct cs_graph *graph = ex->graph;
    for (int i = 0; i < graph->n_params; i++) {
        const struct cs_param *param = &graph->params[i];
        if (&graph->modules[param->module] != part->module || param->role == CS_PARAM_ADAPTER_A ||
            param->role == CS_PARAM_ADAPTER_B) /* merged, and written by themselves */
            continue;
        struct param_fill *fill = CS_NEW(ex->arena, struct param_fill);
        *fill = (struct param_fill){ex, param, false};
        struct cs_st_out *out = add(part, spelling(part, param->tensor, param->alt), ex->dtype,
                                    param->dim, param->n_dims);
        out->fill = fill_param;
        out->fill_user = fill;
    }
}

static void add_rest_of_source(struct cs_export *ex, struct cs_export_part *part)
{
    int n = part->dir ? cs_hfdir_count(part->dir) : 0;
    for (int i = 0; i < n; i++) {
        const struct cs_st_tensor *tensor = cs_hfdir_at(part->dir, i);
        bool is_float = tensor->dtype <= CS_F64;
        if (!cs_hfdir_is_foreign(&part->module->arch, tensor->name) &&
            !is_listed(part, tensor->name))
            add(part, tensor->name, is_float ? ex->dtype : tensor->dtype, tensor->dim,
                tensor->n_dims)
                ->from = tensor;
    }
}

/* what the class has and nobody else brought: blocks that were dropped and never had weights */
static void add_unused(struct cs_export *ex, struct cs_export_part *part,
                       const struct cs_tensor_info *info, int n)
{
    for (int i = 0; i < n; i++)
        if (!is_listed(part, info[i].name))
            add(part, info[i].name, ex->dtype, info[i].dim, info[i].n_dims)->fill =
                info[i].init == CS_INIT_ONE ? fill_ones : fill_zeros;
}

enum cs_status cs_export_gather(struct cs_export *ex, struct cs_export_part *part)
{
    const struct cs_module *module = part->module;
    const json_t *config = module->spec->config;
    struct cs_arch full = module->arch; /* the graph may have fewer blocks */
    struct cs_tensor_info *info = NULL;
    if (module->kind != CS_MODULE_PROJECTOR && json_is_object(config)) {
        enum cs_status status = cs_arch_from_config(config, ex->arena, &full, ex->err);
        if (status != CS_OK)
            return cs_wrap(ex->err, status, "exporting %s", module->name);
    }
    int n = cs_arch_tensors(&full, ex->arena, &info);
    int room = n + ex->graph->n_params + (part->dir ? cs_hfdir_count(part->dir) : 0);
    part->tensor = CS_NEW_ARRAY(ex->arena, struct cs_st_out, room + 1);
    add_params(ex, part);
    add_rest_of_source(ex, part);
    add_unused(ex, part, info, n);
    return CS_OK;
}
