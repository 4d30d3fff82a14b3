/* Families as data: which keys of a config.json set which option, with the class default of that
 * model_type, and which tensors such a model has. Adding a family is adding rows. Used by
 * read/ only; each table has a file beside this. */
#ifndef CS_CORE_ARCH_FAMILIES_FAMILIES_H
#define CS_CORE_ARCH_FAMILIES_FAMILIES_H

#include "core/arch/families/keys.h"

/* Shape codes, resolved against the options. */
enum cs_dim {
    CS_DIM_NONE,
    CS_DIM_H,   /* width */
    CS_DIM_IN,  /* in_width */
    CS_DIM_FFN, /* ffn_width */
    CS_DIM_QD,  /* heads * head_dim */
    CS_DIM_KVD, /* kv heads * head_dim */
    CS_DIM_QN,
    CS_DIM_KN,   /* what one norm of q, of k is over: a head, or all of them */
    CS_DIM_QKV,  /* q, k and v of all heads */
    CS_DIM_FFN2, /* gate and up */
    CS_DIM_QGD,  /* QD, and as many for gates where there are */
    CS_DIM_CONV,
    CS_DIM_VALUES,
    CS_DIM_MIX_HEADS,
    CS_DIM_VALUE, /* of recurrent blocks: channels of the convolution, values of all heads, heads, of one */
    CS_DIM_TAPS,
    CS_DIM_EXPERTS,
    CS_DIM_EXPERT,
    CS_DIM_EXPERT2, /* experts, the inner width of one, twice that */
    CS_DIM_ONE,
    CS_DIM_VOCAB,
    CS_DIM_POSITIONS, /* rows of the table of positions, that of a class row with them */
    CS_DIM_CHANNELS,
    CS_DIM_PATCH,
    CS_DIM_FRAMES, /* that a patch spans */
    CS_DIM_TWO,
    CS_DIM_THREE,
    CS_DIM_NORM, /* of a chain: the width that is normed */
    CS_DIM_FROM, /* its matrix `part`: the width before */
    CS_DIM_TO,   /* and behind */
    CS_DIMS
};

enum cs_tensor_if {
    CS_IF_ALWAYS,
    CS_IF_QKV_BIAS,
    CS_IF_O_BIAS,
    CS_IF_V, /* values are not the keys */
    CS_IF_V_BIAS,
    CS_IF_QK_NORM,
    CS_IF_LAYER_SCALAR,
    CS_IF_MLP_BIAS,
    CS_IF_PATCH_BIAS,
    CS_IF_CLASS,
    CS_IF_PLAIN, /* the MLP is not gated, or it is; with biases */
    CS_IF_GATED,
    CS_IF_PLAIN_BIAS,
    CS_IF_GATED_BIAS,
    CS_IF_LAYER_SCALE,
    CS_IF_POSITION,
    CS_IF_PRE_NORM, /* after the embedding; with a bias */
    CS_IF_PRE_NORM_BIAS,
    CS_IF_STANDARDISED,
    CS_IF_FINAL_NORM,
    CS_IF_FINAL_NORM_BIAS,
    CS_IF_UNTIED,
    CS_IF_LAYER_NORM,  /* norms of the blocks have biases */
    CS_IF_LINEAR,      /* the chain has the matrix `part` */
    CS_IF_LINEAR_BIAS, /* and biases */
    CS_IF_NEWLINE,
    CS_IF_ATTENTION, /* blocks of these halves; biases and norms of them too */
    CS_IF_ATTENTION_QKV_BIAS,
    CS_IF_ATTENTION_O_BIAS,
    CS_IF_ATTENTION_QK_NORM,
    CS_IF_DELTA,
    CS_IF_DENSE,
    CS_IF_EXPERTS,
    CS_IFS
};

/* A tensor that a module of the family has once, or once in every block. */
struct cs_tensor_row {
    enum cs_param_role role;
    enum cs_layer_kind layer_kind;
    const char *name; /* rows of CS_LAYER_BLOCK hold one %d: the block */
    enum cs_dim dim[CS_TENSOR_DIMS];
    enum cs_tensor_if condition;
    int32_t part; /* of several tensors of that role in a layer */
    bool is_fixed;
    bool
        is_per_expert; /* one for each: the name holds a second %d, the expert, which is the part */
    const char
        *whole; /* as in cs_tensor_info, with one %d; of experts in the order of their group */
};

/* Which blocks look back through a window only. */
enum cs_windows {
    CS_WINDOWS_NONE,      /* none; the class knows no such key */
    CS_WINDOWS_ALL,       /* all, where sliding_window is a number */
    CS_WINDOWS_ALL_USED,  /* the same where use_sliding_window is true */
    CS_WINDOWS_ABOVE,     /* use_sliding_window: layer_types, or blocks from max_window_layers on */
    CS_WINDOWS_TYPES,     /* layer_types, or all but every so many */
    CS_WINDOWS_RECURRENT, /* none: layer_types, or every so many attend (full_attention_interval) */
};

/* Rotation as a class reads it. */
struct cs_rope_rules {
    double theta;          /* default of the class: of all layers, or of those without a window */
    double local_theta;    /* of those with one; 0: one rope for all */
    const char *local_key; /* where that one may stand too, or NULL */
    bool is_partial;       /* the class can turn a part of a head */
    double share;          /* default of that part; 0: all of it */
    bool is_longrope;      /* the class takes no other kind, and has old names for it */
    bool is_new;           /* the class reads nothing that version 4 wrote */
    int32_t original_positions; /* default of a key that the class has beside; 0: it has none */
    enum cs_rope_axes axes;
    int32_t section[3];
    struct cs_rope unsaid; /* where the config has no object: of all layers, or of those without a
                              window; NONE: the plain one */
};

/* One model_type of transformers. A composite has inner and nothing else. */
struct cs_family {
    const char *model_type;
    const char *inner;                /* a composite's key that holds the real config, or NULL */
    const char *inner_type;           /* model_type the inner config has when it says none */
    struct cs_arch base;              /* what no key says: kind, family, norm kind, biases ... */
    const struct cs_doc_table *table; /* rows of struct cs_config_key */
    const struct cs_rope_rules *rope; /* NULL: nothing turns */
    const char *rope_key;             /* it turns where this key says how; NULL: always */
    enum cs_windows windows;
    int32_t window;    /* class default, 0: none */
    int32_t pattern;   /* class default: first block with a window; every so many have none */
    bool is_last_full; /* the last block has no window, whatever the types */

    struct {
        int32_t head_dim, n_kv_heads;
    } full; /* class defaults of layers without a window; 0: as the others */

    const char *tail, *tap; /* chains behind an encoder's blocks, behind some of them; NULL: none */
    enum cs_inside inside;  /* of an encoder: of blocks that see most */
};

/* Tensors of a family, found by arch->family. */
struct cs_tensor_table {
    const char *family;
    const char *alt_prefix; /* the other spelling is this before the name; NULL: none */
    const struct cs_tensor_row *rows;
    int n_rows;
};

/* The families of one file. */
struct cs_family_set {
    const struct cs_family *family;
    int n_families;
    const struct cs_tensor_table *table;
    int n_tables;
};

extern const struct cs_family_set cs_families_vision, cs_families_grid, cs_families_audio,
    cs_families_llm, cs_families_gemma, cs_families_mixed, cs_families_own;

const struct cs_family *cs_family_at(int i);                         /* NULL: behind the last */
const struct cs_family *cs_family_named(const char *model_type);     /* NULL: no such type */
const struct cs_tensor_table *cs_family_tensors(const char *family); /* NULL: no such family */

#endif
