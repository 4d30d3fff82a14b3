/* One sample as its author wrote it: turns made of text and media placeholders. The data room reads
 * it from an item of a data set (data/record.h), the chat room renders it (template.h). Everything
 * lives in the record's arena. */
#ifndef CS_INPUT_CHAT_CONVERSATION_H
#define CS_INPUT_CHAT_CONVERSATION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/arena.h"
#include "core/model/spec.h"

enum cs_turn_role { CS_TURN_SYSTEM, CS_TURN_USER, CS_TURN_ASSISTANT, CS_TURN_ROLES };

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
    const char
        *thought; /* what an answer thought before it spoke, n_thought bytes; NULL: is not said */
    size_t n_thought;
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

#endif
