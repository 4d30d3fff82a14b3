/* Pictures that become one item whose size follows theirs. */
#include <math.h>

#include "input/media/layout_make.h"

/* One item of a picture that fits patches: what is not resized must be so by itself. */
static int32_t item(struct cs_layout_maker *m, int32_t picture)
{
    const int32_t factor = m->encoder->patch * m->encoder->merge;
    const struct cs_extent size = cs_layout_extent(m, picture);

    if (size.height % factor != 0 || size.width % factor != 0)
        cs_layout_fail(m, CS_INVALID,
                       "picture of %d x %d pixels, but do_resize is false and sides must be "
                       "multiples of %d",
                       size.width, size.height, factor);
    return cs_layout_item(m, picture);
}

static enum cs_status differ(const char *what, int32_t said, const struct cs_media_encoder *e,
                             int32_t has, struct cs_err *err)
{
    return cs_fail(err, CS_INVALID,
                   "the processor's %s is %d, the %s encoder's is %d: preprocessor_config.json and "
                   "config.json do not belong together",
                   what, said, e->family, has);
}

static enum cs_status check_patch(const struct cs_processor *p, const struct cs_media_encoder *e,
                                  struct cs_err *err)
{
    return p->patch == e->patch ? CS_OK : differ("patch_size", p->patch, e, e->patch, err);
}

/* An item of so many rows, of any shape. */
static void bound_rows(const struct cs_media_encoder *e, double rows, struct cs_media_bounds *out)
{
    const double side = (double)e->patch * e->merge;
    const double most = (double)CS_IMAGE_MAX_PIXELS / (side * side);

    rows = floor(fmin(rows, most));
    *out = (struct cs_media_bounds){
        .items = 1,
        .item_rows = (int32_t)rows + e->extra_rows,
        .item_bytes = (int32_t)(rows * side * side) * e->channels,
    };
}

/* Qwen-VL */

static enum cs_status check_smart(const struct cs_processor *p, const struct cs_media_encoder *e,
                                  struct cs_err *err)
{
    CS_TRY(check_patch(p, e, err));
    if (p->frames != e->frames)
        return differ("temporal_patch_size", p->frames, e, e->frames, err);
    return p->merge == e->merge ? CS_OK : differ("merge_size", p->merge, e, e->merge, err);
}

static void make_smart(struct cs_layout_maker *m)
{
    const struct cs_processor *p = m->processor;
    struct cs_extent to = cs_layout_extent(m, 0);

    if (p->do_resize)
        m->status =
            cs_size_smart(to, p->patch * p->merge, p->min_pixels, p->max_pixels, &to, m->err);
    if (m->status != CS_OK)
        return;
    const int32_t picture = cs_layout_resize(m, 0, to);
    cs_layout_wrap_token(m, "<|vision_start|>");
    cs_layout_rows(m, item(m, picture));
    cs_layout_wrap_token(m, "<|vision_end|>");
}

/* A picture that is too small is enlarged to min_pixels, each side then up to the next multiple; one
 * that is too large and thin keeps a side of one multiple. Sides differ at most by 200. */
static void bound_smart(const struct cs_processor *p, const struct cs_media_encoder *e,
                        struct cs_media_bounds *out)
{
    const double f = (double)p->patch * p->merge, min = (double)p->min_pixels;
    const double max = (double)p->max_pixels;
    const double enlarged = (sqrt(min * 200) / f + 1) * (sqrt(min / 200) / f + 1);
    const double thin = sqrt(max * 200) / f;

    bound_rows(e, fmax(floor(max / (f * f)), fmax(enlarged, thin)), out);
}

/* Pixtral: its processor asks for patches that the projector merges. */

static enum cs_status check_within(const struct cs_processor *p, const struct cs_media_encoder *e,
                                   struct cs_err *err)
{
    if (p->patch == e->patch * e->merge)
        return CS_OK;
    return check_patch(p, e, err);
}

