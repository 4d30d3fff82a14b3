/* The store: what the console knows of its daemon. It mirrors the list of jobs and, for one
 * selected job, its specification, graph, plan, predicted and measured timelines, step figures,
 * notes and log lines. Fed with the daemon's messages as they come, or with a trace file; views
 * read it. Nothing here talks to anybody. Memory is bounded: lists keep the newest entries.
 *
 * Whatever a peer sends is checked; what makes no sense is dropped. `version` moves with every
 * change, so that a screen knows when to draw. */
#ifndef CS_CONSOLE_STORE_STORE_H
#define CS_CONSOLE_STORE_STORE_H

#include <jansson.h>

#include "console/store/lines.h"
#include "console/store/metrics.h"
#include "console/store/timeline.h"
#include "core/base/system/log.h"
#include "core/model/graph.h"
#include "core/plan/cost/basis/profile.h"
#include "core/trace/series.h"

enum {
    CS_STORE_JOBS = 1000,
    CS_STORE_LOGS = 5000,
    CS_STORE_NOTES = 200,
    CS_STORE_LINE = 512, /* bytes of an alarm that are kept */
    CS_STORE_SERIES = 1024,
    CS_STORE_GPUS = 64,
    CS_STORE_GPU_HISTORY = 120,
    CS_STORE_GPU_PROCESSES = 16,
    CS_STORE_PARTS = 4096,
    CS_STORE_CELLS = 128,
    CS_STORE_RULES = 8,
    CS_STORE_BESIDE = 4
};

struct cs_store_job {
    int64_t id;
    char name[64], owner[32], state[16], reason[512], dir[512];
    char spec_hash[65], plan_hash[65];
    char tags[256], note[512]; /* tags: a space between two */
    int64_t place;             /* in the queue, 0: it is not in it */
    char alarm[CS_STORE_LINE]; /* the worst, as cs_alarm_print says it; "" none */
    int n_alarms, alarm_level; /* rules that raised some; level of the worst (enum cs_log_level) */
    int64_t step, steps;       /* finished, asked for; -1 unknown */
    int64_t submitted_ns, started_ns, ended_ns; /* wall time, 0 unknown */
    int64_t stopped_ns;                         /* of started to ended or now: it did not run */
    int64_t checkpoint_step;                    /* -1 none */
    int64_t predicted_step_ns, step_ns;         /* 0 unknown */
    int64_t generation;
    int64_t energy_mj, step_energy_mj; /* -1 not measured */
    double tokens_per_j;               /* NaN not measured */
    double loss, bubble, exact_match;  /* NaN unknown; bubble: mean over ranks */
};

struct cs_store_step { /* the last step of its kind */
    int64_t step;      /* 0-based, -1 none */
    int64_t step_ns, tokens, trained_tokens, samples, correct, slots; /* 0 unknown */
    int64_t messages, bytes, data_wait_us, wall_ns;
    double loss, grad_norm, lr;
    double aux_loss; /* of the experts' balance; NaN: none is trained */
};

/* What a rank of a context had of the LLM's rows in a step. */
struct cs_store_part {
    int32_t rank, group; /* group: ranks that split the same rows */
    int64_t rows, pairs, wait_us;
    int64_t busy_us;    /* computing in the step, the wait is part of it; -1 unknown */
    double flops, most; /* of the forward; of the rank of its group that has most */
};

/* The slot with most work of those that were split, as runner.step tells it (core/wire/schema.def). */
struct cs_store_sequence {
    int64_t step, rows, block, docs;
    int n_cells; /* 0: none was told yet */
    char what[CS_STORE_CELLS + 1];
    double work[CS_STORE_CELLS]; /* the most: 1 */
    char own[16];                /* the job's rule */
    int n_rules, ranks;

    struct cs_store_rule {
        char name[16];
        float *load;  /* (ranks) 1: an even share; owned */
        double worst; /* the largest */
    } rule[CS_STORE_RULES];
};

struct cs_store_context {
    int64_t step, step_ns;      /* the last step of training */
    double balance;             /* largest work over the mean, of the worst group; NaN unknown */
    int n;                      /* 0: rows are not split */
    struct cs_store_part *part; /* (n) owned */
    struct cs_store_sequence sequence;
};

