/* Turns the maps of a layout's items around: from the rows that leave to the rows that are filled. */
#include "input/data/fills.h"

#include "core/data/slot.h"

enum { NOTHING = INT32_MIN };

bool cs_fills_are_plain(const struct cs_media_layout *layout)
{
    int32_t row = 0;

    if (layout->n_learned > 0 || layout->blends != NULL)
        return false;
    for (int32_t i = 0; i < layout->n_items; i++) {
        const struct cs_media_item *item = &layout->items[i];
        for (int32_t r = 0; r < item->shape.rows; r++, row++)
            if ((item->row != NULL ? item->row[r] : item->first_row + r) != row)
                return false;
    }
    return row == layout->n_rows;
}

static enum cs_status wrong(const struct cs_media_layout *layout, int32_t row, const char *what,
                            struct cs_err *err)
{
    return cs_fail(err, CS_CORRUPT, "placeholder row %d of %d %s", row, layout->n_rows, what);
}

static enum cs_status fill_items(const struct cs_media_layout *layout, int32_t *source,
                                 struct cs_err *err)
{
    int32_t from = 0;

    for (int32_t i = 0; i < layout->n_items; i++) {
        const struct cs_media_item *item = &layout->items[i];
        for (int32_t r = 0; r < item->shape.rows; r++, from++) {
            const int32_t to = item->row != NULL ? item->row[r] : item->first_row + r;
            if (to == -1)
                continue;
            if (to < 0 || to >= layout->n_rows)
                return wrong(layout, to, "is filled, there is no such row", err);
            if (source[to] != NOTHING)
                return wrong(layout, to, "is filled twice", err);
            source[to] = from;
        }
    }
    return CS_OK;
}

enum cs_status cs_fills_make(const struct cs_media_layout *layout, int32_t *source,
                             struct cs_err *err)
{
    int32_t row = 0;

    for (int32_t k = 0; k < layout->n_pieces; k++)
        for (int32_t r = 0; r < layout->pieces[k].n_rows; r++, row++)
            source[row] = layout->pieces[k].kind == CS_MEDIA_LEARNED ? CS_SOURCE_LEARNED
                          : layout->blends != NULL                   ? CS_SOURCE_BLENDS
                                                                     : NOTHING;
    if (row != layout->n_rows)
        return wrong(layout, row, "is the end of its pieces", err);
    if (layout->blends == NULL)
        CS_TRY(fill_items(layout, source, err));
    for (row = 0; row < layout->n_rows; row++)
        if (source[row] == NOTHING)
            return wrong(layout, row, "is filled by nothing", err);
    return CS_OK;
}
