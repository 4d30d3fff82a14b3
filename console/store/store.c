/* Makes and frees the store, keeps its lists short, and derives figures from them. Messages of the
 * daemon come in through messages.c, documents through model.c, files through replay.c. */
#include "console/store/store.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/str.h"
#include "core/wire/job_state.h"

enum { ETA_STEPS = 100 };

static const struct cs_store_step no_step = {.step = -1,
                                             .loss = (double)NAN,
                                             .grad_norm = (double)NAN,
                                             .lr = (double)NAN,
                                             .aux_loss = (double)NAN};

struct cs_store *cs_store_new(void)
{
    struct cs_store *store = calloc(1, sizeof *store);
    CS_ASSERT(store);
    store->jobs = calloc(CS_STORE_JOBS, sizeof *store->jobs);
    CS_ASSERT(store->jobs);
    cs_lines_init(&store->logs, CS_STORE_LOGS);
    cs_lines_init(&store->notes, CS_STORE_NOTES);
    cs_metrics_init(&store->metrics);
    for (int i = 0; i < CS_STORE_BESIDE; i++)
        cs_metrics_init(&store->beside[i].metrics);
    cs_store_select(store, 0);
    return store;
}

static void model_free(struct cs_store_model *model)
{
    cs_arena_free(model->arena);
    json_decref(model->spec_json);
    json_decref(model->plan_json);
    *model = (struct cs_store_model){0};
}

static void forget_job(struct cs_store *store)
{
    store->edition++;
    model_free(&store->model);
    cs_timeline_clear(&store->predicted);
    cs_timeline_clear(&store->measured);
    cs_series_free(store->loss);
    cs_series_free(store->step_ms);
    cs_series_free(store->balance);
    cs_metrics_free(&store->metrics);
    free(store->stages);
    store->stages = NULL;
    store->loss = store->step_ms = store->balance = NULL;
    store->n_stages = store->n_ranks = 0;
    cs_store_context_forget(store);
    store->shown_step_ns = 0;
    store->is_calibrated = store->is_uncalibrated = false;
}

void cs_store_free(struct cs_store *store)
{
    if (!store)
        return;
    forget_job(store);
    cs_store_set_beside(store, NULL, 0);
    cs_lines_free(&store->logs);
    cs_lines_free(&store->notes);
    free(store->jobs);
    free(store->gpus.gpu);
    json_decref(store->found.plans);
    free(store);
}

void cs_store_select(struct cs_store *store, int64_t job)
{
    forget_job(store);
    store->job = job;
    store->train = store->eval = no_step;
    store->loss = cs_series_new(CS_STORE_SERIES);
    store->step_ms = cs_series_new(CS_STORE_SERIES);
    store->balance = cs_series_new(CS_STORE_SERIES);
    store->wants_show = false;
    store->model_error[0] = '\0';
    cs_lines_clear(&store->logs);
    cs_lines_clear(&store->notes);
    store->version++;
}

void cs_store_connected(struct cs_store *store, bool is_connected)
{
    store->is_connected = is_connected;
    store->version++;
}

const struct cs_store_job *cs_store_find(const struct cs_store *store, int64_t job)
{
    for (int i = 0; i < store->n_jobs; i++)
        if (store->jobs[i].id == job)
            return &store->jobs[i];
    return NULL;
}

const struct cs_store_job *cs_store_selected(const struct cs_store *store)
{
    return cs_store_find(store, store->job);
}

