/* A model directory in another layout of the same model: names of tensors, experts one by one or
 * together, types, one file or shards; InternVL as its authors write it or as transformers does. Every
 * value is copied, or rounded to the type that is asked for; nothing is computed. */
#ifndef CS_STORE_CONVERT_H
#define CS_STORE_CONVERT_H

#include <stdint.h>

#include "core/base/status.h"

/* Names of the parts of composites:
 *   keep    as the directory has them
 *   saved   outside of each other: "vision_tower.", "language_model.", Qwen's "visual.", "model."
 *   nested  as the classes of transformers 5 have them: "model.vision_tower.", "model.language_model.", "lm_head."
 *   v4      as saved, and towers with the prefix that version 4 had: "vision_model.encoder. ..." */
#define CS_CONVERT_NAMES(X) X(keep) X(saved) X(nested) X(v4)
/* Matrices of experts: as they are, one tensor for each, or one for all of a block. */
#define CS_CONVERT_EXPERTS(X) X(keep) X(each) X(fused)
#define CS_CONVERT_WORD(w)    #w,

enum cs_convert_names {

#define X(w) CS_CONVERT_NAMES_##w,
    CS_CONVERT_NAMES(X)
#undef X
};

enum cs_convert_experts {

#define X(w) CS_CONVERT_EXPERTS_##w,
    CS_CONVERT_EXPERTS(X)
#undef X
};

struct cs_convert {
    const char *dir, *out; /* out: absent or empty (store/hf/export.h: whole or not there) */
    enum cs_convert_names names;
    enum cs_convert_experts experts;
    const char
        *family; /* NULL, or the model_type of the other layout: "internvl", "internvl_chat" */
    const char *dtype;   /* NULL: as they are; "float32", "bfloat16", "float16" */
    int64_t shard_bytes; /* most bytes of weights in a file; 0: one file */
};

struct cs_convert_report {
    int n_tensors, n_files;
    int64_t n_renamed; /* tensors that have another name now */
    uint64_t bytes;
};

/* CS_UNSUPPORTED: the model has no such layout. CS_INVALID: a value is too large for float16
 * (named); experts are asked for, and no block has any. */
enum cs_status cs_convert_run(const struct cs_convert *convert, struct cs_convert_report *report,
                              struct cs_err *err) CS_NODISCARD;

#endif
