/* Places a prepared slot where the device reads it. On the host that is where it is. A GPU gets one
 * block (block.h): everything is copied into page-locked memory and sent in one piece. The block is
 * walked when memory may be taken, to know its size, and again to fill it, when a device at work
 * must not be waited for. */
#include "worker/slot/place/place.h"

#include <math.h>
#include <string.h>

#include "store/safetensors.h"
#include "worker/slot/place/masks.h"
#include "worker/slot/place/pad.h"
#include "worker/slot/row_heads.h"
#include "worker/slot/row_keys.h"
#include "worker/slot/split.h"
#include "worker/slot/stretch.h"

enum { MAX_HALF = 512 }; /* of a head */

/* n of the host's rows, zeros up to `rows`, room for `most` */
static const void *put_rows(struct cs_slot_block *b, const void *host, size_t row_bytes, int32_t n,
                            int32_t rows, int32_t most)
{
    if (b->is_host || host == NULL)
        return host;
    const size_t bytes = (size_t)n * row_bytes;
    const size_t at = b->used;
    const void *placed = cs_slot_block_put_room(b, host, bytes, (size_t)most * row_bytes);
    if (b->staging != NULL)
        cs_slot_block_zero_behind(b, at, row_bytes, n, rows);
    return placed;
}

/* The rows of a branch: n of the host's with their coordinates, `rows` on the device, room for `most`
 * there. */
struct branch_rows {
    int32_t encoder; /* -1: the LLM */
    const int32_t
        *pos[3];        /* over time, height and width; all the same where there is one position */
    const int32_t *doc; /* (n) documents, whose rows lie together; NULL: all are of one */
    int32_t n, rows, most;
    const int32_t *own; /* (n_own) of the n, ascending, those that are here; NULL: all */
    int32_t n_own;
};

/* a plane of a row of a table, or of up to three: every element from that of its own position */
static void gather_row(const struct branch_rows *rows, const struct cs_slot_rope *r, int32_t plane,
                       const float *table, int32_t i, float *out)
{
    const size_t half = (size_t)r->half, wide = half / (size_t)r->planes;
    const size_t first = (size_t)plane * wide;
    if (r->axis == NULL) {
        memcpy(out, table + (size_t)rows->pos[0][i] * half, half * sizeof *out);
        return;
    }
    for (size_t e = first; e < first + wide; e++)
        *out++ = table[(size_t)rows->pos[r->axis[e]][i] * half + e];
}

/* A row of a document whose frequencies no table has, which has one position. */
static void grow_row(const struct branch_rows *rows, const struct cs_slot_rope *r,
                     const float *inv_freq, int32_t i, bool is_sine, float *out)
{
    const int32_t pos = rows->pos[0][i];
    const double scale = r->is_query ? cs_rope_query_scale(r->rope, pos) : 1;
    for (int32_t e = 0; e < r->half; e++) {
        const float angle = (float)pos * inv_freq[e];
        out[e] = (float)((is_sine ? sin((double)angle) : cos((double)angle)) * scale);
    }
}

/* Documents beyond the original length turn by other frequencies, as each by itself would. */
static void gather(const struct branch_rows *rows, const struct cs_slot_rope *r, int32_t plane,
                   const float *table, const float *long_table, float *out)
{
    const size_t wide = (size_t)(r->half / r->planes);
    float inv_freq[MAX_HALF] = {0};
    int32_t k = 0;
    for (int32_t begin = 0, end; begin < rows->n; begin = end) {
        for (end = begin + 1; end < rows->n; end++)
            if (rows->doc != NULL && rows->doc[end] != rows->doc[begin])
                break;
        const bool is_longer = end - begin > r->rope->original_positions;
        const float *const from = long_table != NULL && is_longer ? long_table : table;
        if (r->is_grown && is_longer)
            CS_ASSERT(r->half <= MAX_HALF && cs_rope_inv_freq_long(r->rope, end - begin, inv_freq));
        for (; k < rows->n_own && (rows->own != NULL ? rows->own[k] : k) < end; k++) {
            const int32_t i = rows->own != NULL ? rows->own[k] : k;
            if (r->is_grown && is_longer)
                grow_row(rows, r, inv_freq, i, table == r->sin, out + (size_t)k * wide);
            else
                gather_row(rows, r, plane, from, i, out + (size_t)k * wide);
        }
    }
}

/* Rows of a rope table at the positions of the slot; straight into the block, for these are the
 * largest arrays beside the pixels. Planes lie one behind the other, each of all rows. */
