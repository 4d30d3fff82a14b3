/* Families as data: which keys of a config.json set which option, with the class default of that
 * model_type, and which tensors such a model has. Adding a family is adding rows. Used by
 * arch.c, attention.c, rope.c and tensors.c only. */
#ifndef CS_MODEL_FAMILIES_H
#define CS_MODEL_FAMILIES_H

#include "core/arch/arch.h"
#include "core/arch/config.h"

/* Shape codes, resolved against the options. */
enum cs_dim {
    CS_DIM_NONE,
    CS_DIM_H,   /* width */
    CS_DIM_IN,  /* in_width */
    CS_DIM_FFN, /* ffn_width */
    CS_DIM_QD,  /* heads * head_dim */
    CS_DIM_KVD, /* kv heads * head_dim */
    CS_DIM_HD,  /* head_dim */
    CS_DIM_VOCAB,
    CS_DIM_ITEMS, /* positions of one picture: (image / patch)^2 */
    CS_DIM_CHANNELS,
    CS_DIM_PATCH,
    CS_DIMS
};

enum cs_tensor_if {
    CS_IF_ALWAYS,
    CS_IF_QKV_BIAS,
    CS_IF_O_BIAS,
    CS_IF_QK_NORM,
    CS_IF_MLP_BIAS,
    CS_IF_PATCH_BIAS,
    CS_IF_POSITIONS,
    CS_IF_FINAL_NORM,
    CS_IF_UNTIED,
    CS_IF_TWO_LAYERS,
    CS_IF_TWO_BIASES, /* of two layers, with biases */
    CS_IFS
};

/* A tensor that a module of the family has once, or once in every block. */
struct cs_tensor_row {
    enum cs_param_role role;
    enum cs_layer_kind layer_kind;
    const char *name; /* rows of CS_LAYER_BLOCK hold one %d: the block */
    enum cs_dim dim[4];
    enum cs_tensor_if condition;
    int32_t part; /* of several tensors of that role in a layer */
};

/* Which blocks look back through a window only. */
enum cs_windows {
    CS_WINDOWS_NONE,  /* none; the class knows no such key */
    CS_WINDOWS_ABOVE, /* use_sliding_window: layer_types, or blocks from max_window_layers on */
};

/* One model_type of transformers. A composite has inner and nothing else. */
struct cs_family {
    const char *model_type;
    const char *inner;                /* a composite's key that holds the real config, or NULL */
    const char *inner_type;           /* model_type the inner config has when it says none */
    struct cs_arch base;              /* what no key says: kind, family, norm kind, biases ... */
    const struct cs_doc_table *table; /* rows of struct cs_config_key */
    bool has_rope;
    double rope_theta; /* class default */
    enum cs_windows windows;
};

/* Tensors of a family, found by arch->family. */
struct cs_tensor_table {
    const char *family;
    const char *alt_prefix; /* the other spelling is this before the name; NULL: none */
    const struct cs_tensor_row *rows;
    int n_rows;
};

const struct cs_family *cs_families(int *n);
const struct cs_tensor_table *cs_family_tensors(const char *family); /* NULL: no such family */

/* rope.c: rope_scaling or rope_parameters, and what stands beside them */
enum cs_status cs_rope_read(const struct cs_config_source *config, double default_theta,
                            int32_t max_positions, struct cs_attention *attention,
                            struct cs_err *err) CS_NODISCARD;
/* attention.c: attention[0] as the keys set it becomes the table of kinds, one for every type of
 * layer that the model has, and block_attention */
enum cs_status cs_attention_kinds(const struct cs_config_source *config, enum cs_windows windows,
                                  struct cs_arena *arena, struct cs_arch *arch,
                                  struct cs_err *err) CS_NODISCARD;

#endif
