/* Reads the tables that make or change chat templates. */
#include "input/chat/template.h"

#include <stdio.h>
#include <string.h>

#include "core/base/near.h"
#include "input/chat/builtin.h"

int cs_template_names(const char **out, int cap)
{
    int n = 0;

    for (; n < cap && cs_template_builtin(n) != NULL; n++)
        out[n] = cs_template_builtin(n)->name;
    return n;
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

/* An object of texts: the n keys to fields. */
static enum cs_status read_texts(const json_t *node, const char *role, struct cs_arena *arena,
                                 const char *const *keys, size_t n, const char **const *fields,
                                 struct cs_err *err)
{
    if (!json_is_object(node))
        return cs_fail(err, CS_INVALID, "template.%s: must be an object", role);
    for (void *it = json_object_iter((json_t *)(uintptr_t)node); it != NULL;
         it = json_object_iter_next((json_t *)(uintptr_t)node, it)) {
        const char *key = json_object_iter_key(it);
        size_t i = 0;
        while (i < n && strcmp(key, keys[i]) != 0)
            i++;
        if (i == n)
            return cs_fail(err, CS_INVALID, "template.%s.%s: unknown key; did you mean \"%s\"?",
                           role, key, hint(key, keys, n));
        CS_TRY(read_text(json_object_iter_value(it), cs_arena_printf(arena, "%s.%s", role, key),
                         arena, fields[i], err));
    }
    return CS_OK;
}

static enum cs_status read_turn(const json_t *node, const char *role, struct cs_arena *arena,
                                struct cs_template_turn *turn, struct cs_err *err)
{
    static const char *const keys[] = {"prefix", "lead", "end", "suffix"};
    const char **const fields[] = {&turn->prefix, &turn->lead, &turn->end, &turn->suffix};

    return read_texts(node, role, arena, keys, CS_ARRAY_LEN(keys), fields, err);
}

static enum cs_status read_think(const json_t *node, struct cs_arena *arena,
                                 struct cs_thinking *thinking, struct cs_err *err)
{
    static const char *const keys[] = {"open", "close"};
    const char **const fields[] = {&thinking->open, &thinking->close};

    *thinking = (struct cs_thinking){.mode = thinking->mode};
    CS_TRY(read_texts(node, "think", arena, keys, CS_ARRAY_LEN(keys), fields, err));
    if (thinking->open == NULL || thinking->close == NULL || thinking->open[0] == '\0' ||
        thinking->close[0] == '\0')
        return cs_fail(err, CS_INVALID, "template.think: needs \"open\" and \"close\"");
    return CS_OK;
}

/* One of some words: *out is which. */
static enum cs_status read_choice(const json_t *value, const char *key, const char *const *words,
                                  int *out, struct cs_err *err)
{
    const char *word = json_string_value(value);
    struct cs_buf all = {0};

    for (*out = 0; words[*out] != NULL; ++*out) {
        if (word != NULL && strcmp(word, words[*out]) == 0) {
            cs_buf_free(&all);
            return CS_OK;
        }
        cs_buf_addf(&all, "%s\"%s\"", *out > 0 ? " or " : "", words[*out]);
    }
    (void)!cs_fail(err, CS_INVALID, "template.%s: %s expected", key, cs_buf_str(&all));
    cs_buf_free(&all);
    return CS_INVALID;
}

static enum cs_status read_trim(const json_t *value, struct cs_template *out, struct cs_err *err)
{
    if (!json_is_boolean(value))
        return cs_fail(err, CS_INVALID, "template.trim: true or false expected");
    for (int role = 0; role < CS_TURN_ROLES; role++)
        out->turn[role].is_trimmed = json_is_true(value);
    return CS_OK;
}

static enum cs_status read_thinking(int mode, struct cs_template *out, struct cs_err *err)
{
    if (out->thinking.open == NULL || out->thinking.is_cut)
        return cs_fail(err, CS_INVALID,
                       "template.thinking: %s has no thoughts that could be kept or dropped; say "
                       "with \"think\" what stands around them",
                       out->name);
    out->thinking.mode = (enum cs_thinking_mode)mode;
    return CS_OK;
}

/* Keys of one of a few words. */
static const struct {
    const char *key;
    const char *words[4];
} choices[] = {
    {"train_on",            {"all", "last"}         },
    {"missing_placeholder", {"reject", "prepend"}   },
    {"system_in",           {"own", "first", "last"}},
    {"thinking",            {"drop", "keep", "data"}},
};

static enum cs_status take_choice(size_t which, const json_t *value, struct cs_template *out,
                                  struct cs_err *err)
{
    int word = 0;

    CS_TRY(read_choice(value, choices[which].key, choices[which].words, &word, err));
    if (which == 0)
        out->is_last_only = word == 1;
    else if (which == 1)
        out->is_prepending = word == 1;
    else if (which == 2)
        out->system_place = (enum cs_system_place)word;
    else
        return read_thinking(word, out, err);
    return CS_OK;
}

static enum cs_status read_key(const char *key, const json_t *value, struct cs_arena *arena,
                               struct cs_template *out, struct cs_err *err)
{
    static const char *const keys[] = {"system",    "user",
                                       "assistant", "bos",
                                       "name",      "default_system",
                                       "tail",      "trim",
                                       "train_on",  "missing_placeholder",
                                       "system_in", "thinking",
                                       "think",     "add_special_tokens"};

    for (int role = 0; role < CS_TURN_ROLES; role++)
        if (strcmp(key, keys[role]) == 0)
            return read_turn(value, key, arena, &out->turn[role], err);
    for (size_t i = 0; i < CS_ARRAY_LEN(choices); i++)
        if (strcmp(key, choices[i].key) == 0)
            return take_choice(i, value, out, err);
    if (strcmp(key, "bos") == 0)
        return read_text(value, key, arena, &out->bos, err);
    if (strcmp(key, "tail") == 0)
        return read_text(value, key, arena, &out->tail, err);
    if (strcmp(key, "name") == 0 || strcmp(key, "think") == 0)
        return CS_OK; /* read first */
    if (strcmp(key, "default_system") == 0) {
        CS_TRY(read_text(value, key, arena, &out->default_system, err));
        out->has_default_system = out->default_system[0] != '\0';
        out->is_dated = false;
        return CS_OK;
    }
    if (strcmp(key, "trim") == 0)
        return read_trim(value, out, err);
    if (strcmp(key, "add_special_tokens") == 0) {
        if (!json_is_boolean(value))
            return cs_fail(err, CS_INVALID, "template.%s: true or false expected", key);
        out->is_surrounded = json_is_true(value);
        return CS_OK;
    }
    return cs_fail(err, CS_INVALID, "template.%s: unknown key; did you mean \"%s\"?", key,
                   hint(key, keys, CS_ARRAY_LEN(keys)));
}

enum cs_status cs_template_read(const json_t *node, struct cs_arena *arena, struct cs_template *out,
                                struct cs_err *err)
{
    return cs_template_read_over(node, cs_template_builtin(0), arena, out, err);
}

/* Of a node's name: the built-in one, or a new one that brings its own turns. */
static enum cs_status start(const json_t *node, const char *name, struct cs_arena *arena,
                            struct cs_template *out, struct cs_err *err)
{
    const struct cs_template *builtin = cs_template_find(name);
    const char *names[64];
    struct cs_buf all = {0};

    if (builtin != NULL) {
        *out = *builtin;
        return CS_OK;
    }
    if (json_object_get(node, "assistant") == NULL) {
        int n = cs_template_names(names, CS_ARRAY_LEN(names));
        cs_template_list(&all);
        (void)!cs_fail(
            err, CS_INVALID,
            "template.name: no template \"%.60s\"; did you mean \"%s\"? (%s, or give user "
            "and assistant)",
            name, hint(name, names, (size_t)n), cs_buf_str(&all));
        cs_buf_free(&all);
        return CS_INVALID;
    }
    *out = (struct cs_template){
        .name = cs_arena_strdup(arena, name),
        .bos = "",
        .default_system = "",
        .tail = "",
        .turn = {{"", "", "", "", false}, {"", "", "", "", false}, {"", "", "", "", false}},
        .is_prepending = true
    };
    return CS_OK;
}

enum cs_status cs_template_read_over(const json_t *node, const struct cs_template *base,
                                     struct cs_arena *arena, struct cs_template *out,
                                     struct cs_err *err)
{
    const json_t *name = json_object_get(node, "name");
    const char *text = json_string_value(name);

    *out = *base;
    if (node == NULL || json_is_null(node))
        return CS_OK;
    if (!json_is_object(node))
        return cs_fail(err, CS_INVALID, "template: must be an object");
    if (name != NULL && text == NULL)
        return cs_fail(err, CS_INVALID, "template.name: must be a text");
    if (text != NULL)
        CS_TRY(start(node, text, arena, out, err));
    if (json_object_get(node, "think") != NULL)
        CS_TRY(read_think(json_object_get(node, "think"), arena, &out->thinking, err));
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
        bool is_doubled = n > 0 && p > marker && p[-1] == '<' && p[n] == '>'; /* <<SYS>> */
        if (n == 0 || n >= sizeof(token) || is_doubled)
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
    CS_TRY(check_marker(chat, tok, chat->tail, err));
    if (chat->thinking.open != NULL && !chat->thinking.is_cut) {
        CS_TRY(check_marker(chat, tok, chat->thinking.open, err));
        CS_TRY(check_marker(chat, tok, chat->thinking.close, err));
    }
    for (int role = 0; role < CS_TURN_ROLES; role++) {
        const struct cs_template_turn *t = &chat->turn[role];
        CS_TRY(check_marker(chat, tok, t->prefix, err));
        CS_TRY(check_marker(chat, tok, t->lead, err));
        CS_TRY(check_marker(chat, tok, t->end, err));
        CS_TRY(check_marker(chat, tok, t->suffix, err));
    }
    return CS_OK;
}
