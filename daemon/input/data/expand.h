/* Puts what a file becomes (media/layout.h) in the place of its placeholder in a rendered
 * conversation: text around and between its rows, and one placeholder for every run of rows. So the
 * whole text is tokenised once, and tokens may join what the pieces and the conversation say. */
#ifndef CS_INPUT_DATA_EXPAND_H
#define CS_INPUT_DATA_EXPAND_H

#include "input/chat/template.h"
#include "input/media/layout.h"
#include "input/tok/tokenizer.h"

/* One file of a sample. Everything is in the record's arena. */
struct cs_sample_media {
    int32_t encoder;
    const struct cs_media_file *file; /* of the record */
    struct cs_medium medium;          /* what was laid out; pixels 0: its size does not matter */
    struct cs_media_layout layout;
    int32_t *row;    /* (layout.n_rows) row of the sample of every placeholder row, ascending */
    int32_t *source; /* (layout.n_rows) what fills it: fills.h */
};

/* A placeholder of the expanded text: rows [first, first + n) of a medium. */
struct cs_media_run {
    int32_t medium, first, n;
};

struct cs_expansion {
    struct cs_rendering rendering;
    struct cs_media_run *runs; /* in the order of the text */
    int32_t n_runs, cap;
};

struct cs_expand_config {
    const struct cs_tokenizer *tok;      /* text that is one token is left away where it has none */
    const char *const *token;            /* by encoder */
    const struct cs_sample_media *media; /* in the order of their placeholders */
    int32_t n_media;
};

/* out: zero at first, its memory is used again. CS_LIMIT: the text becomes too long. */
enum cs_status cs_expand(const struct cs_expand_config *config, const struct cs_rendering *from,
                         struct cs_expansion *out, struct cs_err *err) CS_NODISCARD;
void cs_expansion_free(struct cs_expansion *expansion);

#endif
