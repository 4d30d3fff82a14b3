/* Modules of a specification with their architectures, and the branches that they make. */
#include <string.h>

#include "core/base/units.h"
#include "core/mask/span.h"
#include "core/model/build/parts.h"

/* of an encoder whose items have any size, where nobody said how large they are */
enum { MOST_ITEM_BYTES = 192 * 1000 * 1000, MOST_FILE_ITEMS = 4096 };

struct builder {
    struct cs_arena *arena;
    struct cs_err *err;
    const struct cs_spec *spec;
    struct cs_graph *graph;
};

static int spec_index(const struct builder *b, const struct cs_spec_module *module)
{
    return (int)(module - b->spec->module);
}

/* Keep the blocks that feed the projector: hidden_states has n_layers + 1 entries, entry k being
 * what k blocks have made. */
static enum cs_status select_feature(const struct builder *b, const struct cs_spec_module *module,
                                     struct cs_arch *arch)
{
    if (!module->has_feature_layer)
        return CS_OK;
    int32_t layer = module->feature_layer;
    int32_t kept = layer < 0 ? arch->n_layers + 1 + layer : layer;
    if (kept < 1 || kept > arch->n_layers)
        return cs_fail(
            b->err, CS_INVALID,
            "model.modules[%d].feature_layer is %d; %s has %d block%s, so -%d to -1 and 1 "
            "to %d exist",
            spec_index(b, module), layer, module->name, arch->n_layers, CS_PLURAL(arch->n_layers),
            arch->n_layers, arch->n_layers);
    arch->n_layers = kept;
    arch->has_final_norm = false;
    arch->chain.n = 0;
    return CS_OK;
}

/* The rule of a layer that looks back through a window, under the job's mask; false: not known. */
static bool join_window(struct cs_mask_rule job, struct cs_mask_rule *own)
{
    if (job.kind == CS_MASK_CAUSAL)
        return true;
    if (job.kind != CS_MASK_IMAGE_BIDIR && (job.kind != CS_MASK_IMAGE_WINDOW || job.window != 0))
        return false;
    own->kind = CS_MASK_IMAGE_WINDOW;
    return true;
}

/* The job's mask in place of the causal one, joined with windows of the model. */
static enum cs_status apply_mask(const struct builder *b, const struct cs_spec_module *module,
                                 struct cs_arch *arch)
{
    struct cs_mask_rule rule;
    bool has_window = false;
    if (!cs_mask_rule_named(module->mask, module->window, module->prefix, &rule))
        return cs_fail(b->err, CS_INVALID, "model.modules[%d].mask \"%s\" is not known",
                       spec_index(b, module), module->mask);
    const bool is_of_windows = rule.kind == CS_MASK_IMAGE_WINDOW && rule.window == 0;
    for (int32_t k = 0; k < arch->n_attentions; k++) {
        struct cs_mask_rule *own = &arch->attention[k].rule;
        has_window = has_window || own->kind == CS_MASK_WINDOW;
        if (own->kind == CS_MASK_CAUSAL && !is_of_windows)
            *own = rule;
        else if (own->kind == CS_MASK_WINDOW && !join_window(rule, own))
            return cs_fail(b->err, CS_UNSUPPORTED,
                           "model.modules[%d].mask is \"%s\", but layers of %s look back through a "
                           "window of %d tokens: both together are not supported; leave mask away",
                           spec_index(b, module), module->mask, module->name, own->window);
    }
    if (is_of_windows && !has_window)
        return cs_fail(b->err, CS_INVALID,
                       "model.modules[%d].mask is \"image_window\" without a window, and no layer "
                       "of %s has one",
                       spec_index(b, module), module->name);
    return CS_OK;
}

static enum cs_status read_arch(const struct builder *b, const struct cs_spec_module *module,
                                struct cs_arch *arch)
{
    static const char *const names[CS_MODULE_KINDS] = {"encoder", "projector", "llm"};
    const bool has_dir = module->dir != NULL && module->dir[0] != '\0';
    const char *document =
        has_dir ? cs_arena_printf(b->arena, "%s/config.json", module->dir) : "config.json";
    enum cs_status status = cs_arch_read(
        &(struct cs_config_source){.document = document, .where = "", .json = module->config},
        b->arena, arch, b->err);
    if (status != CS_OK)
        return cs_wrap(b->err, status, "model.modules[%d].config (%s)", spec_index(b, module),
                       module->name);
    if (arch->kind != module->kind)
        return cs_fail(b->err, CS_INVALID,
                       "model.modules[%d].config (%s): family %s is an %s, the module is an %s",
                       spec_index(b, module), module->name, arch->family, names[arch->kind],
                       names[module->kind]);
    if (arch->kind == CS_MODULE_LLM)
        CS_TRY(apply_mask(b, module, arch));
    return select_feature(b, module, arch);
}