static const float *put_rope(struct cs_input *in, struct cs_slot_block *b,
                             const struct branch_rows *rows, const struct cs_slot_rope *r,
                             const float *table, const float *long_table)
{
    const size_t row = (size_t)(r->half / r->planes) * sizeof *table;
    const size_t all = row * (size_t)r->planes;
    const size_t at = b->is_host ? 0 : cs_slot_block_take(b, (size_t)rows->most * all);
    if (!b->is_host && b->staging == NULL)
        return NULL;
    char *out =
        b->is_host ? cs_scratch_take(&in->memory, (size_t)rows->n_own * all) : b->staging + at;
    for (int32_t p = 0; p < r->planes; p++) {
        const size_t begin = (size_t)p * (size_t)rows->rows * row;
        gather(rows, r, p, table, long_table, (float *)(void *)(out + begin));
        if (!b->is_host)
            cs_slot_block_zero_behind(b, at + begin, row, rows->n_own, rows->rows);
    }
    return (const float *)(const void *)(b->is_host ? out : b->placed + at);
}

static void put_ropes(struct cs_input *in, struct cs_slot_block *b, const struct branch_rows *rows)
{
    const struct cs_input_tables *t = in->tables;
    for (int32_t i = 0; i < t->n_ropes; i++) {
        const struct cs_slot_rope *r = &t->rope[i];
        if (r->encoder != rows->encoder)
            continue;
        in->at.cos[i] = put_rope(in, b, rows, r, r->cos, r->long_cos);
        in->at.sin[i] = put_rope(in, b, rows, r, r->sin, r->long_sin);
    }
}

/* where the device writes a result of which the host keeps a copy; starts as 0 */
static void *put_result(struct cs_slot_block *b, void *host, size_t bytes)
{
    if (host != NULL)
        memset(host, 0, bytes);
    if (b->is_host || host == NULL)
        return host;
    const size_t at = cs_slot_block_take(b, bytes);
    if (b->staging == NULL)
        return NULL;
    memset(b->staging + at, 0, bytes);
    return b->placed + at;
}

/* fp32 values as acts */
static const void *put_acts(struct cs_slot_block *b, const float *host, int64_t n)
{
    if (host == NULL || b->is_host || cs_device_is_f32(b->device))
        return cs_slot_block_put(b, host, (size_t)n * sizeof(float));
    const size_t at = cs_slot_block_take(b, (size_t)n * sizeof(uint16_t));
    if (b->staging == NULL)
        return NULL;
    uint16_t *out = (uint16_t *)(void *)(b->staging + at);
    for (int64_t i = 0; i < n; i++)
        out[i] = cs_bf16_from_f32(host[i]);
    return b->placed + at;
}

/* most: rows that there is room for */
static struct cs_mask_plan put_mask(struct cs_slot_block *b, const struct cs_mask_plan *mask,
                                    int32_t most)
{
    struct cs_mask_plan out = *mask;
    const int32_t n = mask->n_tokens;
    out.doc = put_rows(b, mask->doc, sizeof *mask->doc, n, n, most);
    out.pos = put_rows(b, mask->pos, sizeof *mask->pos, n, n, most);
    out.item = put_rows(b, mask->item, sizeof *mask->item, n, n, most);
    out.word = put_rows(b, mask->word, sizeof *mask->word, n, n, most);
    out.segment = put_rows(b, mask->segment, sizeof *mask->segment, mask->n_segments + 1,
                           mask->n_segments + 1, most + 1);
    return out;
}

/* Attention of this device works from lists, and this rank has layers that attend by mask m. */
static bool has_lists(const struct cs_input *in, int32_t m)
{
    const struct cs_device *device = in->tables->device;
    const unsigned need = in->tables->mask[m].encoder < 0 ? CS_INPUT_TOKENS : CS_INPUT_ROWS;
    return device != NULL && device->ops->mask_build != NULL && (in->needs & need) != 0;
}

/* ... and by another over keys that come */
static bool has_far_lists(const struct cs_input *in, int32_t m)
{
    return in->tables->context.own_first && in->tables->mask[m].encoder < 0 && in->split != NULL &&
           in->split->place >= 0 && has_lists(in, m);
}

