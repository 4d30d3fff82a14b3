/* The plan value: which layers of which branch run as which stage on which rank, under which
 * schedule, with predicted times. Immutable, canonical JSON encoding ("cornstarch.plan/1"),
 * SHA-256. Pure: the same spec, cluster and profile give the same bytes on every machine. Times are
 * integer nanoseconds of one slot filled to its budgets. */
#ifndef CS_PLAN_PLAN_H
#define CS_PLAN_PLAN_H

#include "core/model/budget.h"
#include "core/model/graph.h"
#include "core/plan/cluster.h"

struct cs_stage_bucket; /* core/plan/cost/stage/buckets.h */
struct cs_group;        /* core/plan/groups.h */

/* How many ranks a stage is spread over, dimension by dimension: tensors, context, replicas. 0
 * counts as 1, dp 0 as the plan's. Parts of a context split rows in the LLM, and share items in
 * encoders. Experts have no ranks of their own: ep neighbours of the dp * cp ranks that have all
 * else alike share those of every layer; it divides dp * cp. */
struct cs_rank_shape {
    int32_t tp, cp, ep, dp;
};

/* Where a rank stands in the shape of a stage, each from 0; dp: among all replicas of its branch. ep
 * follows from dp and cp: nobody has to give it. */
struct cs_rank_at {
    int32_t dp, ep, cp, tp;
};

struct cs_stage {
    const char *name; /* "vision.0", "llm.1" */
    int32_t id;       /* index in plan->stages; dataflow order: encoders' stages, then the llm's */
    int32_t branch;   /* graph->branches */
    int32_t index;    /* within the branch */
    int32_t rank;     /* of programs (see below); several stages may share one (colocated) */
    int32_t copies;   /* > 1: the whole branch, which as many ranks have; index: of the copy */
    struct cs_rank_shape shape;
    bool splits_rows;              /* sequence parallelism: between products, over its tp ranks */
    int32_t first_layer, n_layers; /* graph->layers */
    int64_t fwd_ns, bwd_input_ns, bwd_weight_ns; /* per slot */
    bool has_backward;                           /* a layer needs an input or weight gradient */
    bool needs_input_grad;                       /* sends a gradient to its producers */
    int32_t recompute;                           /* enum cs_recompute */
    /* what the ranks that have its weights divide among them (cs_plan_holders): 2: gradients, 3: and
     * weights; below: the optimizer's state alone */
    int32_t zero;
    bool offloads; /* activations of most slots wait in the host's memory (core/plan/offload.h) */
    /* parameters; gradients and what the optimizer keeps; activations of a slot */
    int64_t weight_bytes, state_bytes, saved_bytes; /* of one of its ranks */
    /* measured (a profile), 0: not. Of a slot: preparing its input on this rank; of a step, for
     * what trains here: gradients to 0, their squares, the optimizer */
    int64_t prepare_ns, clear_ns, norm_ns, update_ns;
    /* gradients that replicas sum as one: filled by cs_stage_buckets, no part of the encoding */
    const struct cs_stage_bucket *bucket;
    int32_t n_buckets;
};

/* What flows over an edge: rows from `from` to `to`, their gradients back. */
enum cs_edge_flow { CS_FLOW_ROWS, CS_FLOW_GRADIENTS, CS_FLOWS };

/* Rows flow from one stage to another: to the next of the branch, or through a feed of the graph to
 * the stage that has its layer. */
struct cs_edge {
    int32_t id, from, to;      /* stage ids */
    int32_t width;             /* elements per row */
    bool has_grad;             /* a gradient flows back */
    int64_t max_rows;          /* budget: rows of one slot */
    bool is_striped[CS_FLOWS]; /* core/plan/primitive.h */
    /* no part of the encoding: */
    int32_t feed;              /* graph->feeds, -1: the next stage of the branch */
    bool is_inner;             /* rows inside an encoder, before any are joined */
    bool takes_part[CS_FLOWS]; /* who receives them splits rows: each rank needs its own alone */
    /* beside the rows of a slot: loads of experts, for the balancing loss (worker/layer/loads.h) */
    int64_t load_bytes;
};

