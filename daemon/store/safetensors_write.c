/* Writer: header, order of tensors, rounding on the way to the file; see safetensors.h. */
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/buf.h"
#include "store/fsio.h"
#include "store/safetensors.h"

enum { CHUNK_ELEMENTS = 16384 };

struct writing {
    const char *path;
    const struct cs_st_out **order;
    int n;
    struct cs_buf header;
    uint64_t data_bytes;
    struct cs_fs_out *out;
    struct cs_err *err;
};

static int64_t elements(const struct cs_st_out *t)
{
    int64_t count = 1;
    for (int i = 0; i < t->n_dims; i++)
        count *= t->dim[i];
    return count;
}

uint64_t cs_st_out_bytes(const struct cs_st_out *t)
{
    return (uint64_t)elements(t) * cs_dtype_bytes(t->dtype);
}

/* descending element size, then name */
static int in_file_order(const void *a, const void *b)
{
    const struct cs_st_out *x = *(const struct cs_st_out *const *)a,
                           *y = *(const struct cs_st_out *const *)b;
    size_t x_bytes = cs_dtype_bytes(x->dtype), y_bytes = cs_dtype_bytes(y->dtype);
    if (x_bytes != y_bytes)
        return x_bytes > y_bytes ? -1 : 1;
    return strcmp(x->name, y->name);
}

static int by_name(const void *a, const void *b)
{
    return strcmp((*(const struct cs_st_out *const *)a)->name,
                  (*(const struct cs_st_out *const *)b)->name);
}

static enum cs_status check(const struct writing *w)
{
    for (int i = 0; i < w->n; i++) {
        const struct cs_st_out *t = w->order[i];
        uint64_t count = 1;
        bool is_float = t->dtype <= CS_F64;
        for (int d = 0; d < t->n_dims && t->n_dims <= CS_MAX_DIMS; d++)
            if (t->dim[d] < 0 || __builtin_mul_overflow(count, (uint64_t)t->dim[d], &count) ||
                count > INT64_MAX / 8)
                return cs_fail(w->err, CS_INVALID, "%s, tensor %s: bad shape", w->path, t->name);
        if (t->n_dims < 0 || t->n_dims > CS_MAX_DIMS || strlen(t->name) == 0 ||
            strlen(t->name) > 512 || strcmp(t->name, "__metadata__") == 0)
            return cs_fail(w->err, CS_INVALID,
                           "%s: tensor \"%.60s\" has a bad name or %d dimensions", w->path, t->name,
                           t->n_dims);
        if (!is_float && (t->is_f32 || t->fill))
            return cs_fail(w->err, CS_INVALID, "%s, tensor %s: fp32 values cannot be stored as %s",
                           w->path, t->name, cs_dtype_name(t->dtype));
        if (t->from && ((uint64_t)t->from->count != count ||
                        (t->from->dtype != t->dtype && !(is_float && t->from->dtype <= CS_F64))))
            return cs_fail(w->err, CS_INVALID, "%s, tensor %s: source is %s of %lld elements",
                           w->path, t->name, cs_dtype_name(t->from->dtype),
                           (long long)t->from->count);
        if (count > 0 && !t->data && !t->from && !t->fill)
            return cs_fail(w->err, CS_INVALID, "%s, tensor %s: no values", w->path, t->name);
        if (i > 0 && strcmp(w->order[i - 1]->name, t->name) == 0)
            return cs_fail(w->err, CS_INVALID, "%s: tensor %s is given twice", w->path, t->name);
    }
    return CS_OK;
}

/* JSON string with its quotes; fails when name is not UTF-8 */
static enum cs_status add_quoted(struct writing *w, const char *name)
{
    json_t *string = json_string(name);
    char *text = string ? json_dumps(string, JSON_ENCODE_ANY) : NULL;
    json_decref(string);
    if (!text)
        return cs_fail(w->err, CS_INVALID, "%s: a tensor name is not UTF-8", w->path);
    cs_buf_adds(&w->header, text);
    free(text);
    return CS_OK;
}

static enum cs_status make_header(struct writing *w)
{
    uint64_t at = 0;
    cs_buf_adds(&w->header, "{\"__metadata__\":{\"format\":\"pt\"}");
    for (int i = 0; i < w->n; i++) {
        const struct cs_st_out *t = w->order[i];
        uint64_t end = at + cs_st_out_bytes(t);
        cs_buf_addc(&w->header, ',');
        CS_TRY(add_quoted(w, t->name));
        cs_buf_addf(&w->header, ":{\"dtype\":\"%s\",\"shape\":[", cs_dtype_name(t->dtype));
        for (int d = 0; d < t->n_dims; d++)
            cs_buf_addf(&w->header, d ? ",%" PRId64 : "%" PRId64, t->dim[d]);
        cs_buf_addf(&w->header, "],\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]}", at, end);
        at = end;
    }
    cs_buf_addc(&w->header, '}');
    while (w->header.len % 8 != 0) /* data starts 8-aligned */
        cs_buf_addc(&w->header, ' ');
    w->data_bytes = at;
    return CS_OK;
}

