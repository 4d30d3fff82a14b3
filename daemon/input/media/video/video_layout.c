/* Lays videos out: one function for each kind of processor. */
#include "input/media/video/video_layout.h"

#include <math.h>
#include <stdio.h>

#include "input/media/layout_make.h"
#include "input/media/video/number_words.h"
#include "input/media/video/video_pool.h"
#include "input/media/video/video_sizes.h"

/* One layout in the making. */
struct maker {
    struct cs_layout_maker m;
    const struct cs_video_processor *p;
    const struct cs_video_frames *frames;
    int32_t picture; /* what a frame becomes */
    int64_t bytes;   /* of all items so far: at most what 32 bits count, so that rows are fewer */
};

static struct cs_media_item *last_item(struct maker *v)
{
    return v->m.status == CS_OK ? &v->m.out.items[v->m.out.n_items - 1] : NULL;
}

/* An item that shows frames [first, first + n), as `patches` patches in time. Its rows. */
static int32_t show(struct maker *v, int32_t first, int32_t n, int32_t patches)
{
    const int32_t rows = cs_layout_item(&v->m, v->picture);
    struct cs_media_item *item = last_item(v);

    if (item == NULL)
        return 0;
    const int64_t bytes = (int64_t)item->shape.bytes * patches * v->p->frames;
    v->bytes += bytes;
    if (v->bytes > INT32_MAX) {
        cs_layout_fail(&v->m, CS_LIMIT, "%d frames of %d x %d pixels are more than 2 GiB",
                       v->frames->n, cs_layout_extent(&v->m, v->picture).width,
                       cs_layout_extent(&v->m, v->picture).height);
        return 0;
    }
    item->shape.grid[0] = patches;
    item->shape.bytes = (int32_t)bytes;
    item->shape.rows = rows * patches;
    item->first_frame = first;
    item->n_frames = n;
    return item->shape.rows;
}

static int32_t patches_of(const struct maker *v)
{
    return (v->frames->n + v->p->frames - 1) / v->p->frames;
}

static void make_qwen2(struct maker *v)
{
    cs_layout_wrap_token(&v->m, "<|vision_start|>");
    cs_layout_rows(&v->m, show(v, 0, v->frames->n, patches_of(v)));
    cs_layout_wrap_token(&v->m, "<|vision_end|>");
    v->m.out.grid_seconds = v->p->frames / v->frames->taken_fps;
    if (last_item(v) != NULL && v->m.encoder->tokens_per_second > 0) {
        /* whole seconds only, as get_rope_index of transformers has it: none where they are less than one */
        const double step = v->m.encoder->tokens_per_second * floor(v->m.out.grid_seconds);
        last_item(v)->shape.time_step = step >= 1 ? (int32_t)fmin(step, 1 << 20) : -1;
    }
}

static double seconds_at(const struct maker *v, int32_t k)
{
    const int32_t last = v->frames->n - 1;

    return v->frames->index[k < last ? k : last] / v->frames->fps;
}

/* The time of a patch lies between its first and its last frame. The pair of tokens around all, which
 * conversations have around a video, stays where it is: so does transformers 5.17. */
static void make_qwen3(struct maker *v)
{
    const int32_t n = v->p->frames;

    cs_layout_wrap_token(&v->m, "<|vision_start|>");
    for (int32_t i = 0; i < patches_of(v) && v->m.status == CS_OK; i++) {
        const double at = (seconds_at(v, i * n) + seconds_at(v, i * n + n - 1)) / 2;
        const int32_t left = v->frames->n - i * n;
        cs_layout_text(&v->m, cs_arena_printf(v->m.arena, "<%.1f seconds>", at));
        cs_layout_token(&v->m, "<|vision_start|>");
        cs_layout_rows(&v->m, show(v, i * n, left < n ? left : n, 1));
        cs_layout_token(&v->m, "<|vision_end|>");
    }
    cs_layout_wrap_token(&v->m, "<|vision_end|>");
}

