/* Reads one turn of a record: who speaks, whether it trains, its text and its files. */
#include <stdio.h>
#include <string.h>

#include "input/data/record/record_read.h"

static const struct {
    const char *name;
    enum cs_turn_role role;
} roles[] = {
    {"human",     CS_TURN_USER     },
    {"user",      CS_TURN_USER     },
    {"gpt",       CS_TURN_ASSISTANT},
    {"assistant", CS_TURN_ASSISTANT},
    {"model",     CS_TURN_ASSISTANT},
    {"bot",       CS_TURN_ASSISTANT},
    {"chatgpt",   CS_TURN_ASSISTANT},
    {"system",    CS_TURN_SYSTEM   },
    {"developer", CS_TURN_SYSTEM   },
};

static void add_text(struct cs_turn *turn, const char *text, size_t len)
{
    if (len > 0)
        turn->parts[turn->n_parts++] = (struct cs_part){.encoder = -1, .text = text, .len = len};
}

/* What a place stands for: the files of an encoder, or its videos. */
struct kind {
    int encoder; /* -1: a text, -2: neither */
    bool is_video;
};

static void add_place(const struct cs_record_keys *keys, struct cs_turn *turn, struct kind kind)
{
    const char *token = keys->encoder[kind.encoder].token;

    turn->parts[turn->n_parts++] = (struct cs_part){
        .encoder = kind.encoder, .text = token, .len = strlen(token), .is_video = kind.is_video};
}

/* --- text with marks -------------------------------------------------------------------------- */

/* The longest of the marks that p begins with. */
static void match(const char *const *marks, struct kind kind, const char *p, size_t n,
                  struct kind *found, size_t *len)
{
    for (int i = 0; marks[i] != NULL; i++) {
        const size_t n_mark = strlen(marks[i]);
        if (n_mark > *len && n_mark <= n && memcmp(p, marks[i], n_mark) == 0) {
            *found = kind;
            *len = n_mark;
        }
    }
}

/* Encoder whose mark starts at p, and the mark's length. */
static struct kind mark_at(const struct cs_record_keys *keys, const char *p, size_t n, size_t *len)
{
    struct kind found = {.encoder = -1};

    *len = 0;
    for (int e = 0; e < keys->n; e++) {
        match(keys->encoder[e].mark, (struct kind){e, false}, p, n, &found, len);
        match(keys->encoder[e].video_mark, (struct kind){e, true}, p, n, &found, len);
    }
    return found;
}

/* [begin, end) of a text of n bytes, with marks where it does not end. */
static void add_cut(struct cs_turn *turn, const char *text, size_t begin, size_t end, size_t n)
{
    if (begin == end)
        return;
    add_text(turn, text + begin, end - begin);
    turn->parts[turn->n_parts - 1].is_cut_before = begin > 0;
    turn->parts[turn->n_parts - 1].is_cut_behind = end < n;
}

/* A user's string: marks become objects, here and nowhere later. */
enum cs_status cs_record_split_text(struct cs_record_reader *r, struct cs_turn *turn,
                                    const char *text, size_t n)
{
    size_t done = 0, n_found = 0, len = 0;

    for (size_t i = 0; i < n; i++) {
        if (mark_at(r->keys, text + i, n - i, &len).encoder == -1)
            continue;
        n_found++;
        i += len - 1;
    }
    if (n_found > CS_RECORD_MAX_MEDIA)
        return cs_fail(r->err, CS_LIMIT, "%zu placeholders in a turn, at most %d", n_found,
                       CS_RECORD_MAX_MEDIA);
    turn->parts = CS_NEW_ARRAY(r->record->arena, struct cs_part, 2 * n_found + 1);
    for (size_t i = 0; i < n; i++) {
        const struct kind kind = mark_at(r->keys, text + i, n - i, &len);
        if (kind.encoder == -1)
            continue;
        add_cut(turn, text, done, i, n);
        add_place(r->keys, turn, kind);
        i += len - 1;
        done = i + 1;
    }
    add_cut(turn, text, done, n, n);
    return CS_OK;
}

/* --- content as a list ------------------------------------------------------------------------ */

static bool is_empty(const json_t *value)
{
    return value == NULL || json_is_null(value) ||
           (json_is_string(value) && json_string_length(value) == 0);
}

