/* What a search looks at: branches of layers, each with its costs and bytes on one rank under every
 * (tp, cp, recompute) that is allowed. Plain numbers: made from a graph and a cluster, or by hand
 * in experiments. Times in nanoseconds of one slot filled to its budgets, bytes of one rank. */
#ifndef CS_SEARCH_PROBLEM_H
#define CS_SEARCH_PROBLEM_H

#include "core/plan/cost/basis/profile.h"
#include "core/plan/layout.h"
#include "core/plan/plan.h"
#include "core/search/problem/widths.h"

/* Heads that move between the ranks of a context, of a rank behind tp: what that takes is cs_context_heads_bytes. */
struct cs_search_heads {
    struct cs_attention attention;
    int element;
};

/* Of bytes of a rank under ZeRO: what stays whole, a tied table; and beside them what others have, experts, and divide
 * with them. */
struct cs_search_apart {
    int64_t whole, others;
};

struct cs_search_layer {
    int64_t fwd_ns, bwd_input_ns, bwd_weight_ns;
    int64_t fwd_fixed_ns, bwd_fixed_ns,
        weight_fixed_ns; /* of these: what a short slot takes as well */
    int64_t redo_ns;     /* recomputed in the backward; 0 where there is none */
    int64_t blind_ns;    /* what a planner that ignores freezing takes: 3 F, and what is redone */
    int64_t weight_bytes, grad_bytes, optim_bytes; /* the last two by optimizer.state */
    struct cs_search_apart weight_apart, grad_apart;
    int64_t n_trained;                   /* parameters of a rank that train */
    int64_t saved_bytes;                 /* per slot in flight */
    int64_t held_bytes;                  /* ... between the halves of a split backward */
    int64_t work_bytes;                  /* while the layer runs */
    const struct cs_search_heads *heads; /* of work_bytes; NULL: none move */
    bool is_trained, needs_input_grad;
    bool is_head;        /* makes its gradients in its forward */
    bool reads_own_rows; /* at an end of a stage (core/plan/derive.h) */
};

static inline int64_t cs_search_divided_weights(const struct cs_search_layer *layer)
{
    return layer->weight_bytes - layer->weight_apart.whole;
}

static inline int64_t cs_search_divided_grads(const struct cs_search_layer *layer)
{
    return layer->grad_bytes - layer->grad_apart.whole;
}

/* What goes over a cut behind a layer, of a slot and of all ranks of a context. */
struct cs_search_cut_rows {
    int64_t bytes, load_bytes;
    bool is_read_whole; /* core/plan/derive.h */
};

/* Rows that an encoder hands to the LLM: who makes them, who takes them in. Layers of their branches. */
struct cs_search_feed {
    int32_t from_layer, to_layer;
};

struct cs_search_option {
    int32_t tp, cp;
    int32_t ep;       /* divides dp * cp; 0: 1 */
    bool sp;          /* its tp ranks split rows between products */
    bool is_slower;   /* than the same with the other sp: taken where it is asked for */
    bool moves_heads; /* between ranks of the context, not keys */
    uint64_t can;     /* where they do: numbers of these ranks that can (cs_context_degrees) */
    enum cs_recompute recompute;
    const struct cs_search_layer *layer; /* (n_layers) */
    /* of a context, where the other one of keys and heads moves; NULL: it cannot, or the job says which */
    const struct cs_search_layer *other;
    /* bytes and parameters of a tied table that its two layers count both and one rank that has
     * them both holds once; where state is fp32 each has a gradient of its own */
    struct cs_search_layer shared;
};

