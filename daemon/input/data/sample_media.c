/* Lays out the files of a sample, counts their items, and holds them against what a slot takes. */
#include "input/data/sample_media.h"

#include "input/data/fills.h"

/* A file that becomes so many rows, and nothing else. */
static void lay_out_rows(int32_t rows, struct cs_arena *arena, struct cs_sample_media *media)
{
    struct cs_media_layout *l = &media->layout;

    *l = (struct cs_media_layout){.n_items = 1, .n_pieces = 1, .n_rows = rows};
    l->items = CS_NEW(arena, struct cs_media_item);
    l->pieces = CS_NEW(arena, struct cs_media_piece);
    l->items[0].shape = (struct cs_item_shape){
        .grid = {1, 1, rows},
          .rows = rows
    };
    l->pieces[0] = (struct cs_media_piece){.kind = CS_MEDIA_ROWS, .n_rows = rows};
}

static enum cs_status check_fills(const struct cs_sample_rules *s, struct cs_arena *arena,
                                  struct cs_sample_media *m, struct cs_err *err)
{
    const bool has_sources = s->limit != NULL && s->limit->enc[m->encoder].has_sources;

    m->row = CS_NEW_ARRAY(arena, int32_t, m->layout.n_rows + 1);
    m->source = CS_NEW_ARRAY(arena, int32_t, m->layout.n_rows + 1);
    const enum cs_status status = cs_fills_make(&m->layout, m->source, err);
    if (status != CS_OK)
        return cs_wrap(err, status, "%s", m->file->name);
    if (s->limit == NULL || has_sources || cs_fills_are_plain(&m->layout))
        return CS_OK;
    return cs_fail(err, CS_INVALID,
                   "%s: rows of its items are mixed, the plan of the job has them in order",
                   m->file->name);
}

static void count_items(const struct cs_sample_media *m, struct cs_sample *out)
{
    const int32_t e = m->encoder;

    for (int32_t i = 0; i < m->layout.n_items; i++) {
        const struct cs_item_shape *shape = &m->layout.items[i].shape;
        out->n_items[e]++;
        out->n_rows[e] += shape->rows;
        out->n_patches[e] += (int32_t)cs_item_patches(shape);
        out->n_bytes[e] += shape->bytes;
    }
}

static void list_shapes(struct cs_arena *arena, struct cs_sample *out)
{
    int32_t n[CS_MAX_ENCODERS] = {0};

    for (int e = 0; e < CS_MAX_ENCODERS; e++)
        out->shape[e] = CS_NEW_ARRAY(arena, struct cs_item_shape, out->n_items[e] + 1);
    for (int32_t m = 0; m < out->n_media; m++)
        for (int32_t i = 0; i < out->media[m].layout.n_items; i++) {
            const int32_t e = out->media[m].encoder;
            out->shape[e][n[e]++] = out->media[m].layout.items[i].shape;
        }
}

enum cs_status cs_sample_lay_out_media(const struct cs_sample_rules *s,
                                       const struct cs_record *record, const struct cs_rendering *r,
                                       struct cs_sample *out, struct cs_err *err)
{
    int32_t used[CS_MAX_ENCODERS] = {0}, n = 0;

    for (int e = 0; e < s->n_encoders; e++)
        n += record->n_files[e];
    out->media = CS_NEW_ARRAY(record->arena, struct cs_sample_media, n + 1);
    for (size_t i = 0; i < r->n; i++) {
        const int32_t e = r->segments[i].encoder;
        if (e < 0)
            continue;
        struct cs_sample_media *m = &out->media[out->n_media++];
        *m = (struct cs_sample_media){.encoder = e, .file = &record->files[e][used[e]++]};
        if (s->lay_out != NULL)
            CS_TRY(s->lay_out(s->user, record->n_files[e], record->arena, m, err));
        else
            lay_out_rows(s->rows[e], record->arena, m);
        CS_TRY(check_fills(s, record->arena, m, err));
        count_items(m, out);
    }
    list_shapes(record->arena, out);
    return CS_OK;
}

static enum cs_status too_large(const struct cs_sample_rules *s, int e, const char *what, int64_t n,
                                int64_t most, struct cs_sample *out, struct cs_err *err)
{
    out->fault = CS_SAMPLE_TOO_LARGE;
    return cs_fail(err, CS_LIMIT, "%lld %s of %s, a slot takes %lld: see plan.encoder_rows",
                   (long long)n, what, s->token[e], (long long)most);
}

enum cs_status cs_sample_check_items(const struct cs_sample_rules *s, struct cs_sample *out,
                                     struct cs_err *err)
{
    for (int e = 0; s->limit != NULL && e < s->n_encoders; e++) {
        const struct cs_item_budget *b = &s->limit->enc[e];
        if (out->n_items[e] > b->items)
            return too_large(s, e, "items", out->n_items[e], b->items, out, err);
        if (out->n_rows[e] > b->rows)
            return too_large(s, e, "rows", out->n_rows[e], b->rows, out, err);
        if (out->n_patches[e] > b->patches)
            return too_large(s, e, "patches", out->n_patches[e], b->patches, out, err);
        if (out->n_bytes[e] > b->bytes)
            return too_large(s, e, "bytes", out->n_bytes[e], b->bytes, out, err);
    }
    return CS_OK;
}
