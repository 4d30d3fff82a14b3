/* Computes the sizes of frames: budgets of pixels for a frame, for a whole video. */
#include "input/media/video/video_sizes.h"

#include <math.h>

/* A frame is never made smaller than this for the sake of the budget of the whole. */
static int64_t least_share(const struct cs_video_processor *p)
{
    return (int64_t)((double)p->min_pixels * 1.05);
}

static int64_t max_of(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static int64_t min_of(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static enum cs_status size_of_frame(const struct cs_video_processor *p, struct cs_extent from,
                                    int32_t n_frames, struct cs_extent *out, struct cs_err *err)
{
    const int64_t factor = (int64_t)p->patch * p->merge;
    int64_t most = p->max_pixels;

    if (p->caps_frames) {
        const int64_t total = (int64_t)((double)(p->max_video_tokens * factor * factor) * 0.9);
        most = max_of(min_of(most, total * p->frames / n_frames), least_share(p));
    }
    return cs_size_smart(from, (int32_t)factor, p->min_pixels, most, out, err);
}

/* Multiples of factor, so that all frames together have min_pixels to `most` pixels. */
static enum cs_status fit_in_time(const struct cs_video_processor *p, double height, double width,
                                  double n_frames, double most, struct cs_extent *out,
                                  struct cs_err *err)
{
    const double factor = (double)p->patch * p->merge, least = (double)p->min_pixels;

    if (height < factor || width < factor) {
        const double scale = fmax(factor / height, factor / width);
        height = floor(height * scale);
        width = floor(width * scale);
    }
    if (fmax(height, width) / fmin(height, width) > 200)
        return cs_fail(err, CS_INVALID,
                       "frames of %.0f x %.0f pixels: one side is more than 200 times the other",
                       width, height);
    const double all = n_frames * height * width;
    const double t = rint(n_frames / p->frames) * p->frames;
    double high = rint(height / factor) * factor, wide = rint(width / factor) * factor;
    if (t * high * wide > most) {
        const double beta = sqrt(all / most);
        high = fmax(factor, floor(height / beta / factor) * factor);
        wide = fmax(factor, floor(width / beta / factor) * factor);
    } else if (t * high * wide < least) {
        const double beta = sqrt(least / all);
        high = ceil(height * beta / factor) * factor;
        wide = ceil(width * beta / factor) * factor;
    }
    *out = (struct cs_extent){(int32_t)fmin(high, INT32_MAX), (int32_t)fmin(wide, INT32_MAX)};
    return CS_OK;
}

static enum cs_status size_of_video(const struct cs_video_processor *p, struct cs_extent from,
                                    int32_t n_frames, struct cs_extent *out, struct cs_err *err)
{
    const int64_t factor = (int64_t)p->patch * p->merge;
    int64_t most = p->max_pixels;

    if (n_frames < p->frames)
        return cs_fail(err, CS_INVALID, "%d frames are taken, %s needs %d at least", n_frames,
                       p->name, p->frames);
    if (p->caps_frames) {
        const int64_t frame = min_of(p->max_video_tokens * factor * factor, most / n_frames);
        most = max_of(frame, least_share(p)) * n_frames;
    }
    return fit_in_time(p, from.height, from.width, n_frames, (double)most, out, err);
}

enum cs_status cs_video_size(const struct cs_video_processor *p, struct cs_extent from,
                             int32_t n_frames, struct cs_extent *out, struct cs_err *err)
{
    *out = from;
    if (p->kind == CS_VIDEO_QWEN3 && p->does_resize)
        return size_of_video(p, from, n_frames, out, err);
    if (p->kind == CS_VIDEO_QWEN2 && p->does_resize)
        return size_of_frame(p, from, n_frames, out, err);
    if (p->kind == CS_VIDEO_SOFT && p->does_resize)
        *out = cs_size_pooled(from, p->patch, p->merge, p->max_rows);
    else if (p->does_resize)
        *out = (struct cs_extent){p->height, p->width};
    return CS_OK;
}
