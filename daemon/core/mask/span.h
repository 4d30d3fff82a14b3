/* Tokens of a sequence from spans: "two tokens of text, two of an image, one of text". The way
 * tests, the planner's what-if views and cs.lab.mask describe a mask. */
#ifndef CS_MASK_SPAN_H
#define CS_MASK_SPAN_H

#include "core/base/arena.h"
#include "core/mask/plan.h"

enum { CS_SPAN_TEXT = -1, CS_SPAN_PADDING = -2, CS_SPAN_OWN_ITEM = -1 };

struct cs_mask_span {
    int32_t modality; /* 0..60, CS_SPAN_TEXT or CS_SPAN_PADDING */
    int32_t tokens;   /* >= 0 */
    int32_t doc;      /* packed document; spans of one document are neighbours */
    int32_t
        item; /* modality spans: index in the document, or CS_SPAN_OWN_ITEM: the next free one */
};

/* What text may see besides text under the rules that look at words. */
enum cs_mask_text {
    CS_TEXT_SEES_ALL,  /* its word carries the bits of every modality of its document */
    CS_TEXT_SEES_TEXT, /* bit 0 only */
};

/* Fill *out (rule as given) with arrays in the arena. Positions restart in every document.
 * CS_INVALID: no tokens, too many (2^30), a modality or item out of range, a document that comes
 * back after another one, a window or prefix below 1 where the rule needs it. */
enum cs_status cs_mask_from_spans(const struct cs_mask_span *span, int n, struct cs_mask_rule rule,
                                  enum cs_mask_text text, struct cs_arena *arena,
                                  struct cs_mask_plan *out, struct cs_err *err) CS_NODISCARD;

/* "cornstarch" ...; "packed" is causal (documents never see each other under any rule) */
const char *cs_mask_kind_name(enum cs_mask_kind kind);
bool cs_mask_kind_from_name(const char *name, enum cs_mask_kind *kind);
/* The rule of that name with its parameters, as a job names it; NULL: causal. false: no such
 * rule. */
bool cs_mask_rule_named(const char *name, int32_t window, int32_t prefix,
                        struct cs_mask_rule *rule);

#endif
