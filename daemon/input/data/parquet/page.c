/* Unpacks a page and takes its levels apart. */
#include "input/data/parquet/page.h"

#include <stdlib.h>
#include <string.h>

#include "input/data/parquet/codec.h"

/* --- heads ------------------------------------------------------------------------------------ */

static void read_data(struct cs_thrift *t, struct cs_pq_head *out)
{
    struct cs_thrift_field f = {0};

    while (cs_thrift_field(t, &f))
        if (f.id == 1)
            out->n_values = cs_thrift_i64(t);
        else if (f.id == 2)
            out->encoding = (int)cs_thrift_i64(t);
        else
            cs_thrift_skip(t, f.type);
}

static void read_data_2(struct cs_thrift *t, struct cs_pq_head *out)
{
    struct cs_thrift_field f = {0};

    while (cs_thrift_field(t, &f)) {
        int64_t *const fields[] = {NULL, &out->n_values,  NULL,           &out->n_rows,
                                   NULL, &out->def_bytes, &out->rep_bytes};
        if (f.id == 4)
            out->encoding = (int)cs_thrift_i64(t);
        else if (f.id == 7)
            out->is_packed = f.type == CS_THRIFT_TRUE;
        else if (f.id > 0 && f.id < (int)CS_ARRAY_LEN(fields) && fields[f.id] != NULL)
            *fields[f.id] = cs_thrift_i64(t);
        else
            cs_thrift_skip(t, f.type);
    }
}

bool cs_pq_head_read(const uint8_t *bytes, size_t n, struct cs_pq_head *out, size_t *used)
{
    struct cs_thrift t = {.at = bytes, .end = bytes + n};
    struct cs_thrift_field f = {0};

    *out =
        (struct cs_pq_head){.n_rows = -1, .n_values = -1, .is_packed = true, .kind = CS_PQ_INDEX};
    while (cs_thrift_field(&t, &f)) {
        if (f.id == 1)
            out->kind = (enum cs_pq_page_kind)(cs_thrift_i64(&t) & 3);
        else if (f.id == 2)
            out->n_bytes = cs_thrift_i64(&t);
        else if (f.id == 3)
            out->n_packed = cs_thrift_i64(&t);
        else if (f.id == 5 || f.id == 7)
            read_data(&t, out); /* of a dictionary: the same two first */
        else if (f.id == 8)
            read_data_2(&t, out);
        else
            cs_thrift_skip(&t, f.type);
    }
    *used = (size_t)(t.at - bytes);
    return !t.is_bad && out->n_bytes >= 0 && out->n_bytes <= CS_PQ_PAGE_MAX && out->n_packed >= 0 &&
           out->n_packed <= CS_PQ_PAGE_MAX && out->rep_bytes >= 0 && out->def_bytes >= 0 &&
           out->rep_bytes <= out->n_bytes && out->def_bytes <= out->n_bytes - out->rep_bytes &&
           out->rep_bytes + out->def_bytes <= out->n_packed &&
           (out->kind == CS_PQ_INDEX || (out->n_values >= 0 && out->n_values <= CS_PQ_VALUES_MAX));
}

/* --- pages ------------------------------------------------------------------------------------ */

struct reading {
    const struct cs_pq_node *leaf;
    const struct cs_pq_head *head;
    const uint8_t *at, *end; /* what is left of the unpacked page */
    struct cs_pq_page *out;
    struct cs_err *err;
};

static enum cs_status broken(const struct reading *r, const char *what)
{
    return cs_fail(r->err, CS_CORRUPT, "a page of column %s is broken: %s", r->leaf->name, what);
}

/* n bytes of levels up to max. */
static enum cs_status unpack_levels(const struct reading *r, const uint8_t *bytes, size_t n,
                                    int max, uint8_t **out)
{
    uint32_t *wide = malloc((r->out->n + 1) * sizeof *wide);
    enum cs_status status = CS_OK;

    *out = malloc(r->out->n + 1);
    if (wide == NULL || *out == NULL)
        status = cs_fail(r->err, CS_NO_MEMORY, "no memory for %zu values", r->out->n);
    else if (!cs_pq_hybrid(bytes, n, cs_pq_width(max), wide, r->out->n))
        status = broken(r, "its levels");
    for (size_t i = 0; status == CS_OK && i < r->out->n; i++) {
        if (wide[i] > (uint32_t)max)
            status = broken(r, "a level that cannot be");
        (*out)[i] = (uint8_t)wide[i];
    }
    free(wide);
    return status;
}

