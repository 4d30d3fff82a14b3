/* The kinds of layers: forward and backward of each. A new kind is a file and a row. */
#include "worker/layer/layers.h"

const struct cs_layer_ops *cs_layer_ops_of(enum cs_layer_kind kind)
{
    static const struct cs_layer_ops *const kinds[] = {
        [CS_LAYER_EMBED] = &cs_layer_embed,
        [CS_LAYER_BLOCK] = &cs_layer_block,
        [CS_LAYER_TAP] = &cs_layer_tap,
        [CS_LAYER_NORM] = &cs_layer_norm,
        [CS_LAYER_PROJECTOR] = &cs_layer_projector,
        [CS_LAYER_HEAD] = &cs_layer_head,
    };
    _Static_assert(CS_ARRAY_LEN(kinds) == CS_LAYER_KINDS, "one pair of functions per kind");
    return kinds[kind];
}
