/* The first layer of an encoder: patches of pictures times a matrix, or two convolutions over the
 * frames of a sound; class rows; positions; perhaps a norm. */
#include "worker/model/front.h"

/* ---- pictures ---- */

static const void *make_patches(struct cs_run *run, const struct cs_layer_model *l)
{
    const struct cs_input *in = run->input;
    const struct cs_arch *a = l->arch;
    const int32_t e = l->encoder;
    const struct cs_patch_shape shape = {.channels = a->channels,
                                         .frames = a->front.patch_frames,
                                         .patch = a->patch_size,
                                         .is_channels_last = a->front.is_channels_last};
    if (in->at.patches[e] != NULL)
        return in->at.patches[e];
    const int64_t rows = in->rows[e].n_patches;
    void *patches = cs_run_hold(run, rows * cs_front_values(a));
    run->ops->patches(run->ctx, rows, &shape, in->at.rows[e].place, in->at.pixels[e],
                      in->tables->enc[e].rescale, in->at.mean[e], in->at.std[e], patches);
    return patches;
}

/* y[class row] = the class row */
static void put_class(struct cs_run *run, const struct cs_layer_model *l, void *y)
{
    const struct cs_input_rows *at = &run->input->at.rows[l->encoder];
    const int64_t n = run->input->n_items[l->encoder], width = l->arch->width;
    void *rows = cs_run_take(run, n * width);
    run->ops->gather_rows(run->ctx, n, width, at->no_row, cs_weight(l, CS_PARAM_CLASS)->w, rows);
    run->ops->scatter_rows(run->ctx, n, width, at->class_row, rows, y, 0);
}

static void patches_fwd(struct cs_run *run, const struct cs_layer_model *l, void *y)
{
    const struct cs_arch *a = l->arch;
    const struct cs_input_rows *at = &run->input->at.rows[l->encoder];
    const bool has_class = a->front.has_class;
    void *made = has_class ? cs_run_take(run, (int64_t)at->n_patches * a->width) : y;
    cs_run_linear(run, at->n_patches, cs_front_values(a), a->width, make_patches(run, l),
                  cs_weight(l, CS_PARAM_PATCH_W), cs_weight(l, CS_PARAM_PATCH_B), made);
    if (!has_class)
        return;
    run->ops->scatter_rows(run->ctx, at->n_patches, a->width, at->patch_row, made, y, 0);
    put_class(run, l, y);
}

static void class_bwd(struct cs_run *run, const struct cs_layer_model *l, const void *dy)
{
    const struct cs_shard *class = cs_weight(l, CS_PARAM_CLASS);
    const struct cs_row_mix *back = &run->input->at.rows[l->encoder].class_back;
    struct cs_ctx ctx = cs_run_grad_ctx(run, class, NULL);
    if (class->grad != NULL)
        run->ops->mix_rows_grad(&ctx, 1, l->arch->width, back->start, back->index, back->weight, dy,
                                class->grad);
}

static void patches_bwd(struct cs_run *run, const struct cs_layer_model *l, const void *dy)
{
    const struct cs_arch *a = l->arch;
    const struct cs_input_rows *at = &run->input->at.rows[l->encoder];
    if (a->front.has_class) {
        void *picked = cs_run_hold(run, (int64_t)at->n_patches * a->width);
        class_bwd(run, l, dy);
        run->ops->gather_rows(run->ctx, at->n_patches, a->width, at->patch_row, dy, picked);
        dy = picked;
    }
    /* made again from the pixels: they stay in the slot until the step ends */
    cs_run_linear_wgrad(run, at->n_patches, cs_front_values(a), a->width, dy, make_patches(run, l),
                        cs_weight(l, CS_PARAM_PATCH_W), cs_weight(l, CS_PARAM_PATCH_B));
}

/* ---- sounds ---- */

/* Both convolutions are products with rows of three neighbours. */
struct conv {
    const struct cs_input_rows *at;
    int64_t bins, width, n_frames, n_conv, n;
    const struct cs_shard *w[2], *b[2];
    enum cs_act act;
};

static struct conv conv_of(const struct cs_run *run, const struct cs_layer_model *l)
{
    const struct cs_input_rows *at = &run->input->at.rows[l->encoder];
    struct conv c = {.at = at,
                     .bins = l->arch->channels,
                     .width = l->arch->width,
                     .n_conv = at->n_conv,
                     .n = at->n,
                     .act = (enum cs_act)CS_ARCH_GELU}; /* whatever the blocks have */
    for (int i = 0; i < 2; i++) {
        c.w[i] = cs_weight_part(l, CS_PARAM_PATCH_W, i);
        c.b[i] = cs_weight_part(l, CS_PARAM_PATCH_B, i);
    }
    return c;
}

static void *near_frames(struct cs_run *run, const struct cs_layer_model *l, const struct conv *c)
{
    void *near = cs_run_hold(run, c->n_conv * 3 * c->bins);
    run->ops->unfold(run->ctx, c->n_conv, 3, c->bins, c->at->near_frames,
                     run->input->at.patches[l->encoder], near);
    return near;
}

