/* Renders conversations with a chat template and with the table that was learnt of it. */
#include <string.h>

#include "input/chat/learn.h"

static const char *const roles[] = {"system", "user", "assistant"};
static const char letters[] = LEARN_MEDIA;

static json_t *content(const struct learn *l, const struct learn_turn *turn)
{
    static const char *const types[] = {"image", "video", "audio"};
    const char *kinds = turn->kinds != NULL ? turn->kinds : "t", *text = turn->text;
    json_t *list = NULL;

    if (turn->kinds == NULL && !l->is_in_parts)
        return json_string(turn->text);
    list = json_array();
    for (; *kinds != '\0'; kinds++) {
        const char *medium = strchr(letters, *kinds);
        if (medium != NULL) {
            json_array_append_new(list, json_pack("{s:s}", "type", types[medium - letters]));
            continue;
        }
        json_array_append_new(list, json_pack("{s:s,s:s}", "type", "text", "text", text));
        text = turn->more;
    }
    return list;
}

static json_t *message(const struct learn *l, const struct learn_turn *turn)
{
    json_t *out = json_pack("{s:s,s:o}", "role", roles[turn->role], "content", content(l, turn));

    if (turn->thought != NULL)
        json_object_set_new(out, "reasoning_content", json_string(turn->thought));
    return out;
}

