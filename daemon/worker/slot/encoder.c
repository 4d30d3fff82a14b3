/* Prepares what an encoder's layers need of a slot: the order of its rows, which of them see each
 * other, where their pixels and positions are, and the lists that operators walk both ways. */
#include <string.h>

#include "worker/slot/fills.h"
#include "worker/slot/item.h"
#include "worker/slot/row_mix.h"

struct maker {
    struct cs_input *in;
    const struct cs_arch *arch;
    const struct cs_slot_encoder *constant;
    int32_t encoder, n_items;
    const struct cs_item *item;
    struct cs_input_rows *out;
    struct cs_front_row *order; /* (out->n) of all items */
};

static void *take(const struct maker *m, size_t n, size_t size)
{
    return cs_scratch_take(&m->in->memory, n * size);
}

static int32_t *ints(const struct maker *m, int64_t n)
{
    return take(m, (size_t)n, sizeof(int32_t));
}

/* frames of its data */
static int32_t frames_of(const struct maker *m, const struct cs_item *item)
{
    return item->shape.bytes / (m->arch->channels * (int32_t)sizeof(float));
}

static void count(struct maker *m)
{
    int32_t grid[3];
    for (int32_t i = 0; i < m->n_items; i++) {
        cs_input_item_grid(m->arch, &m->item[i], grid);
        m->out->n += cs_front_rows(m->arch, grid);
        m->out->n_patches += cs_front_patches(m->arch, grid);
        if (m->arch->front.stem == CS_STEM_FRAMES)
            m->out->n_frames += frames_of(m, &m->item[i]);
    }
}

static void make_order(struct maker *m)
{
    int32_t grid[3], at = 0;
    m->order = take(m, (size_t)m->out->n, sizeof *m->order);
    for (int32_t i = 0; i < m->n_items; i++) {
        cs_input_item_grid(m->arch, &m->item[i], grid);
        cs_front_order(m->arch, grid, m->order + at);
        at += cs_front_rows(m->arch, grid);
    }
}

/* What of a row decides which document it is in; class rows are in their item's first. */
static int32_t inside_of(const struct cs_front_row *row, enum cs_inside inside)
{
    const int32_t frame = row->frame > 0 ? row->frame : 0;
    return inside == CS_INSIDE_ITEM ? 0 : inside == CS_INSIDE_FRAME ? frame : row->window;
}

static void make_documents(struct maker *m, enum cs_inside inside)
{
    struct cs_input_rows *out = m->out;
    int32_t *doc = ints(m, out->n), *segment = ints(m, out->n + 1), grid[3];
    int32_t row = 0, n = 0;
    for (int32_t i = 0; i < m->n_items; i++) {
        cs_input_item_grid(m->arch, &m->item[i], grid);
        const int32_t end = row + cs_front_rows(m->arch, grid);
        for (const int32_t first = row; row < end; row++) {
            if (row == first ||
                inside_of(&m->order[row], inside) != inside_of(&m->order[row - 1], inside))
                segment[n++] = row;
            doc[row] = n - 1;
        }
    }
    segment[n] = out->n;
    out->doc[inside] = doc;
    out->segment[inside] = segment;
    out->n_segments[inside] = n;
}

static void make_coordinates(struct maker *m)
{
    int32_t *at[3], grid[3], row = 0;
    for (int a = 0; a < 3; a++)
        m->out->pos[a] = at[a] = ints(m, m->out->n);
    for (int32_t i = 0; i < m->n_items; i++) {
        cs_input_item_grid(m->arch, &m->item[i], grid);
        const int32_t n = cs_front_rows(m->arch, grid);
        for (int32_t k = 0; k < n; k++, row++) {
            at[0][row] = k;
            at[1][row] = m->order[row].y > 0 ? m->order[row].y : 0;
            at[2][row] = m->order[row].x > 0 ? m->order[row].x : 0;
        }
    }
}

/* The rows that are no class rows, and those that are. */
static void make_class_rows(struct maker *m)
{
    if (!m->arch->front.has_class)
        return;
    int32_t *patch = ints(m, m->out->n_patches), *class = ints(m, m->n_items);
    int32_t *none = ints(m, m->n_items), *start = ints(m, 2), n_patches = 0, n_class = 0;
    float *one = take(m, (size_t)m->n_items, sizeof *one);
    for (int32_t row = 0; row < m->out->n; row++)
        if (m->order[row].frame < 0)
            class[n_class++] = row;
        else
            patch[n_patches++] = row;
    for (int32_t i = 0; i < m->n_items; i++) {
        none[i] = 0;
        one[i] = 1;
    }
    start[0] = 0;
    start[1] = m->n_items;
    m->out->patch_row = patch;
    m->out->class_row = class;
    m->out->no_row = none;
    m->out->class_back = (struct cs_row_mix){1, m->n_items, start, class, one};
}

