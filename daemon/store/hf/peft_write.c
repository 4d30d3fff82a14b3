/* Writes LoRA adapters as PEFT reads them; see peft.h. */
#include <stdio.h>
#include <string.h>

#include "core/base/arena.h"
#include "core/base/buf.h"
#include "store/fsio.h"
#include "store/hf/peft.h"

/* What is being written. */
struct writer {
    const struct cs_graph *graph;
    const struct cs_module *module;
    cs_peft_source source;
    void *user;
    struct cs_arena *arena;
    struct cs_st_out *tensor;
    int n;
    const char
        *prefix[2]; /* in the whole model: of what the component calls "model." and of the rest */
    bool is_part;   /* of a whole model, whose other parts may have layers of the same names */
};

/* one factor, or a tensor that trains whole, on its way into the file */
struct fill {
    struct writer *w;
    const struct cs_param *param;
};

static enum cs_status fill_factor(void *user, const struct cs_st_out *tensor, float *out,
                                  struct cs_err *err)
{
    const struct fill *f = user;
    (void)tensor;
    return f->w->source(f->w->user, f->param, out, err);
}

static const char own[] = "model.";

/* which of the prefixes a layer of the component has */
static int prefix_of(const char *layer)
{
    return strncmp(layer, own, sizeof own - 1) == 0 ? 0 : 1;
}

/* what the classes of transformers 5 call a layer of the component in memory */
static const char *memory_name(const struct writer *w, const char *tensor)
{
    const int k = prefix_of(tensor);
    return cs_arena_printf(w->arena, "base_model.model.%s%s", w->prefix[k],
                           k == 0 ? tensor + sizeof own - 1 : tensor);
}

static void add_factor(struct writer *w, int32_t id)
{
    const struct cs_param *param = &w->graph->params[id];
    struct fill *f = CS_NEW(w->arena, struct fill);
    *f = (struct fill){w, param};
    struct cs_st_out *out = &w->tensor[w->n++];
    *out = (struct cs_st_out){.name = memory_name(w, param->tensor),
                              .dtype = CS_F32,
                              .n_dims = param->n_dims,
                              .fill = fill_factor,
                              .fill_user = f};
    memcpy(out->dim, param->dim, (size_t)param->n_dims * sizeof *out->dim);
}

/* ---- what trains whole beside the adapters ---- */

/* the layer that a tensor belongs to, with the dot behind it */
static const char *owner_of(const struct writer *w, const char *tensor)
{
    const char *dot = strrchr(tensor, '.');
    return dot != NULL ? cs_arena_strndup(w->arena, tensor, (size_t)(dot + 1 - tensor)) : "";
}

static bool is_factor(const struct writer *w, int32_t id)
{
    for (int32_t i = 0; i < w->graph->n_adapters; i++)
        if (w->graph->adapters[i].a == id || w->graph->adapters[i].b == id)
            return true;
    return false;
}

static bool is_of_module(const struct writer *w, int32_t id)
{
    return &w->graph->modules[w->graph->params[id].module] == w->module && !is_factor(w, id);
}

/* a layer that PEFT keeps whole: its path in the class, listed once */
static void list_layer(const struct writer *w, const char *owner, json_t *layers)
{
    const char *name = memory_name(w, owner) + strlen("base_model.model.");
    for (size_t n = 0; n < json_array_size(layers); n++)
        if (strncmp(json_string_value(json_array_get(layers, n)), name, strlen(name) - 1) == 0 &&
            strlen(json_string_value(json_array_get(layers, n))) == strlen(name) - 1)
            return;
    json_array_append_new(layers, json_stringn(name, strlen(name) - 1));
}

