/* How rows of the tables of families are written: keys of a config.json, tensors. Included by the
 * files of the tables alone; a row whose default is another field comes after that field's row. */
#ifndef CS_CORE_ARCH_FAMILIES_FAMILY_ROWS_H
#define CS_CORE_ARCH_FAMILIES_FAMILY_ROWS_H

#include <stddef.h>

#include "core/arch/families/families.h"

#define AT(field) offsetof(struct cs_arch, field)
#define HEADS     attention[0].n_heads
#define KV_HEADS  attention[0].n_kv_heads
#define HEAD_DIM  attention[0].head_dim

/* clang-format off */
#define ROW(names_, types_, lo, hi, store, field, fallback, d, other)                              \
    {{.names = names_, .types = CS_DOC_##types_, .min = lo, .max = hi}, CS_KEY_##store, field, CS_DEFAULT_##fallback, d, other}
#define INT(names, field, d, lo, hi)      ROW(names, INT, lo, hi, INT, AT(field), VALUE, d, 0)
#define EPS(names, field, d)              ROW(names, POSITIVE, 0, 1, FLOAT, AT(field), VALUE, d, 0)
#define FLOAT(names, field, d, lo, hi)    ROW(names, NUMBER, lo, hi, FLOAT, AT(field), VALUE, d, 0)
#define BOOL(names, field, d)             ROW(names, BOOL, 0, 0, BOOL, AT(field), VALUE, d, 0)
#define ACT(names_, d)                    {{.names = names_, .types = CS_DOC_STRING, .accept = CS_ACT_WORDS}, CS_KEY_ACT, AT(act), CS_DEFAULT_VALUE, d, 0}
#define OR_NONE(names, field, d, lo, hi)  ROW(names, NUMBER, lo, hi, FLOAT, AT(field), OR_NONE, d, 0)
#define SAME(names, field, other, lo, hi) ROW(names, INT, lo, hi, INT, AT(field), FIELD, 0, AT(other))
#define MIXED(names, field, d, other, lo, hi) ROW(names, INT, lo, hi, INT, AT(field), MIXED, d, AT(other))
/* one number, or two that must be equal */
#define SIDE(names, field, d)             ROW(names, INT | CS_DOC_LIST, 1, MAX_PIXELS, INT, AT(field), VALUE, d, 0)
#define PER_HEAD(names)                   ROW(names, INT, 1, 1024, INT, AT(HEAD_DIM), PER_HEAD, 0, 0)
/* read by other means than a field of its own, or not at all */
#define KNOWN(...)                        {{__VA_ARGS__}, CS_KEY_NONE, 0, 0, 0, 0}
#define REFUSED(names_, types_, only_, why) KNOWN(.names = names_, .types = CS_DOC_##types_, .use = CS_DOC_REFUSED, .only = only_, .text = why)
#define HARMLESS(names_)                  KNOWN(.names = names_, .types = CS_DOC_ANY, .use = CS_DOC_HARMLESS)

/* clang-format on */

enum {
    MAX_WIDTH = 1 << 20,
    MAX_LAYERS = 4096,
    MAX_HEADS = 4096,
    MAX_VOCAB = 1 << 24,
    MAX_POSITIONS = 1 << 28,
    MAX_PIXELS = 1 << 12
};

#define COUNT(a) (int)CS_ARRAY_LEN(a)

#define H   CS_DIM_H
#define IN  CS_DIM_IN
#define FFN CS_DIM_FFN
#define QD  CS_DIM_QD
#define KVD CS_DIM_KVD
/* clang-format off */
/* one of several tensors of its role in a layer; the only one */
#define P(role, part, kind, name, cond, ...) \
    {CS_PARAM_##role, CS_LAYER_##kind, name, {__VA_ARGS__}, CS_IF_##cond, part, false, false, NULL}
/* one for every expert of a block; whole: the tensor of the class that holds them all */
#define E(role, name, whole, ...) \
    {CS_PARAM_##role, CS_LAYER_BLOCK, name, {__VA_ARGS__}, CS_IF_EXPERTS, 0, false, true, whole}
/* no weight: nothing makes it train */
#define FIXED(role, kind, name, cond, ...) \
    {CS_PARAM_##role, CS_LAYER_##kind, name, {__VA_ARGS__}, CS_IF_##cond, 0, true, false, NULL}
#define T(role, kind, name, cond, ...) P(role, 0, kind, name, cond, __VA_ARGS__)
/* clang-format on */

#endif
