/* A rank's life between worker.go and worker.done: manifests from the pool, one step each, reports
 * to the runner, checkpoints where the manifest asks for one. */
#ifndef CS_WORKER_SESSION_H
#define CS_WORKER_SESSION_H

#include "core/data/pool.h"
#include "worker/control.h"
#include "worker/train/trainer.h"

struct cs_session {
    struct cs_trainer *trainer;
    struct cs_pool *pool;
    struct cs_ring *ring;       /* NULL: no events */
    struct cs_control *control; /* messages worker.step, .saved, .save_failed, .done */
    const char *ckpt_dir;
    int rank;
    bool is_over;        /* no manifest comes: report the weights */
    int64_t step;        /* in work, -1 before the first; for reports of an error */
    int64_t sequence_ns; /* when a split slot was told last, 0: never */
};

/* Until the manifest that says so is done. CS_INTERRUPTED: the pool was stopped. */
enum cs_status cs_session_run(struct cs_session *session, struct cs_err *err) CS_NODISCARD;

#endif
