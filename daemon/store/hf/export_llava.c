/* One encoder + two-layer projector + LLM as a LlavaForConditionalGeneration directory. */
#include <string.h>

#include "store/hf/export_parts.h"

static const char folder[] = "llava";

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

enum cs_status cs_export_llava_plan(struct cs_export *ex, struct cs_export_whole *out)
{
    const bool is_text_alone = ex->graph->n_encoders == 0; /* its component is the whole */
    out->why_not = is_text_alone ? NULL : why_not(ex, out->of);
    if (is_text_alone || out->why_not)
        return CS_OK;
    CS_TRY(cs_export_image_token(out->of[CS_MODULE_ENCODER], out->of[CS_MODULE_LLM],
                                 &out->image_token, ex->err));
    if (out->image_token < 0)
        out->why_not =
            "the encoder's token is not in the tokenizer, so llava has no image_token_id: add the "
            "token to the tokenizer's added_tokens";
    else
        out->folder = folder;
    return CS_OK;
}

enum cs_status cs_export_llava_files(struct cs_export *ex, const struct cs_export_whole *whole)
{
    const struct cs_export_part *const *of = whole->of;
    const struct cs_export_part *vision = of[CS_MODULE_ENCODER], *llm = of[CS_MODULE_LLM];
    json_t *config =
        cs_export_llava_config(ex, vision, of[CS_MODULE_PROJECTOR], llm, whole->image_token);
    json_t *processor = cs_export_llava_processor(vision);
    enum cs_status status = CS_OK;
    if (!config || !processor)
        status =
            cs_fail(ex->err, CS_INTERNAL, "cannot build the configuration of the llava directory");
    if (status == CS_OK)
        status = cs_export_put_json(ex, folder, "config.json", config);
    if (status == CS_OK)
        status = cs_export_put_json(ex, folder, "processor_config.json", processor);
    if (status == CS_OK)
        status = cs_export_copy_processor(ex, vision, folder);
    if (status == CS_OK && vision->dir &&
        cs_hfdir_composite(vision->dir)) /* what it brought holds */
        status = cs_export_copy_processors(ex, cs_hfdir_path(vision->dir), folder);
    if (status == CS_OK)
        status = cs_export_copy_tokenizer(ex, llm, folder);
    json_decref(config);
    json_decref(processor);
    return status;
}
