/* The test as a program of its own: reads a request, answers with the outcome. */
#include <stdio.h>

#include "core/base/say.h"
#include "core/wire/wire.h"
#include "worker/selftest/parts.h"

enum { EXIT_FAILED = 6 };

static json_t *check_json(const struct cs_selftest_check *check)
{
    return json_pack("{s:s, s:o, s:f, s:I, s:s, s:b}", "what", check->what, "deviation",
                     check->deviation == check->deviation ? json_real(check->deviation)
                                                          : json_string("nan"),
                     "limit", check->limit, "compared", (json_int_t)check->n, "where", check->where,
                     "ok", (int)cs_selftest_is_good(check));
}

static json_t *outcome_json(const struct cs_selftest *test, const char *device)
{
    json_t *checks = json_array();
    bool is_good = test->n_checks > 0;
    for (int i = 0; i < test->n_checks; i++) {
        is_good &= cs_selftest_is_good(&test->check[i]);
        json_array_append_new(checks, check_json(&test->check[i]));
    }
    return json_pack("{s:s, s:s, s:o, s:b}", "family", test->family, "device", device, "checks",
                     checks, "ok", (int)is_good);
}

static enum cs_status test_family(json_t *request, struct cs_err *err)
{
    struct cs_device device;
    struct cs_selftest test;
    const char *name = cs_msg_str(request, "device", "cpu:0");
    CS_TRY(cs_ops_cpu_selfcheck(err));
    CS_TRY(cs_device_open(name, cs_msg_str(request, "precision", NULL), &device, err));
    const struct cs_selftest_request asked = {
        .dir = cs_msg_str(request, "dir", ""),
        .adapter = cs_msg_str(request, "adapter", NULL),
        .written = cs_msg_str(request, "written", NULL),
    };
    enum cs_status status = cs_selftest_family(&asked, &device, &test, err);
    cs_device_close(&device);
    CS_TRY(status);
    json_t *json = outcome_json(&test, name);
    json_dumpf(json, stdout, JSON_COMPACT);
    json_decref(json);
    return fflush(stdout) == 0 ? CS_OK : cs_fail_errno(err, "writing the outcome");
}

int cs_selftest_program(void)
{
    json_error_t where;
    struct cs_err err = {0};
    json_t *request = json_loadf(stdin, 0, &where);
    enum cs_status status = request != NULL
                                ? test_family(request, &err)
                                : cs_fail(&err, CS_INVALID, "standard input: %s", where.text);
    if (status != CS_OK)
        cs_say(stderr, "cornstarch-worker: %s\n", err.text);
    json_decref(request);
    return status == CS_OK ? 0 : EXIT_FAILED;
}
