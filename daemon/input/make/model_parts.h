/* What makes up a new model directory; private to input/make. */
#ifndef CS_INPUT_MAKE_MODEL_PARTS_H
#define CS_INPUT_MAKE_MODEL_PARTS_H

#include "core/arch/read/composite.h"
#include "core/base/arena.h"
#include "input/make/model_init.h"
#include "store/safetensors.h"

/* model_weights.c: fresh weights of a part. family: of the composite whose names they have, NULL: their own.
 * Returns how many. */
int cs_make_weights(const struct cs_arch *arch, const struct cs_composite_family *family,
                    uint64_t seed, struct cs_arena *arena, struct cs_st_out **out);

enum { CS_MAKE_TOKENS = 64 };

/* model_tokens.c: tokens of a tokenizer that is built here: "<|endoftext|>" first; family: with those of the
 * composite, NULL: without. How many. */
int cs_make_tokens(const struct cs_composite_family *family, struct cs_arena *arena,
                   const char *out[CS_MAKE_TOKENS]);
/* Puts the ids of the composite's tokens into its root. */
void cs_make_token_ids(const struct cs_composite_family *family, const json_t *tokenizer,
                       json_t *root);

/* model_whole.c: what lies beside the configuration of a composite and is not made here - processors, chat
 * template, without init->text also the tokenizer - byte for byte */
enum cs_status cs_make_copies(const struct cs_model_init *init, struct cs_err *err) CS_NODISCARD;
/* weights of all parts of the composite in init->dir, whose config.json is there */
enum cs_status cs_make_whole(const struct cs_model_init *init, struct cs_arena *arena,
                             struct cs_err *err) CS_NODISCARD;

#endif
