/* Verifying an export as a program of its own: reads a request, answers with the outcome. */
#include <math.h>
#include <stdio.h>

#include "core/base/say.h"
#include "core/wire/wire.h"
#include "kernels/ops.h"
#include "worker/selftest/verify/verify.h"

enum { EXIT_FAILED = 6 };

static json_t *number(double value)
{
    return isfinite(value) ? json_real(value) : json_string("nan");
}

static json_t *outcome_json(const struct cs_verification *v)
{
    json_t *list = json_array();
    for (int i = 0; i < v->n; i++)
        json_array_append_new(
            list, json_pack("{s:s, s:o, s:o, s:o, s:I}", "what", v->of[i].what, "deviation",
                            number(v->of[i].deviation), "largest", number(v->of[i].largest),
                            "angle", number(v->of[i].angle), "logits", (json_int_t)v->of[i].n));
    return json_pack("{s:o}", "verified", list);
}

static enum cs_status verify(json_t *request, struct cs_err *err)
{
    struct cs_device device;
    struct cs_verification made;
    const struct cs_verify_request asked = {
        .job = cs_msg_obj(request, "job"),
        .checkpoint = cs_msg_str(request, "checkpoint", ""),
        .dir = cs_msg_str(request, "dir", ""),
        .whole = cs_msg_str(request, "whole", NULL),
        .seed = (uint64_t)cs_msg_int(request, "seed", 0),
    };
    CS_TRY(cs_ops_cpu_selfcheck(err));
    CS_TRY(cs_device_open(cs_msg_str(request, "device", "cpu:0"), NULL, &device, err));
    const enum cs_status status = cs_verify_export(&asked, &device, &made, err);
    cs_device_close(&device);
    CS_TRY(status);
    json_t *json = outcome_json(&made);
    json_dumpf(json, stdout, JSON_COMPACT);
    json_decref(json);
    return fflush(stdout) == 0 ? CS_OK : cs_fail_errno(err, "writing the outcome");
}

int cs_verify_program(void)
{
    json_error_t where;
    struct cs_err err = {0};
    json_t *request = json_loadf(stdin, 0, &where);
    const enum cs_status status = request != NULL
                                      ? verify(request, &err)
                                      : cs_fail(&err, CS_INVALID, "standard input: %s", where.text);
    if (status != CS_OK)
        cs_say(stderr, "cornstarch-worker: %s\n", err.text);
    json_decref(request);
    return status == CS_OK ? 0 : EXIT_FAILED;
}