/* A projector's directory may say its widths; they must be those of its neighbours. */
static enum cs_status check_width(const struct builder *b, const struct cs_spec_module *module,
                                  const char *key, int32_t width, const char *neighbour)
{
    const json_t *value = json_object_get(module->config, key);
    if (value == NULL || json_integer_value(value) == width)
        return CS_OK;
    return cs_fail(b->err, CS_INVALID, "model.modules[%d].config.%s is %lld, but %s has width %d",
                   spec_index(b, module), key, (long long)json_integer_value(value), neighbour,
                   width);
}

static enum cs_status read_projector(const struct builder *b, const struct cs_spec_module *module,
                                     struct cs_arch *encoder, const struct cs_arch *llm,
                                     struct cs_arch *arch)
{
    struct cs_projector own, projector = {.family = module->family,
                                          .n_layers = module->n_layers,
                                          .activation = module->activation,
                                          .has_bias = module->has_bias,
                                          .group = module->group,
                                          .norm_eps = (float)module->norm_eps,
                                          .keeps_class = module->keeps_class,
                                          .has_newline = module->has_newline};
    const char *type = json_string_value(json_object_get(module->config, "model_type"));
    if (type != NULL && strcmp(type, "mlp") != 0 && strcmp(type, "linear") != 0)
        CS_TRY(cs_projector_read(&(struct cs_config_source){module->name, "", module->config, NULL},
                                 &projector, NULL, b->err));
    if (cs_arch_own_projector(encoder, &own) && strcmp(own.family, projector.family) == 0)
        projector = own;
    cs_projector_settle(encoder, &projector);
    enum cs_status status = cs_arch_projector(&projector, encoder->width, llm->width, arch, b->err);
    if (status == CS_OK)
        status = cs_arch_join(encoder, arch, b->err);
    if (status != CS_OK)
        return cs_wrap(b->err, status, "model.modules[%d] (%s)", spec_index(b, module),
                       module->name);
    CS_TRY(check_width(b, module, "in_width", encoder->width, "the encoder"));
    return check_width(b, module, "out_width", llm->width, "the llm");
}

static const struct cs_spec_module *find_spec(const struct cs_spec *spec, const char *branch,
                                              const char *suffix)
{
    size_t len = strlen(branch);
    for (int i = 0; i < spec->n_modules; i++) {
        const char *name = spec->module[i].name;
        if (strncmp(name, branch, len) == 0 && strcmp(name + len, suffix) == 0)
            return &spec->module[i];
    }
    return NULL;
}

static struct cs_module *add_module(struct builder *b, const struct cs_spec_module *spec)
{
    struct cs_module *module = &b->graph->modules[b->graph->n_modules++];
    module->name = spec->name;
    module->kind = spec->kind;
    module->spec = spec;
    module->branch = b->graph->n_branches;
    return module;
}

/* Items of any size, of which nobody said how large they are: what a slot holds will be the limit
 * (core/plan/make), here only that bytes can be counted. */
static void set_any_items(const struct cs_arch *arch, struct cs_branch *out)
{
    const bool is_sound = arch->front.stem == CS_STEM_FRAMES;
    const int32_t of_patch =
        is_sound ? arch->channels * (int32_t)sizeof(float)
                 : arch->patch_size * arch->patch_size * arch->channels * arch->front.patch_frames;
    const int32_t patches = cs_front_group(arch) * (is_sound ? 2 : 1);
    out->item_rows = MOST_ITEM_BYTES / of_patch / patches;
    out->item_patches = out->item_rows * patches;
    out->item_bytes = out->item_patches * of_patch;
    out->file_items = MOST_FILE_ITEMS;
}

