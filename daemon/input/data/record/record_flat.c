/* Questions and answers that are keys of their own, not turns with a role. */
#include <stdio.h>
#include <string.h>

#include "input/data/record/record_read.h"

static enum cs_status add_question(struct cs_record_reader *r, const char *text, size_t n)
{
    return cs_record_split_text(r, cs_record_next_turn(r, CS_TURN_USER), text, n);
}

/* --- {user, assistant} ------------------------------------------------------------------------ */

bool cs_record_is_exchange(const json_t *node)
{
    return json_is_object(node) && cs_doc_get(node, "from|role", NULL) == NULL &&
           cs_doc_get(node, CS_RECORD_SIDE_KEYS, NULL) != NULL &&
           cs_doc_get(node, CS_RECORD_OTHER_KEYS, NULL) != NULL;
}

static enum cs_status add_exchange(struct cs_record_reader *r, const char *where,
                                   const json_t *question, const json_t *answer)
{
    if (!json_is_string(question) || !json_is_string(answer))
        return cs_record_refuse(r, where, json_is_string(question) ? answer : question,
                                "question and answer are texts");
    CS_TRY(
        add_question(r, cs_record_text(r->record->arena, question), json_string_length(question)));
    cs_record_add_plain(r, CS_TURN_ASSISTANT, answer);
    return CS_OK;
}

enum cs_status cs_record_read_exchange(struct cs_record_reader *r, const char *where,
                                       const json_t *node)
{
    CS_TRY(add_exchange(r, where, cs_doc_get(node, CS_RECORD_SIDE_KEYS, NULL),
                        cs_doc_get(node, CS_RECORD_OTHER_KEYS, NULL)));
    return cs_record_read_marks(r, &r->record->turns[r->record->n_turns - 1], where, node);
}

/* --- instruction, input, output --------------------------------------------------------------- */

static enum cs_status read_history(struct cs_record_reader *r, const json_t *item)
{
    const json_t *list = cs_doc_get(item, "history", NULL), *pair = NULL;
    char place[CS_RECORD_PLACE];
    size_t i = 0;

    json_array_foreach(list, i, pair)
    {
        snprintf(place, sizeof place, "history[%zu]", i);
        if (json_array_size(pair) != 2)
            return cs_record_refuse(r, place, pair, "it must be a question and its answer");
        CS_TRY(add_exchange(r, place, json_array_get(pair, 0), json_array_get(pair, 1)));
    }
    return CS_OK;
}

/* The instruction and, on the next line, the input, where it is not empty. */
static enum cs_status read_question(struct cs_record_reader *r, const json_t *item)
{
    const json_t *question = cs_doc_get(item, CS_RECORD_QUESTION_KEYS, NULL);
    const json_t *more = cs_doc_get(item, "input", NULL);
    bool has_both = json_string_length(question) > 0 && json_string_length(more) > 0;
    size_t n = json_string_length(question) + json_string_length(more) + has_both;
    char *text = cs_arena_alloc(r->record->arena, n + 1);
    size_t at = json_string_length(question);

    if (at > 0)
        memcpy(text, json_string_value(question), at);
    if (has_both)
        text[at++] = '\n';
    if (json_string_length(more) > 0)
        memcpy(text + at, json_string_value(more), json_string_length(more));
    return add_question(r, text, n);
}

enum cs_status cs_record_read_flat(struct cs_record_reader *r, const json_t *item, bool *has)
{
    const json_t *answer = cs_doc_get(item, CS_RECORD_ANSWER_KEYS, NULL);
    const json_t *caption = cs_doc_get(item, CS_RECORD_CAPTION_KEYS, NULL);
    const bool has_question = cs_doc_get(item, CS_RECORD_QUESTION_KEYS, NULL) != NULL ||
                              cs_doc_get(item, "input", NULL) != NULL;
    int n_media = 0;

    for (int e = 0; e < r->keys->n; e++)
        n_media += r->record->n_files[e];
    *has = (answer != NULL && has_question) || (caption != NULL && !has_question);
    if (!*has)
        return CS_OK;
    r->record->turns = CS_NEW_ARRAY(r->record->arena, struct cs_turn,
                                    2 * json_array_size(cs_doc_get(item, "history", NULL)) + 3);
    CS_TRY(cs_record_read_system(r, item));
    CS_TRY(read_history(r, item));
    r->record->is_text = answer == NULL && n_media == 0;
    if (!r->record->is_text)
        CS_TRY(read_question(r, item));
    cs_record_add_plain(r, CS_TURN_ASSISTANT, answer != NULL ? answer : caption);
    return CS_OK;
}
