/* What reading documents brought to light, for people: a list without repetitions. */
#ifndef CS_DOC_FINDINGS_H
#define CS_DOC_FINDINGS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/base/arena.h"
#include "core/base/status.h"

enum cs_finding_kind {
    CS_FINDING_UNKNOWN,  /* a key that nothing reads */
    CS_FINDING_SHADOWED, /* another spelling of the same setting holds, with another value */
    CS_FINDING_WRONG,    /* error: a known key whose value is of another type or out of range */
    CS_FINDING_REFUSED,  /* error: a known key that asks for what is not done here */
    CS_FINDING_DEFAULT,  /* a setting that nothing gave; its value is the default of `source` */
    CS_FINDING_KINDS
};

struct cs_finding {
    enum cs_finding_kind kind;
    enum cs_status status; /* of errors */
    const char *document;  /* "DIR/config.json" */
    const char *path;  /* of the first one: "text_config.rope_scaling.factor", "turns[3].loss" */
    const char *value; /* what stands there, or is taken: JSON, shortened */
    const char *text;  /* the whole sentence, document and path in it */
    int64_t n;         /* how often: paths that differ in a list's index count as one */
};

enum { CS_FINDINGS_MAX = 512 }; /* different ones; what is beyond is only counted */

/* In document order. Everything lives in the arena. */
struct cs_findings {
    struct cs_arena *arena;
    struct cs_finding *items;
    int n;
    int64_t n_left_out;
};

const char *cs_finding_kind_name(enum cs_finding_kind kind); /* "unknown", "shadowed", ... */
bool cs_finding_is_error(enum cs_finding_kind kind);
/* Copies the strings of `found`, or counts it to an equal one; findings NULL: nothing. */
void cs_findings_add(struct cs_findings *findings, const struct cs_finding *found);
/* The same with the sentence made here: "DOCUMENT: " and what fmt gives. */
__attribute__((format(printf, 6, 7))) void
cs_findings_say(struct cs_findings *findings, enum cs_finding_kind kind, const char *document,
                const char *path, const json_t *value, const char *fmt, ...);
int cs_findings_count(const struct cs_findings *findings, enum cs_finding_kind kind);

#endif
