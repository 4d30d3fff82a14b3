/* One encoder + two-layer projector + LLM as a LlavaForConditionalGeneration directory. */
#include <string.h>

#include "store/hf/export_parts.h"

static const char folder[] = "llava";

static const char *const prefixes[] = {
    [CS_MODULE_ENCODER] = "vision_tower.",
    [CS_MODULE_PROJECTOR] = "multi_modal_projector.",
    [CS_MODULE_LLM] = "language_model.",
};
_Static_assert(CS_ARRAY_LEN(prefixes) == CS_MODULE_KINDS, "one prefix per kind");

/* NULL: it can be said as llava */
static const char *why_not(const struct cs_export *ex, const struct cs_export_part *const of[])
{
    if (ex->graph->n_encoders != 1 || !of[CS_MODULE_ENCODER] || !of[CS_MODULE_PROJECTOR] ||
        !of[CS_MODULE_LLM])
        return "a llava directory holds exactly one encoder with its projector";
    const struct cs_arch *encoder = &of[CS_MODULE_ENCODER]->module->arch;
    const struct cs_arch *projector = &of[CS_MODULE_PROJECTOR]->module->arch;
    if (strcmp(encoder->family, "siglip") != 0 && strcmp(encoder->family, "clip") != 0)
        return "a llava directory is written for siglip and clip encoders only";
    if (strcmp(projector->family, "mlp") != 0 || projector->n_layers != 2)
        return "a llava directory holds a projector of kind mlp with 2 layers only";
    if (!of[CS_MODULE_ENCODER]->module->spec->has_feature_layer)
        return "llava cannot express features after the encoder's final norm (feature_layer is not "
               "set); use the component directories";
    return NULL;
}

enum cs_status cs_export_llava_plan(struct cs_export *ex, const struct cs_export_part *parts,
                                    int n_parts, struct cs_export_llava *out)
{
    *out = (struct cs_export_llava){.image_token = -1};
    for (int i = 0; i < n_parts; i++)
        out->of[parts[i].module->kind] = &parts[i];
    out->why_not = why_not(ex, out->of);
    if (out->why_not)
        return CS_OK;
    CS_TRY(cs_export_image_token(out->of[CS_MODULE_ENCODER], out->of[CS_MODULE_LLM],
                                 &out->image_token, ex->err));
    if (out->image_token < 0)
        out->why_not =
            "the encoder's token is not in the tokenizer, so llava has no image_token_id: add the "
            "token to the tokenizer's added_tokens";
    return CS_OK;
}

static enum cs_status write_weights(const struct cs_export *ex,
                                    const struct cs_export_part *const of[])
{
    char path[CS_PATH_CAP];
    int n = 0, room = 0;
    for (int kind = 0; kind < CS_MODULE_KINDS; kind++)
        room += of[kind]->n_tensors;
    struct cs_st_out *all = CS_NEW_ARRAY(ex->arena, struct cs_st_out, room + 1);
    for (int kind = 0; kind < CS_MODULE_KINDS; kind++)
        for (int i = 0; i < of[kind]->n_tensors; i++) {
            const struct cs_st_out *tensor = &of[kind]->tensor[i];
            all[n] = *tensor;
            all[n++].name = cs_arena_printf(ex->arena, "%s%s", prefixes[kind],
                                            cs_export_plain_name(of[kind]->module, tensor->name));
        }
    CS_TRY(cs_path(path, ex->err, "%s/%s/model.safetensors", ex->root, folder));
    return cs_st_write(path, all, n, NULL, NULL, ex->err);
}

enum cs_status cs_export_llava_write(struct cs_export *ex, const struct cs_export_llava *llava)
{
    const struct cs_export_part *const *of = llava->of;
    const struct cs_export_part *vision = of[CS_MODULE_ENCODER], *llm = of[CS_MODULE_LLM];
    json_t *config =
        cs_export_llava_config(ex, vision, of[CS_MODULE_PROJECTOR], llm, llava->image_token);
    json_t *processor = cs_export_llava_processor(vision);
    enum cs_status status = CS_OK;
    if (!config || !processor)
        status =
            cs_fail(ex->err, CS_INTERNAL, "cannot build the configuration of the llava directory");
    if (status == CS_OK)
        status = cs_export_put_folder(ex, folder);
    if (status == CS_OK)
        status = write_weights(ex, of);
    if (status == CS_OK)
        status = cs_export_put_json(ex, folder, "config.json", config);
    if (status == CS_OK)
        status = cs_export_put_json(ex, folder, "processor_config.json", processor);
    if (status == CS_OK)
        status = cs_export_copy_processor(ex, vision, folder);
    if (status == CS_OK)
        status = cs_export_copy_tokenizer(ex, llm, folder);
    json_decref(config);
    json_decref(processor);
    return status;
}
