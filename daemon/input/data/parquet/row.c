/* Puts the values of all columns together to one row, by their levels (Dremel's assembly). */
#include "input/data/parquet/row.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Where the row goes on in a column. */
struct cursor {
    struct cs_pq_held *held;
    int64_t page;
    size_t entry, value;
    bool is_end; /* the chunk ends here */
};

struct assembly {
    struct cs_pq_pages *pages;
    const struct cs_pq_meta *meta;
    int64_t group;
    struct cursor *cursors; /* (n_leaves) */
    struct cs_pq_bytes *bytes;
    struct cs_err *err;
};

void cs_pq_bytes_free(struct cs_pq_bytes *bytes)
{
    for (int i = 0; i < bytes->n; i++)
        free((void *)(uintptr_t)bytes->items[i].data);
    free(bytes->items);
    *bytes = (struct cs_pq_bytes){0};
}

/* --- cursors ---------------------------------------------------------------------------------- */

static const struct cs_pq_page *page_of(const struct cursor *c)
{
    return cs_pq_held_page(c->held);
}

static int def_of(const struct assembly *a, int leaf)
{
    const struct cursor *c = &a->cursors[leaf];
    const struct cs_pq_page *page = page_of(c);

    return page->def != NULL ? page->def[c->entry] : a->meta->leaves[leaf]->max_def;
}

/* Of the entry that comes; -1: the chunk ends. */
static int rep_of(const struct assembly *a, int leaf)
{
    const struct cursor *c = &a->cursors[leaf];
    const struct cs_pq_page *page = page_of(c);

    if (c->is_end)
        return -1;
    return page->rep != NULL ? page->rep[c->entry] : 0;
}

static enum cs_status advance(struct assembly *a, int leaf)
{
    struct cursor *c = &a->cursors[leaf];
    struct cs_pq_held *next = NULL;

    if (c->is_end)
        return cs_fail(a->err, CS_CORRUPT, "column %s ends inside of a row",
                       a->meta->leaves[leaf]->name);
    c->value += def_of(a, leaf) == a->meta->leaves[leaf]->max_def;
    c->entry++;
    while (c->entry >= page_of(c)->n) { /* lists may go on in the next page */
        if (a->meta->leaves[leaf]->max_rep == 0) {
            c->is_end = true;
            return CS_OK;
        }
        CS_TRY(cs_pq_follow(a->pages, a->group, leaf, c->page, &next, a->err));
        if (next == NULL) {
            c->is_end = true;
            return CS_OK;
        }
        cs_pq_release(a->pages, c->held);
        c->held = next;
        c->page++;
        c->entry = c->value = 0;
    }
    return CS_OK;
}

/* --- values ----------------------------------------------------------------------------------- */

static enum cs_status add_bytes(struct assembly *a, const uint8_t *data, size_t n,
                                bool is_in_struct, json_t **out)
{
    struct cs_pq_bytes *b = a->bytes;
    void *copy = malloc(n + 1);

    if (b->n == b->cap && copy != NULL) {
        int cap = b->cap == 0 ? 4 : 2 * b->cap;
        struct cs_pq_blob *more = realloc(b->items, (size_t)cap * sizeof *more);
        if (more == NULL) {
            free(copy);
            copy = NULL;
        } else {
            b->items = more;
            b->cap = cap;
        }
    }
    if (copy == NULL)
        return cs_fail(a->err, CS_NO_MEMORY, "no memory for %zu bytes", n);
    memcpy(copy, data, n);
    b->items[b->n] = (struct cs_pq_blob){.data = copy, .n = n};
    *out = is_in_struct ? json_integer(b->n) : json_pack("{s:i}", "bytes", b->n);
    b->n++;
    return CS_OK;
}

static json_t *number(const struct cs_pq_node *leaf, const uint8_t *data)
{
    uint64_t bits = 0;
    float narrow = 0;
    double wide = 0;

    for (int i = 0; i < (leaf->type == CS_PQ_INT32 || leaf->type == CS_PQ_FLOAT ? 4 : 8); i++)
        bits |= (uint64_t)data[i] << (8 * i);
    if (leaf->type == CS_PQ_INT32)
        return json_integer((int32_t)(uint32_t)bits);
    if (leaf->type == CS_PQ_INT64)
        return json_integer((int64_t)bits);
    if (leaf->type == CS_PQ_FLOAT) {
        uint32_t low = (uint32_t)bits;
        memcpy(&narrow, &low, sizeof narrow);
        wide = (double)narrow;
    } else {
        memcpy(&wide, &bits, sizeof wide);
    }
    return isfinite(wide) ? json_real(wide) : json_null();
}

static enum cs_status leaf_value(struct assembly *a, const struct cs_pq_node *leaf,
                                 bool is_in_struct, json_t **out)
{
    const struct cursor *c = &a->cursors[leaf->leaf];
    const struct cs_pq_values *v = &page_of(c)->values;
    const uint8_t *data = NULL;

    if (c->value >= v->n)
        return cs_fail(a->err, CS_CORRUPT, "column %s has too few values", leaf->name);
    data = v->base + v->at[c->value];
    if (leaf->type == CS_PQ_BOOLEAN)
        *out = json_boolean(data[0] != 0);
    else if (leaf->type == CS_PQ_INT96)
        *out = json_null();
    else if (leaf->type == CS_PQ_FIXED ||
             (leaf->type == CS_PQ_BYTES && leaf->meaning == CS_PQ_PLAIN))
        return add_bytes(a, data, v->len[c->value], is_in_struct, out);
    else if (leaf->type == CS_PQ_BYTES)
        *out = json_stringn((const char *)data, v->len[c->value]);
    else
        *out = number(leaf, data);
    return *out != NULL ? CS_OK
                        : cs_fail(a->err, CS_INVALID, "column %s holds a text that is not UTF-8",
                                  leaf->name);
}

