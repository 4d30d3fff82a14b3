/* Reads Thrift's compact protocol. */
#include "input/data/parquet/thrift.h"

enum { DEPTH_MAX = 32 };

enum { BYTE = 3, I16, I32, I64, DOUBLE, BINARY, LIST, SET, MAP, STRUCT };

static uint8_t next(struct cs_thrift *t)
{
    if (t->at < t->end)
        return *t->at++;
    t->is_bad = true;
    return 0;
}

static uint64_t varint(struct cs_thrift *t)
{
    uint64_t out = 0;

    for (int shift = 0; shift < 64; shift += 7) {
        uint8_t b = next(t);
        out |= (uint64_t)(b & 0x7f) << shift;
        if (b < 0x80)
            return out;
    }
    t->is_bad = true;
    return 0;
}

int64_t cs_thrift_i64(struct cs_thrift *t)
{
    uint64_t v = varint(t);

    return (int64_t)(v >> 1) ^ -(int64_t)(v & 1);
}

bool cs_thrift_field(struct cs_thrift *t, struct cs_thrift_field *f)
{
    uint8_t head = t->is_bad ? 0 : next(t);

    if (head == 0 || t->is_bad)
        return false;
    f->type = head & 15;
    f->id = head >> 4 != 0 ? f->id + (head >> 4) : (int)(int16_t)cs_thrift_i64(t);
    return !t->is_bad;
}

const char *cs_thrift_text(struct cs_thrift *t, size_t *n)
{
    uint64_t len = varint(t);
    const char *out = (const char *)t->at;

    *n = 0;
    if (t->is_bad || len > (uint64_t)(t->end - t->at)) {
        t->is_bad = true;
        return "";
    }
    *n = (size_t)len;
    t->at += len;
    return out;
}

size_t cs_thrift_list(struct cs_thrift *t, int *type)
{
    uint8_t head = next(t);
    uint64_t n = head >> 4 == 15 ? varint(t) : (uint64_t)(head >> 4);

    *type = head & 15;
    if (n > (uint64_t)(t->end - t->at))
        t->is_bad = true;
    return t->is_bad ? 0 : (size_t)n;
}

static void skip_bytes(struct cs_thrift *t, uint64_t n)
{
    if (n > (uint64_t)(t->end - t->at))
        t->is_bad = true;
    else
        t->at += n;
}

/* Elements of lists are booleans of one byte; fields have them in their head. */
static void skip_element(struct cs_thrift *t, int type)
{
    if (type == CS_THRIFT_TRUE || type == CS_THRIFT_FALSE)
        (void)next(t);
    else
        cs_thrift_skip(t, type);
}

static void skip_map(struct cs_thrift *t)
{
    uint64_t n = varint(t);
    uint8_t types = n > 0 ? next(t) : 0;

    for (uint64_t i = 0; i < n && !t->is_bad; i++) {
        skip_element(t, types >> 4);
        skip_element(t, types & 15);
    }
}

void cs_thrift_skip(struct cs_thrift *t, int type)
{
    struct cs_thrift_field f = {0};
    size_t n = 0;

    if (t->is_bad || ++t->depth > DEPTH_MAX) {
        t->is_bad = true;
        return;
    }
    if (type == BYTE)
        (void)next(t);
    else if (type == I16 || type == I32 || type == I64)
        (void)varint(t);
    else if (type == DOUBLE)
        skip_bytes(t, 8);
    else if (type == BINARY)
        (void)cs_thrift_text(t, &n);
    else if (type == LIST || type == SET)
        for (size_t left = cs_thrift_list(t, &type); left > 0 && !t->is_bad; left--)
            skip_element(t, type);
    else if (type == MAP)
        skip_map(t);
    else if (type == STRUCT)
        while (cs_thrift_field(t, &f))
            cs_thrift_skip(t, f.type);
    else if (type != CS_THRIFT_TRUE && type != CS_THRIFT_FALSE)
        t->is_bad = true;
    t->depth--;
}
