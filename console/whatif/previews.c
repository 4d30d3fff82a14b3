/* Makes previews, what-if and batches piece by piece, and keeps them. */
#include "console/whatif/previews.h"

void cs_previews_begin(struct cs_previews *p, const struct cs_variant_base *base, uint64_t edition)
{
    cs_preview_clear(&p->preview);
    cs_batch_clear(&p->batch);
    cs_arena_free(p->arena);
    *p = (struct cs_previews){.edition = edition};
    if (!base)
        return;
    p->base = *base;
    if (base->plan && base->measured) {
        p->arena = cs_arena_new(0);
        cs_variant_stretch(&p->base, p->arena);
    }
}

static bool is_same_batch(const struct cs_batch_want *a, const struct cs_batch_want *b)
{
    return a->ranks == b->ranks && a->slot == b->slot && a->mask == b->mask;
}

static void make_preview(struct cs_previews *p, const struct cs_variant *variant)
{
    struct cs_variant own = cs_variant_own(&p->base);
    cs_preview_make(&p->preview, &p->base, p->own_ns == 0 ? &own : variant);
    if (p->own_ns == 0)
        p->own_ns = p->preview.made.plan ? p->preview.forecast.makespan_ns : -1;
    if (!cs_variant_is_equal(&p->preview.variant, variant, p->base.graph))
        cs_preview_make(&p->preview, &p->base, variant);
}

bool cs_previews_make(struct cs_previews *p, const struct cs_previews_want *want)
{
    const struct cs_variant_base *base = &p->base;
    if (!base->plan)
        return false;
    if (want->has_preview &&
        (!p->preview.arena ||
         !cs_variant_is_equal(&p->preview.variant, &want->variant, base->graph))) {
        make_preview(p, &want->variant);
        return true;
    }
    if (want->has_batch && (!p->batch.arena || !is_same_batch(&p->batch.want, &want->batch))) {
        cs_batch_make(&p->batch, base->spec, base->graph, &base->plan->budget, base->plan->slots,
                      &want->batch);
        return true;
    }
    if (!want->has_whatif)
        return false;
    if (p->whatif.n == 0)
        cs_whatif_list(&p->whatif, base);
    return cs_whatif_next(&p->whatif, base);
}
