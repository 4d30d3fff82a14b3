/* Reads one item of a data set: its files, its turns (record_plain.c, record_turn.c, record_flat.c). */
#include "input/data/record/record.h"

#include <stdio.h>
#include <string.h>

#include "input/data/record/record_read.h"

static enum cs_status read_files(struct cs_record_reader *r, const json_t *item)
{
    for (int e = 0; e < r->keys->n; e++) {
        char name[CS_DOC_NAME];
        const json_t *value = cs_doc_get(item, r->keys->encoder[e].names, name);
        if (value != NULL)
            CS_TRY(cs_record_add_files(r, e, name, value));
        value = cs_record_file_of(r->keys, item, e, true, name);
        if (value != NULL)
            CS_TRY(cs_record_add_videos(r, e, name, value, false, NULL));
        r->n_top[e] = r->record->n_files[e] + r->n_videos[e];
    }
    return CS_OK;
}

static enum cs_status no_turns(const struct cs_record_reader *r, const json_t *item)
{
    const char *name = NULL;
    json_t *value = NULL;
    struct cs_buf have = {0};

    json_object_foreach((json_t *)(uintptr_t)item, name,
                        value) if (!json_is_null(value) && have.len < 200)
        cs_buf_addf(&have, "%s%.40s", have.len > 0 ? ", " : "", name);
    (void)!cs_fail(r->err, CS_INVALID,
                   "no list \"conversations\" or \"messages\" and no question with its answer; the "
                   "sample has %s",
                   have.len > 0 ? cs_buf_str(&have) : "nothing");
    cs_buf_free(&have);
    return CS_INVALID;
}

static enum cs_status check_place(const struct cs_record_reader *r, const char *place, size_t i)
{
    const struct cs_record *record = r->record;

    if (record->turns[record->n_turns - 1].role != CS_TURN_SYSTEM || record->n_turns == 1)
        return CS_OK;
    return cs_fail(r->err, CS_INVALID, "%s is a system turn: %s", place,
                   i == 0 ? "the sample has a \"system\" at its top too" : "it must come first");
}

static enum cs_status read_turns(struct cs_record_reader *r, const json_t *item)
{
    char name[CS_DOC_NAME], place[CS_RECORD_PLACE];
    const json_t *list = cs_doc_get(item, CS_RECORD_TURN_KEYS, name), *node = NULL;
    struct cs_record *record = r->record;
    size_t i = 0;

    if (list == NULL) {
        bool has = false;
        CS_TRY(cs_record_read_flat(r, item, &has));
        return has ? CS_OK : no_turns(r, item);
    }
    record->turns = CS_NEW_ARRAY(record->arena, struct cs_turn, 2 * json_array_size(list) + 1);
    CS_TRY(cs_record_read_system(r, item));
    json_array_foreach(list, i, node)
    {
        snprintf(place, sizeof place, "%s[%zu]", name, i);
        if (cs_record_is_exchange(node)) {
            CS_TRY(cs_record_read_exchange(r, place, node));
            continue;
        }
        CS_TRY(cs_record_read_turn(r, place, node, &record->turns[record->n_turns++]));
        CS_TRY(check_place(r, place, i));
    }
    return CS_OK;
}

static void read_id(struct cs_record *record, const json_t *item)
{
    const json_t *channel = cs_doc_get(item, "channel", NULL);
    const json_t *id = cs_doc_get(item, "id|uid|question_id", NULL);

    record->id = "";
    record->channel = channel != NULL ? cs_record_text(record->arena, channel) : "";
    if (json_is_string(id))
        record->id = cs_record_text(record->arena, id);
    else if (json_is_integer(id))
        record->id = cs_arena_printf(record->arena, "%lld", (long long)json_integer_value(id));
}

enum cs_status cs_record_read_with(const json_t *item, const struct cs_record_keys *keys,
                                   const struct cs_record_bytes *bytes, int n_bytes,
                                   struct cs_findings *findings, struct cs_record **out,
                                   struct cs_err *err)
{
    const bool is_flat =
        json_is_object(item) && cs_doc_get(item, CS_RECORD_TURN_KEYS, NULL) == NULL;
    const struct cs_doc doc = {"sample", "", item, is_flat ? &keys->flat : &keys->sample};
    struct cs_arena *arena = cs_arena_new(0);
    struct cs_record_reader r = {.record = CS_NEW(arena, struct cs_record),
                                 .keys = keys,
                                 .bytes = bytes,
                                 .n_bytes = n_bytes,
                                 .err = err};
    enum cs_status status = cs_doc_review(&doc, findings, err);

    *out = NULL;
    r.record->arena = arena;
    if (status == CS_OK) {
        read_id(r.record, item);
        status = read_files(&r, item);
    }
    if (status == CS_OK)
        status = read_turns(&r, item);
    if (status == CS_OK)
        status = cs_record_join_videos(&r);
    if (status != CS_OK) {
        cs_record_free(r.record);
        return status;
    }
    *out = r.record;
    return CS_OK;
}

enum cs_status cs_record_read(const json_t *item, const struct cs_record_keys *keys,
                              struct cs_findings *findings, struct cs_record **out,
                              struct cs_err *err)
{
    return cs_record_read_with(item, keys, NULL, 0, findings, out, err);
}

void cs_record_free(struct cs_record *record)
{
    if (record != NULL)
        cs_arena_free(record->arena);
}
