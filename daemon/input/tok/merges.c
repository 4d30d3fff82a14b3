/* Reads the merges of a BPE model, and orders the vocabulary of one that has none. */
#include <stdlib.h>
#include <string.h>

#include "input/tok/tok.h"

enum { MERGES_MAX = 1 << 24 };

/* "a b", or ["a", "b"] since spellings may hold spaces */
static bool merge_parts(const json_t *node, const char **left, size_t *n_left, const char **right,
                        size_t *n_right)
{
    if (json_is_array(node) && json_array_size(node) == 2 &&
        json_is_string(json_array_get(node, 0)) && json_is_string(json_array_get(node, 1))) {
        *left = json_string_value(json_array_get(node, 0));
        *n_left = json_string_length(json_array_get(node, 0));
        *right = json_string_value(json_array_get(node, 1));
        *n_right = json_string_length(json_array_get(node, 1));
        return true;
    }
    if (json_is_string(node)) {
        const char *text = json_string_value(node), *space = strchr(text, ' ');
        if (space == NULL || strchr(space + 1, ' ') != NULL)
            return false;
        *left = text;
        *n_left = (size_t)(space - text);
        *right = space + 1;
        *n_right = json_string_length(node) - *n_left - 1;
        return true;
    }
    return false;
}

/* The right part loses the prefix that marks it as one inside of a word. */
static enum cs_status add_merge(struct cs_tokenizer *tok, const json_t *node, size_t rank,
                                struct cs_buf *joined, struct cs_err *err)
{
    const char *left = NULL, *right = NULL;
    size_t n_left = 0, n_right = 0;
    const size_t n_prefix = tok->word_prefix == NULL ? 0 : strlen(tok->word_prefix);

    if (!merge_parts(node, &left, &n_left, &right, &n_right))
        return cs_fail(err, CS_CORRUPT, "tokenizer: merge %zu is not a pair", rank);
    cs_buf_reset(joined);
    cs_buf_add(joined, left, n_left);
    if (n_right >= n_prefix)
        cs_buf_add(joined, right + n_prefix, n_right - n_prefix);
    const int32_t a = tok_map_find(&tok->spellings, tok->entries, left, n_left);
    const int32_t b = tok_map_find(&tok->spellings, tok->entries, right, n_right);
    const int32_t c = tok_map_find(&tok->spellings, tok->entries, cs_buf_str(joined), joined->len);
    if (a == -1 || b == -1 || c == -1)
        return cs_fail(err, CS_CORRUPT,
                       "tokenizer: merge %zu (\"%.40s\") has a part outside the vocabulary", rank,
                       cs_buf_str(joined));
    tok_merges_add(tok, a, b, (int32_t)rank, c);
    return CS_OK;
}

static enum cs_status load_list(struct cs_tokenizer *tok, const json_t *merges, struct cs_err *err)
{
    struct cs_buf joined = {0};
    enum cs_status status = CS_OK;
    const json_t *node = NULL;
    size_t i = 0;

    if (!json_is_array(merges) || json_array_size(merges) > MERGES_MAX)
        return cs_fail(err, CS_CORRUPT, "tokenizer: merges is not a list of at most %d",
                       MERGES_MAX);
    tok_merges_init(tok, json_array_size(merges));
    json_array_foreach(merges, i, node)
    {
        status = add_merge(tok, node, i, &joined, err);
        if (status != CS_OK)
            break;
    }
    cs_buf_free(&joined);
    return status;
}

struct scored {
    double score;
    int32_t id;
};

/* The largest score first. */
static int by_score(const void *a, const void *b)
{
    const struct scored *x = a, *y = b;

    return (x->score < y->score) - (x->score > y->score);
}

/* Pieces of equal score have equal rank: then the leftmost is merged first. */
static enum cs_status rank_by_score(struct cs_tokenizer *tok, struct cs_err *err)
{
    struct scored *all = malloc(((size_t)tok->n_entries + 1) * sizeof *all);

    if (all == NULL)
        return cs_fail(err, CS_NO_MEMORY, "no memory for %d tokens", tok->n_entries);
    for (int32_t id = 0; id < tok->n_entries; id++)
        all[id] = (struct scored){tok->scores[id], id};
    qsort(all, (size_t)tok->n_entries, sizeof *all, by_score);
    for (int32_t i = 0; i < tok->n_entries; i++)
        tok->ranks[all[i].id] =
            i > 0 && all[i].score == all[i - 1].score ? tok->ranks[all[i - 1].id] : i;
    free(all);
    return CS_OK;
}

enum cs_status tok_load_merges(struct cs_tokenizer *tok, const struct tok_source *source,
                               struct cs_err *err)
{
    const json_t *model = json_object_get(source->root, "model");

    if (!source->is_own)
        return load_list(tok, json_object_get(model, "merges"), err);
    tok->ranks = CS_NEW_ARRAY(tok->arena, int32_t, tok->n_entries);
    if (tok->scores != NULL)
        return rank_by_score(tok, err);
    for (int32_t id = 0; id < tok->n_entries; id++)
        tok->ranks[id] = id;
    return CS_OK;
}
