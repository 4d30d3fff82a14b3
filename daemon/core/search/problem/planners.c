/* The rules of the planners as a table, and ranks dealt in proportion to work. */
#include "core/search/problem/planners.h"

#include <string.h>

/* clang-format off */
const struct cs_planner_rules cs_planner_rules[CS_PLANNERS] = {
    [CS_PLANNER_CORNSTARCH] = {.name = "cornstarch", .has_cp = true, .how = CS_ASSIGN_LIST2D},
    [CS_PLANNER_BLIND] = {.name = "blind",
                          .cut = CS_CUT_BLIND,
                          .has_cp = true,
                          .how = CS_ASSIGN_LIST2D},
    [CS_PLANNER_DISTTRAIN] = {.name = "disttrain",
                              .cut = CS_CUT_LAYERS,
                              .is_own_only = true,
                              .is_plain_1f1b = true,
                              .sums_encoders = true,
                              .uses_means = true,
                              .how = CS_ASSIGN_DISTTRAIN},
    [CS_PLANNER_ENTRAIN] = {.name = "entrain",
                            .is_own_only = true,
                            .has_one_dp = true,
                            .has_cp = true,
                            .is_proportional = true,
                            .is_plain_1f1b = true,
                            .sums_encoders = true,
                            .how = CS_ASSIGN_ENTRAIN,
                            .defers = true},
    [CS_PLANNER_MODULES] = {.name = "modules",
                            .is_own_only = true,
                            .has_one_dp = true,
                            .has_cp = true,
                            .is_plain_1f1b = true,
                            .how = CS_ASSIGN_LIST2D},
    [CS_PLANNER_MEGATRON] = {.name = "megatron",
                             .cut = CS_CUT_LAYERS,
                             .is_own_only = true,
                             .has_one_dp = true,
                             .has_one_tp = true,
                             .has_cp = true,
                             .is_plain_1f1b = true,
                             .sums_encoders = true,
                             .how = CS_ASSIGN_LPT},
};

/* clang-format on */

bool cs_planner_from_name(const char *name, enum cs_search_planner *out)
{
    for (int i = 0; i < CS_PLANNERS; i++)
        if (strcmp(cs_planner_rules[i].name, name) == 0) {
            *out = (enum cs_search_planner)i;
            return true;
        }
    return false;
}

void cs_planner_deal(const double *work, int32_t n, int32_t ranks, int32_t *share)
{
    double all = 0;
    int32_t left = ranks;
    for (int32_t b = 0; b < n; b++)
        all += work[b];
    for (int32_t b = 0; b < n; b++) {
        double exact = all > 0 ? ranks * work[b] / all : 1;
        share[b] = exact < 1 ? 1 : (int32_t)exact;
        left -= share[b];
    }
    for (; left < 0; left++) { /* branches that were rounded up to one */
        int32_t most = 0;
        for (int32_t b = 1; b < n; b++)
            most = share[b] > share[most] ? b : most;
        share[most]--;
    }
    for (; left > 0; left--) {
        int32_t most = 0;
        double rest = -1e300;
        for (int32_t b = 0; b < n; b++) {
            double own = (all > 0 ? ranks * work[b] / all : 1) - share[b];
            most = own > rest ? b : most;
            rest = own > rest ? own : rest;
        }
        share[most]++;
    }
}
