/* The arithmetic of sizes; see sizes.h. Products of two sides stay below 2^53, so that doubles hold
 * them exactly as Python's integers do. */
#include "input/media/sizes.h"

#include <math.h>

static int32_t least(int32_t a, int32_t b)
{
    return a < b ? a : b;
}

static int32_t most(int32_t a, int32_t b)
{
    return a > b ? a : b;
}

/* A side that is too large for anything is one that the caller refuses. */
static int32_t side(double x)
{
    return x >= (double)INT32_MAX ? INT32_MAX : (int32_t)x;
}

struct cs_extent cs_size_shortest(struct cs_extent from, int32_t shortest, int32_t longest)
{
    const double h = from.height, w = from.width, low = h < w ? h : w, high = h < w ? w : h;
    double size = shortest;

    if (longest > 0 && high / low * shortest > longest) {
        const double raw = (double)longest * low / high;
        size = rint(raw);
        if (!((from.height <= from.width && h == size) || (from.width <= from.height && w == size)))
            return from.width < from.height ? (struct cs_extent){side(raw * h / w), side(size)}
                                            : (struct cs_extent){side(size), side(raw * w / h)};
        return from;
    }
    return from.width <= from.height ? (struct cs_extent){side(size * h / w), side(size)}
                                     : (struct cs_extent){side(size), side(size * w / h)};
}

struct cs_extent cs_size_box(struct cs_extent from, int32_t max_height, int32_t max_width)
{
    const double down = (double)max_height / from.height, across = (double)max_width / from.width;
    const double scale = down < across ? down : across;

    return (struct cs_extent){side(from.height * scale), side(from.width * scale)};
}

enum cs_status cs_size_smart(struct cs_extent from, int32_t factor, int64_t min, int64_t max,
                             struct cs_extent *out, struct cs_err *err)
{
    const double h = from.height, w = from.width, f = factor;
    const double ratio = h > w ? h / w : w / h;
    double high = rint(h / f) * f, wide = rint(w / f) * f;

    *out = (struct cs_extent){0};
    if (ratio > 200)
        return cs_fail(err, CS_INVALID,
                       "%d x %d pixels: one side is %.1f times the other, at most 200 can be",
                       from.width, from.height, ratio);
    if (high * wide > (double)max) {
        const double beta = sqrt(h * w / (double)max);
        high = fmax(f, floor(h / beta / f) * f);
        wide = fmax(f, floor(w / beta / f) * f);
    } else if (high * wide < (double)min) {
        const double beta = sqrt((double)min / (h * w));
        high = ceil(h * beta / f) * f;
        wide = ceil(w * beta / f) * f;
    }
    *out = (struct cs_extent){side(high), side(wide)};
    return CS_OK;
}

/* Up to a multiple; 0 stays 0. */
static int32_t up(int32_t n, int32_t factor)
{
    return n == 0 ? 0 : side(((double)((n - 1) / factor) + 1) * factor);
}

struct cs_extent cs_size_within(struct cs_extent from, struct cs_extent max, int32_t factor)
{
    const double down = (double)from.height / max.height, across = (double)from.width / max.width;
    const double ratio = down > across ? down : across;

    if (ratio > 1)
        from = (struct cs_extent){side(from.height / ratio), side(from.width / ratio)};
    return (struct cs_extent){up(from.height, factor), up(from.width, factor)};
}

static double scaled(double scale, int32_t size, int32_t patch)
{
    return fmax(patch, ceil(size * scale / patch) * patch);
}

struct cs_extent cs_size_budget(struct cs_extent from, int32_t patch, int32_t max_patches)
{
    const double narrow = 1e-5;
    double low = narrow / 10, high = 100.0;

    while (high - low >= narrow) {
        const double scale = (low + high) / 2;
        const double patches =
            scaled(scale, from.height, patch) / patch * (scaled(scale, from.width, patch) / patch);
        if (patches <= max_patches)
            low = scale;
        else
            high = scale;
    }
    return (struct cs_extent){side(scaled(low, from.height, patch)),
                              side(scaled(low, from.width, patch))};
}

struct cs_extent cs_size_pooled(struct cs_extent from, int32_t patch, int32_t pool,
                                int32_t max_rows)
{
    const double h = from.height, w = from.width, multiple = (double)pool * patch;
    const double pixels = (double)max_rows * pool * pool * ((double)patch * patch);
    const double factor = sqrt(pixels / (h * w)), limit = max_rows * multiple;
    double high = floor(factor * h / multiple) * multiple;
    double wide = floor(factor * w / multiple) * multiple;

    if (high == 0 && wide == 0)
        return (struct cs_extent){0};
    if (high == 0) {
        high = multiple;
        wide = fmin(floor(w / h) * multiple, limit);
    } else if (wide == 0) {
        wide = multiple;
        high = fmin(floor(h / w) * multiple, limit);
    }
    return (struct cs_extent){side(high), side(wide)};
}

struct cs_extent cs_size_grid(struct cs_extent from, struct cs_extent tile, int32_t min,
                              int32_t max)
{
    const double aspect = (double)from.width / from.height, area = (double)from.width * from.height;
    struct cs_extent best = {1, 1};
    double best_off = INFINITY;

    for (int32_t n = min; n <= max; n++)
        for (int32_t columns = 1; columns <= n; columns++) {
            const int32_t rows = n / columns;
            const double off = fabs(aspect - (double)columns / rows);
            if (n % columns != 0)
                continue;
            /* of equal aspect: more tiles, while the picture fills half of them */
            if (off < best_off ||
                (off == best_off && area > 0.5 * tile.height * tile.width * columns * rows))
                best = (struct cs_extent){rows, columns};
            best_off = off < best_off ? off : best_off;
        }
    return best;
}

enum { LARGEST = 4096 };

struct cs_extent cs_size_longest(struct cs_extent from, int32_t n)
{
    double aspect = (double)from.width / from.height;
    struct cs_extent to;

    if (from.width >= from.height) {
        to = (struct cs_extent){side(n / aspect), n};
        to.height += to.height % 2;
    } else {
        to = (struct cs_extent){n, side(n * aspect)};
        to.width += to.width % 2;
    }
    to = (struct cs_extent){most(to.height, 1), most(to.width, 1)};
    aspect = (double)to.width / to.height;
    if (to.width >= to.height && to.width > LARGEST)
        to = (struct cs_extent){side(LARGEST / aspect), LARGEST};
    else if (to.height > to.width && to.height > LARGEST)
        to = (struct cs_extent){LARGEST, side(LARGEST * aspect)};
    return (struct cs_extent){most(to.height, 1), most(to.width, 1)};
}

struct cs_extent cs_size_multiple(struct cs_extent from, int32_t tile)
{
    const double aspect = (double)from.width / from.height, t = tile;
    double high = from.height, wide = from.width;

    if (from.width >= from.height) {
        wide = ceil(wide / t) * t;
        high = ceil(floor(wide / aspect) / t) * t;
    } else {
        high = ceil(high / t) * t;
        wide = ceil(floor(high * aspect) / t) * t;
    }
    return (struct cs_extent){side(high), side(wide)};
}

struct cs_extent cs_size_inside(struct cs_extent from, struct cs_extent within)
{
    const double across = (double)within.width / from.width;
    const double down = (double)within.height / from.height;

    if (across < down)
        return (struct cs_extent){least(side(ceil(from.height * across)), within.height),
                                  within.width};
    return (struct cs_extent){within.height, least(side(ceil(from.width * down)), within.width)};
}
