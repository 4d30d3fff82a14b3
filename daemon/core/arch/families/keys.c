/* Keys that config.json files of every model have, or every language model. Sources: the fields of
 * transformers' PreTrainedConfig (5), those that earlier versions wrote into every file, and the
 * parameters of generation that it takes out of a config. */
#include "core/arch/families/keys.h"

#define HARMLESS(names_)                                                                           \
    {                                                                                              \
        {.names = names_, .types = CS_DOC_ANY, .use = CS_DOC_HARMLESS}, CS_KEY_NONE, 0, 0, 0, 0    \
    }
#define KNOWN(...)                                                                                 \
    {                                                                                              \
        {__VA_ARGS__}, CS_KEY_NONE, 0, 0, 0, 0                                                     \
    }

static const struct cs_config_key common_keys[] = {
    KNOWN(.names = "model_type", .types = CS_DOC_STRING, .text = "the class of the model"),
    KNOWN(.names = "quantization_config", .types = CS_DOC_ANY, .use = CS_DOC_REFUSED,
          .text = "quantized weights are not supported"),
    /* what wrote the file, and what else it holds */
    HARMLESS("architectures|auto_map|transformers_version|_name_or_path|name_or_path|_commit_hash|"
             "custom_pipelines|processor_class|tokenizer_class|_attn_implementation_autoset|"
             "_attn_implementation|attn_implementation|_experts_implementation|_diffusers_version|"
             "unsloth_version|unsloth_fixed"),
    /* a job says what it computes in */
    HARMLESS("dtype|torch_dtype|use_bfloat16|torchscript"),
    /* what a forward returns */
    HARMLESS("output_hidden_states|output_attentions|return_dict|use_return_dict|use_cache|"
             "chunk_size_feed_forward|is_decoder|is_encoder_decoder|cross_attention_hidden_size|"
             "add_cross_attention|pruned_heads|tie_encoder_decoder|tf_legacy_loss"),
    /* heads of classifiers */
    HARMLESS("id2label|label2id|num_labels|problem_type|finetuning_task|task_specific_params|"
             "prefix|sep_token_id|classifier_dropout"),
    /* how text is generated */
    HARMLESS("assistant_confidence_threshold|assistant_lookbehind|bad_words_ids|"
             "begin_suppress_tokens|decoder_start_token_id|diversity_penalty|do_sample|"
             "early_stopping|encoder_no_repeat_ngram_size|encoder_repetition_penalty|"
             "epsilon_cutoff|eta_cutoff|exponential_decay_length_penalty|forced_bos_token_id|"
             "forced_eos_token_id|length_penalty|max_length|max_new_tokens|min_length|"
             "no_repeat_ngram_size|num_assistant_tokens|num_assistant_tokens_schedule|"
             "num_beam_groups|num_beams|num_return_sequences|output_scores|remove_invalid_values|"
             "repetition_penalty|return_dict_in_generate|suppress_tokens|target_lookbehind|"
             "temperature|top_k|top_p|typical_p"),
};
const struct cs_doc_table cs_model_common = CS_DOC_TABLE(common_keys, NULL);

#define ONE_ROPE "one rope for each kind of layer is not supported in this family"
#define LAYERS   "full_attention|sliding_attention|chunked_attention|linear_attention"

/* clang-format off */
#define ROPE_KEYS                                                                                  \
    {.names = "rope_type|type", .types = CS_DOC_STRING, .accept = "default|linear|llama3|yarn|longrope|su|mrope|proportional|dynamic|axial"}, \
    {.names = "rope_theta", .types = CS_DOC_POSITIVE, .max = 1e15},                                \
    {.names = "factor", .types = CS_DOC_POSITIVE, .max = 1e6},                                     \
    {.names = "low_freq_factor", .types = CS_DOC_POSITIVE, .max = 1e6},                            \
    {.names = "high_freq_factor", .types = CS_DOC_POSITIVE, .max = 1e6},                           \
    {.names = "attention_factor", .types = CS_DOC_POSITIVE, .max = 1e6},                           \
    {.names = "beta_fast", .types = CS_DOC_POSITIVE, .max = 1e6},                                  \
    {.names = "beta_slow", .types = CS_DOC_POSITIVE, .max = 1e6},                                  \
    {.names = "mscale", .types = CS_DOC_NUMBER, .min = 0, .max = 1e6},                             \
    {.names = "mscale_all_dim", .types = CS_DOC_NUMBER, .min = 0, .max = 1e6},                     \
    {.names = "truncate", .types = CS_DOC_BOOL},                                                   \
    {.names = "short_factor", .types = CS_DOC_LIST},                                               \
    {.names = "long_factor", .types = CS_DOC_LIST},                                                \
    {.names = "mrope_section", .types = CS_DOC_LIST},                                              \
    {.names = "mrope_interleaved", .types = CS_DOC_ANY, .use = CS_DOC_HARMLESS}, /* the class decides */ \
    {.names = "llama_4_scaling_beta", .types = CS_DOC_NUMBER, .min = 0, .max = 1e6},               \
    {.names = "max_position_embeddings", .types = CS_DOC_ANY, .use = CS_DOC_HARMLESS}, /* a copy */ \
    {.names = "original_max_position_embeddings", .types = CS_DOC_INT, .min = 1, .max = 1 << 30},  \
    {.names = "partial_rotary_factor", .types = CS_DOC_POSITIVE, .max = 1}

