/* Reads arrays of a golden by their names. */
#include <string.h>

#include "worker/selftest/parts.h"

bool cs_golden_has(const struct cs_golden *golden, const char *name)
{
    return cs_st_find(golden->file, name) != NULL;
}

enum cs_status cs_golden_tensor(const struct cs_golden *golden, const char *name,
                                const struct cs_st_tensor **out, struct cs_err *err)
{
    *out = cs_st_find(golden->file, name);
    if (*out == NULL)
        return cs_fail(err, CS_NOT_FOUND, "%s has no tensor %s", cs_st_path(golden->file), name);
    return CS_OK;
}

enum cs_status cs_golden_floats(const struct cs_golden *golden, const char *name, float **out,
                                int64_t *count, struct cs_err *err)
{
    const struct cs_st_tensor *t;
    CS_TRY(cs_golden_tensor(golden, name, &t, err));
    *out = CS_NEW_ARRAY(golden->arena, float, t->count + 1);
    if (count != NULL)
        *count = t->count;
    return cs_st_read_f32(t, 0, t->count, *out, err);
}

/* element i of a tensor of whole numbers */
static int64_t int_at(const struct cs_st_tensor *t, const void *raw, int64_t i)
{
    const char *at = (const char *)raw + (size_t)i * cs_dtype_bytes(t->dtype);
    int64_t i64;
    int32_t i32;
    if (t->dtype == CS_I64) {
        memcpy(&i64, at, sizeof i64);
        return i64;
    }
    if (t->dtype == CS_I32) {
        memcpy(&i32, at, sizeof i32);
        return i32;
    }
    return *(const unsigned char *)at;
}

enum cs_status cs_golden_ints(const struct cs_golden *golden, const char *name, int64_t **out,
                              int64_t *count, struct cs_err *err)
{
    const struct cs_st_tensor *t;
    CS_TRY(cs_golden_tensor(golden, name, &t, err));
    if (t->dtype != CS_I64 && t->dtype != CS_I32 && t->dtype != CS_U8 && t->dtype != CS_BOOL)
        return cs_fail(err, CS_CORRUPT, "%s: %s is %s, not of whole numbers",
                       cs_st_path(golden->file), name, cs_dtype_name(t->dtype));
    const size_t bytes = (size_t)t->count * cs_dtype_bytes(t->dtype);
    void *raw = cs_arena_alloc(golden->arena, bytes + 1);
    CS_TRY(cs_st_read_raw(t, 0, bytes, raw, err));
    *out = CS_NEW_ARRAY(golden->arena, int64_t, t->count + 1);
    for (int64_t i = 0; i < t->count; i++)
        (*out)[i] = int_at(t, raw, i);
    if (count != NULL)
        *count = t->count;
    return CS_OK;
}
