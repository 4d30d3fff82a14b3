/* Samples: a record as the model sees it - ids with every placeholder expanded to what its file
 * becomes (expand.h), labels, and where the media lie. The same function serves training, evaluation, data
 * check, inspect and cs.lab.render.
 *
 * Labels come from byte spans over the tokenisation of the whole rendered text: a token belongs to
 * the segment in which it starts. They are shifted once: label[t] is the token to predict at row t,
 * -1 elsewhere and in the last row. */
#ifndef CS_INPUT_DATA_SAMPLE_H
#define CS_INPUT_DATA_SAMPLE_H

#include "core/data/slot.h"
#include "input/chat/template.h"
#include "input/data/expand.h"
#include "input/tok/tokenizer.h"

/* What a file of the encoder becomes, one of n_of_sample that its sample has: fills medium and
 * layout. Errors say what is wrong with the file, naming it; CS_NO_MEMORY. */
typedef enum cs_status (*cs_sample_lay_out)(void *user, int32_t n_of_sample, struct cs_arena *arena,
                                            struct cs_sample_media *media, struct cs_err *err);

/* What stays the same for a whole data set; the strings and the tokenizer are the caller's. */
struct cs_sample_rules {
    const struct cs_tokenizer *tok;
    const struct cs_template *chat;
    int32_t n_encoders;
    const char *token[CS_MAX_ENCODERS]; /* placeholder */
    int32_t token_id[CS_MAX_ENCODERS];
    cs_sample_lay_out lay_out; /* may be called from several threads */
    void *user;
    int32_t rows[CS_MAX_ENCODERS];      /* of every file, where lay_out is NULL */
    const struct cs_slot_budget *limit; /* items of a sample must fit a slot; NULL: no limit */
    int32_t seq_tokens;                 /* longest sample, 0: no limit */
    int32_t vocab;                      /* rows of the embedding; ids must be below. 0: unchecked */
};

/* Why a sample cannot be used, where its own text is the reason. */
enum cs_sample_fault {
    CS_SAMPLE_NO_FAULT,
    CS_SAMPLE_TOO_LONG,  /* more rows than seq_tokens */
    CS_SAMPLE_TOO_LARGE, /* more items, or rows or patches of items, than a slot has room for */
    CS_SAMPLE_UNTRAINED, /* no token of it trains */
};

struct cs_sample {
    enum cs_sample_fault fault; /* these two stand also when the sample cannot be made */
    int64_t rows_wanted;        /* after expansion; 0: not known */
    int32_t n_tokens, n_labels, n_media;
    int32_t *ids, *labels;                        /* (n_tokens) */
    struct cs_sample_media *media;                /* (n_media) by first row */
    struct cs_item_shape *shape[CS_MAX_ENCODERS]; /* (n_items) of all media of the encoder */
    int32_t n_items[CS_MAX_ENCODERS], n_rows[CS_MAX_ENCODERS], n_patches[CS_MAX_ENCODERS];
    int64_t n_bytes[CS_MAX_ENCODERS];
    /* bytes [begin, end) of the rendered text that every row came from; for inspect */
    uint32_t *begins, *ends;
};

/* tok becomes special-safe for the placeholders: CS_NOT_FOUND when it lacks one. */
enum cs_status cs_sample_rules_init(struct cs_sample_rules *rules, struct cs_tokenizer *tok,
                                    const struct cs_template *chat, const char *const *tokens,
                                    int n_encoders, struct cs_err *err) CS_NODISCARD;
/* rendering gets the expanded text; the caller keeps it (and may print it). media and what they hold
 * live in the record's arena. What makes a sample unusable is
 * CS_INVALID (placeholders, no trained token) or CS_LIMIT (too long: the whole sample is dropped,
 * never cut); out is empty then but for its fault and rows_wanted. */
enum cs_status cs_sample_make(const struct cs_sample_rules *rules, const struct cs_record *record,
                              struct cs_rendering *rendering, struct cs_sample *out,
                              struct cs_err *err) CS_NODISCARD;
void cs_sample_free(struct cs_sample *sample);

#endif
