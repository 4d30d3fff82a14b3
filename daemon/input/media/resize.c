/* Resizes pictures by separable resampling with fixed-point weights, bit for bit as Pillow or torchvision does. */
#include "input/media/resize.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/clones.h"

enum {
    PRECISION = 32 - 8 - 2,
    CHANNELS = 3,
    PIXEL = 4, /* bytes of a pixel beside those of other lines */
    LINES = 8, /* that are resized across at a time */
    STRIP = LINES * PIXEL,
    COLUMNS = 64 /* bytes of a line that are resized down at a time */
};

#define SHORT_ONE 32768 /* weights of 16 bits lie below */

/* One output position reads source [first, first + n) with n weights. */
struct span {
    int32_t first, n;
};

struct weights {
    struct span *spans; /* (out) */
    int32_t *w;         /* (out, width) */
    int32_t width;
    int precision; /* bits behind the point */
};

static double box(double x)
{
    return x > -0.5 && x <= 0.5 ? 1.0 : 0.0;
}

static double bilinear(double x)
{
    x = fabs(x);
    return x < 1.0 ? 1.0 - x : 0.0;
}

static double hamming(double x)
{
    x = fabs(x);
    if (x == 0.0 || x >= 1.0)
        return x == 0.0 ? 1.0 : 0.0;
    x *= M_PI;
    return sin(x) / x * ((double)0.54f + (double)0.46f * cos(x));
}

static double bicubic(double x)
{
    const double a = -0.5;

    x = fabs(x);
    if (x < 1.0)
        return ((a + 2.0) * x - (a + 3.0)) * x * x + 1;
    if (x < 2.0)
        return (((x - 5) * x + 8) * x - 4) * a;
    return 0.0;
}

static double sinc(double x)
{
    x *= M_PI;
    return x == 0.0 ? 1.0 : sin(x) / x;
}

static double lanczos(double x)
{
    return x >= -3.0 && x < 3.0 ? sinc(x) * sinc(x / 3) : 0.0;
}

static const struct {
    double (*weight)(double x);
    double support;
} filters[] = {
    [CS_RESAMPLE_LANCZOS] = {lanczos,  3.0},
      [CS_RESAMPLE_BILINEAR] = {bilinear, 1.0},
    [CS_RESAMPLE_BICUBIC] = {bicubic,  2.0},
      [CS_RESAMPLE_BOX] = {box,      0.5},
    [CS_RESAMPLE_HAMMING] = {hamming,  1.0},
};

_Static_assert(CS_ARRAY_LEN(filters) == CS_RESAMPLES, "a filter for each number");

static void weights_free(struct weights *t)
{
    free(t->spans);
    free(t->w);
}

/* The most bits with which the largest weight still is one of 16. */
static int short_precision(const double *weights, size_t n)
{
    double largest = 0.0;
    int bits = 0;

    for (size_t i = 0; i < n; i++)
        largest = weights[i] > largest ? weights[i] : largest;
    while (bits < PRECISION && (int)(0.5 + largest * (1 << (bits + 1))) < SHORT_ONE)
        bits++;
    return bits;
}

static bool weights_make(int32_t in, int32_t out, enum cs_resample filter,
                         enum cs_resize_weights kind, struct weights *t)
{
    double (*f)(double) = filters[filter].weight;
    double scale = (double)in / out, filter_scale = scale < 1.0 ? 1.0 : scale;
    double support = filters[filter].support * filter_scale;
    double inverse = 1.0 / filter_scale, *k = NULL;

    t->width = (int32_t)ceil(support) * 2 + 1;
    t->spans = calloc((size_t)out, sizeof *t->spans);
    t->w = calloc((size_t)out * (size_t)t->width, sizeof *t->w);
    k = calloc((size_t)out * (size_t)t->width, sizeof *k);
    if (t->spans == NULL || t->w == NULL || k == NULL) {
        free(k);
        return false;
    }
    for (int32_t x = 0; x < out; x++) {
        double center = (x + 0.5) * scale, sum = 0.0, *row = k + (size_t)x * (size_t)t->width;
        int32_t first = (int32_t)(center - support + 0.5);
        int32_t last = (int32_t)(center + support + 0.5);
        first = first < 0 ? 0 : first;
        last = last > in ? in : last;
        t->spans[x] = (struct span){first, last - first};
        for (int32_t i = 0; i < last - first; i++) {
            row[i] = f((i + first - center + 0.5) * inverse);
            sum += row[i];
        }
        for (int32_t i = 0; i < last - first && sum != 0.0; i++)
            row[i] /= sum;
    }
    const size_t n = (size_t)out * (size_t)t->width;
    t->precision = kind == CS_RESIZE_SHORT ? short_precision(k, n) : PRECISION;
    for (size_t i = 0; i < n; i++)
        t->w[i] = (int32_t)((k[i] < 0 ? -0.5 : 0.5) + k[i] * (1 << t->precision));
    free(k);
    return true;
}