static enum cs_status read_text_part(struct cs_record_reader *r, struct cs_turn *turn,
                                     const char *where, const json_t *node)
{
    char place[CS_RECORD_PLACE];
    const json_t *text = json_object_get(node, "text");

    snprintf(place, sizeof place, "%s.text", where);
    if (!json_is_string(text))
        return cs_record_refuse(r, place, text, "it must be a text");
    if (!is_empty(json_object_get(node, "path")))
        return cs_fail(r->err, CS_INVALID, "%s is of type text and has a path", where);
    for (int e = 0; e < r->keys->n; e++)
        if (cs_record_file_of(r->keys, node, e, false, NULL) != NULL ||
            cs_record_file_of(r->keys, node, e, true, NULL) != NULL)
            return cs_fail(r->err, CS_INVALID, "%s is of type text and has a file", where);
    add_text(turn, cs_record_text(r->record->arena, text), json_string_length(text));
    return CS_OK;
}

static enum cs_status read_file_part(struct cs_record_reader *r, struct cs_turn *turn,
                                     const char *where, const json_t *node, struct kind kind)
{
    char name[CS_DOC_NAME], own[CS_DOC_NAME], place[CS_RECORD_PLACE];
    const int e = kind.encoder;
    const json_t *file = cs_record_file_of(r->keys, node, e, kind.is_video, name);
    const json_t *path = cs_doc_get(node, "path|url|bytes|base64|data", own);

    if (turn->role != CS_TURN_USER)
        return cs_fail(r->err, CS_INVALID, "%s: a file outside a user turn", where);
    if (!is_empty(json_object_get(node, "text")))
        return cs_fail(r->err, CS_INVALID, "%s is a file and has a text", where);
    for (int other = 0; other < 2 * r->keys->n; other++)
        if ((other / 2 != e || (other % 2 == 1) != kind.is_video) &&
            cs_record_file_of(r->keys, node, other / 2, other % 2 == 1, NULL) != NULL)
            return cs_fail(r->err, CS_INVALID, "%s has files of two kinds", where);
    if (file != NULL && path != NULL)
        return cs_fail(r->err, CS_INVALID, "%s has both a %s and a path", where, name);
    if (json_is_array(file) && !kind.is_video)
        return cs_fail(r->err, CS_INVALID, "%s.%s is a list: a part of a content is one file",
                       where, name);
    add_place(r->keys, turn, kind);
    snprintf(place, sizeof place, "%s.%s", where, file != NULL ? name : own);
    file = file != NULL ? file : path != NULL ? node : NULL;
    if (file != NULL && r->n_top[e] > 0)
        return cs_record_refuse(r, place, file, "the sample has files at its top too");
    if (file == NULL)
        return CS_OK;
    return kind.is_video ? cs_record_add_videos(r, e, place, file, true, node)
                         : cs_record_add_files(r, e, place, file);
}

/* What a part is for. Without a type its keys tell. */
static struct kind kind_of(const struct cs_record_keys *keys, const json_t *node)
{
    const char *type = json_string_value(json_object_get(node, "type"));

    if (type != NULL && cs_doc_is_word("text|input_text|output_text", type))
        return (struct kind){.encoder = -1};
    for (int k = 0; k < 2 * keys->n; k++) {
        const struct kind kind = {k / 2, k % 2 == 1};
        const char *names =
            kind.is_video ? keys->encoder[k / 2].videos : keys->encoder[k / 2].names;
        if (names != NULL &&
            (type != NULL ? cs_doc_is_word(names, type) : cs_doc_get(node, names, NULL) != NULL))
            return kind;
    }
    const bool is_text = type == NULL && json_is_string(json_object_get(node, "text"));
    return (struct kind){.encoder = is_text ? -1 : -2};
}

static enum cs_status read_list(struct cs_record_reader *r, struct cs_turn *turn, const char *where,
                                const json_t *list)
{
    char place[CS_RECORD_PLACE];
    const json_t *node = NULL;
    size_t i = 0;

    turn->parts = CS_NEW_ARRAY(r->record->arena, struct cs_part, json_array_size(list) + 1);
    json_array_foreach(list, i, node)
    {
        const struct kind kind =
            json_is_object(node) ? kind_of(r->keys, node) : (struct kind){.encoder = -2};
        snprintf(place, sizeof place, "%s[%zu]", where, i);
        if (kind.encoder == -2)
            return cs_record_refuse(r, place, node,
                                    "its type is neither text nor the key of an encoder");
        CS_TRY(kind.encoder == -1 ? read_text_part(r, turn, place, node)
                                  : read_file_part(r, turn, place, node, kind));
    }
    return CS_OK;
}

