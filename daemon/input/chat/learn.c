/* Takes a chat template apart: contents that occur nowhere else show what stands around them. */
#include "input/chat/learn.h"

#include <string.h>

#define SYSTEM "kqsystem"
#define PAD    " \n"

static const struct learn_turn plain[] = {
    {CS_TURN_USER,      "kquserone"  },
    {CS_TURN_ASSISTANT, "kqanswerone"},
    {CS_TURN_USER,      "kqusertwo"  },
    {CS_TURN_ASSISTANT, "kqanswertwo"},
};
static const struct learn_turn with_system[] = {
    {CS_TURN_SYSTEM,    SYSTEM       },
    {CS_TURN_USER,      "kquserone"  },
    {CS_TURN_ASSISTANT, "kqanswerone"},
    {CS_TURN_USER,      "kqusertwo"  },
    {CS_TURN_ASSISTANT, "kqanswertwo"},
};

/* Text around n contents: gap[0] before the first, gap[n] behind the last. */
struct gaps {
    const char *gap[LEARN_TURNS + 1];
};

/* Around turns[0 .. n-1], whose texts stand in `text` in this order, each once. */
static enum cs_status cut(const struct learn *l, const char *text, const struct learn_turn *turns,
                          int n, struct gaps *out, struct cs_err *err)
{
    for (int i = 0; i < n; i++) {
        const char *at = strstr(text, turns[i].text);
        if (at == NULL || strstr(at + 1, turns[i].text) != NULL)
            return cs_fail(err, CS_UNSUPPORTED, "turn %d is %s", i + 1,
                           at == NULL ? "left out, or not in its place" : "written more than once");
        out->gap[i] = cs_arena_strndup(l->arena, text, (size_t)(at - text));
        text = at + strlen(turns[i].text);
    }
    out->gap[n] = text;
    return CS_OK;
}

static enum cs_status try_turns(const struct learn *l, const struct learn_turn *turns, int n,
                                bool has_prompt, struct gaps *out, struct cs_err *err)
{
    const char *text = NULL;

    CS_TRY(learn_render(l, turns, n, has_prompt, &text, err));
    return cut(l, text, turns, n, out, err);
}

static bool begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

static bool ends(const char *text, const char *with)
{
    size_t n = strlen(text), n_with = strlen(with);

    return n >= n_with && strcmp(text + n - n_with, with) == 0;
}

/* text without its end, which it has */
static const char *without_end(const struct learn *l, const char *text, const char *end)
{
    return cs_arena_strndup(l->arena, text, strlen(text) - strlen(end));
}

/* What ends an answer: up to the last special token in it; white space behind that is not trained. */
static void split_end(const struct learn *l, const char *tail, struct cs_template_turn *turn)
{
    size_t n = strlen(tail);

    while (n > 0 && strchr(" \t\r\n", tail[n - 1]) != NULL)
        n--;
    if (n == 0)
        n = strlen(tail);
    turn->end = cs_arena_strndup(l->arena, tail, n);
    turn->suffix = tail + n;
}

/* The prompt for an answer says where the answer begins; without one all that stands before the content
 * belongs to the prompt. */
static void split_answer(const struct learn *l, const char *between, struct cs_template *out)
{
    struct gaps with = {0}, without = {0};
    const char *user_end = "", *prompt = between;

    if (try_turns(l, plain, 1, true, &with, NULL) == CS_OK &&
        try_turns(l, plain, 1, false, &without, NULL) == CS_OK && begins(between, without.gap[1])) {
        user_end = without.gap[1];
        if (begins(with.gap[1], user_end) && begins(between, with.gap[1]) &&
            strcmp(with.gap[1], user_end) != 0)
            prompt = with.gap[1];
    }
    out->turn[CS_TURN_USER].end = user_end;
    out->turn[CS_TURN_ASSISTANT].prefix = cs_arena_strdup(l->arena, prompt + strlen(user_end));
    out->turn[CS_TURN_ASSISTANT].lead = between + strlen(prompt);
}

/* head: all before the first user turn of a conversation without system turn. */
static enum cs_status take_system(const struct learn *l, const char *head, const struct gaps *g,
                                  struct cs_template *out, struct cs_err *err)
{
    struct cs_template_turn *system = &out->turn[CS_TURN_SYSTEM];
    const char *bos = cs_tokenizer_named(l->tok, "bos_token"), *rest = NULL;
    struct gaps h = {0};

