/* Reads added tokens: those that are looked for in the text as it is, and those that are looked for
 * in the normalised text, normalised themselves. */
#include <stdlib.h>
#include <string.h>

#include "input/tok/tok.h"

/* The token as the normalizer leaves it. */
static enum cs_status normalise(struct cs_tokenizer *tok, struct tok_added *a, struct cs_err *err)
{
    struct tok_matcher matcher = {0};
    struct tok_text buffers[2] = {{0}};
    struct tok_view view = {.bytes = a->text, .n = a->n};
    enum cs_status status = tok_matcher_init(&matcher, err);

    if (status == CS_OK)
        status = tok_steps_run(tok->steps, tok->n_steps, &matcher, buffers, &view, err);
    if (status == CS_OK && view.bytes != a->text) {
        a->text = cs_arena_strndup(tok->arena, view.bytes == NULL ? "" : view.bytes, view.n);
        a->n = view.n;
    }
    tok_matcher_free(&matcher);
    tok_text_free(&buffers[0]);
    tok_text_free(&buffers[1]);
    return status;
}

static enum cs_status add_one(struct cs_tokenizer *tok, const json_t *node, struct cs_err *err)
{
    const json_t *content = json_object_get(node, "content");
    struct tok_added a = {
        .id = (int32_t)json_integer_value(json_object_get(node, "id")),
        .is_single_word = tok_flag(node, "single_word", false),
        .is_lstrip = tok_flag(node, "lstrip", false),
        .is_rstrip = tok_flag(node, "rstrip", false),
    };
    const bool is_special = tok_flag(node, "special", false);
    const bool is_normalized = tok_flag(node, "normalized", !is_special);
    struct tok_added_set *set = is_normalized ? &tok->normalized : &tok->raw;

    if (json_string_length(content) == 0)
        return cs_fail(err, CS_CORRUPT, "tokenizer: an added token has no content");
    tok->entries[a.id].is_special |= is_special;
    a.text = tok->entries[a.id].spelling;
    a.n = tok->entries[a.id].n_spelling;
    if (is_normalized)
        CS_TRY(normalise(tok, &a, err));
    if (a.n == 0)
        return CS_OK; /* nothing is left of it that could be found */
    if (!tok_trie_add(&set->trie, a.text, a.n, set->n))
        return cs_fail(err, CS_NO_MEMORY, "no memory for added tokens");
    set->items[set->n++] = a;
    return CS_OK;
}

enum cs_status tok_load_added(struct cs_tokenizer *tok, const json_t *list, struct cs_err *err)
{
    const size_t n = json_array_size(list);
    const json_t *node = NULL;
    size_t i = 0;

    tok->raw.items = CS_NEW_ARRAY(tok->arena, struct tok_added, n + 1);
    tok->normalized.items = CS_NEW_ARRAY(tok->arena, struct tok_added, n + 1);
    json_array_foreach(list, i, node) CS_TRY(add_one(tok, node, err));
    return CS_OK;
}
