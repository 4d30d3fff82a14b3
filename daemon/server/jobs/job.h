/* Jobs and their states, as the daemon knows them. */
#ifndef CS_SERVER_JOB_H
#define CS_SERVER_JOB_H

#include "core/wire/job_state.h"
#include "server/records/db.h"
#include "server/state/state.h"

struct cs_conn;

/* What is in row is in the database too, unless is_unsaved. A job that is live has a runner, whose
 * connection (link) may come later. */
struct cs_job {
    struct cs_server *server;
    struct cs_job_row row;
    pid_t runner_pid;     /* our child, 0: none or adopted */
    struct cs_conn *link; /* to the runner, NULL: none yet */
    int64_t deadline_ns;  /* until when an unreachable runner may still come */
    int64_t retry_ns;     /* no connection is tried before */
    bool is_stop_untold;  /* its runner has not heard of row.stop from this daemon */
    int64_t stop_by_ns;   /* it was told to stop at once: its runner is ended then; 0: it was not */
    bool is_runner_ended; /* that has happened */
    json_t *resume; /* the order that waits for what its runner says (resume_check.h); NULL: none */
    pid_t check_pid;    /* our child that looks, 0: none yet */
    bool is_pause_sent; /* while draining */
    bool is_unsaved;    /* the database is behind */
    bool is_behind;     /* it lacks rows of the journal: they are taken at a later tick */
    int64_t place;      /* in the queue, 0: it is not in it */
    char waits[240];    /* QUEUED: what for */
    char noted[24];     /* the state that was noted last, "": none since this daemon runs */
    json_t *pids;       /* the processes of its ranks, as its runner said; NULL: not known */
    json_t *notes;      /* those not written yet (job_note.c); NULL: none */
    json_t
        *last_row[2]; /* of training, of evaluations: what the runner said of the last step; NULL:
                            nothing since this daemon runs */
    json_t *alarms;   /* the wire's alarm objects; NULL: not read from state.json yet */
};

struct cs_job *cs_job_find(struct cs_server *server, int64_t id); /* NULL: unknown */
struct cs_job *cs_job_add(struct cs_server *server, const struct cs_job_row *row);
void cs_job_free(struct cs_job *job);      /* nobody may know it any more */
json_t *cs_job_object(struct cs_job *job); /* the wire's job object */
/* the job directory's state file, the caller's reference; NULL: there is none */
json_t *cs_job_read_state_file(const struct cs_job *job);
/* one alarm, or with it nothing when the note is none; true: it is news to whoever watches the job */
bool cs_job_take_alarm(struct cs_job *job, const json_t *note);
void cs_job_set_alarms(struct cs_job *job,
                       json_t *alarms); /* all; takes the reference, NULL: none */
bool cs_job_is(const struct cs_job *job, enum cs_job_state state);
bool cs_job_is_over(const struct cs_job *job); /* nothing will happen without an order */
/* Its last figures are told by the page for Prometheus: it is not over, or has been for less than five minutes. */
bool cs_job_is_recent(const struct cs_job *job);
bool cs_job_is_on_gpus(const struct cs_job *job); /* its ranks are GPUs */
bool cs_job_is_live(const struct cs_job *job);    /* a runner should exist: it holds devices */
bool cs_job_is_deaf(const struct cs_job *job);    /* live, and its runner cannot be reached */

struct cs_job_change {
    enum cs_job_state state;
    const char *reason;   /* NULL: none */
    bool is_plan_invalid; /* FAILED for its plan, which has an exit code of its own */
    bool is_in_journal;   /* the runner has written it there: the note is imported from it */
    int64_t wall_ns;      /* when, by the runner; 0: now */
};

/* saves, notes, publishes, answers waiters */
void cs_job_set_state(struct cs_job *job, const struct cs_job_change *to);
void cs_job_save(struct cs_job *job); /* the record in its directory, and the database */
void cs_job_note(struct cs_job *job, const char *level, const char *text); /* likewise */
/* a note that the runner has kept, to who watches */
void cs_job_tell_note(struct cs_job *job, int64_t wall_ns, const char *level, const char *text);
void cs_job_notes_retry(struct cs_job *job); /* what could not be written before */
/* tells the log, and who asks about the daemon; called where writing begins to fail */
void cs_job_cannot_write(const struct cs_job *job, const char *what, const struct cs_err *why);
void cs_job_publish(struct cs_job *job);

/* CS_STATE: "job 3 is DONE: it cannot pause now" */
enum cs_status cs_job_allow(const struct cs_job *job, enum cs_job_command order, const char *verb,
                            struct cs_err *err) CS_NODISCARD;
/* to the job's runner; takes message. CS_UNREACHABLE: it does not answer yet. */
enum cs_status cs_job_tell(struct cs_job *job, json_t *message, struct cs_err *err) CS_NODISCARD;
enum cs_status cs_job_pause(struct cs_job *job, struct cs_err *err) CS_NODISCARD;

#endif