struct cs_store_gpu_process {
    int64_t pid, mem_bytes; /* -1 unknown */
    char command[64];       /* "" unknown */
};

struct cs_store_gpu { /* or a CPU rank; integers: -1 unknown; shares: 0..1, NaN unknown */
    char name[16], model[96], error[96], throttle[96];
    double busy, mem_busy;
    int64_t mem_bytes, mem_used_bytes, power_mw, power_limit_mw, temp_c, slowdown_c;
    int64_t sm_mhz, sm_max_mhz, mem_mhz, energy_mj;
    int64_t pcie_gen, pcie_max_gen, pcie_width, pcie_max_width;
    int64_t job, rank;                    /* who holds it; job 0: nobody */
    char owner[32];                       /* of that job */
    int n_history, n_processes;           /* n_processes -1: unknown */
    double history[CS_STORE_GPU_HISTORY]; /* busy, a second apart, the newest last */
    struct cs_store_gpu_process process[CS_STORE_GPU_PROCESSES];
};

struct cs_store_gpus {
    struct cs_store_gpu *gpu;
    int n;
    bool is_known; /* the daemon has told */
    char note[256];
};

struct cs_store_stage {
    char name[32];
    int32_t rank;
    double work_ns; /* measured per slot, forward and backward; moving mean over steps, NaN none */
};

/* what is derived from specification and plan */
struct cs_store_model {
    struct cs_arena *arena;
    json_t *spec_json, *plan_json;
    struct cs_spec *spec;
    struct cs_graph *graph;
    struct cs_plan *plan; /* NULL: not planned yet */
    const struct cs_device_class *device;
    struct cs_cluster cluster;
    struct cs_layer_cost *layer_cost; /* (graph->n_layers) NULL without a plan */
    struct cs_measured *measured;     /* costs that the prediction is made with, or NULL */
    int32_t cores;                    /* with measured */
};

/* A job whose curves are laid over those of the selected one. */
struct cs_store_beside {
    int64_t job;               /* 0: none */
    struct cs_metrics metrics; /* no curve: the daemon has not answered yet */
    json_t *spec;              /* NULL: as well */
};

/* Plans that a search of a script found. */
struct cs_store_found {
    json_t *plans;   /* rows of its document, owned; NULL: there is no search */
    int picked;      /* the one that is shown, from 1; 0: none */
    bool is_job;     /* the script makes a job of one, so that it can run */
    char words[800]; /* of a command that names the script; "" it cannot be run from here */
};

struct cs_store {
    uint64_t version;
    struct cs_here here; /* what cs.cluster "here" is to the daemon, or to a script */
    bool is_connected;
    bool is_replay; /* a trace or a script: nobody to give orders to */
    bool is_script; /* its job has a number here alone */
    char node[64];
    int64_t now_ns; /* wall time that elapsed times refer to; set by the owner */

    struct cs_store_job *jobs; /* newest first */
    int n_jobs;
    int64_t job; /* selected, 0 none */

    struct cs_store_model model;
    uint64_t edition; /* of model: moves when plan or costs change, and their memory with them */
    bool wants_show;  /* plan or prediction changed: somebody should ask job.show again */
    int64_t shown_step_ns; /* predicted_step_ns of the last job.show */
    bool is_calibrated;    /* predicted: with the measured costs of this very plan */
    bool is_uncalibrated;  /* the job predicts with measured costs, which the daemon did not send */
    char model_error[256]; /* why specification or plan could not be read */
    struct cs_store_stage *stages;
    int32_t n_stages, n_ranks;
    struct cs_timeline predicted, measured;
    bool is_measured_held; /* set by the owner: measured stays as it is */
    struct cs_store_step train, eval;
    struct cs_store_context context;
    struct cs_series *loss, *step_ms, *balance;
    struct cs_metrics metrics; /* of the selected job */
    struct cs_store_beside beside[CS_STORE_BESIDE];
    struct cs_store_lines logs, notes;
    struct cs_store_gpus gpus;
    bool wants_past; /* lines were lost on the way: somebody should ask for them again */
    int64_t n_gaps;  /* messages the daemon dropped for us */
    struct cs_store_found found; /* of a script */
};

