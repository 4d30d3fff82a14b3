/* What follows from a candidate alone: shares of slots, times of layers and collectives, modality. */
#include "core/search/candidate.h"

#include "core/plan/cost/links/links.h"

struct cs_share cs_share_of(const struct cs_search_branch *branch, int32_t parts, int32_t times)
{
    int64_t items = branch->n_items > parts ? branch->n_items : parts;
    return (struct cs_share){(items * times + parts - 1) / parts, items};
}

int64_t cs_share_ns(struct cs_share share, int64_t value)
{
    return share.num == share.den ? value : (value * share.num + share.den - 1) / share.den;
}

static int32_t parts_on_llm(const struct cs_search_problem *problem, int32_t b, int32_t option,
                            int32_t llm_option)
{
    const struct cs_search_option *own = &problem->branch[b].option[option];
    const struct cs_search_option *its = &problem->branch[problem->llm].option[llm_option];
    return its->tp * its->cp / (own->tp * own->cp);
}

struct cs_share cs_candidate_share(const struct cs_search_problem *problem,
                                   const struct cs_candidate *c, int32_t b)
{
    int32_t parts = 1, times = 1;
    if (c->place[b] == CS_PLACE_COLOCATED)
        parts = parts_on_llm(problem, b, c->option[b], c->option[problem->llm]);
    else if (c->place[b] == CS_PLACE_OWN) {
        const int32_t both = cs_common_divisor(c->own_dp[b], c->dp);
        parts = c->own_dp[b] / both;
        times = c->dp / both;
    }
    return cs_share_of(&problem->branch[b], parts, times);
}

struct cs_device_class cs_search_device(const struct cs_search_problem *problem)
{
    return (struct cs_device_class){.units = problem->units,
                                    .mem_bytes = problem->mem_bytes,
                                    .bytes_per_s = problem->bytes_per_s,
                                    .link_bytes_per_s = problem->link_bytes_per_s,
                                    .link_latency_ns = problem->link_latency_ns,
                                    .net_bytes_per_s = problem->net_bytes_per_s,
                                    .net_latency_ns = problem->net_latency_ns,
                                    .measured = problem->measured};
}

struct cs_device_class cs_search_replica_link(const struct cs_search_problem *problem,
                                              int32_t shards, int32_t tp)
{
    const bool leaves = (int64_t)shards * tp > problem->ranks_per_node;
    struct cs_device_class link = cs_search_device(problem);
    if (leaves) {
        link.link_bytes_per_s = problem->net_bytes_per_s;
        link.link_latency_ns = problem->net_latency_ns;
        link.measured = NULL;
    }
    return link;
}

int64_t cs_search_gather_ns(const struct cs_search_problem *problem, int32_t shards, int32_t tp,
                            int64_t bytes)
{
    const struct cs_device_class link = cs_search_replica_link(problem, shards, tp);
    return cs_exchange_ns(&link, CS_LINK_ALL_GATHER, shards, bytes);
}

int cs_search_next_zero(unsigned zeros, int zero)
{
    static const int order[] = {1, 0, 2, 3};
    bool is_after = zero < 0;
    for (size_t i = 0; i < CS_ARRAY_LEN(order); i++) {
        if (is_after && (zeros >> order[i] & 1) != 0)
            return order[i];
        is_after = is_after || order[i] == zero;
    }
    return -1;
}

int32_t cs_candidate_modality(const struct cs_search_problem *problem, const struct cs_candidate *c)
{
    int32_t first = -1;
    for (int32_t b = 0; b < problem->n_branches; b++) {
        if (b == problem->llm)
            continue;
        first = first < 0 ? b : first;
        if (c->place[b] != c->place[first])
            return CS_SEARCH_MIXED;
    }
    return first >= 0 ? c->place[first] : CS_PLACE_OWN;
}

int64_t cs_search_layer_ns(const struct cs_search_layer *layer, enum cs_search_cut cut)
{
    return cut == CS_CUT_BLIND
               ? layer->blind_ns
               : layer->fwd_ns + layer->bwd_input_ns + layer->bwd_weight_ns + layer->redo_ns;
}

int64_t cs_search_time(const struct cs_search_plan *plan)
{
    return plan->mean_ns > 0 ? plan->mean_ns : plan->step_ns;
}

double cs_search_job_time(const struct cs_search_plan *plan)
{
    const bool is_known = plan->runs && plan->job.step_ns > 0 && plan->step_ns > 0;
    const double times = is_known ? (double)plan->job.step_ns / (double)plan->step_ns : 1;
    return (double)cs_search_time(plan) * times;
}
