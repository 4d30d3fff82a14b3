/* Variants of a plan request: another schedule, other slots (microbatches), another cut, other ranks
 * per branch. What the Plan view previews; nothing is submitted. Pure.
 *
 * What branches have beside stages (ranks that share matrices, contexts, replicas ...) is that of the
 * specification, or of a plan that a search found.
 *
 * The job's own variant is the plan that the daemon sent. Every other one is planned anew from the
 * specification, but for those that only order the same stages differently. Some schedules ask for
 * a modality (core/plan/plan_schedule.h); with the others it is the variant's. */
#ifndef CS_CONSOLE_WHATIF_VARIANT_H
#define CS_CONSOLE_WHATIF_VARIANT_H

#include "core/plan/cost/basis/profile.h"
#include "core/plan/layout.h"
#include "core/sched/sim/calibrate.h"

enum { CS_VARIANT_BRANCHES = CS_MAX_ENCODERS + 1, CS_VARIANT_SLOTS = 4096 };

struct cs_variant {
    char schedule[16];
    char modality[24];
    bool is_blind; /* cut as if everything trained */
    int32_t slots;
    int32_t pp[CS_VARIANT_BRANCHES]; /* stages of every branch, chunks not counted; of encoders that
                                        are whole on the LLM's ranks it means nothing */
    bool is_found; /* of a search: planned with this layout, not with the specification's */
    /* what branches have beside pp; its names and pp mean nothing, its places where modality is "mixed" */
    struct cs_layout layout;
    int32_t context_rows; /* with is_found; 0: the specification's */
};

/* What variants are made from; borrowed. */
struct cs_variant_base {
    const struct cs_spec *spec;
    const struct cs_graph *graph;
    const struct cs_cluster *cluster;
    const struct cs_plan *plan;         /* the job's own */
    const struct cs_measured *measured; /* costs of its stages, NULL: the roofline */
    int32_t cores;                      /* with measured */
    /* (graph->n_layers) with measured, else NULL: the roofline of a layer on a rank of its own, and
     * the same stretched as its stage was */
    const struct cs_layer_cost *roofline_cost, *measured_cost;
    double step_stretch; /* with measured: of the optimizer step */
};

struct cs_variant_plan {
    const struct cs_plan *plan;
    bool is_own; /* base->plan itself */
};

/* the schedules that a variant may have, NULL: past the end */
const char *cs_variant_schedule(int i);
/* encoders are copied to the ranks of the LLM */
bool cs_variant_shares(const struct cs_variant *variant);
/* of the job as it is */
struct cs_variant cs_variant_own(const struct cs_variant_base *base);
bool cs_variant_is_equal(const struct cs_variant *a, const struct cs_variant *b,
                         const struct cs_graph *graph);
/* stages that run at once: ranks in all, where one is a stage and nothing is copied */
int32_t cs_variant_width(const struct cs_variant *variant, const struct cs_graph *graph);
/* the whole layout of a variant, its names borrowed from the graph */
struct cs_layout cs_variant_layout(const struct cs_variant *variant, const struct cs_graph *graph);
/* ranks in all, replicas and those that share a stage with them */
int32_t cs_variant_ranks(const struct cs_variant *variant, const struct cs_graph *graph);
/* The same number of ranks under another schedule. Where that leaves stages in place they are the
 * job's own, if those are as many; where encoders had none, they get one rank each. */
void cs_variant_set_schedule(const struct cs_variant_base *base, const char *schedule,
                             struct cs_variant *variant);
/* the modalities that a variant may have, NULL: past the end */
const char *cs_variant_modality(int i);
/* The same number of ranks in another modality; a schedule that asks for its own becomes 1f1b. */
void cs_variant_set_modality(const struct cs_variant_base *base, const char *modality,
                             struct cs_variant *variant);
/* "vision 1 + llm 3", "llm 4 + vision shared"; with degrees "dp 2: vision 1 + llm 3 cp4" */
void cs_variant_layout_text(const struct cs_variant *variant, const struct cs_graph *graph,
                            bool has_degrees, char *out, size_t cap);

/* The plan of a variant, in the arena. Devices are not counted: more ranks than the cluster has are
 * fine to look at. CS_PLAN: it cannot be planned, with the reason. */
enum cs_status cs_variant_make(const struct cs_variant_base *base, const struct cs_variant *variant,
                               struct cs_arena *arena, struct cs_variant_plan *out,
                               struct cs_err *err) CS_NODISCARD;

/* cs_sim_cost of the plan of a variant; user: struct cs_variant_costs. */
struct cs_variant_costs {
    const struct cs_variant_base *base;
    bool is_own;
};

int64_t cs_variant_cost(void *user, const struct cs_program *program, int rank,
                        const struct cs_action *action);
/* Fills base->measured_cost and step_stretch from base->measured. */
void cs_variant_stretch(struct cs_variant_base *base, struct cs_arena *arena);

#endif
