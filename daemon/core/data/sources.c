/* Numbers names in the order in which they come. */
#include "core/data/sources.h"

#include <string.h>

/* Whole characters of it. */
static void cut(char out[CS_SOURCE_NAME], const char *name)
{
    size_t n = strlen(name);

    if (n >= CS_SOURCE_NAME)
        for (n = CS_SOURCE_NAME - 1; n > 0 && ((unsigned char)name[n] & 0xc0) == 0x80;)
            n--;
    memset(out, 0, CS_SOURCE_NAME);
    memcpy(out, name, n);
}

int32_t cs_sources_index(struct cs_sources *s, const char *name)
{
    char own[CS_SOURCE_NAME];

    if (s->n == 0)
        cut(s->name[s->n++], CS_SOURCE_OTHER);
    if (name == NULL || name[0] == '\0')
        return 0;
    cut(own, name);
    for (int32_t i = 0; i < s->n; i++)
        if (strcmp(s->name[i], own) == 0)
            return i;
    if (s->n < CS_SOURCES_MAX) {
        memcpy(s->name[s->n], own, sizeof own);
        return s->n++;
    }
    if (s->left_out[0] == '\0')
        memcpy(s->left_out, own, sizeof own);
    return 0;
}
