/* Reads what a slot has room for, and checks it against the model. */
#include <stdio.h>

#include "core/plan/json/reader.h"

/* One size: what the graph says. Any size: not more than it says. */
static enum cs_status check_item(const struct cs_branch *branch, const struct cs_item_budget *b,
                                 int32_t seq_tokens, const char *where, struct cs_err *err)
{
    const bool is_like = branch->item_rows == b->item_rows && branch->item_bytes == b->item_bytes &&
                         branch->item_patches == b->item_patches;
    const bool is_under = b->item_rows >= 1 && branch->item_rows >= b->item_rows &&
                          branch->item_bytes >= b->item_bytes &&
                          branch->item_patches >= b->item_patches;
    if (branch->has_one_size != (b->height > 0) || branch->has_sources != b->has_sources ||
        !(branch->has_one_size ? is_like : is_under))
        return cs_fail(err, CS_CORRUPT, "plan: %s: items of %s have %s%d rows and %d bytes", where,
                       branch->name, branch->has_one_size ? "" : "at most ", branch->item_rows,
                       branch->item_bytes);
    if (branch->has_one_size &&
        (b->items < 1 || b->item_rows > seq_tokens || (int64_t)b->items * b->item_rows != b->rows))
        return cs_fail(err, CS_CORRUPT,
                       "plan: %s: rows must be items * item_rows, item_rows <= seq_tokens", where);
    if (b->items < 1 || b->rows < b->item_rows || b->patches < b->item_patches ||
        b->bytes < b->item_bytes)
        return cs_fail(err, CS_CORRUPT, "plan: %s: a slot has no room for the largest item", where);
    return CS_OK;
}

static enum cs_status read_encoder(struct cs_plan_reader *r, const json_t *json, int32_t e,
                                   struct cs_err *err)
{
    struct cs_item_budget *b = &r->plan->budget.enc[e];
    char where[48];
    snprintf(where, sizeof where, "budget.encoders[%d]", e);
    CS_TRY(cs_plan_read_fields(json, b, CS_PLAN_ENC, where, err));
    b->item_patches = b->item_rows;
    b->patches = b->rows;
    b->bytes = (int64_t)b->items * b->item_bytes;
    if (json_object_get(json, cs_plan_first_key(CS_PLAN_ANY)) != NULL)
        CS_TRY(cs_plan_read_fields(json, b, CS_PLAN_ANY, where, err));
    for (int32_t i = 0; i < r->graph->n_branches; i++)
        if (r->graph->branches[i].encoder == e)
            CS_TRY(check_item(&r->graph->branches[i], b, r->plan->budget.seq_tokens, where, err));
    return CS_OK;
}

enum cs_status cs_plan_read_budget(struct cs_plan_reader *r, struct cs_err *err)
{
    const json_t *json = json_object_get(r->json, "budget");
    const json_t *encoders = json_object_get(json, "encoders");
    enum cs_status status =
        cs_plan_read_count(json, "seq_tokens", 1, INT32_MAX, &r->plan->budget.seq_tokens, err);
    if (status != CS_OK)
        return cs_wrap(err, status, "budget");
    if (!json_is_array(encoders) || json_array_size(encoders) != (size_t)r->graph->n_encoders)
        return cs_fail(err, CS_CORRUPT, "plan: budget.encoders must have %d entries",
                       r->graph->n_encoders);
    r->plan->budget.n_encoders = r->graph->n_encoders;
    for (int32_t e = 0; e < r->graph->n_encoders; e++)
        CS_TRY(read_encoder(r, json_array_get(encoders, (size_t)e), e, err));
    return CS_OK;
}
