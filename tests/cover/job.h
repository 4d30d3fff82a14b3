/* Ten steps of a layout on processes, and the checkpoints that came of them. */
#ifndef CS_TESTS_COVER_JOB_H
#define CS_TESTS_COVER_JOB_H

#include "cover/cover.h"
#include "store/ckpt/checkpoint.h"

enum {
    COVER_SAVES = 3,
    COVER_HALF = 5
}; /* steps before the job is taken up from another's checkpoint */

extern const int
    cover_saved_steps[COVER_SAVES]; /* after which there is a checkpoint: 1, half, all */

struct cover_outcome {
    char *dir; /* of its checkpoints; malloc'ed */
    double loss[COVER_STEPS], norm[COVER_STEPS];
    int n_ranks;
};

/* Trains to the half, and from there what is in the checkpoint `from` (a path; NULL: goes on by itself). */
enum cs_status cover_job_run(const struct cover_plan *plan, const char *from,
                             struct cover_outcome *out, struct cs_err *err);
/* Path of one of its checkpoints, in a buffer of CS_PATH_CAP bytes. */
void cover_job_saved(const struct cover_outcome *o, int save, char *path);
void cover_outcome_free(struct cover_outcome *o);

/* Losses and norms of every step, and at every checkpoint weights and moments of every parameter, within 1e-5
 * (times slack) of one rank's; else what differs most is in err. *worst: the largest deviation over its limit. */
enum cs_status cover_compare(const struct cover_plan *plan, const struct cover_outcome *one,
                             const struct cover_outcome *many, double slack, double *worst,
                             struct cs_err *err);

#endif