static const struct cs_doc_key rope_keys[] = {ROPE_KEYS};
static const struct cs_doc_key one_rope_keys[] = {
    ROPE_KEYS,
    {.names = LAYERS, .types = CS_DOC_OBJECT, .use = CS_DOC_REFUSED, .text = ONE_ROPE},
};
static const struct cs_doc_table rope_table = CS_DOC_TABLE(rope_keys, NULL);
static const struct cs_doc_table one_rope_table = CS_DOC_TABLE(one_rope_keys, NULL);
static const struct cs_doc_key layer_rope_keys[] = {
    {.names = "full_attention", .types = CS_DOC_OBJECT, .inside = &rope_table},
    {.names = "sliding_attention", .types = CS_DOC_OBJECT, .inside = &rope_table},
};
static const struct cs_doc_table layer_rope_table = CS_DOC_TABLE(layer_rope_keys, NULL);

/* clang-format on */

/* transformers 5: an old rope_scaling that says anything takes the place of rope_parameters, also of
 * its rope_theta; in either, rope_theta stands before the one beside it. */
#define LANGUAGE_KEYS                                                                                                   \
    KNOWN(.names = "rope_theta", .types = CS_DOC_POSITIVE, .max = 1e15),                                                \
        KNOWN(.names = "original_max_position_embeddings", .types = CS_DOC_INT, .min = 1,                               \
              .max = 1 << 30),                                                                                          \
        KNOWN(.names = "partial_rotary_factor", .types = CS_DOC_POSITIVE, .max = 1),                                    \
        KNOWN(.names = "attention_dropout", .types = CS_DOC_NUMBER, .use = CS_DOC_REFUSED,                              \
              .only = "0", .min = 0, .max = 1,                                                                          \
              .text =                                                                                                   \
                  "dropout in attention is not supported"), /* templates and tokenizers say which tokens these are */   \
        HARMLESS(                                                                                                       \
            "bos_token_id|eos_token_id|pad_token_id|unk_token_id"), /* of Llama 2: how its trainers cut the matrices */ \
        HARMLESS("pretraining_tp")

static const struct cs_doc_key grid_rope_keys[] = {
    {.names = "rope_type|type", .types = CS_DOC_STRING,   .accept = "default|axial"},
    {.names = "rope_theta",     .types = CS_DOC_POSITIVE, .max = 1e15              },
};
static const struct cs_doc_table grid_rope_table = CS_DOC_TABLE(grid_rope_keys, NULL);
static const struct cs_config_key grid_keys[] = {
    KNOWN(.names = "rope_parameters|rope_scaling", .types = CS_DOC_OBJECT,
          .inside = &grid_rope_table),
    KNOWN(.names = "rope_theta", .types = CS_DOC_POSITIVE, .max = 1e15),
};
const struct cs_doc_table cs_model_grid = CS_DOC_TABLE(grid_keys, &cs_model_common);

static const struct cs_config_key language_keys[] = {
    KNOWN(.names = "rope_scaling|rope_parameters", .types = CS_DOC_OBJECT,
          .inside = &one_rope_table),
    LANGUAGE_KEYS,
};
const struct cs_doc_table cs_model_language = CS_DOC_TABLE(language_keys, &cs_model_common);

static const struct cs_config_key by_layer_keys[] = {
    KNOWN(.names = "rope_parameters", .types = CS_DOC_OBJECT, .inside = &layer_rope_table),
    KNOWN(.names = "rope_scaling", .types = CS_DOC_OBJECT, .inside = &rope_table),
    LANGUAGE_KEYS,
};
const struct cs_doc_table cs_model_by_layer = CS_DOC_TABLE(by_layer_keys, &cs_model_common);
