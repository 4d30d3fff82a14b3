/* What follows from the keys of an encoder's config.json. */
#include <math.h>
#include <string.h>

#include "core/arch/read/read.h"

static void at_least_one(int32_t *n)
{
    *n = *n > 0 ? *n : 1;
}

/* A table has as many rows as its pictures have patches, where a row goes by its number. */
static enum cs_status check_rows(const struct cs_config_source *config, const struct cs_arch *arch,
                                 int32_t side, struct cs_err *err)
{
    char at[512];
    const struct cs_front *f = &arch->front;
    cs_model_at(config, at);
    const bool is_too_small = arch->image_size > 0 && side == 0; /* check_shape tells */
    if (f->stem == CS_STEM_FRAMES || f->position == CS_POSITION_NONE || is_too_small)
        return CS_OK;
    if (f->position_rows < 1)
        return cs_fail(err, CS_INVALID,
                       "%spositions without rows: image_size, or num_positions, says how many", at);
    if (f->position == CS_POSITION_ROW && f->position_rows != side * side)
        return cs_fail(
            err, CS_INVALID,
            "%s%d positions for pictures of %d patches: a table that is not resized has one "
            "for each",
            at, f->position_rows, side * side);
    return CS_OK;
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

/* Sides of pictures and patches may be given as two numbers. */
static enum cs_status check_sides(const struct cs_config_source *config, struct cs_err *err)
{
    static const char *const keys[] = {"image_size", "patch_size"};
    char at[512];
    for (size_t i = 0; i < CS_ARRAY_LEN(keys); i++) {
        const json_t *list = cs_doc_get(config->json, keys[i], NULL);
        const json_int_t side = json_integer_value(json_array_get(list, 0));
        if (json_is_array(list) && (json_array_size(list) != 2 || side < 1 || side > 4096 ||
                                    !json_equal(json_array_get(list, 0), json_array_get(list, 1))))
            return cs_fail(err, CS_UNSUPPORTED,
                           "%s%s is not one number, nor two that are equal: other pictures and "
                           "patches are not supported",
                           cs_model_at(config, at), keys[i]);
    }
    return CS_OK;
}

/* The inner width where only a ratio is said; that of DINOv2's gated MLP is two thirds of it, in eights. */
static void set_ffn_width(struct cs_arch *arch)
{
    if (!(arch->front.mlp_ratio > 0))
        return;
    arch->ffn_width = (int32_t)((float)arch->width * arch->front.mlp_ratio);
    if (!arch->is_gated_mlp)
        return;
    arch->ffn_width = (arch->ffn_width * 2 / 3 + 7) / 8 * 8;
    arch->act = CS_ARCH_SILU;
}

/* Of the larger towers of InternVL. */
static void set_norms(const struct cs_config_source *config, const struct cs_family *family,
                      struct cs_arch *arch)
{
    static const char kind[] = "norm_type", heads[] = "use_qk_norm|qk_normalization";
    if (family->table == NULL || cs_doc_find(family->table, kind) == NULL)
        return;
    const char *said = json_string_value(cs_doc_get(config->json, kind, NULL));
    const json_t *is_normed = cs_doc_get(config->json, heads, NULL);
    if (said != NULL)
        arch->norm = strcmp(said, "rms_norm") == 0 ? CS_ARCH_RMS_NORM : CS_ARCH_LAYER_NORM;
    if (is_normed != NULL)
        arch->qk_norm = json_is_true(is_normed) ? CS_QK_NORM_WIDTH : CS_QK_NORM_NONE;
}

/* Gemma 4 multiplies its means with the root of the width, and may standardise them. */
static void make_tail(const char *steps, struct cs_arch *arch)
{
    const bool has_affine = strchr(steps, 'F') != NULL;
    cs_chain_make(steps, 0, cs_front_group(arch), arch->width, &arch->chain);
    if (!has_affine)
        return;
    arch->chain.scale = sqrtf((float)arch->width);
    arch->chain.n -= !arch->front.is_standardised;
}

enum cs_status cs_front_finish(const struct cs_config_source *config,
                               const struct cs_family *family, struct cs_arch *arch,
                               struct cs_err *err)
{
    struct cs_front *f = &arch->front;
    const int32_t side =
        arch->patch_size > 0 && arch->image_size > 0 ? arch->image_size / arch->patch_size : 0;
    CS_TRY(check_sides(config, err));
    set_ffn_width(arch);
    set_norms(config, family, arch);
    at_least_one(&f->patch_frames);
    at_least_one(&f->merge);
    at_least_one(&f->pool);
    if (f->position != CS_POSITION_NONE && f->position_rows == 0)
        f->position_rows = side * side;
    if (f->window > 0) /* it was said in pixels: whole groups of patches */
        f->window = f->window / f->merge / arch->patch_size * f->merge;
    arch->in_width = cs_front_values(arch);
    CS_TRY(check_rows(config, arch, side, err));
    CS_TRY(check_positions(config, f, err));
    CS_TRY(check_grid(config, arch, err));
    const bool is_norm = family->tail != NULL && strcmp(family->tail, "N") == 0;
    if (family->tail != NULL && (!is_norm || arch->has_final_norm))
        make_tail(family->tail, arch);
    return CS_OK;
}

/* Numbers of blocks, rising; NULL: those of the class. */
static enum cs_status read_blocks(const struct cs_config_source *config, const char *key,
                                  const int32_t *unsaid, int32_t n_unsaid, int32_t most,
                                  const struct cs_arch *arch, int32_t *out, int32_t *n,
                                  struct cs_err *err)
{
    char at[512];
    const json_t *list = cs_doc_get(config->json, key, NULL);
    *n = list != NULL ? (int32_t)json_array_size(list) : n_unsaid;
    for (int32_t i = 0; i < *n; i++) {
        const json_t *value = json_array_get(list, (size_t)i);
        const json_int_t block = list != NULL ? json_integer_value(value) : unsaid[i];
        if ((list != NULL && !json_is_integer(value)) || i >= most || block < 0 ||
            block >= arch->n_layers || (i > 0 && block <= out[i - 1]))
            return cs_fail(err, CS_INVALID,
                           "%s%s does not list at most %d of the %d blocks, in rising order",
                           cs_model_at(config, at), key, most, arch->n_layers);
        out[i] = (int32_t)block;
    }
    if (list == NULL)
        cs_model_say_default(config, key, "a list", "the default of the class");
    return CS_OK;
}

enum { BLOCKS = 4096 };

/* Blocks that see whole frames keep the first kind, the others see their window only. */
static enum cs_status read_windows(const struct cs_config_source *config, struct cs_arena *arena,
                                   struct cs_arch *arch, struct cs_err *err)
{
    static const int32_t unsaid[] = {7, 15, 23, 31};
    int32_t *full = CS_NEW_ARRAY(arena, int32_t, BLOCKS), n;
    uint8_t *kind = CS_NEW_ARRAY(arena, uint8_t, arch->n_layers);
    CS_TRY(read_blocks(config, "fullatt_block_indexes", unsaid, 4, BLOCKS, arch, full, &n, err));
    memset(kind, 1, (size_t)arch->n_layers);
    for (int32_t i = 0; i < n; i++)
        kind[full[i]] = 0;
    arch->block_attention = kind;
    arch->attention[1] = arch->attention[0];
    arch->attention[1].inside = CS_INSIDE_WINDOW;
    arch->attention[1].window_rows = arch->front.window * arch->front.window;
    arch->n_attentions = 2;
    return CS_OK;
}

enum cs_status cs_front_blocks(const struct cs_config_source *config,
                               const struct cs_family *family, struct cs_arena *arena,
                               struct cs_arch *arch, struct cs_err *err)
{
    static const int32_t unsaid[] = {8, 16, 24};
    char at[512];
    arch->attention[0].inside = family->inside;
    if (arch->attention[0].rope.axes >= CS_ROPE_HALVES && arch->attention[0].head_dim % 4 != 0)
        return cs_fail(err, CS_INVALID, "%sheads of %d: rotations over a grid need a multiple of 4",
                       cs_model_at(config, at), arch->attention[0].head_dim);
    if (arch->front.window > 0)
        CS_TRY(read_windows(config, arena, arch, err));
    if (family->tap == NULL)
        return CS_OK;
    CS_TRY(read_blocks(config, "deepstack_visual_indexes", unsaid, 3, CS_TAPS, arch,
                       arch->tap_block, &arch->n_taps, err));
    cs_chain_make(family->tap, 2, cs_front_group(arch), arch->width, &arch->tap);
    arch->tap.linear[0] = arch->width * cs_front_group(arch);
    arch->tap.linear[1] = arch->front.out_width;
    arch->tap.act = CS_ARCH_GELU;
    return CS_OK;
}
