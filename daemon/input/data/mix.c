/* Reads the sources of a mixture. */
#include "input/data/mix.h"

#include <string.h>

#include "core/doc/doc.h"

static const struct cs_doc_key rows[] = {
    {.names = "json",   .types = CS_DOC_STRING,   .text = "the samples, as data.json"},
    {.names = "images", .types = CS_DOC_STRING,   .text = "as data.images"           },
    {.names = "weight", .types = CS_DOC_POSITIVE, .text = "as data.weight"           },
    {.names = "name",   .types = CS_DOC_STRING,   .text = "as data.name"             },
};
static const struct cs_doc_table table = {
    .rows = rows, .stride = sizeof *rows, .n = (int)CS_ARRAY_LEN(rows), .refuses_unknown = true};

static const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));

    return text != NULL ? text : "";
}

static enum cs_status read_one(const json_t *node, size_t i, struct cs_arena *arena,
                               struct cs_dataset_more *out, struct cs_err *err)
{
    const char *name = cs_arena_printf(arena, "data.mix[%zu]", i);
    const struct cs_doc doc = {name, "", node, &table};

    CS_TRY(cs_doc_review(&doc, NULL, err));
    *out = (struct cs_dataset_more){.path = text_of(node, "json"),
                                    .root = text_of(node, "images"),
                                    .name = text_of(node, "name"),
                                    .weight = json_number_value(json_object_get(node, "weight"))};
    if (out->path[0] != '/' || (out->root[0] != '\0' && out->root[0] != '/'))
        return cs_fail(err, CS_INVALID, "%s.%s is \"%.200s\"; it must be an absolute path", name,
                       out->path[0] != '/' ? "json" : "images",
                       out->path[0] != '/' ? out->path : out->root);
    return CS_OK;
}

enum cs_status cs_mix_options(const struct cs_spec_data *data, struct cs_arena *arena,
                              struct cs_dataset_options *out, struct cs_err *err)
{
    struct cs_dataset_more *more = NULL;
    const json_t *node = NULL;
    size_t i = 0;

    *out = (struct cs_dataset_options){.root = data->images != NULL ? data->images : "",
                                       .follows_links = data->follows_links,
                                       .max_pixels = data->max_picture_pixels,
                                       .name = data->name,
                                       .weight = data->weight};
    if (data->mix == NULL || json_is_null(data->mix))
        return CS_OK;
    if (!json_is_array(data->mix))
        return cs_fail(err, CS_INVALID, "data.mix must be a list of sources");
    more = CS_NEW_ARRAY(arena, struct cs_dataset_more, json_array_size(data->mix) + 1);
    json_array_foreach(data->mix, i, node)
    {
        CS_TRY(read_one(node, i, arena, &more[i], err));
    }
    out->more = more;
    out->n_more = (int32_t)json_array_size(data->mix);
    return CS_OK;
}
