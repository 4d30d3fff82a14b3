/* Previews of the selected job's plan: made piece by piece when a screen asks, kept until plan,
 * costs or the wish change. */
#include <string.h>

#include "console/store/store.h"

void cs_store_forget_previews(struct cs_store *store)
{
    cs_preview_clear(&store->previews.preview);
    cs_batch_clear(&store->previews.batch);
    store->previews.own_ns = 0;
    store->previews.whatif = (struct cs_whatif){.n = 0};
    store->model.base = (struct cs_variant_base){.plan = NULL};
}

void cs_store_base(struct cs_store *store)
{
    struct cs_store_model *model = &store->model;
    cs_store_forget_previews(store);
    model->base = (struct cs_variant_base){.spec = model->spec,
                                           .graph = model->graph,
                                           .cluster = &model->cluster,
                                           .plan = model->plan,
                                           .measured = model->measured,
                                           .cores = model->cores};
    if (model->measured)
        cs_variant_stretch(&model->base, model->arena);
}

static bool is_same_batch(const struct cs_batch_want *a, const struct cs_batch_want *b)
{
    return a->ranks == b->ranks && a->slot == b->slot && a->mask == b->mask;
}

static void make_preview(struct cs_store *store, const struct cs_variant *variant)
{
    struct cs_store_previews *p = &store->previews;
    const struct cs_variant_base *base = &store->model.base;
    struct cs_variant own = cs_variant_own(base);
    cs_preview_make(&p->preview, base, p->own_ns == 0 ? &own : variant);
    if (p->own_ns == 0)
        p->own_ns = p->preview.made.plan ? p->preview.forecast.makespan_ns : -1;
    if (!cs_variant_is_equal(&p->preview.variant, variant, base->graph))
        cs_preview_make(&p->preview, base, variant);
    store->version++;
}

bool cs_store_prepare(struct cs_store *store, const struct cs_store_want *want)
{
    struct cs_store_previews *p = &store->previews;
    const struct cs_variant_base *base = &store->model.base;
    if (!base->plan)
        return false;
    if (want->has_preview &&
        (!p->preview.arena ||
         !cs_variant_is_equal(&p->preview.variant, &want->variant, base->graph))) {
        make_preview(store, &want->variant);
        return true;
    }
    if (want->has_batch && (!p->batch.arena || !is_same_batch(&p->batch.want, &want->batch))) {
        cs_batch_make(&p->batch, base->spec, base->graph, &base->plan->budget, base->plan->slots,
                      &want->batch);
        store->version++;
        return true;
    }
    if (!want->has_whatif)
        return false;
    if (p->whatif.n == 0)
        cs_whatif_list(&p->whatif, base);
    bool is_more = cs_whatif_next(&p->whatif, base);
    store->version += is_more;
    return is_more;
}
