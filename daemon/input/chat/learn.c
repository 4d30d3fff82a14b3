/* Takes a chat template apart: contents that occur nowhere else show what stands around them. */
#include "input/chat/learn.h"

#include <string.h>

static const struct learn_turn plain[] = {
    {.role = CS_TURN_USER,      .text = "kquserone"  },
    {.role = CS_TURN_ASSISTANT, .text = "kqanswerone"},
    {.role = CS_TURN_USER,      .text = "kqusertwo"  },
    {.role = CS_TURN_ASSISTANT, .text = "kqanswertwo"},
};

bool learn_begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

bool learn_ends(const char *text, const char *with)
{
    size_t n = strlen(text), n_with = strlen(with);

    return n >= n_with && strcmp(text + n - n_with, with) == 0;
}

const char *learn_without_end(const struct learn *l, const char *text, const char *end)
{
    return cs_arena_strndup(l->arena, text, strlen(text) - strlen(end));
}

/* Around turns[0 .. n-1], whose texts stand in `text` in this order, each once. */
static enum cs_status cut(const struct learn *l, const char *text, const struct learn_turn *turns,
                          int n, struct learn_gaps *out, struct cs_err *err)
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

enum cs_status learn_try(const struct learn *l, const struct learn_turn *turns, int n,
                         bool has_prompt, struct learn_gaps *out, struct cs_err *err)
{
    struct learn_turn with[LEARN_TURNS] = {
        {.role = CS_TURN_SYSTEM, .text = "kqsystem"}
    };
    const char *text = NULL;

    if (!l->is_dated || turns[0].role == CS_TURN_SYSTEM) {
        CS_TRY(learn_render(l, turns, n, has_prompt, &text, err));
        return cut(l, text, turns, n, out, err);
    }
    CS_ASSERT(n < LEARN_TURNS);
    memcpy(&with[1], turns, (size_t)n * sizeof *turns);
    CS_TRY(learn_render(l, with, n + 1, has_prompt, &text, err));
    CS_TRY(cut(l, text, with, n + 1, out, err));
    out->head = out->gap[0];
    memmove(&out->gap[0], &out->gap[1], (size_t)(n + 1) * sizeof out->gap[0]);
    return CS_OK;
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

/* How much two texts have in common at their beginning, no half of a "<...>" at its end. */
static size_t common(const char *a, const char *b)
{
    size_t n = 0, whole = 0;

    while (a[n] != '\0' && a[n] == b[n])
        n++;
    for (size_t i = 0; i < n; i++)
        if (a[i] == '<' && memchr(a + i, '>', n - i) == NULL) {
            whole = i;
            return whole;
        }
    return n;
}

/* The end of an answer, the beginning of a question, and what ends the conversation. */
static enum cs_status split_ends(const struct learn *l, const struct learn_gaps *g,
                                 struct cs_template *out, struct cs_err *err)
{
    size_t n = common(g->gap[2], g->gap[4]);

    if (g->gap[4][0] == '\0')
        return cs_fail(err, CS_UNSUPPORTED,
                       "its answers have no end: a model could not learn to stop");
    if (n == 0)
        return cs_fail(err, CS_UNSUPPORTED, "the last answer ends otherwise than the first");
    out->tail = g->gap[4] + n;
    out->turn[CS_TURN_USER].prefix = g->gap[2] + n;
    split_end(l, cs_arena_strndup(l->arena, g->gap[4], n), &out->turn[CS_TURN_ASSISTANT]);
    if (!learn_ends(g->gap[0], out->turn[CS_TURN_USER].prefix))
        return cs_fail(err, CS_UNSUPPORTED, "the first question begins otherwise than the second");
    return CS_OK;
}

/* The prompt for an answer says where the answer begins; without one all that stands before the content
 * belongs to the prompt, but a space: the tokens of words hold it. */
static void split_answer(struct learn *l, const char *between, struct cs_template *out)
{
    struct learn_gaps with = {0}, without = {0};
    const char *user_end = "", *prompt = between, *asked = NULL;
    bool is_told = false;

    if (learn_try(l, plain, 1, true, &with, NULL) == CS_OK &&
        learn_try(l, plain, 1, false, &without, NULL) == CS_OK) {
        asked = learn_ends(without.gap[1], out->tail)
                    ? learn_without_end(l, without.gap[1], out->tail)
                    : without.gap[1];
        is_told = strcmp(with.gap[1], without.gap[1]) != 0;
        user_end = learn_begins(between, asked) ? asked : "";
    }
    if (is_told && learn_begins(between, with.gap[1]))
        prompt = with.gap[1];
    if (is_told && learn_begins(with.gap[1], between))
        l->prompt = with.gap[1] + strlen(between);
    if (!is_told) {
        size_t n = strlen(between);
        while (n > strlen(user_end) && between[n - 1] == ' ')
            n--;
        prompt = cs_arena_strndup(l->arena, between, n);
    }
    out->turn[CS_TURN_USER].end = user_end;
    out->turn[CS_TURN_ASSISTANT].prefix = cs_arena_strdup(l->arena, prompt + strlen(user_end));
    out->turn[CS_TURN_ASSISTANT].lead = between + strlen(prompt);
}

enum cs_status learn_table(struct learn *l, struct cs_template *out, struct cs_err *err)
{
    struct learn_gaps g = {0};
    enum cs_status status = CS_OK;

    *out = (struct cs_template){
        .name = "the tokenizer's own",
        .bos = "",
        .default_system = "",
        .tail = "",
        .turn = {{.prefix = "", .lead = "", .end = "", .suffix = ""},
                 {.prefix = "", .lead = "", .end = "", .suffix = ""},
                 {.prefix = "", .lead = "", .end = "", .suffix = ""}},
        .is_prepending = true
    };
    l->fill = l->prompt = "";
    status = learn_try(l, plain, 4, false, &g, err);
    if (status != CS_OK) { /* does it write the day where there is no system turn? */
        l->is_dated = true;
        if (learn_try(l, plain, 4, false, &g, NULL) != CS_OK)
            return status;
    }
    if (!learn_begins(g.gap[3], g.gap[1]))
        return cs_fail(err, CS_UNSUPPORTED, "the last answer begins otherwise than the first");
    l->fill = g.gap[3] + strlen(g.gap[1]);
    CS_TRY(split_ends(l, &g, out, err));
    split_answer(l, g.gap[1], out);
    CS_TRY(learn_system(l, learn_without_end(l, g.gap[0], out->turn[CS_TURN_USER].prefix), &g, out,
                        err));
    return learn_trims(l, out, err);
}

/* Ways to treat thoughts, as templates of today do. */
/* clang-format off */
static const struct cs_thinking ways[] = {
    {.open = NULL},
    {.open = "<think>\n", .close = "\n</think>\n\n", .is_filled = true, .is_final = true},
    {.open = "<think>\n", .close = "\n</think>\n\n", .is_filled = true},
    {.open = "<think>\n", .close = "\n</think>\n\n", .is_filled = true, .is_trimmed = true},
    {.open = "<think>\n", .close = "\n</think>\n\n"},
    {.open = "<think>\n", .close = "\n</think>\n\n", .is_trimmed = true},
    {.open = "<|channel>", .close = "<channel|>", .is_cut = true},
};

/* clang-format on */

static bool fits(const struct learn *l, const struct cs_thinking *way)
{
    if (!way->is_filled)
        return l->fill[0] == '\0';
    return learn_begins(l->fill, way->open) && strcmp(l->fill + strlen(way->open), way->close) == 0;
}

bool learn_thinking(const struct learn *l, int i, struct cs_thinking *out)
{
    for (size_t k = 0; k < CS_ARRAY_LEN(ways); k++) {
        if (!fits(l, &ways[k]) || i-- > 0)
            continue;
        *out = ways[k];
        out->is_prompted = out->open != NULL && !out->is_cut && strcmp(l->prompt, out->open) == 0;
        return true;
    }
    return false;
}