/* bytes of a message at most, of a buffer for it */
static inline int64_t cs_edge_bytes(const struct cs_edge *edge, int64_t element)
{
    return edge->max_rows * edge->width * element + edge->load_bytes;
}

/* A stage that exists once on each of n ranks (colocated encoders): this copy runs slot i where
 * i % n == at. n 0: all slots. */
struct cs_slot_share {
    int32_t n, at;
};

struct cs_plan {
    struct cs_stage *stages;
    struct cs_edge *edges;
    int32_t n_stages, n_edges;
    /* every communicator, sorted (core/plan/groups.h); follows from the rest, no part of the
     * encoding */
    const struct cs_group *group;
    int32_t n_groups;
    int32_t n_ranks; /* of programs, of one replica: what stages and edges name */
    /* (n_ranks + 1) the ranks of a replica before those of each rank of programs; NULL: one each.
     * Follows from the stages' shapes, no part of the encoding. */
    const int32_t *first;
    bool spreads_experts; /* a stage has ep above 1; follows as they do */
    /* replicas of the LLM; below 2: one. Replica k of them runs slot i of a step where i % dp == k */
    int32_t dp;
    /* How often the programs are repeated: the greatest number that divides the dp of all branches, 0: dp.
     * Follows from the stages' shapes (cs_plan_number_ranks), no part of the encoding. */
    int32_t repeats;
    const char *schedule; /* "1f1b", ...: the table in plan_schedule.c */
    /* (n_stages) or NULL: every stage runs every slot. Under three-phase and anchors an encoder is
     * as many stages as the LLM has ranks: "vision.2" is its copy on the LLM's rank 2. */
    const struct cs_slot_share *share;
    int32_t slots; /* slots a step is expected to have, over all replicas */
    int32_t
        context_rows; /* of a rank, before more ranks of a context split a slot (context.h); 0: all do */
    bool moves_heads; /* ranks of a context exchange heads, not keys (context.h) */
    bool
        keys_own_first; /* where keys are: attention over the own ones by itself, while others come */
    struct cs_slot_budget budget;
    /* tied head: embedding and head are on different stages, their gradients meet once a step */
    bool is_tied_across;
    int32_t embed_stage, head_stage;
    int64_t tied_bytes; /* gradient that their ranks exchange: of the table, with replicas of the
                         * part of it that each updates; 0: none */
    bool keeps_bf16;    /* as the graph's: what state_bytes are made of; no part of the encoding */
    int64_t predicted_step_ns;
    double *predicted_bubble; /* (n_stages) 1 - busy / makespan */
    const char **why;         /* sentences: what was tried, what was the bottleneck */
    int32_t n_why;
    char hash[65];
};

/* A replica of the whole: the ranks that run every program of the plan together. Where all branches have as
 * many replicas it has one of each. Else it has several of some, side by side: the lanes of a stage, all of
 * which run the stage's program. Slots of the same index in their programs lie side by side in the lanes
 * of the LLM; the items of all of them are shared by the lanes of an encoder. */
int32_t cs_plan_replicas(const struct cs_plan *plan);             /* 1 .. */
int32_t cs_plan_lanes(const struct cs_plan *plan, int32_t stage); /* of a replica */
int32_t cs_plan_side_by_side(const struct cs_plan *plan);         /* lanes of the LLM */
int32_t cs_plan_llm_replicas(const struct cs_plan *plan);         /* dp */
/* The slot of a step that a lane of the LLM has under an index of its program. */
int32_t cs_plan_slot(const struct cs_plan *plan, int32_t index, int32_t replica, int32_t lane);
int32_t cs_plan_world(const struct cs_plan *plan); /* ranks in all */

/* Ranks that share a stage (lanes, tensors, context) run one program: what stages, edges and
 * programs call a rank is all of them. So a rank of all is a replica, a rank of its program, and a
 * place among those that run it; they are numbered in this order. Nobody else does this
 * arithmetic. */
void cs_plan_number_ranks(struct cs_plan *plan,
                          struct cs_arena *arena);         /* what follows from shapes */
