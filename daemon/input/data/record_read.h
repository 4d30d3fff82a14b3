/* What the files that read one record share (record.c, record_turn.c, record_files.c). */
#ifndef CS_INPUT_DATA_RECORD_READ_H
#define CS_INPUT_DATA_RECORD_READ_H

#include "input/data/record.h"

enum { CS_RECORD_PLACE = 96 };

struct cs_record_reader {
    struct cs_record *record;
    const struct cs_record_keys *keys;
    int32_t n_top[CS_MAX_ENCODERS]; /* files at the top of the sample */
    struct cs_err *err;
};

/* "WHERE is VALUE: WHY" */
enum cs_status cs_record_refuse(const struct cs_record_reader *r, const char *where,
                                const json_t *value, const char *why) CS_NODISCARD;
const char *cs_record_text(struct cs_arena *arena, const json_t *text);
/* The files of an encoder that stand at `value`: a path, {path} or a list of these. */
enum cs_status cs_record_add_files(struct cs_record_reader *r, int encoder, const char *where,
                                   const json_t *value) CS_NODISCARD;
/* One turn; where: "conversations[3]". */
enum cs_status cs_record_read_turn(struct cs_record_reader *r, const char *where,
                                   const json_t *node, struct cs_turn *turn) CS_NODISCARD;

#endif