/* --- the turn --------------------------------------------------------------------------------- */

/* 1: trains, 0: does not, -1: is not said; CS_INVALID: half a weight, or on another's turn. */
static enum cs_status read_weight(struct cs_record_reader *r, struct cs_turn *turn,
                                  const char *where, const json_t *node)
{
    static const char *const names[] = {"loss",      "weight",      "train",
                                        "trainable", "loss_weight", "loss_scale"};
    char place[CS_RECORD_PLACE];
    int said = -1;

    for (size_t i = 0; i < CS_ARRAY_LEN(names); i++) {
        const json_t *value = json_object_get(node, names[i]);
        double number = json_is_number(value) ? json_number_value(value) : json_is_true(value);
        int is_trained = number > 0;
        if (value == NULL || json_is_null(value))
            continue;
        snprintf(place, sizeof place, "%s.%s", where, names[i]);
        if (number > 0 && number < 1)
            return cs_record_refuse(r, place, value, "an answer trains (1) or not (0)");
        if (is_trained && turn->role != CS_TURN_ASSISTANT)
            return cs_record_refuse(r, place, value, "only answers train");
        if (said != -1 && said != is_trained)
            return cs_record_refuse(r, place, value, "another key of this turn says the opposite");
        said = is_trained;
    }
    turn->is_muted = said == 0;
    return CS_OK;
}

static enum cs_status read_role(struct cs_record_reader *r, struct cs_turn *turn, const char *where,
                                const json_t *node)
{
    const char *name = json_string_value(cs_doc_get(node, "from|role", NULL));
    size_t i = 0;

    if (name == NULL)
        return cs_fail(r->err, CS_INVALID, "%s has no \"from\" or \"role\"", where);
    while (i < CS_ARRAY_LEN(roles) && strcmp(name, roles[i].name) != 0)
        i++;
    CS_ASSERT(i < CS_ARRAY_LEN(roles)); /* the table of keys has let no other through */
    turn->role = roles[i].role;
    return CS_OK;
}

/* The thought of an answer; an empty one is one. */
static enum cs_status read_thought(struct cs_record_reader *r, struct cs_turn *turn,
                                   const char *where, const json_t *node)
{
    char name[CS_DOC_NAME], place[CS_RECORD_PLACE];
    const json_t *value = cs_doc_get(node, "reasoning_content|reasoning|thinking", name);

    if (value == NULL || (turn->role != CS_TURN_ASSISTANT && json_string_length(value) == 0))
        return CS_OK;
    snprintf(place, sizeof place, "%s.%s", where, name);
    if (!json_is_string(value))
        return cs_record_refuse(r, place, value, "it must be a text");
    if (turn->role != CS_TURN_ASSISTANT)
        return cs_record_refuse(r, place, value, "only answers think");
    turn->thought = cs_record_text(r->record->arena, value);
    turn->n_thought = json_string_length(value);
    return CS_OK;
}

enum cs_status cs_record_read_marks(struct cs_record_reader *r, struct cs_turn *turn,
                                    const char *where, const json_t *node)
{
    CS_TRY(read_weight(r, turn, where, node));
    return read_thought(r, turn, where, node);
}

enum cs_status cs_record_read_turn(struct cs_record_reader *r, const char *where,
                                   const json_t *node, struct cs_turn *turn)
{
    char name[CS_DOC_NAME], place[CS_RECORD_PLACE];
    const json_t *value = json_is_object(node) ? cs_doc_get(node, "value|content", name) : NULL;
    const char *text = NULL;

    if (!json_is_object(node))
        return cs_record_refuse(r, where, node, "a turn is an object");
    CS_TRY(read_role(r, turn, where, node));
    CS_TRY(cs_record_read_marks(r, turn, where, node));
    if (value == NULL)
        return cs_fail(r->err, CS_INVALID, "%s has no \"value\" or \"content\"", where);
    snprintf(place, sizeof place, "%s.%s", where, name);
    if (json_is_array(value))
        return read_list(r, turn, place, value);
    if (!json_is_string(value))
        return cs_record_refuse(r, place, value,
                                "it must be a text (in quotes) or a list of parts");
    text = cs_record_text(r->record->arena, value);
    if (turn->role == CS_TURN_USER)
        return cs_record_split_text(r, turn, text, json_string_length(value));
    turn->parts = CS_NEW(r->record->arena, struct cs_part);
    add_text(turn, text, json_string_length(value));
    return CS_OK;
}
