/* What a parsed template is made of; private to jinja/. */
#ifndef CS_INPUT_CHAT_JINJA_TREE_H
#define CS_INPUT_CHAT_JINJA_TREE_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/arena.h"
#include "input/chat/jinja/jinja.h"

enum jn_kind {
    /* statements */
    JN_TEXT,  /* text, n */
    JN_PRINT, /* a */
    JN_IF,    /* a: condition, list: then, other: else */
    JN_FOR,   /* text: variable, a: what is gone through, b: condition or NULL, list: body, other */
    JN_SET, /* text: variable, name: attribute of it or NULL, a: value or NULL, list: what writes it */
    JN_MACRO, /* text: its name, list: parameters as arguments, other: body */
    JN_BREAK,
    JN_CONTINUE,
    /* expressions */
    JN_CONST,  /* value */
    JN_NAME,   /* text */
    JN_LIST,   /* list: items */
    JN_DICT,   /* list: keys and values in turn */
    JN_ATTR,   /* a, text */
    JN_ITEM,   /* a, b */
    JN_SLICE,  /* a, b: from or NULL, c: to or NULL */
    JN_CALL,   /* a: JN_NAME or JN_ATTR, list: arguments; a keyword's has its name in text */
    JN_FILTER, /* a, text, list: arguments */
    JN_TEST,   /* a, text, list: arguments */
    JN_NOT,    /* a */
    JN_MINUS,  /* a */
    JN_BINARY, /* a, text: operator, b */
    JN_AND,    /* a, b */
    JN_OR,     /* a, b */
    JN_CHOICE, /* a if b else c */
    JN_ARG     /* text: keyword or NULL, a */
};

struct jn {
    enum jn_kind kind;
    const char *text, *name;
    size_t n;
    json_t *value; /* held by the pool */
    struct jn *a, *b, *c;
    struct jn *list, *other; /* first of each */
    struct jn *next;
};

struct cs_jinja {
    struct cs_arena *arena;
    json_t *pool; /* constants */
    struct jn *first;
};

enum jn_token_kind {
    JT_END,
    JT_TEXT,
    JT_OPEN,
    JT_CLOSE,
    JT_BLOCK,
    JT_BLOCK_END,
    JT_NAME,
    JT_STRING,
    JT_NUMBER,
    JT_SIGN
};

/* A piece of the template: text between tags, or a word of a tag. */
struct jn_token {
    enum jn_token_kind kind;
    const char *text; /* NUL-terminated; of strings without quotes and escapes */
    size_t n;
};

struct jn_tokens {
    struct jn_token *items;
    size_t n, cap;
};

/* lex.c: items is malloc'ed, texts live in the arena */
enum cs_status jn_lex(const char *text, size_t n, struct cs_arena *arena, struct jn_tokens *out,
                      struct cs_err *err) CS_NODISCARD;

/* parse.c and parse_expression.c go through tokens with it */
struct jn_parser {
    struct cs_jinja *jinja;
    const struct jn_tokens *tokens;
    size_t at;
    int depth;
    struct cs_err *err;
};

enum { JN_DEPTH_MAX = 100 };

/* cursor.c */
const struct jn_token *jn_peek(const struct jn_parser *p);
bool jn_accept(struct jn_parser *p, enum jn_token_kind kind, const char *text); /* text NULL: any */
enum cs_status jn_expect(struct jn_parser *p, enum jn_token_kind kind,
                         const char *text) CS_NODISCARD;
enum cs_status
jn_refuse(struct jn_parser *p) CS_NODISCARD; /* the present token is not understood */
struct jn *jn_new(struct jn_parser *p, enum jn_kind kind, const char *text);
/* parse_expression.c */
enum cs_status jn_parse_expression(struct jn_parser *p, struct jn **out) CS_NODISCARD;
/* without "a if b else c" around it: what a loop goes through may be followed by its own "if" */
enum cs_status jn_parse_plain(struct jn_parser *p, struct jn **out) CS_NODISCARD;

enum { JN_MACROS_MAX = 64 };

/* A rendering. Values are new references; NULL is Jinja's undefined. */
struct jn_run {
    json_t *scopes; /* list of objects, the innermost last; the first two are the template's own */
    struct cs_buf *out;
    struct cs_err *err;
    int64_t left;
    int depth;
    const struct jn *macros[JN_MACROS_MAX]; /* defined so far */
    int n_macros;
    /* runs statements (render.c): the body of a macro stands in an expression */
    enum cs_status (*body)(struct jn_run *run, const struct jn *first);
};

enum cs_status jn_value(struct jn_run *run, const struct jn *node, json_t **out) CS_NODISCARD;
/* a sign b, as "+" or "in"; and, or and not are not among them: they look at one side first */
enum cs_status jn_operate(struct jn_run *run, const char *sign, const json_t *a, const json_t *b,
                          json_t **out) CS_NODISCARD;
bool jn_is_true(const json_t *value);
bool jn_is_equal(const json_t *a, const json_t *b);
bool jn_contains(const json_t *whole, const json_t *part);
/* appends what printing shows; CS_UNSUPPORTED for lists and objects */
enum cs_status jn_print(const json_t *value, struct cs_buf *out, struct cs_err *err) CS_NODISCARD;
json_t *jn_share(const json_t *value); /* a reference, NULL stays */
/* what a loop goes through: items, keys or characters as a list; NULL: it cannot be gone through */
json_t *jn_items(const json_t *value);
/* characters [from, to) of a text; negative ones count from its end */
json_t *jn_text_part(const json_t *text, json_int_t from, json_int_t to);
size_t jn_text_length(const json_t *text); /* in characters */

/* macro.c: statements whose text is a value */
enum cs_status jn_capture(struct jn_run *run, const struct jn *first, json_t **out) CS_NODISCARD;
/* the macro of this name, NULL: there is none */
const struct jn *jn_macro(const struct jn_run *run, const char *name);
enum cs_status jn_call_macro(struct jn_run *run, const struct jn *macro, const json_t *args,
                             const json_t *named, json_t **out) CS_NODISCARD;

/* what stands for the day where a template writes it (strftime_now): no text holds it otherwise */
#define JN_TODAY "\x01today\x01"

/* What a filter or a method is called with. */
struct jn_call {
    const char *name;
    const json_t *value, *args; /* args is a list, undefined ones are null */
    const json_t *named;        /* the keyword arguments, an object */
    json_t **out;
    struct cs_err *err;
};

struct jn_filter_row {
    const char *name;
    enum cs_status (*call)(const struct jn_call *c);
};

/* filters.c: of any value; filters_text.c: of texts, as filters and as methods */
enum cs_status jn_filter(const struct jn_call *c) CS_NODISCARD;
enum cs_status jn_method(const struct jn_call *c) CS_NODISCARD;
extern const struct jn_filter_row jn_text_filters[], jn_text_methods[]; /* end with a NULL name */
const char *jn_arg_text(const struct jn_call *c, size_t i);
enum cs_status jn_unfit(const struct jn_call *c) CS_NODISCARD;
enum cs_status jn_give(const struct jn_call *c, json_t *value) CS_NODISCARD;

/* calls.c */
enum cs_status jn_test(const char *name, const json_t *value, const json_t *args, bool *out,
                       struct cs_err *err) CS_NODISCARD;
enum cs_status jn_function(const char *name, const json_t *args, const json_t *named, json_t **out,
                           struct cs_err *err) CS_NODISCARD;
/* white space as Python's str.strip has it; chars NULL: all of it, else these */
json_t *jn_strip(const char *text, size_t n, const char *chars, bool at_left, bool at_right);

#endif
