/* cs.lab.tokens and cs.lab.render: what a tokenizer and a chat template make of a text, and which
 * of it trains. The work is done on plain C values; results travel as JSON in a box, so that an
 * error cannot leak them. */
#include <string.h>

#include "input/chat/own.h"
#include "input/data/record/record.h"
#include "input/data/sample.h"
#include "input/tok/tokenizer.h"
#include "lua/base/json.h"
#include "lua/bind/bind.h"

static int call_tokens(lua_State *L);
static int call_render(lua_State *L);

enum { MAX_ROWS = 4096 };

/* clang-format off */
static const struct cs_arg tokens_args[] = {
    {"tokenizer", CS_ARG_STRING, true, NULL, 0, 0, 0, NULL, "tokenizer.json or another file of a tokenizer, or the directory that holds it"},
    {"text", CS_ARG_STRING, true, NULL, 0, 0, 0, NULL, "what is encoded"},
    {"special", CS_ARG_BOOL, false, NULL, 0, 0, 0, "false", "recognise special tokens in the text"},
};
static const struct cs_arg render_args[] = {
    {"messages", CS_ARG_LIST, true, NULL, 0, 0, 0, NULL, "{ { role = \"user\", content = \"<image> What is it?\" }, { role = \"assistant\", content = \"a cat\" } }"},
    {"template", CS_ARG_NAMED, false, NULL, 0, 0, 0, "the tokenizer's own, where it has none or none is given chatml", "chat template: a built-in name or typed segments"},
    {"tokenizer", CS_ARG_STRING, false, NULL, 0, 0, 0, NULL, "with one: ids and labels as well"},
    {"token", CS_ARG_STRING, false, NULL, 0, 0, 0, "\"<image>\"", "placeholder in user turns"},
    {"rows", CS_ARG_INT, false, NULL, 1, MAX_ROWS, 0, "1", "LLM rows of a picture"},
};

static const struct cs_lua_function functions[] = {
    {"cs.lab.tokens", "token ids of a text, with the bytes each came from", "table", tokens_args, CS_ARRAY_LEN(tokens_args), call_tokens, NULL},
    {"cs.lab.render", "a conversation as the model sees it, in segments, and what of it trains", "table", render_args, CS_ARRAY_LEN(render_args), call_render, NULL},
};

/* clang-format on */

struct cs_lua_area cs_lua_area_lab_text(void)
{
    return (struct cs_lua_area){functions, CS_ARRAY_LEN(functions)};
}

static enum cs_status tokenize(const char *path, const char *text, size_t len, bool special,
                               json_t *out, struct cs_err *err)
{
    struct cs_tokenizer *tok = NULL;
    struct cs_tokens list = {0};
    enum cs_status status = cs_tokenizer_open(path, &tok, err);
    if (status == CS_OK)
        status = cs_tokenizer_encode(tok, text, len, special, &list, err);
    json_t *ids = json_array(), *begins = json_array(), *ends = json_array();
    for (size_t i = 0; status == CS_OK && i < list.n; i++) {
        json_array_append_new(ids, json_integer(list.items[i].id));
        json_array_append_new(begins, json_integer(list.items[i].begin));
        json_array_append_new(ends, json_integer(list.items[i].end));
    }
    json_object_set_new(out, "ids", ids);
    json_object_set_new(out, "begins", begins);
    json_object_set_new(out, "ends", ends);
    cs_tokens_free(&list);
    cs_tokenizer_close(tok);
    return status;
}

static int call_tokens(lua_State *L)
{
    struct cs_err err;
    size_t len;
    cs_lua_args_check(L, &functions[0]);
    const char *path = cs_lua_args_string(L, "tokenizer", "");
    lua_getfield(L, 1, "text");
    const char *text = lua_tolstring(L, -1, &len);
    struct cs_lua_value *box = cs_lua_value_new(L, CS_LUA_BOX, NULL);
    box->json = json_object();
    if (tokenize(path, text, len, cs_lua_args_bool(L, "special", false), box->json, &err) != CS_OK)
        return cs_lua_error(L, "cs.lab.tokens: %s", err.text);
    cs_lua_push_json(L, box->json);
    return 1;
}

/* A file for every place of a picture that has none: the text alone is of interest here. */
static void add_pictures(struct cs_record *record)
{
    int32_t n = 0;
    for (int32_t t = 0; t < record->n_turns; t++)
        for (int32_t i = 0; i < record->turns[t].n_parts; i++)
            n += record->turns[t].parts[i].encoder == 0;
    struct cs_media_file *files = CS_NEW_ARRAY(record->arena, struct cs_media_file, n + 1);
    for (int32_t i = 0; i < n; i++)
        files[i].name = "picture";
    record->files[0] = files;
    record->n_files[0] = n;
}

