/* Reads sounds: decodes in blocks, resamples each, keeps what comes out. */
#include "input/media/sound/sound.h"

#include <math.h>
#include <stdlib.h>

#include "input/media/sound/resample.h"
#include "input/media/sound/sound_file.h"

static enum cs_status count_frames(struct cs_sound_file *file, int64_t *out, struct cs_err *err)
{
    float block[CS_SOUND_BLOCK];
    int64_t got = 0;

    *out = 0;
    do {
        CS_TRY(cs_sound_file_next(file, block, &got, err));
        *out += got;
    } while (got > 0);
    return CS_OK;
}

enum cs_status cs_sound_probe(const struct cs_sound_source *source, struct cs_sound_info *out,
                              struct cs_err *err)
{
    struct cs_sound_file *file = NULL;
    bool is_exact = false;
    enum cs_status status = CS_OK;

    CS_TRY(cs_sound_file_open(source, &file, out, &is_exact, err));
    if (!is_exact)
        status = count_frames(file, &out->n_frames, err);
    cs_sound_file_close(file);
    if (status == CS_OK && out->n_frames == 0)
        status = cs_fail(err, CS_INVALID, "%s: a sound without samples", source->name);
    return status;
}

int64_t cs_sound_resampled(int64_t n_frames, int32_t from_rate, int32_t to_rate)
{
    if (from_rate == to_rate)
        return n_frames;
    return (int64_t)ceil((double)n_frames * ((double)to_rate / from_rate));
}

/* Samples that grow to what is needed, never beyond `most`. */
struct growing {
    float *samples;
    int64_t n, room, most;
};

static enum cs_status make_room(struct growing *g, int64_t want, const char *name,
                                struct cs_err *err)
{
    float *bigger = NULL;

    want = want < g->most ? want : g->most;
    if (want <= g->room)
        return CS_OK;
    want = want < g->room * 2 ? g->room * 2 : want;
    want = want < g->most ? want : g->most;
    bigger = realloc(g->samples, (size_t)want * sizeof *bigger);
    if (bigger == NULL)
        return cs_fail(err, CS_NO_MEMORY, "%s: no memory for %lld samples", name, (long long)want);
    g->samples = bigger;
    g->room = want;
    return CS_OK;
}

/* Decodes and resamples up to out->most samples; *frames: how many were decoded. A filter never runs ahead
 * of its input, so that there is always room for what it makes. */
static enum cs_status decode(struct cs_sound_file *file, struct cs_resampler *resampler,
                             const char *name, const struct cs_sound_info *info, int32_t rate,
                             struct growing *out, int64_t *frames, struct cs_err *err)
{
    enum { SPARE = 64 };

    float block[CS_SOUND_BLOCK];
    int64_t got = 0, made = 0;

    *frames = 0;
    do {
        CS_TRY(cs_sound_file_next(file, block, &got, err));
        *frames += got;
        CS_TRY(make_room(out, cs_sound_resampled(*frames, info->rate, rate) + SPARE, name, err));
        CS_TRY(cs_resampler_push(resampler, block, got, out->samples + out->n, out->room - out->n,
                                 &made, err));
        out->n += made;
    } while (got > 0 && out->n < out->most);
    return CS_OK;
}

/* The number of samples that librosa has: some more or less than the filter makes, zeros where it ends. */
static enum cs_status fit(struct growing *g, int64_t n, const char *name, struct cs_err *err)
{
    n = n < g->most ? n : g->most;
    CS_TRY(make_room(g, n, name, err));
    while (g->n < n)
        g->samples[g->n++] = 0.0f;
    g->n = n;
    return CS_OK;
}

static enum cs_status read_file(struct cs_sound_file *file, const char *name,
                                const struct cs_sound_info *info, bool is_exact, int32_t rate,
                                struct growing *out, struct cs_err *err)
{
    struct cs_resampler *resampler = NULL;
    int64_t frames = 0;
    enum cs_status status = cs_resampler_new(info->rate, rate, &resampler, err);

    if (status == CS_OK)
        status = decode(file, resampler, name, info, rate, out, &frames, err);
    cs_resampler_free(resampler);
    if (status != CS_OK || out->n >= out->most)
        return status;
    if (is_exact && frames != info->n_frames)
        return cs_fail(err, CS_CORRUPT, "%s: ends after %lld of %lld samples: was it cut?", name,
                       (long long)frames, (long long)info->n_frames);
    if (frames == 0)
        return cs_fail(err, CS_INVALID, "%s: a sound without samples", name);
    return fit(out, cs_sound_resampled(frames, info->rate, rate), name, err);
}

enum cs_status cs_sound_read(const struct cs_sound_source *source, int32_t rate, int64_t most,
                             struct cs_sound *out, struct cs_sound_info *info, struct cs_err *err)
{
    const int64_t limit = CS_SOUND_MAX_SAMPLES;
    struct growing g = {.most = most > 0 && most <= limit ? most : limit + 1};
    struct cs_sound_info found = {0};
    struct cs_sound_file *file = NULL;
    bool is_exact = false;
    enum cs_status status = CS_OK;

    *out = (struct cs_sound){0};
    CS_TRY(cs_sound_file_open(source, &file, &found, &is_exact, err));
    if (is_exact && g.most > limit && cs_sound_resampled(found.n_frames, found.rate, rate) > limit)
        status =
            cs_fail(err, CS_LIMIT, "%s: %.0f minutes of sound; the limit is %.0f", source->name,
                    (double)found.n_frames / found.rate / 60.0, (double)limit / rate / 60.0);
    if (status == CS_OK)
        status = read_file(file, source->name, &found, is_exact, rate, &g, err);
    if (status == CS_OK && g.n > limit)
        status =
            cs_fail(err, CS_LIMIT, "%s: more than %lld samples", source->name, (long long)limit);
    cs_sound_file_close(file);
    if (status != CS_OK) {
        free(g.samples);
        return status;
    }
    if (info != NULL)
        *info = found;
    *out = (struct cs_sound){.n_samples = g.n, .rate = rate, .samples = g.samples};
    return CS_OK;
}

void cs_sound_free(struct cs_sound *sound)
{
    free(sound->samples);
    *sound = (struct cs_sound){0};
}
