/* Published planners as restrictions of the search: which layouts they look at, how they cut, by
 * which formula they choose, and how they deal samples to slots. What they choose is simulated at
 * true costs, all on the same batches.
 *
 *   cornstarch  everything
 *   blind       like it, but every layer is taken to cost three forwards, whatever is frozen
 *   disttrain   ranks of their own for every branch, each with its own tp and dp, no cp; stages of
 *               equal numbers of layers; least warm-up + steady beats; LPT over replicas, slots
 *               reordered. Source: DistTrain (SIGCOMM 2025), whose formulas are reconstructed
 *   entrain     one dp for all branches, ranks of a replica dealt in proportion to work; min-max
 *               cut of true costs; least sum of all stages + steady beats; slots stratified by LLM
 *               work, pairwise deferral. Source: Entrain (arXiv 2605.27918). Its encoders form one
 *               module; here each has its share of the ranks
 *   modules     what the paper on Cornstarch does: every branch on ranks of its own with its own tp,
 *               cp and pp, one dp for all; min-max cut of true costs, plain 1F1B
 *   megatron    one tp, cp and dp for all branches, encoders on stages before the LLM's; stages of
 *               equal numbers of layers, plain 1F1B, samples as they are dealt by length */
#ifndef CS_SEARCH_PLANNERS_H
#define CS_SEARCH_PLANNERS_H

#include "core/spread/slot_policies.h"

enum cs_search_planner {
    CS_PLANNER_CORNSTARCH,
    CS_PLANNER_BLIND,
    CS_PLANNER_DISTTRAIN,
    CS_PLANNER_ENTRAIN,
    CS_PLANNER_MODULES,
    CS_PLANNER_MEGATRON,
    CS_PLANNERS
};

enum cs_search_cut { CS_CUT_TRUE, CS_CUT_BLIND, CS_CUT_LAYERS };

struct cs_planner_rules {
    const char *name;
    enum cs_search_cut cut;
    bool is_own_only; /* encoders never share ranks with the LLM */
    bool has_one_dp;  /* of all branches */
    bool has_one_tp;  /* and one cp */
    bool has_cp;
    bool is_proportional; /* ranks of a replica in proportion to work */
    bool is_plain_1f1b;
    bool sums_encoders; /* the warm-up counts every encoder, not the longest */
    bool uses_means;    /* a beat is work / stages, not the slowest stage */
    enum cs_assign_how how;
    bool defers;
};

extern const struct cs_planner_rules cs_planner_rules[CS_PLANNERS];

bool cs_planner_from_name(const char *name, enum cs_search_planner *out);
/* Ranks in proportion to work: at least one each, rounded down, what is left to the largest
 * remainders, ties to the first. n <= ranks. */
void cs_planner_deal(const double *work, int32_t n, int32_t ranks, int32_t *share);

#endif
