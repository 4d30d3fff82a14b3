/* What the class of a composite makes of a root that leaves things out, or is of an older dialect: every part
 * becomes an object that names its type, as files that are written today have it. */
#include <string.h>

#include "core/arch/read/composite.h"
#include "core/arch/read/config.h"
#include "core/arch/read/read.h"

/* What a part does not say: its type, and what the class gives it beside. The root's own type in a part is
 * how the first files of a family name it. */
static bool complete_part(const json_t *root, json_t *part, const char *type, const char *unsaid)
{
    const char *own = json_string_value(json_object_get(part, "model_type"));
    const char *whole = json_string_value(json_object_get(root, "model_type"));
    json_t *more = unsaid != NULL ? json_loads(unsaid, 0, NULL) : NULL;
    bool is_well = unsaid == NULL || more != NULL;
    if (!json_is_object(part) || type == NULL) {
        json_decref(more);
        return is_well;
    }
    if (own == NULL || strcmp(own, whole) == 0)
        is_well = is_well && json_object_set_new(part, "model_type", json_string(type)) == 0;
    if (more != NULL)
        is_well = is_well && json_object_update_missing(part, more) == 0;
    json_decref(more);
    return is_well;
}

/* The keys of the text that stand in the root become an object of their own. */
static bool gather_text(const struct cs_composite_family *family, json_t *root)
{
    const struct cs_family *type = cs_family_named(family->text_type);
    json_t *text = json_object(), *value;
    const char *key;
    void *next;
    bool is_well = text != NULL && type != NULL;
    json_object_foreach_safe(root, next, key, value)
    {
        if (!is_well || cs_doc_find(&cs_model_common, key) != NULL ||
            cs_doc_find(type->table, key) == NULL)
            continue;
        is_well = json_object_set(text, key, value) == 0;
        if (cs_doc_find(family->table, key) == NULL)
            json_object_del(root, key);
    }
    return json_object_set_new(root, family->text_key, text) == 0 && is_well;
}

bool cs_composite_complete(json_t *root)
{
    const struct cs_composite_family *f = cs_composite_of(root);
    if (f == NULL || f->table == NULL)
        return true;
    bool is_well = true;
    if (f->is_flat && !cs_doc_says(json_object_get(root, f->text_key)))
        is_well = gather_text(f, root);
    return is_well &&
           complete_part(root, json_object_get(root, f->encoder_key), f->encoder_type, NULL) &&
           complete_part(root, json_object_get(root, f->text_key), f->text_type, f->text_unsaid);
}