void cs_plan_count_repeats(struct cs_plan *plan);          /* repeats alone */
int32_t cs_common_divisor(int32_t a, int32_t b);           /* the greatest */
int32_t cs_plan_replica_ranks(const struct cs_plan *plan); /* of one replica */
int32_t cs_plan_width(const struct cs_plan *plan, int32_t rank_in_replica); /* that run it */
/* the first of them in a replica */
int32_t cs_plan_rank_of(const struct cs_plan *plan, int32_t replica, int32_t rank_in_replica);
/* of a rank of all */
int32_t cs_plan_replica(const struct cs_plan *plan, int32_t rank);
int32_t cs_plan_rank_in_replica(const struct cs_plan *plan, int32_t rank);
int32_t cs_plan_place(const struct cs_plan *plan, int32_t rank);
/* Who of the ranks that run another program of the same replica stands where this rank stands; where
 * there are fewer, one stands for several. */
int32_t cs_plan_peer(const struct cs_plan *plan, int32_t rank, int32_t rank_in_replica);
/* The shape of the stages of a rank of programs; and where a rank of all stands in it. They have one, but for
 * guests: encoders on ranks of the LLM that share its matrices, and share their items instead. */
struct cs_rank_shape cs_plan_rank_shape(const struct cs_plan *plan, int32_t rank_in_replica);
struct cs_rank_at cs_plan_at(const struct cs_plan *plan, int32_t rank);
/* A stage of an encoder on ranks that are shared in another way. All of them have its weights, of which
 * each makes a part of the gradient. */
bool cs_plan_is_guest(const struct cs_plan *plan, int32_t stage);
/* Its items are shared by all ranks of the LLM's stage beside it, not by a context alone: a guest's, and those of
 * slots that lie side by side. */
bool cs_plan_shares_all(const struct cs_plan *plan, int32_t stage);
/* How many ranks have the same weights: those of all replicas and lanes, and of the parts of a context. Which of
 * them a rank of all is; and how many have the same experts. */
int32_t cs_plan_holders(const struct cs_plan *plan, int32_t rank_in_replica);
int32_t cs_plan_holder(const struct cs_plan *plan, int32_t rank);
int32_t cs_plan_expert_holders(const struct cs_plan *plan, int32_t rank_in_replica);
/* Of the edge's two stages: numbers of lanes, or of ranks that share matrices. */
bool cs_plan_widths_differ(const struct cs_plan *plan, int32_t edge);
/* Rows of the edge's branch go between stages with different numbers of lanes, or of ranks that share
 * matrices: whoever proves what follows on a rank from messages of its program cannot do so. */
bool cs_plan_is_uneven(const struct cs_plan *plan, int32_t edge);
/* Programs repeated for the simulator, copy by copy. */
int32_t cs_plan_repeated(const struct cs_plan *plan, int32_t copy, int32_t rank_in_replica);

/* The shape of a stage with nothing left to defaults: every dimension is 1 or more. */
struct cs_rank_shape cs_plan_shape(const struct cs_plan *plan, int32_t stage);
/* ranks of a stage in one replica: lanes * tp * cp */
int32_t cs_plan_stage_ranks(const struct cs_plan *plan, int32_t stage);
/* Slots' worth of items of an encoder that one of its ranks can have at once: 1, or more where it shares those of
 * several slots that lie side by side. 1 for stages of the LLM. */
int32_t cs_plan_item_slots(const struct cs_plan *plan, int32_t stage);
/* The same of an encoder with so many ranks, lanes * cp, that share the items of so many slots. */
int32_t cs_item_slots(int32_t slots, int32_t parts);
/* The rank of all at a place of a stage: those that run its program follow each other by lane, then cp,
 * then tp (fastest). */
int32_t cs_plan_rank(const struct cs_plan *plan, int32_t stage, struct cs_rank_at at);
/* The inverse; false: the rank is none of the stage's. */
bool cs_plan_rank_at(const struct cs_plan *plan, int32_t stage, int32_t rank,
                     struct cs_rank_at *out);

int cs_plan_own_slots(const struct cs_plan *plan, int n_slots); /* of a step, most of a replica */

#endif
