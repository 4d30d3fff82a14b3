/* What a runner runs, read once at its start from the job directory: specification, graph, where to
 * go on (runner/job/resume.h). Under which plan and on which devices is its generation (runner/job/generation.h). */
#ifndef CS_RUNNER_JOB_H
#define CS_RUNNER_JOB_H

#include <jansson.h>

#include "core/base/system/io.h"
#include "core/model/graph.h"
#include "core/model/spec.h"
#include "store/ckpt/ckpt_dir.h"

/* A checkpoint that a resume passed over. */
struct cs_run_skip {
    int64_t step;
    enum cs_status status; /* CS_CORRUPT: it is damaged; CS_NOT_FOUND: it is gone */
    char text[700];
};

struct cs_run_job {
    char dir[CS_PATH_CAP], ckpt_dir[CS_PATH_CAP];
    struct cs_arena *arena;
    json_t *spec_json;
    struct cs_spec *spec;
    struct cs_graph *graph;
    /* the newest valid checkpoint, or none */
    char resume[CS_PATH_CAP]; /* "" none */
    int64_t checkpoint_step;  /* -1 none */
    int64_t first_step;       /* 0 without a checkpoint */
    int64_t tokens, samples;  /* trained before first_step */
    int64_t skipped;          /* steps whose update was skipped, before first_step */
    json_t *cursor;           /* NULL without a checkpoint */
    json_t *inputs;           /* fingerprints of what it reads (runner/job/inputs.h) */
    struct cs_ckpt_dir ckpt_lock;
    struct cs_run_skip *skips; /* (n_skips) checkpoints that could not be used, newest first */
    int n_skips;
    char room_warning[300]; /* of the disk of the checkpoints, "" none */
    int n_before;           /* checkpoints put aside, as the job begins anew */
    int64_t from_job;       /* which wrote the checkpoint, 0 not known */
};

/* Reads DIR/spec.json; nothing to go on from yet. */
enum cs_status cs_run_job_open(const char *dir, struct cs_run_job *out,
                               struct cs_err *err) CS_NODISCARD;
/* a document of the job directory, "plan.json"; *out is a new reference, NULL on failure */
enum cs_status cs_run_job_document(const struct cs_run_job *job, const char *name, json_t **out,
                                   struct cs_err *err) CS_NODISCARD;
void cs_run_job_close(struct cs_run_job *job);

/* SHA-256 over the names and fp32 values of all trained parameters of a checkpoint, in order of
 * name: equal for equal weights whatever the layout that wrote it. */
enum cs_status cs_run_job_weights_hash(const struct cs_run_job *job, const char *checkpoint,
                                       char out[65], struct cs_err *err) CS_NODISCARD;

#endif
