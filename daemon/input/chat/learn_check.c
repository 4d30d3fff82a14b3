/* Renders conversations with a chat template and with the table that was learnt of it. */
#include <string.h>

#include "input/chat/learn.h"

static const char *const roles[] = {"system", "user", "assistant"};

static json_t *message(const struct learn *l, const struct learn_turn *turn)
{
    if (!l->is_in_parts)
        return json_pack("{s:s,s:s}", "role", roles[turn->role], "content", turn->text);
    return json_pack("{s:s,s:[{s:s,s:s}]}", "role", roles[turn->role], "content", "type", "text",
                     "text", turn->text);
}

enum cs_status learn_render(const struct learn *l, const struct learn_turn *turns, int n,
                            bool has_prompt, const char **out, struct cs_err *err)
{
    json_t *messages = json_array();
    json_t *variables = json_pack("{s:o,s:b,s:n,s:n}", "messages", messages,
                                  "add_generation_prompt", has_prompt, "tools", "documents");
    struct cs_buf text = {0};
    enum cs_status status = CS_OK;

    for (int i = 0; i < n; i++)
        json_array_append_new(messages, message(l, &turns[i]));
    for (int i = 0; cs_tokenizer_name(l->tok, i) != NULL; i++) {
        const char *key = cs_tokenizer_name(l->tok, i);
        json_object_set_new(variables, key, json_string(cs_tokenizer_named(l->tok, key)));
    }
    status = cs_jinja_render(l->jinja, variables, &text, err);
    if (status == CS_OK)
        *out = cs_arena_strndup(l->arena, cs_buf_str(&text), text.len);
    cs_buf_free(&text);
    json_decref(variables);
    return status;
}

static enum cs_status render_table(const struct learn *l, const struct cs_template *chat,
                                   const struct learn_turn *turns, int n, const char **out,
                                   struct cs_err *err)
{
    struct cs_turn made[LEARN_TURNS] = {{0}};
    struct cs_part parts[LEARN_TURNS] = {{0}};
    const struct cs_record record = {.id = "", .turns = made, .n_turns = n};
    struct cs_rendering rendering = {0};
    enum cs_status status = CS_OK;

    for (int i = 0; i < n; i++) {
        parts[i] = (struct cs_part){-1, turns[i].text, strlen(turns[i].text)};
        made[i] = (struct cs_turn){.role = turns[i].role, .parts = &parts[i], .n_parts = 1};
    }
    status = cs_template_render(chat, &record, NULL, 0, &rendering, err);
    if (status == CS_OK)
        *out = cs_arena_strndup(l->arena, cs_buf_str(&rendering.text), rendering.text.len);
    cs_rendering_free(&rendering);
    return status;
}

static enum cs_status compare(const struct learn *l, const struct cs_template *chat,
                              const struct learn_turn *turns, int n, struct cs_err *err)
{
    const char *want = NULL, *got = NULL;
    size_t at = 0;

    CS_TRY(learn_render(l, turns, n, false, &want, err));
    CS_TRY(render_table(l, chat, turns, n, &got, err));
    if (strcmp(want, got) == 0)
        return CS_OK;
    while (want[at] == got[at])
        at++;
    at = at > 10 ? at - 10 : 0;
    return cs_fail(err, CS_UNSUPPORTED,
                   "it changes \"%.40s\": it writes \"%.40s\", a table \"%.40s\"",
                   turns[n - 1].text, want + at, got + at);
}

#define S(text)                                                                                    \
    {                                                                                              \
        CS_TURN_SYSTEM, text                                                                       \
    }
#define U(text)                                                                                    \
    {                                                                                              \
        CS_TURN_USER, text                                                                         \
    }
#define A(text)                                                                                    \
    {                                                                                              \
        CS_TURN_ASSISTANT, text                                                                    \
    }

struct conversation {
    int n;
    struct learn_turn turns[LEARN_TURNS];
};

/* clang-format off */
/* Both ways must come to the same text. */
static const struct conversation alike[] = {
    {2, {U("a"), A("b")}                                                               },
    {3, {S("s"), U("a"), A("b")}                                                       },
    {6, {U("a"), A("b"), U("c"), A("d"), U("e"), A("f")}                               },
    {5, {S("s"), U("a"), A("b"), U("c"), A("d")}                                       },
    {4, {U("  a\n"), A("\n b\t"), U("c\n\n"), A("  d")}                                },
    {5,
     {S(" s \n"), U("\xc2\xa0 a\xe3\x80\x80"),
      A("\xe2\x80\x83"
        "b\x1f"),
      U("c"), A("d\n")}                                                                },
    {4, {U("x <b>{{ y }}</b>\n\nz"), A("1 < 2 & 'q' \"r\""), U("\\n {% if %}"), A("#")}},
    {3, {S("system"), U("user"), A("assistant")}                                       },
    {4, {U("q"), A("<think>\nw\n</think>\n\nx"), U("q"), A("<think>w</think>x")}       },
    {3, {S("Environment: x"), U("[INST] q [/INST]"), A("w</think>x</s>")}              },
    {2, {U("long\nlines\r\nof\ttext"), A("\xc3\xa9\xe6\x97\xa5")}                      },
    {3, {S("a\n\nb"), U("c"), A("d")}                                                  },
};

static const struct conversation unusual[] = {
    {3, {U("a"), U("b"), A("c")}},
    {3, {U("a"), A("b"), A("c")}},
    {3, {A("a"), U("b"), A("c")}},
    {3, {U("a"), A("b"), U("c")}},
};

/* clang-format on */

enum cs_status learn_check(const struct learn *l, struct cs_template *out, struct cs_err *err)
{
    for (size_t i = 0; i < CS_ARRAY_LEN(alike); i++)
        if (alike[i].turns[0].role != CS_TURN_SYSTEM || !out->is_without_system)
            CS_TRY(compare(l, out, alike[i].turns, alike[i].n, err));
    for (size_t i = 0; i < CS_ARRAY_LEN(unusual); i++)
        out->is_alternating |= compare(l, out, unusual[i].turns, unusual[i].n, NULL) != CS_OK;
    return CS_OK;
}
