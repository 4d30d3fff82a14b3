/* Reader: header checks, mapping, lookup, conversion to fp32; see safetensors.h. */
#include "store/safetensors.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/base/system/io.h"

enum {
    MAX_HEADER_BYTES = 100 * 1000 * 1000,
    MAX_HEADER_ITEMS = 8 * 1000 * 1000, /* commas: bounds what the JSON tree can take */
    MAX_NAME_BYTES = 512,
    MAX_DEPTH = 3, /* file, tensor, shape */
};

struct cs_st_file {
    char *path;
    int fd;
    uint64_t file_bytes, data_start;
    void *map;
    struct cs_st_tensor *tensor; /* sorted by name */
    int n_tensors;
    char *names;
};

/* what parsing carries along */
struct header {
    struct cs_st_file *file;
    char *text;
    uint64_t bytes;
    json_t *root;
    struct cs_err *err;
};

typedef unsigned long long ull;

static enum cs_status read_at(int fd, const char *path, void *to, size_t bytes, uint64_t at,
                              struct cs_err *err)
{
    char *out = to;
    size_t done = 0;
    while (done < bytes) {
        ssize_t n = pread(fd, out + done, bytes - done, (off_t)(at + done));
        if (n == -1 && errno == EINTR)
            continue;
        if (n == -1)
            return cs_fail_errno(err, "cannot read %s", path);
        if (n == 0)
            return cs_fail(err, CS_CORRUPT,
                           "file %s was cut while open: %llu bytes are needed, it has %llu", path,
                           (ull)(at + bytes), (ull)(at + done));
        done += (size_t)n;
    }
    return CS_OK;
}

/* Depth and number of items before the JSON library builds a tree of it. */
static enum cs_status prescan(const struct header *h)
{
    int depth = 0, items = 0;
    bool is_string = false;
    for (uint64_t i = 0; i < h->bytes; i++) {
        char c = h->text[i];
        if (is_string) {
            if (c == '\\')
                i++;
            else if (c == '"')
                is_string = false;
            continue;
        }
        is_string = c == '"';
        depth += (c == '{' || c == '[') - (c == '}' || c == ']');
        items += c == ',';
        if (depth > MAX_DEPTH)
            return cs_fail(h->err, CS_CORRUPT, "file %s: header nests deeper than %d levels",
                           h->file->path, MAX_DEPTH);
        if (items > MAX_HEADER_ITEMS)
            return cs_fail(h->err, CS_LIMIT, "file %s: header has more than %d items",
                           h->file->path, MAX_HEADER_ITEMS);
    }
    return CS_OK;
}

static enum cs_status load_header(struct header *h)
{
    struct cs_st_file *file = h->file;
    unsigned char size[8] = {0};
    if (file->file_bytes < 8)
        return cs_fail(h->err, CS_CORRUPT,
                       "file %s: a safetensors file has at least 8 bytes, the file has %llu",
                       file->path, (ull)file->file_bytes);
    CS_TRY(read_at(file->fd, file->path, size, 8, 0, h->err));
    if (memcmp(size, "version ", 8) == 0)
        return cs_fail(
            h->err, CS_CORRUPT,
            "file %s (%llu bytes) is a Git LFS pointer, not the tensors: run git lfs pull",
            file->path, (ull)file->file_bytes);
    for (int i = 7; i >= 0; i--)
        h->bytes = h->bytes << 8 | size[i];
    if (h->bytes > file->file_bytes - 8)
        return cs_fail(h->err, CS_CORRUPT,
                       "file %s: its header alone promises %llu bytes after the first 8, the file "
                       "has %llu bytes (cut off, or not a safetensors file)",
                       file->path, (ull)h->bytes, (ull)file->file_bytes);
    if (h->bytes > MAX_HEADER_BYTES)
        return cs_fail(h->err, CS_LIMIT, "file %s: header of %llu bytes, at most %d are read",
                       file->path, (ull)h->bytes, MAX_HEADER_BYTES);
    h->text = malloc((size_t)h->bytes + 1);
    if (!h->text)
        return cs_fail(h->err, CS_NO_MEMORY, "no memory for the %llu byte header of %s",
                       (ull)h->bytes, file->path);
    CS_TRY(read_at(file->fd, file->path, h->text, (size_t)h->bytes, 8, h->err));
    file->data_start = 8 + h->bytes;
    if (h->bytes == 0 || h->text[0] != '{')
        return cs_fail(h->err, CS_CORRUPT, "file %s: the header does not begin with '{'",
                       file->path);
    return prescan(h);
}

