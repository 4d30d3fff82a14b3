/* Pieces of a conversion, private to the store. */
#ifndef CS_STORE_CONVERT_PARTS_H
#define CS_STORE_CONVERT_PARTS_H

#include "core/base/arena.h"
#include "store/convert/convert.h"
#include "store/fsio.h"
#include "store/hf/hfdir.h"

struct cs_conversion {
    const struct cs_convert *asked;
    struct cs_convert_report *report;
    const char *root; /* the temporary directory everything goes to */
    struct cs_arena *arena;
    struct cs_err *err;
    const struct cs_composite_family *from, *to; /* NULL both: a plain directory */
    struct cs_hfdir *part[CS_MODULE_KINDS];      /* a plain directory: of its kind alone */
    struct cs_arch arch[CS_MODULE_KINDS];        /* of the parts that are there */
    json_t *config;                              /* of the result */
    enum cs_dtype dtype;                         /* CS_DTYPES: as they are */
    struct cs_st_out *out;                       /* (n_out) all tensors of the result */
    int n_out, room;
};

/* tensors.c: the tensors of one part, under their names in the result */
enum cs_status cs_convert_part(struct cs_conversion *c, enum cs_module_kind kind) CS_NODISCARD;
/* names.c: what a tensor of a part is called in the result; NULL: it has no name there */
const char *cs_convert_name(const struct cs_conversion *c, enum cs_module_kind kind,
                            const char *component);
/* Whether version 4 put a prefix before the tensors of such a tower (info->alt): in a directory of its own the
 * family's, inside of composites that of CLIP and SigLIP, where they keep their tower as "vision_tower.". */
bool cs_convert_has_prefix(const struct cs_conversion *c, enum cs_module_kind kind,
                           const struct cs_tensor_info *info);
/* config.c: c->config, and the processor's where the layout has one of its own */
enum cs_status cs_convert_config(struct cs_conversion *c) CS_NODISCARD;
/* write.c: one file, or shards with their index */
enum cs_status cs_convert_write(struct cs_conversion *c) CS_NODISCARD;

#endif
