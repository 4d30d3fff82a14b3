/* The keys of a sample: which are read, which are known and refused, and which key holds the files of
 * which encoder.
 *
 * Pictures belong to the picture encoder: where a job has one, "image" and "images" are its keys
 * whatever its placeholder token is; so are "video" and "videos" where it reads videos; and "audio" and
 * "audios" are those of the only encoder of sounds. Beside them stands the token's own word ("<photo>": photo,
 * photos). Where a job has several, the keys of an encoder are its token's word and its name, so
 * that "image" belongs to the one whose token is <image>. `key` of the encoder overrides all that:
 * "scan": scan, scans.
 *
 * In the text of a user a picture stands as the encoder's token or as one of its keys in angle
 * brackets, LLaVA's "<image>". */
#ifndef CS_INPUT_DATA_RECORD_KEYS_H
#define CS_INPUT_DATA_RECORD_KEYS_H

#include "core/base/arena.h"
#include "core/base/buf.h"
#include "core/doc/doc.h"
#include "core/model/graph.h"

/* What a job says of an encoder. */
struct cs_record_encoder {
    const char *name;  /* of its branch: "vision" */
    const char *token; /* placeholder */
    const char *key;   /* "": see above */
    bool has_sound;    /* its files are sounds */
    bool has_video;    /* it reads videos beside pictures */
};

#define CS_RECORD_TURN_KEYS     "conversations|conversation|messages|texts"
#define CS_RECORD_QUESTION_KEYS "instruction|query|prompt|question"
#define CS_RECORD_ANSWER_KEYS   "output|response|answer|completion"
#define CS_RECORD_CAPTION_KEYS  "caption|text"
#define CS_RECORD_SIDE_KEYS     "user|human"
#define CS_RECORD_OTHER_KEYS    "assistant|gpt"

enum { CS_RECORD_MARKS = 4 };

/* Lives in the arena it was made in; nothing changes it. */
struct cs_record_keys {
    int n;

    struct {
        const char *name, *token;
        const char *names; /* spellings of the key: "image|images|image_url|..." */
        const char *said;  /* those that people are told: "image|images" */
        const char *mark[CS_RECORD_MARKS + 1]; /* in the text; the token first, NULL ends them */
        const char *videos; /* spellings of the key of its videos; NULL: it reads none */
        const char *video_mark[3];
    } encoder[CS_MAX_ENCODERS];

    struct cs_doc_table sample, flat, turn, part; /* flat: samples without a list of turns */
};

/* encoder (n) in the order of the slots. CS_INVALID: two encoders share a key or a mark. */
enum cs_status cs_record_keys_new(const struct cs_record_encoder *encoder, int n,
                                  struct cs_arena *arena, struct cs_record_keys **out,
                                  struct cs_err *err) CS_NODISCARD;
/* The encoders of a job's graph, in its order. */
enum cs_status cs_record_keys_of(const struct cs_graph *graph, struct cs_arena *arena,
                                 struct cs_record_keys **out, struct cs_err *err) CS_NODISCARD;
/* For people: the keys of one encoder, `"image" or "images"`. */
void cs_record_keys_text(const struct cs_record_keys *keys, int encoder, struct cs_buf *out);

#endif