static enum cs_status parse_dtype(const struct header *h, struct cs_st_tensor *t, const json_t *at)
{
    static const char *const foreign[] = {"F8_E4M3", "F8_E5M2", "F8_E8M0", "F4",  "F6_E2M3",
                                          "F6_E3M2", "U16",     "U32",     "U64", "C64"};
    const char *name = json_string_value(at);
    if (!name)
        return cs_fail(h->err, CS_CORRUPT, "file %s, tensor %s: dtype is not a string",
                       h->file->path, t->name);
    for (int i = 0; i < (int)CS_DTYPES; i++)
        if (strcmp(name, cs_dtype_name((enum cs_dtype)i)) == 0) {
            t->dtype = (enum cs_dtype)i;
            return CS_OK;
        }
    for (size_t i = 0; i < CS_ARRAY_LEN(foreign); i++)
        if (strcmp(name, foreign[i]) == 0)
            return cs_fail(h->err, CS_UNSUPPORTED,
                           "file %s, tensor %s: dtype %s is not supported (F32, F16, BF16, F64 and "
                           "plain integers are): convert the file",
                           h->file->path, t->name, name);
    return cs_fail(h->err, CS_CORRUPT, "file %s, tensor %s: unknown dtype \"%.32s\"", h->file->path,
                   t->name, name);
}

static enum cs_status parse_shape(const struct header *h, struct cs_st_tensor *t, const json_t *at)
{
    size_t n = json_array_size(at);
    uint64_t count = 1;
    if (!json_is_array(at))
        return cs_fail(h->err, CS_CORRUPT, "file %s, tensor %s: shape is not an array",
                       h->file->path, t->name);
    if (n > CS_MAX_DIMS)
        return cs_fail(h->err, CS_UNSUPPORTED, "file %s, tensor %s: %zu dimensions, at most %d",
                       h->file->path, t->name, n, CS_MAX_DIMS);
    for (size_t i = 0; i < n; i++) {
        const json_t *dim = json_array_get(at, i);
        json_int_t value = json_integer_value(dim);
        if (!json_is_integer(dim) || value < 0)
            return cs_fail(h->err, CS_CORRUPT,
                           "file %s, tensor %s: shape[%zu] is not a whole number >= 0",
                           h->file->path, t->name, i);
        t->dim[i] = value;
        if (__builtin_mul_overflow(count, (uint64_t)value, &count) || count > INT64_MAX / 8)
            return cs_fail(h->err, CS_CORRUPT, "file %s, tensor %s: the shape overflows",
                           h->file->path, t->name);
    }
    t->n_dims = (int)n;
    t->count = (int64_t)count;
    return CS_OK;
}

static enum cs_status parse_offsets(const struct header *h, struct cs_st_tensor *t,
                                    const json_t *at)
{
    const json_t *first = json_array_get(at, 0), *last = json_array_get(at, 1);
    if (json_array_size(at) != 2 || !json_is_integer(first) || !json_is_integer(last) ||
        json_integer_value(first) < 0 || json_integer_value(last) < json_integer_value(first))
        return cs_fail(
            h->err, CS_CORRUPT,
            "file %s, tensor %s: data_offsets is not [begin, end] with 0 <= begin <= end",
            h->file->path, t->name);
    uint64_t begin = (uint64_t)json_integer_value(first), end = (uint64_t)json_integer_value(last);
    uint64_t bytes = (uint64_t)t->count * cs_dtype_bytes(t->dtype);
    if (end - begin != bytes)
        return cs_fail(
            h->err, CS_CORRUPT,
            "file %s, tensor %s: shape and dtype need %llu bytes, data_offsets hold %llu",
            h->file->path, t->name, (ull)bytes, (ull)(end - begin));
    t->offset = begin; /* from the data start until check_layout */
    return CS_OK;
}

static enum cs_status parse_tensor(const struct header *h, struct cs_st_tensor *t,
                                   const json_t *entry)
{
    const json_t *dtype = json_object_get(entry, "dtype"), *shape = json_object_get(entry, "shape"),
                 *offsets = json_object_get(entry, "data_offsets");
    if (json_object_size(entry) != 3 || !dtype || !shape || !offsets)
        return cs_fail(h->err, CS_CORRUPT,
                       "file %s, tensor %s: the entry must have dtype, shape and data_offsets, and "
                       "nothing else",
                       h->file->path, t->name);
    CS_TRY(parse_dtype(h, t, dtype));
    CS_TRY(parse_shape(h, t, shape));
    return parse_offsets(h, t, offsets);
}