static void put_lists(struct cs_input *in, struct cs_slot_block *b, int32_t m)
{
    const bool is_of_encoder = in->tables->mask[m].encoder >= 0;
    if (has_lists(in, m))
        cs_input_masks_put(&in->lists[m], &in->mask[m], is_of_encoder, b);
    if (!has_far_lists(in, m))
        return;
    const struct cs_row_keys *k = &in->split->need[m].keys;
    if (k->n > k->own)
        cs_input_masks_put(&in->far[m], &k->far, false, b);
    else
        in->far[m].cells.n_q = 0; /* nothing comes in this slot */
}

/* The arrays of a branch's masks once for each set of documents, then each mask's tiles. */
static void put_masks(struct cs_input *in, struct cs_slot_block *b, const struct branch_rows *rows)
{
    const struct cs_input_tables *t = in->tables;
    const struct cs_mask_plan *placed[CS_INSIDES] = {NULL};
    for (int32_t m = 0; m < t->n_masks; m++) {
        if (t->mask[m].encoder != rows->encoder)
            continue;
        const struct cs_mask_plan **same = &placed[t->mask[m].inside];
        in->at.mask[m] = *same != NULL ? **same : put_mask(b, &in->mask[m], rows->most);
        in->at.mask[m].rule = in->mask[m].rule;
        *same = &in->at.mask[m];
        if (in->mask[m].keys != NULL)
            cs_row_keys_put(in, m, b);
        put_lists(in, b, m);
    }
}

static enum cs_status reserve_lists(struct cs_input *in, struct cs_err *err)
{
    struct cs_device *device = in->tables->device;
    for (int32_t m = 0; m < in->tables->n_masks; m++)
        if (has_lists(in, m)) {
            CS_TRY(cs_input_masks_make_room(&in->lists[m], device, err));
            CS_TRY(cs_input_masks_make_room(&in->far[m], device, err));
        }
    return CS_OK;
}

static void build_lists(struct cs_input *in)
{
    struct cs_device *device = in->tables->device;
    for (int32_t m = 0; m < in->tables->n_masks; m++) {
        if (has_lists(in, m))
            cs_input_masks_build(&in->lists[m], &in->at.mask[m], device);
        if (has_far_lists(in, m))
            cs_input_masks_build(&in->far[m], &in->split->need[m].at.far, device);
    }
}

enum cs_status cs_input_check(const struct cs_input *input, struct cs_err *err)
{
    for (int32_t m = 0; m < input->tables->n_masks; m++) {
        CS_TRY(cs_input_masks_check(&input->lists[m], err));
        CS_TRY(cs_input_masks_check(&input->far[m], err));
    }
    return CS_OK;
}

static const int32_t *put_ints(struct cs_slot_block *b, const int32_t *host, int64_t n)
{
    return cs_slot_block_put(b, host, (size_t)n * sizeof *host);
}

static struct cs_row_mix put_mix(struct cs_slot_block *b, const struct cs_row_mix *mix)
{
    return (struct cs_row_mix){mix->rows, mix->n, put_ints(b, mix->start, mix->rows + 1),
                               put_ints(b, mix->index, mix->n),
                               cs_slot_block_put(b, mix->weight, (size_t)mix->n * sizeof(float))};
}

/* What the layers behind the first one walk by. */
static void put_rows_of(struct cs_input *in, struct cs_slot_block *b, int32_t e)
{
    const struct cs_input_rows *host = &in->rows[e];
    struct cs_input_rows *at = &in->at.rows[e];
    *at = *host;
    at->patch_row = put_ints(b, host->patch_row, host->n_patches);
    at->mean = put_mix(b, &host->mean);
    at->mean_back = put_mix(b, &host->mean_back);
    at->fill = put_mix(b, &host->fill);
    at->fill_back = put_mix(b, &host->fill_back);
    at->learned = put_mix(b, &host->learned);
    at->learned_back = put_mix(b, &host->learned_back);
}

/* What the first layer reads. */
static void put_front(struct cs_input *in, struct cs_slot_block *b, int32_t e)
{
    const struct cs_input_rows *host = &in->rows[e];
    struct cs_input_rows *at = &in->at.rows[e];
    at->class_row = put_ints(b, host->class_row, in->n_items[e]);
    at->no_row = put_ints(b, host->no_row, in->n_items[e]);
    at->class_back = put_mix(b, &host->class_back);
    at->place = cs_slot_block_put(b, host->place, (size_t)host->n_patches * sizeof *host->place);
    at->near_frames = put_ints(b, host->near_frames, 3 * (int64_t)host->n_conv);
    at->near_conv = put_ints(b, host->near_conv, 3 * (int64_t)host->n);
    at->near_start = put_ints(b, host->near_start, host->n_conv + 1);
    at->near_entry = put_ints(b, host->near_entry, host->n_near);
    at->position = put_mix(b, &host->position);
    at->position_back = put_mix(b, &host->position_back);
}

