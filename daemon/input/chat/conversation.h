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
    bool is_video;                     /* of an encoder of pictures: a video stands here */
    bool is_cut_before, is_cut_behind; /* a text: a placeholder was written right there in it */
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

/* Where the bytes of one medium lie: in a file of its own, in a part of a file, or in memory. */
struct cs_media_file {
    const char *name; /* the path below the root of the data set, else what messages call it */
    const char *pack; /* path of the file that holds it from `offset` on; NULL: a file of its own */
    const void *bytes; /* (n_bytes) as long as the record lives; NULL: on disk */
    uint64_t offset, n_bytes;
    bool is_video; /* its key says so: a file, a folder of pictures, or a list of them */
    const struct cs_media_file *frames; /* (n_frames) of a list; NULL: none */
    int32_t n_frames;
    double fps;     /* of a list or folder, as the sample says; 0: not known */
    int32_t source; /* of a mixture: below whose root the path is */
};

struct cs_record {
    struct cs_arena *arena;
    const char *id;      /* "" when it has none */
    const char *channel; /* what its loss is reported under; "": nothing said */
    uint64_t index;      /* in the data set */
    bool is_text;        /* a text alone: its only turn is an answer to nothing */
    struct cs_turn *turns;
    int32_t n_turns;
    /* media per encoder, in order of their placeholders */
    struct cs_media_file *files[CS_MAX_ENCODERS];
    int32_t n_files[CS_MAX_ENCODERS];
};

#endif
