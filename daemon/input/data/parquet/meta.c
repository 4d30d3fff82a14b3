/* Reads the footer of a Parquet file. */
#include "input/data/parquet/meta.h"

#include <string.h>

enum { DEPTH_MAX = 60, NODES_MAX = 20000, GROUPS_MAX = 1 << 22 };

struct reader {
    struct cs_thrift t;
    struct cs_arena *arena;
    struct cs_pq_meta *out;
    uint64_t file_bytes;
    struct cs_err *err;
};

static enum cs_status broken(struct reader *r, const char *what)
{
    return cs_fail(r->err, CS_CORRUPT, "its footer is broken: %s", what);
}

/* --- the columns ------------------------------------------------------------------------------ */

/* A node as it is written down; converted: 0 text, 3 list, -1 nothing. */
struct element {
    struct cs_pq_node node;
    bool has_type;
    int converted;
};

static void read_logical(struct reader *r, struct element *e)
{
    struct cs_thrift_field f = {0};

    while (cs_thrift_field(&r->t, &f)) { /* a union: STRING 1, LIST 3, ENUM 4, JSON 11 */
        if (f.id == 1 || f.id == 4 || f.id == 11)
            e->converted = 0;
        if (f.id == 3)
            e->converted = 3;
        cs_thrift_skip(&r->t, f.type);
    }
}

static void read_element(struct reader *r, struct element *e)
{
    struct cs_thrift_field f = {0};
    size_t n = 0;
    int converted = -1;

    *e = (struct element){
        .node = {.name = "", .leaf = -1},
          .converted = -1
    };
    while (cs_thrift_field(&r->t, &f)) {
        if (f.id == 1) {
            e->node.type = (enum cs_pq_type)(cs_thrift_i64(&r->t) & 7);
            e->has_type = true;
        } else if (f.id == 2) {
            e->node.type_bytes = (int)cs_thrift_i64(&r->t);
        } else if (f.id == 3) {
            e->node.repetition = (enum cs_pq_repetition)cs_thrift_i64(&r->t);
        } else if (f.id == 4) {
            const char *name = cs_thrift_text(&r->t, &n);
            e->node.name = cs_arena_strndup(r->arena, name, n);
        } else if (f.id == 5) {
            e->node.n_children = (int)cs_thrift_i64(&r->t);
        } else if (f.id == 6) {
            converted = (int)cs_thrift_i64(&r->t);
        } else if (f.id == 10) {
            read_logical(r, e);
        } else {
            cs_thrift_skip(&r->t, f.type);
        }
    }
    if (e->converted == -1) /* UTF8, ENUM, JSON are texts */
        e->converted = converted == 0 || converted == 4 || converted == 19 ? 0 : converted;
}

/* Element *at and all below it. */
static enum cs_status build(struct reader *r, struct element *all, size_t n, size_t *at,
                            const struct cs_pq_node *parent, struct cs_pq_node **out)
{
    struct element *e = &all[(*at)++];
    struct cs_pq_node *node = &e->node, **to = &node->child;
    size_t left = n - *at;

    if (node->repetition < CS_PQ_REQUIRED || node->repetition > CS_PQ_REPEATED ||
        node->n_children < 0 || (size_t)node->n_children > left)
        return broken(r, "a column that cannot be");
    node->depth = parent == NULL ? 0 : parent->depth + 1;
    node->max_def = parent == NULL ? 0 : parent->max_def + (node->repetition != CS_PQ_REQUIRED);
    node->max_rep = parent == NULL ? 0 : parent->max_rep + (node->repetition == CS_PQ_REPEATED);
    if (node->depth > DEPTH_MAX)
        return cs_fail(r->err, CS_LIMIT, "columns inside of columns, more than %d deep", DEPTH_MAX);
    *out = node;
    if (node->n_children == 0 && parent != NULL) {
        if (!e->has_type || (node->type == CS_PQ_FIXED && node->type_bytes <= 0))
            return broken(r, "a column without a type");
        node->meaning = e->converted == 0 ? CS_PQ_TEXT : CS_PQ_PLAIN;
        node->leaf = r->out->n_leaves;
        r->out->leaves[r->out->n_leaves++] = node;
        return CS_OK;
    }
    for (int i = 0; i < node->n_children; i++) {
        if (*at >= n)
            return broken(r, "a column is missing");
        CS_TRY(build(r, all, n, at, node, to));
        to = &(*to)->next;
    }
    node->is_list =
        e->converted == 3 && node->n_children == 1 && node->child->repetition == CS_PQ_REPEATED;
    return CS_OK;
}

static enum cs_status read_schema(struct reader *r)
{
    int type = 0;
    size_t n = cs_thrift_list(&r->t, &type), at = 0;
    struct element *all = NULL;

