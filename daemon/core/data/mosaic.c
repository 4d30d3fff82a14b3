#include "core/data/mosaic.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

int32_t cs_size_pin(struct cs_extent from, const int32_t (*pins)[2], int32_t n)
{
    const double h = from.height, w = from.width;
    double kept = 0, wasted = INFINITY;
    int32_t best = -1;
    for (int32_t i = 0; i < n; i++) {
        const double across = pins[i][1] / w, down = pins[i][0] / h;
        const double scale = across < down ? across : down;
        const double keeps = fmin(floor(w * scale) * floor(h * scale), w * h);
        const double wastes = (double)pins[i][0] * pins[i][1] - keeps;
        if (keeps > kept || (keeps == kept && wastes < wasted)) {
            kept = keeps;
            wasted = wastes;
            best = i;
        }
    }
    return best;
}

/* Python's round(x, 7), then the whole part. */
static int32_t whole(double x)
{
    char text[64];
    snprintf(text, sizeof text, "%.7f", x);
    x = strtod(text, NULL);
    return x < INT32_MAX ? (int32_t)x : INT32_MAX;
}

struct cs_extent cs_size_unpadded(struct cs_extent from, struct cs_extent grid)
{
    const double h = from.height, w = from.width;
    if (w / h > (double)grid.width / grid.height) {
        const int32_t high = whole(h * (grid.width / w));
        grid.height -= (grid.height - high) / 2 * 2;
    } else {
        const int32_t wide = whole(w * (grid.height / h));
        grid.width -= (grid.width - wide) / 2 * 2;
    }
    return grid;
}

/* Python's a // b of floats: the whole part of the true quotient, not of the rounded one. */
static int32_t whole_quotient(double a, double b)
{
    return (int32_t)rint((a - fmod(a, b)) / b);
}

/* What is left of the rows where there are more than some tiles have. */
static struct cs_extent limited(const struct cs_mosaic *m, int32_t most_tiles)
{
    const struct cs_extent kept = m->kept;
    if (most_tiles == 0)
        return kept;
    const double ratio = sqrt((double)kept.height * kept.width /
                              ((double)most_tiles * m->tile.height * m->tile.height));
    return ratio > 1.1 ? (struct cs_extent){whole_quotient(kept.height, ratio),
                                            whole_quotient(kept.width, ratio)}
                       : kept;
}

struct cs_mosaic cs_mosaic_make(struct cs_extent from, struct cs_extent tiles,
                                struct cs_extent tile, int32_t most_tiles)
{
    struct cs_mosaic m = {.tiles = tiles, .tile = tile};
    m.full = (struct cs_extent){tiles.height * tile.height, tiles.width * tile.width};
    m.kept = cs_size_unpadded(from, m.full);
    m.top = (m.full.height - m.kept.height) / 2;
    m.left = (m.full.width - m.kept.width) / 2;
    m.size = limited(&m, most_tiles);
    return m;
}

bool cs_mosaic_is_blended(const struct cs_mosaic *m)
{
    return m->size.height != m->kept.height || m->size.width != m->kept.width;
}

int32_t cs_mosaic_row(const struct cs_mosaic *m, int32_t y, int32_t x)
{
    y += m->top;
    x += m->left;
    const int32_t item = 1 + y / m->tile.height * m->tiles.width + x / m->tile.width;
    return item * m->tile.height * m->tile.width + y % m->tile.height * m->tile.width +
           x % m->tile.width;
}

/* One axis of a bilinear resize as torch's interpolate does it, in float. */
struct axis {
    int32_t low, high;
    float weight; /* of high */
};

static struct axis axis_at(int32_t i, int32_t from, int32_t to)
{
    const float scale = (float)from / (float)to;
    const float at = fmaxf(scale * ((float)i + 0.5f) - 0.5f, 0.0f);
    struct axis a = {.low = (int32_t)at};
    a.low = a.low < from - 1 ? a.low : from - 1;
    a.high = a.low + (a.low < from - 1);
    a.weight = fminf(at - (float)a.low, 1.0f);
    return a;
}

struct cs_slot_blend cs_mosaic_blend(const struct cs_mosaic *m, int32_t y, int32_t x)
{
    const struct axis v = axis_at(y, m->kept.height, m->size.height);
    const struct axis h = axis_at(x, m->kept.width, m->size.width);
    return (struct cs_slot_blend){
        {cs_mosaic_row(m, v.low, h.low), cs_mosaic_row(m, v.low, h.high),
         cs_mosaic_row(m, v.high, h.low), cs_mosaic_row(m, v.high, h.high)},
        {(1 - v.weight) * (1 - h.weight),        (1 - v.weight) * h.weight,        v.weight * (1 - h.weight),
         v.weight * h.weight                }
    };
}