/* Frames of sound are values, pixels are bytes that become values on the device. */
static void put_data(struct cs_input *in, struct cs_slot_block *b, int32_t e)
{
    const struct cs_arch *arch = &cs_graph_encoder(in->tables->graph, e)->arch;
    const bool is_sound = arch->front.stem == CS_STEM_FRAMES;
    const float *values = in->patches[e];
    if (values != NULL)
        values += in->values_before[e] * cs_front_values(arch);
    if (is_sound && values == NULL)
        values = (const float *)(const void *)in->slot.data[e];
    const int64_t rows = is_sound ? in->rows[e].n_frames : in->rows[e].n_patches;
    in->at.patches[e] = put_acts(b, values, rows * cs_front_values(arch));
    in->at.pixels[e] =
        values != NULL ? NULL : cs_slot_block_put(b, in->slot.data[e], (size_t)in->n_bytes[e]);
}

static void place_encoder(struct cs_input *in, struct cs_slot_block *b, int32_t e)
{
    const struct cs_input_tables *t = in->tables;
    const struct cs_input_rows *host = &in->rows[e];
    const struct branch_rows rows = {
        e,      {host->pos[0], host->pos[1], host->pos[2]},
              NULL, host->n, host->n, host->n, NULL,
        host->n
    };
    put_ropes(in, b, &rows);
    put_masks(in, b, &rows);
    put_rows_of(in, b, e);
    if ((in->needs & CS_INPUT_PIXELS) == 0) /* a later stage's rank reads none */
        return;
    put_front(in, b, e);
    in->at.mean[e] = cs_slot_block_put(b, t->enc[e].mean, sizeof t->enc[e].mean);
    in->at.std[e] = cs_slot_block_put(b, t->enc[e].std, sizeof t->enc[e].std);
    put_data(in, b, e);
}

static void place_llm(struct cs_input *in, struct cs_slot_block *b)
{
    const struct cs_input_tables *t = in->tables;
    const int32_t n = in->llm_rows, most = t->budget->seq_tokens;
    const int32_t *pos = in->slot.pos, *axes = in->axes;
    const int32_t stride = in->n_tokens;
    const struct branch_rows rows = {
        -1,
        {axes != NULL ? axes : pos, axes != NULL ? axes + stride : pos,
           axes != NULL ? axes + 2 * stride : pos},
        in->slot.doc,
        in->n_tokens,
        n,
        most,
        in->split != NULL ? in->split->row : NULL,
        cs_split_rows(in)
    };
    in->at.embed_ids = put_rows(b, in->embed_ids, sizeof *in->embed_ids, n, n, most);
    if (in->needs & CS_INPUT_LABELS)
        in->at.picked =
            put_rows(b, in->picked, sizeof *in->picked, in->n_picked, in->n_picked, most);
    put_ropes(in, b, &rows);
    if (in->split != NULL) {
        cs_stretch_put(in, b);
        cs_row_heads_put(in, b);
    }
    put_masks(in, b, &rows);
}

static size_t load_bytes(const struct cs_input *in)
{
    const struct cs_experts *e = &cs_graph_llm(in->tables->graph)->arch.experts;
    return (size_t)cs_experts_loads(e) * sizeof(int64_t);
}

/* First what lies at the same place in every slot, last what differs most. */
static void place_all(struct cs_input *in, struct cs_slot_block *b)
{
    const int32_t n_encoders = in->tables->budget->n_encoders;
    const size_t labels = (size_t)in->n_labels;
    static const float minus_one = -1;
    in->at.minus_one = put_acts(b, &minus_one, 1);
    in->at.load = put_result(b, in->load, load_bytes(in));
    if (in->needs & CS_INPUT_TOKENS)
        place_llm(in, b);
    for (int32_t e = 0; e < n_encoders; e++)
        place_encoder(in, b, e);
    for (int32_t e = 0; e < n_encoders; e++)
        in->at.fill[e] =
            cs_slot_block_put(b, in->fill[e], (size_t)in->n_fills[e] * sizeof(int32_t));
    in->at.label_rows = cs_slot_block_put(b, in->label_rows, labels * sizeof(int32_t));
    in->at.label_ids = cs_slot_block_put(b, in->label_ids, labels * sizeof(int32_t));
    in->at.loss = put_result(b, &in->loss, sizeof in->loss);
    in->at.row_loss = put_result(b, in->row_loss, labels * sizeof *in->row_loss);
    in->at.correct = put_result(b, in->correct, labels);
}

