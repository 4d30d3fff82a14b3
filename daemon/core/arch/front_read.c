/* What follows from the keys of an encoder's config.json. */
#include <math.h>

#include "core/arch/families.h"

static void at_least_one(int32_t *n)
{
    *n = *n > 0 ? *n : 1;
}

/* A table that is resized is a square. */
static enum cs_status check_positions(const struct cs_config_source *config,
                                      const struct cs_front *front, struct cs_err *err)
{
    char at[512];
    const bool is_square =
        front->position == CS_POSITION_BICUBIC || front->position == CS_POSITION_AREA ||
        front->position == CS_POSITION_CORNERS || front->position == CS_POSITION_BUCKETS;
    const int32_t side = (int32_t)lround(sqrt((double)front->position_rows));
    if (!is_square || (side * side == front->position_rows && side <= CS_FRONT_POSITION_SIDE))
        return CS_OK;
    return cs_fail(
        err, CS_INVALID,
        "%s%d positions are no square of at most %d a side, which is resized to the size "
        "of a picture",
        cs_model_at(config, at), front->position_rows, CS_FRONT_POSITION_SIDE);
}

static enum cs_status check_grid(const struct cs_config_source *config, const struct cs_arch *arch,
                                 struct cs_err *err)
{
    char at[512];
    const struct cs_front *f = &arch->front;
    if (f->window % f->merge != 0)
        return cs_fail(err, CS_INVALID,
                       "%sa window of %d patches does not divide into groups of %d patches",
                       cs_model_at(config, at), f->window, f->merge);
    return CS_OK;
}

enum cs_status cs_front_finish(const struct cs_config_source *config,
                               const struct cs_family *family, struct cs_arch *arch,
                               struct cs_err *err)
{
    struct cs_front *f = &arch->front;
    const int32_t side =
        arch->patch_size > 0 && arch->image_size > 0 ? arch->image_size / arch->patch_size : 0;
    at_least_one(&f->patch_frames);
    at_least_one(&f->merge);
    at_least_one(&f->pool);
    if (f->position != CS_POSITION_NONE && f->position_rows == 0)
        f->position_rows = side * side;
    arch->in_width = cs_front_values(arch);
    CS_TRY(check_positions(config, f, err));
    CS_TRY(check_grid(config, arch, err));
    if (family->tail != NULL)
        cs_chain_make(family->tail, 0, cs_front_group(arch), arch->width, &arch->chain);
    return CS_OK;
}
