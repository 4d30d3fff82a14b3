/* Where a template has the system turn, and which white space around contents it drops.
 * One thought with learn.c: both try the template out on small conversations. */
#include <string.h>

#include "input/chat/learn.h"

#define PAD " \n"

static const struct learn_turn with_system[] = {
    {.role = CS_TURN_SYSTEM,    .text = "kqsystem"   },
    {.role = CS_TURN_USER,      .text = "kquserone"  },
    {.role = CS_TURN_ASSISTANT, .text = "kqanswerone"},
    {.role = CS_TURN_USER,      .text = "kqusertwo"  },
    {.role = CS_TURN_ASSISTANT, .text = "kqanswertwo"},
};

/* Conversations without a system turn have one of the template's own. */
static enum cs_status take_default(const struct learn *l, const char *head,
                                   const struct learn_gaps *h, struct cs_template *out,
                                   struct cs_err *err)
{
    struct cs_template_turn *system = &out->turn[CS_TURN_SYSTEM];
    const char *bos = cs_tokenizer_named(l->tok, "bos_token"), *rest = NULL;

    out->bos = bos != NULL && learn_begins(head, bos) && learn_begins(h->gap[0], bos) ? bos : "";
    system->prefix = h->gap[0] + strlen(out->bos);
    rest = head + strlen(out->bos);
    if (!learn_begins(rest, system->prefix) ||
        !learn_ends(rest + strlen(system->prefix), system->end))
        return cs_fail(err, CS_UNSUPPORTED,
                       "what begins a conversation without a system turn is none");
    out->default_system = learn_without_end(l, rest + strlen(system->prefix), system->end);
    out->has_default_system = true;
    return CS_OK;
}

/* Every conversation needs a system turn: what stands before it may begin with the tokenizer's own. */
static void take_dated(const struct learn *l, const char *head, const struct learn_gaps *g,
                       struct cs_template *out)
{
    const char *bos = cs_tokenizer_named(l->tok, "bos_token");

    out->is_dated = true;
    out->bos = bos != NULL && learn_begins(g->head, bos) ? bos : "";
    out->turn[CS_TURN_SYSTEM].prefix = g->head + strlen(out->bos);
    out->turn[CS_TURN_SYSTEM].end = head;
}

enum cs_status learn_system(const struct learn *l, const char *head, const struct learn_gaps *g,
                            struct cs_template *out, struct cs_err *err)
{
    struct cs_template_turn *system = &out->turn[CS_TURN_SYSTEM];
    const char *question = out->turn[CS_TURN_USER].prefix;
    const char *inside = cs_arena_printf(l->arena, "%s%s", head, question);
    struct learn_gaps h = {0};

    if (l->is_dated) {
        take_dated(l, head, g, out);
        return CS_OK;
    }
    out->bos = head;
    out->is_without_system = learn_try(l, with_system, 5, false, &h, NULL) != CS_OK;
    if (out->is_without_system)
        return CS_OK;
    for (int i = 1; i < 5; i++)
        if (strcmp(h.gap[i + 1], g->gap[i]) != 0)
            return cs_fail(err, CS_UNSUPPORTED, "a system turn changes the turns behind it");
    if (question[0] != '\0' && learn_begins(h.gap[0], inside) && !learn_ends(h.gap[1], question)) {
        out->system_place = CS_SYSTEM_FIRST;
        system->prefix = h.gap[0] + strlen(inside);
        system->end = h.gap[1];
        return CS_OK;
    }
    if (!learn_ends(h.gap[1], question))
        return cs_fail(err, CS_UNSUPPORTED, "a system turn changes the turns behind it");
    system->end = learn_without_end(l, h.gap[1], question);
    if (!learn_begins(h.gap[0], head))
        return take_default(l, head, &h, out, err);
    system->prefix = h.gap[0] + strlen(head);
    return CS_OK;
}

/* Which ends of contents with white space around them are kept, by turn. */
struct kept {
    bool left[LEARN_TURNS], right[LEARN_TURNS];
};

static enum cs_status try_padded(const struct learn *l, const struct learn_turn *turns, int n,
                                 struct kept *out, struct cs_err *err)
{
    struct learn_turn padded[LEARN_TURNS];
    struct learn_gaps bare = {0}, wide = {0};
    const char *text = NULL;

    for (int i = 0; i < n; i++) {
        padded[i] = turns[i];
        padded[i].text = cs_arena_printf(l->arena, PAD "%s" PAD, turns[i].text);
    }
    CS_TRY(learn_try(l, turns, n, false, &bare, err));
    CS_TRY(learn_render(l, padded, n, false, &text, err));
    for (int i = 0; i <= n; i++) { /* the bare texts stand in the padded ones */
        const char *at = i < n ? strstr(text, turns[i].text) : NULL;
        if (i < n && at == NULL)
            return cs_fail(err, CS_UNSUPPORTED, "white space around turn %d changes it", i + 1);
        wide.gap[i] = i < n ? cs_arena_strndup(l->arena, text, (size_t)(at - text)) : text;
        text = i < n ? at + strlen(turns[i].text) : text;
    }
    for (int i = 0; i < n; i++) {
        const char *left = cs_arena_printf(l->arena, "%s" PAD, bare.gap[i]);
        const char *right = cs_arena_printf(l->arena, PAD "%s", bare.gap[i + 1]);
        out->left[i] = learn_ends(wide.gap[i], left);
        out->right[i] = learn_begins(wide.gap[i + 1], right);
    }
    return CS_OK;
}

enum cs_status learn_trims(const struct learn *l, struct cs_template *out, struct cs_err *err)
{
    const struct learn_turn *turns = out->is_without_system ? &with_system[1] : with_system;
    const int n = out->is_without_system ? 4 : 5, first = n - 4;
    bool is_known[CS_TURN_ROLES] = {false};
    struct kept kept = {0};

    CS_TRY(try_padded(l, turns, n, &kept, err));
    out->is_system_joined = out->system_place == CS_SYSTEM_FIRST && kept.left[first] &&
                            !kept.right[first] && !kept.left[first + 2];
    for (int i = 0; i < n; i++) {
        struct cs_template_turn *turn = &out->turn[turns[i].role];
        bool is_joined = i == first && out->is_system_joined;
        if (kept.left[i] != kept.right[i] && !is_joined)
            return cs_fail(err, CS_UNSUPPORTED, "it changes white space at one end of a turn");
        if (is_known[turns[i].role] && turn->is_trimmed == kept.right[i])
            return cs_fail(err, CS_UNSUPPORTED, "white space around some turns is dropped only");
        turn->is_trimmed = !kept.right[i];
        is_known[turns[i].role] = true;
    }
    return CS_OK;
}
