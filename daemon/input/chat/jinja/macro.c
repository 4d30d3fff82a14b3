/* Macros and blocks whose text is a value.
 * One thought with expression.c: a macro is called in an expression, and has expressions. */
#include <string.h>

#include "input/chat/jinja/tree.h"

enum cs_status jn_capture(struct jn_run *run, const struct jn *first, json_t **out)
{
    struct cs_buf text = {0}, *outer = run->out;
    enum cs_status status = CS_OK;

    run->out = &text;
    status = run->body(run, first);
    run->out = outer;
    if (status == CS_OK) {
        *out = json_stringn(cs_buf_str(&text), text.len);
        if (*out == NULL)
            status = cs_fail(run->err, CS_INVALID, "it writes what is not UTF-8");
    }
    cs_buf_free(&text);
    return status;
}

const struct jn *jn_macro(const struct jn_run *run, const char *name)
{
    for (int i = run->n_macros; i-- > 0;)
        if (strcmp(run->macros[i]->text, name) == 0)
            return run->macros[i];
    return NULL;
}

/* Arguments by place, then by name, else what the macro says of itself, else undefined. */
static enum cs_status bind(struct jn_run *run, const struct jn *macro, const json_t *args,
                           const json_t *named, json_t *scope)
{
    size_t i = 0;

    for (const struct jn *p = macro->list; p != NULL; p = p->next, i++) {
        json_t *value = jn_share(json_array_get(args, i));
        if (value == NULL)
            value = jn_share(json_object_get(named, p->text));
        if (value == NULL)
            CS_TRY(jn_value(run, p->a, &value));
        if (value != NULL)
            json_object_set_new(scope, p->text, value);
    }
    return i < json_array_size(args)
               ? cs_fail(run->err, CS_INVALID, "it calls \"%.60s\" with too many values",
                         macro->text)
               : CS_OK;
}

/* A macro sees what the template has set at its top, and its own arguments. */
enum cs_status jn_call_macro(struct jn_run *run, const struct jn *macro, const json_t *args,
                             const json_t *named, json_t **out)
{
    json_t *outer = run->scopes, *scope = json_object();
    enum cs_status status = bind(run, macro, args, named, scope);

    if (status == CS_OK) {
        run->scopes =
            json_pack("[O,O,O]", json_array_get(outer, 0), json_array_get(outer, 1), scope);
        status = jn_capture(run, macro->other, out);
        json_decref(run->scopes);
        run->scopes = outer;
    }
    json_decref(scope);
    return status;
}
