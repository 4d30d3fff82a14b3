/* Reads Thrift's compact protocol, in which Parquet's metadata is written. Bytes of strangers: nothing is
 * believed, and after the first mistake everything reads as zero and is_bad holds. */
#ifndef CS_INPUT_DATA_PARQUET_THRIFT_H
#define CS_INPUT_DATA_PARQUET_THRIFT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { CS_THRIFT_TRUE = 1, CS_THRIFT_FALSE = 2 };

struct cs_thrift {
    const uint8_t *at, *end;
    bool is_bad;
    int depth; /* of structs inside of structs */
};

/* A structure: while (cs_thrift_field(t, &f)) one of cs_thrift_i64, _text, _list, _skip by f.id. Zero-initialise
 * f for each; the field's end is found by itself. */
struct cs_thrift_field {
    int id, type;
};

bool cs_thrift_field(struct cs_thrift *t, struct cs_thrift_field *f);
int64_t cs_thrift_i64(struct cs_thrift *t); /* i16, i32 and i64 */
/* binary and string: a piece of the bytes that are read */
const char *cs_thrift_text(struct cs_thrift *t, size_t *n);
/* How many elements a list has: as many values follow. Bad: more than could stand in the bytes left. */
size_t cs_thrift_list(struct cs_thrift *t, int *type);
void cs_thrift_skip(struct cs_thrift *t, int type);

#endif
