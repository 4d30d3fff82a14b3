/* Tables of the keys of a tokenizer's documents. */
#include "input/tok/files/keys.h"

#include <string.h>

#include "input/tok/files/files.h"

enum { TOKEN = CS_DOC_STRING | CS_DOC_OBJECT };

#define USED(name, types_)                                                                         \
    {                                                                                              \
        .names = (name), .types = (types_), .use = CS_DOC_USED                                     \
    }
#define INSIDE(name, types_, table)                                                                \
    {                                                                                              \
        .names = (name), .types = (types_), .use = CS_DOC_USED, .inside = (table)                  \
    }
#define HARMLESS(name)                                                                             \
    {                                                                                              \
        .names = (name), .types = CS_DOC_ANY, .use = CS_DOC_HARMLESS                               \
    }
#define REFUSED(name, only_, why)                                                                  \
    {                                                                                              \
        .names = (name), .types = CS_DOC_ANY, .use = CS_DOC_REFUSED, .only = (only_),              \
        .text = (why)                                                                              \
    }

static const struct cs_doc_key ids_keys[] = {
    {.names = "*", .types = CS_DOC_INT, .use = CS_DOC_USED, .max = TOK_MAX_ID - 1},
};
const struct cs_doc_table tok_ids_table = CS_DOC_TABLE(ids_keys, NULL);

static const struct cs_doc_key added_keys[] = {
    {.names = "id", .types = CS_DOC_INT, .use = CS_DOC_USED, .max = TOK_MAX_ID - 1},
    USED("content", CS_DOC_STRING),
    USED("single_word", CS_DOC_BOOL),
    USED("lstrip", CS_DOC_BOOL),
    USED("rstrip", CS_DOC_BOOL),
    USED("normalized", CS_DOC_BOOL),
    USED("special", CS_DOC_BOOL),
    HARMLESS("__type"),
};
static const struct cs_doc_table added_table = CS_DOC_TABLE(added_keys, NULL);

static const struct cs_doc_key pattern_keys[] = {
    USED("Regex", CS_DOC_STRING),
    USED("String", CS_DOC_STRING),
};
static const struct cs_doc_table pattern_table = CS_DOC_TABLE(pattern_keys, NULL);

static const struct cs_doc_table step_table;

/* of normalizers, pre-tokenizers and decoders */
static const struct cs_doc_key step_keys[] = {
    USED("type", CS_DOC_STRING),
    INSIDE("normalizers", CS_DOC_LIST, &step_table),
    INSIDE("pretokenizers", CS_DOC_LIST, &step_table),
    INSIDE("decoders", CS_DOC_LIST, &step_table),
    USED("add_prefix_space", CS_DOC_BOOL),
    USED("use_regex", CS_DOC_BOOL),
    INSIDE("pattern", CS_DOC_OBJECT, &pattern_table),
    USED("behavior", CS_DOC_STRING),
    USED("invert", CS_DOC_BOOL),
    USED("individual_digits", CS_DOC_BOOL),
    USED("content", CS_DOC_STRING),
    USED("prepend", CS_DOC_STRING),
    USED("strip_left", CS_DOC_BOOL),
    USED("strip_right", CS_DOC_BOOL),
    USED("precompiled_charsmap", CS_DOC_STRING),
    USED("replacement", CS_DOC_STRING),
    USED("prepend_scheme", CS_DOC_STRING),
    USED("split", CS_DOC_BOOL),
    USED("delimiter", CS_DOC_STRING),
    USED("suffix", CS_DOC_STRING),
    {.names = "start", .types = CS_DOC_INT, .use = CS_DOC_USED, .max = INT32_MAX},
    {.names = "stop",  .types = CS_DOC_INT, .use = CS_DOC_USED, .max = INT32_MAX},
    HARMLESS("trim_offsets"),
    HARMLESS("str_rep"),
};
static const struct cs_doc_table step_table = CS_DOC_TABLE(step_keys, NULL);

static const struct cs_doc_key model_keys[] = {
    USED("type", CS_DOC_STRING),
    INSIDE("vocab", CS_DOC_OBJECT | CS_DOC_LIST, &tok_ids_table),
    {.names = "unk_id", .types = CS_DOC_INT, .use = CS_DOC_USED, .max = TOK_MAX_ID - 1},
    USED("merges", CS_DOC_LIST),
    USED("unk_token", CS_DOC_STRING),
    USED("fuse_unk", CS_DOC_BOOL),
    USED("ignore_merges", CS_DOC_BOOL),
    USED("byte_fallback", CS_DOC_BOOL),
    USED("dropout", CS_DOC_NUMBER),
    USED("continuing_subword_prefix", CS_DOC_STRING),
    USED("end_of_word_suffix", CS_DOC_STRING),
};
static const struct cs_doc_table model_table = CS_DOC_TABLE(model_keys, NULL);

