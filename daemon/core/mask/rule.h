/* The rule of an attention mask, evaluated here only: planner, CPU twin and GPU plan builder
 * include this header (C11, also compiled by nvcc).
 *
 * Every token carries: doc (packed documents never see each other), pos (position inside the
 * document), item (index of the image or clip inside the document, -1 for text) and word (modality
 * bits: bit 0 text, bits 1..61 modality index + 1; 0: padding, sees nothing and is seen by nobody).
 * Source of the word and of CS_MASK_CORNSTARCH: Cornstarch, bitfield attention.
 *
 * A rule has two halves: cs_mask_relation looks at what two tokens are (document, word, item) and
 * says which test of their positions decides; cs_mask_allows makes that test. Whoever counts pairs
 * or tiles asks for the relation once per two runs of like tokens and solves the test in closed
 * form. */
#ifndef CS_MASK_RULE_H
#define CS_MASK_RULE_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __CUDACC__
#define CS_MASK_INLINE static inline __host__ __device__
#else
#define CS_MASK_INLINE static inline
#endif

#define CS_MASK_TEXT            UINT64_C(1)
#define CS_MASK_MODALITY(index) (UINT64_C(2) << (index)) /* index 0..60 */
#define CS_MASK_LOW             ((UINT64_C(1) << 62) - 1)

enum { CS_MASK_MODALITIES = 61 };

enum cs_mask_kind {
    CS_MASK_CAUSAL,      /* text model: earlier tokens of the same document */
    CS_MASK_FULL,        /* encoder: every token of the same document (for encoders: of the item) */
    CS_MASK_CORNSTARCH,  /* text causal over text of its word; modality spans full among equal
                          * words */
    CS_MASK_IMAGE_BIDIR, /* causal, but tokens of one item see each other both ways (Gemma 3) */
    CS_MASK_WINDOW,      /* causal with pos_q - pos_k < window */
    CS_MASK_PREFIX,      /* the first prefix tokens of the document are full, the rest causal */
    CS_MASK_ITEM,        /* as CORNSTARCH, but a span is full inside its item only */
    CS_MASK_MODALITY_BIDIR,     /* causal, but spans of equal words see each other both ways */
    CS_MASK_IMAGE_BIDIR_WINDOW, /* WINDOW, but tokens of one item see all of each other */
    CS_MASK_IMAGE_WINDOW, /* WINDOW over IMAGE_BIDIR: of its item a token sees what is behind it, and
                           * back as far as the window (Gemma 3 and 4) */
    CS_MASK_KINDS
};

struct cs_mask_rule {
    enum cs_mask_kind kind;
    int32_t window; /* tokens, rules with a window */
    int32_t prefix; /* tokens, CS_MASK_PREFIX */
};

struct cs_mask_token {
    uint64_t word;
    int32_t doc, pos, item;
};

enum cs_mask_relation {
    CS_MASK_NEVER,
    CS_MASK_ALWAYS,
    CS_MASK_EARLIER, /* pos_k <= pos_q */
    CS_MASK_NEAR,    /* pos_k <= pos_q and pos_q - pos_k < window */
    CS_MASK_HEAD,    /* pos_k <= pos_q, or both below prefix */
    CS_MASK_BACK,    /* pos_q - pos_k < window */
};

CS_MASK_INLINE bool cs_mask_has_window(enum cs_mask_kind kind)
{
    return kind == CS_MASK_WINDOW || kind == CS_MASK_IMAGE_BIDIR_WINDOW ||
           kind == CS_MASK_IMAGE_WINDOW;
}

/* The rule looks at what tokens are, beside their documents and positions. */
CS_MASK_INLINE bool cs_mask_asks_what(enum cs_mask_kind kind)
{
    return kind == CS_MASK_CORNSTARCH || kind == CS_MASK_ITEM || kind == CS_MASK_IMAGE_BIDIR ||
           kind == CS_MASK_MODALITY_BIDIR || kind == CS_MASK_IMAGE_BIDIR_WINDOW ||
           kind == CS_MASK_IMAGE_WINDOW;
}

