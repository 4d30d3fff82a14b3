/* Tokens that a tokenizer built here has beside the text's: those of a chat, and those that composites write
 * around pictures, videos and sounds. */
#include <string.h>

#include "core/doc/doc.h"
#include "input/make/model_parts.h"

static const char *const usual[] = {"<|endoftext|>", "<|im_start|>", "<|im_end|>", "<image>",
                                    "<audio>"};

enum { MOST = 6 };

/* Of the families whose placeholder is not <image> or <audio>: tokens, and the keys of the root that say their
 * ids; the first is the placeholder. */
static const struct own {
    const char *families;
    int tiles; /* a side, each with a token of its own */

    struct {
        const char *token, *key;
    } row[MOST];
} own[] = {
    {"qwen2_vl|qwen2_5_vl|qwen3_vl|qwen3_vl_moe|qwen3_5",
     0,                                                      {{"<|image_pad|>", "image_token_id"},
      {"<|video_pad|>", "video_token_id"},
      {"<|vision_start|>", "vision_start_token_id"},
      {"<|vision_end|>", "vision_end_token_id"}}                                                                                                 },
    {"gemma3",
     0,                                                      {{"<image_soft_token>", "image_token_index"},
      {"<start_of_image>", "boi_token_index"},
      {"<end_of_image>", "eoi_token_index"}}                                                                                                     },
    {"gemma4",
     0,                                                      {{"<|image|>", "image_token_id"},
      {"<|image>", "boi_token_id"},
      {"<image|>", "eoi_token_id"},
      {"<|video|>", "video_token_id"}}                                                                                                           },
    {"mistral3",                                          0, {{"[IMG]", "image_token_index"}, {"[IMG_BREAK]", NULL}, {"[IMG_END]", NULL}}               },
    {"internvl|internvl_chat",
     0,                                                      {{"<IMG_CONTEXT>", "image_token_id"}, {"<img>", NULL}, {"</img>", NULL}, {"<video>", NULL}}},
    {"smolvlm",
     6,                                                      {{"<image>", "image_token_id"},
      {"<fake_token_around_image>", NULL},
      {"<global-img>", NULL},
      {"<end_of_utterance>", NULL}}                                                                                                              },
    {"qwen2_audio",
     0,                                                      {{"<|AUDIO|>", "audio_token_index"}, {"<|audio_bos|>", NULL}, {"<|audio_eos|>", NULL}}     },
    {"voxtral",                                           0, {{"[AUDIO]", "audio_token_id"}, {"[BEGIN_AUDIO]", NULL}}                                   },
    {"llava|llava_next",                                  0, {{"<image>", "image_token_index"}}                                                         },
    {"llava_onevision",                                   0, {{"<image>", "image_token_index"}, {"<video>", "video_token_index"}}                       },
};

static const struct own *own_of(const struct cs_composite_family *family)
{
    for (size_t i = 0; family != NULL && i < CS_ARRAY_LEN(own); i++)
        if (cs_doc_is_word(own[i].families, family->model_type))
            return &own[i];
    return NULL;
}

static bool is_usual(const char *token)
{
    for (size_t i = 0; i < CS_ARRAY_LEN(usual); i++)
        if (strcmp(usual[i], token) == 0)
            return true;
    return false;
}

int cs_make_tokens(const struct cs_composite_family *family, struct cs_arena *arena,
                   const char *out[CS_MAKE_TOKENS])
{
    const struct own *more = own_of(family);
    const int side = more != NULL ? more->tiles : 0;
    int n = 0;

    for (size_t i = 0; i < CS_ARRAY_LEN(usual); i++)
        out[n++] = usual[i];
    for (int i = 0; more != NULL && i < MOST && more->row[i].token != NULL; i++)
        if (!is_usual(more->row[i].token))
            out[n++] = more->row[i].token;
    for (int i = 0; i < side * side; i++)
        out[n++] = cs_arena_printf(arena, "<row_%d_col_%d>", i / side + 1, i % side + 1);
    CS_ASSERT(n <= CS_MAKE_TOKENS);
    return n;
}

static const json_t *id_of(const json_t *tokenizer, const char *token)
{
    const json_t *row = NULL;
    size_t i = 0;

    json_array_foreach(json_object_get(tokenizer, "added_tokens"), i, row)
    {
        if (strcmp(json_string_value(json_object_get(row, "content")), token) == 0)
            return json_object_get(row, "id");
    }
    return NULL;
}

/* Both spellings of a key are known to transformers; of two in one document one would be wrong. */
void cs_make_token_ids(const struct cs_composite_family *family, const json_t *tokenizer,
                       json_t *root)
{
    const struct own *more = own_of(family);
    char said[CS_DOC_NAME];

    for (int i = 0; more != NULL && i < MOST && more->row[i].token != NULL; i++) {
        const char *key = more->row[i].key;
        if (i == 0 && cs_doc_get(root, family->token, said) != NULL)
            key = said;
        if (key != NULL)
            json_object_set(root, key, (json_t *)(uintptr_t)id_of(tokenizer, more->row[i].token));
    }
}
