/* Private to the runner: everything it knows while a job runs. Each source file has a header of its
 * own name with its functions; they all work on this state. */
#ifndef CS_RUNNER_STATE_H
#define CS_RUNNER_STATE_H

#include <event2/event.h>

#include "core/base/system/log.h"
#include "core/data/pool.h"
#include "core/data/sources.h"
#include "core/model/alerts.h"
#include "core/sched/sim/calibrate.h"
#include "core/trace/ring.h"
#include "core/wire/job_state.h"
#include "net/conn.h"
#include "runner/files/journal.h"
#include "runner/files/logfile.h"
#include "runner/files/tracelog.h"
#include "runner/job/generation.h"
#include "runner/job/options.h"
#include "store/ckpt/checkpoint.h"

struct cs_runner;
struct cs_child;
struct cs_board;
struct cs_energy;
struct cs_listener;
struct cs_subscriber;

/* What processes and their watch tell the job's life. */
struct cs_child_calls {
    void (*on_message)(struct cs_child *child, const json_t *msg);
    void (*on_ended)(struct cs_child *child); /* has_exited and how it ended are set */
};

/* A worker or the feeder. */
struct cs_child {
    struct cs_runner *runner;
    int rank; /* -1: the feeder */
    pid_t pid;
    int pidfd, log_fd;
    struct event *exit_event, *log_event;
    struct cs_conn *conn;
    struct cs_logfile *log;
    bool is_ready, is_done, has_exited;
    int exit_code, signal; /* once it has exited */
    struct cs_err error;   /* what it reported; status CS_OK: nothing */
    int64_t error_step;
    char error_action[256], program_hash[65];
    /* a worker's ring, and events of steps that are not finished yet */
    void *ring_memory;
    struct cs_ring ring;
    struct cs_event *events;
    uint32_t n_events, cap_events;
    uint64_t n_reports; /* worker.step messages */
    bool is_hang_told;
    /* of its process while it gets ready, or closes what it has (cs_procstat) */
    uint64_t activity;
    int64_t active_ns; /* when that last grew, or that of a rank which it may wait for */
    bool is_stopped;
};

/* What is known of one published manifest: the feeder's announcement and every rank's report. */
struct cs_step_report {
    bool is_announced, is_eval;
    int64_t step, flags, samples, tokens, trained_tokens, slots;
    int64_t rows[1 + CS_MAX_ENCODERS]; /* of the LLM, of each encoder, in all slots */
    json_t *cursor;
    int n_ranks; /* that have reported */
    bool has_loss, has_norm, has_balance, is_norm_unequal, is_skipped;
    double loss_sum, grad_norm, lr;
    double balance; /* loss of the experts' balance of the manifest */
    int64_t loss_tokens, correct, loss_samples, messages, bytes;
    json_t *sources; /* their names by number; NULL or empty: none has one */
    struct cs_source_loss source[CS_SOURCES_MAX];
    json_t *context;  /* [rank, rows, pairs, flops, wait_us] by rank, NULL: rows are not split */
    json_t *sequence; /* the one with most work, NULL: none was told */
};

/* One checkpoint on its way. */
struct cs_save {
    int64_t step, tokens, samples, skipped;
    json_t *cursor;
    bool is_step_done; /* its step has been reported: tokens are known */
    int n_saved, n_failed;
    struct cs_ckpt_file *files;
    int n_files;
    char failure[600];
    struct cs_save *next;
};

/* Rows of the journal that neither the disk nor memory could take. */
struct cs_lost_rows {
    int64_t n, from, to; /* steps, while n > 0 */
};

/* Sums of an evaluation pass that is under way. */
struct cs_eval {
    int64_t correct, samples, tokens;
    double loss_sum;
    double balance_sum; /* loss of the experts' balance times rows */
    int64_t rows;       /* that it is of; 0: none was told */
    struct cs_source_loss source[CS_SOURCES_MAX];
    int64_t start_ns;
};

/* What is known of one rule's alarms: the worst level, and of that level the last one. */
struct cs_alarm {
    int64_t count, step, wall_ns; /* count 0: none; step -1: before the first */
    enum cs_log_level level;
    char text[900];
};

