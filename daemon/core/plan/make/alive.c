/* How many slots' activations a rank holds at once, by schedule and placement. */
#include "core/plan/make/planning.h"

#include <math.h>

#include "core/plan/cost/stage/offload.h"
#include "core/plan/make/offload.h"
#include "core/sched/orders/interleaved.h"

/* copies of encoders run a share of the slots, whatever the LLM does meanwhile */
static double alive_in_copies(const struct cs_planner *p)
{
    int32_t ranks = p->cuts.n_stages[p->graph->llm] / p->placing.chunks;
    double own = (cs_plan_own_slots(p->plan, p->spec->slots) + ranks - 1) / ranks; /* whole */
    bool is_bounded = !p->placing.schedule->encodes_all;
    return is_bounded && own > CS_ANCHOR_WINDOW + 1 ? CS_ANCHOR_WINDOW + 1 : own;
}

/* slots of a chunk, on average over the v chunks of its rank */
static double alive_in_chunks(const struct cs_planner *p, int32_t v, int32_t stage)
{
    int32_t n = p->cuts.n_stages[p->graph->llm] / p->placing.chunks;
    return (2.0 * (n - 1 - stage % n) + (v - 1.0) * n + 1) / v;
}

/* of an encoder with ranks of its own */
static int32_t alive_ahead_of_chunks(const struct cs_planner *p, int32_t depth, int32_t slots)
{
    const int32_t n = p->cuts.n_stages[p->graph->llm], hops = depth - n + 1;
    return cs_interleaved_live(n / p->placing.chunks, p->placing.chunks, slots,
                               hops > 1 ? hops : 1);
}

/* stages on the longest chain: what all ranks warm up by when they feed each other in a circle */
static int32_t longest_chain(const struct cs_planner *p)
{
    int32_t llm = p->graph->llm, longest = 0;
    for (int32_t b = 0; b < p->graph->n_branches; b++)
        if (b != llm && p->cuts.n_stages[b] > longest)
            longest = p->cuts.n_stages[b];
    return longest + p->cuts.n_stages[llm];
}

/* Branches feed each other in a circle: encoders on the ranks of several stages of the LLM. */
static bool is_circle(const struct cs_planner *p)
{
    bool is_on_llm = false;
    for (int32_t b = 0; b < p->graph->n_branches; b++)
        is_on_llm = is_on_llm || p->placing.place[b]->cut == CS_CUT_AS_LLM;
    return is_on_llm && p->placing.schedule->layout != CS_LAYOUT_COLOCATED &&
           p->cuts.n_stages[p->graph->llm] > 1;
}

/* ... all of them, cut like the LLM: they and it are two chunks of one pipeline */
static bool is_grid(const struct cs_planner *p)
{
    for (int32_t b = 0; b < p->graph->n_branches; b++)
        if (b != p->graph->llm &&
            (p->placing.place[b]->cut != CS_CUT_AS_LLM || p->placing.shares[b]))
            return false;
    return is_circle(p);
}

/* ranks behind a stage, as its schedule counts them */
static int32_t depth_of(const struct cs_planner *p, int32_t b, int32_t stage)
{
    const int32_t n = p->cuts.n_stages[p->graph->llm];
    if (is_circle(p))
        return longest_chain(p) - 1;
    if (p->placing.place[b]->cut == CS_CUT_COPIES) /* copies pace with the stage beside them */
        return stage < n ? n - 1 - stage : 0;
    if (p->placing.place[b]->cut == CS_CUT_ONCE)
        return n - 1;
    return cs_place_depth(p->graph, &p->cuts, b, stage);
}

/* slots of a stage that are live at once; exact but for chunks, of which it is the mean */
double cs_planner_live(const struct cs_planner *p, int32_t b, int32_t stage)
{
    const struct cs_schedule_info *schedule = p->placing.schedule;
    int32_t llm = p->graph->llm, path = longest_chain(p);
    double slots = cs_plan_own_slots(p->plan, p->spec->slots), depth = depth_of(p, b, stage), alive;
    if (schedule->layout == CS_LAYOUT_COLOCATED && b != llm)
        return alive_in_copies(p);
    alive = depth + 1;
    if (p->placing.chunks > 1)
        alive = b == llm ? alive_in_chunks(p, p->placing.chunks, stage)
                         : alive_ahead_of_chunks(p, (int32_t)depth, (int32_t)slots);
    if (schedule->live != CS_LIVE_DEPTH)
        alive = (double)cs_schedule_live_slots(schedule, (int64_t)depth, path, (int64_t)slots);
    else if (is_grid(p))
        alive = alive_in_chunks(p, 2, stage);
    if (p->placing.shares[b]) /* of the slots that the LLM's ranks have */
        alive = ceil(alive / p->cuts.n_stages[llm]);
    return alive < slots ? alive : slots;
}

/* ... whose activations are on the rank's device */
double cs_planner_alive(const struct cs_planner *p, int32_t b, int32_t stage)
{
    const double live = cs_planner_live(p, b, stage);
    const int32_t sets =
        cs_branch_offloads(p->spec, p->graph, b) ? cs_offload_sets((int32_t)live) : 0;
    return sets > 0 && sets < live ? sets : live;
}