static void *near_conv(struct cs_run *run, const struct conv *c, const void *x)
{
    void *near = cs_run_hold(run, c->n * 3 * c->width);
    run->ops->unfold(run->ctx, c->n, 3, c->width, c->at->near_conv, x, near);
    return near;
}

/* kept->up: in front of the activations, of the first convolution and then of the second */
static void frames_fwd(struct cs_run *run, const struct cs_layer_model *l, void *y,
                       struct cs_kept *kept)
{
    const struct conv c = conv_of(run, l);
    kept->up = cs_run_keep_acts(run, (c.n_conv + c.n) * c.width);
    void *first = cs_run_take(run, c.n_conv * c.width);
    cs_run_linear_act(run, c.n_conv, 3 * c.bins, c.width, near_frames(run, l, &c), c.w[0], c.b[0],
                      NULL, c.act, kept->up, first);
    cs_run_linear_act(run, c.n, 3 * c.width, c.width, near_conv(run, &c, first), c.w[1], c.b[1],
                      NULL, c.act, cs_run_at(run, kept->up, c.n_conv * c.width), y);
}

static void frames_bwd(struct cs_run *run, const struct cs_layer_model *l, const void *dy,
                       const struct cs_kept *kept)
{
    const struct conv c = conv_of(run, l);
    void *const pre = cs_run_at(run, kept->up, c.n_conv * c.width);
    void *first = cs_run_take(run, c.n_conv * c.width);
    void *d_pre = cs_run_hold(run, c.n * c.width), *d_first = cs_run_hold(run, c.n_conv * c.width);
    void *d_near = cs_run_take(run, c.n * 3 * c.width);
    run->ops->act(run->ctx, c.act, c.n_conv * c.width, kept->up, first);
    run->ops->act_grad(run->ctx, c.act, c.n * c.width, pre, dy, d_pre);
    cs_run_linear_wgrad(run, c.n, 3 * c.width, c.width, d_pre, near_conv(run, &c, first), c.w[1],
                        c.b[1]);
    cs_run_linear_dgrad(run, c.n, 3 * c.width, c.width, d_pre, c.w[1], d_near);
    run->ops->fold(run->ctx, c.n_conv, 3, c.width, c.at->near_start, c.at->near_entry, d_near,
                   first);
    run->ops->act_grad(run->ctx, c.act, c.n_conv * c.width, kept->up, first, d_first);
    cs_run_linear_wgrad(run, c.n_conv, 3 * c.bins, c.width, d_first, near_frames(run, l, &c),
                        c.w[0], c.b[0]);
}

/* ---- both ---- */

static void positions_fwd(struct cs_run *run, const struct cs_layer_model *l, int64_t rows, void *y)
{
    const struct cs_row_mix *mix = &run->input->at.rows[l->encoder].position;
    const struct cs_shard *table = cs_weight(l, CS_PARAM_POSITION);
    if (table != NULL)
        run->ops->mix_rows(run->ctx, rows, l->arch->width, mix->start, mix->index, mix->weight,
                           table->w, 1, y);
}

static void positions_bwd(struct cs_run *run, const struct cs_layer_model *l, const void *dy)
{
    const struct cs_row_mix *back = &run->input->at.rows[l->encoder].position_back;
    const struct cs_shard *table = cs_weight(l, CS_PARAM_POSITION);
    if (table == NULL || table->grad == NULL)
        return;
    struct cs_ctx ctx = cs_run_grad_ctx(run, table, NULL);
    run->ops->mix_rows_grad(&ctx, back->rows, l->arch->width, back->start, back->index,
                            back->weight, dy, table->grad);
}

void cs_front_fwd(struct cs_run *run, const struct cs_layer_model *l, int64_t rows, void *y,
                  struct cs_kept *kept)
{
    const bool has_norm = l->arch->front.has_norm;
    void *made = y;
    if (has_norm) {
        kept->stat1 = cs_run_keep(run, l, CS_KEEP_STAT1, rows);
        made = cs_run_keep(run, l, CS_KEEP_N, rows);
        kept->x2 = made;
    }
    if (l->arch->front.stem == CS_STEM_FRAMES)
        frames_fwd(run, l, made, kept);
    else
        patches_fwd(run, l, made);
    positions_fwd(run, l, rows, made);
    if (has_norm)
        cs_run_norm(run, l->arch, rows, made, cs_weight(l, CS_PARAM_PRE_NORM_W),
                    cs_weight(l, CS_PARAM_PRE_NORM_B), y, kept->stat1);
}

void cs_front_bwd(struct cs_run *run, const struct cs_layer_model *l, int64_t rows, const void *dy,
                  const struct cs_kept *kept)
{
    if (l->arch->front.has_norm) {
        void *d = cs_run_hold(run, rows * l->arch->width);
        cs_run_norm_grad(run, l->arch, rows, kept->x2, cs_weight(l, CS_PARAM_PRE_NORM_W),
                         cs_weight(l, CS_PARAM_PRE_NORM_B), kept->stat1, dy, NULL, d);
        dy = d;
    }
    positions_bwd(run, l, dy);
    if (l->arch->front.stem == CS_STEM_FRAMES)
        frames_bwd(run, l, dy, kept);
    else
        patches_bwd(run, l, dy);
}