static void add_segments(const struct cs_rendering *r, json_t *out)
{
    json_t *segments = json_array();
    struct cs_buf trained = {0};
    for (size_t i = 0; i < r->n; i++) {
        const struct cs_segment *s = &r->segments[i];
        const char *text = cs_buf_str(&r->text) + s->begin;
        size_t n = s->end - s->begin;
        json_array_append_new(
            segments, json_pack("{s:o s:b s:b s:b}", "text", json_stringn(text, n), "special",
                                s->is_special, "trained", s->is_trained, "media", s->encoder >= 0));
        if (s->is_trained)
            cs_buf_add(&trained, text, n);
    }
    json_object_set_new(out, "text", json_stringn(cs_buf_str(&r->text), r->text.len));
    json_object_set_new(out, "trained", json_stringn(cs_buf_str(&trained), trained.len));
    json_object_set_new(out, "segments", segments);
    cs_buf_free(&trained);
}

static enum cs_status add_ids(struct cs_tokenizer *tok, const struct cs_template *chat,
                              const struct cs_record *record, const char *token, int32_t rows,
                              struct cs_rendering *rendering, json_t *out, struct cs_err *err)
{
    struct cs_sample_rules rules;
    struct cs_sample sample = {0};
    enum cs_status status = cs_sample_rules_init(&rules, tok, chat, &token, 1, err);
    if (status == CS_OK) {
        rules.rows[0] = rows;
        status = cs_sample_make(&rules, record, rendering, &sample, err);
    }
    json_t *ids = json_array(), *labels = json_array();
    for (int32_t i = 0; status == CS_OK && i < sample.n_tokens; i++) {
        json_array_append_new(ids, json_integer(sample.ids[i]));
        json_array_append_new(labels, json_integer(sample.labels[i]));
    }
    json_object_set_new(out, "ids", ids);
    json_object_set_new(out, "labels", labels);
    cs_sample_free(&sample);
    return status;
}

struct render_in {
    const json_t *messages, *chat;
    const char *token, *tokenizer;
    int32_t rows;
};

/* *tok NULL: no tokenizer was given */
static enum cs_status open_chat(const struct render_in *in, struct cs_arena *arena,
                                struct cs_tokenizer **tok, struct cs_template *chat,
                                struct cs_err *err)
{
    *tok = NULL;
    if (in->tokenizer == NULL)
        return cs_template_read(in->chat, arena, chat, err);
    CS_TRY(cs_tokenizer_open(in->tokenizer, tok, err));
    return cs_template_choose(in->chat, in->tokenizer, *tok, arena, chat, err);
}

static enum cs_status render(const struct render_in *in, json_t *out, struct cs_err *err)
{
    struct cs_arena *arena = cs_arena_new(0);
    struct cs_record *record = NULL;
    struct cs_rendering rendering = {0};
    struct cs_template chat;
    struct cs_tokenizer *tok = NULL;
    json_t *item = json_object();
    const struct cs_record_encoder encoder = {.name = "vision", .token = in->token, .key = "image"};
    struct cs_record_keys *keys = NULL;
    json_object_set_new(item, "messages", json_deep_copy(in->messages));
    enum cs_status status = open_chat(in, arena, &tok, &chat, err);
    if (status == CS_OK)
        status = cs_record_keys_new(&encoder, 1, arena, &keys, err);
    if (status == CS_OK)
        status = cs_record_read(item, keys, NULL, &record, err);
    if (status == CS_OK)
        add_pictures(record);
    if (status == CS_OK)
        status = cs_template_render(&chat, record, &in->token, 1, &rendering, err);
    if (status == CS_OK)
        add_segments(&rendering, out);
    if (status == CS_OK && tok)
        status = add_ids(tok, &chat, record, in->token, in->rows, &rendering, out, err);
    cs_rendering_free(&rendering);
    cs_record_free(record);
    cs_tokenizer_close(tok);
    json_decref(item);
    cs_arena_free(arena);
    return status;
}

static int call_render(lua_State *L)
{
    struct cs_err err;
    const struct cs_lua_function *f = &functions[1];
    cs_lua_args_check(L, f);
    struct render_in in = {.token = cs_lua_args_string(L, "token", "<image>"),
                           .tokenizer = cs_lua_args_string(L, "tokenizer", NULL),
                           .rows = (int32_t)cs_lua_args_int(L, "rows", 1)};
    if (in.token[0] == '\0')
        return cs_lua_error(L, "cs.lab.render: 'token' is empty");
    in.messages = cs_lua_args_json(L, "messages", f);
    in.chat = cs_lua_args_json(L, "template", f);
    struct cs_lua_value *box = cs_lua_value_new(L, CS_LUA_BOX, NULL);
    box->json = json_object();
    if (render(&in, box->json, &err) != CS_OK)
        return cs_lua_error(L, "cs.lab.render: %s", err.text);
    cs_lua_push_json(L, box->json);
    return 1;
}
