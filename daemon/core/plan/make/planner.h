/* From a job to its plan: the only way in which plans of jobs are made. */
#ifndef CS_PLAN_MAKE_PLANNER_H
#define CS_PLAN_MAKE_PLANNER_H

#include "core/model/spec.h"
#include "core/plan/plan.h"

/* Plan a spec on a cluster. Modality and schedule decide the placing:
 *   encoder-parallel    every stage on a rank of its own; interleaved: the LLM's pp ranks have two
 *                       stages each, chunk by chunk
 *   encoder-colocated   stage s of every branch on rank s; three-phase, anchors: a copy of every
 *                       encoder (pp 1) on each rank of the LLM, which share the slots
 *   encoder-first       every encoder (pp 1) on the LLM's first rank, whose stage of the LLM is
 *                       shorter for it: one chain of ranks with the same load
 *   encoder-replicated  a copy of every encoder (pp 1) on each rank of the LLM, for every slot: the
 *                       baseline that pays in time for what colocated copies share
 * Errors (CS_PLAN): more stages than layers, more ranks than devices, an
 * item larger than seq_tokens ... each with the figures and a hint. */
enum cs_status cs_plan_make(const struct cs_spec *spec, const struct cs_graph *graph,
                            const struct cs_cluster *cluster, struct cs_arena *arena,
                            struct cs_plan **out, struct cs_err *err) CS_NODISCARD;
/* The same for one of many, as searches look at: what does not fit in memory is not told what would, which takes a plan for
 * each setting that might. */
enum cs_status cs_plan_try(const struct cs_spec *spec, const struct cs_graph *graph,
                           const struct cs_cluster *cluster, struct cs_arena *arena,
                           struct cs_plan **out, struct cs_err *err) CS_NODISCARD;
/* The budgets of a slot for a spec: what cs_plan_make fills plan->budget with. */
enum cs_status cs_plan_budget(const struct cs_spec *spec, const struct cs_graph *graph,
                              struct cs_slot_budget *out, struct cs_err *err) CS_NODISCARD;

#endif
