/* The most that videos become, for budgets. */
#include <math.h>

#include "input/media/layout_make.h"
#include "input/media/video/video_layout.h"

enum { UNLIKE = 200 /* times that one side may be the other */ };

bool cs_video_mixes_rows(const struct cs_video_processor *p)
{
    return p->kind == CS_VIDEO_POOLED;
}

int32_t cs_video_most_frames(const struct cs_video_processor *p)
{
    const bool has_own = p->kind == CS_VIDEO_QWEN2 || p->kind == CS_VIDEO_QWEN3;

    if (!p->does_sample && p->num_frames == 0) /* all of them, then; more than this is too large */
        return p->max_frames > 0 ? p->max_frames : 0;
    if (p->num_frames > 0)
        return p->num_frames < CS_VIDEO_MAX_FRAMES ? p->num_frames + 1 : CS_VIDEO_MAX_FRAMES;
    return has_own && p->max_frames < CS_VIDEO_MAX_FRAMES ? p->max_frames : CS_VIDEO_MAX_FRAMES;
}

/* Groups of patches in a frame of so many pixels at most, which is made larger to `least` pixels where it is
 * smaller: each side then goes up to the next multiple. A long frame keeps one group at its short side. */
static double groups(const struct cs_video_processor *p, double most, double least)
{
    const double f = (double)p->patch * p->merge, unlike = UNLIKE;
    const double enlarged = (sqrt(least * unlike) / f + 1) * (sqrt(least / unlike) / f + 1);
    const double thin = fmax(1, sqrt(most * unlike) / f);

    return fmax(floor(most / (f * f)), fmax(enlarged, thin));
}

/* Qwen3-VL's budget is that of all frames: rounded to whole patches in time they may be 4 where 5 are taken. */
static double groups_of_video(const struct cs_video_processor *p, double frames)
{
    const double patches = ceil(frames / p->frames);
    const double most = fmax((double)p->max_pixels, (double)p->min_pixels * 1.05 * frames);

    return patches * groups(p, 1.5 * most / frames, (double)p->min_pixels / frames);
}

static void bound_qwen(const struct cs_video_processor *p, int32_t frames, double *rows,
                       double *item_rows, int32_t *items)
{
    const double patches = ceil((double)frames / p->frames);

    if (p->kind == CS_VIDEO_QWEN2) {
        *rows = patches * groups(p, (double)p->max_pixels * 1.05, (double)p->min_pixels);
        *item_rows = *rows;
        *items = 1;
        return;
    }
    *rows = fmax(groups_of_video(p, frames), groups_of_video(p, p->frames));
    *item_rows = groups_of_video(p, p->frames);
    *items = (int32_t)patches;
}

enum cs_status cs_video_bounds_of(const struct cs_video_processor *p,
                                  const struct cs_media_encoder *e, int32_t most_frames,
                                  struct cs_media_bounds *out, struct cs_err *err)
{
    const double group = (double)e->patch * e->merge;
    double rows = 0, item_rows = p->max_rows, placeholders = 0;
    int32_t items = most_frames;

    *out = (struct cs_media_bounds){0};
    CS_TRY(cs_video_check(p, NULL, e, err));
    if (p->kind == CS_VIDEO_QWEN2 || p->kind == CS_VIDEO_QWEN3)
        bound_qwen(p, most_frames, &rows, &item_rows, &items);
    else if (p->kind != CS_VIDEO_SOFT)
        item_rows = cs_layout_item_rows(e, (struct cs_extent){p->height, p->width});
    if (rows <= 0)
        rows = item_rows * items;
    placeholders = rows;
    if (p->kind == CS_VIDEO_POOLED) {
        const double half = ceil(floor(p->height / (double)e->patch) / 2);
        placeholders = half * half * items + 1;
    }
    *out = (struct cs_media_bounds){
        .items = items,
        .rows = (int32_t)fmin(rows, INT32_MAX),
        .item_rows = (int32_t)fmin(item_rows, INT32_MAX),
        .item_bytes =
            (int32_t)fmin(p->height > 0 ? (double)p->height * p->width * e->channels
                                        : item_rows * group * group * e->channels * p->frames,
                          INT32_MAX),
        .placeholders = (int32_t)fmin(placeholders, INT32_MAX)};
    return CS_OK;
}