static void make_within(struct cs_layout_maker *m)
{
    const struct cs_processor *p = m->processor;
    const struct cs_processor_size *s = &p->size;
    const struct cs_extent max = s->longest_edge > 0
                                     ? (struct cs_extent){s->longest_edge, s->longest_edge}
                                     : (struct cs_extent){s->height, s->width};
    const int32_t factor = m->encoder->patch * m->encoder->merge;
    struct cs_extent to = cs_layout_extent(m, 0);

    if (p->do_resize)
        to = cs_size_within(to, max, factor);
    const int32_t picture = cs_layout_resize(m, 0, to);
    if (item(m, picture) == 0)
        return;
    for (int32_t row = 0; row < to.height / factor; row++) {
        cs_layout_rows(m, to.width / factor);
        cs_layout_token(m, row + 1 < to.height / factor ? "[IMG_BREAK]" : "[IMG_END]");
    }
}

static void bound_within(const struct cs_processor *p, const struct cs_media_encoder *e,
                         struct cs_media_bounds *out)
{
    const struct cs_processor_size *s = &p->size;
    const double f = (double)e->patch * e->merge;
    const double high = ceil((s->longest_edge > 0 ? s->longest_edge : s->height) / f);
    const double wide = ceil((s->longest_edge > 0 ? s->longest_edge : s->width) / f);

    bound_rows(e, high * wide, out);
}

/* SigLIP 2 */

static void make_budget(struct cs_layout_maker *m)
{
    const struct cs_processor *p = m->processor;
    struct cs_extent to = cs_layout_extent(m, 0);

    if (p->do_resize)
        to = cs_size_budget(to, p->patch, p->max_patches);
    if ((int64_t)to.height / p->patch * (to.width / p->patch) > p->max_patches)
        cs_layout_fail(m, CS_INVALID, "%d x %d pixels are more than %d patches", to.width,
                       to.height, p->max_patches);
    cs_layout_rows(m, item(m, cs_layout_resize(m, 0, to)));
}

static void bound_budget(const struct cs_processor *p, const struct cs_media_encoder *e,
                         struct cs_media_bounds *out)
{
    bound_rows(e, p->max_patches / ((double)e->merge * e->merge), out);
}

/* Gemma 4 */

static enum cs_status check_pooled(const struct cs_processor *p, const struct cs_media_encoder *e,
                                   struct cs_err *err)
{
    CS_TRY(check_patch(p, e, err));
    return p->merge == e->merge ? CS_OK : differ("pooling_kernel_size", p->merge, e, e->merge, err);
}

static void make_pooled(struct cs_layout_maker *m)
{
    const struct cs_processor *p = m->processor;
    struct cs_extent to = cs_layout_extent(m, 0);

    if (p->do_resize)
        to = cs_size_pooled(to, p->patch, p->merge, p->max_patches);
    const int32_t picture = cs_layout_resize(m, 0, to);
    const int32_t rows = item(m, picture);
    if (rows - m->encoder->extra_rows > p->max_patches)
        cs_layout_fail(m, CS_INVALID, "%d x %d pixels are more than %d rows", to.width, to.height,
                       p->max_patches);
    cs_layout_wrap_token(m, "<|image>");
    cs_layout_rows(m, rows);
    cs_layout_wrap_token(m, "<image|>");
}

static void bound_pooled(const struct cs_processor *p, const struct cs_media_encoder *e,
                         struct cs_media_bounds *out)
{
    bound_rows(e, p->max_patches, out);
}

const struct cs_layout_kind cs_layout_smart = {
    .check = check_smart, .make = make_smart, .bound = bound_smart};
const struct cs_layout_kind cs_layout_within = {
    .check = check_within, .make = make_within, .bound = bound_within};
const struct cs_layout_kind cs_layout_budget = {
    .check = check_patch, .make = make_budget, .bound = bound_budget};
const struct cs_layout_kind cs_layout_pooled = {
    .check = check_pooled, .make = make_pooled, .bound = bound_pooled};
