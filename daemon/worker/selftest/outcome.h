/* What the steps of a golden's batch gave, wherever they ran. Internal to the room. */
#ifndef CS_WORKER_SELFTEST_OUTCOME_H
#define CS_WORKER_SELFTEST_OUTCOME_H

#include "worker/selftest/parts.h"

struct cs_outcome {
    int64_t tokens;                                      /* trained ones of a step */
    double loss[CS_GOLDEN_STEPS], norm[CS_GOLDEN_STEPS]; /* means over them */
    bool has_balance; /* a loss of the experts' balance is trained beside that of the text */
    double balance[CS_GOLDEN_STEPS];
    float **grad; /* by parameter: of the first step's sum of losses; NULL: it is frozen */
};

/* Empty, with room for every gradient, in the golden's arena. */
void cs_outcome_new(const struct cs_golden *golden, struct cs_outcome *out);
/* The gradients that a rank holds its part of. Ranks may call it at once. */
enum cs_status cs_outcome_take_gradients(struct cs_outcome *outcome, struct cs_params *params,
                                         struct cs_err *err) CS_NODISCARD;
/* Five steps of one rank on the slots of the golden; what it knows of them goes to the outcome. Ranks may
 * call it at once. */
enum cs_status cs_outcome_train(struct cs_outcome *outcome, struct cs_golden *golden,
                                struct cs_trainer *trainer, struct cs_err *err) CS_NODISCARD;

/* ---- against the golden ---- */
/* every gradient of the golden against ours times scale, and none of ours without one */
enum cs_status cs_outcome_check_gradients(const struct cs_outcome *outcome,
                                          struct cs_golden *golden, double scale,
                                          struct cs_selftest *out, struct cs_err *err) CS_NODISCARD;
/* loss and gradients of the first step */
enum cs_status cs_outcome_check_first(const struct cs_outcome *outcome, struct cs_golden *golden,
                                      struct cs_selftest *out, struct cs_err *err) CS_NODISCARD;
/* losses and norms of all steps */
enum cs_status cs_outcome_check_steps(const struct cs_outcome *outcome, struct cs_golden *golden,
                                      struct cs_selftest *out, struct cs_err *err) CS_NODISCARD;

/* ---- against one rank, on the same slots ---- */
void cs_outcome_check_same(const struct cs_outcome *outcome, const struct cs_outcome *one,
                           const struct cs_golden *golden, struct cs_selftest *out);
/* beside the norm of a gradient: less than that is rounding of others */
double cs_outcome_floor(const struct cs_golden *golden, double noise);

#endif
