/* What the files that read one record share (record.c, record_turn.c, record_files.c). */
#ifndef CS_INPUT_DATA_RECORD_READ_H
#define CS_INPUT_DATA_RECORD_READ_H

#include "input/data/record/record.h"

enum { CS_RECORD_PLACE = 96 };

struct cs_record_reader {
    struct cs_record *record;
    const struct cs_record_keys *keys;
    int32_t n_top[CS_MAX_ENCODERS]; /* files at the top of the sample */
    struct cs_media_file
        *videos[CS_MAX_ENCODERS]; /* (n_videos) of the sample, till they join the files */
    int32_t n_videos[CS_MAX_ENCODERS];
    const struct cs_record_bytes *bytes;
    int n_bytes;
    struct cs_err *err;
};

/* "WHERE is VALUE: WHY" */
enum cs_status cs_record_refuse(const struct cs_record_reader *r, const char *where,
                                const json_t *value, const char *why) CS_NODISCARD;
const char *cs_record_text(struct cs_arena *arena, const json_t *text);
/* What an object has under the keys of an encoder's files, or of its videos; name: the key. NULL: nothing. */
const json_t *cs_record_file_of(const struct cs_record_keys *keys, const json_t *object,
                                int encoder, bool is_video, char name[CS_DOC_NAME]);
/* The files of an encoder that stand at `value`: a path, {path} or a list of these. */
enum cs_status cs_record_add_files(struct cs_record_reader *r, int encoder, const char *where,
                                   const json_t *value) CS_NODISCARD;
/* One more file of a list that grows. */
enum cs_status cs_record_append_file(const struct cs_record_reader *r, int encoder,
                                     struct cs_media_file **list, int32_t *n,
                                     const struct cs_media_file *file) CS_NODISCARD;
/* A path, {path} or bytes, as one file. */
enum cs_status cs_record_take_file(struct cs_record_reader *r, const char *where,
                                   const json_t *value, struct cs_media_file *out) CS_NODISCARD;

/* record_videos.c: the same of an encoder's videos: a path, {path}, {frames, fps}, or a list of these, in which a
 * list is the frames of one. is_one: a list is that of one video. node: where fps may stand, or NULL. */
enum cs_status cs_record_add_videos(struct cs_record_reader *r, int encoder, const char *where,
                                    const json_t *value, bool is_one,
                                    const json_t *node) CS_NODISCARD;
/* Pictures and videos of an encoder in the order of their places. */
enum cs_status cs_record_join_videos(struct cs_record_reader *r) CS_NODISCARD;
/* A user's text: its marks become objects. n bytes that live as long as the record. */
enum cs_status cs_record_split_text(struct cs_record_reader *r, struct cs_turn *turn,
                                    const char *text, size_t n) CS_NODISCARD;
/* What an object says of a turn beside its text: whether it trains, what it thought. */
enum cs_status cs_record_read_marks(struct cs_record_reader *r, struct cs_turn *turn,
                                    const char *where, const json_t *node) CS_NODISCARD;
/* record_plain.c. The next of the record's turns, for which there is room; one that holds a text as it is; the
 * system text at the top of a sample, where it has one. */
struct cs_turn *cs_record_next_turn(struct cs_record_reader *r, enum cs_turn_role role);
void cs_record_add_plain(struct cs_record_reader *r, enum cs_turn_role role, const json_t *text);
enum cs_status cs_record_read_system(struct cs_record_reader *r, const json_t *item) CS_NODISCARD;
/* {user, assistant}: two turns in one object. */
bool cs_record_is_exchange(const json_t *node);
enum cs_status cs_record_read_exchange(struct cs_record_reader *r, const char *where,
                                       const json_t *node) CS_NODISCARD;
/* A sample without a list of turns: a question and its answer as keys of their own (record_flat.c).
 * *has false: it has neither. */
enum cs_status cs_record_read_flat(struct cs_record_reader *r, const json_t *item,
                                   bool *has) CS_NODISCARD;
/* One turn; where: "conversations[3]". */
enum cs_status cs_record_read_turn(struct cs_record_reader *r, const char *where,
                                   const json_t *node, struct cs_turn *turn) CS_NODISCARD;

#endif
