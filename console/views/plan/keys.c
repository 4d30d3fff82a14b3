/* Keys of the Plan view. Previews are chosen here and made by cs_plan_prepare; nothing is ever
 * submitted. */
#include <string.h>

#include "console/views/plan/plan.h"
#include "core/base/str.h"

static unsigned show_part(struct cs_screen *screen, const struct cs_store *store, int argument)
{
    if (argument == CS_PLAN_FOUND && !store->found.plans) {
        cs_screen_say(screen, CS_STYLE_DIM,
                      "no search: 'cornstarch-console plan --view' of a script with cs.search");
        return CS_DO_DRAW;
    }
    if ((int)screen->plan_part != argument)
        screen->at.plan_top = screen->at.plan_cursor = 0;
    screen->plan_part = (enum cs_plan_part)argument;
    screen->has_help = false;
    return CS_DO_DRAW;
}

static unsigned next_part(struct cs_screen *screen, const struct cs_store *store, int argument)
{
    const int n = store->found.plans ? CS_PLAN_PARTS : CS_PLAN_FOUND;
    int next = ((int)screen->plan_part + argument + n) % n;
    return show_part(screen, store, next);
}

/* --- previews --------------------------------------------------------------------------------- */

static unsigned look_at(struct cs_screen *screen, const struct cs_store *store,
                        const struct cs_variant *variant)
{
    const struct cs_variant_base base = cs_plan_base(store);
    struct cs_variant own = cs_variant_own(&base);
    screen->has_variant = !cs_variant_is_equal(variant, &own, store->model.graph);
    screen->variant_job = store->job;
    screen->variant = *variant;
    if (screen->plan_part != CS_PLAN_WHATIF)
        screen->at.plan_top = 0;
    return CS_DO_DRAW;
}

static unsigned next_schedule(struct cs_screen *screen, const struct cs_store *store, int argument)
{
    struct cs_variant v;
    int n = 0, at = -1;
    if (!cs_plan_variant(store, screen, &v))
        return CS_DO_DRAW;
    for (; cs_variant_schedule(n); n++)
        if (strcmp(cs_variant_schedule(n), v.schedule) == 0)
            at = n;
    at = at < 0 ? 0 : (at + argument + n) % n;
    const struct cs_variant_base base = cs_plan_base(store);
    cs_variant_set_schedule(&base, cs_variant_schedule(at), &v);
    return look_at(screen, store, &v);
}

static unsigned scale_slots(struct cs_screen *screen, const struct cs_store *store, int argument)
{
    struct cs_variant v;
    if (!cs_plan_variant(store, screen, &v))
        return CS_DO_DRAW;
    if (argument > 0 && v.slots <= CS_VARIANT_SLOTS / 2)
        v.slots *= 2;
    else if (argument < 0 && v.slots > 1)
        v.slots /= 2;
    return look_at(screen, store, &v);
}

static unsigned other_cut(struct cs_screen *screen, const struct cs_store *store, int argument)
{
    struct cs_variant v;
    (void)argument;
    if (!cs_plan_variant(store, screen, &v))
        return CS_DO_DRAW;
    v.is_blind = !v.is_blind;
    return look_at(screen, store, &v);
}

static unsigned next_modality(struct cs_screen *screen, const struct cs_store *store, int argument)
{
    struct cs_variant v;
    int n = 0, at = 0;
    (void)argument;
    if (!cs_plan_variant(store, screen, &v))
        return CS_DO_DRAW;
    for (; cs_variant_modality(n); n++)
        if (strcmp(cs_variant_modality(n), v.modality) == 0)
            at = n;
    const struct cs_variant_base base = cs_plan_base(store);
    cs_variant_set_modality(&base, cs_variant_modality((at + 1) % n), &v);
    return look_at(screen, store, &v);
}

static unsigned back_to_own(struct cs_screen *screen, const struct cs_store *store, int argument)
{
    (void)store;
    (void)argument;
    screen->has_variant = false;
    return CS_DO_DRAW;
}

/* the row of What-if under the cursor */
static unsigned look_at_row(struct cs_screen *screen, const struct cs_store *store, int argument)
{
    const struct cs_whatif *w = &cs_plan_previews(store, screen)->whatif;
    (void)argument;
    if (screen->plan_part == CS_PLAN_FOUND)
        return cs_plan_found_pick(screen, store);
    if (screen->plan_part != CS_PLAN_WHATIF || !cs_plan_base(store).plan ||
        screen->at.plan_cursor >= w->n)
        return CS_DO_DRAW;
    const struct cs_whatif_row *row = &w->row[screen->at.plan_cursor];
    if (!row->is_variant) {
        cs_str_copy(screen->message, sizeof screen->message, row->error);
        screen->message_style = CS_STYLE_WARN;
        return CS_DO_DRAW;
    }
    return look_at(screen, store, &row->variant);
}

