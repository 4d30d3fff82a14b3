/* Renders a record by its template: the text, and which segments of it train. */
#include <stdlib.h>
#include <string.h>

#include "core/base/units.h"
#include "input/chat/render.h"

static bool is_space(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

static enum cs_status count_placeholders(struct render *r, struct cs_err *err)
{
    const struct cs_record *record = r->record;

    for (int e = 0; e < r->n_tokens; e++) {
        int found = 0;
        for (int t = 0; t < record->n_turns; t++)
            for (int i = 0; i < record->turns[t].n_parts; i++)
                found += record->turns[t].parts[i].encoder == e;
        r->missing[e] = found == 0 && r->chat->is_prepending ? record->n_files[e] : 0;
        if (found + r->missing[e] != record->n_files[e])
            return cs_fail(err, CS_INVALID, "%d placeholder%s %s for %d file%s", found,
                           CS_PLURAL(found), r->tokens[e], record->n_files[e],
                           CS_PLURAL(record->n_files[e]));
    }
    return CS_OK;
}

static bool has_text(const struct cs_turn *turn)
{
    for (int i = 0; i < turn->n_parts; i++)
        for (size_t k = 0; k < turn->parts[i].len; k++)
            if (!is_space(turn->parts[i].text[k]))
                return true;
    return false;
}

static enum cs_status check_answer(const struct cs_template *chat, const struct cs_turn *turn,
                                   int t, struct cs_err *err)
{
    if (!has_text(turn))
        return cs_fail(err, CS_INVALID, "turn %d: empty answer", t);
    if (turn->thought != NULL && (chat->thinking.open == NULL || chat->thinking.is_cut))
        return cs_fail(
            err, CS_INVALID,
            "turn %d has a thought (reasoning_content), but the chat template has no place "
            "for one: give it \"think\"",
            t);
    return CS_OK;
}

static enum cs_status check_turn(const struct cs_template *chat, const struct cs_record *record,
                                 int t, struct cs_err *err)
{
    const struct cs_turn *turn = &record->turns[t];
    bool is_answer = turn->role == CS_TURN_ASSISTANT;

    if (turn->role == CS_TURN_SYSTEM && t > 0)
        return cs_fail(err, CS_INVALID, "turn %d: a system turn must come first", t);
    if (turn->role == CS_TURN_SYSTEM && chat->is_without_system)
        return cs_fail(err, CS_INVALID, "a system turn, but the chat template has none");
    if (chat->is_alternating && turn->role != CS_TURN_SYSTEM &&
        is_answer != ((t - (record->turns[0].role == CS_TURN_SYSTEM)) % 2 == 1))
        return cs_fail(err, CS_INVALID,
                       "turn %d: the chat template takes user and assistant by turns only", t);
    return is_answer ? check_answer(chat, turn, t, err) : CS_OK;
}

/* The result of a tool, which templates tell by its text, is no question. */
static bool is_question(const struct cs_turn *turn)
{
    static const char open[] = "<tool_response>", close[] = "</tool_response>";
    const struct cs_part *first = turn->parts, *last = turn->parts + turn->n_parts - 1;

    if (turn->role != CS_TURN_USER)
        return false;
    return turn->n_parts == 0 || first->len < sizeof open - 1 || last->len < sizeof close - 1 ||
           memcmp(first->text, open, sizeof open - 1) != 0 ||
           memcmp(last->text + last->len - (sizeof close - 1), close, sizeof close - 1) != 0;
}

/* A conversation without an answer teaches nothing; an empty one teaches to stay silent. */
static enum cs_status check_turns(struct render *r, struct cs_err *err)
{
    const struct cs_record *record = r->record;

    r->first_user = r->last_user = r->last_answer = -1;
    r->last_question = record->n_turns; /* without one no answer stands behind it */
    for (int t = 0; t < record->n_turns; t++) {
        CS_TRY(check_turn(r->chat, record, t, err));
        if (record->turns[t].role == CS_TURN_USER) {
            r->first_user = r->first_user == -1 ? t : r->first_user;
            r->last_user = t;
        }
        if (is_question(&record->turns[t]))
            r->last_question = t;
        if (record->turns[t].role == CS_TURN_ASSISTANT)
            r->last_answer = t;
    }
    if (record->is_text && !r->chat->takes_texts)
        return cs_fail(err, CS_INVALID,
                       "a text without a question: template %s has no place for it, template "
                       "\"plain\" trains on texts",
                       r->chat->name);
    if (r->first_user == -1 && !record->is_text)
        return cs_fail(err, CS_INVALID, "no user turn");
    if (r->last_answer == -1)
        return cs_fail(err, CS_INVALID, "no assistant turn: nothing to train on");
    return CS_OK;
}

/* The system turn of the sample, else that of the template. */
static enum cs_status choose_system(struct render *r, struct cs_err *err)
{
    bool is_own = r->record->turns[0].role == CS_TURN_SYSTEM;

    if (is_own)
        r->system = r->record->turns[0];
    else if (r->chat->is_dated)
        return cs_fail(
            err, CS_INVALID,
            "no system turn: the chat template would write today's date into one; give the "
            "samples a system turn or the template a default_system");
    r->has_system = is_own || r->chat->has_default_system;
    return CS_OK;
}

/* The system text where it stands, between its marks. */
static void system_turn(struct render *r)
{
    const struct cs_template_turn *marks = &r->chat->turn[CS_TURN_SYSTEM];
    const char *text = r->chat->default_system;

    cs_render_marker(r, marks->prefix, false);
    if (r->record->turns[0].role == CS_TURN_SYSTEM)
        cs_render_content(r, &r->system, false);
    else
        cs_render_segment(r->out, text, strlen(text), false, false, -1);
    cs_render_marker(r, marks->end, false);
    cs_render_marker(r, marks->suffix, false);
}

/* Does the system text stand inside of this question? */
static bool holds_system(const struct render *r, int t)
{
    if (!r->has_system || r->chat->system_place == CS_SYSTEM_OWN)
        return false;
    return t == (r->chat->system_place == CS_SYSTEM_FIRST ? r->first_user : r->last_user);
}

static void render_turn(struct render *r, int t)
{
    const struct cs_turn *turn = &r->record->turns[t];
    const struct cs_template_turn *marks = &r->chat->turn[turn->role];
    bool is_trained = turn->role == CS_TURN_ASSISTANT && !turn->is_muted &&
                      (!r->chat->is_last_only || t == r->last_answer);

    cs_render_marker(r, marks->prefix, false);
    if (turn->role == CS_TURN_ASSISTANT) {
        cs_render_answer(r, turn, t, is_trained);
    } else {
        bool has_system = holds_system(r, t);
        if (has_system)
            system_turn(r);
        cs_render_content(r, turn, has_system && r->chat->is_system_joined);
    }
    cs_render_marker(r, marks->end, is_trained);
    cs_render_marker(r, marks->suffix, false);
}

enum cs_status cs_template_render(const struct cs_template *chat, const struct cs_record *record,
                                  const char *const *tokens, int n_tokens, struct cs_rendering *out,
                                  struct cs_err *err)
{
    struct render r = {
        .chat = chat, .record = record, .tokens = tokens, .n_tokens = n_tokens, .out = out};

    cs_buf_reset(&out->text);
    out->n = 0;
    CS_TRY(check_turns(&r, err));
    CS_TRY(count_placeholders(&r, err));
    CS_TRY(choose_system(&r, err));
    cs_render_marker(&r, chat->bos, false);
    if (r.has_system && chat->system_place == CS_SYSTEM_OWN)
        system_turn(&r);
    for (int t = 0; t < record->n_turns; t++)
        if (record->turns[t].role != CS_TURN_SYSTEM)
            render_turn(&r, t);
    cs_render_marker(&r, chat->tail, false);
    cs_buf_free(&r.joined);
    cs_buf_free(&r.cut);
    if (out->text.len > CS_TEXT_MAX_BYTES)
        return cs_fail(err, CS_LIMIT, "a conversation of %zu bytes, at most %d", out->text.len,
                       CS_TEXT_MAX_BYTES);
    return CS_OK;
}

void cs_rendering_free(struct cs_rendering *rendering)
{
    cs_buf_free(&rendering->text);
    free(rendering->segments);
    *rendering = (struct cs_rendering){0};
}
