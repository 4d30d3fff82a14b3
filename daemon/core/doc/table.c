/* Finds keys in tables and values under their spellings. */
#include <string.h>

#include "core/base/near.h"
#include "core/doc/doc.h"

bool cs_doc_is_word(const char *words, const char *word)
{
    size_t len = strlen(word);
    for (const char *s = words; len > 0; s++) {
        size_t n = strcspn(s, "|");
        if (n == len && memcmp(s, word, n) == 0)
            return true;
        s += n;
        if (*s == '\0')
            break;
    }
    return false;
}

const struct cs_doc_key *cs_doc_row(const struct cs_doc_table *table, int i)
{
    return (const struct cs_doc_key *)(const void *)((const char *)table->rows +
                                                     (size_t)i * table->stride);
}

const struct cs_doc_key *cs_doc_find(const struct cs_doc_table *table, const char *name)
{
    const struct cs_doc_key *any = NULL;
    for (; table != NULL; table = table->more)
        for (int i = 0; i < table->n; i++) {
            const struct cs_doc_key *key = cs_doc_row(table, i);
            if (cs_doc_is_word(key->names, name))
                return key;
            if (any == NULL && strcmp(key->names, "*") == 0)
                any = key;
        }
    return any;
}

/* Copies the spelling at *at and steps behind it; false: there was none left. */
static bool next_name(const char **at, char name[CS_DOC_NAME])
{
    size_t len = strcspn(*at, "|");
    if (len == 0)
        return false;
    CS_ASSERT(len < CS_DOC_NAME);
    memcpy(name, *at, len);
    name[len] = '\0';
    *at += len + ((*at)[len] == '|');
    return true;
}

const char *cs_doc_near(const struct cs_doc_table *table, const char *name, char out[CS_DOC_NAME])
{
    char known[CS_DOC_NAME];
    int best = -1;
    for (; table != NULL; table = table->more)
        for (int i = 0; i < table->n; i++)
            for (const char *at = cs_doc_row(table, i)->names; next_name(&at, known);) {
                const char *const one[] = {known};
                int distance = cs_near(name, one, 1) != NULL ? cs_near_distance(name, known) : -1;
                if (distance < 0 || (best >= 0 && distance >= best))
                    continue;
                best = distance;
                memcpy(out, known, CS_DOC_NAME);
            }
    return best >= 0 ? out : NULL;
}

bool cs_doc_says(const json_t *value)
{
    return value != NULL && !json_is_null(value) &&
           !(json_is_object(value) && json_object_size(value) == 0);
}

const json_t *cs_doc_get(const json_t *object, const char *names, char name[CS_DOC_NAME])
{
    char spelling[CS_DOC_NAME];
    bool is_first = true;
    for (const char *at = names; next_name(&at, spelling); is_first = false) {
        const json_t *value = json_object_get(object, spelling);
        bool is_there = cs_doc_says(value);
        if (name != NULL && (is_there || is_first))
            memcpy(name, spelling, CS_DOC_NAME);
        if (is_there)
            return value;
    }
    return NULL;
}
