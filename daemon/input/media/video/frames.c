/* Takes frames: one function for each kind of processor. */
#include "input/media/video/frames.h"

#include <math.h>

/* One choice in the making. */
struct taking {
    const struct cs_video_processor *p;
    const struct cs_video_info *info;
    struct cs_arena *arena;
    struct cs_video_frames *out;
    struct cs_err *err;
};

static enum cs_status too_many(const struct taking *t, double n)
{
    return cs_fail(t->err, CS_LIMIT,
                   "%.0f of its %lld frames would be taken, the limit is %d: set num_frames or fps "
                   "and do_sample_frames in the video processor's document",
                   n, (long long)t->info->n_frames, CS_VIDEO_MAX_FRAMES);
}

/* Room for n frames. */
static enum cs_status make_room(const struct taking *t, double n)
{
    if (!(n <= CS_VIDEO_MAX_FRAMES))
        return too_many(t, n);
    t->out->index = cs_arena_array(t->arena, sizeof *t->out->index, (size_t)n + 1);
    return CS_OK;
}

/* torch.arange(first, total, total / n).int(): in double, rounded to float, cut. */
static enum cs_status take_steps(const struct taking *t, double first, double n)
{
    const double total = (double)t->info->n_frames, step = total / n;
    const double count = ceil((total - first) / step);

    CS_TRY(make_room(t, count));
    for (int32_t i = 0; i < count; i++) {
        const float at = (float)(first + step * i);
        if ((double)at < total) /* rounding may lead to the frame behind the last */
            t->out->index[t->out->n++] = (int32_t)at;
    }
    return CS_OK;
}

/* numpy.linspace(first, last, n), rounded to even or down; equal ones are taken once if asked for. */
static enum cs_status take_even(const struct taking *t, double first, double last, double n,
                                bool is_rounded, bool is_unique)
{
    const double step = n > 1 ? (last - first) / (n - 1) : 0;

    CS_TRY(make_room(t, n));
    for (int32_t i = 0; i < n; i++) {
        const double at = i > 0 && i + 1 >= n ? last : i * step + first;
        const int32_t frame = (int32_t)(is_rounded ? rint(at) : floor(at));
        if (!is_unique || t->out->n == 0 || frame != t->out->index[t->out->n - 1])
            t->out->index[t->out->n++] = frame;
    }
    return CS_OK;
}

static enum cs_status take_all(const struct taking *t)
{
    CS_TRY(make_room(t, (double)t->info->n_frames));
    for (int32_t i = 0; i < t->info->n_frames; i++)
        t->out->index[t->out->n++] = i;
    return CS_OK;
}

static enum cs_status check_known(const struct taking *t, bool needs_fps)
{
    if (t->p->num_frames > 0 && t->p->fps > 0)
        return cs_fail(t->err, CS_INVALID, "%s has both num_frames and fps; one can hold",
                       t->p->name);
    if (t->p->num_frames == 0 && t->p->fps <= 0)
        return cs_fail(t->err, CS_INVALID,
                       "%s is to take frames (do_sample_frames) and has neither num_frames nor fps",
                       t->p->name);
    if (needs_fps && t->p->fps > 0 && t->info->fps <= 0)
        return cs_fail(t->err, CS_INVALID,
                       "how many frames a second it has is not known, and %s takes them by fps",
                       t->p->name);
    return CS_OK;
}

/* The number of frames that is asked for, in the order of the operations of the original. */
static double by_fps(const struct taking *t)
{
    return (double)t->info->n_frames / t->info->fps * t->p->fps;
}

static enum cs_status check_enough(const struct taking *t, double n)
{
    if (n >= 1 && n <= (double)t->info->n_frames)
        return CS_OK;
    return cs_fail(t->err, CS_INVALID,
                   "%.0f frames are asked for, it has %lld: %s cannot take them", n,
                   (long long)t->info->n_frames, t->p->name);
}

static enum cs_status take_plain(const struct taking *t)
{
    CS_TRY(check_known(t, true));
    const double n = t->p->num_frames > 0 ? t->p->num_frames : floor(by_fps(t));
    CS_TRY(check_enough(t, n));
    return take_steps(t, 0, n);
}