static void drop_block(struct cs_input *in)
{
    struct cs_device *device = in->tables->device;
    cs_device_free_host(device, in->staging);
    cs_device_free(device, in->placed, in->room);
    in->staging = in->placed = NULL;
    in->room = 0;
}

enum cs_status cs_input_reserve_block(struct cs_input *in, size_t bytes, struct cs_err *err)
{
    struct cs_device *device = in->tables->device;
    void *host = NULL, *placed = NULL;
    if (bytes <= in->room)
        return CS_OK;
    drop_block(in);
    CS_TRY(cs_device_alloc_host(device, bytes, &host, err));
    in->staging = host;
    CS_TRY(cs_device_alloc(device, bytes, &placed, err));
    in->placed = placed;
    in->room = bytes;
    return CS_OK;
}

static struct cs_slot_block walk_of(const struct cs_input *in)
{
    struct cs_device *device = in->tables->device;
    return (struct cs_slot_block){.device = device,
                                  .is_host = device == NULL || device->mem == NULL};
}

size_t cs_input_measure(struct cs_input *in)
{
    struct cs_slot_block b = walk_of(in);
    in->llm_rows = cs_split_rows(in);
    cs_input_pick(in, false);
    place_all(in, &b);
    for (int32_t m = 0; m < in->tables->n_masks; m++) {
        in->at.mask[m] = in->mask[m];
        in->at.mask[m].cells = has_lists(in, m) ? &in->lists[m].cells : NULL;
        if (has_far_lists(in, m)) {
            in->split->need[m].at.far = in->split->need[m].keys.far;
            in->split->need[m].at.far.cells = &in->far[m].cells;
        }
    }
    if (in->split != NULL) {
        in->split->stretch.at = in->split->stretch.host;
        in->split->heads.at = in->split->heads.host;
    }
    return b.used;
}

enum cs_status cs_input_make_room(struct cs_input *input, struct cs_err *err)
{
    struct cs_slot_block b = walk_of(input);
    const bool is_padded = !b.is_host && (input->needs & CS_INPUT_TOKENS) != 0;
    input->llm_rows = is_padded ? cs_input_bucket(input) : cs_split_rows(input);
    if (is_padded)
        cs_input_pad(input);
    cs_input_pick(input, is_padded);
    cs_row_keys_make(input);
    cs_row_heads_make(input);
    if (b.is_host)
        return CS_OK;
    place_all(input, &b);
    input->bytes = b.used;
    /* slots differ in size: room for the largest comes with the first ones */
    CS_TRY(cs_input_reserve_block(input, b.used > input->room ? b.used + b.used / 4 : b.used, err));
    return reserve_lists(input, err);
}

void cs_input_place(struct cs_input *input)
{
    struct cs_slot_block b = walk_of(input);
    input->is_placed = true;
    b.staging = input->staging;
    b.placed = input->placed;
    place_all(input, &b);
    if (b.is_host)
        return;
    CS_ASSERT(b.used == input->bytes);
    cs_device_copy(b.device, input->placed, input->staging, input->bytes);
    build_lists(input);
}

enum cs_status cs_input_fetch(struct cs_input *input, struct cs_err *err)
{
    struct cs_device *device = input->tables->device;
    if (device == NULL || device->mem == NULL || input->at.loss == NULL)
        return CS_OK;
    if (input->row_loss != NULL && input->n_labels > 0)
        cs_device_copy(device, input->row_loss, input->at.row_loss,
                       (size_t)input->n_labels * sizeof *input->row_loss);
    if (input->correct != NULL && input->n_labels > 0)
        cs_device_copy(device, input->correct, input->at.correct, (size_t)input->n_labels);
    if (input->load != NULL)
        cs_device_copy(device, input->load, input->at.load, load_bytes(input));
    return cs_device_read(device, &input->loss, input->at.loss, sizeof input->loss, err);
}

void cs_input_free(struct cs_input *input)
{
    if (input->tables != NULL) {
        drop_block(input);
        for (int32_t m = 0; m < CS_SLOT_MASKS; m++) {
            cs_input_masks_free(&input->lists[m], input->tables->device);
            cs_input_masks_free(&input->far[m], input->tables->device);
        }
    }
    cs_scratch_free(&input->memory);
}