static void make_pooled(struct maker *v)
{
    const int32_t n = v->frames->n, side = v->p->height / v->m.encoder->patch;
    const int32_t half = (side + 1) / 2, rows = half * half;

    if (v->m.encoder->merge != 1 || v->p->height != v->p->width || v->m.encoder->extra_rows != 0)
        cs_layout_fail(&v->m, CS_UNSUPPORTED,
                       "%s: frames must be squares of patches, nothing else, to be pooled",
                       v->p->name);
    for (int32_t i = 0; i < n && v->m.status == CS_OK; i++)
        (void)show(v, i, 1, 1);
    if (v->m.status != CS_OK)
        return;
    struct cs_media_blend *blends =
        cs_arena_array(v->m.arena, sizeof *blends, (size_t)(n * rows) + 1);
    for (int32_t i = 0; i < n; i++)
        cs_video_pool_frame(blends + i * rows, i * side * side, side, half);
    v->m.out.blends = blends;
    cs_layout_rows(&v->m, n * rows);
    cs_layout_learned(&v->m, 1);
}

static void make_numbered(struct maker *v)
{
    for (int32_t i = 0; i < v->frames->n && v->m.status == CS_OK; i++) {
        cs_layout_text(&v->m, cs_arena_printf(v->m.arena, "%sFrame%d: ", i > 0 ? "\n" : "", i + 1));
        cs_layout_token(&v->m, "<img>");
        cs_layout_rows(&v->m, show(v, i, 1, 1));
        cs_layout_token(&v->m, "</img>");
    }
}

/* minutes and seconds of a frame */
static const char *clock_of(struct maker *v, int32_t k, const char *before, const char *after)
{
    const double seconds = seconds_at(v, k);

    return cs_arena_printf(v->m.arena, "%s%02d:%02d%s", before, (int)floor(seconds / 60),
                           (int)fmod(seconds, 60), after);
}

static const char *duration_of(const struct maker *v)
{
    const int64_t s = (int64_t)v->frames->duration, day = s / 86400;
    const char *days = day == 0 ? "" : day == 1 ? "1 day, " : NULL;

    if (days == NULL)
        days = cs_arena_printf(v->m.arena, "%lld days, ", (long long)day);
    return cs_arena_printf(v->m.arena, "%s%d:%02d:%02d", days, (int)(s % 86400 / 3600),
                           (int)(s % 3600 / 60), (int)(s % 60));
}

static void make_timed(struct maker *v)
{
    char words[CS_NUMBER_WORDS_CAP];

    cs_number_words(v->frames->n, words);
    cs_layout_text(&v->m, cs_arena_printf(v->m.arena,
                                          "You are provided the following series of %s frames from "
                                          "a %s [H:MM:SS] video.\n",
                                          words, duration_of(v)));
    for (int32_t i = 0; i < v->frames->n && v->m.status == CS_OK; i++) {
        cs_layout_text(&v->m, clock_of(v, i, "\nFrame from ", ":"));
        cs_layout_token(&v->m, "<fake_token_around_image>");
        cs_layout_token(&v->m, "<global-img>");
        cs_layout_rows(&v->m, show(v, i, 1, 1));
        cs_layout_token(&v->m, "<fake_token_around_image>");
    }
    cs_layout_text(&v->m, "\n\n");
}

static void make_soft(struct maker *v)
{
    for (int32_t i = 0; i < v->frames->n && v->m.status == CS_OK; i++) {
        cs_layout_text(&v->m, clock_of(v, i, i > 0 ? " " : "", " "));
        cs_layout_token(&v->m, "<|image>");
        cs_layout_rows(&v->m, show(v, i, 1, 1));
        cs_layout_token(&v->m, "<image|>");
    }
}

static const struct {
    void (*make)(struct maker *v);
    enum cs_item_kind item;
    bool has_one_size; /* of all frames: that of the encoder */
} kinds[] = {
    [CS_VIDEO_QWEN2] = {make_qwen2,    CS_ITEM_VIDEO, false},
    [CS_VIDEO_QWEN3] = {make_qwen3,    CS_ITEM_VIDEO, false},
    [CS_VIDEO_POOLED] = {make_pooled,   CS_ITEM_IMAGE, true },
    [CS_VIDEO_NUMBERED] = {make_numbered, CS_ITEM_IMAGE, true },
    [CS_VIDEO_TIMED] = {make_timed,    CS_ITEM_IMAGE, true },
    [CS_VIDEO_SOFT] = {make_soft,     CS_ITEM_IMAGE, false},
};

