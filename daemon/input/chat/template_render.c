/* Renders a record by its template: the text, and which segments of it train. */
#include <stdlib.h>
#include <string.h>

#include "core/base/str.h"
#include "input/chat/template.h"

struct render {
    const struct cs_template *chat;
    const struct cs_record *record;
    const char *const *tokens;
    int n_tokens;
    struct cs_rendering *out;
};

static void segment(struct cs_rendering *out, const char *text, size_t n, bool is_special,
                    bool is_trained, int encoder)
{
    if (n == 0)
        return;
    if (out->n == out->cap) {
        out->cap = out->cap == 0 ? 32 : out->cap * 2;
        out->segments = realloc(out->segments, out->cap * sizeof *out->segments);
        CS_ASSERT(out->segments != NULL);
    }
    out->segments[out->n++] = (struct cs_segment){
        (uint32_t)out->text.len, (uint32_t)(out->text.len + n), is_special, is_trained, encoder};
    cs_buf_add(&out->text, text, n);
}

static void marker(struct render *r, const char *text, bool is_trained)
{
    segment(r->out, text, strlen(text), true, is_trained, -1);
}

static bool is_space(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

/* White space as Python's str.isspace has it: chat templates trim with str.strip. */
static bool is_python_space(uint32_t c)
{
    return (c >= 9 && c <= 13) || (c >= 0x1c && c <= 0x20) || c == 0x85 || c == 0xa0 ||
           c == 0x1680 || (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 ||
           c == 0x202f || c == 0x205f || c == 0x3000;
}

static void trim_left(struct cs_part *part)
{
    uint32_t c = 0;

    for (size_t n = 0; (n = cs_utf8_decode(part->text, part->len, &c)) > 0 && is_python_space(c);
         part->len -= n)
        part->text += n;
}

static void trim_right(struct cs_part *part)
{
    uint32_t c = 0;

    while (part->len > 0) {
        size_t at = part->len - 1;
        while (at > 0 && ((unsigned char)part->text[at] & 0xc0) == 0x80)
            at--;
        if (cs_utf8_decode(part->text + at, part->len - at, &c) != part->len - at ||
            !is_python_space(c))
            return;
        part->len = at;
    }
}

/* Content of a turn, trimmed at its outer ends where the template says so. */
static void content(struct render *r, const struct cs_turn *turn, bool is_trained)
{
    const bool is_trimmed = r->chat->turn[turn->role].is_trimmed;

    for (int i = 0; i < turn->n_parts; i++) {
        struct cs_part part = turn->parts[i];
        if (part.encoder >= 0) {
            segment(r->out, part.text, part.len, true, false, part.encoder);
            continue;
        }
        if (is_trimmed && i == 0)
            trim_left(&part);
        if (is_trimmed && i == turn->n_parts - 1)
            trim_right(&part);
        segment(r->out, part.text, part.len, false, is_trained, -1);
    }
}

/* Pictures no placeholder stands for, in front of the first user turn (LLaVA's way). */
static void prepend(struct render *r, const int *missing)
{
    for (int e = 0; e < r->n_tokens; e++)
        for (int i = 0; i < missing[e]; i++) {
            segment(r->out, r->tokens[e], strlen(r->tokens[e]), true, false, e);
            segment(r->out, "\n", 1, false, false, -1);
        }
}

static enum cs_status count_placeholders(const struct render *r, int *missing, struct cs_err *err)
{
    const struct cs_record *record = r->record;

    for (int e = 0; e < r->n_tokens; e++) {
        int found = 0;
        for (int t = 0; t < record->n_turns; t++)
            for (int i = 0; i < record->turns[t].n_parts; i++)
                found += record->turns[t].parts[i].encoder == e;
        missing[e] = found == 0 && r->chat->is_prepending ? record->n_files[e] : 0;
        if (found + missing[e] != record->n_files[e])
            return cs_fail(err, CS_INVALID, "%d placeholders %s for %d files", found, r->tokens[e],
                           record->n_files[e]);
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

/* A conversation without an answer teaches nothing; an empty one teaches to stay silent. */
static enum cs_status check_turns(const struct cs_template *chat, const struct cs_record *record,
                                  int *last, struct cs_err *err)
{
    bool has_user = false;

    *last = -1;
    for (int t = 0; t < record->n_turns; t++) {
        const struct cs_turn *turn = &record->turns[t];
        if (turn->role == CS_TURN_SYSTEM && t > 0)
            return cs_fail(err, CS_INVALID, "turn %d: a system turn must come first", t);
        if (turn->role == CS_TURN_SYSTEM && chat->is_without_system)
            return cs_fail(err, CS_INVALID, "a system turn, but the chat template has none");
        if (chat->is_alternating && turn->role != CS_TURN_SYSTEM &&
            (turn->role == CS_TURN_ASSISTANT) !=
                ((t - (record->turns[0].role == CS_TURN_SYSTEM)) % 2 == 1))
            return cs_fail(err, CS_INVALID,
                           "turn %d: the chat template takes user and assistant by turns only", t);
        has_user |= turn->role == CS_TURN_USER;
        if (turn->role != CS_TURN_ASSISTANT)
            continue;
        if (!has_text(turn))
            return cs_fail(err, CS_INVALID, "turn %d: empty answer", t);
        *last = t;
    }
    if (!has_user)
        return cs_fail(err, CS_INVALID, "no user turn");
    if (*last == -1)
        return cs_fail(err, CS_INVALID, "no assistant turn: nothing to train on");
    return CS_OK;
}

static void render_turn(struct render *r, int t, int last, int *missing)
{
    const struct cs_turn *turn = &r->record->turns[t];
    const struct cs_template_turn *marks = &r->chat->turn[turn->role];
    bool is_trained =
        turn->role == CS_TURN_ASSISTANT && !turn->is_muted && (!r->chat->is_last_only || t == last);

    marker(r, marks->prefix, false);
    marker(r, marks->lead, is_trained);
    if (turn->role == CS_TURN_USER) {
        prepend(r, missing);
        memset(missing, 0, CS_MAX_ENCODERS * sizeof *missing);
    }
    content(r, turn, is_trained);
    marker(r, marks->end, is_trained);
    marker(r, marks->suffix, false);
}

enum cs_status cs_template_render(const struct cs_template *chat, const struct cs_record *record,
                                  const char *const *tokens, int n_tokens, struct cs_rendering *out,
                                  struct cs_err *err)
{
    struct render r = {chat, record, tokens, n_tokens, out};
    int missing[CS_MAX_ENCODERS] = {0}, last = -1;

    cs_buf_reset(&out->text);
    out->n = 0;
    CS_TRY(check_turns(chat, record, &last, err));
    CS_TRY(count_placeholders(&r, missing, err));
    marker(&r, chat->bos, false);
    if (record->turns[0].role != CS_TURN_SYSTEM && chat->has_default_system) {
        const struct cs_template_turn *marks = &chat->turn[CS_TURN_SYSTEM];
        marker(&r, marks->prefix, false);
        segment(out, chat->default_system, strlen(chat->default_system), false, false, -1);
        marker(&r, marks->end, false);
        marker(&r, marks->suffix, false);
    }
    for (int t = 0; t < record->n_turns; t++)
        render_turn(&r, t, last, missing);
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
