/* A generation of a job: one plan with its members. It is made when a run starts or goes on, before
 * any process is; every process of the run enters the same one. The members of every communicator
 * are in the plan's table of groups (core/plan/groups.h), which of them holds which part of which
 * parameter is in the checkpoints (core/model/slice.h). */
#ifndef CS_RUNNER_GENERATION_H
#define CS_RUNNER_GENERATION_H

#include "core/plan/cluster.h"
#include "runner/job/devices.h"
#include "runner/job/job.h"
#include "runner/job/span_keys.h"

enum { CS_HERE_DEVICES = 8 }; /* CPU ranks this node offers */

struct cs_run_generation {
    int64_t id; /* 0, 1, ... */
    struct cs_cluster cluster;
    struct cs_plan *plan;
    json_t *plan_json;
    int n_ranks;                         /* of all replicas */
    const struct cs_rank_device *device; /* (n_ranks) where each runs */
    struct cs_keys keys;                 /* of the programs, by number of slots */
};

struct cs_run_members {
    struct cs_here here; /* what "here" is; zero: CPU ranks */
    const char *lease;   /* devices of the ranks, "cuda:0,cuda:1"; NULL: the first of the node */
};

/* Plans the job for its members, writes DIR/plan.json and lowers the program of a usual step, so
 * that its proof speaks before anything starts. Lives in the job's arena. CS_PLAN: more ranks than
 * devices; or, unless is_replan, a plan that is not the one the specification was previewed with,
 * with the difference. cs_run_generation_end either way. */
enum cs_status cs_run_generation_make(const struct cs_run_job *job,
                                      const struct cs_run_members *members, bool is_replan,
                                      struct cs_run_generation *out,
                                      struct cs_err *err) CS_NODISCARD;
void cs_run_generation_end(struct cs_run_generation *generation); /* fine for a zeroed one */

/* "vision.0+llm.0": the stages of a rank; "no stage" where it has none */
void cs_run_rank_stages(const struct cs_plan *plan, int rank, char *out, size_t cap);
/* "rank 2 (llm.1)" */
void cs_run_rank_name(const struct cs_plan *plan, int rank, char *out, size_t cap);
#endif
