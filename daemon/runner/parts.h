/* Private to the runner: its state and the functions of its parts. */
#ifndef CS_RUNNER_PARTS_H
#define CS_RUNNER_PARTS_H

#include <event2/event.h>

#include "core/base/log.h"
#include "core/data/pool.h"
#include "core/sched/sim/calibrate.h"
#include "core/trace/ring.h"
#include "runner/conn.h"
#include "runner/job.h"
#include "runner/journal.h"
#include "runner/keys.h"
#include "runner/logfile.h"
#include "runner/runner.h"
#include "runner/tracelog.h"
#include "store/checkpoint.h"

#define CS_RUN_STATES(X)                                                                           \
    X(STARTING) X(RUN) X(PAUSING) X(PAUSED) X(STOPPING) X(CANCELLED) X(DONE) X(FAILED)

enum cs_run_state {

#define X(name) CS_RUN_##name,
    CS_RUN_STATES(X)
#undef X
        CS_RUN_STATE_COUNT
};

struct cs_runner;
struct cs_energy;

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
    char error_action[256], program_hash[65], weights_hash[65];
    /* a worker's ring, and events of steps that are not finished yet */
    void *ring_memory;
    struct cs_ring ring;
    struct cs_event *events;
    uint32_t n_events, cap_events;
    uint64_t n_reports; /* worker.step messages */
    bool is_hang_told;
};

/* What is known of one published manifest: the feeder's announcement and every rank's report. */
struct cs_row {
    bool is_announced, is_eval;
    int64_t step, flags, samples, tokens, trained_tokens, slots;
    json_t *cursor;
    int n_reports;
    bool has_loss, has_norm, is_norm_unequal, is_skipped;
    double loss_sum, grad_norm, lr;
    int64_t loss_tokens, correct, loss_samples, messages, bytes;
};

/* One checkpoint on its way. */
struct cs_save {
    int64_t step, tokens, samples, skipped;
    json_t *cursor;
    bool is_step_done; /* the row is out: tokens are known */
    int n_saved, n_failed;
    struct cs_ckpt_file *files;
    int n_files;
    char failure[600];
    struct cs_save *next;
};

/* Sums of an evaluation pass that is under way. */
struct cs_eval {
    int64_t correct, samples, tokens;
    double loss_sum;
    int64_t start_ns;
};

struct cs_runner {
    const struct cs_runner_options *options;
    struct cs_job job;
    struct cs_keys keys;
    int64_t number; /* of the job, 0 unknown */
    struct cs_log *log;
    struct event_base *base;
    struct event *tick, *second, *sigterm, *sigint, *decide, *kill_timer;
    enum cs_run_state state;
    struct cs_err failure; /* why the state is FAILED */
    json_t *culprit;
    struct cs_measured *measured; /* of this run's first steps; NULL: not on CPU ranks, or done */
    int64_t predicted_step_ns;    /* the plan's, then the calibrated one */
    char reason[1000];
    struct cs_child *child; /* (n_ranks + 1) workers by rank, then the feeder */
    int n_ranks;
    int pool_fd;
    void *pool_memory;
    size_t pool_bytes;
    struct cs_pool *pool;
    struct cs_journal *journal;
    struct cs_tracelog *trace;
    struct cs_row *rows; /* of manifests first_row .. first_row + n_rows - 1 */
    uint64_t first_row, n_announced;
    int n_rows, cap_rows;
    struct cs_save *saves;
    struct cs_eval eval;
    int64_t last_step, checkpoint_step; /* -1 none */
    int64_t evaluated_step;           /* the last one whose evaluation is in the journal, -1 none */
    bool is_eval_first;               /* the evaluation of the step before the first was not made */
    int64_t tokens, samples, skipped; /* trained in all, with the runs before */
    json_t *weights;                  /* name -> xxh3 of every parameter, from worker.done */
    char tied_copy[33];         /* xxh3 of the head's copy of a tied embedding, "": there is none */
    int64_t row_ns, slowest_ns; /* when the last row ended; the longest step */
    int64_t go_ns, spans_ns;
    uint64_t n_bad_samples;
    char weights_hash[65];
    double exact_match; /* of the last evaluation, NaN none */
    bool is_stop_asked, is_stop_now, is_failing, is_finishing, is_over;
    bool is_journal_failed, is_trace_failed, is_norm_told;
    struct cs_err save_failure; /* the last one */
    int n_signals;
    struct cs_control *control;
    struct cs_energy *energy; /* NULL: not on GPUs, or not begun */
};

