/* Make a new model directory from a configuration: config.json, fresh weights and, for a language
 * model, a tokenizer built from a text; for a vision encoder, preprocessor_config.json. Of a composite the
 * processors' documents, the chat template and, without a text, the tokenizer that lie beside its configuration are
 * copied; with a text its root gets the ids of the tokens that stand for pictures, videos and sounds.
 *
 * Weights are a pure function of (seed, tensor name): Philox normal times initializer_range, norms
 * 1, biases 0. The directory reads like one that save_pretrained wrote. */
#ifndef CS_INPUT_MAKE_MODEL_INIT_H
#define CS_INPUT_MAKE_MODEL_INIT_H

#include <jansson.h>
#include <stdint.h>

#include "core/arch/arch.h"
#include "core/base/status.h"
#include "core/doc/findings.h"

struct cs_model_init {
    const char *config; /* path of a config.json */
    const char *dir;    /* must not exist, or be empty */
    const char *text;   /* corpus of the tokenizer (language models); NULL: no tokenizer */
    int max_vocab;      /* with text: vocab_size of the config becomes what was built */
    uint64_t seed;
    struct cs_findings *findings; /* of the configuration; or NULL */
};

enum cs_status cs_model_init_make(const struct cs_model_init *init,
                                  struct cs_err *err) CS_NODISCARD;

/* preprocessor_config.json of a new encoder: pictures are resized to its size, values from -1 to 1. A new
 * object; NULL: it reads no pictures, or those of any size. */
json_t *cs_model_init_processor(const struct cs_arch *encoder);

#endif