/* What a weighted sum is as a pixel. */
static inline uint8_t clip8(int32_t v, int precision)
{
    v >>= precision;
    v = v < 0 ? 0 : v;
    return (uint8_t)(v > 255 ? 255 : v);
}

/* Pixels of a few lines side by side, so that one weight goes over all of them: (src_width, LINES, PIXEL), the last
 * byte of each is not looked at. */
static void gather_lines(const uint8_t *src, int32_t src_width, int32_t n_lines, uint8_t *strip)
{
    for (int32_t y = 0; y < n_lines; y++) {
        const uint8_t *line = src + (size_t)y * (size_t)src_width * CHANNELS;
        uint8_t *to = strip + (size_t)y * PIXEL;
        int32_t x = 0;
        for (; x < src_width - 1; x++, to += STRIP)
            memcpy(to, line + (size_t)x * CHANNELS, PIXEL);
        memcpy(to, line + (size_t)x * CHANNELS, CHANNELS);
    }
}

/* One position of all lines of the strip: p (n, STRIP), out (STRIP). */
static inline void weigh_strip(const uint8_t *p, const int32_t *w, int32_t n, int precision,
                               uint8_t *out)
{
    int32_t sum[STRIP];

    for (int k = 0; k < STRIP; k++)
        sum[k] = 1 << (precision - 1);
    for (int32_t i = 0; i < n; i++, p += STRIP)
        for (int k = 0; k < STRIP; k++)
            sum[k] += p[k] * w[i];
    for (int k = 0; k < STRIP; k++)
        out[k] = clip8(sum[k], precision);
}

/* strip: (src_width, STRIP) */
CS_CLONES static void pass_horizontal(const uint8_t *src, int32_t src_width, int32_t rows,
                                      uint8_t *dst, int32_t dst_width, const struct weights *t,
                                      uint8_t *strip)
{
    const size_t line = (size_t)dst_width * CHANNELS;
    uint8_t out[STRIP];

    for (int32_t y = 0; y < rows; y += LINES) {
        const int32_t n_lines = rows - y < LINES ? rows - y : LINES;
        gather_lines(src + (size_t)y * (size_t)src_width * CHANNELS, src_width, n_lines, strip);
        for (int32_t x = 0; x < dst_width; x++) {
            uint8_t *to = dst + (size_t)y * line + (size_t)x * CHANNELS;
            weigh_strip(strip + (size_t)t->spans[x].first * STRIP,
                        t->w + (size_t)x * (size_t)t->width, t->spans[x].n, t->precision, out);
            for (int32_t k = 0; k < n_lines; k++)
                memcpy(to + (size_t)k * line, out + (size_t)k * PIXEL, CHANNELS);
        }
    }
}

/* COLUMNS bytes of a line from those of n lines above each other. */
static inline void weigh_columns(const uint8_t *p, size_t line, const int32_t *w, int32_t n,
                                 int precision, uint8_t *out)
{
    int32_t sum[COLUMNS];

    for (int k = 0; k < COLUMNS; k++)
        sum[k] = 1 << (precision - 1);
    for (int32_t i = 0; i < n; i++, p += line)
        for (int k = 0; k < COLUMNS; k++)
            sum[k] += p[k] * w[i];
    for (int k = 0; k < COLUMNS; k++)
        out[k] = clip8(sum[k], precision);
}

CS_CLONES static void pass_vertical(const uint8_t *src, int32_t width, uint8_t *dst,
                                    int32_t dst_height, const struct weights *t)
{
    const size_t line = (size_t)width * CHANNELS;

    for (int32_t y = 0; y < dst_height; y++) {
        const int32_t *w = t->w + (size_t)y * (size_t)t->width, n = t->spans[y].n;
        const uint8_t *p = src + (size_t)t->spans[y].first * line;
        uint8_t *o = dst + (size_t)y * line;
        size_t c = 0;
        for (; c + COLUMNS <= line; c += COLUMNS)
            weigh_columns(p + c, line, w, n, t->precision, o + c);
        for (; c < line; c++) {
            int32_t sum = 1 << (t->precision - 1);
            for (int32_t i = 0; i < n; i++)
                sum += p[(size_t)i * line + c] * w[i];
            o[c] = clip8(sum, t->precision);
        }
    }
}