    out->bos = head;
    out->is_without_system = try_turns(l, with_system, 5, false, &h, NULL) != CS_OK;
    if (out->is_without_system)
        return CS_OK;
    if (strcmp(h.gap[2], g->gap[1]) != 0 || strcmp(h.gap[3], g->gap[2]) != 0 ||
        strcmp(h.gap[4], g->gap[3]) != 0 || strcmp(h.gap[5], g->gap[4]) != 0 ||
        !ends(h.gap[1], out->turn[CS_TURN_USER].prefix))
        return cs_fail(err, CS_UNSUPPORTED, "a system turn changes the turns behind it");
    system->end = without_end(l, h.gap[1], out->turn[CS_TURN_USER].prefix);
    if (begins(h.gap[0], head)) {
        system->prefix = h.gap[0] + strlen(head);
        return CS_OK;
    }
    /* a system turn of its own stands where the conversation has none */
    out->bos = bos != NULL && begins(head, bos) && begins(h.gap[0], bos) ? bos : "";
    system->prefix = h.gap[0] + strlen(out->bos);
    rest = head + strlen(out->bos);
    if (!begins(rest, system->prefix) || !ends(rest + strlen(system->prefix), system->end))
        return cs_fail(err, CS_UNSUPPORTED,
                       "what begins a conversation without a system turn is none");
    out->default_system = without_end(l, rest + strlen(system->prefix), system->end);
    out->has_default_system = true;
    return CS_OK;
}

/* Contents with white space around them: where it is gone, the role's turns are trimmed. */
static enum cs_status take_trims(const struct learn *l, struct cs_template *out, struct cs_err *err)
{
    const struct learn_turn *turns = out->is_without_system ? plain : with_system;
    const int n = out->is_without_system ? 4 : 5;
    bool is_known[CS_TURN_ROLES] = {false};
    struct learn_turn padded[LEARN_TURNS];
    struct gaps bare = {0}, wide = {0};
    const char *text = NULL;

    for (int i = 0; i < n; i++)
        padded[i] = (struct learn_turn){turns[i].role,
                                        cs_arena_printf(l->arena, PAD "%s" PAD, turns[i].text)};
    CS_TRY(try_turns(l, turns, n, false, &bare, err));
    CS_TRY(learn_render(l, padded, n, false, &text, err));
    CS_TRY(cut(l, text, turns, n, &wide, err));
    for (int i = 0; i < n; i++) {
        struct cs_template_turn *turn = &out->turn[turns[i].role];
        bool is_kept = ends(wide.gap[i], PAD) && begins(wide.gap[i + 1], PAD) &&
                       strlen(wide.gap[i]) > strlen(bare.gap[i]);
        if (is_known[turns[i].role] && turn->is_trimmed == is_kept)
            return cs_fail(err, CS_UNSUPPORTED, "white space around some turns is dropped only");
        turn->is_trimmed = !is_kept;
        is_known[turns[i].role] = true;
    }
    return CS_OK;
}

enum cs_status learn_table(const struct learn *l, struct cs_template *out, struct cs_err *err)
{
    struct gaps g = {0};
    struct cs_template_turn *user = &out->turn[CS_TURN_USER];

    *out = (struct cs_template){
        .name = "the tokenizer's own",
        .bos = "",
        .default_system = "",
        .turn = {{.prefix = "", .lead = "", .end = "", .suffix = ""},
                 {.prefix = "", .lead = "", .end = "", .suffix = ""},
                 {.prefix = "", .lead = "", .end = "", .suffix = ""}},
        .is_prepending = true
    };
    CS_TRY(try_turns(l, plain, 4, false, &g, err));
    if (strcmp(g.gap[1], g.gap[3]) != 0)
        return cs_fail(err, CS_UNSUPPORTED, "the last answer begins otherwise than the first");
    if (!begins(g.gap[2], g.gap[4]))
        return cs_fail(err, CS_UNSUPPORTED, "the last answer ends otherwise than the first");
    if (g.gap[4][0] == '\0')
        return cs_fail(err, CS_UNSUPPORTED,
                       "its answers have no end: a model could not learn to stop");
    user->prefix = g.gap[2] + strlen(g.gap[4]);
    if (!ends(g.gap[0], user->prefix))
        return cs_fail(err, CS_UNSUPPORTED, "the first question begins otherwise than the second");
    split_end(l, g.gap[4], &out->turn[CS_TURN_ASSISTANT]);
    split_answer(l, g.gap[1], out);
    CS_TRY(take_system(l, without_end(l, g.gap[0], user->prefix), &g, out, err));
    return take_trims(l, out, err);
}