/* Of the first kind of pages: their length stands before them. */
static enum cs_status take_levels(struct reading *r, int max, uint8_t **out)
{
    size_t n = 0;

    if (max == 0)
        return CS_OK;
    if (r->end - r->at < 4)
        return broken(r, "it ends in its levels");
    n = (size_t)r->at[0] | (size_t)r->at[1] << 8 | (size_t)r->at[2] << 16 | (size_t)r->at[3] << 24;
    r->at += 4;
    if (n > (size_t)(r->end - r->at))
        return broken(r, "it ends in its levels");
    CS_TRY(unpack_levels(r, r->at, n, max, out));
    r->at += n;
    return CS_OK;
}

/* Of the second kind: not packed, before the values. */
static enum cs_status take_levels_2(struct reading *r)
{
    const size_t rep = (size_t)r->head->rep_bytes, def = (size_t)r->head->def_bytes;

    if (r->leaf->max_rep > 0)
        CS_TRY(unpack_levels(r, r->at, rep, r->leaf->max_rep, &r->out->rep));
    r->at += rep;
    if (r->leaf->max_def > 0)
        CS_TRY(unpack_levels(r, r->at, def, r->leaf->max_def, &r->out->def));
    r->at += def;
    return CS_OK;
}

static enum cs_status unpack(struct reading *r, int codec, const uint8_t *packed)
{
    const struct cs_pq_head *h = r->head;
    const size_t plain = h->kind == CS_PQ_DATA_2 ? (size_t)(h->rep_bytes + h->def_bytes) : 0;

    r->out->bytes = malloc((size_t)h->n_bytes + 1);
    if (r->out->bytes == NULL)
        return cs_fail(r->err, CS_NO_MEMORY, "no memory for a page of %lld bytes of column %s",
                       (long long)h->n_bytes, r->leaf->name);
    if (plain > 0)
        memcpy(r->out->bytes, packed, plain);
    r->at = r->out->bytes;
    r->end = r->at + h->n_bytes;
    return cs_pq_unpack(h->is_packed ? codec : 0, packed + plain, (size_t)h->n_packed - plain,
                        r->out->bytes + plain, (size_t)h->n_bytes - plain, r->err);
}

static enum cs_status read_all(struct reading *r, int codec, const uint8_t *packed,
                               const struct cs_pq_values *dictionary)
{
    size_t n = r->out->n;

    CS_TRY(unpack(r, codec, packed));
    if (r->head->kind == CS_PQ_DATA_2) {
        CS_TRY(take_levels_2(r));
    } else if (r->head->kind == CS_PQ_DATA) {
        CS_TRY(take_levels(r, r->leaf->max_rep, &r->out->rep));
        CS_TRY(take_levels(r, r->leaf->max_def, &r->out->def));
    }
    for (size_t i = 0; r->out->def != NULL && i < r->out->n; i++)
        n -= r->out->def[i] != r->leaf->max_def;
    CS_TRY(cs_pq_values_read(r->leaf, r->head->encoding, r->at, (size_t)(r->end - r->at), n,
                             dictionary, &r->out->values, r->err));
    r->out->held = (size_t)r->head->n_bytes + 12 * r->out->n + sizeof *r->out;
    return CS_OK;
}

enum cs_status cs_pq_page_read(const struct cs_pq_node *leaf, int codec,
                               const struct cs_pq_head *head, const uint8_t *packed,
                               const struct cs_pq_values *dictionary, struct cs_pq_page *out,
                               struct cs_err *err)
{
    struct reading r = {.leaf = leaf, .head = head, .out = out, .err = err};
    enum cs_status status = CS_OK;

    *out = (struct cs_pq_page){.n = (size_t)head->n_values};
    status = read_all(&r, codec, packed, dictionary);
    if (status != CS_OK)
        cs_pq_page_free(out);
    return status;
}

void cs_pq_page_free(struct cs_pq_page *page)
{
    free(page->rep);
    free(page->def);
    free(page->bytes);
    cs_pq_values_free(&page->values);
    *page = (struct cs_pq_page){0};
}
