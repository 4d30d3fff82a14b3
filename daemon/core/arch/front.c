/* The order of an encoder's rows, and their number. */
#include "core/arch/front.h"

#include "core/arch/arch.h"

/* A grid that does not divide into groups of squares: the rows are taken as one line. Such grids are
 * those of slots that are made up for their size. */
static bool is_line(const struct cs_arch *a, const int32_t grid[3])
{
    return a->front.stem == CS_STEM_FRAMES || grid[1] % a->front.merge != 0 ||
           grid[2] % a->front.merge != 0;
}

int32_t cs_front_values(const struct cs_arch *encoder)
{
    const struct cs_arch *a = encoder;
    return a->front.stem == CS_STEM_FRAMES
               ? a->channels
               : a->channels * a->patch_size * a->patch_size * a->front.patch_frames;
}

int32_t cs_front_group(const struct cs_arch *encoder)
{
    const struct cs_front *f = &encoder->front;
    return f->stem == CS_STEM_FRAMES ? f->merge * f->pool : f->merge * f->merge;
}

int32_t cs_front_patches(const struct cs_arch *encoder, const int32_t grid[3])
{
    const int32_t n = grid[0] * grid[1] * grid[2];
    return encoder->front.stem == CS_STEM_FRAMES ? (n - 1) / 2 + 1 : n;
}

int32_t cs_front_rows(const struct cs_arch *encoder, const int32_t grid[3])
{
    return cs_front_patches(encoder, grid) + encoder->front.has_class;
}

int32_t cs_front_out_rows(const struct cs_arch *encoder, const int32_t grid[3])
{
    const struct cs_front *f = &encoder->front;
    if (grid[0] < 1 || grid[1] < 1 || grid[2] < 1)
        return 0;
    const int32_t n = cs_front_patches(encoder, grid) / f->pool;
    const int32_t group = cs_front_group(encoder) / f->pool;
    return n % group == 0 ? n / group + (f->has_class && f->keeps_class) : 0;
}

int64_t cs_front_inner_most(const struct cs_arch *encoder, int64_t n_patches, int64_t n_items)
{
    return n_patches + (encoder->front.has_class ? n_items : 0);
}

void cs_front_fixed_grid(const struct cs_arch *encoder, int32_t grid[3])
{
    const struct cs_arch *a = encoder;
    const bool is_fixed = a->front.stem == CS_STEM_PATCHES && a->image_size > 0;
    grid[0] = is_fixed;
    grid[1] = grid[2] = is_fixed ? a->image_size / a->patch_size : 0; /* a rest is cut off */
}

/* ---- the order ---- */

struct walk {
    const struct cs_front *front;
    const int32_t *grid;
    struct cs_front_row *row;
    int32_t n, frame, window;
};

/* the patches from (y, x) to (end_y, end_x), group by group */
static void walk_window(struct walk *w, int32_t y, int32_t end_y, int32_t x, int32_t end_x)
{
    const int32_t merge = w->front->merge;
    for (int32_t gy = y; gy < end_y; gy += merge)
        for (int32_t gx = x; gx < end_x; gx += merge)
            for (int32_t i = 0; i < merge * merge; i++)
                w->row[w->n++] =
                    (struct cs_front_row){w->frame, gy + i / merge, gx + i % merge, w->window};
    w->window++;
}

static int32_t least(int32_t a, int32_t b)
{
    return a < b ? a : b;
}

static void walk_frame(struct walk *w)
{
    const int32_t h = w->grid[1], width = w->grid[2], side = w->front->window;
    if (side == 0) {
        walk_window(w, 0, h, 0, width);
        return;
    }
    for (int32_t y = 0; y < h; y += side)
        for (int32_t x = 0; x < width; x += side)
            walk_window(w, y, least(y + side, h), x, least(x + side, width));
}

static void walk_line(struct walk *w, int32_t n)
{
    const int32_t frame = w->grid[1] * w->grid[2];
    for (int32_t i = 0; i < n; i++)
        w->row[w->n++] =
            (struct cs_front_row){i / frame, i % frame / w->grid[2], i % w->grid[2], i / frame};
}

void cs_front_order(const struct cs_arch *encoder, const int32_t grid[3], struct cs_front_row *row)
{
    struct walk w = {.front = &encoder->front, .grid = grid, .row = row};
    if (encoder->front.has_class)
        row[w.n++] = (struct cs_front_row){-1, -1, -1, 0};
    if (is_line(encoder, grid)) {
        walk_line(&w, cs_front_patches(encoder, grid));
        return;
    }
    for (w.frame = 0; w.frame < grid[0]; w.frame++)
        walk_frame(&w);
}

/* The same walk over groups. */
static int32_t place_window(const struct walk *w, int32_t y, int32_t end_y, int32_t x,
                            int32_t end_x, int32_t first, int32_t *place)
{
    const int32_t merge = w->front->merge, h = w->grid[1] / merge, width = w->grid[2] / merge;
    int32_t n = 0;
    for (int32_t gy = y / merge; gy < end_y / merge; gy++)
        for (int32_t gx = x / merge; gx < end_x / merge; gx++)
            place[n++] = first + (w->frame * h + gy) * width + gx;
    return n;
}

static int32_t place_frame(const struct walk *w, int32_t first, int32_t *place)
{
    const int32_t h = w->grid[1], width = w->grid[2];
    const int32_t side = w->front->window > 0 ? w->front->window : h > width ? h : width;
    int32_t n = 0;
    for (int32_t y = 0; y < h; y += side)
        for (int32_t x = 0; x < width; x += side)
            n +=
                place_window(w, y, least(y + side, h), x, least(x + side, width), first, place + n);
    return n;
}

void cs_front_places(const struct cs_arch *encoder, const int32_t grid[3], int32_t *place)
{
    struct walk w = {.front = &encoder->front, .grid = grid};
    const int32_t rows = cs_front_out_rows(encoder, grid);
    const int32_t first = encoder->front.has_class && encoder->front.keeps_class;
    int32_t n = first;
    for (int32_t i = 0; i < rows; i++)
        place[i] = i;
    if (is_line(encoder, grid) || encoder->front.window == 0)
        return;
    for (w.frame = 0; w.frame < grid[0]; w.frame++)
        n += place_frame(&w, first, place + n);
}