/* Whether a tensor of the same layer trains: then all of them are written. */
static bool is_kept_whole(const struct writer *w, const struct cs_param *one)
{
    const struct cs_layer *layer = &w->graph->layers[one->layer];
    for (int32_t i = layer->first_param; i < layer->first_param + layer->n_params; i++) {
        const struct cs_param *param = &w->graph->params[i];
        const char *dot = strrchr(param->tensor, '.');
        const size_t len = dot != NULL ? (size_t)(dot + 1 - param->tensor) : 0;
        if (param->is_trainable && is_of_module(w, i) &&
            strncmp(one->tensor, param->tensor, len) == 0)
            return true;
    }
    return false;
}

/* A tied head is another layer of the class: PEFT would leave it as it was. */
static void add_tied(struct writer *w, int32_t id, json_t *layers)
{
    if (id != w->graph->tied_param)
        return;
    add_factor(w, id);
    w->tensor[w->n - 1].name = memory_name(w, "lm_head.weight");
    list_layer(w, "lm_head.", layers);
}

/* Adds their tensors; the list of the layers, a new one, NULL: there are none. */
static json_t *add_whole_layers(struct writer *w)
{
    json_t *layers = json_array();
    for (int32_t i = 0; i < w->graph->n_params; i++) {
        const struct cs_param *param = &w->graph->params[i];
        if (!is_of_module(w, i) || !is_kept_whole(w, param))
            continue;
        add_factor(w, i);
        if (param->is_trainable)
            list_layer(w, owner_of(w, param->tensor), layers);
        add_tied(w, i, layers);
    }
    if (json_array_size(layers) > 0)
        return layers;
    json_decref(layers);
    return NULL;
}

static const char *layer_of(const struct writer *w, const struct cs_graph_adapter *a)
{
    const char *tensor = w->graph->params[a->param].tensor;
    return cs_arena_strndup(w->arena, tensor, strlen(tensor) - strlen(".weight"));
}

static const char *last_part(const char *layer)
{
    const char *dot = strrchr(layer, '.');
    return dot != NULL ? dot + 1 : layer;
}

/* The last parts of names of layers with adapters, each once; k: of those with this prefix, 2: of all. */
static json_t *words_of(const struct writer *w, int k)
{
    json_t *words = json_array();
    for (int32_t i = 0; i < w->graph->n_adapters; i++) {
        const struct cs_graph_adapter *a = &w->graph->adapters[i];
        const char *layer = layer_of(w, a), *word = last_part(layer);
        if (&w->graph->modules[w->graph->params[a->param].module] != w->module ||
            (k != 2 && prefix_of(layer) != k))
            continue;
        bool is_listed = false;
        for (size_t n = 0; n < json_array_size(words); n++)
            is_listed |= strcmp(json_string_value(json_array_get(words, n)), word) == 0;
        if (!is_listed)
            json_array_append_new(words, json_string(word));
    }
    return words;
}

static void add_escaped(struct cs_buf *out, const char *text)
{
    for (; *text != '\0'; text++)
        cs_buf_addf(out, *text == '.' ? "\\%c" : "%c", *text);
}

/* Which layers get adapters: by their last words; in a whole model by a regular expression that holds for the
 * layers of this part alone. */
static json_t *targets_of(const struct writer *w)
{
    struct cs_buf text = {0};
    if (!w->is_part)
        return words_of(w, 2);
    for (int k = 0; k < 2; k++) {
        json_t *words = words_of(w, k);
        for (size_t n = 0; n < json_array_size(words); n++) {
            cs_buf_adds(&text, n > 0 ? "|" : text.len > 0 ? "|(" : "(");
            if (n == 0) {
                add_escaped(&text, w->prefix[k]);
                cs_buf_adds(&text, "(.*\\.)?(");
            }
            add_escaped(&text, json_string_value(json_array_get(words, n)));
        }
        cs_buf_adds(&text, json_array_size(words) > 0 ? "))" : "");
        json_decref(words);
    }
    json_t *targets = json_string(cs_buf_str(&text));
    cs_buf_free(&text);
    return targets;
}

