/* One rendering of a record, shared by the files that make it; private to chat/. */
#ifndef CS_INPUT_CHAT_RENDER_H
#define CS_INPUT_CHAT_RENDER_H

#include "input/chat/thinking.h"

struct render {
    const struct cs_template *chat;
    const struct cs_record *record;
    const char *const *tokens;
    int n_tokens;
    struct cs_rendering *out;
    int missing[CS_MAX_ENCODERS]; /* pictures that no placeholder stands for */
    int n_written[CS_MEDIA];      /* media so far, by kind */
    struct cs_turn system;        /* of the sample */
    bool has_system;              /* the sample's or the template's */
    int first_user, last_user, last_question, last_answer; /* turns; -1: there is none */
    struct cs_buf joined, cut;                             /* scratch of an answer's text */
};

/* Appends a segment; an empty text makes none. */
void cs_render_segment(struct cs_rendering *out, const char *text, size_t n, bool is_special,
                       bool is_trained, int encoder);
void cs_render_marker(struct render *r, const char *text, bool is_trained);
/* A question's or system turn's content, media and text in the order of the template. is_left_kept: what
 * stands before it belongs to it, so that its left end is not trimmed. */
void cs_render_content(struct render *r, const struct cs_turn *turn, bool is_left_kept);
/* An answer with its thought. t: which turn it is. */
void cs_render_answer(struct render *r, const struct cs_turn *turn, int t, bool is_trained);

#endif
