/* Names of the entries in a checkpoint's files; private to the store.
 *
 * A whole parameter is under its global name, a slice of it under the name, its range and the
 * shape of the whole: "llm/model.norm.weight[3:10/64]" are elements 3 to 9 of 64. Moments have
 * ".exp_avg" and ".exp_avg_sq" behind the name, before the range. */
#ifndef CS_STORE_CKPT_ENTRY_H
#define CS_STORE_CKPT_ENTRY_H

#include "core/model/slice.h"
#include "store/safetensors.h"

enum cs_ckpt_kind { CS_CKPT_MASTER, CS_CKPT_EXP_AVG, CS_CKPT_EXP_AVG_SQ, CS_CKPT_KINDS };

/* CS_CKPT_KINDS: no kind is called so */
enum cs_ckpt_kind cs_ckpt_kind_of(const char *name);

struct cs_ckpt_entry {
    const char *name; /* global */
    enum cs_ckpt_kind kind;
    struct cs_slice whole, slice; /* param 0 */
};

const char *cs_ckpt_entry_name(const struct cs_ckpt_entry *entry, struct cs_arena *arena);
/* An entry of a file in params/ (is_moment: in opt/). Strings in arena. CS_CORRUPT: the name does
 * not fit the data. */
enum cs_status cs_ckpt_entry_read(const struct cs_st_tensor *tensor, bool is_moment,
                                  struct cs_arena *arena, struct cs_ckpt_entry *out,
                                  struct cs_err *err) CS_NODISCARD;

#endif
