/* Renders what stands between the marks of a turn: media, texts, thoughts. */
#include <stdio.h>
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

/* The kind whose marker the template writes for this placeholder; CS_MEDIA: it has none. */
static int kind_of(const struct cs_template *chat, const char *token)
{
    int kind = 0;

    while (kind < CS_MEDIA &&
           (chat->media.marker[kind] == NULL || strstr(chat->media.marker[kind], token) == NULL))
        kind++;
    return kind;
}

/* Text of a marker, with the number in it if it lies there. */
static void around(struct render *r, int kind, const char *from, const char *to)
{
    const char *number = r->chat->media.number[kind];
    char digits[16];

    if (number == NULL || number < from || number >= to) {
        cs_render_segment(r->out, from, (size_t)(to - from), true, false, -1);
        return;
    }
    cs_render_segment(r->out, from, (size_t)(number - from), true, false, -1);
    snprintf(digits, sizeof digits, "%d", r->n_written[kind]);
    cs_render_segment(r->out, digits, strlen(digits), true, false, -1);
    cs_render_segment(r->out, number + 1, (size_t)(to - number - 1), true, false, -1);
}

static void medium(struct render *r, int encoder, const char *token, size_t n)
{
    const int kind = kind_of(r->chat, token);

    if (kind == CS_MEDIA) {
        cs_render_segment(r->out, token, n, true, false, encoder);
        return;
    }
    const char *marker = r->chat->media.marker[kind], *at = strstr(marker, token);
    r->n_written[kind]++;
    around(r, kind, marker, at);
    cs_render_segment(r->out, token, n, true, false, encoder);
    around(r, kind, at + n, marker + strlen(marker));
}

/* Pictures no placeholder stands for, in front of the first user turn (LLaVA's way). */
static void prepend(struct render *r)
{
    for (int e = 0; e < r->n_tokens; e++)
        for (; r->missing[e] > 0; r->missing[e]--) {
            medium(r, e, r->tokens[e], strlen(r->tokens[e]));
            if (kind_of(r->chat, r->tokens[e]) == CS_MEDIA)
                cs_render_segment(r->out, "\n", 1, false, false, -1);
        }
}

/* --- questions -------------------------------------------------------------------------------- */

/* The kind of the medium that a question begins with; CS_MEDIA: it begins with none that the template knows. */
static int first_kind(const struct render *r, const struct cs_turn *turn)
{
    const struct cs_part *part = turn->n_parts > 0 ? turn->parts : NULL;

    for (int e = 0; e < r->n_tokens; e++)
        if (r->missing[e] > 0)
            return kind_of(r->chat, r->tokens[e]);
    if (part == NULL || part->encoder < 0)
        return CS_MEDIA;
    return part->is_video ? CS_MEDIUM_VIDEO : kind_of(r->chat, r->tokens[part->encoder]);
}

/* The end of a line between a placeholder and the rest of its text, "<image>\nWhat is it?", is left out where the
 * template writes one with its medium, or puts the medium elsewhere. */
static struct cs_span without_line(const struct render *r, const struct cs_turn *turn, int i)
{
    const struct cs_part *part = &turn->parts[i], *before = i > 0 ? part - 1 : NULL;
    const bool is_first = r->chat->media.is_first;
    const int kind = part->is_cut_before && before->encoder >= 0
                         ? kind_of(r->chat, r->tokens[before->encoder])
                         : CS_MEDIA;
    const char *marker = kind < CS_MEDIA ? r->chat->media.marker[kind] : "";
    const bool has_line = *marker != '\0' && marker[strlen(marker) - 1] == '\n';
    struct cs_span span = {part->text, part->len};

    if (part->is_cut_before && (is_first || has_line) && span.len > 0 && span.text[0] == '\n')
        span = (struct cs_span){span.text + 1, span.len - 1};
    if (part->is_cut_behind && is_first && span.len > 0 && span.text[span.len - 1] == '\n')
        span.len--;
    return span;
}

/* A text of a turn: trimmed where the template says so. is_left_kept: what stands before it belongs to it. */
static void text_part(struct render *r, const struct cs_turn *turn, int i, bool is_left_kept)
{
    const bool is_trimmed = r->chat->turn[turn->role].is_trimmed,
               is_each = r->chat->media.is_trimmed;
    struct cs_span span = without_line(r, turn, i);

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
    const int kind = turn->role == CS_TURN_USER ? first_kind(r, turn) : CS_MEDIA;

    if (!how->is_first && (kind == CS_MEDIA || !how->is_spaced[kind]))
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
