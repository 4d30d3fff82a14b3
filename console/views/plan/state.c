/* What the Plan view is about: the variant, the batch, and what has to be made before it is
 * drawn. */
#include "console/views/plan/plan.h"

#include <stdlib.h>

struct cs_variant_base cs_plan_base(const struct cs_store *store)
{
    const struct cs_store_model *model = &store->model;
    if (!model->plan || store->model_error[0] != '\0')
        return (struct cs_variant_base){.plan = NULL};
    return (struct cs_variant_base){.spec = model->spec,
                                    .graph = model->graph,
                                    .cluster = &model->cluster,
                                    .plan = model->plan,
                                    .measured = model->measured,
                                    .cores = model->cores};
}

const struct cs_previews *cs_plan_previews(const struct cs_store *store,
                                           const struct cs_screen *screen)
{
    static const struct cs_previews none;
    bool is_current = screen->previews && screen->previews->edition == store->edition;
    return is_current ? screen->previews : &none;
}

bool cs_plan_variant(const struct cs_store *store, const struct cs_screen *screen,
                     struct cs_variant *variant)
{
    const struct cs_variant_base base = cs_plan_base(store);
    if (!base.plan)
        return false;
    *variant = cs_variant_own(&base);
    if (screen->has_variant && screen->variant_job == store->job)
        *variant = screen->variant;
    return true;
}

int32_t cs_plan_batch_ranks(const struct cs_store *store, const struct cs_screen *screen)
{
    const struct cs_spec *spec = store->model.spec;
    const struct cs_spec_parallel *llm = spec ? cs_spec_parallel_of(spec, "llm") : NULL;
    const int32_t own = llm && llm->cp > 1 ? llm->cp : CS_BATCH_DEFAULT_RANKS;
    return screen->batch_ranks > 0 ? screen->batch_ranks : own;
}

bool cs_plan_prepare(struct cs_screen *screen, const struct cs_store *store)
{
    const struct cs_variant_base base = cs_plan_base(store);
    struct cs_previews_want want = {
        .has_preview = true,
        .has_whatif = screen->plan_part == CS_PLAN_WHATIF,
        .has_batch = screen->plan_part == CS_PLAN_BALANCE,
        .batch = {cs_plan_batch_ranks(store, screen), screen->batch_slot, screen->batch_mask}
    };
    if (!cs_plan_variant(store, screen, &want.variant))
        return false;
    if (!screen->previews) {
        screen->previews = calloc(1, sizeof *screen->previews);
        CS_ASSERT(screen->previews);
    }
    if (screen->previews->edition != store->edition)
        cs_previews_begin(screen->previews, &base, store->edition);
    int32_t last = base.plan->slots - 1; /* chosen while another job was shown */
    want.batch.slot = want.batch.slot < last ? want.batch.slot : last;
    return cs_previews_make(screen->previews, &want);
}

static int rows_of(const struct cs_screen *screen, const struct cs_store *store)
{
    const struct cs_previews *all = cs_plan_previews(store, screen);
    const struct cs_preview *p = &all->preview;
    switch (screen->plan_part) {
    case CS_PLAN_TIMELINE:
        return p->forecast.n_stages;
    case CS_PLAN_MEMORY:
        return p->forecast.n_ranks;
    case CS_PLAN_WHATIF:
        return all->whatif.n;
    case CS_PLAN_BALANCE:
        return CS_BALANCE_HOWS;
    case CS_PLAN_PATH:
        return p->n_links;
    case CS_PLAN_FOUND:
        return (int)json_array_size(store->found.plans);
    case CS_PLAN_PARTS:
        break;
    }
    return 0;
}

void cs_plan_move(struct cs_screen *screen, const struct cs_store *store, int rows)
{
    bool has_cursor = screen->plan_part == CS_PLAN_WHATIF || screen->plan_part == CS_PLAN_BALANCE ||
                      screen->plan_part == CS_PLAN_FOUND;
    int *at = has_cursor ? &screen->at.plan_cursor : &screen->at.plan_top;
    int last = rows_of(screen, store) - 1;
    *at = cs_screen_clamp(*at + rows, 0, last > 0 ? last : 0);
}
