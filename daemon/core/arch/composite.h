/* Composite models: what the root of a llava config.json says beside its parts.
 *
 * Source: LlavaConfig of transformers 5. Where two spellings meet: image_token_id holds over
 * image_token_index; the embeddings are tied when the root or the text_config says so. */
#ifndef CS_MODEL_COMPOSITE_H
#define CS_MODEL_COMPOSITE_H

#include "core/arch/arch.h"

struct cs_composite {
    const char *activation; /* of the projector, a constant */
    bool has_bias;          /* of the projector's layers */
    int32_t feature_layer;  /* hidden state that feeds the projector: -1 after the last block ... */
    int64_t image_token;    /* id of the placeholder */
    bool is_tied;           /* lm_head is embed_tokens, by root or text_config */
};

bool cs_composite_is(const json_t *config); /* model_type llava */
/* Reviews the root and reads it; the parts are configs of their own (cs_arch_read). with_features: what
 * the encoder hands to the projector is of use, and must be what is supported: one layer, all rows. */
enum cs_status cs_composite_read(const struct cs_config_source *config, bool with_features,
                                 struct cs_composite *out, struct cs_err *err) CS_NODISCARD;
/* the keys of the root */
const struct cs_doc_table *cs_composite_keys(void);

#endif