struct cs_mean { /* over a number of values, then over about so many */
    double value;
    int64_t n;
};

/* What the steps of this run have shown, for the rules of alerts (steps/watch.c). */
struct cs_watch {
    int64_t n_steps, skipped_in_row, untrained_in_row;
    int64_t unsaved_ns; /* of training since the last checkpoint */
    struct cs_mean loss, norm, data_share;
    struct cs_mean sample_ns; /* of the time of a step */
    double lowest_loss;       /* of that mean */
};

struct cs_runner {
    const struct cs_runner_options *options;
    struct cs_run_job job;
    struct cs_run_generation generation;
    int64_t number; /* of the job, 0 unknown */
    struct cs_log *log;
    struct event_base *base;
    struct event *tick, *second, *sigterm, *sigint, *sigusr1, *decide, *kill_timer;
    enum cs_job_state state;
    struct cs_err failure; /* why the state is FAILED */
    int64_t trouble_ns;    /* when a process first died or told of an error, 0: none did */
    json_t *culprit;
    struct cs_measured *measured; /* of this run's first steps; NULL: done */
    int32_t data_threads,
        cores; /* of the feeder; that all processes of the job may use, 0: not known */
    int64_t predicted_step_ns; /* the plan's, then the calibrated one */
    char reason[1000];
    struct cs_child *child; /* (n_ranks + 1) workers by rank, then the feeder */
    const struct cs_child_calls *calls;
    struct cs_trace_node node; /* this one; its clock is the trace's */
    int pool_fd;
    void *pool_memory;
    size_t pool_bytes;
    struct cs_pool *pool;
    struct cs_journal *journal;
    struct cs_tracelog *trace;
    struct cs_step_report *reports; /* of manifests first_report .. first_report + n_reports - 1 */
    uint64_t first_report, n_announced;
    int n_reports, cap_reports;
    struct cs_save *saves;
    struct cs_lost_rows lost_rows, lost_trace;
    struct cs_eval eval;
    int64_t last_step, checkpoint_step; /* -1 none */
    int64_t evaluated_step;           /* the last one whose evaluation is in the journal, -1 none */
    bool is_eval_first;               /* the evaluation of the step before the first was not made */
    int64_t tokens, samples, skipped; /* trained in all, with the runs before */
    json_t *weights;                  /* name -> xxh3 of every parameter, from worker.done */
    char tied_copy[33]; /* xxh3 of the head's copy of a tied embedding, "": there is none */
    int64_t step_end_ns, slowest_ns; /* when the last step ended; the longest step */
    int64_t go_ns, spans_ns;
    int64_t looked_ns,
        blame_from_ns; /* last look at the ranks; what stood still before is forgiven */
    uint64_t n_bad_samples;
    char weights_hash[65];
    struct cs_watch watch;
    uint64_t dir_dev, dir_ino; /* of the job's directory */
    char lost_files[300];      /* what of it was taken away meanwhile, "" nothing */
    struct cs_alarm alarm[CS_ALERT_COUNT];
    bool is_log_sent;     /* a line of the log is on its way to who is connected */
    bool is_state_behind; /* state.json lacks an alarm */
    double exact_match;   /* of the last evaluation, NaN none */
    bool is_stop_asked, is_stop_now, is_failing, is_finishing, is_over;
    bool is_journal_failed, is_trace_failed;
    struct cs_err save_failure; /* the last one */
    int n_signals;
    struct cs_listener *control; /* NULL: none */
    bool is_control_lost;        /* its file is gone and cannot be made; told once */
    struct cs_subscriber *subscribers;
    struct cs_energy *energy;       /* NULL: not on GPUs, or not begun */
    struct cs_board *board;         /* NULL: none is asked for, or no row yet */
    int64_t board_ns;               /* when it was last written to its files */
    bool is_board_lost;             /* it cannot be written; told once */
    int64_t mem_bytes, mem_read_ns; /* of the rank that holds most, when that was read; 0 not yet */
};

#endif
