/* Items of a golden and the rows of their placeholders, in the order of the text. */
#include "core/doc/doc.h"
#include "worker/selftest/media.h"

static enum cs_status add_all(struct cs_golden *g, const struct cs_arch *a,
                              struct cs_golden_media *m, struct cs_err *err)
{
    int32_t rows;
    do
        CS_TRY(cs_golden_next_medium(g, a, m, 0, &rows, err));
    while (rows > 0);
    return CS_OK;
}

/* Positions from one frame of a video to the next, where its rows follow each other from `row` on. */
static int32_t time_step_of(const struct cs_golden_media *m, const int64_t *positions,
                            const struct cs_arch *a, const struct cs_slot *slot, int32_t row)
{
    const int64_t *size =
        m->sizes != NULL && m->n_sizes == 3 && m->next < m->n ? m->sizes + 3 * m->next : NULL;
    if (positions == NULL || size == NULL || size[0] < 2)
        return 0;
    const int64_t next = row + size[1] * size[2] / cs_front_group(a);
    if (next >= slot->head->n_tokens || slot->ids[next - 1] != slot->ids[next])
        return 0;
    const int64_t step = positions[next] - positions[row];
    return step > 0 ? (int32_t)step : -1;
}

/* Items in the order in which their placeholders stand, each row of them in the place of one. */
static enum cs_status add_in_turn(struct cs_golden *g, const struct cs_arch *a,
                                  struct cs_golden_media m[2], const int64_t token[2],
                                  struct cs_err *err)
{
    const struct cs_slot *slot = &g->slot;
    int64_t *positions = NULL;
    int32_t left[2] = {0, 0}, spare = 0, n = 0;
    if (cs_golden_has(g, "in.positions"))
        CS_TRY(cs_golden_ints(g, "in.positions", &positions, NULL, err));
    for (int32_t row = 0; row < slot->head->n_tokens; row++) {
        const int k = slot->ids[row] == token[1] && m[1].n > 0;
        if (slot->ids[row] != token[k])
            continue;
        const int32_t step = time_step_of(&m[k], positions, a, slot, row);
        if (left[k] == 0)
            CS_TRY(cs_golden_next_medium(g, a, &m[k], step, &left[k], err));
        spare += left[k] == 0;
        if (left[k] > 0)
            slot->rows[0][n++] = row;
        left[k] -= left[k] > 0;
    }
    for (int k = 0; k < 2; k++)
        CS_TRY(add_all(g, a, &m[k], err));
    const int32_t most = slot->head->n_rows[0];
    if (n == most && spare == 0)
        return CS_OK;
    return cs_fail(err, CS_CORRUPT, "%s: %d placeholders for %d rows of the tower",
                   cs_st_path(g->file), n + spare, most);
}

/* The rows of the placeholders, in the order of what fills them. */
static enum cs_status place_sources(struct cs_golden *g, int64_t token, struct cs_err *err)
{
    const struct cs_slot_head *head = g->slot.head;
    int32_t n = 0;
    for (int32_t row = 0; row < head->n_tokens; row++) {
        if (g->slot.ids[row] != token)
            continue;
        if (n < g->n_sources)
            cs_slot_add_fill(&g->slot, 0, row, g->sources[n]);
        n++;
    }
    if (n == g->n_sources)
        return CS_OK;
    return cs_fail(err, CS_CORRUPT, "%s: %d placeholders for %d rows of the tower",
                   cs_st_path(g->file), n, g->n_sources);
}

/* The placeholder of videos; the classes have it behind that of pictures. */
static int64_t video_token(const struct cs_hfdir *part, const struct cs_composite *root)
{
    const json_t *said =
        cs_doc_get(cs_hfdir_root_config(part), "video_token_id|video_token_index", NULL);
    return said != NULL ? json_integer_value(said) : root->image_token + 1;
}

enum cs_status cs_golden_add_media(struct cs_golden *g, struct cs_err *err)
{
    const struct cs_module *encoder = cs_graph_encoder(g->graph, 0);
    const struct cs_hfdir *part = g->part[CS_MODULE_ENCODER];
    const struct cs_composite *root = part != NULL ? cs_hfdir_composite(part) : NULL;
    struct cs_golden_media m[2] = {{.n = 0}, {.n = 0}};
    CS_TRY(cs_golden_check_inputs(g, err));
    if (!cs_golden_has(g, "in.x") && !cs_golden_has(g, "in.pixel_values_videos"))
        return CS_OK;
    if (encoder == NULL)
        return cs_fail(err, CS_UNSUPPORTED, "%s: in.x is there, but no tower", cs_st_path(g->file));
    CS_TRY(cs_golden_open_media(g, &encoder->arch, m, err));
    if (part != NULL && cs_golden_has_mosaics(cs_hfdir_root_config(part))) {
        CS_TRY(cs_golden_add_mosaics(g, &encoder->arch, err));
        return place_sources(g, root->image_token, err);
    }
    if (root == NULL || !cs_golden_has(g, "in.ids"))
        return add_all(g, &encoder->arch, &m[0], err);
    const int64_t token[2] = {root->image_token, video_token(part, root)};
    return add_in_turn(g, &encoder->arch, m, token, err);
}
