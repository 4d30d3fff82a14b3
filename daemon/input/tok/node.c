/* Reading a node of tokenizer.json. */
#include "input/tok/tok.h"

bool tok_flag(const json_t *node, const char *key, bool fallback)
{
    const json_t *v = json_object_get(node, key);

    return json_is_boolean(v) ? json_is_true(v) : fallback;
}

enum cs_status tok_refuse(struct cs_err *err, const char *what, const json_t *name)
{
    const char *text = json_string_value(name);

    return cs_fail(err, CS_UNSUPPORTED, "unsupported tokenizer: %s %s", what,
                   text == NULL ? "without a type" : text);
}
