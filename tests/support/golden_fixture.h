/* A golden with a trainer of its model on one rank, on the device of the test. */
#ifndef CS_TESTS_SUPPORT_GOLDEN_FIXTURE_H
#define CS_TESTS_SUPPORT_GOLDEN_FIXTURE_H

#include "store/safetensors.h"
#include "support/planned.h"
#include "support/step.h"
#include "worker/train/trainer.h"

struct golden_fixture {
    struct cs_test_planned made;
    struct cs_trainer *trainer;
    struct cs_st_file *golden;
    struct cs_test_step step;
    float *patches; /* of the golden's pictures */
    int n_pictures;
};

void golden_open(struct golden_fixture *f, const char *family); /* as of golden_path */
void golden_close(struct golden_fixture *f);
/* fp32 values of a golden tensor; the caller frees. count: NULL, or how many there are */
float *golden_values(const struct golden_fixture *f, const char *name, int64_t *count);
double golden_scalar(const struct golden_fixture *f, const char *name);
/* The golden's batch: its documents packed in one slot, or each in a slot of its own. */
void golden_slots(struct golden_fixture *f, bool is_packed);
void golden_run(struct golden_fixture *f, int64_t number, struct cs_step_result *result);

#endif
