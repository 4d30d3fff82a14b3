/* What the Plan view is about: the variant, the batch, and what has to be made before it is
 * drawn. */
#include "console/views/plan.h"

bool cs_plan_variant(const struct cs_store *store, const struct cs_screen *screen,
                     struct cs_variant *variant)
{
    const struct cs_variant_base *base = &store->model.base;
    if (!base->plan)
        return false;
    *variant = cs_variant_own(base);
    if (screen->has_variant && screen->variant_job == store->job)
        *variant = screen->variant;
    return true;
}

int32_t cs_plan_batch_ranks(const struct cs_screen *screen)
{
    return screen->batch_ranks > 0 ? screen->batch_ranks : CS_BATCH_DEFAULT_RANKS;
}

bool cs_plan_prepare(struct cs_store *store, const struct cs_screen *screen)
{
    struct cs_store_want want = {
        .has_preview = true,
        .has_whatif = screen->plan_part == CS_PLAN_WHATIF,
        .has_batch = screen->plan_part == CS_PLAN_BALANCE,
        .batch = {cs_plan_batch_ranks(screen), screen->batch_slot, screen->batch_mask}
    };
    if (!cs_plan_variant(store, screen, &want.variant))
        return false;
    int32_t last = store->model.base.plan->slots - 1; /* chosen while another job was shown */
    want.batch.slot = want.batch.slot < last ? want.batch.slot : last;
    return cs_store_prepare(store, &want);
}

static int rows_of(const struct cs_screen *screen, const struct cs_store *store)
{
    const struct cs_preview *p = &store->previews.preview;
    switch (screen->plan_part) {
    case CS_PLAN_TIMELINE:
        return p->forecast.n_stages;
    case CS_PLAN_MEMORY:
        return p->forecast.n_ranks;
    case CS_PLAN_WHATIF:
        return store->previews.whatif.n;
    case CS_PLAN_BALANCE:
        return CS_BALANCE_HOWS;
    case CS_PLAN_PATH:
        return p->n_links;
    case CS_PLAN_PARTS:
        break;
    }
    return 0;
}

void cs_plan_move(struct cs_screen *screen, const struct cs_store *store, int rows)
{
    bool has_cursor = screen->plan_part == CS_PLAN_WHATIF || screen->plan_part == CS_PLAN_BALANCE;
    int *at = has_cursor ? &screen->at.plan_cursor : &screen->at.plan_top;
    int last = rows_of(screen, store) - 1;
    *at = cs_screen_clamp(*at + rows, 0, last > 0 ? last : 0);
}
