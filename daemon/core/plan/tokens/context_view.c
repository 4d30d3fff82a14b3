/* Cells of a slot, and the loads of every rule. */
#include "core/plan/tokens/context_view.h"

#include <ctype.h>
#include <math.h>
#include <string.h>

enum { KINDS = 1 + 26 }; /* text and encoders */

static bool begins_document(const struct cs_mask_plan *mask, int32_t row)
{
    return row == 0 || mask->doc[row] != mask->doc[row - 1];
}

static char letter(const struct cs_mask_plan *mask, const int8_t *encoder, int32_t first,
                   int32_t end)
{
    int32_t count[KINDS] = {0};
    bool begins = false;
    int most = 0;
    for (int32_t i = first; i < end; i++) {
        count[encoder != NULL ? 1 + encoder[i] : 0]++;
        begins |= begins_document(mask, i);
    }
    for (int k = 1; k < KINDS; k++)
        most = count[k] > count[most] ? k : most;
    const char c = (char)(most == 0 ? 't' : 'a' + most - 1);
    return (char)(begins ? toupper(c) : c);
}

static void make_cells(const struct cs_mask_plan *mask, const int8_t *encoder,
                       const struct cs_context_blocks *blocks, struct cs_context_view *out)
{
    double most = 0;
    out->n_cells = blocks->n < CS_CONTEXT_CELLS ? blocks->n : CS_CONTEXT_CELLS;
    for (int32_t c = 0; c < out->n_cells; c++) {
        const int32_t first = (int32_t)((int64_t)c * blocks->n / out->n_cells);
        const int32_t end = (int32_t)(((int64_t)c + 1) * blocks->n / out->n_cells);
        const int64_t last_row = (int64_t)end * blocks->block;
        for (int32_t b = first; b < end; b++)
            out->work[c] += blocks->work[b];
        out->what[c] = letter(mask, encoder, first * blocks->block,
                              last_row < blocks->n_rows ? (int32_t)last_row : blocks->n_rows);
        most = fmax(most, out->work[c]);
    }
    for (int32_t c = 0; c < out->n_cells; c++)
        out->work[c] = most > 0 ? out->work[c] / most : 0;
}

static enum cs_status add_loads(const struct cs_context_blocks *blocks, struct cs_arena *arena,
                                struct cs_context_view *out, struct cs_err *err)
{
    for (int how = 0; how < CS_BALANCE_HOWS; how++) {
        double *load = out->load[how] = CS_NEW_ARRAY(arena, double, out->ranks);
        int32_t *owner;
        CS_TRY(cs_context_deal(blocks, (enum cs_balance_how)how, out->ranks, arena, &owner, err));
        for (int32_t b = 0; b < blocks->n; b++)
            load[owner[b]] += blocks->work[b];
        for (int32_t r = 0; r < out->ranks; r++)
            load[r] = out->even > 0 ? (load[r] + blocks->even) / out->even : 1;
    }
    return CS_OK;
}

enum cs_status cs_context_view_make(const struct cs_mask_plan *masks, int32_t n_masks,
                                    const struct cs_context_cost *cost, int32_t ranks,
                                    const int8_t *encoder, struct cs_arena *arena,
                                    struct cs_context_view *out, struct cs_err *err)
{
    struct cs_context_blocks blocks;
    *out = (struct cs_context_view){.n_rows = masks[0].n_tokens, .ranks = ranks};
    if (out->n_rows == 0)
        return CS_OK;
    cs_context_weigh(masks, n_masks, cost, ranks, arena, &blocks);
    out->block = blocks.block;
    for (int32_t i = 0; i < out->n_rows; i++)
        out->n_docs += begins_document(&masks[0], i);
    out->even = blocks.even;
    for (int32_t b = 0; b < blocks.n; b++)
        out->even += blocks.work[b] / ranks;
    make_cells(&masks[0], encoder, &blocks, out);
    return add_loads(&blocks, arena, out, err);
}
