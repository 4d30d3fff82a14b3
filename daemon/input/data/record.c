/* Reads one item of a data set: its turns, their text and their placeholders. */
#include "input/data/record.h"

#include <string.h>

struct reader {
    struct cs_record *record;
    const char *const *tokens;
    int n_tokens;
    struct cs_err *err;
};

static const struct {
    const char *name;
    enum cs_turn_role role;
} roles[] = {
    {"human",     CS_TURN_USER     },
    {"user",      CS_TURN_USER     },
    {"gpt",       CS_TURN_ASSISTANT},
    {"assistant", CS_TURN_ASSISTANT},
    {"model",     CS_TURN_ASSISTANT},
    {"system",    CS_TURN_SYSTEM   },
};

static const char *copy_text(struct cs_arena *arena, const json_t *text)
{
    size_t n = json_string_length(text);
    char *out = cs_arena_alloc(arena, n + 1);

    memcpy(out, json_string_value(text), n);
    return out;
}

/* Encoder whose placeholder starts at p, the longest one; -1: none. */
static int placeholder_at(const struct reader *r, const char *p, size_t n)
{
    int found = -1;

    for (int e = 0; e < r->n_tokens; e++) {
        size_t len = strlen(r->tokens[e]);
        if (len > 0 && len <= n && memcmp(p, r->tokens[e], len) == 0 &&
            (found == -1 || len > strlen(r->tokens[found])))
            found = e;
    }
    return found;
}

static void add_part(struct cs_turn *turn, int encoder, const char *text, size_t len)
{
    if (encoder == -1 && len == 0)
        return;
    turn->parts[turn->n_parts++] = (struct cs_part){encoder, text, len};
}

/* A user's string: placeholders become objects, here and nowhere later. */
static enum cs_status split_text(struct reader *r, struct cs_turn *turn, const char *text, size_t n)
{
    size_t done = 0, n_found = 0;

    for (size_t i = 0; i < n; i++) {
        int e = placeholder_at(r, text + i, n - i);
        if (e == -1)
            continue;
        n_found++;
        i += strlen(r->tokens[e]) - 1;
    }
    if (n_found > CS_RECORD_MAX_MEDIA)
        return cs_fail(r->err, CS_LIMIT, "%zu placeholders in a turn, at most %d", n_found,
                       CS_RECORD_MAX_MEDIA);
    turn->parts = CS_NEW_ARRAY(r->record->arena, struct cs_part, 2 * n_found + 1);
    for (size_t i = 0; i < n; i++) {
        int e = placeholder_at(r, text + i, n - i);
        if (e == -1)
            continue;
        add_part(turn, -1, text + done, i - done);
        add_part(turn, e, r->tokens[e], strlen(r->tokens[e]));
        i += strlen(r->tokens[e]) - 1;
        done = i + 1;
    }
    add_part(turn, -1, text + done, n - done);
    return CS_OK;
}

static int encoder_of_type(const struct reader *r, const char *type)
{
    for (int e = 0; e < r->n_tokens; e++) {
        const char *t = r->tokens[e];
        size_t skip = strspn(t, "<|"), n = strcspn(t + skip, "|>");
        if (strlen(type) == n && memcmp(type, t + skip, n) == 0)
            return e;
    }
    return -1;
}

static enum cs_status add_file(struct reader *r, int e, const json_t *path)
{
    struct cs_record *record = r->record;

    if (!json_is_string(path) || json_string_length(path) == 0 ||
        strlen(json_string_value(path)) != json_string_length(path))
        return cs_fail(r->err, CS_INVALID, "a path of %s is not a text", r->tokens[e]);
    if (record->n_files[e] == CS_RECORD_MAX_MEDIA)
        return cs_fail(r->err, CS_LIMIT, "more than %d files for %s", CS_RECORD_MAX_MEDIA,
                       r->tokens[e]);
    if ((record->n_files[e] & (record->n_files[e] - 1)) == 0) { /* full at powers of two */
        size_t n = (size_t)record->n_files[e];
        const char **more = CS_NEW_ARRAY(record->arena, const char *, n == 0 ? 1 : 2 * n);
        if (n > 0)
            memcpy(more, record->files[e], n * sizeof *more);
        record->files[e] = more;
    }
    record->files[e][record->n_files[e]++] = copy_text(record->arena, path);
    return CS_OK;
}

static enum cs_status read_list(struct reader *r, struct cs_turn *turn, const json_t *list)
{
    const json_t *node = NULL;
    size_t i = 0;