/* --- what other views do too, and another thing in Balance ------------------------------------ */

static unsigned zoom_or_ranks(struct cs_screen *screen, const struct cs_store *store, int argument)
{
    if (screen->plan_part != CS_PLAN_BALANCE) {
        cs_screen_zoom(screen, argument);
        return CS_DO_DRAW;
    }
    screen->batch_ranks =
        cs_screen_clamp(cs_plan_batch_ranks(store, screen) + argument, 1, CS_BATCH_RANKS);
    return CS_DO_DRAW;
}

static unsigned scroll_or_slot(struct cs_screen *screen, const struct cs_store *store, int argument)
{
    const struct cs_plan *plan = cs_plan_base(store).plan;
    if (screen->plan_part != CS_PLAN_BALANCE) {
        cs_screen_scroll(screen, argument);
        return CS_DO_DRAW;
    }
    int n = plan && plan->slots < CS_BATCH_SLOTS ? plan->slots : CS_BATCH_SLOTS;
    screen->batch_slot = cs_screen_clamp(screen->batch_slot + argument, 0, n - 1);
    return CS_DO_DRAW;
}

static unsigned next_rows(struct cs_screen *screen, const struct cs_store *store, int argument)
{
    (void)store;
    (void)argument;
    screen->plan_rows = (enum cs_plan_rows)(((int)screen->plan_rows + 1) % CS_PLAN_ROWS_COUNT);
    screen->at.plan_top = 0;
    return CS_DO_DRAW;
}

static unsigned next_mask(struct cs_screen *screen, const struct cs_store *store, int argument)
{
    (void)store;
    (void)argument;
    screen->batch_mask = (enum cs_mask_kind)(((int)screen->batch_mask + 1) % CS_MASK_KINDS);
    return CS_DO_DRAW;
}

/* clang-format off */
const struct cs_key_row cs_plan_keys[] = {
    {"t",       "t",       "",         0, NULL, "timeline: predicted, critical path marked",     show_part,      CS_PLAN_TIMELINE},
    {"m",       "m",       "",         0, NULL, "memory of every rank",                          show_part,      CS_PLAN_MEMORY},
    {"w",       "w",       "",         0, NULL, "what-if: other cuts, schedules, layouts",       show_part,      CS_PLAN_WHATIF},
    {"b",       "b",       "",         0, NULL, "balance of a sample batch's tokens",            show_part,      CS_PLAN_BALANCE},
    {"c",       "c",       "",         0, NULL, "critical path as a list",                       show_part,      CS_PLAN_PATH},
    {"F",       "F",       "",         0, NULL, "plans that the script's search found; R runs the one that is picked", show_part, CS_PLAN_FOUND},
    {"p",       "p",       "part",     1, NULL, "next part",                                     next_part,      1},
    {"s",       "s",       "schedule", 2, NULL, "preview the next schedule",                     next_schedule,  1},
    {"S",       "S",       "",         0, NULL, "preview the schedule before",                   next_schedule,  -1},
    {"]",       "]",       "slots",    3, NULL, "preview twice the slots",                       scale_slots,    1},
    {"[",       "[",       "",         0, NULL, "preview half the slots",                        scale_slots,    -1},
    {"f",       "f",       "",         0, NULL, "preview the frozen-blind cut, or back",         other_cut,      0},
    {"o",       "o",       "",         0, NULL, "preview encoders apart, colocated, replicated", next_modality,  0},
    {"u",       "u",       "own",      3, NULL, "back to the job's own plan",                    back_to_own,    0},
    {"Enter",   "Enter",   "look",     4, NULL, "what-if, Found: look at the row under the cursor", look_at_row, 0},
    {"h,Left",  "h Left",  "",         0, NULL, "earlier; balance: slot before",                 scroll_or_slot, -1},
    {"l,Right", "l Right", "scroll",   5, NULL, "later; balance: next slot",                     scroll_or_slot, 1},
    {"+,=",     "+",       "zoom",     4, NULL, "zoom in; balance: one rank more",               zoom_or_ranks,  1},
    {"-",       "-",       "",         0, NULL, "zoom out; balance: one rank less",              zoom_or_ranks,  -1},
    {"a",       "a",       "",         0, NULL, "rows: what fits best, every stage, groups",     next_rows,      0},
    {"r",       "r",       "",         0, NULL, "balance: next rule of the attention mask",      next_mask,      0},
    {.keys = NULL},
};

/* clang-format on */