/* records.c: what happened, to the journal, the state file and the daemon */
const char *cs_run_state_name(enum cs_run_state state);
bool cs_run_is_final(enum cs_run_state state);
void cs_run_emit(struct cs_runner *r, json_t *msg, bool is_kept); /* takes msg; kept: journal too */
void cs_run_note(struct cs_runner *r, enum cs_log_level level, const char *fmt, ...)
    CS_PRINTF(3, 4);
void cs_run_set_state(struct cs_runner *r, enum cs_run_state state, const char *reason);
json_t *cs_run_state_msg(const struct cs_runner *r);
void cs_run_emit_state(struct cs_runner *r);

/* weights.c: what parameters were at the end */
void cs_weights_report(struct cs_runner *r, const json_t *msg); /* worker.done */
void cs_weights_write(struct cs_runner *r); /* weights.json; an alarm where tied copies differ */

/* past.c: what runs before this one have left: evaluated_step, is_eval_first, exact_match */
enum cs_status cs_past_read(struct cs_runner *r, struct cs_err *err) CS_NODISCARD;
bool cs_past_has_weights(const struct cs_runner *r); /* weights.json is of the last step */
bool cs_run_is_complete(const struct cs_runner *r);  /* all steps, and the evaluation after them */

/* children.c: processes and what they say */
enum cs_status cs_children_start(struct cs_runner *r, struct cs_err *err) CS_NODISCARD;
void cs_children_free(struct cs_runner *r);
void cs_children_signal(struct cs_runner *r, int signal);
bool cs_children_all_exited(const struct cs_runner *r);
struct cs_child *cs_feeder(struct cs_runner *r);

/* messages.c: one handler per message of a child */
void cs_child_message(struct cs_child *child, const json_t *msg);

/* memory.c: rings and pool in memfds */
enum cs_status cs_memory_make(struct cs_runner *r, int *ring_fds, struct cs_err *err) CS_NODISCARD;
void cs_memory_free(struct cs_runner *r);

/* rows.c: reports of ranks into rows of steps */
void cs_rows_announce(struct cs_runner *r, const json_t *msg); /* feeder.step */
void cs_rows_report(struct cs_runner *r, struct cs_child *child,
                    const json_t *msg);  /* worker.step */
void cs_rows_drain(struct cs_runner *r); /* rings */
void cs_rows_free(struct cs_runner *r);
/* the manifest a rank works on, NULL when it is not announced */
const struct cs_row *cs_rows_current(const struct cs_runner *r, const struct cs_child *child);

/* predict.c: the simulated step in the trace; from costs of the plan, then from measured ones */
enum cs_status cs_run_predict(struct cs_runner *r, struct cs_err *err) CS_NODISCARD;
void cs_run_measure(struct cs_runner *r, int64_t step, const struct cs_span_keys *keys,
                    const struct cs_span_events *events); /* of a training step */

/* step.c: a finished row */
void cs_step_done(struct cs_runner *r, const struct cs_row *row);

/* energy.c: what the ranks' GPUs used, in mJ since the last call; -1 unknown */
void cs_energy_begin(struct cs_runner *r);
int64_t cs_energy_take(struct cs_runner *r);
void cs_energy_end(struct cs_runner *r);

/* saves.c: checkpoints */
void cs_save_expect(struct cs_runner *r, const struct cs_row *row);
void cs_save_reported(struct cs_runner *r, const json_t *msg, bool is_failed);
void cs_save_step_done(struct cs_runner *r, const struct cs_row *row);
void cs_saves_abandon(struct cs_runner *r); /* nobody is left to report */
void cs_saves_free(struct cs_runner *r);

/* blame.c: where a rank is, who is to blame */
void cs_blame_where(struct cs_runner *r, const struct cs_child *child, char *out, size_t cap);
void cs_blame_decide(struct cs_runner *r); /* sets failure and culprit */
void cs_blame_watch(struct cs_runner *r);  /* every second: ranks without progress */

/* loop.c: the life of the job */
void cs_run_ready(struct cs_runner *r);   /* a child is ready */
void cs_run_trouble(struct cs_runner *r); /* a child died or reported an error */
void cs_run_fail(struct cs_runner *r, const struct cs_err *err); /* end the job as failed */
void cs_run_check_end(struct cs_runner *r); /* a child ended or a save is through */
void cs_run_ask_pause(struct cs_runner *r);
void cs_run_ask_stop(struct cs_runner *r, bool is_now);
void cs_run_ask_checkpoint(struct cs_runner *r);

/* control.c: the daemon's connections */
enum cs_status cs_control_open(struct cs_runner *r, struct cs_err *err) CS_NODISCARD;
void cs_control_close(struct cs_runner *r);
void cs_control_send(struct cs_runner *r, const json_t *msg);
bool cs_control_has_peers(const struct cs_runner *r);

#endif