static enum cs_status take_centred(const struct taking *t)
{
    CS_TRY(check_known(t, true));
    const double total = (double)t->info->n_frames;
    const double n = t->p->num_frames > 0 ? t->p->num_frames : floor(by_fps(t));
    CS_TRY(check_enough(t, n));
    return take_steps(t, t->p->is_centred ? total / n / 2 : t->p->shift, n);
}

/* Whole patches in time. */
static enum cs_status take_qwen2(const struct taking *t)
{
    const double total = (double)t->info->n_frames, patch = t->p->frames;
    double n = 0;

    CS_TRY(check_known(t, true));
    if (t->p->num_frames > 0) {
        n = rint(t->p->num_frames / patch) * patch;
    } else {
        const double most = floor(fmin(t->p->max_frames, total) / patch) * patch;
        n = fmin(fmin(fmax(by_fps(t), t->p->min_frames), most), total);
        n = floor(n / patch) * patch;
    }
    CS_TRY(check_enough(t, n));
    return take_steps(t, 0, n);
}

static enum cs_status take_qwen3(const struct taking *t)
{
    const double total = (double)t->info->n_frames;
    double n = t->p->num_frames;

    if (n > 0 && t->p->fps > 0)
        return check_known(t, false);
    if (n <= 0 && t->p->fps > 0) {
        const double fps = t->info->fps > 0 ? t->info->fps : CS_VIDEO_DEFAULT_FPS;
        n = floor(total / fps * t->p->fps);
        n = fmin(fmin(fmax(n, t->p->min_frames), t->p->max_frames), total);
    } else if (n <= 0) {
        n = fmin(fmax(total, t->p->min_frames), t->p->max_frames);
    }
    return take_even(t, 0, total - 1, n, true, false);
}

/* A second at each end is left away where the video is long. */
static enum cs_status take_timed(const struct taking *t)
{
    const double total = (double)t->info->n_frames, fps = t->info->fps, skipped_s = 1;
    double first = 0, last = total - 1;

    if (fps <= 0)
        return cs_fail(t->err, CS_INVALID, "how many frames a second it has is not known");
    if (t->p->num_frames == 0 || t->p->fps <= 0)
        return cs_fail(t->err, CS_INVALID, "%s needs video_sampling (max_frames and fps)",
                       t->p->name);
    const double duration = total / fps;
    const double n = fmax(1, fmin(rint(t->p->fps * duration), t->p->num_frames));
    if (duration - 2 * skipped_s > t->p->num_frames * t->p->fps) {
        first = floor(skipped_s * fps);
        last = fmin(floor(total - skipped_s * fps), total - 1);
    }
    if (first >= last) {
        first = 0;
        last = total - 1;
    }
    return take_even(t, first, last, n, false, true);
}

static enum cs_status (*const takers[])(const struct taking *t) = {
    [CS_VIDEO_QWEN2] = take_qwen2,  [CS_VIDEO_QWEN3] = take_qwen3,
    [CS_VIDEO_POOLED] = take_plain, [CS_VIDEO_NUMBERED] = take_centred,
    [CS_VIDEO_TIMED] = take_timed,  [CS_VIDEO_SOFT] = take_plain,
};

_Static_assert(CS_ARRAY_LEN(takers) == CS_VIDEO_KINDS, "a way for each kind");

enum cs_status cs_video_frames_take(const struct cs_video_processor *processor,
                                    const struct cs_video_info *info, struct cs_arena *arena,
                                    struct cs_video_frames *out, struct cs_err *err)
{
    const struct taking t = {processor, info, arena, out, err};

    *out = (struct cs_video_frames){0};
    if (info->n_frames < 1)
        return cs_fail(err, CS_INVALID, "a video without frames");
    if (info->n_frames > INT32_MAX)
        return too_many(&t, (double)info->n_frames);
    CS_TRY(processor->does_sample && !info->is_list ? takers[processor->kind](&t) : take_all(&t));
    if (out->n == 0)
        return cs_fail(err, CS_INVALID, "none of its %lld frames is taken",
                       (long long)info->n_frames);
    const bool is_known = info->fps > 0;
    out->fps = is_known ? info->fps : CS_VIDEO_DEFAULT_FPS;
    out->taken_fps =
        is_known ? (double)out->n / (double)info->n_frames * info->fps : CS_VIDEO_DEFAULT_FPS;
    out->duration = is_known ? (double)info->n_frames / info->fps
                             : floor((double)out->index[out->n - 1] / out->fps);
    return CS_OK;
}
