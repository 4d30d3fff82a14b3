/* Names of mask rules, and the tokens that a list of spans stands for. */
#include "core/mask/span.h"

#include <string.h>

enum { MAX_TOKENS = 1 << 30 };

static const char *const kind_names[CS_MASK_KINDS] = {
    [CS_MASK_CAUSAL] = "causal",
    [CS_MASK_FULL] = "full",
    [CS_MASK_CORNSTARCH] = "cornstarch",
    [CS_MASK_IMAGE_BIDIR] = "image_bidir",
    [CS_MASK_WINDOW] = "window",
    [CS_MASK_PREFIX] = "prefix",
    [CS_MASK_ITEM] = "item",
    [CS_MASK_MODALITY_BIDIR] = "modality_bidir",
    [CS_MASK_IMAGE_BIDIR_WINDOW] = "image_bidir_window",
    [CS_MASK_IMAGE_WINDOW] = "image_window",
};

const char *cs_mask_kind_name(enum cs_mask_kind kind)
{
    return kind < CS_MASK_KINDS ? kind_names[kind] : "unknown";
}

bool cs_mask_kind_from_name(const char *name, enum cs_mask_kind *kind)
{
    if (strcmp(name, "packed") == 0)
        name = kind_names[CS_MASK_CAUSAL];
    for (int i = 0; i < CS_MASK_KINDS; i++)
        if (strcmp(name, kind_names[i]) == 0) {
            *kind = (enum cs_mask_kind)i;
            return true;
        }
    return false;
}

bool cs_mask_rule_named(const char *name, int32_t window, int32_t prefix, struct cs_mask_rule *rule)
{
    *rule = (struct cs_mask_rule){.kind = CS_MASK_CAUSAL, .window = window, .prefix = prefix};
    return name == NULL || cs_mask_kind_from_name(name, &rule->kind);
}

static enum cs_status check_span(const struct cs_mask_span *span, int i, struct cs_err *err)
{
    if (span[i].tokens < 0)
        return cs_fail(err, CS_INVALID, "span %d has %d tokens", i, (int)span[i].tokens);
    if (span[i].modality < CS_SPAN_PADDING || span[i].modality >= CS_MASK_MODALITIES)
        return cs_fail(err, CS_INVALID, "span %d is of modality %d; a mask holds %d modalities", i,
                       (int)span[i].modality, CS_MASK_MODALITIES);
    if (span[i].item < CS_SPAN_OWN_ITEM)
        return cs_fail(err, CS_INVALID, "span %d has item %d", i, (int)span[i].item);
    if (i > 0 && span[i].doc < span[i - 1].doc)
        return cs_fail(err, CS_INVALID,
                       "span %d belongs to document %d, the one before it to %d; give the spans "
                       "document by document",
                       i, (int)span[i].doc, (int)span[i - 1].doc);
    return CS_OK;
}

static enum cs_status check(const struct cs_mask_span *span, int n, struct cs_mask_rule rule,
                            int32_t *n_tokens, struct cs_err *err)
{
    int64_t sum = 0;
    for (int i = 0; i < n; i++) {
        CS_TRY(check_span(span, i, err));
        sum += span[i].tokens;
    }
    if (sum < 1 || sum > MAX_TOKENS)
        return cs_fail(err, CS_INVALID, "the spans hold %lld tokens; 1 to %d are possible",
                       (long long)sum, MAX_TOKENS);
    if (cs_mask_has_window(rule.kind) && rule.window < 1)
        return cs_fail(err, CS_INVALID, "the window is %d tokens; it must be at least 1",
                       (int)rule.window);
    if (rule.kind == CS_MASK_PREFIX && rule.prefix < 1)
        return cs_fail(err, CS_INVALID, "the prefix is %d tokens; it must be at least 1",
                       (int)rule.prefix);
    *n_tokens = (int32_t)sum;
    return CS_OK;
}

/* bits of every modality of the document that starts at span i */
static uint64_t modalities_of(const struct cs_mask_span *span, int n, int i)
{
    uint64_t bits = 0;
    for (int j = i; j < n && span[j].doc == span[i].doc; j++)
        if (span[j].modality >= 0 && span[j].tokens > 0)
            bits |= CS_MASK_MODALITY(span[j].modality);
    return bits;
}

static uint64_t word_of(const struct cs_mask_span *span, uint64_t seen_by_text)
{
    if (span->modality == CS_SPAN_PADDING)
        return 0;
    return span->modality == CS_SPAN_TEXT ? CS_MASK_TEXT | seen_by_text
                                          : CS_MASK_MODALITY(span->modality);
}

enum cs_status cs_mask_from_spans(const struct cs_mask_span *span, int n, struct cs_mask_rule rule,
                                  enum cs_mask_text text, struct cs_arena *arena,
                                  struct cs_mask_plan *out, struct cs_err *err)
{
    int32_t n_tokens = 0, at = 0, pos = 0, next_item = 0;
    uint64_t seen = 0;
    CS_TRY(check(span, n, rule, &n_tokens, err));
    int32_t *doc = CS_NEW_ARRAY(arena, int32_t, n_tokens),
            *position = CS_NEW_ARRAY(arena, int32_t, n_tokens),
            *item = CS_NEW_ARRAY(arena, int32_t, n_tokens);
    uint64_t *word = CS_NEW_ARRAY(arena, uint64_t, n_tokens);
    int32_t *segment = CS_NEW_ARRAY(arena, int32_t, n_tokens + 1);
    for (int i = 0; i < n; i++) {
        if (i == 0 || span[i].doc != span[i - 1].doc) {
            seen = text == CS_TEXT_SEES_ALL ? modalities_of(span, n, i) : 0;
            pos = next_item = 0;
        }
        int32_t own = span[i].modality < 0 ? -1 : span[i].item;
        if (span[i].modality >= 0 && own == CS_SPAN_OWN_ITEM)
            own = next_item;
        next_item = own >= next_item ? own + 1 : next_item;
        for (int32_t t = 0; t < span[i].tokens; t++, at++) {
            doc[at] = span[i].doc;
            position[at] = pos++;
            item[at] = own;
            word[at] = word_of(&span[i], seen);
        }
    }
    *out = (struct cs_mask_plan){.rule = rule,
                                 .n_tokens = n_tokens,
                                 .doc = doc,
                                 .pos = position,
                                 .item = item,
                                 .word = word,
                                 .segment = segment};
    out->n_segments = cs_mask_segments(doc, n_tokens, segment);
    return CS_OK;
}
