/* What keys do in the Plan view. Previews are chosen here and made by cs_screen_prepare; nothing is
 * ever submitted. */
#include <math.h>
#include <string.h>

#include "console/screen/keys.h"
#include "core/base/str.h"

static int clamp(int value, int low, int high)
{
    return value > high ? high : value < low ? low : value;
}

unsigned cs_act_part(struct cs_screen *screen, const struct cs_store *store, int argument)
{
    (void)store;
    if ((int)screen->plan_part != argument)
        screen->plan_top = screen->plan_cursor = 0;
    screen->plan_part = (enum cs_plan_part)argument;
    screen->has_help = false;
    return CS_DO_DRAW;
}

unsigned cs_act_next_part(struct cs_screen *screen, const struct cs_store *store, int argument)
{
    int next = ((int)screen->plan_part + argument + CS_PLAN_PARTS) % CS_PLAN_PARTS;
    return cs_act_part(screen, store, next);
}

unsigned cs_act_whatif(struct cs_screen *screen, const struct cs_store *store, int argument)
{
    (void)argument;
    cs_act_part(screen, store, CS_PLAN_WHATIF);
    return cs_act_view(screen, store, CS_VIEW_PLAN);
}

/* --- previews ----------------------------------------------------------------------------------
 */

static unsigned look_at(struct cs_screen *screen, const struct cs_store *store,
                        const struct cs_variant *variant)
{
    struct cs_variant own = cs_variant_own(&store->model.base);
    screen->has_variant = !cs_variant_is_equal(variant, &own, store->model.graph);
    screen->variant_job = store->job;
    screen->variant = *variant;
    if (screen->plan_part != CS_PLAN_WHATIF)
        screen->plan_top = 0;
    return CS_DO_DRAW;
}

unsigned cs_act_schedule(struct cs_screen *screen, const struct cs_store *store, int argument)
{
    struct cs_variant v;
    int n = 0, at = -1;
    if (!cs_screen_variant(store, screen, &v))
        return CS_DO_DRAW;
    for (; cs_variant_schedule(n); n++)
        if (strcmp(cs_variant_schedule(n), v.schedule) == 0)
            at = n;
    at = at < 0 ? 0 : (at + argument + n) % n;
    cs_variant_set_schedule(&store->model.base, cs_variant_schedule(at), &v);
    return look_at(screen, store, &v);
}

unsigned cs_act_slots(struct cs_screen *screen, const struct cs_store *store, int argument)
{
    struct cs_variant v;
    if (!cs_screen_variant(store, screen, &v))
        return CS_DO_DRAW;
    if (argument > 0 && v.slots <= CS_VARIANT_SLOTS / 2)
        v.slots *= 2;
    else if (argument < 0 && v.slots > 1)
        v.slots /= 2;
    return look_at(screen, store, &v);
}

unsigned cs_act_cut(struct cs_screen *screen, const struct cs_store *store, int argument)
{
    struct cs_variant v;
    (void)argument;
    if (!cs_screen_variant(store, screen, &v))
        return CS_DO_DRAW;
    v.is_blind = !v.is_blind;
    return look_at(screen, store, &v);
}

unsigned cs_act_layout(struct cs_screen *screen, const struct cs_store *store, int argument)
{
    struct cs_variant v;
    int n = 0, at = 0;
    (void)argument;
    if (!cs_screen_variant(store, screen, &v))
        return CS_DO_DRAW;
    for (; cs_variant_modality(n); n++)
        if (strcmp(cs_variant_modality(n), v.modality) == 0)
            at = n;
    cs_variant_set_modality(&store->model.base, cs_variant_modality((at + 1) % n), &v);
    return look_at(screen, store, &v);
}

unsigned cs_act_own(struct cs_screen *screen, const struct cs_store *store, int argument)
{
    (void)store;
    (void)argument;
    screen->has_variant = false;
    return CS_DO_DRAW;
}

/* the row of What-if under the cursor */
unsigned cs_act_choose(struct cs_screen *screen, const struct cs_store *store, int argument)
{
    const struct cs_whatif *w = &store->previews.whatif;
    (void)argument;
    if (screen->plan_part != CS_PLAN_WHATIF || !store->model.base.plan ||
        screen->plan_cursor >= w->n)
        return CS_DO_DRAW;
    const struct cs_whatif_row *row = &w->row[screen->plan_cursor];
    if (!row->is_variant) {
        cs_str_copy(screen->message, sizeof screen->message,
                    row->error[0]
                        ? row->error
                        : "this one is no bare pipeline: only its figures are known here");
        screen->message_style = CS_STYLE_WARN;
        return CS_DO_DRAW;
    }
    return look_at(screen, store, &row->variant);
}

/* --- moving ------------------------------------------------------------------------------------
 */

unsigned cs_act_plus(struct cs_screen *screen, const struct cs_store *store, int argument)
{
    if (screen->plan_part != CS_PLAN_BALANCE)
        return cs_act_zoom(screen, store, argument);
    screen->batch_ranks = clamp(cs_screen_batch_ranks(screen) + argument, 1, CS_BATCH_RANKS);
    return CS_DO_DRAW;
}

unsigned cs_act_sideways(struct cs_screen *screen, const struct cs_store *store, int argument)
{
    const struct cs_plan *plan = store->model.base.plan;
    if (screen->plan_part != CS_PLAN_BALANCE)
        return cs_act_scroll(screen, store, argument);
    int n = plan && plan->slots < CS_BATCH_SLOTS ? plan->slots : CS_BATCH_SLOTS;
    screen->batch_slot = clamp(screen->batch_slot + argument, 0, n - 1);
    return CS_DO_DRAW;
}

unsigned cs_act_rows(struct cs_screen *screen, const struct cs_store *store, int argument)
{
    (void)store;
    (void)argument;
    screen->plan_rows = (enum cs_plan_rows)(((int)screen->plan_rows + 1) % CS_PLAN_ROWS_COUNT);
    screen->plan_top = 0;
    return CS_DO_DRAW;
}

unsigned cs_act_mask(struct cs_screen *screen, const struct cs_store *store, int argument)
{
    (void)store;
    (void)argument;
    screen->batch_mask = (enum cs_mask_kind)(((int)screen->batch_mask + 1) % CS_MASK_KINDS);
    return CS_DO_DRAW;
}
