/* The rule of an attention mask, evaluated here only: planner, CPU twin and GPU plan builder include
 * this header (C11, also compiled by nvcc).
 *
 * Every token carries: doc (packed documents never see each other), pos (position inside the
 * document), item (index of the image or clip inside the document, -1 for text) and word (modality
 * bits: bit 0 text, bits 1..61 modality index + 1; 0: padding, sees nothing and is seen by nobody).
 * Source of the word and of CS_MASK_CORNSTARCH: Cornstarch, bitfield attention. */
#ifndef CS_MASK_RULE_H
#define CS_MASK_RULE_H

#include <stdbool.h>
#include <stdint.h>

#define CS_MASK_TEXT UINT64_C(1)
#define CS_MASK_MODALITY(index) (UINT64_C(2) << (index)) /* index 0..60 */
#define CS_MASK_LOW ((UINT64_C(1) << 62) - 1)

enum cs_mask_kind {
    CS_MASK_CAUSAL,      /* text model: earlier tokens of the same document */
    CS_MASK_FULL,        /* encoder: every token of the same document (for encoders: of the item) */
    CS_MASK_CORNSTARCH,  /* text causal over text of its word; modality spans full among equal words */
    CS_MASK_IMAGE_BIDIR, /* causal, but tokens of one item see each other both ways (Gemma 3) */
    CS_MASK_WINDOW,      /* causal with pos_q - pos_k < window */
    CS_MASK_PREFIX,      /* the first prefix tokens of the document are full, the rest causal */
    CS_MASK_KINDS
};

struct cs_mask_rule {
    enum cs_mask_kind kind;
    int32_t window; /* tokens, CS_MASK_WINDOW */
    int32_t prefix; /* tokens, CS_MASK_PREFIX */
};

struct cs_mask_token {
    uint64_t word;
    int32_t doc, pos, item;
};

static inline bool cs_mask_allows(struct cs_mask_rule rule, struct cs_mask_token q,
                                  struct cs_mask_token k)
{
    if (q.word == 0 || k.word == 0 || q.doc != k.doc)
        return false;
    const bool is_earlier = k.pos <= q.pos;
    switch (rule.kind) {
    case CS_MASK_CAUSAL:
        return is_earlier;
    case CS_MASK_FULL:
        return true;
    case CS_MASK_CORNSTARCH:
        if (q.word & CS_MASK_TEXT)
            return is_earlier && (q.word & k.word & CS_MASK_LOW) != 0;
        return (q.word & CS_MASK_LOW) == (k.word & CS_MASK_LOW);
    case CS_MASK_IMAGE_BIDIR:
        return is_earlier || (q.item >= 0 && q.item == k.item);
    case CS_MASK_WINDOW:
        return is_earlier && q.pos - k.pos < rule.window;
    case CS_MASK_PREFIX:
        return is_earlier || (q.pos < rule.prefix && k.pos < rule.prefix);
    case CS_MASK_KINDS:
        break;
    }
    return false;
}

#endif