static void narrow(enum cs_dtype dtype, const float *from, size_t n, unsigned char *out)
{
    for (size_t i = 0; i < n; i++) {
        double wide = (double)from[i];
        uint16_t half = dtype == CS_BF16 ? cs_bf16_from_f32(from[i]) : cs_f16_from_f32(from[i]);
        if (dtype == CS_F64)
            memcpy(out + 8 * i, &wide, 8);
        else
            memcpy(out + 2 * i, &half, 2);
    }
}

/* values: fp32, count of them */
static enum cs_status put_f32(struct writing *w, enum cs_dtype dtype, const float *values,
                              size_t count)
{
    unsigned char out[8 * 1024];
    if (dtype == CS_F32)
        return cs_fs_out_write(w->out, values, count * 4, w->err);
    for (size_t n = 0; count > 0; count -= n, values += n) {
        n = count < 1024 ? count : 1024;
        narrow(dtype, values, n, out);
        CS_TRY(cs_fs_out_write(w->out, out, n * cs_dtype_bytes(dtype), w->err));
    }
    return CS_OK;
}

static enum cs_status put_copy(struct writing *w, const struct cs_st_out *t, void *chunk)
{
    int64_t count = t->from->count;
    size_t width = cs_dtype_bytes(t->dtype);
    for (int64_t first = 0, n = 0; first < count; first += n) {
        n = count - first < CHUNK_ELEMENTS ? count - first : CHUNK_ELEMENTS;
        if (t->from->dtype == t->dtype) {
            CS_TRY(
                cs_st_read_raw(t->from, (uint64_t)first * width, (size_t)n * width, chunk, w->err));
            CS_TRY(cs_fs_out_write(w->out, chunk, (size_t)n * width, w->err));
        } else {
            CS_TRY(cs_st_read_f32(t->from, first, n, chunk, w->err));
            CS_TRY(put_f32(w, t->dtype, chunk, (size_t)n));
        }
    }
    return CS_OK;
}

static enum cs_status put_filled(struct writing *w, const struct cs_st_out *t)
{
    size_t count = (size_t)elements(t);
    float *values = malloc(count * sizeof(float) + 1);
    if (!values)
        return cs_fail(w->err, CS_NO_MEMORY, "no memory for the %zu values of %s", count, t->name);
    enum cs_status status = t->fill(t->fill_user, t, values, w->err);
    if (status == CS_OK)
        status = put_f32(w, t->dtype, values, count);
    free(values);
    return status;
}

static enum cs_status put_all(struct writing *w)
{
    unsigned char size[8];
    enum cs_status status;
    void *chunk = malloc((size_t)CHUNK_ELEMENTS * 8);
    if (!chunk)
        return cs_fail(w->err, CS_NO_MEMORY, "no memory to write %s", w->path);
    for (int i = 0; i < 8; i++)
        size[i] = (unsigned char)((uint64_t)w->header.len >> (8 * i));
    status = cs_fs_out_write(w->out, size, 8, w->err);
    if (status == CS_OK)
        status = cs_fs_out_write(w->out, w->header.data, w->header.len, w->err);
    for (int i = 0; i < w->n && status == CS_OK; i++) {
        const struct cs_st_out *t = w->order[i];
        if (elements(t) == 0)
            continue;
        if (t->from)
            status = put_copy(w, t, chunk);
        else if (t->fill)
            status = put_filled(w, t);
        else if (t->is_f32)
            status = put_f32(w, t->dtype, t->data, (size_t)elements(t));
        else
            status = cs_fs_out_write(w->out, t->data, (size_t)cs_st_out_bytes(t), w->err);
    }
    free(chunk);
    return status;
}

enum cs_status cs_st_write(const char *path, const struct cs_st_out *tensor, int n, char xxh3[33],
                           uint64_t *bytes, struct cs_err *err)
{
    struct writing w = {.path = path, .n = n, .err = err};
    enum cs_status status;
    w.order = calloc((size_t)n + 1, sizeof *w.order);
    if (!w.order)
        return cs_fail(err, CS_NO_MEMORY, "no memory to write %s", path);
    for (int i = 0; i < n; i++)
        w.order[i] = &tensor[i];
    qsort(w.order, (size_t)n, sizeof *w.order, by_name); /* duplicates side by side */
    status = check(&w);
    qsort(w.order, (size_t)n, sizeof *w.order, in_file_order);
    if (status == CS_OK)
        status = make_header(&w);
    if (status == CS_OK)
        status = cs_fs_out_open(path, 8 + w.header.len + w.data_bytes, &w.out, err);
    if (status == CS_OK)
        status = put_all(&w);
    if (status == CS_OK)
        status = cs_fs_out_commit(w.out, xxh3, err);
    if (status == CS_OK && bytes)
        *bytes = 8 + w.header.len + w.data_bytes;
    cs_fs_out_close(w.out);
    cs_buf_free(&w.header);
    free(w.order);
    return status;
}