    if (n == 0 || n > NODES_MAX)
        return broken(r, "it has no columns, or too many");
    all = CS_NEW_ARRAY(r->arena, struct element, n);
    r->out->leaves = CS_NEW_ARRAY(r->arena, struct cs_pq_node *, n);
    r->out->n_leaves = 0;
    for (size_t i = 0; i < n; i++)
        read_element(r, &all[i]);
    if (r->t.is_bad)
        return broken(r, "it ends in its columns");
    CS_TRY(build(r, all, n, &at, NULL, &r->out->root));
    return at == n && r->out->n_leaves > 0 ? CS_OK : broken(r, "columns that nothing holds");
}

/* --- row groups ------------------------------------------------------------------------------- */

static enum cs_status read_column(struct reader *r, struct cs_pq_chunk *out)
{
    struct cs_thrift_field f = {0};
    int64_t data = -1, dictionary = -1;

    while (cs_thrift_field(&r->t, &f)) {
        if (f.id == 4)
            out->codec = (int)cs_thrift_i64(&r->t);
        else if (f.id == 5)
            out->n_values = cs_thrift_i64(&r->t);
        else if (f.id == 7)
            out->n_bytes = cs_thrift_i64(&r->t);
        else if (f.id == 9)
            data = cs_thrift_i64(&r->t);
        else if (f.id == 11)
            dictionary = cs_thrift_i64(&r->t);
        else
            cs_thrift_skip(&r->t, f.type);
    }
    out->offset = dictionary > 0 && dictionary < data ? dictionary : data;
    if (r->t.is_bad || out->n_values < 0 || out->n_bytes < 0 || out->offset < 0 ||
        (uint64_t)out->offset > r->file_bytes ||
        (uint64_t)out->n_bytes > r->file_bytes - (uint64_t)out->offset)
        return broken(r, "a column lies outside of the file");
    return CS_OK;
}

static enum cs_status read_chunk(struct reader *r, struct cs_pq_chunk *out)
{
    struct cs_thrift_field f = {0};
    bool has = false;

    while (cs_thrift_field(&r->t, &f)) {
        if (f.id == 1)
            return cs_fail(r->err, CS_UNSUPPORTED, "its columns lie in other files");
        if (f.id == 3) {
            CS_TRY(read_column(r, out));
            has = true;
        } else {
            cs_thrift_skip(&r->t, f.type);
        }
    }
    return has ? CS_OK : broken(r, "a column without metadata");
}

static enum cs_status read_group(struct reader *r, struct cs_pq_group *out)
{
    struct cs_thrift_field f = {0};
    int type = 0;

    while (cs_thrift_field(&r->t, &f)) {
        if (f.id == 1) {
            size_t n = cs_thrift_list(&r->t, &type);
            if (n != (size_t)r->out->n_leaves || out->chunks != NULL)
                return broken(r, "a row group without all columns");
            out->chunks = CS_NEW_ARRAY(r->arena, struct cs_pq_chunk, n);
            for (size_t i = 0; i < n; i++)
                CS_TRY(read_chunk(r, &out->chunks[i]));
        } else if (f.id == 3) {
            out->n_rows = cs_thrift_i64(&r->t);
        } else {
            cs_thrift_skip(&r->t, f.type);
        }
    }
    if (out->chunks == NULL || out->n_rows < 0 || out->n_rows > INT64_MAX - r->out->n_rows)
        return broken(r, "a row group without rows");
    out->first_row = r->out->n_rows;
    r->out->n_rows += out->n_rows;
    return CS_OK;
}

static enum cs_status read_groups(struct reader *r)
{
    int type = 0;
    size_t n = cs_thrift_list(&r->t, &type);

    if (r->out->root == NULL || r->out->groups != NULL || n > GROUPS_MAX)
        return broken(r, "row groups in the wrong place");
    r->out->groups = CS_NEW_ARRAY(r->arena, struct cs_pq_group, n + 1);
    r->out->n_groups = (int64_t)n;
    for (size_t i = 0; i < n; i++)
        CS_TRY(read_group(r, &r->out->groups[i]));
    return CS_OK;
}

enum cs_status cs_pq_meta_read(const void *bytes, size_t n, uint64_t file_bytes,
                               struct cs_arena *arena, struct cs_pq_meta *out, struct cs_err *err)
{
    struct reader r = {
        .t = {.at = bytes, .end = (const uint8_t *)bytes + n},
        .arena = arena,
        .out = out,
        .file_bytes = file_bytes,
        .err = err
    };
    struct cs_thrift_field f = {0};

    *out = (struct cs_pq_meta){0};
    while (cs_thrift_field(&r.t, &f)) {
        if (f.id == 2 && out->root == NULL)
            CS_TRY(read_schema(&r));
        else if (f.id == 4)
            CS_TRY(read_groups(&r));
        else
            cs_thrift_skip(&r.t, f.type);
    }
    if (r.t.is_bad || out->root == NULL)
        return broken(&r, "it ends too early");
    return CS_OK;
}
