/* Cuts a template into text and the words of its tags, white space dropped where Jinja drops it. */
#include <stdlib.h>
#include <string.h>

#include "input/chat/jinja/tree.h"

struct lexer {
    const char *text;
    size_t n, at;
    struct cs_arena *arena;
    struct jn_tokens *out;
    struct cs_err *err;
};

static void put(struct lexer *l, enum jn_token_kind kind, const char *text, size_t n)
{
    struct jn_tokens *t = l->out;

    if (t->n == t->cap) {
        t->cap = t->cap == 0 ? 256 : t->cap * 2;
        t->items = realloc(t->items, t->cap * sizeof *t->items);
        CS_ASSERT(t->items != NULL);
    }
    t->items[t->n++] = (struct jn_token){kind, cs_arena_strndup(l->arena, text, n), n};
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\v' || c == '\f';
}

static bool is_word(char c, bool is_first)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
           (!is_first && c >= '0' && c <= '9');
}

/* Text up to `end`, which a tag follows: "-" drops all white space before the tag, a block alone on its
 * line the blanks before it. */
static void put_text(struct lexer *l, size_t from, size_t end, const char *tag)
{
    if (tag != NULL && tag[2] == '-') {
        while (end > from && is_blank(l->text[end - 1]))
            end--;
    } else if (tag != NULL && tag[1] != '{' && tag[2] != '+') {
        size_t line = end;
        while (line > from && (l->text[line - 1] == ' ' || l->text[line - 1] == '\t'))
            line--;
        if ((line == from && from == 0) || (line > 0 && l->text[line - 1] == '\n'))
            end = line;
    }
    if (end > from)
        put(l, JT_TEXT, l->text + from, end - from);
}

/* Behind a tag: "-" drops all white space, a block the line's end. */
static void skip_behind(struct lexer *l, char mark, bool is_block)
{
    if (mark == '-')
        while (l->at < l->n && is_blank(l->text[l->at]))
            l->at++;
    else if (mark != '+' && is_block && l->at < l->n && l->text[l->at] == '\n')
        l->at++;
}

static enum cs_status put_string(struct lexer *l)
{
    const char quote = l->text[l->at++];
    struct cs_buf text = {0};

    while (l->at < l->n && l->text[l->at] != quote) {
        char c = l->text[l->at++];
        if (c == '\\' && l->at < l->n) {
            static const char from[] = "nrt\\'\"", to[] = "\n\r\t\\'\"";
            const char *known = strchr(from, l->text[l->at]);
            if (l->text[l->at] == '\0' || strchr("uUxN01234567", l->text[l->at]) != NULL) {
                cs_buf_free(&text);
                return cs_fail(l->err, CS_UNSUPPORTED, "it writes \\%c in a text", l->text[l->at]);
            }
            if (known != NULL) { /* Python keeps the stroke of others */
                c = to[known - from];
                l->at++;
            }
        }
        cs_buf_addc(&text, c);
    }
    put(l, JT_STRING, cs_buf_str(&text), text.len);
    cs_buf_free(&text);
    if (l->at == l->n)
        return cs_fail(l->err, CS_INVALID, "a text in it has no end");
    l->at++;
    return CS_OK;
}

static enum cs_status put_word(struct lexer *l)
{
    static const char *const signs[] = {"==", "!=", "<=", ">=", "//", "**"};
    const char *p = l->text + l->at;
    size_t n = 1, left = l->n - l->at;

    if (p[0] == '\'' || p[0] == '"')
        return put_string(l);
    if (is_word(p[0], true)) {
        while (n < left && is_word(p[n], false))
            n++;
        put(l, JT_NAME, p, n);
    } else if (p[0] >= '0' && p[0] <= '9') {
        while (n < left && ((p[n] >= '0' && p[n] <= '9') || p[n] == '.'))
            n++;
        put(l, JT_NUMBER, p, n);
    } else {
        for (size_t i = 0; i < CS_ARRAY_LEN(signs); i++)
            if (left >= 2 && memcmp(p, signs[i], 2) == 0)
                n = 2;
        if (n == 1 && strchr("+-*/%~<>=.,:|()[]{}", p[0]) == NULL)
            return cs_fail(l->err, CS_UNSUPPORTED, "it has the sign \"%c\" in a tag", p[0]);
        put(l, JT_SIGN, p, n);
    }
    l->at += n;
    return CS_OK;
}

/* The words of a tag up to its end "%}" or "}}", which may have a mark in front. */
static enum cs_status put_tag(struct lexer *l, bool is_block)
{
    const char *end = is_block ? "%}" : "}}";
    int braces = 0;

    put(l, is_block ? JT_BLOCK : JT_OPEN, "", 0);
    for (;;) {
        while (l->at < l->n && is_blank(l->text[l->at]))
            l->at++;
        const char *p = l->text + l->at;
        size_t left = l->n - l->at;
        bool is_marked = left >= 3 && (p[0] == '-' || p[0] == '+') && memcmp(p + 1, end, 2) == 0;
        if (braces == 0 && (is_marked || (left >= 2 && memcmp(p, end, 2) == 0))) {
            l->at += is_marked ? 3 : 2;
            put(l, is_block ? JT_BLOCK_END : JT_CLOSE, "", 0);
            skip_behind(l, is_marked ? p[0] : ' ', is_block);
            return CS_OK;
        }
        if (left == 0)
            return cs_fail(l->err, CS_INVALID, "a tag in it has no end");
        braces += (p[0] == '{') - (p[0] == '}');
        CS_TRY(put_word(l));
    }
}

static enum cs_status skip_comment(struct lexer *l)
{
    const char *end = NULL;

    for (size_t i = l->at; i + 1 < l->n && end == NULL; i++)
        if (l->text[i] == '#' && l->text[i + 1] == '}')
            end = l->text + i;
    if (end == NULL)
        return cs_fail(l->err, CS_INVALID, "a comment in it has no end");
    l->at = (size_t)(end - l->text) + 2;
    skip_behind(l, end[-1], true);
    return CS_OK;
}

enum cs_status jn_lex(const char *text, size_t n, struct cs_arena *arena, struct jn_tokens *out,
                      struct cs_err *err)
{
    struct lexer l = {.text = text, .n = n, .arena = arena, .out = out, .err = err};
    size_t from = 0;

    if (n > 0 && text[n - 1] == '\n')
        l.n--; /* as Jinja: the last line's end is not of the text */
    while (l.at < l.n) {
        const char *p = text + l.at;
        bool is_tag = l.at + 1 < l.n && p[0] == '{' && strchr("{%#", p[1]) != NULL;
        if (!is_tag) {
            l.at++;
            continue;
        }
        put_text(&l, from, l.at, p);
        l.at += 2;
        if (l.at < l.n && (text[l.at] == '-' || text[l.at] == '+') && p[1] != '#')
            l.at++;
        CS_TRY(p[1] == '#' ? skip_comment(&l) : put_tag(&l, p[1] == '%'));
        from = l.at;
    }
    put_text(&l, from, l.at, NULL);
    put(&l, JT_END, "", 0);
    return CS_OK;
}
