/* The life of a job: from ready children to its last state. */
#ifndef CS_RUNNER_LIFE_H
#define CS_RUNNER_LIFE_H

#include "runner/state/state.h"

enum cs_status cs_life_begin(struct cs_runner *r, struct cs_err *err) CS_NODISCARD; /* timers */
void cs_life_end(struct cs_runner *r);
void cs_life_ready(struct cs_runner *r);     /* a child is ready */
void cs_life_trouble(struct cs_runner *r);   /* a child died or reported an error */
void cs_life_ended(struct cs_child *child);  /* its process is gone */
void cs_life_check_end(struct cs_runner *r); /* a child ended or a checkpoint is through */
void cs_life_fail(struct cs_runner *r, const struct cs_err *err); /* end the job as failed */
void cs_life_finish(struct cs_runner *r, enum cs_job_state state, const char *reason);
void cs_life_ask_pause(struct cs_runner *r);
void cs_life_ask_stop(struct cs_runner *r, bool is_now);
void cs_life_ask_checkpoint(struct cs_runner *r);

#endif