static enum cs_status check_metadata(const struct header *h, json_t *meta)
{
    const char *key;
    json_t *value;
    bool is_good = json_is_object(meta);
    json_object_foreach(meta, key, value) is_good = is_good && json_is_string(value);
    if (!is_good)
        return cs_fail(h->err, CS_CORRUPT, "file %s: __metadata__ is not an object of strings",
                       h->file->path);
    return CS_OK;
}

/* room for all tensors and, in one block, for their names */
static enum cs_status reserve(struct header *h)
{
    size_t n = 0, bytes = 1;
    const char *key;
    json_t *value;
    json_object_foreach(h->root, key, value)
    {
        size_t len = strlen(key);
        if (strcmp(key, "__metadata__") == 0)
            continue;
        if (len == 0 || len > MAX_NAME_BYTES)
            return cs_fail(h->err, CS_CORRUPT,
                           "file %s: tensor name \"%.40s\" has %zu bytes, 1 to %d are accepted",
                           h->file->path, key, len, MAX_NAME_BYTES);
        n++;
        bytes += len + 1;
    }
    h->file->names = malloc(bytes);
    h->file->tensor = calloc(n + 1, sizeof *h->file->tensor);
    if (!h->file->names || !h->file->tensor)
        return cs_fail(h->err, CS_NO_MEMORY, "no memory for the %zu tensors of %s", n,
                       h->file->path);
    return CS_OK;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct cs_st_tensor *)a)->name, ((const struct cs_st_tensor *)b)->name);
}

static int by_offset(const void *a, const void *b)
{
    const struct cs_st_tensor *x = a, *y = b;
    if (x->offset != y->offset)
        return x->offset < y->offset ? -1 : 1;
    return (x->count > 0) -
           (y->count > 0); /* empty tensors first: they end where the next begins */
}

static enum cs_status check_layout(const struct header *h)
{
    struct cs_st_file *file = h->file;
    uint64_t end = 0;
    size_t n = (size_t)file->n_tensors;
    qsort(file->tensor, n, sizeof *file->tensor, by_offset);
    for (size_t i = 0; i < n; i++) {
        struct cs_st_tensor *t = &file->tensor[i];
        if (t->offset != end)
            return cs_fail(h->err, CS_CORRUPT,
                           "file %s, tensor %s: data begins at %llu, the tensor before it ends at "
                           "%llu (%s)",
                           file->path, t->name, (ull)t->offset, (ull)end,
                           t->offset < end ? "overlap" : "hole");
        end += (uint64_t)t->count * cs_dtype_bytes(t->dtype);
        t->file = file;
        t->offset += file->data_start;
    }
    if (file->data_start + end != file->file_bytes)
        return cs_fail(h->err, CS_CORRUPT, "file %s: header promises %llu bytes, the file has %llu",
                       file->path, (ull)(file->data_start + end), (ull)file->file_bytes);
    qsort(file->tensor, n, sizeof *file->tensor, by_name);
    return CS_OK;
}

static enum cs_status parse_header(struct header *h)
{
    struct cs_st_file *file = h->file;
    json_error_t why;
    const char *key;
    json_t *value;
    h->root = json_loadb(h->text, (size_t)h->bytes, JSON_REJECT_DUPLICATES, &why);
    if (!h->root)
        return cs_fail(h->err, CS_CORRUPT, "file %s: header of %llu bytes, byte %d: %s", file->path,
                       (ull)h->bytes, why.position, why.text);
    if (!json_is_object(h->root))
        return cs_fail(h->err, CS_CORRUPT, "file %s: the header is not a JSON object", file->path);
    CS_TRY(reserve(h));
    char *names = file->names;
    json_object_foreach(h->root, key, value)
    {
        if (strcmp(key, "__metadata__") == 0) {
            CS_TRY(check_metadata(h, value));
            continue;
        }
        struct cs_st_tensor *t = &file->tensor[file->n_tensors++];
        size_t len = strlen(key) + 1;
        t->name = memcpy(names, key, len);
        names += len;
        CS_TRY(parse_tensor(h, t, value));
    }
    return check_layout(h);
}

static enum cs_status map_file(struct cs_st_file *file, struct cs_err *err)
{
    file->map = mmap(NULL, (size_t)file->file_bytes, PROT_READ, MAP_PRIVATE, file->fd, 0);
    if (file->map == MAP_FAILED) {
        file->map = NULL;
        return cs_fail_errno(err, "cannot map the %llu bytes of %s", (ull)file->file_bytes,
                             file->path);
    }
    for (int i = 0; i < file->n_tensors; i++)
        file->tensor[i].data = (const char *)file->map + file->tensor[i].offset;
    return CS_OK;
}

