/* What a runner runs, made once at its start from the job directory: spec, graph, plan, where to go
 * on. */
#ifndef CS_RUNNER_JOB_H
#define CS_RUNNER_JOB_H

#include <jansson.h>

#include "core/base/io.h"
#include "core/model/graph.h"
#include "core/plan/plan.h"

enum { CS_HERE_DEVICES = 8 }; /* CPU ranks this node offers */

struct cs_run_job {
    char dir[CS_PATH_CAP], ckpt_dir[CS_PATH_CAP];
    struct cs_arena *arena;
    json_t *spec_json, *plan_json;
    struct cs_spec *spec;
    struct cs_graph *graph;
    struct cs_plan *plan;
    struct cs_cluster cluster;
    int64_t generation; /* of this run: 0, 1, ... */
    /* the newest valid checkpoint, or none */
    char resume[CS_PATH_CAP]; /* "" none */
    int64_t checkpoint_step;  /* -1 none */
    int64_t first_step;       /* 0 without a checkpoint */
    int64_t tokens, samples;  /* trained before first_step */
    int64_t skipped;          /* steps whose update was skipped, before first_step */
    json_t *cursor;           /* NULL without a checkpoint */
};

/* Reads DIR/spec.json, plans (here: what its "here" is), writes DIR/plan.json. CS_PLAN with the
 * difference when the plan is not the one the spec was previewed with, unless is_replan. Broken
 * checkpoints are named through on_skip. */
enum cs_status cs_run_job_open(const char *dir, const struct cs_here *here, bool is_replan,
                               void (*on_skip)(void *, const char *), void *user,
                               struct cs_run_job *out, struct cs_err *err) CS_NODISCARD;
void cs_run_job_close(struct cs_run_job *job);

/* "vision.0+llm.0": the stages of a rank; "no stage" where it has none */
void cs_run_job_stages(const struct cs_plan *plan, int rank, char *out, size_t cap);
/* "rank 2 (llm.1)" */
void cs_run_job_rank_name(const struct cs_plan *plan, int rank, char *out, size_t cap);
/* SHA-256 over the names and fp32 values of all trained parameters of a checkpoint, in order of
 * name: equal for equal weights whatever the layout that wrote it. */
enum cs_status cs_run_job_weights_hash(const struct cs_run_job *job, const char *checkpoint,
                                       char out[65], struct cs_err *err) CS_NODISCARD;

#endif
