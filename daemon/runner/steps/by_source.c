/* Sums of losses by source, from ranks' reports to a step's row. */
#include "runner/steps/by_source.h"

#include "core/wire/wire.h"

void cs_by_source_add(struct cs_source_loss *source, const json_t *reported)
{
    const json_t *one = NULL;
    size_t i = 0;

    json_array_foreach(reported, i, one)
    {
        const json_int_t number = json_integer_value(json_array_get(one, 0));
        double sum = 0;
        if (number < 0 || number >= CS_SOURCES_MAX || !cs_json_to_num(json_array_get(one, 1), &sum))
            continue;
        source[number].sum += sum;
        source[number].tokens += json_integer_value(json_array_get(one, 2));
    }
}

void cs_by_source_join(struct cs_source_loss *source, const struct cs_source_loss *other)
{
    for (int i = 0; i < CS_SOURCES_MAX; i++) {
        source[i].sum += other[i].sum;
        source[i].tokens += other[i].tokens;
    }
}

static json_t *one_json(const struct cs_source_loss *source)
{
    json_t *one = json_object();

    cs_msg_set_num(one, "loss", source->sum / (double)source->tokens);
    cs_msg_set_int(one, "tokens", source->tokens);
    return one;
}

void cs_by_source_set(json_t *row, const struct cs_source_loss *source, const json_t *names)
{
    json_t *by_name = json_object();
    const json_t *name = NULL;
    size_t i = 0;

    json_array_foreach(names, i, name)
    {
        if (i < CS_SOURCES_MAX && source[i].tokens > 0)
            json_object_set_new(by_name, json_string_value(name), one_json(&source[i]));
    }
    if (json_array_size(names) > 0)
        cs_msg_set(row, "sources", by_name);
    else
        json_decref(by_name);
}