/* Does not look at positions. */
CS_MASK_INLINE enum cs_mask_relation
cs_mask_relation(struct cs_mask_rule rule, struct cs_mask_token q, struct cs_mask_token k)
{
    const uint64_t q_low = q.word & CS_MASK_LOW, k_low = k.word & CS_MASK_LOW;
    const bool is_text = (q.word & CS_MASK_TEXT) != 0;
    const bool is_item = q.item >= 0 && q.item == k.item;
    if (q_low == 0 || k_low == 0 || q.doc != k.doc)
        return CS_MASK_NEVER;
    switch (rule.kind) {
    case CS_MASK_CAUSAL:
        return CS_MASK_EARLIER;
    case CS_MASK_FULL:
        return CS_MASK_ALWAYS;
    case CS_MASK_CORNSTARCH:
        if (is_text)
            return (q_low & k_low) != 0 ? CS_MASK_EARLIER : CS_MASK_NEVER;
        return q_low == k_low ? CS_MASK_ALWAYS : CS_MASK_NEVER;
    case CS_MASK_ITEM:
        if (is_text)
            return (q_low & k_low) != 0 ? CS_MASK_EARLIER : CS_MASK_NEVER;
        return q_low == k_low && q.item == k.item ? CS_MASK_ALWAYS : CS_MASK_NEVER;
    case CS_MASK_IMAGE_BIDIR:
        return is_item ? CS_MASK_ALWAYS : CS_MASK_EARLIER;
    case CS_MASK_IMAGE_BIDIR_WINDOW:
        return is_item ? CS_MASK_ALWAYS : CS_MASK_NEAR;
    case CS_MASK_IMAGE_WINDOW:
        return is_item ? CS_MASK_BACK : CS_MASK_NEAR;
    case CS_MASK_MODALITY_BIDIR:
        return !is_text && q_low == k_low ? CS_MASK_ALWAYS : CS_MASK_EARLIER;
    case CS_MASK_WINDOW:
        return CS_MASK_NEAR;
    case CS_MASK_PREFIX:
        return CS_MASK_HEAD;
    case CS_MASK_KINDS:
        break;
    }
    return CS_MASK_NEVER;
}

CS_MASK_INLINE bool cs_mask_allows(struct cs_mask_rule rule, struct cs_mask_token q,
                                   struct cs_mask_token k)
{
    const bool is_earlier = k.pos <= q.pos;
    switch (cs_mask_relation(rule, q, k)) {
    case CS_MASK_NEVER:
        return false;
    case CS_MASK_ALWAYS:
        return true;
    case CS_MASK_EARLIER:
        return is_earlier;
    case CS_MASK_NEAR:
        return is_earlier && q.pos - k.pos < rule.window;
    case CS_MASK_HEAD:
        return is_earlier || (q.pos < rule.prefix && k.pos < rule.prefix);
    case CS_MASK_BACK:
        return q.pos - k.pos < rule.window;
    }
    return false;
}

/* The token reduced to what the relation of this rule looks at inside a document: tokens with equal
 * classes stand in the same relation to every other token. */
CS_MASK_INLINE struct cs_mask_token cs_mask_class(struct cs_mask_rule rule, struct cs_mask_token t)
{
    const bool by_word = rule.kind == CS_MASK_CORNSTARCH || rule.kind == CS_MASK_ITEM ||
                         rule.kind == CS_MASK_MODALITY_BIDIR;
    const bool by_item = rule.kind == CS_MASK_IMAGE_BIDIR ||
                         rule.kind == CS_MASK_IMAGE_BIDIR_WINDOW ||
                         rule.kind == CS_MASK_IMAGE_WINDOW ||
                         (rule.kind == CS_MASK_ITEM && (t.word & CS_MASK_TEXT) == 0);
    const uint64_t low = t.word & CS_MASK_LOW;
    t.item = low != 0 && by_item && t.item >= 0 ? t.item : -1;
    t.word = by_word ? low : (low != 0 ? CS_MASK_TEXT : 0);
    t.pos = 0;
    return t;
}

#endif
