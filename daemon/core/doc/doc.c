/* Goes through a document by its table; see doc.h. */
#include "core/doc/doc.h"

#include <stdio.h>
#include <string.h>

struct walk {
    const char *document;
    struct cs_findings *findings;
    struct cs_err *err;
    enum cs_status status; /* of the first error */
};

enum { PATH = 512 };

static void put_path(char out[PATH], const char *where, const char *key)
{
    snprintf(out, PATH, "%s%s%.200s", where, where[0] != '\0' ? "." : "", key);
}

static void say(struct walk *w, enum cs_finding_kind kind, const char *path, const json_t *value,
                const struct cs_err *said)
{
    cs_findings_say(w->findings, kind, w->document, path, value, "%s", said->text);
    if (w->status == CS_OK && cs_finding_is_error(kind))
        w->status = cs_fail(w->err, said->status, "%s: %s", w->document, said->text);
}

static void say_unknown(struct walk *w, const struct cs_doc_table *table, const char *path,
                        const char *key, const json_t *value)
{
    char name[CS_DOC_NAME], shown[CS_DOC_SHOWN];
    struct cs_err said;
    if (w->findings == NULL && !table->refuses_unknown)
        return;
    const char *near = cs_doc_near(table, key, name);
    (void)!cs_fail(&said, CS_INVALID, "%s %s is a key that nothing reads%s%s%s", path,
                   cs_doc_show(value, shown), near != NULL ? "; did you mean \"" : "",
                   near != NULL ? near : "", near != NULL ? "\"?" : "");
    say(w, table->refuses_unknown ? CS_FINDING_WRONG : CS_FINDING_UNKNOWN, path, value, &said);
}

/* Another spelling that holds before `name`, with another value. */
static void look_for_shadow(struct walk *w, const struct cs_doc_table *table, const json_t *object,
                            const struct cs_doc_key *row, const char *path, const char *name,
                            const json_t *value)
{
    char holds[CS_DOC_NAME], shown[CS_DOC_SHOWN], other[CS_DOC_SHOWN];
    struct cs_err said;
    const json_t *held = cs_doc_get(object, row->names, holds);
    if (row->use != CS_DOC_USED || strcmp(row->names, "*") == 0 || strcmp(holds, name) == 0 ||
        !cs_doc_says(value) || json_equal(held, value))
        return;
    (void)!cs_fail(&said, CS_INVALID, "%s %s is not used: %s %s holds", path,
                   cs_doc_show(value, shown), holds, cs_doc_show(held, other));
    say(w, table->refuses_shadowed ? CS_FINDING_WRONG : CS_FINDING_SHADOWED, path, value, &said);
}

static void walk_object(struct walk *w, const struct cs_doc_table *table, const char *where,
                        const json_t *object);

static void walk_list(struct walk *w, const struct cs_doc_table *table, const char *where,
                      const json_t *list)
{
    char path[PATH];
    size_t i;
    const json_t *item;
    json_array_foreach(list, i, item)
    {
        snprintf(path, sizeof path, "%s[%zu]", where, i);
        if (json_is_object(item))
            walk_object(w, table, path, item);
    }
}

static void walk_key(struct walk *w, const json_t *object, const struct cs_doc_table *table,
                     const char *where, const char *name, const json_t *value)
{
    char path[PATH];
    struct cs_err said;
    const struct cs_doc_key *row = cs_doc_find(table, name);
    if (row != NULL && strcmp(row->names, "*") == 0)
        snprintf(path, sizeof path, "%s[%.200s]", where, name);
    else
        put_path(path, where, name);
    if (json_is_null(value))
        return;
    if (row == NULL) {
        say_unknown(w, table, path, name, value);
        return;
    }
    enum cs_status status = cs_doc_value(row, path, value, &said);
    if (status != CS_OK) {
        say(w, status == CS_UNSUPPORTED ? CS_FINDING_REFUSED : CS_FINDING_WRONG, path, value,
            &said);
        return;
    }
    look_for_shadow(w, table, object, row, path, name, value);
    if (row->inside != NULL && json_is_object(value))
        walk_object(w, row->inside, path, value);
    else if (row->inside != NULL && json_is_array(value))
        walk_list(w, row->inside, path, value);
}

static void walk_object(struct walk *w, const struct cs_doc_table *table, const char *where,
                        const json_t *object)
{
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)object, name, value)
        walk_key(w, object, table, where, name, value);
}

enum cs_status cs_doc_review(const struct cs_doc *doc, struct cs_findings *findings,
                             struct cs_err *err)
{
    struct walk w = {doc->name, findings, err, CS_OK};
    if (!json_is_object(doc->json))
        return cs_fail(err, CS_INVALID, "%s%s%s is not an object", doc->name,
                       doc->where[0] != '\0' ? ": " : "", doc->where);
    walk_object(&w, doc->table, doc->where, doc->json);
    return w.status;
}