/* Source position of every position, as the affine transform of Pillow walks there. */
static int32_t *nearest_of(int32_t in, int32_t out)
{
    int32_t *from = malloc((size_t)out * sizeof *from);
    const double step = (double)in / out;
    double at = step * 0.5;

    for (int32_t i = 0; from != NULL && i < out; i++, at += step)
        from[i] = (int32_t)at < in ? (int32_t)at : in - 1;
    return from;
}

static enum cs_status resize_nearest(const uint8_t *src, int32_t src_width, int32_t src_height,
                                     uint8_t *dst, int32_t dst_width, int32_t dst_height,
                                     struct cs_err *err)
{
    int32_t *x_of = nearest_of(src_width, dst_width), *y_of = nearest_of(src_height, dst_height);
    const bool is_ready = x_of != NULL && y_of != NULL;

    for (int32_t y = 0; is_ready && y < dst_height; y++) {
        const uint8_t *line = src + (size_t)y_of[y] * (size_t)src_width * CHANNELS;
        for (int32_t x = 0; x < dst_width; x++, dst += CHANNELS)
            memcpy(dst, line + (size_t)x_of[x] * CHANNELS, CHANNELS);
    }
    free(x_of);
    free(y_of);
    return is_ready ? CS_OK
                    : cs_fail(err, CS_NO_MEMORY, "no memory to resize %d x %d to %d x %d",
                              src_width, src_height, dst_width, dst_height);
}

enum cs_status cs_resize_rgb_with(const uint8_t *src, int32_t src_width, int32_t src_height,
                                  uint8_t *dst, int32_t dst_width, int32_t dst_height,
                                  enum cs_resample filter, enum cs_resize_weights kind,
                                  struct cs_err *err)
{
    struct weights across = {0}, down = {0};
    enum cs_status status = CS_OK;
    uint8_t *middle = NULL, *strip = NULL;
    const uint8_t *from = src;

    CS_ASSERT(src_width >= 1 && src_height >= 1 && dst_width >= 1 && dst_height >= 1);
    if (src_width == dst_width && src_height == dst_height) {
        memcpy(dst, src, (size_t)dst_width * (size_t)dst_height * CHANNELS);
        return CS_OK;
    }
    if (filter == CS_RESAMPLE_NEAREST)
        return resize_nearest(src, src_width, src_height, dst, dst_width, dst_height, err);
    if (src_width != dst_width && src_height != dst_height)
        middle = malloc((size_t)dst_width * (size_t)src_height * CHANNELS);
    if (src_width != dst_width)
        strip = calloc((size_t)src_width, STRIP);
    if ((src_width != dst_width && !weights_make(src_width, dst_width, filter, kind, &across)) ||
        (src_height != dst_height && !weights_make(src_height, dst_height, filter, kind, &down)) ||
        (src_width != dst_width && src_height != dst_height && middle == NULL) ||
        (src_width != dst_width && strip == NULL)) {
        status = cs_fail(err, CS_NO_MEMORY, "no memory to resize %d x %d to %d x %d", src_width,
                         src_height, dst_width, dst_height);
        goto out;
    }
    if (src_width != dst_width) {
        uint8_t *to = middle != NULL ? middle : dst;
        pass_horizontal(src, src_width, src_height, to, dst_width, &across, strip);
        from = to;
    }
    if (src_height != dst_height)
        pass_vertical(from, dst_width, dst, dst_height, &down);
out:
    weights_free(&across);
    weights_free(&down);
    free(middle);
    free(strip);
    return status;
}

enum cs_status cs_resize_rgb(const uint8_t *src, int32_t src_width, int32_t src_height,
                             uint8_t *dst, int32_t dst_width, int32_t dst_height,
                             enum cs_resample filter, struct cs_err *err)
{
    return cs_resize_rgb_with(src, src_width, src_height, dst, dst_width, dst_height, filter,
                              CS_RESIZE_FINE, err);
}