/* Jobs stand newest first; when there are too many the oldest goes, but not the selected one. */
struct cs_store_job *cs_store_job_at(struct cs_store *store, int64_t id)
{
    int at = 0;
    while (at < store->n_jobs && store->jobs[at].id > id)
        at++;
    if (at < store->n_jobs && store->jobs[at].id == id)
        return &store->jobs[at];
    if (store->n_jobs == CS_STORE_JOBS) {
        int last = store->n_jobs - 1;
        if (store->jobs[last].id == store->job)
            last--;
        memmove(&store->jobs[last], &store->jobs[last + 1],
                (size_t)(store->n_jobs - last - 1) * sizeof *store->jobs);
        store->n_jobs--;
        if (at > last)
            at--;
    }
    memmove(&store->jobs[at + 1], &store->jobs[at],
            (size_t)(store->n_jobs - at) * sizeof *store->jobs);
    store->n_jobs++;
    store->jobs[at] = (struct cs_store_job){.id = id,
                                            .step = -1,
                                            .steps = -1,
                                            .checkpoint_step = -1,
                                            .energy_mj = -1,
                                            .step_energy_mj = -1,
                                            .tokens_per_j = (double)NAN,
                                            .loss = (double)NAN,
                                            .bubble = (double)NAN,
                                            .exact_match = (double)NAN};
    return &store->jobs[at];
}

const struct cs_store_line *cs_store_line(const struct cs_store_lines *lines, int i)
{
    CS_ASSERT(i >= 0 && i < lines->n);
    return &lines->line[lines->order[i]];
}

bool cs_state_is_over(const char *state)
{
    return cs_job_state_is(state, CS_PHASE_ENDED);
}

int64_t cs_store_ran_ns(const struct cs_store *store, const struct cs_store_job *job)
{
    const int64_t end_ns = job->ended_ns > 0 ? job->ended_ns : store->now_ns;
    const int64_t ran_ns = end_ns - job->started_ns - job->stopped_ns;
    return job->started_ns > 0 && ran_ns >= 0 ? ran_ns : -1;
}

int64_t cs_store_eta_ns(const struct cs_store *store, const struct cs_store_job *job)
{
    if (strcmp(job->state, "RUN") != 0 || job->steps <= 0 || job->step < 0)
        return -1;
    /* steps of our own are known; of others the pace of the whole job, which no single step moves */
    const int64_t ran_ns = cs_store_ran_ns(store, job);
    double step_ns =
        ran_ns > 0 && job->step > 0 ? (double)ran_ns / (double)job->step : (double)job->step_ns;
    if (job->id == store->job && cs_series_last_step(store->step_ms) >= 0) {
        struct cs_series_bucket mean; /* of the last steps: single steps are noisy */
        int64_t last = cs_series_last_step(store->step_ms);
        if (cs_series_read(store->step_ms, last - (ETA_STEPS - 1), last + 1, 1, &mean) == 1 &&
            mean.n)
            step_ns = cs_series_mean(&mean) * 1e6;
    }
    double left = (double)(job->steps - job->step);
    return step_ns > 0 && left >= 0 && left * step_ns < 9e18 ? (int64_t)(left * step_ns) : -1;
}

double cs_store_tokens_per_s(const struct cs_store *store)
{
    int64_t tokens = store->train.tokens > 0 ? store->train.tokens : store->train.trained_tokens;
    return tokens > 0 && store->train.step_ns > 0
               ? (double)tokens * 1e9 / (double)store->train.step_ns
               : (double)NAN;
}

void cs_store_stages(struct cs_store *store, int32_t n_stages, int32_t n_ranks)
{
    free(store->stages);
    store->stages = calloc(n_stages > 0 ? (size_t)n_stages : 1, sizeof *store->stages);
    CS_ASSERT(store->stages);
    for (int32_t i = 0; i < n_stages; i++)
        store->stages[i].work_ns = (double)NAN;
    store->n_stages = n_stages;
    store->n_ranks = n_ranks;
}

void cs_store_measured(struct cs_store *store)
{
    static const double weight = 0.1; /* of the newest step: single steps are noisy */
    for (int32_t s = 0; s < store->n_stages; s++) {
        struct cs_store_stage *stage = &store->stages[s];
        struct cs_timeline_stage last = cs_timeline_stage(&store->measured, s, stage->rank);
        double work_ns = cs_timeline_work_ns(&last);
        if (isnan(stage->work_ns))
            stage->work_ns = work_ns;
        else if (!isnan(work_ns))
            stage->work_ns += weight * (work_ns - stage->work_ns);
    }
}
