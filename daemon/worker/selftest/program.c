/* The test as a program of its own: reads a request, answers with the outcome. */
#include <stdio.h>

#include "core/base/say.h"
#include "core/wire/wire.h"
#include "worker/selftest/parts.h"
#include "worker/selftest/ranks.h"

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
    return json_pack("{s:s, s:s, s:i, s:o, s:b}", "family", test->family, "device", device,
                     "experts", test->n_experts, "checks", checks, "ok", (int)is_good);
}

/* of the request; its texts stay in the request */
static enum cs_status read_layout(json_t *in, struct cs_selftest_layout *out, struct cs_err *err)
{
    *out = (struct cs_selftest_layout){
        .stages = (int)cs_msg_int(in, "stages", 1),
        .encoder_stages = (int)cs_msg_int(in, "encoder_stages", 1),
        .replicas = (int)cs_msg_int(in, "replicas", 1),
        .context = (int)cs_msg_int(in, "context", 1),
        .encoder_context = (int)cs_msg_int(in, "encoder_context", 1),
        .tensors = (int)cs_msg_int(in, "tensors", 1),
        .encoder_tensors = (int)cs_msg_int(in, "encoder_tensors", 1),
        .experts = (int)cs_msg_int(in, "experts", 1),
        .zero = (int)cs_msg_int(in, "zero", 1),
        .splits_rows = cs_msg_bool(in, "splits_rows", false),
        .modality = cs_msg_str(in, "modality", NULL),
        .schedule = cs_msg_str(in, "schedule", NULL),
        .recompute = cs_msg_str(in, "recompute", NULL),
        .train = cs_msg_str(in, "train", NULL),
    };
    if (out->stages < 1 || out->encoder_stages < 1 || out->replicas < 1 || out->context < 1 ||
        out->encoder_context < 1 || out->encoder_context > CS_SELFTEST_RANKS ||
        out->stages + out->encoder_stages > CS_SELFTEST_RANKS ||
        out->replicas > CS_SELFTEST_RANKS || out->context > CS_SELFTEST_RANKS || out->tensors < 1 ||
        out->tensors > CS_SELFTEST_RANKS || out->encoder_tensors < 1 ||
        out->encoder_tensors > CS_SELFTEST_RANKS || out->experts < 1 ||
        out->experts > CS_SELFTEST_RANKS)
        return cs_fail(
            err, CS_LIMIT,
            "layout: stages, encoder_stages, replicas, context, encoder_context, tensors, "
            "encoder_tensors and experts are 1 to %d",
            CS_SELFTEST_RANKS);
    return out->zero >= 1 && out->zero <= 3 ? CS_OK
                                            : cs_fail(err, CS_LIMIT, "layout: zero is 1, 2 or 3");
}

static enum cs_status run(json_t *request, struct cs_device *device, struct cs_selftest *test,
                          struct cs_err *err)
{
    json_t *in = cs_msg_obj(request, "layout");
    struct cs_selftest_layout layout;
    if (in != NULL)
        CS_TRY(read_layout(in, &layout, err));
    const struct cs_selftest_request asked = {
        .dir = cs_msg_str(request, "dir", ""),
        .adapter = cs_msg_str(request, "adapter", NULL),
        .written = cs_msg_str(request, "written", NULL),
        .layout = in != NULL ? &layout : NULL,
    };
    return cs_selftest_family(&asked, device, test, err);
}

static enum cs_status test_family(json_t *request, struct cs_err *err)
{
    struct cs_device device;
    struct cs_selftest test;
    const char *name = cs_msg_str(request, "device", "cpu:0");
    CS_TRY(cs_ops_cpu_selfcheck(err));
    CS_TRY(cs_device_open(name, cs_msg_str(request, "precision", NULL), &device, err));
    enum cs_status status = run(request, &device, &test, err);
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
