/* One sample as its author wrote it: turns made of text and media placeholders. Everything lives in
 * the record's arena.
 *
 * Item of a data set: {id, conversations | conversation | messages: [turn], image | images: "path"
 * or [paths]}. A turn is {from, value} or {role, content} with roles human|user,
 * gpt|assistant|model, system, and optionally "loss": false. Content is a string, or a list of
 * {type: "text", text}, {type: "image", image: "path"}. The placeholder of an encoder ("<image>")
 * is an object in user turns written as a string; anywhere else its spelling is text. The key of an
 * encoder's files is its placeholder's name:
 * "<image>" -> image, images. */
#ifndef CS_INPUT_DATA_RECORD_H
#define CS_INPUT_DATA_RECORD_H

#include <jansson.h>

#include "core/base/arena.h"
#include "core/model/spec.h"

enum cs_turn_role { CS_TURN_SYSTEM, CS_TURN_USER, CS_TURN_ASSISTANT, CS_TURN_ROLES };

enum { CS_RECORD_MAX_BYTES = 16 * 1024 * 1024, CS_RECORD_MAX_MEDIA = 4096 };

struct cs_part {
    int32_t encoder;  /* -1: text */
    const char *text; /* not NUL-terminated by meaning: may hold NUL */
    size_t len;
};

struct cs_turn {
    enum cs_turn_role role;
    struct cs_part *parts;
    int32_t n_parts;
    bool is_muted; /* "loss": false */
};

struct cs_record {
    struct cs_arena *arena;
    const char *id; /* "" when it has none */
    uint64_t index; /* in the data set */
    struct cs_turn *turns;
    int32_t n_turns;
    /* files per encoder, in order of their placeholders */
    const char **files[CS_MAX_ENCODERS];
    int32_t n_files[CS_MAX_ENCODERS];
};

/* item -> record; tokens: placeholder of every encoder. What is wrong is CS_INVALID with the key.
 */
enum cs_status cs_record_read(const json_t *item, const char *const *tokens, int n_tokens,
                              struct cs_record **out, struct cs_err *err) CS_NODISCARD;
void cs_record_free(struct cs_record *record); /* accepts NULL */

/* JSON as Python writes it: NaN and Infinity become null, lone surrogates and invalid UTF-8 U+FFFD,
 * integers of more than 18 digits strings. CS_CORRUPT with line and reason. */
enum cs_status cs_json_tolerant(const char *bytes, size_t n, json_t **out,
                                struct cs_err *err) CS_NODISCARD;

#endif