enum cs_status learn_render(const struct learn *l, const struct learn_turn *turns, int n,
                            bool has_prompt, const char **out, struct cs_err *err)
{
    json_t *messages = json_array();
    json_t *variables =
        json_pack("{s:o,s:b,s:n,s:n,s:s}", "messages", messages, "add_generation_prompt",
                  has_prompt, "tools", "documents", "date_string", CS_TEMPLATE_DATE);
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

/* The parts of a turn; tokens stand for media. */
static void put_parts(const struct learn *l, const struct learn_turn *turn,
                      const char *const *tokens, struct cs_turn *out, int *n_files)
{
    const char *kinds = turn->kinds != NULL ? turn->kinds : "t", *text = turn->text;

    *out = (struct cs_turn){.role = turn->role, .thought = turn->thought};
    out->n_thought = turn->thought != NULL ? strlen(turn->thought) : 0;
    out->parts = CS_NEW_ARRAY(l->arena, struct cs_part, strlen(kinds) + 1);
    for (; *kinds != '\0'; kinds++) {
        const char *medium = strchr(letters, *kinds);
        const char *said = medium != NULL ? tokens[medium - letters] : text;
        int32_t encoder = medium != NULL ? (int32_t)(medium - letters) : -1;
        out->parts[out->n_parts++] =
            (struct cs_part){.encoder = encoder, .text = said, .len = strlen(said)};
        if (medium != NULL)
            n_files[encoder]++;
        else
            text = turn->more;
    }
}

static enum cs_status render_table(const struct learn *l, const struct cs_template *chat,
                                   const struct learn_turn *turns, int n, const char *const *tokens,
                                   const char **out, struct cs_err *err)
{
    struct cs_turn made[LEARN_TURNS] = {{0}};
    struct cs_record record = {.id = "", .turns = made, .n_turns = n};
    struct cs_rendering rendering = {0};
    enum cs_status status = CS_OK;

    for (int i = 0; i < n; i++)
        put_parts(l, &turns[i], tokens, &made[i], record.n_files);
    status =
        cs_template_render(chat, &record, tokens, tokens != NULL ? CS_MEDIA : 0, &rendering, err);
    if (status == CS_OK)
        *out = cs_arena_strndup(l->arena, cs_buf_str(&rendering.text), rendering.text.len);
    cs_rendering_free(&rendering);
    return status;
}

enum cs_status learn_compare(const struct learn *l, const struct cs_template *chat,
                             const struct learn_turn *turns, int n, const char *const *tokens,
                             struct cs_err *err)
{
    const char *want = NULL, *got = NULL;
    size_t at = 0;

    CS_TRY(learn_render(l, turns, n, false, &want, err));
    CS_TRY(render_table(l, chat, turns, n, tokens, &got, err));
    if (strcmp(want, got) == 0)
        return CS_OK;
    while (want[at] == got[at])
        at++;
    at = at > 10 ? at - 10 : 0;
    return cs_fail(err, CS_UNSUPPORTED,
                   "it changes \"%.40s\": it writes \"%.40s\", a table \"%.40s\"",
                   turns[n - 1].text, want + at, got + at);
}

/* clang-format off */
#define S(...) {.role = CS_TURN_SYSTEM, .text = __VA_ARGS__}
#define U(...) {.role = CS_TURN_USER, .text = __VA_ARGS__}
#define A(...) {.role = CS_TURN_ASSISTANT, .text = __VA_ARGS__}

struct conversation {
    int n;
    struct learn_turn turns[LEARN_TURNS];
};

/* Both ways must come to the same text. */
static const struct conversation alike[] = {
    {2, {U("a"), A("b")}},
    {3, {S("s"), U("a"), A("b")}},
    {6, {U("a"), A("b"), U("c"), A("d"), U("e"), A("f")}},
    {5, {S("s"), U("a"), A("b"), U("c"), A("d")}},
    {4, {U("  a\n"), A("\n b\t"), U("c\n\n"), A("  d")}},
    {5, {S(" s \n"), U("\xc2\xa0 a\xe3\x80\x80"), A("\xe2\x80\x83" "b\x1f"), U("c"), A("d\n")}},
    {5, {S("\n\ns"), U("\n a \n"), A("\n\nb\n"), U("\nc\n"), A("\n\nd\n")}},
    {4, {U("x <b>{{ y }}</b>\n\nz"), A("1 < 2 & 'q' \"r\""), U("\\n {% if %}"), A("#")}},
    {3, {S("system"), U("user"), A("assistant")}},
    {4, {U("q"), A("<think>\nw\n</think>\n\nx"), U("q"), A("<think>w</think>x")}},
    {4, {U("q"), A("<think>w</think>x"), U("q"), A(" \n<think>\n\n w \n</think>\n\n x\n")}},
    {4, {U("q"), A("</think>x"), U("q"), A("<think>\n\n</think>\n\nx")}},
    {4, {U("q"), A("<think>x"), U("</think><think>"), A("a</think>b</think>c")}},
    {2, {U("q"), A("<think>a<think>b</think>c<think>d")}},
    {4, {U("<tool_response>\nr\n</tool_response>"), A("x"), U("<tool_response>"), A("y")}},
    {4, {U("q"), A("x"), U("<tool_response>\nr\n</tool_response>"), A("<think>w</think>y")}},
    {4, {U("q"), A("<|channel>thought\nw<channel|>x"), U("q<|channel>"), A("a<channel|>b <|channel>c")}},
    {3, {S("Environment: x"), U("[INST] q [/INST]"), A("w</think>x</s>")}},
    {2, {U("long\nlines\r\nof\ttext"), A("\xc3\xa9\xe6\x97\xa5")}},
    {3, {S("a\n\nb"), U("c"), A("d")}},
};

/* The same with thoughts as texts of their own. */
static const struct conversation thoughtful[] = {
    {4, {U("q"), A("x", .thought = "w"), U("q"), A("y", .thought = "\n v \n")}},
    {4, {U("q"), A("x\n"), U("q"), A("\n y", .thought = "")}},
    {2, {U("q"), A("<think>a</think>b", .thought = "w")}},
};

static const struct conversation unusual[] = {
    {3, {U("a"), U("b"), A("c")}},
    {3, {U("a"), A("b"), A("c")}},
    {3, {A("a"), U("b"), A("c")}},
    {3, {U("a"), A("b"), U("c")}},
    {4, {S("s"), U("a"), U("b"), A("c")}},
    {4, {S("s"), U("a"), A("b"), A("c")}},
};

/* clang-format on */

/* Dated templates are only right with a system turn, those without one only without. */
static bool is_possible(const struct cs_template *chat, const struct conversation *c)
{
    bool has_system = c->turns[0].role == CS_TURN_SYSTEM;

    return has_system ? !chat->is_without_system : !chat->is_dated;
}

static enum cs_status compare_all(const struct learn *l, const struct cs_template *chat,
                                  const struct conversation *list, size_t n, struct cs_err *err)
{
    struct conversation dated = {0};

    for (size_t i = 0; i < n; i++) {
        const struct conversation *c = &list[i];
        if (chat->is_dated && c->turns[0].role != CS_TURN_SYSTEM && c->n < LEARN_TURNS) {
            dated.turns[0] = (struct learn_turn)S("s");
            memcpy(&dated.turns[1], c->turns, (size_t)c->n * sizeof c->turns[0]);
            dated.n = c->n + 1;
            c = &dated;
        }
        if (is_possible(chat, c))
            CS_TRY(learn_compare(l, chat, c->turns, c->n, NULL, err));
    }
    return CS_OK;
}

enum cs_status learn_check(const struct learn *l, struct cs_template *out, struct cs_err *err)
{
    CS_TRY(compare_all(l, out, alike, CS_ARRAY_LEN(alike), err));
    if (out->thinking.open != NULL && !out->thinking.is_cut)
        CS_TRY(compare_all(l, out, thoughtful, CS_ARRAY_LEN(thoughtful), err));
    for (size_t i = 0; i < CS_ARRAY_LEN(unusual); i++)
        out->is_alternating |= compare_all(l, out, &unusual[i], 1, NULL) != CS_OK;
    return CS_OK;
}