/* As the specification says, else pictures of the one size that the encoder has. */
static void set_items(const struct cs_arch *arch, const struct cs_spec_items *items,
                      struct cs_branch *out)
{
    int32_t grid[3];
    cs_front_fixed_grid(arch, grid);
    out->has_one_size = items->rows == 0 && grid[0] > 0;
    out->has_sources = items->has_sources;
    out->file_items = out->has_one_size ? 1 : items->of_file;
    out->item_rows = out->has_one_size ? cs_front_out_rows(arch, grid) : items->rows;
    out->item_patches = out->has_one_size ? cs_front_patches(arch, grid) : items->patches;
    out->item_bytes =
        out->has_one_size ? arch->image_size * arch->image_size * arch->channels : items->bytes;
    if (items->rows == 0 && !out->has_one_size)
        set_any_items(arch, out);
}

/* Pictures that have one size cannot be said to have another. */
static enum cs_status check_items(const struct builder *b, const struct cs_module *encoder,
                                  const struct cs_branch *branch)
{
    const struct cs_arch *arch = &encoder->arch;
    int32_t grid[3];
    cs_front_fixed_grid(arch, grid);
    const bool is_fixed = arch->front.position == CS_POSITION_ROW && grid[0] > 0;
    if (!is_fixed || branch->has_one_size || branch->item_rows == cs_front_out_rows(arch, grid))
        return CS_OK;
    return cs_fail(b->err, CS_INVALID,
                   "model.modules[%d].items.rows is %d, but every picture of %s has %d row%s",
                   spec_index(b, encoder->spec), branch->item_rows, encoder->spec->name,
                   cs_front_out_rows(arch, grid), CS_PLURAL(cs_front_out_rows(arch, grid)));
}

/* Rows are chosen, mixed and ended by a learned row where the projector has made them. */
static enum cs_status fill_rows(const struct builder *b, const struct cs_arch *encoder,
                                const struct cs_spec_module *module, struct cs_arch *projector)
{
    if (encoder->n_taps > 0)
        return cs_fail(b->err, CS_UNSUPPORTED,
                       "model.modules[%d].items.sources: rows of %s also enter layers behind the "
                       "first of the language model, which is not supported for rows that are "
                       "dropped, reordered or mixed",
                       spec_index(b, module), module->name);
    cs_arch_fills(projector);
    return CS_OK;
}

enum cs_status cs_graph_add_modules(struct cs_graph *graph, const struct cs_spec *spec,
                                    struct cs_arena *arena, struct cs_err *err)
{
    struct builder builder = {arena, err, spec, graph}, *b = &builder;
    struct cs_arch llm;
    const struct cs_spec_module *llm_spec = find_spec(spec, "llm", "");
    CS_ASSERT(llm_spec != NULL);
    CS_TRY(read_arch(b, llm_spec, &llm));
    for (int i = 0; i < spec->n_modules; i++) {
        if (spec->module[i].kind != CS_MODULE_ENCODER)
            continue;
        const char *name =
            cs_arena_strndup(b->arena, spec->module[i].name, strcspn(spec->module[i].name, "."));
        struct cs_module *encoder = add_module(b, &spec->module[i]);
        struct cs_module *projector = add_module(b, find_spec(spec, name, ".projector"));
        CS_TRY(read_arch(b, encoder->spec, &encoder->arch));
        CS_TRY(read_projector(b, projector->spec, &encoder->arch, &llm, &projector->arch));
        struct cs_branch *branch = &b->graph->branches[b->graph->n_branches++];
        *branch = (struct cs_branch){
            .name = name, .encoder = b->graph->n_encoders++, .out_width = projector->arch.width};
        set_items(&encoder->arch, &encoder->spec->items, branch);
        CS_TRY(check_items(b, encoder, branch));
        if (branch->has_sources)
            CS_TRY(fill_rows(b, &encoder->arch, encoder->spec, &projector->arch));
    }
    add_module(b, llm_spec)->arch = llm;
    b->graph->llm = b->graph->n_branches++;
    b->graph->branches[b->graph->llm] =
        (struct cs_branch){.name = "llm", .encoder = -1, .out_width = llm.width};
    b->graph->is_tied = llm.is_tied;
    b->graph->keeps_bf16 = b->spec->state != NULL && strcmp(b->spec->state, "bf16") == 0;
    return CS_OK;
}