/* Ranks and scales of layers that differ from the first one's stand in the patterns. whole: stolen. */
static json_t *config_of(const struct writer *w, const char *base, json_t *whole)
{
    const struct cs_graph_adapter *first = NULL;
    json_t *ranks = json_object(), *alphas = json_object();
    for (int32_t i = 0; i < w->graph->n_adapters; i++) {
        const struct cs_graph_adapter *a = &w->graph->adapters[i];
        if (&w->graph->modules[w->graph->params[a->param].module] != w->module)
            continue;
        first = first != NULL ? first : a;
        const char *layer = layer_of(w, a);
        if (a->rank != first->rank)
            json_object_set_new(ranks, layer, json_integer(a->rank));
        const double alpha = (double)a->scale * a->rank, usual = (double)first->scale * first->rank;
        if (alpha < usual || alpha > usual)
            json_object_set_new(alphas, layer, json_real(alpha));
    }
    return json_pack(
        "{s:s, s:s, s:s?, s:i, s:f, s:f, s:s, s:o, s:o, s:o, s:b, s:b, s:b, s:o?, s:b}",
        "peft_type", "LORA", "task_type",
        w->module->kind == CS_MODULE_LLM ? "CAUSAL_LM" : "FEATURE_EXTRACTION",
        "base_model_name_or_path", base, "r", (int)first->rank, "lora_alpha",
        (double)first->scale * first->rank, "lora_dropout", 0.0, "bias", "none", "target_modules",
        targets_of(w), "rank_pattern", ranks, "alpha_pattern", alphas, "use_rslora", 0, "use_dora",
        0, "fan_in_fan_out", 0, "modules_to_save", whole, "inference_mode", 1);
}

/* Where the parts of a composite lie in its class: the first name that a file may have for it. */
static void set_prefixes(struct writer *w, const struct cs_composite_family *family)
{
    bool is_set[2] = {false, false};
    w->is_part = family != NULL;
    w->prefix[0] = "model.";
    w->prefix[1] = "";
    for (int i = 0; family != NULL && i < family->n_names; i++) {
        const struct cs_part_name *name = &family->names[i];
        if (name->kind != w->module->kind || strncmp(name->disk, "model.", 6) != 0)
            continue;
        const int i_prefix = strcmp(name->component, "model.") == 0 ? 0 : 1;
        if (i_prefix == 1 && *name->component != '\0')
            continue;
        if (!is_set[i_prefix])
            w->prefix[i_prefix] = name->disk;
        is_set[i_prefix] = true;
    }
}

enum cs_status cs_peft_write(const struct cs_graph *graph, const struct cs_module *module,
                             const struct cs_composite_family *family, const char *base,
                             cs_peft_source source, void *user, const char *dir, struct cs_err *err)
{
    char path[CS_PATH_CAP];
    struct writer w = {
        .graph = graph, .module = module, .source = source, .user = user, .arena = cs_arena_new(0)};
    set_prefixes(&w, family);
    w.tensor = CS_NEW_ARRAY(w.arena, struct cs_st_out, graph->n_params + 1);
    for (int32_t i = 0; i < graph->n_adapters; i++)
        if (&graph->modules[graph->params[graph->adapters[i].param].module] == module) {
            add_factor(&w, graph->adapters[i].a);
            add_factor(&w, graph->adapters[i].b);
        }
    json_t *config = config_of(&w, base, add_whole_layers(&w));
    enum cs_status status = cs_path(path, err, "%s/adapter_config.json", dir);
    if (status == CS_OK)
        status = cs_fs_write_json(path, config, NULL, NULL, err);
    json_decref(config);
    if (status == CS_OK)
        status = cs_path(path, err, "%s/adapter_model.safetensors", dir);
    if (status == CS_OK)
        status = cs_st_write(path, w.tensor, w.n, NULL, NULL, err);
    cs_arena_free(w.arena);
    return status;
}