static const struct cs_doc_key file_keys[] = {
    INSIDE("added_tokens", CS_DOC_LIST, &added_table),
    INSIDE("normalizer", CS_DOC_OBJECT, &step_table),
    INSIDE("pre_tokenizer", CS_DOC_OBJECT, &step_table),
    INSIDE("model", CS_DOC_OBJECT, &model_table),
    HARMLESS("version"),
    HARMLESS("truncation"),
    HARMLESS("padding"),
    USED("post_processor", CS_DOC_OBJECT),
    INSIDE("decoder", CS_DOC_OBJECT, &step_table),
};
const struct cs_doc_table tok_file_table = CS_DOC_TABLE(file_keys, NULL);

static const struct cs_doc_key tekken_config_keys[] = {
    USED("pattern", CS_DOC_STRING),
    {.names = "default_vocab_size",         .types = CS_DOC_INT, .use = CS_DOC_USED, .max = TOK_MAX_ID - 1},
    {.names = "default_num_special_tokens",
                                .types = CS_DOC_INT,
                                .use = CS_DOC_USED,
                                .max = TOK_MAX_ID - 1                                                                                },
    HARMLESS("num_vocab_tokens"),
    HARMLESS("version"),
};
static const struct cs_doc_table tekken_config_table = CS_DOC_TABLE(tekken_config_keys, NULL);

static const struct cs_doc_key tekken_keys[] = {
    INSIDE("config", CS_DOC_OBJECT, &tekken_config_table),
    USED("vocab", CS_DOC_LIST),
    USED("special_tokens", CS_DOC_LIST),
    HARMLESS("version"),
    HARMLESS("type"),
    HARMLESS("image|multimodal"),
    HARMLESS("audio"),
    HARMLESS("model_settings_builder"),
};
const struct cs_doc_table tok_tekken_table = CS_DOC_TABLE(tekken_keys, NULL);

static const struct cs_doc_key by_id_keys[] = {
    INSIDE("*", CS_DOC_OBJECT, &added_table),
};
static const struct cs_doc_table by_id_table = CS_DOC_TABLE(by_id_keys, NULL);

static const struct cs_doc_key special_keys[] = {
    INSIDE("bos_token", TOKEN, &added_table),
    INSIDE("eos_token", TOKEN, &added_table),
    INSIDE("unk_token", TOKEN, &added_table),
    INSIDE("sep_token", TOKEN, &added_table),
    INSIDE("pad_token", TOKEN, &added_table),
    INSIDE("cls_token", TOKEN, &added_table),
    INSIDE("mask_token", TOKEN, &added_table),
    USED("extra_special_tokens|additional_special_tokens", CS_DOC_LIST | CS_DOC_OBJECT),
};
const struct cs_doc_table tok_special_table = CS_DOC_TABLE(special_keys, NULL);

static const struct cs_doc_key config_keys[] = {
    INSIDE("added_tokens_decoder", CS_DOC_OBJECT, &by_id_table),
    USED("chat_template", CS_DOC_STRING | CS_DOC_LIST),
    REFUSED("fast_tokenizer_files", NULL, "only tokenizer.json is read"),
    REFUSED("split_special_tokens", "false", "special tokens are never split here"),
    USED("add_bos_token", CS_DOC_BOOL),
    USED("add_eos_token", CS_DOC_BOOL),
    HARMLESS("add_prefix_space"),
    HARMLESS("auto_map"),
    HARMLESS("backend"),
    HARMLESS("clean_up_tokenization_spaces"),
    HARMLESS("errors"),
    HARMLESS("from_slow"),
    HARMLESS("init_inputs"),
    HARMLESS("is_local"),
    HARMLESS("legacy"),
    HARMLESS("local_files_only"),
    HARMLESS("max_length"),
    HARMLESS("max_len"),
    HARMLESS("model_input_names"),
    HARMLESS("model_max_length"),
    HARMLESS("name_or_path"),
    HARMLESS("pad_to_multiple_of"),
    HARMLESS("pad_token_type_id"),
    HARMLESS("padding_side"),
    HARMLESS("processor_class"),
    HARMLESS("response_schema"),
    HARMLESS("response_template"),
    HARMLESS("return_token_type_ids"),
    HARMLESS("sp_model_kwargs"),
    HARMLESS("spaces_between_special_tokens"),
    HARMLESS("special_tokens_map_file"),
    HARMLESS("stride"),
    HARMLESS("tokenizer_class"),
    HARMLESS("tokenizer_file"),
    HARMLESS("truncation_side"),
    HARMLESS("truncation_strategy"),
    HARMLESS("use_default_system_prompt"),
    HARMLESS("vocab_size"),
};
const struct cs_doc_table tok_config_table = CS_DOC_TABLE(config_keys, &tok_special_table);

static const char *const named[] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                    "pad_token", "cls_token", "mask_token"};

const char *tok_named_key(int i)
{
    return (size_t)i < CS_ARRAY_LEN(named) ? named[i] : NULL;
}

bool tok_is_own_key(const char *key)
{
    const size_t n = strlen(key), n_end = strlen("_token");

    for (size_t i = 0; i < CS_ARRAY_LEN(named); i++)
        if (strcmp(key, named[i]) == 0)
            return false;
    return n > n_end && strcmp(key + n - n_end, "_token") == 0 &&
           strcmp(key, "add_bos_token") != 0 && strcmp(key, "add_eos_token") != 0;
}
