/* Renders what stands between the marks of a turn: media, texts, thoughts. */
#include <stdlib.h>
#include <string.h>

#include "input/chat/render.h"

void cs_render_segment(struct cs_rendering *out, const char *text, size_t n, bool is_special,
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

void cs_render_marker(struct render *r, const char *text, bool is_trained)
{
    cs_render_segment(r->out, text, strlen(text), true, is_trained, -1);
}

/* --- media ------------------------------------------------------------------------------------ */

/* The marker that the template writes for this placeholder; NULL: it has none. */
static const char *marker_of(const struct cs_template *chat, const char *token)
{
    for (int i = 0; i < CS_MEDIA; i++)
        if (chat->media.marker[i] != NULL && strstr(chat->media.marker[i], token) != NULL)
            return chat->media.marker[i];
    return NULL;
}

static void medium(struct render *r, int encoder, const char *token, size_t n)
{
    const char *marker = marker_of(r->chat, token), *at = NULL;

    if (marker == NULL) {
        cs_render_segment(r->out, token, n, true, false, encoder);
        return;
    }
    at = strstr(marker, token);
    cs_render_segment(r->out, marker, (size_t)(at - marker), true, false, -1);
    cs_render_segment(r->out, token, n, true, false, encoder);
    cs_render_segment(r->out, at + n, strlen(at + n), true, false, -1);
}

/* Pictures no placeholder stands for, in front of the first user turn (LLaVA's way). */
static void prepend(struct render *r)
{
    for (int e = 0; e < r->n_tokens; e++)
        for (; r->missing[e] > 0; r->missing[e]--) {
            medium(r, e, r->tokens[e], strlen(r->tokens[e]));
            if (marker_of(r->chat, r->tokens[e]) == NULL)
                cs_render_segment(r->out, "\n", 1, false, false, -1);
        }
}

/* --- questions -------------------------------------------------------------------------------- */

static bool begins_with_medium(const struct render *r, const struct cs_turn *turn)
{
    for (int e = 0; e < r->n_tokens; e++)
        if (r->missing[e] > 0)
            return true;
    return turn->n_parts > 0 && turn->parts[0].encoder >= 0;
}

/* A text of a turn: trimmed where the template says so. is_left_kept: what stands before it belongs to it. */
static void text_part(struct render *r, const struct cs_turn *turn, int i, bool is_left_kept)
{
    const struct cs_part *part = &turn->parts[i];
    const bool is_trimmed = r->chat->turn[turn->role].is_trimmed,
               is_each = r->chat->media.is_trimmed;
    struct cs_span span = {part->text, part->len};

    if (is_trimmed && !is_left_kept && (i == 0 || is_each))
        span = cs_span_trim_left(span);
    if (is_trimmed && (i == turn->n_parts - 1 || is_each))
        span = cs_span_trim_right(span);
    cs_render_segment(r->out, span.text, span.len, false, false, -1);
}

/* System turns and questions, in the order in which the template has media and text. */
void cs_render_content(struct render *r, const struct cs_turn *turn, bool is_left_kept)
{
    const struct cs_template_media *how = &r->chat->media;
    const char *lead = turn->role == CS_TURN_USER ? r->chat->turn[CS_TURN_USER].lead : "";
    bool is_led = how->is_spaced && begins_with_medium(r, turn);

    if (!how->is_first && !is_led)
        cs_render_marker(r, lead, false);
    if (turn->role == CS_TURN_USER)
        prepend(r);
    for (int i = 0; i < turn->n_parts; i++)
        if (turn->parts[i].encoder >= 0 && how->is_first)
            medium(r, turn->parts[i].encoder, turn->parts[i].text, turn->parts[i].len);
    if (how->is_first && !how->has_leads)
        cs_render_marker(r, lead, false);
    for (int i = 0; i < turn->n_parts; i++) {
        if (turn->parts[i].encoder >= 0) {
            if (!how->is_first)
                medium(r, turn->parts[i].encoder, turn->parts[i].text, turn->parts[i].len);
            continue;
        }
        if (how->has_leads)
            cs_render_marker(r, lead, false);
        text_part(r, turn, i, is_left_kept);
    }
}

/* --- answers ---------------------------------------------------------------------------------- */

/* The words of marks that stand in a text become marks: what the data writes is kept as it is. */
static void text_with_marks(struct render *r, struct cs_span text, bool is_trained)
{
    const struct cs_span words[] = {cs_thinking_word(r->chat->thinking.open),
                                    cs_thinking_word(r->chat->thinking.close)};
    size_t done = 0;

    for (size_t i = 0; i < text.len; i++)
        for (size_t w = 0; w < CS_ARRAY_LEN(words); w++)
            if (words[w].len <= text.len - i &&
                memcmp(text.text + i, words[w].text, words[w].len) == 0) {
                cs_render_segment(r->out, text.text + done, i - done, false, is_trained, -1);
                cs_render_segment(r->out, text.text + i, words[w].len, true, is_trained, -1);
                done = i + words[w].len;
                i = done - 1;
                break;
            }
    cs_render_segment(r->out, text.text + done, text.len - done, false, is_trained, -1);
}

/* What the template adds where nothing was thought belongs to the prompt. */
static void thought(struct render *r, const struct cs_answer *answer, bool is_trained)
{
    const struct cs_thinking *how = &r->chat->thinking;
    const bool is_said = is_trained && answer->has_thought;

    if (!answer->has_marks)
        return;
    cs_render_marker(r, how->open, is_said && !how->is_prompted);
    cs_render_segment(r->out, answer->thought.text, answer->thought.len, false, is_said, -1);
    cs_render_marker(r, how->close, is_said);
}

void cs_render_answer(struct render *r, const struct cs_turn *turn, int t, bool is_trained)
{
    const struct cs_template_turn *marks = &r->chat->turn[CS_TURN_ASSISTANT];
    const struct cs_thinking *how = &r->chat->thinking;
    struct cs_answer split = {0};
    struct cs_span all = {"", 0};

    cs_buf_reset(&r->joined);
    for (int i = 0; i < turn->n_parts; i++)
        cs_buf_add(&r->joined, turn->parts[i].text, turn->parts[i].len);
    all = (struct cs_span){cs_buf_str(&r->joined), r->joined.len};
    if (marks->is_trimmed)
        all = cs_span_trim(all);
    if (how->open != NULL && how->is_cut)
        all = cs_thinking_cut(how, all, &r->cut);
    split.text = all;
    if (how->open != NULL && !how->is_cut)
        split =
            cs_thinking_split(how, turn, all, t > r->last_question, t + 1 == r->record->n_turns);
    thought(r, &split, is_trained);
    cs_render_marker(r, marks->lead, is_trained);
    if (how->open != NULL && how->mode == CS_THINKING_DATA)
        text_with_marks(r, split.text, is_trained);
    else
        cs_render_segment(r->out, split.text.text, split.text.len, false, is_trained, -1);
}
