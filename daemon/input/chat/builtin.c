/* Tables of the templates that families of models were trained with: the same text as the templates that
 * come with the models. */
#include "input/chat/builtin.h"

#include <stdio.h>
#include <string.h>

#define HELPFUL "You are a helpful assistant."
#define VICUNA                                                                                     \
    "A chat between a curious user and an artificial intelligence assistant. The assistant gives " \
    "helpful, detailed, and polite answers to the user's questions."
/* clang-format off */
#define QWEN_TURNS(is_trimmed)                                                     \
    .turn = {{"<|im_start|>system\n", "", "<|im_end|>", "\n", is_trimmed},         \
             {"<|im_start|>user\n", "", "<|im_end|>", "\n", is_trimmed},           \
             {"<|im_start|>assistant\n", "", "<|im_end|>", "\n", is_trimmed}}
#define QWEN_MEDIA                                                                 \
    .media.marker = {"<|vision_start|><|image_pad|><|vision_end|>",                \
                     "<|vision_start|><|video_pad|><|vision_end|>"}
#define BRACKETS(open_, close_, lead_, is_trimmed)                                 \
    .turn = {{"", "", "\n\n", "", false},                                          \
             {open_, "", close_, "", false},                                       \
             {"", lead_, "</s>", "", is_trimmed}}
#define NO_TEXTS .default_system = "", .tail = ""

static const struct cs_template builtin[] = {
    {.name = "chatml", .bos = "", .default_system = HELPFUL, .tail = "", QWEN_TURNS(false),
     .has_default_system = true, .is_prepending = true},
    /* Qwen2-VL, Qwen2.5-VL */
    {.name = "qwen2_vl", .bos = "", .default_system = HELPFUL, .tail = "", QWEN_TURNS(false), QWEN_MEDIA,
     .has_default_system = true, .is_prepending = true},
    {.name = "qwen3", .bos = "", NO_TEXTS, QWEN_TURNS(false),
     .thinking = {.open = "<think>\n", .close = "\n</think>\n\n", .is_filled = true, .is_final = true},
     .is_prepending = true},
    /* without thoughts: Qwen3-Instruct-2507, Qwen3-VL-Instruct */
    {.name = "qwen3_instruct", .bos = "", NO_TEXTS, QWEN_TURNS(false), QWEN_MEDIA, .is_prepending = true},
    {.name = "qwen3_5", .bos = "", NO_TEXTS, QWEN_TURNS(true), QWEN_MEDIA,
     .thinking = {.open = "<think>\n", .close = "\n</think>\n\n", .is_filled = true, .is_prompted = true,
                  .is_trimmed = true},
     .is_prepending = true},
    {.name = "llama2", .bos = "", NO_TEXTS,
     .turn = {{"<<SYS>>\n", "", "\n<</SYS>>\n\n", "", false},
              {"<s>[INST] ", "", " [/INST]", "", true},
              {"", " ", " </s>", "", true}},
     .system_place = CS_SYSTEM_FIRST, .is_system_joined = true, .is_prepending = true,
     .is_alternating = true},
    {.name = "llama3", .bos = "<|begin_of_text|>", NO_TEXTS,
     .turn = {{"<|start_header_id|>system<|end_header_id|>\n\n", "", "<|eot_id|>", "", true},
              {"<|start_header_id|>user<|end_header_id|>\n\n", "", "<|eot_id|>", "", true},
              {"<|start_header_id|>assistant<|end_header_id|>\n\n", "", "<|eot_id|>", "", true}},
     .is_prepending = true},
    /* Mistral-7B-Instruct-v0.1 and v0.2, Mixtral */
    {.name = "mistral_v1", .bos = "<s>", NO_TEXTS, BRACKETS(" [INST] ", " [/INST]", " ", false),
     .system_place = CS_SYSTEM_FIRST, .is_prepending = true, .is_alternating = true},
    /* v0.3; the system text goes into the last question, as mistral-common has it */
    {.name = "mistral_v3", .bos = "<s>", NO_TEXTS, BRACKETS("[INST] ", "[/INST]", " ", true),
     .system_place = CS_SYSTEM_LAST, .is_prepending = true, .is_alternating = true},
    /* Mistral-Nemo, Pixtral-12B */
    {.name = "mistral_v3_tekken", .bos = "<s>", NO_TEXTS, BRACKETS("[INST]", "[/INST]", "", false),
     .media.marker = {"[IMG]"}, .system_place = CS_SYSTEM_LAST, .is_prepending = true,
     .is_alternating = true},
    {.name = "mistral_v7", .bos = "<s>", NO_TEXTS,
     .turn = {{"[SYSTEM_PROMPT] ", "", "[/SYSTEM_PROMPT]", "", false},
              {"[INST] ", "", "[/INST]", "", false},
              {"", " ", "</s>", "", false}},
     .is_prepending = true, .is_alternating = true},
    /* Mistral-Small-3, 3.1 and 3.2, Ministral-3 */
    {.name = "mistral_v7_tekken", .bos = "<s>", NO_TEXTS,
     .turn = {{"[SYSTEM_PROMPT]", "", "[/SYSTEM_PROMPT]", "", false},
              {"[INST]", "", "[/INST]", "", false},
              {"", "", "</s>", "", false}},
     .media.marker = {"[IMG]"}, .is_prepending = true, .is_alternating = true},
    /* Gemma 2 and 3 */
    {.name = "gemma", .bos = "<bos>", NO_TEXTS,
     .turn = {{"", "", "\n\n", "", false},
              {"<start_of_turn>user\n", "", "<end_of_turn>", "\n", true},
              {"<start_of_turn>model\n", "", "<end_of_turn>", "\n", true}},
     .media.is_trimmed = true, .system_place = CS_SYSTEM_FIRST, .is_prepending = true,
     .is_alternating = true},
    {.name = "gemma4", .bos = "<bos>", NO_TEXTS,
     .turn = {{"<|turn>system\n", "", "<turn|>", "\n", true},
              {"<|turn>user\n", "", "<turn|>", "\n", true},
              {"<|turn>model\n", "", "<turn|>", "\n", true}},
     .thinking = {.open = "<|channel>", .close = "<channel|>", .is_cut = true},
     .media = {.marker = {"<|image|>", "<|video|>", "<|audio|>"}, .is_trimmed = true},
     .is_prepending = true, .is_alternating = true},
    {.name = "phi3", .bos = "", .default_system = "", .tail = "<|endoftext|>",
     .turn = {{"<|system|>\n", "", "<|end|>", "\n", false},
              {"<|user|>\n", "", "<|end|>", "\n", false},
              {"<|assistant|>\n", "", "<|end|>", "\n", false}},
     .is_prepending = true},
    {.name = "phi4", .bos = "", NO_TEXTS,
     .turn = {{"<|im_start|>system<|im_sep|>", "", "<|im_end|>", "", false},
              {"<|im_start|>user<|im_sep|>", "", "<|im_end|>", "", false},
              {"<|im_start|>assistant<|im_sep|>", "", "<|im_end|>", "", false}},
     .is_prepending = true},
    {.name = "vicuna_v1", .bos = "<s>", .default_system = VICUNA, .tail = "",
     .turn = {{"", "", "", " ", false},
              {"USER: ", "", "", " ", false},
              {"ASSISTANT:", " ", "</s>", "", false}},
     .has_default_system = true, .is_prepending = true},
    {.name = "plain", .bos = "", NO_TEXTS,
     .turn = {{"", "", "", "\n", false}, {"", "", "", "\n", false}, {"", "", "\n", "", false}},
     .is_prepending = true, .is_surrounded = true, .takes_texts = true},
};