_Static_assert(CS_ARRAY_LEN(kinds) == CS_VIDEO_KINDS, "a way for each kind");

static enum cs_status check_number(const char *what, int32_t said, int32_t has,
                                   const struct cs_media_encoder *e, struct cs_err *err)
{
    if (said == has)
        return CS_OK;
    return cs_fail(err, CS_INVALID,
                   "the video processor's %s is %d, the %s encoder's is %d: they do not belong "
                   "together",
                   what, said, e->family, has);
}

enum cs_status cs_video_check(const struct cs_video_processor *p,
                              const struct cs_processor *pictures, const struct cs_media_encoder *e,
                              struct cs_err *err)
{
    if (kinds[p->kind].has_one_size) {
        CS_TRY(check_number("height", p->height, e->side, e, err));
        CS_TRY(check_number("width", p->width, e->side, e, err));
    } else {
        CS_TRY(check_number("patch_size", p->patch, e->patch, e, err));
        CS_TRY(check_number("merge_size", p->merge, e->merge, e, err));
        CS_TRY(check_number("temporal_patch_size", p->frames, e->frames, e, err));
    }
    for (int i = 0; i < 3 && pictures != NULL; i++)
        if (p->mean[i] != pictures->mean[i] || p->std[i] != pictures->std[i] ||
            p->rescale != pictures->rescale)
            return cs_fail(err, CS_UNSUPPORTED,
                           "image_mean, image_std and rescale_factor of videos (%s) are not those "
                           "of pictures (%s): one encoder takes one",
                           p->name, pictures->name);
    return CS_OK;
}

/* The picture that a frame becomes. */
static int32_t picture_of(struct maker *v)
{
    struct cs_extent to = cs_layout_extent(&v->m, 0);
    int32_t picture = 0;

    if (v->p->kind == CS_VIDEO_TIMED && v->p->does_resize)
        picture = cs_layout_resize(&v->m, 0, cs_size_longest(to, v->p->longest_edge));
    if (v->m.status == CS_OK)
        v->m.status = cs_video_size(v->p, to, v->frames->n, &to, v->m.err);
    return v->m.status == CS_OK ? cs_layout_resize(&v->m, picture, to) : 0;
}

static void check_picture(struct maker *v)
{
    const struct cs_extent size = cs_layout_extent(&v->m, v->picture);
    const int32_t factor = v->m.encoder->patch * v->m.encoder->merge, side = v->m.encoder->side;

    if (kinds[v->p->kind].has_one_size && (size.height != side || size.width != side))
        cs_layout_fail(&v->m, CS_INVALID, "frames of %d x %d pixels, the %s encoder takes %d x %d",
                       size.width, size.height, v->m.encoder->family, side, side);
    else if (!kinds[v->p->kind].has_one_size &&
             (size.height % factor != 0 || size.width % factor != 0))
        cs_layout_fail(&v->m, CS_INVALID,
                       "frames of %d x %d pixels, but do_resize is false and sides must be "
                       "multiples of %d",
                       size.width, size.height, factor);
}

enum cs_status cs_video_layout_make(const struct cs_video_processor *p,
                                    const struct cs_media_encoder *encoder,
                                    const struct cs_video_info *info,
                                    const struct cs_video_frames *frames, struct cs_arena *arena,
                                    struct cs_media_layout *out, struct cs_err *err)
{
    const struct cs_processor named = {.name = p->name};
    const struct cs_medium medium = {
        .kind = kinds[p->kind].item, .width = info->width, .height = info->height, .n_frames = 1};
    struct maker v = {
        .m = {.processor = &named,
              .encoder = encoder,
              .medium = &medium,
              .arena = arena,
              .err = err},
        .p = p,
        .frames = frames,
    };

    *out = (struct cs_media_layout){0};
    CS_TRY(cs_video_check(p, NULL, encoder, err));
    if (info->width < 1 || info->height < 1)
        return cs_fail(err, CS_INVALID, "frames of %d x %d pixels", info->width, info->height);
    v.picture = picture_of(&v);
    check_picture(&v);
    if (v.m.status == CS_OK)
        kinds[p->kind].make(&v);
    if (v.m.status == CS_OK)
        *out = v.m.out;
    return v.m.status;
}
