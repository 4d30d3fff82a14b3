/* What a tower of the golden is given: pictures as patches in the order of the encoder's rows. */
#include <stdlib.h>
#include <string.h>

#include "worker/selftest/parts.h"

/* One picture (channels, height, width) to rows of patches in reading order, columns as a convolution's
 * weight has them. */
static void cut_patches(const float *x, const struct cs_arch *a, int64_t height, int64_t width,
                        float *out)
{
    const int64_t p = a->patch_size, across = width / p, n = height / p * across;
    for (int64_t patch = 0; patch < n; patch++)
        for (int64_t c = 0; c < a->channels; c++)
            for (int64_t r = 0; r < p; r++) {
                const int64_t row = patch / across * p + r, column = patch % across * p;
                memcpy(out, x + (c * height + row) * width + column, (size_t)p * sizeof *out);
                out += p;
            }
}

/* in.x (..., channels, height, width): every picture is an item of its own */
static enum cs_status add_pictures(struct cs_golden *g, const struct cs_module *encoder,
                                   const struct cs_st_tensor *x, struct cs_err *err)
{
    const struct cs_arch *a = &encoder->arch;
    const int64_t height = x->dim[x->n_dims - 2], width = x->dim[x->n_dims - 1];
    const int64_t size = a->channels * height * width, n = x->count / size;
    const struct cs_item_shape shape = cs_slot_largest_item(&g->plan->budget, 0);
    float *values;
    CS_TRY(cs_golden_floats(g, "in.x", &values, NULL, err));
    g->patches[0] = malloc((size_t)x->count * sizeof(float));
    if (g->patches[0] == NULL)
        return cs_fail(err, CS_NO_MEMORY, "no memory for the pictures of the golden");
    for (int64_t i = 0; i < n; i++) {
        cut_patches(values + i * size, a, height, width, g->patches[0] + i * size);
        if (cs_slot_add_item(&g->slot, &g->plan->budget, 0, &shape, NULL) == NULL)
            return cs_fail(err, CS_LIMIT, "%s: no room for %lld pictures in a slot",
                           cs_st_path(g->file), (long long)n);
    }
    return CS_OK;
}

/* The rows of the placeholders, in the order of the items. */
static enum cs_status place_rows(struct cs_golden *g, int64_t token, struct cs_err *err)
{
    const struct cs_slot_head *head = g->slot.head;
    int32_t n = 0;
    for (int32_t row = 0; row < head->n_tokens; row++)
        if (g->slot.ids[row] == token && n < head->n_rows[0])
            g->slot.rows[0][n++] = row;
        else if (g->slot.ids[row] == token)
            n++;
    if (n == head->n_rows[0])
        return CS_OK;
    return cs_fail(err, CS_CORRUPT, "%s: %d placeholders for %d rows of the tower",
                   cs_st_path(g->file), n, head->n_rows[0]);
}

enum cs_status cs_golden_add_media(struct cs_golden *g, struct cs_err *err)
{
    const struct cs_module *encoder = cs_graph_encoder(g->graph, 0);
    const struct cs_st_tensor *x = cs_st_find(g->file, "in.x");
    if (x == NULL)
        return CS_OK;
    if (encoder == NULL || x->n_dims < 4)
        return cs_fail(err, CS_UNSUPPORTED, "%s: in.x of %d dimensions is not known",
                       cs_st_path(g->file), x->n_dims);
    CS_TRY(add_pictures(g, encoder, x, err));
    const struct cs_hfdir *part = g->part[CS_MODULE_ENCODER];
    const struct cs_composite *root = part != NULL ? cs_hfdir_composite(part) : NULL;
    return root != NULL && cs_golden_has(g, "in.ids") ? place_rows(g, root->image_token, err)
                                                      : CS_OK;
}
