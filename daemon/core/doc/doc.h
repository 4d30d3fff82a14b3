/* One reader of JSON documents: config.json and its relatives, samples of a data set, jobs.
 *
 * A document is described by tables of the keys that are known: what type a key has, what is done
 * with it, and under which spellings it is found. cs_doc_review goes through a document by its table
 * and says of every key that is not as it should be what is wrong (a finding); cs_doc_get then takes
 * values that are known to be right. null counts as absent everywhere, and so does {} where spellings
 * are chosen.
 *
 * Where two spellings of one setting stand in one object, the order in `names` says which holds.
 * Pure: parsed JSON in, findings out. */
#ifndef CS_DOC_DOC_H
#define CS_DOC_DOC_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "core/base/status.h"
#include "core/doc/findings.h"

/* What a value may be: a set. */
enum cs_doc_type {
    CS_DOC_BOOL = 1,
    CS_DOC_INT = 2,      /* a whole number from min to max */
    CS_DOC_NUMBER = 4,   /* a finite number from min to max */
    CS_DOC_POSITIVE = 8, /* a number above 0, up to max */
    CS_DOC_STRING = 16,  /* one of `accept` where that is set; without zero bytes */
    CS_DOC_LIST = 32,
    CS_DOC_OBJECT = 64,
    CS_DOC_ANY = 127 | 128
};

enum cs_doc_use {
    CS_DOC_USED, /* read */
    CS_DOC_REFUSED, /* changes what is computed in a way that is not done here: only `only` may stand */
    CS_DOC_HARMLESS, /* changes nothing that is computed here: any value */
};

struct cs_doc_table;

struct cs_doc_key {
    const char *names; /* spellings, the one that holds first: "dtype|torch_dtype"; "*": any key */
    int types;         /* enum cs_doc_type */
    enum cs_doc_use use;
    double min, max;    /* of numbers; both 0: any */
    const char *accept; /* strings: "a|b"; NULL: any */
    const char *only;   /* REFUSED: the value, as JSON, that asks for nothing: "0"; NULL: none */
    const char *text;   /* REFUSED: why, after the key and its value; else what the key is */
    const struct cs_doc_table *inside; /* keys of the object, or of each object of the list; NULL:
                                          not looked into */
};

/* The keys of one kind of object. Rows are of any struct whose first member is a struct cs_doc_key. */
struct cs_doc_table {
    const void *rows;
    size_t stride;
    int n;
    const struct cs_doc_table *more; /* keys that other tables have too, or NULL */
    bool refuses_shadowed;           /* a second spelling with another value is CS_FINDING_WRONG */
    bool refuses_unknown;            /* so is an unknown key: a document of our own */
};

#define CS_DOC_TABLE(rows_, more_)                                                                 \
    {                                                                                              \
        .rows = (rows_), .stride = sizeof *(rows_), .n = (int)CS_ARRAY_LEN(rows_), .more = (more_) \
    }

struct cs_doc {
    const char *name;  /* for messages: "DIR/config.json" */
    const char *where; /* where `json` stands in it: "" or "text_config" */
    const json_t *json;
    const struct cs_doc_table *table;
};

/* Goes through the whole document. Findings go to `findings` (NULL: nowhere); those that are errors
 * (cs_finding_is_error) make the result, the first one in document order. A document that is no
 * object is CS_INVALID. */
enum cs_status cs_doc_review(const struct cs_doc *doc, struct cs_findings *findings,
                             struct cs_err *err) CS_NODISCARD;

/* The value under the first of the spellings that is there, not null and not {}, else NULL. `name`
 * (may be NULL) gets the spelling it was found under, else the first one. */
enum { CS_DOC_NAME = 96 };

const json_t *cs_doc_get(const json_t *object, const char *names, char name[CS_DOC_NAME]);

/* whether a value is there, not null and not {} */
bool cs_doc_says(const json_t *value);

/* One value against its row: CS_OK, or why not in err, as "WHERE is VALUE; it must be ...". Does not
 * look inside of objects and lists. */
enum cs_status cs_doc_value(const struct cs_doc_key *key, const char *where, const json_t *value,
                            struct cs_err *err) CS_NODISCARD;

/* The row of a key, NULL: unknown. */
const struct cs_doc_key *cs_doc_find(const struct cs_doc_table *table, const char *name);
/* The i-th row of a table alone (0 to n - 1). */
const struct cs_doc_key *cs_doc_row(const struct cs_doc_table *table, int i);
/* The known spelling that is nearest, NULL: none is near. */
const char *cs_doc_near(const struct cs_doc_table *table, const char *name, char out[CS_DOC_NAME]);

/* whether `word` is one of "a|b|c" */
bool cs_doc_is_word(const char *words, const char *word);

/* A value for a message: its JSON, at most some 60 bytes of it. */
enum { CS_DOC_SHOWN = 64 };

const char *cs_doc_show(const json_t *value, char out[CS_DOC_SHOWN]);

#endif