enum cs_status cs_st_open(const char *path, struct cs_st_file **out, struct cs_err *err)
{
    struct header h = {.err = err};
    enum cs_status status;
    *out = NULL;
    h.file = calloc(1, sizeof *h.file);
    if (!h.file)
        return cs_fail(err, CS_NO_MEMORY, "no memory to open %s", path);
    h.file->fd = -1;
    h.file->path = strdup(path);
    if (!h.file->path) {
        status = cs_fail(err, CS_NO_MEMORY, "no memory to open %s", path);
        goto out;
    }
    status = cs_open_regular(path, &h.file->fd, &h.file->file_bytes, err);
    if (status == CS_OK)
        status = load_header(&h);
    if (status == CS_OK)
        status = parse_header(&h);
    if (status == CS_OK)
        status = map_file(h.file, err);
out:
    json_decref(h.root);
    free(h.text);
    if (status != CS_OK)
        cs_st_close(h.file);
    else
        *out = h.file;
    return status;
}

void cs_st_close(struct cs_st_file *file)
{
    if (!file)
        return;
    if (file->map)
        munmap(file->map, (size_t)file->file_bytes);
    if (file->fd != -1)
        close(file->fd);
    free(file->tensor);
    free(file->names);
    free(file->path);
    free(file);
}

int cs_st_count(const struct cs_st_file *file)
{
    return file->n_tensors;
}

const struct cs_st_tensor *cs_st_at(const struct cs_st_file *file, int index)
{
    CS_ASSERT(index >= 0 && index < file->n_tensors);
    return &file->tensor[index];
}

const struct cs_st_tensor *cs_st_find(const struct cs_st_file *file, const char *name)
{
    struct cs_st_tensor key = {.name = name};
    return bsearch(&key, file->tensor, (size_t)file->n_tensors, sizeof(key), by_name);
}

const char *cs_st_path(const struct cs_st_file *file)
{
    return file->path;
}

enum cs_status cs_st_read_raw(const struct cs_st_tensor *tensor, uint64_t first_byte, size_t bytes,
                              void *out, struct cs_err *err)
{
    uint64_t all = (uint64_t)tensor->count * cs_dtype_bytes(tensor->dtype);
    if (first_byte > all || bytes > all - first_byte)
        return cs_fail(err, CS_INVALID, "tensor %s has %llu bytes, asked for [%llu, %llu)",
                       tensor->name, (ull)all, (ull)first_byte, (ull)(first_byte + bytes));
    if (bytes == 0)
        return CS_OK;
    if (tensor->file)
        return read_at(tensor->file->fd, tensor->file->path, out, bytes,
                       tensor->offset + first_byte, err);
    memcpy(out, (const char *)tensor->data + first_byte, bytes);
    return CS_OK;
}

static void widen(enum cs_dtype dtype, const unsigned char *from, size_t n, float *out)
{
    uint16_t half;
    double wide;
    for (size_t i = 0; dtype == CS_BF16 && i < n; i++) {
        memcpy(&half, from + 2 * i, 2);
        out[i] = cs_f32_from_bf16(half);
    }
    for (size_t i = 0; dtype == CS_F16 && i < n; i++) {
        memcpy(&half, from + 2 * i, 2);
        out[i] = cs_f32_from_f16(half);
    }
    for (size_t i = 0; dtype == CS_F64 && i < n; i++) {
        memcpy(&wide, from + 8 * i, 8);
        out[i] = (float)wide;
    }
}

enum cs_status cs_st_read_f32(const struct cs_st_tensor *tensor, int64_t first, int64_t count,
                              float *out, struct cs_err *err)
{
    enum { CHUNK = 8192 };

    unsigned char chunk[CHUNK * 8];
    size_t width = cs_dtype_bytes(tensor->dtype);
    if (tensor->dtype > CS_F64)
        return cs_fail(err, CS_INVALID, "tensor %s is %s, not a float", tensor->name,
                       cs_dtype_name(tensor->dtype));
    if (first < 0 || count < 0 || first > tensor->count || count > tensor->count - first)
        return cs_fail(err, CS_INVALID, "tensor %s has %lld elements, asked for %lld from %lld",
                       tensor->name, (long long)tensor->count, (long long)count, (long long)first);
    if (tensor->dtype == CS_F32)
        return cs_st_read_raw(tensor, (uint64_t)first * 4, (size_t)count * 4, out, err);
    while (count > 0) {
        int64_t n = count < CHUNK ? count : CHUNK;
        CS_TRY(cs_st_read_raw(tensor, (uint64_t)first * width, (size_t)n * width, chunk, err));
        widen(tensor->dtype, chunk, (size_t)n, out);
        first += n;
        count -= n;
        out += n;
    }
    return CS_OK;
}