struct cs_search_branch {
    const char *name;
    int32_t n_layers, n_options;
    const struct cs_search_option *option;
    int64_t inner_bytes; /* rows between its stages, of one slot, before they are cut by tp * cp */
    int64_t out_bytes;   /* rows it hands to the LLM, over each feed */
    const struct cs_search_cut_rows *behind; /* (n_layers); NULL: inner_bytes behind every layer */
    const struct cs_search_feed *feed;       /* (n_feeds) */
    int32_t n_feeds;                         /* 0: one, from its last layer to the LLM's first */
    int32_t n_items; /* of a slot: what more replicas of an encoder share; 0: it cannot be shared */
    int64_t rows;    /* of a slot */
    /* Encoder whose items differ in size: of the largest. A sample's rows are taken for one item, those
     * beyond it for others like it. 0: all are alike, or the LLM, where a sample attends whole. */
    int64_t item_rows;
    double
        quad_share; /* of its time in a full slot that grows with the square of a sample's rows */
};

enum { CS_SEARCH_MAX_BRANCHES = CS_LAYOUT_MAX_BRANCHES };

/* What a search takes the optimizer for. */
struct cs_search_optimizer {
    const char *state;   /* optimizer.state: "fp32", "bf16"; NULL: bytes were given by hand */
    int64_t param_bytes; /* of a trained parameter with its weight and gradient */
    enum cs_step_source source;
    struct cs_profile_step step; /* all 0: CS_STEP_BYTES */
};

struct cs_search_problem {
    struct cs_search_branch branch[CS_SEARCH_MAX_BRANCHES]; /* in dataflow order */
    int32_t n_branches, llm;                                /* llm: which branch is the LLM */
    int32_t n_ranks, ranks_per_node;
    int64_t mem_bytes; /* of a rank, 0: no bound */
    bool has_windows;  /* communicators and channels take memory (core/plan/cost/links/windows.h) */
    int32_t
        context_rows; /* bytes are of plans with that plan.context_rows, unless a candidate has its own */
    int32_t zero_turns;                        /* core/plan/cost/stage/zero.h; 0: 1 */
    int64_t bytes_per_s;                       /* memory; 0: an optimizer that was not measured
                                                * takes no time */
    int64_t step_fixed_ns;                     /* of such an optimizer, whatever it updates */
    int64_t link_bytes_per_s, link_latency_ns; /* within a node; 0: takes no time */
    int64_t net_bytes_per_s, net_latency_ns;   /* between nodes */
    const char *stripes;                       /* plan.stripes; NULL: "auto" */
    int32_t units;                             /* of a device (core/plan/cluster.h) */
    const struct cs_link_curves *measured;     /* within a node; NULL: rings over the link */
    struct cs_search_optimizer optimizer;
};

/* tp of cs_search_widths that divide heads and widths, cp of them with tp * cp within a node (or
 * up to 64 ranks when groups may leave it; reach NULL: they may not), recompute none, selective, full where something is
 * saved. profile may be NULL: the roofline. Bytes and times of the optimizer are those of the
 * graph's state (keeps_bf16).
 *
 * tp divides products and their parameters; norms and a look-up are done on every tp rank; a block
 * all-reduces its rows twice each way (a projector, the embedding and the head once), or where that takes no longer
 * splits rows between products over them (sp): they travel beside products on GPUs, and less is kept
 * (core/plan/cost/tensors.h); the other way is there for whoever asks, behind all that are faster. cp divides the rows: of the LLM by the spec's rule (plan.context), so that a layer takes
 * what it takes on the rank with most work, and only keys move that some row sees; of encoders their items, between
 * which nothing moves. Collectives take what a profile measured of them, else
 * they are rings over the link of a node, or of the network where the group leaves it: 2 (n - 1) / n bytes / bandwidth + 2 (n - 1) latency, a gather half of
 * it. ep of them too, of an LLM with experts: each rank has its part of those of every layer, keeps as
 * many rows of pairs as can come to it, and waits for their ways (core/plan/cost/experts.h). */
enum cs_status cs_search_problem_make(const struct cs_spec *spec, const struct cs_graph *graph,
                                      const struct cs_cluster *cluster,
                                      const struct cs_profile *profile,
                                      const struct cs_search_reach *reach, struct cs_arena *arena,
                                      struct cs_search_problem **out,
                                      struct cs_err *err) CS_NODISCARD;
#endif
