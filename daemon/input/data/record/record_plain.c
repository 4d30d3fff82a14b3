/* Turns of one text in which no marks are looked for: the system text at the top of a sample, and answers
 * that are keys of their own. */
#include "input/data/record/record_read.h"

static const char system_keys[] = "system|system_prompt";

struct cs_turn *cs_record_next_turn(struct cs_record_reader *r, enum cs_turn_role role)
{
    struct cs_turn *turn = &r->record->turns[r->record->n_turns++];

    *turn = (struct cs_turn){.role = role};
    return turn;
}

void cs_record_add_plain(struct cs_record_reader *r, enum cs_turn_role role, const json_t *text)
{
    struct cs_turn *turn = cs_record_next_turn(r, role);

    turn->parts = CS_NEW(r->record->arena, struct cs_part);
    turn->parts[0] = (struct cs_part){.encoder = -1,
                                      .text = cs_record_text(r->record->arena, text),
                                      .len = json_string_length(text)};
    turn->n_parts = json_string_length(text) > 0;
}

/* NULL or "": there is none. */
enum cs_status cs_record_read_system(struct cs_record_reader *r, const json_t *item)
{
    char name[CS_DOC_NAME];
    const json_t *text = cs_doc_get(item, system_keys, name);

    if (text == NULL || (json_is_string(text) && json_string_length(text) == 0))
        return CS_OK;
    if (!json_is_string(text))
        return cs_record_refuse(r, name, text, "it must be a text");
    cs_record_add_plain(r, CS_TURN_SYSTEM, text);
    return CS_OK;
}
