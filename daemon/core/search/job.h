/* Private to core/search: memory between the stages of a trial, as the plan has it that a job makes of it. */
#ifndef CS_SEARCH_JOB_H
#define CS_SEARCH_JOB_H

#include "core/search/buffers.h"
#include "core/search/trial.h"

/* One replica of that plan. Its ranks of programs are those of the trial's plan; an encoder in every stage of the LLM
 * is a stage of its own on each of these ranks. */
struct cs_trial_job {
    struct cs_plan *plan;
    int64_t *held;       /* (n_stages) bytes of a slot between the halves of a split backward */
    int64_t *edge_bytes; /* (n_edges) of a buffer */
    bool
        has_own_orders; /* other stages than the trial: its replays say nothing about their order */
};

/* in the trial's scratch; the trial is lowered */
struct cs_trial_job cs_trial_job_make(const struct cs_trial *trial);
/* (n_ranks) bytes of windows of the channels that come to the first of each rank's ranks */
int64_t *cs_trial_job_windows(const struct cs_trial *trial, const struct cs_trial_job *job);
/* (n_ranks) buffers of edges, and of a tied table's gradient. n_buffers (n_edges, 2): of each end */
int64_t *cs_trial_job_boundary(const struct cs_trial *trial, const struct cs_trial_job *job,
                               const int32_t *n_buffers);

#endif
