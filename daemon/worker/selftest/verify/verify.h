/* An exported model against the job that it came from: both compute the logits of the same input, the job
 * from its checkpoint and its source directories, the other from what was written alone. */
#ifndef CS_WORKER_SELFTEST_VERIFY_VERIFY_H
#define CS_WORKER_SELFTEST_VERIFY_VERIFY_H

#include <jansson.h>

#include "worker/device/device.h"

struct cs_verify_request {
    const json_t *job;      /* its document */
    const char *checkpoint; /* directory of a checkpoint */
    const char *dir;        /* where export wrote to */
    const char *whole;      /* its folder of the whole model; NULL: there is none */
    uint64_t seed; /* of the input: text of random tokens, a picture or sound for every encoder */
};

/* One directory, or those of the components together. */
struct cs_verified {
    const char *what; /* a constant: "components", "whole model" */
    double deviation; /* largest difference of two logits */
    double largest;   /* logit of the job, in size */
    double angle;     /* 1 - cosine of all logits */
    int64_t n;        /* logits compared */
};

enum { CS_VERIFIED_MOST = 2 };

struct cs_verification {
    struct cs_verified of[CS_VERIFIED_MOST];
    int n;
};

enum cs_status cs_verify_export(const struct cs_verify_request *request, struct cs_device *device,
                                struct cs_verification *out, struct cs_err *err) CS_NODISCARD;
/* `cornstarch-worker --verify`: a request {job, checkpoint, dir, whole, seed, device} on standard input, the
 * outcome as JSON on standard output. Returns the exit code. */
int cs_verify_program(void);

#endif