/* Bytes of one picture of an item; from its lines to the next, from frame to frame (0: one for all). */
static int64_t picture(const struct cs_arch *a, const struct cs_item *item, const int32_t grid[3],
                       int32_t *line, int32_t *frame)
{
    int32_t height, width;
    cs_input_picture_size(a, grid, &height, &width);
    *line = width * a->channels;
    const int64_t bytes = (int64_t)height * *line;
    const bool has_all = item->shape.bytes == cs_input_item_bytes(a, grid);
    *frame = a->front.patch_frames > 1 && has_all ? (int32_t)bytes : 0;
    return bytes;
}

static void make_places(struct maker *m)
{
    struct cs_patch_place *place = take(m, (size_t)m->out->n_patches, sizeof *place);
    const int32_t patch = m->arch->patch_size, frames = m->arch->front.patch_frames;
    int32_t grid[3], row = 0, n = 0;
    for (int32_t i = 0; i < m->n_items; i++) {
        int32_t line, frame;
        cs_input_item_grid(m->arch, &m->item[i], grid);
        const int64_t bytes = picture(m->arch, &m->item[i], grid, &line, &frame);
        for (int32_t end = row + cs_front_rows(m->arch, grid); row < end; row++) {
            const struct cs_front_row *r = &m->order[row];
            if (r->frame < 0)
                continue;
            const int64_t pictures = (int64_t)r->frame * (frame > 0 ? frames : 1);
            const int64_t begin =
                ((int64_t)r->y * line + (int64_t)r->x * m->arch->channels) * patch;
            place[n++] =
                (struct cs_patch_place){m->item[i].offset + pictures * bytes + begin, line, frame};
        }
    }
    m->out->place = place;
}

static void make_positions(struct maker *m)
{
    const struct cs_front *front = &m->arch->front;
    int32_t grid[3], row = 0;
    int64_t room = 0;
    if (front->position == CS_POSITION_NONE)
        return;
    for (int32_t i = 0; i < m->n_items; i++) {
        cs_input_item_grid(m->arch, &m->item[i], grid);
        room += cs_front_position_room(m->arch, grid);
    }
    struct cs_front_weights w = {.start = ints(m, m->out->n + 1),
                                 .index = ints(m, room),
                                 .weight = take(m, (size_t)room, sizeof *w.weight)};
    w.start[0] = 0;
    for (int32_t i = 0; i < m->n_items; i++) {
        cs_input_item_grid(m->arch, &m->item[i], grid);
        cs_front_positions(m->arch, grid, m->order + row, row, &w);
        row += cs_front_rows(m->arch, grid);
    }
    const int32_t tables = front->position == CS_POSITION_AXES ? 2 : 1;
    m->out->position =
        (struct cs_row_mix){m->out->n, w.start[m->out->n], w.start, w.index, w.weight};
    m->out->position_back = cs_row_mix_back(&m->in->memory, &m->out->position,
                                            tables * front->position_rows + front->has_class);
}

/* Means of patches that lie side by side; what is left of an item is left away. */
static void make_means(struct maker *m)
{
    const int32_t group = cs_front_group(m->arch), n_rows = m->in->n_rows[m->encoder];
    if (m->constant->mean_scale <= 0)
        return;
    int32_t *start = ints(m, n_rows + 1), *index = ints(m, (int64_t)n_rows * group), grid[3];
    float *weight = take(m, (size_t)n_rows * (size_t)group, sizeof *weight);
    int32_t n = 0, row = 0, first = 0;
    for (int32_t i = 0; i < m->n_items; i++) {
        cs_input_item_grid(m->arch, &m->item[i], grid);
        const int32_t rows = cs_front_out_rows(m->arch, grid);
        for (int32_t r = 0; r < rows && row < n_rows; r++) {
            start[row++] = n;
            for (int32_t k = 0; k < group; k++, n++) {
                index[n] = first + r * group + k;
                weight[n] = m->constant->mean_scale / (float)group;
            }
        }
        first += cs_front_patches(m->arch, grid);
    }
    start[row] = n;
    m->out->mean = (struct cs_row_mix){row, n, start, index, weight};
    m->out->mean_back = cs_row_mix_back(&m->in->memory, &m->out->mean, m->out->n_patches);
}

