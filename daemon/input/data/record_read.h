/* What the files that read one record share (record.c, record_turn.c, record_files.c). */
#ifndef CS_INPUT_DATA_RECORD_READ_H
#define CS_INPUT_DATA_RECORD_READ_H

#include "input/data/record.h"

enum { CS_RECORD_PLACE = 96 };

struct cs_record_reader {
    struct cs_record *record;
    const struct cs_record_keys *keys;
    int32_t n_top[CS_MAX_ENCODERS]; /* files at the top of the sample */
    const struct cs_record_bytes *bytes;
    int n_bytes;
    struct cs_err *err;
};

/* "WHERE is VALUE: WHY" */
enum cs_status cs_record_refuse(const struct cs_record_reader *r, const char *where,
                                const json_t *value, const char *why) CS_NODISCARD;
const char *cs_record_text(struct cs_arena *arena, const json_t *text);
/* The files of an encoder that stand at `value`: a path, {path} or a list of these. */
enum cs_status cs_record_add_files(struct cs_record_reader *r, int encoder, const char *where,
                                   const json_t *value) CS_NODISCARD;
/* A user's text: its marks become objects. n bytes that live as long as the record. */
enum cs_status cs_record_split_text(struct cs_record_reader *r, struct cs_turn *turn,
                                    const char *text, size_t n) CS_NODISCARD;
/* What an object says of a turn beside its text: whether it trains, what it thought. */
enum cs_status cs_record_read_marks(struct cs_record_reader *r, struct cs_turn *turn,
                                    const char *where, const json_t *node) CS_NODISCARD;
/* The system text at the top of a sample, into the first of the record's turns, for which there is room. */
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