struct cs_store *cs_store_new(void);
void cs_store_free(struct cs_store *store); /* accepts NULL */
/* forgets what belonged to the job before */
void cs_store_select(struct cs_store *store, int64_t job);
void cs_store_connected(struct cs_store *store, bool is_connected);
/* Any message of a daemon. job.metrics and job.events carry no job: pass on only answers to
 * questions about the selected one. Unknown messages are ignored. */
void cs_store_message(struct cs_store *store, const json_t *msg);
/* A trace file (core/trace/tracefile.h); it becomes the selected job, with the last step in it as
 * the measured one. */
enum cs_status cs_store_trace(struct cs_store *store, const void *bytes, size_t n,
                              struct cs_err *err) CS_NODISCARD;
/* A trace and what lies beside it in a job directory: spec.json, plan.json, journal, logs/. */
enum cs_status cs_store_replay(struct cs_store *store, const char *trace_path,
                               struct cs_err *err) CS_NODISCARD;
/* The plan of a job's specification that was not submitted, as a job of its own; nothing can be
 * ordered about it. CS_PLAN and what reading a specification gives. */
enum cs_status cs_store_script(struct cs_store *store, const json_t *spec,
                               struct cs_err *err) CS_NODISCARD;
/* The search of a script; rows are taken from its document. words: behind `run`, blanks of a word behind a
 * backslash. */
void cs_store_found(struct cs_store *store, const json_t *document, const char *words, bool is_job);
/* When nothing was measured live yet and the selected job's directory can be read from here: the
 * last step of its trace, if it is of the same plan. */
void cs_store_adopt_trace(struct cs_store *store);
/* Which jobs are laid over: those that are new have no curves yet, others are forgotten. */
void cs_store_set_beside(struct cs_store *store, const int64_t *jobs, int n);
/* A job.metrics or job.show answer about one of them. */
void cs_store_beside_message(struct cs_store *store, int64_t job, const json_t *msg);
/* Read documents of the selected job; plan may be NULL. A failure is kept in model_error. */
void cs_store_documents(struct cs_store *store, const json_t *spec, const json_t *plan);

/* Measured costs (core/sched/sim/calibrate.h), after the documents: the selected job is predicted
 * with them. NULL, of another plan or damaged: nothing happens. */
void cs_store_profile(struct cs_store *store, const json_t *profile);

const struct cs_store_job *cs_store_find(const struct cs_store *store, int64_t job); /* NULL */
const struct cs_store_job *cs_store_selected(const struct cs_store *store);          /* NULL */
/* i-th of lines, 0 the oldest that is kept */
const struct cs_store_line *cs_store_line(const struct cs_store_lines *lines, int i);
bool cs_state_is_over(const char *state); /* its phase is ENDED */
/* nanoseconds that it ran so far, without pauses; -1: it has not begun */
int64_t cs_store_ran_ns(const struct cs_store *store, const struct cs_store_job *job);
/* nanoseconds to the end at the present pace, -1 unknown */
int64_t cs_store_eta_ns(const struct cs_store *store, const struct cs_store_job *job);
/* of the selected job's last step, NaN unknown */
double cs_store_tokens_per_s(const struct cs_store *store);

/* Private to the store's files. */
void cs_store_measured(struct cs_store *store); /* after `measured` was set: moves the means */
struct cs_store_job *cs_store_job_at(struct cs_store *store, int64_t id); /* made when unknown */
void cs_store_step_message(struct cs_store *store, const json_t *msg, bool is_selected);
void cs_store_context_message(struct cs_store *store, const json_t *msg);
void cs_store_context_forget(struct cs_store *store);
void cs_store_metrics_rows(struct cs_metrics *metrics, const json_t *msg);
void cs_store_gpus_message(struct cs_store *store, const json_t *msg);
void cs_store_stages(struct cs_store *store, int32_t n_stages, int32_t n_ranks);

#endif
