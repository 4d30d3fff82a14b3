/* Positions of an encoder's rows as weighted rows of its table. What transformers does with
 * F.interpolate is linear and falls into a part of height and a part of width; weights are computed
 * in fp32 where it does so, for they are what is compared.
 *
 * Sources: torch's upsample kernels (bicubic a = -0.75; bilinear with antialias), transformers'
 * vision_utils.py (corners on corners), SmolVLM's buckets, Gemma 4's two tables. */
#include <math.h>

#include "core/arch/arch.h"

enum { TAPS = CS_FRONT_POSITION_SIDE }; /* of one axis */

/* Rows of the table that one coordinate touches, along one axis. */
struct taps {
    int32_t n, at[TAPS];
    float weight[TAPS];
};

struct axis {
    int32_t side, size; /* of the table, of the grid */
};

static int32_t clamp(int32_t at, int32_t side)
{
    return at < 0 ? 0 : at >= side ? side - 1 : at;
}

static float cubic(float d)
{
    const float a = -0.75f;
    return d <= 1 ? ((a + 2) * d - (a + 3)) * d * d + 1 : ((a * d - 5 * a) * d + 8 * a) * d - 4 * a;
}

/* n taps from `first` on; their weights by distance from src */
static void put_taps(struct taps *t, float src, int first, int n, float (*weight)(float), int side)
{
    const int32_t whole = (int32_t)floorf(src);
    const float part = src - (float)whole;
    t->n = n;
    for (int i = 0; i < n; i++) {
        t->at[i] = clamp(whole + first + i, side);
        t->weight[i] = weight(fabsf(part - (float)(first + i)));
    }
}

static float hat(float d)
{
    return d < 1 ? 1 - d : 0;
}

static void bicubic(struct axis axis, int32_t i, struct taps *t)
{
    const float scale = (float)axis.side / (float)axis.size;
    put_taps(t, scale * ((float)i + 0.5f) - 0.5f, -1, 4, cubic, axis.side);
}

static void corners(struct axis axis, int32_t i, struct taps *t)
{
    const int32_t steps = axis.size > 1 ? axis.size - 1 : 1;
    put_taps(t, (float)i * (float)(axis.side - 1) / (float)steps, 0, 2, hat, axis.side);
}

/* A hat as wide as what becomes one. */
static void area(struct axis axis, int32_t i, struct taps *t)
{
    const float scale = (float)axis.side / (float)axis.size;
    const float support = scale > 1 ? scale : 1, center = scale * ((float)i + 0.5f);
    const int32_t low = (int32_t)(center - support + 0.5f);
    const int32_t high = (int32_t)(center + support + 0.5f);
    const int32_t first = low > 0 ? low : 0, end = high < axis.side ? high : axis.side;
    float sum = 0;
    t->n = 0;
    for (int32_t k = first; k < end && t->n < TAPS; k++, t->n++) {
        t->at[t->n] = k;
        t->weight[t->n] = hat(fabsf(((float)k - center + 0.5f) / support));
        sum += t->weight[t->n];
    }
    for (int32_t k = 0; k < t->n; k++)
        t->weight[k] /= sum;
}

/* The coordinate as a share of its axis, and how many of the table's borders are at or below it:
 * torch.arange makes borders in fp64 and rounds them, the share is of fp32. */
static void bucket(struct axis axis, int32_t i, struct taps *t)
{
    const float step = 1.0f / (float)axis.size, most = 1.0f - 1e-6f;
    const float share = (float)i * step < most ? (float)i * step : most;
    const double width = 1.0 / axis.side;
    int32_t at = 0;
    while (at + 1 < axis.side && (float)(width + width * at) <= share)
        at++;
    *t = (struct taps){.n = 1, .at = {at}, .weight = {1}};
}

static void (*const kinds[CS_POSITION_KINDS])(struct axis, int32_t, struct taps *) = {
    [CS_POSITION_BICUBIC] = bicubic,
    [CS_POSITION_AREA] = area,
    [CS_POSITION_CORNERS] = corners,
    [CS_POSITION_BUCKETS] = bucket,
};

/* of a square table */
static int32_t side_of(const struct cs_front *front)
{
    return (int32_t)lround(sqrt((double)front->position_rows));
}

static int32_t taps_of(enum cs_position_kind kind, int32_t side, int32_t size)
{
    const int32_t wide = 2 * (side / (size > 0 ? size : 1) + 2);
    switch (kind) {
    case CS_POSITION_BICUBIC:
        return 4;
    case CS_POSITION_CORNERS:
        return 2;
    case CS_POSITION_AREA:
        return wide < TAPS ? wide : TAPS;
    case CS_POSITION_NONE:
    case CS_POSITION_ROW:
    case CS_POSITION_BUCKETS:
    case CS_POSITION_AXES:
    case CS_POSITION_KINDS:
        break;
    }
    return 1;
}

int64_t cs_front_position_room(const struct cs_arch *encoder, const int32_t grid[3])
{
    const struct cs_front *f = &encoder->front;
    const int64_t rows = cs_front_rows(encoder, grid);
    if (f->position == CS_POSITION_NONE)
        return 0;
    if (f->position == CS_POSITION_AXES)
        return 2 * rows;
    const int32_t side = side_of(f);
    return rows * taps_of(f->position, side, grid[1]) * taps_of(f->position, side, grid[2]);
}

static void put(struct cs_front_weights *out, int32_t *n, int32_t index, float weight)
{
    out->index[*n] = index;
    out->weight[(*n)++] = weight;
}

/* of one patch */
static void positions_of(const struct cs_arch *a, const int32_t grid[3], int32_t number,
                         const struct cs_front_row *row, struct cs_front_weights *out, int32_t *n)
{
    const struct cs_front *f = &a->front;
    const int32_t first = f->has_class;
    if (f->position == CS_POSITION_ROW) {
        put(out, n, first + clamp(number, f->position_rows), 1);
        return;
    }
    if (f->position == CS_POSITION_AXES) {
        put(out, n, clamp(row->x, f->position_rows), 1);
        put(out, n, f->position_rows + clamp(row->y, f->position_rows), 1);
        return;
    }
    struct taps ty, tx;
    const int32_t side = side_of(f);
    kinds[f->position]((struct axis){side, grid[1]}, row->y, &ty);
    kinds[f->position]((struct axis){side, grid[2]}, row->x, &tx);
    for (int32_t i = 0; i < ty.n; i++)
        for (int32_t j = 0; j < tx.n; j++)
            put(out, n, first + ty.at[i] * side + tx.at[j], ty.weight[i] * tx.weight[j]);
}

void cs_front_positions(const struct cs_arch *encoder, const int32_t grid[3],
                        const struct cs_front_row *row, int32_t first_row,
                        struct cs_front_weights *out)
{
    const int32_t rows = cs_front_rows(encoder, grid), first = encoder->front.has_class;
    int32_t n = out->start[first_row];
    for (int32_t i = 0; i < rows; i++) {
        if (i < first)
            put(out, &n, 0, 1);
        else
            positions_of(encoder, grid, (row[i].frame * grid[1] + row[i].y) * grid[2] + row[i].x,
                         &row[i], out, &n);
        out->start[first_row + i + 1] = n;
    }
}
