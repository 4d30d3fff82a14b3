/* What tensors are called in the result of a conversion. */
#include <string.h>

#include "store/convert/parts.h"

static bool begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

/* How well a name of the family fits to what is asked for; the first of the best is taken. */
static int fitness(void *user, enum cs_module_kind kind, const char *disk)
{
    const struct cs_conversion *c = user;
    const bool is_inside = begins(disk, "model.");
    if (c->asked->names == CS_CONVERT_NAMES_keep)
        return c->from == c->to && cs_hfdir_has_disk_name(c->part[kind], disk);
    if (c->asked->names != CS_CONVERT_NAMES_nested)
        return !is_inside;
    /* the language model of Qwen2-VL's older files is all of "model." */
    return begins(disk, "lm_head.") ||
           (is_inside && (kind != CS_MODULE_LLM || begins(disk, "model.language_model.") ||
                          begins(disk, "model.text_model.")));
}

const char *cs_convert_name(const struct cs_conversion *c, enum cs_module_kind kind,
                            const char *component)
{
    return c->to != NULL ? cs_composite_disk_name(c->to, kind, component, fitness,
                                                  (void *)(uintptr_t)c, c->arena)
                         : component;
}

bool cs_convert_has_prefix(const struct cs_conversion *c, enum cs_module_kind kind,
                           const struct cs_tensor_info *info)
{
    static const char prefix[] = "vision_model.";
    bool is_there = c->to == NULL;
    for (int i = 0; c->to != NULL && i < c->to->n_names; i++)
        is_there = is_there || strcmp(c->to->names[i].disk, "vision_tower.") == 0;
    return kind == CS_MODULE_ENCODER && is_there && info->alt != NULL &&
           (c->to == NULL || begins(info->alt, prefix));
}
