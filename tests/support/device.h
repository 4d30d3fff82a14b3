/* The device that tests of the worker compute on: the host, or what CORNSTARCH_TEST_DEVICE names
 * ("cuda:0", in the precision of CORNSTARCH_TEST_PRECISION, fp32 by default). One per thread. */
#ifndef CS_TEST_DEVICE_H
#define CS_TEST_DEVICE_H

#include <stdio.h>
#include <stdlib.h>

#include "worker/device/device.h"

static inline struct cs_device *cs_test_device(void)
{
    static _Thread_local struct cs_device device;
    const char *name = getenv("CORNSTARCH_TEST_DEVICE");
    const char *precision = getenv("CORNSTARCH_TEST_PRECISION");
    struct cs_err err = {0};
    if (device.ops != NULL)
        return &device;
    if (cs_device_open(name != NULL ? name : "cpu:0", precision != NULL ? precision : "fp32",
                       &device, &err) != CS_OK) {
        fprintf(stderr, "%s\n", err.text);
        abort();
    }
    return &device;
}

#endif
