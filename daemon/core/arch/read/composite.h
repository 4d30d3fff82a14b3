/* Composite models: directories that hold a tower, its projector and a language model. What the root of
 * such a config.json says beside its parts, and which tensor of the files belongs to which part.
 *
 * A family is a row of a table (composites.c): there is no code per family. Sources: the configuration
 * classes of transformers 5 and the names that its versions 4 and 5 write. Where two spellings meet:
 * image_token_id holds over image_token_index; the embeddings are tied when the root or the text_config
 * says so. A tower that is saved with its own projector (Qwen2-VL's) is a composite without a language
 * model. */
#ifndef CS_CORE_ARCH_READ_COMPOSITE_H
#define CS_CORE_ARCH_READ_COMPOSITE_H

#include "core/arch/arch.h"

/* Names of a part's tensors in files and in the part's own directory; of all rows of a family the first
 * that fits a name says whose it is. */
struct cs_part_name {
    enum cs_module_kind kind;
    const char *disk, *component; /* beginnings: disk is replaced by component */
};

/* A setting of the projector that stands in the root, or inside one of its objects. */
struct cs_part_setting {
    const char *path; /* "vision_config.spatial_merge_size" */
    const char *key;  /* of the projector's own config.json */
    double unsaid;    /* default of the class; 0: none, of norm_eps that of the part's class */
};

struct cs_composite_family {
    const char *model_type;
    const char *class_name;               /* of transformers: "LlavaForConditionalGeneration" */
    const char *encoder_key;              /* "vision_config"; "": the root is the encoder's */
    const char *text_key;                 /* "text_config"; NULL: there is no language model */
    const char *encoder_type, *text_type; /* model_type of parts that say none; NULL: they must */
    const char *text_unsaid; /* JSON: what the class gives a text_config beside; NULL: nothing */
    bool is_flat;            /* the first files have the keys of the text in the root */
    const char *branch;      /* "vision" or "audio": what jobs call it, and the part */
    const char *projector;   /* its kind: model_type of its own config.json */
    const struct cs_doc_table *table; /* keys of the root */
    const struct cs_part_name *names;
    int n_names;
    const struct cs_part_setting *settings;
    int n_settings;
    const char *mask;     /* of the language model's rows; NULL: causal */
    const char *mask_key; /* of the text's config, which must be "vision" for that; NULL: none */
    bool has_cap;         /* the class caps logits, as that of its text alone does */
    const char *token;    /* key of the placeholder's id, all spellings */
    int64_t default_token;
    int32_t feature_layer; /* of the class */
    bool has_final_norm;   /* the state after the tower's final norm is handed on, always */
    bool drops_class;      /* the class does without vision_feature_select_strategy */
    bool has_bias;         /* of the projector's layers, by the class */
    bool is_tied;          /* by the class */
    const char *must_say;  /* a key whose default is what its row refuses; NULL: none */
};

struct cs_composite {
    const struct cs_composite_family *family;
    const char *activation; /* of the projector, a constant */
    bool has_bias;          /* of the projector's layers */
    bool drops_class;       /* rows of class tokens do not reach the projector */
    bool has_final_norm;    /* the state after the final norm feeds it, else feature_layer */
    int32_t feature_layer;  /* hidden state that feeds the projector: -1 after the last block ... */
    int64_t image_token;    /* id of the placeholder */
    bool is_tied;           /* lm_head is embed_tokens, by root or text_config */
};

/* The family of a root, NULL: it is no composite. */
const struct cs_composite_family *cs_composite_of(const json_t *config);
bool cs_composite_is(const json_t *config);
const struct cs_composite_family *cs_composite_families(int *n);
/* What the class makes of a root that leaves things out, in place: parts have types, and are objects. Any
 * other document stays as it is. false: no memory. */
bool cs_composite_complete(json_t *root);
/* The text's keys that the class of the whole does not read, which are told: a new object without them;
 * NULL: no memory. */
json_t *cs_composite_text(const struct cs_composite_family *family, const json_t *text);
/* Reviews the root and reads it; the parts are configs of their own (cs_arch_read). with_features: what
 * the encoder hands to the projector is of use, and must be what is supported: one layer. */
enum cs_status cs_composite_read(const struct cs_config_source *config, bool with_features,
                                 struct cs_composite *out, struct cs_err *err) CS_NODISCARD;
/* The config of the projector that such a root describes, a new object; NULL: no memory. */
json_t *cs_composite_projector(const struct cs_composite *composite, const json_t *root);
/* The mask of the language model behind such a root: a name of core/mask; NULL: causal. */
const char *cs_composite_mask(const struct cs_composite_family *family, const json_t *root);
/* The row of names that fits, NULL: the tensor is of no part. */
const struct cs_part_name *cs_composite_name(const struct cs_composite_family *family,
                                             const char *disk);
/* What a tensor of a part is called in the files: of the names that its class gives it the one that fits best
 * (fit: how well, below 0 not at all), of equals the first; NULL: none. fit NULL: as transformers 5 saves it. In the
 * arena. */
const char *cs_composite_disk_name(const struct cs_composite_family *family,
                                   enum cs_module_kind kind, const char *component,
                                   int (*fit)(void *user, enum cs_module_kind kind,
                                              const char *disk),
                                   void *user, struct cs_arena *arena);

#endif
