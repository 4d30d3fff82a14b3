/* What a rank of a job does in tests of layouts: a few steps, an evaluation, and what came of them. */
#ifndef CS_TESTS_SUPPORT_LAYOUT_TRAIN_H
#define CS_TESTS_SUPPORT_LAYOUT_TRAIN_H

#include "support/planned.h"
#include "support/ranks.h"
#include "support/step.h"
#include "worker/train/trainer.h"

enum {
    LAYOUT_PARAMS = 256,
    LAYOUT_STEPS = 4,
    LAYOUT_SLOTS = 3,
    LAYOUT_REPLICA_SLOTS = 4, /* with so many the values are kept, */
    LAYOUT_LANE_SLOTS = 6,    /* or so many: for 2 and 3 replicas */
    LAYOUT_SHARERS = 4,       /* of a stage's matrices, at most */
    LAYOUT_SOURCES = 3        /* of tests/support/step.c */
};

/* Of all ranks. */
struct layout_outcome {
    double loss[LAYOUT_STEPS], norm[LAYOUT_STEPS];
    char hash[LAYOUT_PARAMS][33];
    char before[LAYOUT_PARAMS][33];
    /* The head's copy of the embedding and this, of every rank that shares them; "": there is none. */
    char tied_copy[LAYOUT_SHARERS][33], tied_table[LAYOUT_SHARERS][33];
    float *value[LAYOUT_PARAMS]; /* of its first holder at the end, where they are kept */
    bool keeps_values;
    int n_params;
    int64_t messages, bytes;         /* as sent */
    int64_t sends;                   /* as the programs say, without those of zero rows */
    size_t saved[CS_TEST_MAX_RANKS]; /* peak activations of the last step */
    size_t kept[CS_TEST_MAX_RANKS], host[CS_TEST_MAX_RANKS]; /* memory for them, on either side */
    int64_t eval_samples, eval_exact;
    double eval_loss;
    struct cs_source_loss source[LAYOUT_SOURCES]; /* of the evaluation */
    double alone[LAYOUT_SOURCES]; /* the loss when only labels of the source are there; one rank */
    int n_ranks;
    bool rounds_rows; /* on devices that round rows of slots up */
};

struct layout_job {
    struct cs_test_planned made;
    struct cs_test_step step[LAYOUT_STEPS];
};

/* Trains, and adds what came of it to the outcome; ranks are threads, which take turns there. */
enum cs_status layout_train(const struct layout_job *job, struct cs_trainer *t,
                            struct layout_outcome *o, struct cs_err *err);

#endif