/* clang-format on */

const struct cs_template *cs_template_builtin(int n)
{
    return n >= 0 && (size_t)n < CS_ARRAY_LEN(builtin) ? &builtin[n] : NULL;
}

const struct cs_template *cs_template_find(const char *name)
{
    for (size_t i = 0; i < CS_ARRAY_LEN(builtin); i++)
        if (strcmp(builtin[i].name, name) == 0)
            return &builtin[i];
    return NULL;
}

/* All that a turn's text is between, and what of it trains. */
static bool is_alike(const struct cs_template_turn *a, const struct cs_template_turn *b,
                     bool is_answer)
{
    char x[512], y[512];
    const char *mark = is_answer ? "|" : "";

    snprintf(x, sizeof x, "%s%s%s\n%s%s%s%d", a->prefix, mark, a->lead, a->end, mark, a->suffix,
             a->is_trimmed);
    snprintf(y, sizeof y, "%s%s%s\n%s%s%s%d", b->prefix, mark, b->lead, b->end, mark, b->suffix,
             b->is_trimmed);
    return strcmp(x, y) == 0;
}

static bool is_same_text(const char *a, const char *b)
{
    return a == NULL || b == NULL ? a == b : strcmp(a, b) == 0;
}

static bool is_same_thinking(const struct cs_thinking *a, const struct cs_thinking *b)
{
    return is_same_text(a->open, b->open) && is_same_text(a->close, b->close) &&
           a->mode == b->mode && a->is_filled == b->is_filled && a->is_final == b->is_final &&
           a->is_prompted == b->is_prompted && a->is_trimmed == b->is_trimmed &&
           a->is_cut == b->is_cut;
}

static bool is_same(const struct cs_template *a, const struct cs_template *b, bool has_media)
{
    bool out = strcmp(a->bos, b->bos) == 0 && strcmp(a->tail, b->tail) == 0 &&
               a->system_place == b->system_place && a->is_system_joined == b->is_system_joined &&
               is_same_thinking(&a->thinking, &b->thinking);

    for (int medium = 0; has_media && medium < CS_MEDIA; medium++)
        out &= is_same_text(a->media.marker[medium], b->media.marker[medium]);
    for (int role = 0; role < CS_TURN_ROLES; role++)
        out &= is_alike(&a->turn[role], &b->turn[role], role == CS_TURN_ASSISTANT);
    return out;
}

const char *cs_template_name_of(const struct cs_template *chat)
{
    for (int has_media = 1; has_media >= 0; has_media--)
        for (size_t i = 0; i < CS_ARRAY_LEN(builtin); i++)
            if (is_same(chat, &builtin[i], has_media))
                return builtin[i].name;
    return chat->name;
}

void cs_template_list(struct cs_buf *out)
{
    for (size_t i = 0; i < CS_ARRAY_LEN(builtin); i++)
        cs_buf_addf(out, "%s%s", i > 0 ? ", " : "", builtin[i].name);
}
