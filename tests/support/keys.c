/* See keys.h. */
#include "support/keys.h"

#include <stdlib.h>

const struct cs_record_keys *test_keys(const char *const *tokens, int n, struct cs_arena *arena)
{
    static const char *const names[CS_MAX_ENCODERS] = {"a", "b", "c", "d"};
    struct cs_record_encoder encoder[CS_MAX_ENCODERS];
    struct cs_record_keys *keys = NULL;
    struct cs_err err;

    for (int e = 0; e < n; e++)
        encoder[e] = (struct cs_record_encoder){.name = names[e], .token = tokens[e], .key = ""};
    if (cs_record_keys_new(encoder, n, arena, &keys, &err) != CS_OK)
        abort();
    return keys;
}
