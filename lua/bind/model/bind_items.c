/* Asks every encoder's processor for its bounds. */
#include "lua/bind/model/bind_items.h"

#include <string.h>

#include "input/data/reader.h"

static json_t *items_of(const struct cs_module *module, const struct cs_reader *r)
{
    const struct cs_media_bounds *b = &r->bounds;
    const bool is_sound = module->arch.front.stem == CS_STEM_FRAMES;
    const int64_t group = cs_front_group(&module->arch) * (is_sound ? 2 : 1);
    return json_pack("{s:i, s:I, s:i, s:i, s:b}", "rows", b->item_rows, "patches",
                     (json_int_t)(b->item_rows * group), "bytes", b->item_bytes, "of_file",
                     b->items, "sources", cs_media_mixes_rows(&r->processor));
}

static json_t *find_module(json_t *modules, const char *name)
{
    json_t *module = NULL;
    size_t i = 0;
    json_array_foreach(modules, i,
                       module) if (strcmp(json_string_value(json_object_get(module, "name")),
                                          name) == 0) return module;
    return NULL;
}

void cs_lua_add_items(const struct cs_graph *graph, json_t *modules)
{
    for (int32_t i = 0; i < graph->n_branches; i++) {
        const struct cs_branch *branch = &graph->branches[i];
        struct cs_reader reader;
        if (branch->encoder < 0)
            continue;
        const struct cs_module *module = cs_graph_encoder(graph, branch->encoder);
        if (cs_reader_open(module, branch->encoder, &reader, NULL) != CS_OK)
            continue;
        /* Pixtral's says the largest size of its encoder, and pictures are of any */
        const bool is_plain = branch->has_one_size && reader.processor.height > 0 &&
                              reader.bounds.items == 1 && !cs_media_mixes_rows(&reader.processor);
        json_t *json = find_module(modules, module->name);
        /* a directory without a processor's document bounds nothing; whoever makes items says so */
        if (!is_plain && json != NULL && reader.bounds.item_rows > 0)
            json_object_set_new(json, "items", items_of(module, &reader));
    }
}
