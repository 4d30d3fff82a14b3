/* Takes the values of a page apart. */
#include "input/data/parquet/values.h"

#include <stdlib.h>
#include <string.h>

enum encoding {
    PLAIN,
    PLAIN_DICTIONARY = 2,
    RLE,
    DELTA_NUMBERS = 5,
    DELTA_LENGTHS,
    DELTA_TEXTS,
    DICTIONARY
};

struct page {
    const struct cs_pq_node *leaf;
    const uint8_t *bytes;
    size_t n_bytes, n;
    const struct cs_pq_values *dictionary;
    struct cs_pq_values *out;
    struct cs_err *err;
};

static enum cs_status broken(const struct page *p)
{
    return cs_fail(p->err, CS_CORRUPT, "a page of column %s is broken", p->leaf->name);
}

static enum cs_status no_memory(const struct page *p)
{
    return cs_fail(p->err, CS_NO_MEMORY, "no memory for a page of %zu values of column %s", p->n,
                   p->leaf->name);
}

static uint32_t number_at(const uint8_t *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static size_t fixed_bytes(const struct cs_pq_node *leaf)
{
    static const size_t bytes[] = {1, 4, 8, 12, 4, 8, 0, 0};

    return leaf->type == CS_PQ_FIXED ? (size_t)leaf->type_bytes : bytes[leaf->type];
}

/* All of one length, one behind the other. */
static enum cs_status lay_out(struct page *p, const uint8_t *base, size_t bytes)
{
    p->out->base = base;
    for (size_t i = 0; i < p->n; i++) {
        p->out->at[i] = (uint32_t)(i * bytes);
        p->out->len[i] = (uint32_t)bytes;
    }
    return CS_OK;
}

/* Room of our own, for values that do not stand in the page as they are. */
static bool make_room(struct page *p, size_t bytes)
{
    p->out->own = malloc(bytes + 1);
    return p->out->own != NULL;
}

static enum cs_status read_bits(struct page *p)
{
    if (!make_room(p, p->n))
        return no_memory(p);
    if ((p->n + 7) / 8 > p->n_bytes)
        return broken(p);
    for (size_t i = 0; i < p->n; i++)
        p->out->own[i] = p->bytes[i / 8] >> (i % 8) & 1;
    return lay_out(p, p->out->own, 1);
}

static enum cs_status read_plain(struct page *p)
{
    const size_t bytes = fixed_bytes(p->leaf);
    size_t at = 0;

    if (p->leaf->type == CS_PQ_BOOLEAN)
        return read_bits(p);
    if (p->leaf->type != CS_PQ_BYTES)
        return p->n * bytes <= p->n_bytes ? lay_out(p, p->bytes, bytes) : broken(p);
    p->out->base = p->bytes;
    for (size_t i = 0; i < p->n; i++) {
        uint32_t len = p->n_bytes - at >= 4 ? number_at(p->bytes + at) : UINT32_MAX;
        if (p->n_bytes - at < 4 || len > p->n_bytes - at - 4)
            return broken(p);
        p->out->at[i] = (uint32_t)at + 4;
        p->out->len[i] = len;
        at += 4 + (size_t)len;
    }
    return CS_OK;
}

static enum cs_status read_dictionary(struct page *p)
{
    const struct cs_pq_values *d = p->dictionary;

    if (d == NULL || (p->n > 0 && p->n_bytes == 0) ||
        (p->n > 0 && !cs_pq_hybrid(p->bytes + 1, p->n_bytes - 1, p->bytes[0], p->out->at, p->n)))
        return broken(p);
    p->out->base = d->base;
    for (size_t i = 0; i < p->n; i++) {
        uint32_t which = p->out->at[i];
        if (which >= d->n)
            return broken(p);
        p->out->at[i] = d->at[which];
        p->out->len[i] = d->len[which];
    }
    return CS_OK;
}

static enum cs_status read_rle(struct page *p)
{
    if (p->leaf->type != CS_PQ_BOOLEAN || p->n_bytes < 4 || number_at(p->bytes) > p->n_bytes - 4)
        return broken(p);
    if (!make_room(p, p->n))
        return no_memory(p);
    if (!cs_pq_hybrid(p->bytes + 4, number_at(p->bytes), 1, p->out->at, p->n))
        return broken(p);
    for (size_t i = 0; i < p->n; i++)
        p->out->own[i] = p->out->at[i] != 0;
    return lay_out(p, p->out->own, 1);
}

static enum cs_status read_numbers(struct page *p)
{
    const size_t bytes = fixed_bytes(p->leaf);
    int64_t *numbers = NULL;
    size_t used = 0;

    if (p->leaf->type != CS_PQ_INT32 && p->leaf->type != CS_PQ_INT64)
        return broken(p);
    if (!make_room(p, p->n * 8))
        return no_memory(p);
    numbers = (int64_t *)(void *)p->out->own; /* malloc aligns */
    if (!cs_pq_delta(p->bytes, p->n_bytes, numbers, p->n, &used))
        return broken(p);
    for (size_t i = 0; bytes == 4 && i < p->n; i++) {
        uint32_t low = (uint32_t)numbers[i];
        memcpy(p->out->own + 4 * i, &low, 4);
    }
    return lay_out(p, p->out->own, bytes);
}

/* Lengths into out->len; *used: bytes that they take. */
static enum cs_status read_lengths(struct page *p, const uint8_t *bytes, size_t n_bytes,
                                   uint32_t *out, size_t *used)
{
    int64_t *numbers = malloc((p->n + 1) * sizeof *numbers);
    enum cs_status status = CS_OK;

    if (numbers == NULL)
        return no_memory(p);
    if (!cs_pq_delta(bytes, n_bytes, numbers, p->n, used))
        status = broken(p);
    for (size_t i = 0; i < p->n && status == CS_OK; i++) {
        if (numbers[i] < 0 || numbers[i] > INT32_MAX)
            status = broken(p);
        out[i] = (uint32_t)numbers[i];
    }
    free(numbers);
    return status;
}

static enum cs_status read_delta_lengths(struct page *p)
{
    size_t at = 0;

    CS_TRY(read_lengths(p, p->bytes, p->n_bytes, p->out->len, &at));
    p->out->base = p->bytes;
    for (size_t i = 0; i < p->n; i++) {
        if (p->out->len[i] > p->n_bytes - at)
            return broken(p);
        p->out->at[i] = (uint32_t)at;
        at += p->out->len[i];
    }
    return CS_OK;
}

/* Each value begins with so many bytes of the one before it. shared, len: (n) */
static enum cs_status join(struct page *p, const uint32_t *shared, size_t at)
{
    uint64_t all = 0;
    size_t to = 0;

    for (size_t i = 0; i < p->n; i++)
        all += (uint64_t)shared[i] + p->out->len[i];
    if (all > INT32_MAX)
        return cs_fail(p->err, CS_LIMIT, "a page of column %s has %llu bytes", p->leaf->name,
                       (unsigned long long)all);
    if (!make_room(p, (size_t)all))
        return no_memory(p);
    p->out->base = p->out->own;
    for (size_t i = 0; i < p->n; i++) {
        uint32_t own = p->out->len[i];
        if (own > p->n_bytes - at || shared[i] > (i > 0 ? p->out->len[i - 1] : 0))
            return broken(p);
        if (i > 0)
            memcpy(p->out->own + to, p->out->own + p->out->at[i - 1], shared[i]);
        memcpy(p->out->own + to + shared[i], p->bytes + at, own);
        p->out->at[i] = (uint32_t)to;
        p->out->len[i] = shared[i] + own;
        to += p->out->len[i];
        at += own;
    }
    return CS_OK;
}

static enum cs_status read_delta_texts(struct page *p)
{
    uint32_t *shared = malloc((p->n + 1) * sizeof *shared);
    size_t first = 0, second = 0;
    enum cs_status status = shared != NULL ? CS_OK : no_memory(p);

    if (status == CS_OK)
        status = read_lengths(p, p->bytes, p->n_bytes, shared, &first);
    if (status == CS_OK)
        status = read_lengths(p, p->bytes + first, p->n_bytes - first, p->out->len, &second);
    if (status == CS_OK)
        status = join(p, shared, first + second);
    free(shared);
    return status;
}

static enum cs_status read_any(struct page *p, int encoding)
{
    const bool is_bytes = p->leaf->type == CS_PQ_BYTES || p->leaf->type == CS_PQ_FIXED;

    if (encoding == PLAIN)
        return read_plain(p);
    if (encoding == PLAIN_DICTIONARY || encoding == DICTIONARY)
        return read_dictionary(p);
    if (encoding == RLE)
        return read_rle(p);
    if (encoding == DELTA_NUMBERS)
        return read_numbers(p);
    if (encoding == DELTA_LENGTHS && is_bytes)
        return read_delta_lengths(p);
    if (encoding == DELTA_TEXTS && is_bytes)
        return read_delta_texts(p);
    return cs_fail(p->err, CS_UNSUPPORTED, "column %s has encoding %d, which is not read",
                   p->leaf->name, encoding);
}

enum cs_status cs_pq_values_read(const struct cs_pq_node *leaf, int encoding, const uint8_t *bytes,
                                 size_t n_bytes, size_t n, const struct cs_pq_values *dictionary,
                                 struct cs_pq_values *out, struct cs_err *err)
{
    struct page p = {leaf, bytes, n_bytes, n, dictionary, out, err};
    enum cs_status status = CS_OK;

    *out = (struct cs_pq_values){.n = n};
    if (n > CS_PQ_VALUES_MAX)
        return cs_fail(err, CS_LIMIT, "a page of column %s has %zu values", leaf->name, n);
    out->at = malloc((n + 1) * sizeof *out->at);
    out->len = malloc((n + 1) * sizeof *out->len);
    status = out->at != NULL && out->len != NULL ? read_any(&p, encoding) : no_memory(&p);
    if (status != CS_OK)
        cs_pq_values_free(out);
    return status;
}

void cs_pq_values_free(struct cs_pq_values *values)
{
    free(values->at);
    free(values->len);
    free(values->own);
    *values = (struct cs_pq_values){0};
}
