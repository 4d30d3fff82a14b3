/* What a search is asked for: its words, what they are when nothing is said, and what no search can do. */
#include "core/search/options.h"

#include <string.h>

#include "core/base/units.h"

const char *cs_search_modality_name(int32_t modality)
{
    return modality == CS_SEARCH_MIXED ? "mixed" : cs_placement_table[modality].modality;
}

bool cs_search_modality_from_name(const char *name, int32_t *out)
{
    for (int32_t i = 0; i <= CS_SEARCH_MIXED; i++)
        if (strcmp(cs_search_modality_name(i), name) == 0) {
            *out = i;
            return true;
        }
    return false;
}

bool cs_search_schedule_from_name(const char *name, enum cs_schedule_id *schedule)
{
    const struct cs_schedule_info *info = NULL;
    if (cs_plan_schedule_find(name, &info, NULL) != CS_OK || info->takes == 0)
        return false;
    *schedule = info->id;
    return true;
}

struct cs_search_options cs_search_defaults(const struct cs_search_options *options)
{
    struct cs_search_options o = *options;
    if (o.modalities == 0)
        o.modalities = 1u << CS_PLACE_OWN | 1u << CS_PLACE_COLOCATED | 1u << CS_SEARCH_MIXED;
    for (int i = 0; options->schedules == 0 && i < CS_SCHEDULES; i++)
        if (cs_plan_schedule(i)->is_usual)
            o.schedules |= 1u << i;
    o.recomputes = o.recomputes ? o.recomputes : (1u << CS_RECOMPUTES) - 1;
    o.zeros = o.zeros ? o.zeros : 1u << 1 | 1u << 2 | 1u << 3;
    o.max_pp = o.max_pp ? o.max_pp : 64;
    o.max_vpp = o.max_vpp ? o.max_vpp : 4;
    o.top = o.top ? o.top : 16;
    o.n_simulate = o.n_simulate ? o.n_simulate : 50;
    o.n_refine = o.n_refine ? o.n_refine : 4;
    o.max_scored = o.max_scored ? o.max_scored : 20000000;
    return o;
}

/* an ep that no layout has is wrong whatever else is asked for */
static enum cs_status check_experts(const struct cs_search_problem *problem,
                                    const struct cs_search_options *o, int32_t b,
                                    struct cs_err *err)
{
    const struct cs_search_branch *branch = &problem->branch[b];
    int32_t most = 1;
    bool is_known = o->fix[b].ep <= 1;
    for (int32_t i = 0; i < branch->n_options; i++) {
        most = branch->option[i].ep > most ? branch->option[i].ep : most;
        is_known = is_known || branch->option[i].ep == o->fix[b].ep;
    }
    if (is_known)
        return CS_OK;
    if (most == 1)
        return cs_fail(err, CS_PLAN,
                       "parallel.%s.ep = %d: %s has no layers with experts; leave ep out",
                       branch->name, o->fix[b].ep, branch->name);
    return cs_fail(err, CS_PLAN,
                   "parallel.%s.ep = %d: its experts are spread over at most %d rank%s here",
                   branch->name, o->fix[b].ep, most, CS_PLURAL(most));
}

/* Rows are split over ranks that share matrices: there must be some. */
static enum cs_status check_rows(const struct cs_search_problem *problem,
                                 const struct cs_search_options *o, int32_t b, struct cs_err *err)
{
    const struct cs_search_branch *branch = &problem->branch[b];
    const bool is_asked = o->fix[b].sp == 2;
    bool is_known = !is_asked;
    if (is_asked && o->fix[b].tp == 1)
        return cs_fail(err, CS_PLAN,
                       "parallel.%s.sp = true: ranks that share matrices split rows between them, "
                       "and tp is 1; set parallel.%s.tp above 1, or leave sp out",
                       branch->name, branch->name);
    for (int32_t i = 0; i < branch->n_options; i++)
        is_known = is_known || branch->option[i].sp;
    if (is_known)
        return CS_OK;
    return cs_fail(err, CS_PLAN,
                   "parallel.%s.sp = true: ranks that share matrices split rows between them, and "
                   "no tp above 1 divides %s on nodes of %d rank%s; leave sp out",
                   branch->name, branch->name, problem->ranks_per_node,
                   CS_PLURAL(problem->ranks_per_node));
}

enum cs_status cs_search_check_options(const struct cs_search_problem *problem,
                                       const struct cs_search_options *o, struct cs_err *err)
{
    if (o->batch_slots < 1 || o->batch_slots > 1 << 20)
        return cs_fail(err, CS_PLAN, "batch_slots is %d: 1 to %d", o->batch_slots, 1 << 20);
    int32_t own = o->fix[problem->llm].dp, dp = own > 0 ? own : o->dp;
    if (dp > o->batch_slots)
        return cs_fail(err, CS_PLAN, "dp = %d replica%s, but a step has %d slot%s; lower dp", dp,
                       CS_PLURAL(dp), o->batch_slots, CS_PLURAL(o->batch_slots));
    if (dp > 1 && o->batch_slots % dp != 0)
        return cs_fail(err, CS_PLAN,
                       "dp = %d: every replica has as many slots of a step, and batch_slots = %d "
                       "cannot be dealt out evenly; give batch_slots = %d or %d, or a dp that "
                       "divides %d",
                       dp, o->batch_slots, o->batch_slots / dp * dp, (o->batch_slots / dp + 1) * dp,
                       o->batch_slots);
    for (int32_t b = 0; b < problem->n_branches; b++) {
        bool is_llm = b == problem->llm;
        if (!is_llm && o->fix[b].vpp > 1)
            return cs_fail(err, CS_PLAN,
                           "parallel.%s.vpp = %d: only stages of the LLM are cut in chunks; leave "
                           "vpp out",
                           problem->branch[b].name, o->fix[b].vpp);
        if (is_llm && o->fix[b].place > 1 + (int32_t)CS_PLACE_OWN)
            return cs_fail(err, CS_PLAN,
                           "parallel.%s.place = %s: the LLM has ranks of its own; place encoders",
                           problem->branch[b].name, cs_placement_table[o->fix[b].place - 1].name);
        CS_TRY(check_experts(problem, o, b, err));
        CS_TRY(check_rows(problem, o, b, err));
    }
    return CS_OK;
}
