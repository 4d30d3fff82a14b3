/* Computes log-mel spectrograms; windows of nothing but zeros are not transformed. */
#include "input/media/sound/mel.h"

#include <math.h>
#include <stdlib.h>

#include "input/media/sound/fourier.h"

#define LOWEST_POWER  1e-10
#define DYNAMIC_RANGE 8.0 /* in log10 */
#define HIGHEST_HZ    8000.0

/* Weights of one band: of the frequencies [first, first + n). */
struct band {
    int32_t first, n;
    float *weights;
};

struct cs_mel {
    int32_t n_mels, n_fft, hop;
    struct cs_fourier *fourier;
    double *window; /* (n_fft) */
    struct band *bands;
    float *weights; /* of all bands, one behind the other */
};

/* Slaney's scale: linear up to 1000 Hz, logarithmic above. */
static double hz_of(double mel)
{
    return mel < 15.0 ? 200.0 * mel / 3.0 : 1000.0 * exp(log(6.4) / 27.0 * (mel - 15.0));
}

static double mel_of(double hz)
{
    return hz < 1000.0 ? 3.0 * hz / 200.0 : 15.0 + log(hz / 1000.0) * (27.0 / log(6.4));
}

/* The edge or centre of bands: n_mels + 2 of them, evenly spaced on the mel scale. */
static double edge_hz(const struct cs_mel *mel, int32_t i)
{
    return hz_of(mel_of(HIGHEST_HZ) / (mel->n_mels + 1) * i);
}

static void make_band(const struct cs_mel *mel, int32_t rate, int32_t m, struct band *band)
{
    const double low = edge_hz(mel, m), centre = edge_hz(mel, m + 1), high = edge_hz(mel, m + 2);
    const int32_t n_bins = mel->n_fft / 2 + 1;
    const double bin_hz = (double)(rate / 2) / (n_bins - 1);

    for (int32_t i = 0; i < n_bins; i++) {
        const double hz = bin_hz * i;
        const double up = (hz - low) / (centre - low), down = (high - hz) / (high - centre);
        const double weight = up < down ? up : down;
        if (weight <= 0)
            continue;
        if (band->n == 0)
            band->first = i;
        band->n = i - band->first + 1;
        band->weights[i - band->first] = (float)(weight * (2.0 / (high - low)));
    }
}

/* Every frequency is in two bands at most, but for the last edge. */
static enum cs_status make_tables(struct cs_mel *mel, int32_t rate, struct cs_err *err)
{
    const size_t n_fft = (size_t)mel->n_fft, n_mels = (size_t)mel->n_mels;
    float *next = NULL;

    mel->fourier = cs_fourier_new(mel->n_fft);
    mel->window = malloc(n_fft * sizeof *mel->window);
    mel->bands = calloc(n_mels, sizeof *mel->bands);
    mel->weights = calloc(n_fft * 2 + n_mels + 2, sizeof *mel->weights);
    if (mel->fourier == NULL || mel->window == NULL || mel->bands == NULL || mel->weights == NULL)
        return cs_fail(err, CS_NO_MEMORY, "no memory for %d mel bands", mel->n_mels);
    for (int32_t i = 0; i < mel->n_fft; i++)
        mel->window[i] = 0.5 - 0.5 * cos(2.0 * M_PI * i / mel->n_fft);
    next = mel->weights;
    for (int32_t m = 0; m < mel->n_mels; m++) {
        mel->bands[m].weights = next;
        make_band(mel, rate, m, &mel->bands[m]);
        next += mel->bands[m].n;
    }
    return CS_OK;
}

enum cs_status cs_mel_new(int32_t rate, int32_t n_mels, int32_t n_fft, int32_t hop,
                          struct cs_mel **out, struct cs_err *err)
{
    struct cs_mel *mel = calloc(1, sizeof *mel);
    enum cs_status status = CS_OK;

    CS_ASSERT(n_mels >= 1 && hop >= 1);
    *out = NULL;
    if (mel == NULL)
        return cs_fail(err, CS_NO_MEMORY, "no memory for %d mel bands", n_mels);
    mel->n_mels = n_mels;
    mel->n_fft = n_fft;
    mel->hop = hop;
    status = make_tables(mel, rate, err);
    if (status != CS_OK) {
        cs_mel_free(mel);
        return status;
    }
    *out = mel;
    return CS_OK;
}

void cs_mel_free(struct cs_mel *mel)
{
    if (mel == NULL)
        return;
    cs_fourier_free(mel->fourier);
    free(mel->window);
    free(mel->bands);
    free(mel->weights);
    free(mel);
}

/* A sound with what is put behind it, mirrored at both ends without repeating the last sample. */
struct padded {
    const float *samples;
    int64_t n, n_padded;
    double padding;
};

static double sample_at(const struct padded *p, int64_t i)
{
    if (i < 0)
        i = -i;
    if (i >= p->n_padded)
        i = 2 * (p->n_padded - 1) - i;
    return i < p->n ? (double)p->samples[i] : p->padding;
}

/* The window that starts at `from`; false: all zeros. */
static bool take_window(const struct cs_mel *mel, const struct padded *p, int64_t from, double *out)
{
    bool is_silent = true;

    for (int32_t i = 0; i < mel->n_fft; i++) {
        const double x = sample_at(p, from + i);
        out[i] = x * mel->window[i];
        is_silent = is_silent && x == 0.0;
    }
    return !is_silent;
}

static float log_power(const struct band *band, const double *power)
{
    double sum = 0.0;

    for (int32_t i = 0; i < band->n; i++)
        sum += (double)band->weights[i] * power[band->first + i];
    return (float)log10(sum > LOWEST_POWER ? sum : LOWEST_POWER);
}

static void squeeze(float *values, int64_t n)
{
    float largest = values[0];

    for (int64_t i = 1; i < n; i++)
        largest = values[i] > largest ? values[i] : largest;
    const float least = largest - (float)DYNAMIC_RANGE;
    for (int64_t i = 0; i < n; i++)
        values[i] = ((values[i] > least ? values[i] : least) + 4.0f) / 4.0f;
}

enum cs_status cs_mel_log(const struct cs_mel *mel, const float *samples, int64_t n,
                          int64_t n_padded, float padding, float *values, struct cs_err *err)
{
    const struct padded sound = {samples, n < n_padded ? n : n_padded, n_padded, (double)padding};
    const size_t n_fft = (size_t)mel->n_fft, n_scratch = cs_fourier_scratch(mel->fourier);
    const int64_t n_frames = n_padded / mel->hop;
    double *window = malloc((n_fft * 2 + 1 + n_scratch) * sizeof *window);

    CS_ASSERT(n_padded > mel->n_fft / 2);
    if (window == NULL)
        return cs_fail(err, CS_NO_MEMORY, "no memory for a window of %d samples", mel->n_fft);
    double *power = window + n_fft, *scratch = power + n_fft + 1;
    for (int64_t f = 0; f < n_frames; f++) {
        float *out = values + f * mel->n_mels;
        const bool has_sound = take_window(mel, &sound, f * mel->hop - mel->n_fft / 2, window);
        if (has_sound)
            cs_fourier_power(mel->fourier, window, scratch, power);
        for (int32_t m = 0; m < mel->n_mels; m++)
            out[m] = has_sound ? log_power(&mel->bands[m], power) : (float)log10(LOWEST_POWER);
    }
    if (n_frames > 0)
        squeeze(values, n_frames * mel->n_mels);
    free(window);
    return CS_OK;
}
