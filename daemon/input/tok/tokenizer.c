/* What a tokenizer knows of its tokens. */
#include <stdlib.h>
#include <string.h>

#include "input/tok/tok.h"

void cs_tokens_free(struct cs_tokens *tokens)
{
    free(tokens->items);
    *tokens = (struct cs_tokens){0};
}

int32_t cs_tokenizer_id(const struct cs_tokenizer *tok, const char *token)
{
    return tok_map_find(&tok->spellings, tok->entries, token, strlen(token));
}

int32_t cs_tokenizer_vocab(const struct cs_tokenizer *tok)
{
    return tok->n_entries;
}

const char *cs_tokenizer_name(const struct cs_tokenizer *tok, int i)
{
    return i < tok->n_names ? tok->names[i].key : NULL;
}

const char *cs_tokenizer_named(const struct cs_tokenizer *tok, const char *key)
{
    for (int i = 0; i < tok->n_names; i++)
        if (strcmp(tok->names[i].key, key) == 0)
            return tok->names[i].spelling;
    return NULL;
}

bool cs_tokenizer_is_special(const struct cs_tokenizer *tok, int32_t id)
{
    return id >= 0 && id < tok->n_entries && tok->entries[id].is_special;
}

/* A special token that no text uses and that may stand for pictures; NULL: none. */
static const struct tok_entry *spare(const struct cs_tokenizer *tok)
{
    static const char *const words[] = {"image_pad", "image", "reserved", "unused", "extra_id"};

    for (size_t w = 0; w < CS_ARRAY_LEN(words); w++)
        for (int32_t i = 0; i < tok->n_entries; i++) {
            const struct tok_entry *e = &tok->entries[i];
            if (e->is_special && memmem(e->spelling, e->n_spelling, words[w], strlen(words[w])))
                return e;
        }
    return NULL;
}

enum cs_status cs_tokenizer_set_special(struct cs_tokenizer *tok, const char *token,
                                        struct cs_err *err)
{
    const struct tok_added_set *sets[] = {&tok->raw, &tok->normalized};
    size_t n = strlen(token);

    for (size_t k = 0; k < CS_ARRAY_LEN(sets); k++)
        for (int32_t i = 0; i < sets[k]->n; i++) {
            struct tok_entry *e = &tok->entries[sets[k]->items[i].id];
            if (e->n_spelling == n && memcmp(e->spelling, token, n) == 0) {
                e->is_special = true;
                return CS_OK;
            }
        }
    const struct tok_entry *other = spare(tok);
    return cs_fail(
        err, CS_NOT_FOUND,
        "the tokenizer has no token \"%s\": add it to added_tokens of tokenizer.json%s%.*s%s",
        token, other != NULL ? ", or take one that it has: token = \"" : "",
        other != NULL ? (int)other->n_spelling : 0, other != NULL ? other->spelling : "",
        other != NULL ? "\"" : "");
}
