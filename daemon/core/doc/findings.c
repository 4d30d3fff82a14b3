/* Keeps findings: equal ones once, with a count. */
#include "core/doc/findings.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/doc/doc.h"

static const struct {
    const char *name;
    bool is_error;
} kinds[] = {
    [CS_FINDING_UNKNOWN] = {"unknown",  false},
      [CS_FINDING_SHADOWED] = {"shadowed", false},
    [CS_FINDING_WRONG] = {"wrong",    true },
      [CS_FINDING_REFUSED] = {"refused",  true },
    [CS_FINDING_DEFAULT] = {"default",  false},
};

_Static_assert(CS_ARRAY_LEN(kinds) == CS_FINDING_KINDS, "a row for each kind");

const char *cs_finding_kind_name(enum cs_finding_kind kind)
{
    return kinds[kind].name;
}

bool cs_finding_is_error(enum cs_finding_kind kind)
{
    return kinds[kind].is_error;
}

/* Equal but for what stands in brackets: the same key of other elements of a list. */
static bool is_same_path(const char *a, const char *b)
{
    for (; *a == *b && *a != '\0'; a++, b++) {
        if (*a != '[')
            continue;
        a += strcspn(a, "]");
        b += strcspn(b, "]");
        if (*a == '\0' || *b == '\0')
            break;
    }
    return *a == *b;
}

static bool is_same(const struct cs_finding *a, const struct cs_finding *b)
{
    return a->kind == b->kind && strcmp(a->document, b->document) == 0 &&
           is_same_path(a->path, b->path);
}

void cs_findings_add(struct cs_findings *findings, const struct cs_finding *found)
{
    if (findings == NULL)
        return;
    for (int i = 0; i < findings->n; i++)
        if (is_same(&findings->items[i], found)) {
            findings->items[i].n++;
            return;
        }
    if (findings->n == CS_FINDINGS_MAX) {
        findings->n_left_out++;
        return;
    }
    struct cs_arena *arena = findings->arena;
    if (findings->items == NULL)
        findings->items = CS_NEW_ARRAY(arena, struct cs_finding, CS_FINDINGS_MAX);
    findings->items[findings->n++] = (struct cs_finding){
        .kind = found->kind,
        .status = found->status,
        .document = cs_arena_strdup(arena, found->document),
        .path = cs_arena_strdup(arena, found->path),
        .value = cs_arena_strdup(arena, found->value),
        .text = cs_arena_strdup(arena, found->text),
        .n = 1,
    };
}

void cs_findings_say(struct cs_findings *findings, enum cs_finding_kind kind, const char *document,
                     const char *path, const json_t *value, const char *fmt, ...)
{
    char shown[CS_DOC_SHOWN], text[2048];
    va_list args;
    int n = snprintf(text, sizeof text, "%.1000s: ", document);
    va_start(args, fmt);
    vsnprintf(text + n, sizeof text - (size_t)n, fmt, args);
    va_end(args);
    cs_findings_add(
        findings,
        &(struct cs_finding){.kind = kind,
                             .status = kind == CS_FINDING_REFUSED ? CS_UNSUPPORTED : CS_INVALID,
                             .document = document,
                             .path = path,
                             .value = value != NULL ? cs_doc_show(value, shown) : "",
                             .text = text});
}

int cs_findings_count(const struct cs_findings *findings, enum cs_finding_kind kind)
{
    int n = 0;
    for (int i = 0; i < findings->n; i++)
        n += findings->items[i].kind == kind;
    return n;
}
