/* Private to core/search: one layout under one schedule, on its way from a cut to a plan value that
 * orders, costs and bytes are taken from. Built anew for every evaluation. */
#ifndef CS_SEARCH_TRIAL_H
#define CS_SEARCH_TRIAL_H

#include "core/search/candidate.h"
#include "core/search/replay.h"

struct cs_trial_part { /* of a stage's times, by branch */
    int64_t fwd_ns, bwd_input_ns, bwd_weight_ns;
    int64_t fwd_fixed_ns, bwd_fixed_ns,
        weight_fixed_ns; /* of these: what a short slot takes as well */
};

struct cs_trial {
    const struct cs_search_problem *problem;
    const struct cs_search_options *options;
    struct cs_found *found;
    const struct cs_candidate *c;
    int32_t llm, slots, chunks;
    int32_t repeats; /* as the plan's: divides the replicas of every branch */
    const struct cs_search_option *option[CS_SEARCH_MAX_BRANCHES];
    /* layers with the branch's share of a slot */
    struct cs_search_layer *layer[CS_SEARCH_MAX_BRANCHES];
    bool *trains[CS_SEARCH_MAX_BRANCHES]; /* (n_layers + 1) something before this layer trains */
    int32_t first_rank[CS_SEARCH_MAX_BRANCHES]; /* of the pipeline; own branches */
    struct cs_arena *scratch;

    /* lowered */
    struct cs_plan *plan;
    struct cs_slot_share *share; /* (n_stages) */
    int32_t *group;              /* (n_stages) first chunk of its rank and branch */
    struct cs_trial_part *part;  /* (n_stages, n_branches) */
    struct cs_replay_kept *kept; /* (n_stages) bytes of a slot */
    int32_t *behind;             /* (n_edges) the layer of its branch whose rows it carries */
    int64_t *hop;                /* (n_edges, CS_FLOWS) */
    bool *is_striped;            /* (n_edges, CS_FLOWS) */
    int32_t first_stage[CS_SEARCH_MAX_BRANCHES];

    int32_t tight_branch; /* what did not fit */
    int64_t nearest;
    const int64_t *boundary; /* (n_ranks) bytes of buffers of its last cut; NULL: not cut yet */
};

/* scratch is the caller's and outlives the trial */
void cs_trial_start(struct cs_trial *trial, const struct cs_search_problem *problem,
                    const struct cs_search_options *options, struct cs_found *found,
                    struct cs_arena *scratch);

/* stages of the branch with ranks of their own, chunks counted; 0: it has none */
static inline int32_t cs_trial_stages(const struct cs_trial *t, int32_t b)
{
    const bool is_own = t->c->place[b] == CS_PLACE_OWN;
    return is_own ? t->c->pp[b] * (b == t->llm ? t->chunks : 1) : 0;
}

static inline int32_t cs_trial_shards(const struct cs_trial *t, int32_t b)
{
    return t->c->own_dp[b] * t->option[b]->cp;
}

/* replicas of a branch that one of the whole has side by side (cs_plan_lanes) */
int32_t cs_trial_lanes(const struct cs_trial *trial, int32_t branch);
/* ... with the ranks of each that share its rows or items: on ranks of the LLM all but those that share its matrices */
int32_t cs_trial_parts(const struct cs_trial *trial, int32_t branch);
/* slots' worth of items that one of its ranks has room for (cs_plan_item_slots) */
int32_t cs_trial_item_slots(const struct cs_trial *trial, int32_t branch);
/* of a branch's first layer among those of all branches */
int32_t cs_trial_base(const struct cs_trial *trial, int32_t branch);
/* memory of a branch's layers from the first on, without activations */
struct cs_memory_load cs_trial_load(const struct cs_trial *trial, int32_t branch, int32_t first);
/* of rings among ranks that share matrices, and experts; encoders on the LLM's ranks counted with it */
int64_t cs_trial_windows(const struct cs_trial *trial, int32_t branch);
/* whole encoders on a rank of the LLM: without activations */
void cs_trial_add_encoders(const struct cs_trial *trial, struct cs_memory *memory);

/* Every branch into found->sizes: smallest bottleneck by the planner's rule, every stage under the
 * cap with as many slots in flight as its place asks for; ties: the earliest cut. CS_PLAN. */
enum cs_status cs_trial_cut(struct cs_trial *trial, struct cs_arena *arena,
                            struct cs_err *err) CS_NODISCARD;
/* plan.context_rows of a plan of the candidate (cs_search_spec) */
int32_t cs_trial_rows_each(const struct cs_trial *trial);
/* of a buffer for what leaves a layer, of a rank; is_feed: to another branch */
int64_t cs_trial_edge_bytes(const struct cs_trial *trial, int32_t branch, int32_t layer,
                            bool is_feed);
/* edges at most; fills them and behind. Stages are there. */
int32_t cs_trial_most_edges(const struct cs_trial *trial);
void cs_trial_add_edges(struct cs_trial *trial);
/* Stages take longer by what their ranks wait for the traffic of levels 2 and 3 of ZeRO. Edges are there. */
void cs_trial_add_zero(struct cs_trial *trial);
/* Fills hop and is_striped, and adds what stages do for edges: after all else. */
void cs_trial_time_edges(struct cs_trial *trial);
/* stages, edges, times and bytes from found->sizes */
void cs_trial_lower(struct cs_trial *trial);
void cs_trial_add_layers(struct cs_trial_part *part, const struct cs_search_layer *layer,
                         int32_t n);
struct cs_trial_part *cs_trial_part_of(const struct cs_trial *trial, int32_t stage, int32_t branch);
/* orders for so many slots, in the scratch arena */
enum cs_status cs_trial_replay(const struct cs_trial *trial, int32_t slots, struct cs_replay **out,
                               struct cs_err *err) CS_NODISCARD;
/* (n_items) of full slots */
int64_t *cs_trial_costs(const struct cs_trial *trial, const struct cs_replay *replay);

#endif