/* --- assembly --------------------------------------------------------------------------------- */

static const struct cs_pq_node *first_leaf(const struct cs_pq_node *node)
{
    while (node->leaf == -1 && node->child != NULL)
        node = node->child;
    return node;
}

/* One entry of every column below: a null, or an empty list. */
static enum cs_status pass(struct assembly *a, const struct cs_pq_node *node)
{
    if (node->leaf >= 0)
        return advance(a, node->leaf);
    for (const struct cs_pq_node *child = node->child; child != NULL; child = child->next)
        CS_TRY(pass(a, child));
    return CS_OK;
}

static enum cs_status build(struct assembly *a, const struct cs_pq_node *node, bool is_in_struct,
                            json_t **out);

/* Of a node that is there. */
static enum cs_status content(struct assembly *a, const struct cs_pq_node *node, bool is_in_struct,
                              json_t **out)
{
    if (node->leaf >= 0) {
        CS_TRY(leaf_value(a, node, is_in_struct, out));
        enum cs_status status = advance(a, node->leaf);
        if (status != CS_OK) {
            json_decref(*out);
            *out = NULL;
        }
        return status;
    }
    if (node->is_list)
        return build(a, node->child, false, out);
    *out = json_object();
    for (const struct cs_pq_node *child = node->child; child != NULL; child = child->next) {
        json_t *value = NULL;
        enum cs_status status = build(a, child, true, &value);
        if (status != CS_OK || json_object_set_new(*out, child->name, value) != 0) {
            json_decref(*out);
            *out = NULL;
            return status != CS_OK
                       ? status
                       : cs_fail(a->err, CS_INVALID, "the name of a column is not UTF-8");
        }
    }
    return CS_OK;
}

/* "list.element": the group around each element says nothing. */
static bool is_wrapper(const struct cs_pq_node *repeated)
{
    return repeated->leaf == -1 && repeated->n_children == 1 &&
           strcmp(repeated->name, "array") != 0 && repeated->child->repetition != CS_PQ_REPEATED;
}

static enum cs_status list(struct assembly *a, const struct cs_pq_node *node, json_t **out)
{
    const int leaf = first_leaf(node)->leaf;
    int rep = 0;

    *out = json_array();
    if (def_of(a, leaf) < node->max_def)
        return pass(a, node);
    do {
        json_t *item = NULL;
        enum cs_status status =
            is_wrapper(node) ? build(a, node->child, false, &item) : content(a, node, false, &item);
        if (status != CS_OK)
            return status;
        json_array_append_new(*out, item);
        rep = rep_of(a, leaf);
    } while (rep == node->max_rep);
    return CS_OK;
}

static enum cs_status build(struct assembly *a, const struct cs_pq_node *node, bool is_in_struct,
                            json_t **out)
{
    const int leaf = first_leaf(node)->leaf;
    enum cs_status status = CS_OK;

    *out = NULL;
    if (leaf < 0 || a->cursors[leaf].is_end)
        return cs_fail(a->err, CS_CORRUPT, "column %s ends inside of a row", node->name);
    if (node->repetition == CS_PQ_REPEATED) {
        status = list(a, node, out);
        if (status != CS_OK) {
            json_decref(*out);
            *out = NULL;
        }
        return status;
    }
    if (node->repetition == CS_PQ_OPTIONAL && def_of(a, leaf) < node->max_def) {
        *out = json_null();
        return pass(a, node);
    }
    return content(a, node, is_in_struct, out);
}

enum cs_status cs_pq_row(struct cs_pq_pages *pages, const struct cs_pq_meta *meta, int64_t group,
                         int64_t row, json_t **out, struct cs_pq_bytes *bytes, struct cs_err *err)
{
    struct assembly a = {pages, meta, group, NULL, bytes, err};
    enum cs_status status = CS_OK;

    *out = json_object();
    a.cursors = calloc((size_t)meta->n_leaves, sizeof *a.cursors);
    if (a.cursors == NULL)
        status = cs_fail(err, CS_NO_MEMORY, "no memory for a row");
    for (int i = 0; i < meta->n_leaves && status == CS_OK; i++) {
        struct cs_pq_place place = {0};
        status = cs_pq_find(pages, group, i, row, &place, &a.cursors[i].held, err);
        a.cursors[i].page = place.page;
        a.cursors[i].entry = place.entry;
        a.cursors[i].value = place.value;
    }
    for (const struct cs_pq_node *node = meta->root->child; node != NULL && status == CS_OK;
         node = node->next) {
        json_t *value = NULL;
        status = build(&a, node, false, &value);
        if (status == CS_OK && json_object_set_new(*out, node->name, value) != 0)
            status = cs_fail(err, CS_INVALID, "the name of a column is not UTF-8");
    }
    for (int i = 0; a.cursors != NULL && i < meta->n_leaves; i++)
        cs_pq_release(pages, a.cursors[i].held);
    free(a.cursors);
    if (status != CS_OK) {
        json_decref(*out);
        *out = NULL;
    }
    return status;
}
