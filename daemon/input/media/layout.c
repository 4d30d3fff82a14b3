/* Lays out media: one function of a table for each kind of processor. */
#include "input/media/layout.h"

#include <string.h>

#include "input/media/layout_make.h"

struct cs_media_encoder cs_media_encoder_of(const struct cs_arch *arch)
{
    return (struct cs_media_encoder){
        .family = arch->family,
        .side = arch->image_size,
        .patch = arch->patch_size,
        .merge = arch->front.merge,
        .frames = arch->front.patch_frames,
        .extra_rows = arch->front.has_class && arch->front.keeps_class,
        .channels = arch->channels,
    };
}

static const struct cs_layout_kind *const kinds[] = {
    [CS_PROCESSOR_PLAIN] = &cs_layout_plain,   [CS_PROCESSOR_SMART] = &cs_layout_smart,
    [CS_PROCESSOR_WITHIN] = &cs_layout_within, [CS_PROCESSOR_BUDGET] = &cs_layout_budget,
    [CS_PROCESSOR_POOLED] = &cs_layout_pooled, [CS_PROCESSOR_TILES] = &cs_layout_tiles,
    [CS_PROCESSOR_PAN] = &cs_layout_pan,       [CS_PROCESSOR_ANYRES] = &cs_layout_anyres,
    [CS_PROCESSOR_SPLIT] = &cs_layout_split,
};
_Static_assert(CS_ARRAY_LEN(kinds) == CS_PROCESSOR_KINDS, "a way for each kind");

static enum cs_status check(const struct cs_processor *p, const struct cs_media_encoder *e,
                            struct cs_err *err)
{
    const struct cs_layout_kind *kind = kinds[p->kind];

    CS_ASSERT(e->patch >= 1 && e->merge >= 1);
    if (p->channels != e->channels ||
        (kind->has_one_size && (p->height != e->side || p->width != e->side)))
        return cs_fail(
            err, CS_INVALID,
            "the processor makes pictures of %d x %d x %d, the %s encoder takes "
            "%d x %d x %d: preprocessor_config.json and config.json do not belong together",
            p->height, p->width, p->channels, e->family, e->side, e->side, e->channels);
    return kind->check != NULL ? kind->check(p, e, err) : CS_OK;
}

/* Where the encoder has one size, every item has come out in it. */
static void check_items(struct cs_layout_maker *m)
{
    const struct cs_processor *p = m->processor;

    for (int32_t i = 0; i < m->out.n_items && m->status == CS_OK; i++) {
        const struct cs_extent size = cs_layout_extent(m, m->out.items[i].picture);
        if (size.height != p->height || size.width != p->width)
            cs_layout_fail(
                m, CS_INVALID, "picture of %d x %d pixels, but the encoder takes %d x %d: %s",
                size.width, size.height, p->width, p->height,
                p->do_resize ? "size keeps the aspect or is another, and nothing cuts or "
                               "pads to crop_size or pad_size"
                             : "do_resize is false");
    }
}

enum cs_status cs_media_bounds_of(const struct cs_processor *processor,
                                  const struct cs_media_encoder *encoder,
                                  struct cs_media_bounds *out, struct cs_err *err)
{
    *out = (struct cs_media_bounds){0};
    CS_TRY(check(processor, encoder, err));
    kinds[processor->kind]->bound(processor, encoder, out);
    if (out->rows == 0) {
        const int64_t rows = (int64_t)out->items * out->item_rows;
        out->rows = rows < INT32_MAX ? (int32_t)rows : INT32_MAX;
    }
    if (out->placeholders == 0)
        out->placeholders = out->rows;
    return CS_OK;
}

/* What is not resized may be larger than what a processor makes, for which slots have room. */
static void check_most(struct cs_layout_maker *m)
{
    struct cs_media_bounds most;

    m->status = cs_media_bounds_of(m->processor, m->encoder, &most, m->err);
    bool is_within =
        m->status != CS_OK || (m->out.n_items <= most.items && m->out.n_rows <= most.placeholders);
    for (int32_t i = 0; i < m->out.n_items && m->status == CS_OK; i++)
        is_within = is_within && m->out.items[i].shape.rows <= most.item_rows &&
                    m->out.items[i].shape.bytes <= most.item_bytes;
    if (!is_within)
        cs_layout_fail(
            m, CS_INVALID,
            "picture of %d x %d pixels becomes %lld rows, but do_resize is false and the "
            "processor's size gives %lld at most: make it smaller, or let it be resized",
            m->medium->width, m->medium->height, (long long)m->out.n_rows,
            (long long)most.placeholders);
}

enum cs_status cs_media_layout_make(const struct cs_processor *processor,
                                    const struct cs_media_encoder *encoder,
                                    const struct cs_medium *medium, struct cs_arena *arena,
                                    struct cs_media_layout *out, struct cs_err *err)
{
    struct cs_layout_maker m = {
        .processor = processor, .encoder = encoder, .medium = medium, .arena = arena, .err = err};

    CS_ASSERT(medium->width >= 1 && medium->height >= 1);
    *out = (struct cs_media_layout){0};
    CS_TRY(check(processor, encoder, err));
    kinds[processor->kind]->make(&m);
    if (kinds[processor->kind]->has_one_size)
        check_items(&m);
    if (!processor->do_resize && m.status == CS_OK)
        check_most(&m);
    if (m.status == CS_OK)
        *out = m.out;
    return m.status;
}

bool cs_media_ignores_size(const struct cs_processor *p)
{
    return p->do_resize && p->height > 0 && !p->is_cut && p->kind != CS_PROCESSOR_ANYRES;
}

bool cs_media_mixes_rows(const struct cs_processor *processor)
{
    return processor->kind == CS_PROCESSOR_ANYRES;
}

void cs_media_layout_trim(const struct cs_media_layout *layout, const char *before, size_t n_before,
                          const char *after, size_t n_after, int32_t *first, int32_t *end)
{
    int32_t a = 0, b = layout->n_pieces;

    while (a < b && layout->pieces[a].is_wrap)
        a++;
    while (b > a && layout->pieces[b - 1].is_wrap)
        b--;
    const char *open = a > 0 ? layout->pieces[a - 1].text : NULL;
    const char *close = b < layout->n_pieces ? layout->pieces[b].text : NULL;
    const size_t n_open = open != NULL ? strlen(open) : 0;
    const size_t n_close = close != NULL ? strlen(close) : 0;
    const bool has_open =
        open != NULL && n_open <= n_before && memcmp(before + n_before - n_open, open, n_open) == 0;
    const bool has_close =
        close != NULL && n_close <= n_after && memcmp(after, close, n_close) == 0;
    *first = has_open ? a : 0;
    *end = has_close ? b : layout->n_pieces;
}
