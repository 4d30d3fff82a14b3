/* What a plan takes longer than the best one, in words. */
#include "core/base/units.h"
#include "core/search/candidate.h"

struct loss {
    const char *what;
    double ns;
};

static bool redoes_more(const struct cs_search_plan *best, const struct cs_search_plan *plan)
{
    for (int32_t b = 0; b < plan->layout.n_branches; b++)
        if (plan->layout.branch[b].recompute > best->layout.branch[b].recompute)
            return true;
    return false;
}

const char *cs_search_loses(const struct cs_search_plan *best, const struct cs_search_plan *plan,
                            struct cs_arena *arena)
{
    double p = (double)plan->pipeline_ns, q = (double)best->pipeline_ns;
    double work = p * (1 - plan->bubble) - q * (1 - best->bubble);
    double idle = p * plan->bubble - q * best->bubble;
    const char *why = plan->n_ranks < best->n_ranks ? "more work per rank, of fewer ranks"
                      : redoes_more(best, plan)     ? "more work per rank, with more recompute"
                                                    : "more work per rank";
    struct loss loss[] = {
        {why,                              work                                     },
        {"more idle time in the pipeline", idle                                     },
        {"a longer exchange of gradients", (double)(plan->sync_ns - best->sync_ns)  },
        {"a longer optimizer",             (double)(plan->optim_ns - best->optim_ns)},
    };
    size_t most = 0;
    bool is_sampled = plan->mean_ns > 0 && best->mean_ns > 0;
    const double its = cs_search_job_time(plan), own = cs_search_job_time(best);
    for (size_t i = 1; i < CS_ARRAY_LEN(loss); i++)
        most = loss[i].ns > loss[most].ns ? i : most;
    if (its <= own)
        return "nothing in time";
    char part[CS_UNITS_CAP];
    double percent = own > 0 ? 100.0 * (its - own) / own : 0;
    if (!(loss[most].ns >
          0)) /* as fast when slots are full, slower on ragged ones, or as it runs */
        return cs_arena_printf(arena, "+%.1f%%: more %s", percent,
                               is_sampled ? "on ragged slots" : "as jobs run it");
    cs_duration_print(part, sizeof part, (uint64_t)loss[most].ns);
    return cs_arena_printf(arena, "+%.1f%%: %s of %s", percent, part, loss[most].what);
}
