/* Goes through the tokens of a template, for whoever makes trees of them. */
#include <string.h>

#include "input/chat/jinja/tree.h"

const struct jn_token *jn_peek(const struct jn_parser *p)
{
    return &p->tokens->items[p->at < p->tokens->n ? p->at : p->tokens->n - 1];
}

bool jn_accept(struct jn_parser *p, enum jn_token_kind kind, const char *text)
{
    const struct jn_token *t = jn_peek(p);

    if (t->kind != kind || (text != NULL && strcmp(t->text, text) != 0))
        return false;
    p->at++;
    return true;
}

enum cs_status jn_refuse(struct jn_parser *p)
{
    const struct jn_token *t = jn_peek(p);

    return t->kind == JT_END ? cs_fail(p->err, CS_INVALID, "it ends inside of a tag or a block")
                             : cs_fail(p->err, CS_UNSUPPORTED, "\"%.60s\" in it is not understood",
                                       t->text[0] != '\0' ? t->text : "the end of a tag");
}

enum cs_status jn_expect(struct jn_parser *p, enum jn_token_kind kind, const char *text)
{
    return jn_accept(p, kind, text) ? CS_OK : jn_refuse(p);
}

struct jn *jn_new(struct jn_parser *p, enum jn_kind kind, const char *text)
{
    struct jn *node = CS_NEW(p->jinja->arena, struct jn);

    *node = (struct jn){.kind = kind, .text = text};
    return node;
}
