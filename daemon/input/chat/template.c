/* Holds the built-in chat templates and reads tables that change them. */
#include "input/chat/template.h"

#include <stdio.h>
#include <string.h>

#include "core/base/near.h"

#define HELPFUL "You are a helpful assistant."
#define VICUNA                                                                                     \
    "A chat between a curious user and an artificial intelligence assistant. The assistant gives " \
    "helpful, detailed, and polite answers to the user's questions."

static const struct cs_template builtin[] = {
    {.name = "chatml",
     .bos = "",
     .default_system = HELPFUL,
     .turn = {{"<|im_start|>system\n", "", "<|im_end|>", "\n", false},
              {"<|im_start|>user\n", "", "<|im_end|>", "\n", false},
              {"<|im_start|>assistant\n", "", "<|im_end|>", "\n", false}},
     .has_default_system = true,
     .is_prepending = true},
    {.name = "llama3",
     .bos = "<|begin_of_text|>",
     .default_system = "",
     .turn = {{"<|start_header_id|>system<|end_header_id|>\n\n", "", "<|eot_id|>", "", true},
              {"<|start_header_id|>user<|end_header_id|>\n\n", "", "<|eot_id|>", "", true},
              {"<|start_header_id|>assistant<|end_header_id|>\n\n", "", "<|eot_id|>", "", true}},
     .is_prepending = true},
    {.name = "vicuna_v1",
     .bos = "<s>",
     .default_system = VICUNA,
     .turn = {{"", "", "", " ", false},
              {"USER: ", "", "", " ", false},
              {"ASSISTANT:", " ", "</s>", "", false}},
     .has_default_system = true,
     .is_prepending = true},
    {.name = "plain",
     .bos = "",
     .default_system = "",
     .turn = {{"", "", "", "\n", false}, {"", "", "", "\n", false}, {"", "", "\n", "", false}},
     .is_prepending = true                                                                       },
};

static const char *const names[] = {"chatml", "llama3", "vicuna_v1", "plain"};

_Static_assert(CS_ARRAY_LEN(names) == CS_ARRAY_LEN(builtin), "one name per built-in template");

const char *const *cs_template_names(int *n)
{
    *n = (int)CS_ARRAY_LEN(names);
    return names;
}

static const char *hint(const char *word, const char *const *list, size_t n)
{
    const char *near = cs_near(word, list, (int)n);

    return near != NULL ? near : list[0];
}

static enum cs_status read_text(const json_t *value, const char *path, struct cs_arena *arena,
                                const char **out, struct cs_err *err)
{
    if (!json_is_string(value) || strlen(json_string_value(value)) != json_string_length(value))
        return cs_fail(err, CS_INVALID, "template.%s: must be a text without NUL", path);
    *out = cs_arena_strdup(arena, json_string_value(value));
    return CS_OK;
}

static enum cs_status read_turn(const json_t *node, const char *role, struct cs_arena *arena,
                                struct cs_template_turn *turn, struct cs_err *err)
{
    static const char *const keys[] = {"prefix", "lead", "end", "suffix"};
    const char **fields[] = {&turn->prefix, &turn->lead, &turn->end, &turn->suffix};

    if (!json_is_object(node))
        return cs_fail(err, CS_INVALID, "template.%s: must be an object", role);
    for (void *it = json_object_iter((json_t *)(uintptr_t)node); it != NULL;
         it = json_object_iter_next((json_t *)(uintptr_t)node, it)) {
        const char *key = json_object_iter_key(it);
        size_t i = 0;
        while (i < CS_ARRAY_LEN(keys) && strcmp(key, keys[i]) != 0)
            i++;
        if (i == CS_ARRAY_LEN(keys))
            return cs_fail(err, CS_INVALID, "template.%s.%s: unknown key; did you mean \"%s\"?",
                           role, key, hint(key, keys, CS_ARRAY_LEN(keys)));
        CS_TRY(read_text(json_object_iter_value(it), cs_arena_printf(arena, "%s.%s", role, key),
                         arena, fields[i], err));
    }
    return CS_OK;
}

/* A choice of two words: *out says whether it is the first. */
static enum cs_status read_choice(const json_t *value, const char *key, const char *yes,
                                  const char *no, bool *out, struct cs_err *err)
{
    const char *word = json_string_value(value);

    if (word == NULL || (strcmp(word, yes) != 0 && strcmp(word, no) != 0))
        return cs_fail(err, CS_INVALID, "template.%s: \"%s\" or \"%s\" expected", key, yes, no);
    *out = strcmp(word, yes) == 0;
    return CS_OK;
}

static enum cs_status read_key(const char *key, const json_t *value, struct cs_arena *arena,
                               struct cs_template *out, struct cs_err *err)
{
    static const char *const keys[] = {"system", "user",     "assistant",
                                       "bos",    "name",     "default_system",
                                       "trim",   "train_on", "missing_placeholder"};

    for (int role = 0; role < CS_TURN_ROLES; role++)
        if (strcmp(key, keys[role]) == 0)
            return read_turn(value, key, arena, &out->turn[role], err);
    if (strcmp(key, "bos") == 0)
        return read_text(value, key, arena, &out->bos, err);
    if (strcmp(key, "name") == 0)
        return CS_OK; /* read first */
    if (strcmp(key, "default_system") == 0) {
        CS_TRY(read_text(value, key, arena, &out->default_system, err));
        out->has_default_system = out->default_system[0] != '\0';
        return CS_OK;
    }
    if (strcmp(key, "train_on") == 0)
        return read_choice(value, key, "last", "all", &out->is_last_only, err);
    if (strcmp(key, "missing_placeholder") == 0)
        return read_choice(value, key, "prepend", "reject", &out->is_prepending, err);
    if (strcmp(key, "trim") == 0 && json_is_boolean(value)) {
        for (int role = 0; role < CS_TURN_ROLES; role++)
            out->turn[role].is_trimmed = json_is_true(value);
        return CS_OK;
    }
    if (strcmp(key, "trim") == 0)
        return cs_fail(err, CS_INVALID, "template.trim: true or false expected");
    return cs_fail(err, CS_INVALID, "template.%s: unknown key; did you mean \"%s\"?", key,
                   hint(key, keys, CS_ARRAY_LEN(keys)));
}