/* Rows behind the first convolution that the second reads: two for each of its own, as far as there
 * are frames. */
static int32_t conv_rows(const struct maker *m, int32_t i)
{
    int32_t grid[3];
    cs_input_item_grid(m->arch, &m->item[i], grid);
    const int32_t rows = 2 * cs_front_patches(m->arch, grid), frames = frames_of(m, &m->item[i]);
    return rows < frames ? rows : frames;
}

/* which of the three rows of an item around `middle` there are, counted from first */
static void put_near(int32_t *near, int32_t first, int32_t middle, int32_t n)
{
    for (int32_t k = 0; k < 3; k++) {
        const int32_t at = middle - 1 + k;
        near[k] = at >= 0 && at < n ? first + at : -1;
    }
}

static void make_near(struct maker *m)
{
    struct cs_input_rows *out = m->out;
    int32_t grid[3], frame = 0, conv = 0, row = 0;
    if (m->arch->front.stem != CS_STEM_FRAMES)
        return;
    for (int32_t i = 0; i < m->n_items; i++)
        out->n_conv += conv_rows(m, i);
    int32_t *near_frames = ints(m, 3 * (int64_t)out->n_conv),
            *near_conv = ints(m, 3 * (int64_t)out->n);
    for (int32_t i = 0; i < m->n_items; i++) {
        const int32_t n_conv = conv_rows(m, i), n_frames = frames_of(m, &m->item[i]);
        cs_input_item_grid(m->arch, &m->item[i], grid);
        const int32_t rows = cs_front_rows(m->arch, grid);
        for (int32_t k = 0; k < n_conv; k++)
            put_near(near_frames + 3 * (int64_t)(conv + k), frame, k, n_frames);
        for (int32_t k = 0; k < rows; k++)
            put_near(near_conv + 3 * (int64_t)(row + k), conv, 2 * k, n_conv);
        frame += n_frames;
        conv += n_conv;
        row += rows;
    }
    out->near_frames = near_frames;
    out->near_conv = near_conv;
}

/* For each row behind the first convolution the places of near_conv that name it. */
static void make_near_back(struct maker *m)
{
    struct cs_input_rows *out = m->out;
    if (out->near_conv == NULL)
        return;
    int32_t *start = ints(m, out->n_conv + 2), *entry = ints(m, 3 * (int64_t)out->n);
    memset(start, 0, ((size_t)out->n_conv + 2) * sizeof *start);
    for (int32_t e = 0; e < 3 * out->n; e++)
        if (out->near_conv[e] >= 0)
            start[out->near_conv[e] + 2]++;
    for (int32_t i = 0; i < out->n_conv; i++)
        start[i + 2] += start[i + 1];
    for (int32_t e = 0; e < 3 * out->n; e++)
        if (out->near_conv[e] >= 0)
            entry[start[out->near_conv[e] + 1]++] = e;
    out->near_start = start;
    out->near_entry = entry;
    out->n_near = start[out->n_conv];
}

static void set_masks(struct cs_input *in, int32_t e)
{
    const struct cs_input_rows *rows = &in->rows[e];
    for (int32_t m = 0; m < in->tables->n_masks; m++) {
        const struct cs_slot_mask *mask = &in->tables->mask[m];
        if (mask->encoder != e)
            continue;
        in->mask[m] = (struct cs_mask_plan){
            .n_tokens = rows->n,
            .doc = rows->doc[mask->inside],
            .pos = rows->pos[0],
            .n_segments = rows->n_segments[mask->inside],
            .segment = rows->segment[mask->inside],
            .rule = mask->rule,
        };
    }
}

void cs_input_prepare_encoder(struct cs_input *in, int32_t e)
{
    struct maker m = {.in = in,
                      .arch = &cs_graph_encoder(in->tables->graph, e)->arch,
                      .constant = &in->tables->enc[e],
                      .encoder = e,
                      .n_items = in->n_items[e],
                      .item = in->slot.items[e],
                      .out = &in->rows[e]};
    *m.out = (struct cs_input_rows){.n = 0};
    count(&m);
    make_order(&m);
    for (int inside = 0; inside < CS_INSIDES; inside++)
        make_documents(&m, (enum cs_inside)inside);
    make_coordinates(&m);
    make_class_rows(&m);
    if (m.arch->front.stem == CS_STEM_PATCHES)
        make_places(&m);
    make_positions(&m);
    make_means(&m);
    make_near(&m);
    make_near_back(&m);
    cs_input_prepare_fills(in, e);
    in->n_leaving[e] = in->n_fills[e];
    set_masks(in, e);
}
