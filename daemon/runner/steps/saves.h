/* A checkpoint is committed here, once every rank has written its files. */
#ifndef CS_RUNNER_SAVES_H
#define CS_RUNNER_SAVES_H

#include "runner/state/state.h"

/* announced: the step of this report ends with a checkpoint */
void cs_save_expect(struct cs_runner *r, const struct cs_step_report *report);
/* worker.saved, worker.save_failed; and the step's own end. true: the checkpoint is through, it is
 * committed or has failed. */
bool cs_save_reported(struct cs_runner *r, const json_t *msg, bool is_failed);
bool cs_save_step_done(struct cs_runner *r, const struct cs_step_report *report);
void cs_saves_abandon(struct cs_runner *r); /* nobody is left to report */
void cs_saves_free(struct cs_runner *r);

/* The checkpoint that a job ends with: its parameters must be there and finite; their hash goes into
 * r->weights_hash. */
enum cs_status cs_saves_check_final(struct cs_runner *r, const char *path,
                                    struct cs_err *err) CS_NODISCARD;

#endif