enum cs_status cs_template_read(const json_t *node, struct cs_arena *arena, struct cs_template *out,
                                struct cs_err *err)
{
    return cs_template_read_over(node, &builtin[0], arena, out, err);
}

/* All that a turn's text is between, and what of it trains. */
static bool is_alike(const struct cs_template_turn *a, const struct cs_template_turn *b,
                     bool is_answer)
{
    char x[512], y[512];
    const char *mark = is_answer ? "|" : "";

    snprintf(x, sizeof x, "%s%s%s\n%s%s%s%d", a->prefix, mark, a->lead, a->end, mark, a->suffix,
             a->is_trimmed);
    snprintf(y, sizeof y, "%s%s%s\n%s%s%s%d", b->prefix, mark, b->lead, b->end, mark, b->suffix,
             b->is_trimmed);
    return strcmp(x, y) == 0;
}

const char *cs_template_name_of(const struct cs_template *chat)
{
    for (size_t i = 0; i < CS_ARRAY_LEN(builtin); i++) {
        bool is_same = strcmp(chat->bos, builtin[i].bos) == 0;
        for (int role = 0; role < CS_TURN_ROLES; role++)
            is_same &=
                is_alike(&chat->turn[role], &builtin[i].turn[role], role == CS_TURN_ASSISTANT);
        if (is_same)
            return builtin[i].name;
    }
    return chat->name;
}

enum cs_status cs_template_read_over(const json_t *node, const struct cs_template *base,
                                     struct cs_arena *arena, struct cs_template *out,
                                     struct cs_err *err)
{
    const json_t *name = json_object_get(node, "name");
    const char *text = json_string_value(name);
    size_t i = 0;

    *out = *base;
    if (node == NULL || json_is_null(node))
        return CS_OK;
    if (!json_is_object(node))
        return cs_fail(err, CS_INVALID, "template: must be an object");
    if (name != NULL && text == NULL)
        return cs_fail(err, CS_INVALID, "template.name: must be a text");
    while (text != NULL && i < CS_ARRAY_LEN(names) && strcmp(text, names[i]) != 0)
        i++;
    if (i == CS_ARRAY_LEN(names)) {
        /* an unknown name is a new template only when it brings its own turns */
        if (json_object_get(node, "assistant") == NULL)
            return cs_fail(err, CS_INVALID,
                           "template.name: no template \"%s\"; did you mean \"%s\"? (chatml, "
                           "llama3, vicuna_v1, plain, or give user and assistant)",
                           text, hint(text, names, CS_ARRAY_LEN(names)));
        *out = (struct cs_template){
            .name = cs_arena_strdup(arena, text),
            .bos = "",
            .default_system = "",
            .turn = {{"", "", "", "", false}, {"", "", "", "", false}, {"", "", "", "", false}},
            .is_prepending = true
        };
    } else if (text != NULL) {
        *out = builtin[i];
    }
    for (void *it = json_object_iter((json_t *)(uintptr_t)node); it != NULL;
         it = json_object_iter_next((json_t *)(uintptr_t)node, it))
        CS_TRY(read_key(json_object_iter_key(it), json_object_iter_value(it), arena, out, err));
    if (out->turn[CS_TURN_ASSISTANT].end[0] == '\0')
        return cs_fail(err, CS_INVALID,
                       "template.assistant.end: is empty; a turn needs an end to learn to stop");
    return CS_OK;
}

/* Length of what looks like a special token at p: <|...|>, <word>, </word>; 0: nothing. */
static size_t special_length(const char *p)
{
    size_t n = 0;

    if (p[0] != '<')
        return 0;
    n = 1 + strspn(p + 1, "|/abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-");
    return n > 1 && p[n] == '>' ? n + 1 : 0;
}

static enum cs_status check_marker(const struct cs_template *chat, const struct cs_tokenizer *tok,
                                   const char *marker, struct cs_err *err)
{
    for (const char *p = marker; *p != '\0'; p++) {
        char token[64];
        size_t n = special_length(p);
        if (n == 0 || n >= sizeof(token))
            continue;
        memcpy(token, p, n);
        token[n] = '\0';
        if (cs_tokenizer_id(tok, token) == -1)
            return cs_fail(err, CS_INVALID,
                           "template %s needs the token %s, which the tokenizer does not have: "
                           "choose another template or add it to added_tokens",
                           chat->name, token);
    }
    return CS_OK;
}

enum cs_status cs_template_check(const struct cs_template *chat, const struct cs_tokenizer *tok,
                                 struct cs_err *err)
{
    CS_TRY(check_marker(chat, tok, chat->bos, err));
    for (int role = 0; role < CS_TURN_ROLES; role++) {
        const struct cs_template_turn *t = &chat->turn[role];
        CS_TRY(check_marker(chat, tok, t->prefix, err));
        CS_TRY(check_marker(chat, tok, t->lead, err));
        CS_TRY(check_marker(chat, tok, t->end, err));
        CS_TRY(check_marker(chat, tok, t->suffix, err));
    }
    return CS_OK;
}