    turn->parts = CS_NEW_ARRAY(r->record->arena, struct cs_part, json_array_size(list) + 1);
    json_array_foreach(list, i, node)
    {
        const char *type = json_string_value(json_object_get(node, "type"));
        const json_t *text = json_object_get(node, "text"), *path = NULL;
        int e = type != NULL ? encoder_of_type(r, type) : -1;
        if (type != NULL && strcmp(type, "text") == 0 && json_is_string(text)) {
            add_part(turn, -1, copy_text(r->record->arena, text), json_string_length(text));
            continue;
        }
        if (e == -1)
            return cs_fail(r->err, CS_INVALID,
                           "content[%zu]: type \"%s\" is neither text nor an "
                           "encoder's",
                           i, type == NULL ? "(none)" : type);
        if (turn->role != CS_TURN_USER)
            return cs_fail(r->err, CS_INVALID, "content[%zu]: %s outside a user turn", i, type);
        add_part(turn, e, r->tokens[e], strlen(r->tokens[e]));
        path = json_object_get(node, type);
        path = path != NULL ? path : json_object_get(node, "path");
        if (path != NULL)
            CS_TRY(add_file(r, e, path));
    }
    return CS_OK;
}

static enum cs_status read_turn(struct reader *r, const json_t *node, struct cs_turn *turn)
{
    const json_t *from = json_object_get(node, "from"), *value = json_object_get(node, "value");
    const char *name = NULL;
    size_t i = 0;

    from = from != NULL ? from : json_object_get(node, "role");
    value = value != NULL ? value : json_object_get(node, "content");
    name = json_string_value(from);
    if (name == NULL)
        return cs_fail(r->err, CS_INVALID, "no \"from\" or \"role\"");
    while (i < CS_ARRAY_LEN(roles) && strcmp(name, roles[i].name) != 0)
        i++;
    if (i == CS_ARRAY_LEN(roles))
        return cs_fail(
            r->err, CS_INVALID,
            "role \"%.40s\" is not supported (human, user, gpt, assistant, model, system)", name);
    turn->role = roles[i].role;
    turn->is_muted = json_is_false(json_object_get(node, "loss"));
    if (json_is_array(value))
        return read_list(r, turn, value);
    if (!json_is_string(value))
        return cs_fail(r->err, CS_INVALID, "no \"value\" or \"content\"");
    if (turn->role == CS_TURN_USER)
        return split_text(r, turn, copy_text(r->record->arena, value), json_string_length(value));
    turn->parts = CS_NEW(r->record->arena, struct cs_part);
    add_part(turn, -1, copy_text(r->record->arena, value), json_string_length(value));
    return CS_OK;
}

static enum cs_status read_turns(struct reader *r, const json_t *item)
{
    static const char *const keys[] = {"conversations", "conversation", "messages"};
    const json_t *list = NULL, *node = NULL;
    const char *key = NULL;
    size_t i = 0;

    for (i = 0; i < CS_ARRAY_LEN(keys) && list == NULL; i++) {
        list = json_object_get(item, keys[i]);
        key = keys[i];
    }
    if (!json_is_array(list))
        return cs_fail(r->err, CS_INVALID, "no list \"conversations\" or \"messages\"");
    r->record->turns = CS_NEW_ARRAY(r->record->arena, struct cs_turn, json_array_size(list) + 1);
    json_array_foreach(list, i, node)
    {
        enum cs_status status = read_turn(r, node, &r->record->turns[i]);
        if (status != CS_OK)
            return cs_wrap(r->err, status, "%s[%zu]", key, i);
        r->record->n_turns++;
    }
    return CS_OK;
}

/* The files of an encoder at the top: "image": "path" is one file, never a list of characters. */
static enum cs_status read_files(struct reader *r, const json_t *item, int e)
{
    const char *t = r->tokens[e];
    size_t skip = strspn(t, "<|"), n = strcspn(t + skip, "|>"), i = 0;
    const char *key = cs_arena_strndup(r->record->arena, t + skip, n);
    const json_t *value = json_object_get(item, key), *node = NULL;

    if (value == NULL || json_is_null(value))
        value = json_object_get(item, cs_arena_printf(r->record->arena, "%ss", key));
    if (value == NULL || json_is_null(value))
        return CS_OK;
    if (!json_is_array(value))
        return add_file(r, e, value);
    json_array_foreach(value, i, node) CS_TRY(add_file(r, e, node));
    return CS_OK;
}

enum cs_status cs_record_read(const json_t *item, const char *const *tokens, int n_tokens,
                              struct cs_record **out, struct cs_err *err)
{
    struct cs_arena *arena = cs_arena_new(0);
    struct reader r = {CS_NEW(arena, struct cs_record), tokens, n_tokens, err};
    const json_t *id = json_object_get(item, "id");
    enum cs_status status = CS_OK;

    *out = NULL;
    r.record->arena = arena;
    r.record->id = "";
    if (json_is_string(id))
        r.record->id = copy_text(arena, id);
    else if (json_is_integer(id))
        r.record->id = cs_arena_printf(arena, "%lld", (long long)json_integer_value(id));
    if (!json_is_object(item))
        status = cs_fail(err, CS_INVALID, "the sample is not an object");
    for (int e = 0; e < n_tokens && status == CS_OK; e++)
        status = read_files(&r, item, e);
    if (status == CS_OK)
        status = read_turns(&r, item);
    if (status != CS_OK) {
        cs_record_free(r.record);
        return status;
    }
    *out = r.record;
    return CS_OK;
}

void cs_record_free(struct cs_record *record)
{
    if (record != NULL)
        cs_arena_free(record->arena);
}
