/* selftest: a model family of this machine against what transformers made of the same inputs. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "console/cli/command/cmd.h"
#include "console/cli/command/registry.h"
#include "console/cli/shared/export/ask_worker.h"
#include "core/base/say.h"
#include "core/base/table.h"
#include "core/wire/wire.h"

struct values {
    struct cs_cmd_common common;
    const char *device, *precision, *adapter, *written;
    int64_t stages, encoder_stages, replicas, context, encoder_context, tensors, encoder_tensors,
        zero;
    bool splits_rows;
    const char *modality, *schedule, *recompute, *train;
};

#define AT(field) offsetof(struct values, field)
/* clang-format off */
static const struct cs_option options[] = {
    {"device", 'D', CS_OPT_STRING, 0, 0, "cpu:0", "DEVICE", NULL, "where it runs: cpu:0, cuda:0", AT(device)},
    {"adapter", 'a', CS_OPT_STRING, 0, 0, NULL, "DIR", NULL, "train the adapter in DIR/adapter on the model, compare with DIR/golden.safetensors", AT(adapter)},
    {"export", 'e', CS_OPT_STRING, 0, 0, NULL, "DIR", NULL, "write the trained model there, and what it computes then: DIR/after.safetensors", AT(written)},
    {"stages", 0, CS_OPT_INT, 0, 31, "0", "N", NULL, "also over so many pipeline stages of the language model, each a rank, compared with one rank too; 0: one rank", AT(stages)},
    {"encoder-stages", 0, CS_OPT_INT, 1, 31, "1", "N", NULL, "pipeline stages of the encoder", AT(encoder_stages)},
    {"replicas", 0, CS_OPT_INT, 1, 32, "1", "N", NULL, "data-parallel replicas of the pipeline", AT(replicas)},
    {"context", 0, CS_OPT_INT, 1, 32, "1", "N", NULL, "ranks of every stage of the language model that split its rows", AT(context)},
    {"encoder-context", 0, CS_OPT_INT, 1, 32, "1", "N", NULL, "ranks of every stage of the encoder that share its items", AT(encoder_context)},
    {"tensors", 0, CS_OPT_INT, 1, 32, "1", "N", NULL, "ranks of every stage of the language model that share its matrices", AT(tensors)},
    {"encoder-tensors", 0, CS_OPT_INT, 1, 32, "1", "N", NULL, "the same of the encoder", AT(encoder_tensors)},
    {"zero", 0, CS_OPT_INT, 1, 3, "1", "N", NULL, "what those with the same weights divide, as in a job", AT(zero)},
    {"split-rows", 0, CS_OPT_FLAG, 0, 0, NULL, NULL, NULL, "these also split rows between products (sequence parallelism)", AT(splits_rows)},
    {"modality", 0, CS_OPT_STRING, 0, 0, NULL, "WORD", NULL, "where the encoder runs, as in a job; default: on ranks of its own", AT(modality)},
    {"schedule", 0, CS_OPT_STRING, 0, 0, NULL, "WORD", NULL, "order of forwards and backwards, as in a job; default: 1f1b", AT(schedule)},
    {"recompute", 0, CS_OPT_STRING, 0, 0, NULL, "WORD", NULL, "activations that are made again, as in a job; default: none", AT(recompute)},
    {"train", 0, CS_OPT_STRING, 0, 0, NULL, "GLOBS", NULL, "layers that train, blanks between; default: all", AT(train)},
    {"precision", 'P', CS_OPT_STRING, 0, 0, NULL, "WORD", NULL, "what it computes in, fp32 or bf16; default: what the device usually does", AT(precision)},
};
static const struct cs_column columns[] = {
    {"COMPARED",  10, 0, 0, CS_ALIGN_LEFT },
    {"NUMBER",    6,  0, 0, CS_ALIGN_RIGHT},
    {"DEVIATION", 9,  0, 0, CS_ALIGN_RIGHT},
    {"LIMIT",     5,  0, 0, CS_ALIGN_RIGHT},
    {"",          4,  0, 0, CS_ALIGN_LEFT },
    {"WHERE",     10, 0, 0, CS_ALIGN_LEFT },
};

/* clang-format on */
#undef AT

static void print_checks(const json_t *outcome)
{
    json_t *check;
    size_t i;
    struct cs_buf text = {0};
    struct cs_table *table = cs_table_new(columns, CS_ARRAY_LEN(columns));
    json_array_foreach(json_object_get(outcome, "checks"), i, check)
    {
        char n[32], deviation[32], limit[32];
        snprintf(n, sizeof n, "%lld", (long long)cs_msg_int(check, "compared", 0));
        snprintf(deviation, sizeof deviation, "%.2g", cs_msg_num(check, "deviation", 0));
        snprintf(limit, sizeof limit, "%.2g", cs_msg_num(check, "limit", 0));
        const char *cells[] = {cs_msg_str(check, "what", ""),
                               n,
                               deviation,
                               limit,
                               cs_msg_bool(check, "ok", false) ? "ok" : "BAD",
                               cs_msg_str(check, "where", "")};
        cs_table_add(table, cells);
    }
    cs_table_render(table, cs_cmd_width(), true, &text);
    cs_table_free(table);
    cs_cmd_print(&text);
    cs_buf_free(&text);
}

static enum cs_status show(struct cs_cmd *cmd, const char *dir, json_t *outcome, struct cs_err *err)
{
    const bool is_good = cs_msg_bool(outcome, "ok", false);
    const char *family = cs_msg_str(outcome, "family", "");
    if (cmd->json) {
        json_t *doc = cs_doc_new("cornstarch.selftest/1");
        cs_msg_set_str(doc, "dir", dir);
        json_object_update(doc, outcome);
        CS_TRY(cs_cmd_print_doc(doc, err));
    } else {
        print_checks(outcome);
        if (is_good)
            cs_say(stdout, "ok: %s on %s is as transformers has it\n", family,
                   cs_msg_str(outcome, "device", ""));
    }
    return is_good ? CS_OK
                   : cs_fail(err, CS_CORRUPT, "%s: %s is not as transformers has it", dir, family);
}

/* NULL: one rank */
static json_t *layout_of(const struct values *v)
{
    if (v->stages == 0 && v->encoder_stages == 1 && v->replicas == 1 && v->context == 1 &&
        v->encoder_context == 1 && v->tensors == 1 && v->encoder_tensors == 1 && v->zero == 1 &&
        v->modality == NULL && v->schedule == NULL && v->recompute == NULL && v->train == NULL)
        return NULL;
    return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:b, s:s*, s:s*, s:s*, s:s*}",
                     "stages", (json_int_t)(v->stages > 0 ? v->stages : 1), "encoder_stages",
                     (json_int_t)v->encoder_stages, "replicas", (json_int_t)v->replicas, "context",
                     (json_int_t)v->context, "encoder_context", (json_int_t)v->encoder_context,
                     "tensors", (json_int_t)v->tensors, "encoder_tensors",
                     (json_int_t)v->encoder_tensors, "zero", (json_int_t)v->zero, "splits_rows",
                     (int)v->splits_rows, "modality", v->modality, "schedule", v->schedule,
                     "recompute", v->recompute, "train", v->train);
}

static enum cs_status test_family(struct cs_cmd *cmd, struct cs_err *err)
{
    const struct values *v = cmd->values;
    char dir[PATH_MAX];
    json_t *outcome = NULL;
    if (realpath(cmd->args[0], dir) == NULL)
        return cs_fail_errno(err, "the directory %s", cmd->args[0]);
    char adapter[PATH_MAX];
    if (v->adapter != NULL && realpath(v->adapter, adapter) == NULL)
        return cs_fail_errno(err, "the directory %s", v->adapter);
    json_t *request = json_pack("{s:s, s:s, s:s*, s:s*, s:o*}", "dir", dir, "device", v->device,
                                "adapter", v->adapter != NULL ? adapter : NULL, "written",
                                v->written, "layout", layout_of(v));
    if (request == NULL)
        return cs_fail(err, CS_INVALID, "%s is not valid UTF-8", dir);
    if (v->precision != NULL)
        json_object_set_new(request, "precision", json_string(v->precision));
    enum cs_status status = cs_ask_worker("--selftest", request, &outcome, err);
    if (status == CS_OK)
        status = show(cmd, dir, outcome, err);
    json_decref(outcome);
    json_decref(request);
    return status;
}

const struct cs_command cs_command_selftest_family = {
    .name = "selftest family",
    .role = CS_ROLE_VIEWER,
    .usage = "[options] DIR",
    .help = "run and train the model of a golden directory, compare with what transformers made",
    .run = test_family,
    .min_args = 1,
    .max_args = 1,
    CS_COMMAND_OPTIONS(options, struct values),
};

/* ---- layouts ---- */

struct parallel_values {
    struct cs_cmd_common common;
    const char *device, *precision;
};

#define AT(field) offsetof(struct parallel_values, field)
/* clang-format off */
static const struct cs_option parallel_options[] = {
    {"device", 'D', CS_OPT_STRING, 0, 0, "cpu:0", "DEVICE", NULL, "where it runs: cpu:0, cuda:0", AT(device)},
    {"precision", 'P', CS_OPT_STRING, 0, 0, NULL, "WORD", NULL, "what it computes in, fp32 or bf16; default: what the device usually does", AT(precision)},
};
static const struct cs_column layout_columns[] = {
    {"LAYOUT",    6, 0, 0, CS_ALIGN_LEFT },
    {"COMPARED",  8, 0, 0, CS_ALIGN_RIGHT},
    {"DEVIATION", 9, 0, 0, CS_ALIGN_RIGHT},
    {"LIMIT",     5, 0, 0, CS_ALIGN_RIGHT},
    {"",          4, 0, 0, CS_ALIGN_LEFT },
    {"WORST",     5, 0, 0, CS_ALIGN_LEFT },
};

/* clang-format on */
#undef AT

/* of the language model; an encoder has a rank of its own */
static const struct parallel_layout {
    const char *name, *schedule;
    int stages, replicas, context;
    int experts; /* 0: of any model; else one that has as many */
    int zero;
    int tensors; /* 0: 1; more: of a model that they can share */
    bool splits_rows;
} parallel_layouts[] = {
    {"pp 2",                     NULL,    2, 1, 1, 0, 1, 0, false},
    {"pp 2 zb-h1",               "zb-h1", 2, 1, 1, 0, 1, 0, false},
    {"dp 2",                     NULL,    1, 2, 1, 0, 1, 0, false},
    {"cp 2",                     NULL,    1, 1, 2, 0, 1, 0, false},
    {"cp 3",                     NULL,    1, 1, 3, 0, 1, 0, false},
    {"cp 4",                     NULL,    1, 1, 4, 0, 1, 0, false},
    {"pp 2, cp 2",               NULL,    2, 1, 2, 0, 1, 0, false},
    {"dp 2, cp 2",               NULL,    1, 2, 2, 0, 1, 0, false},
    {"dp 2, ep 2",               NULL,    1, 2, 1, 2, 1, 0, false},
    {"pp 2, dp 2, ep 2",         "zb-h1", 2, 2, 1, 2, 1, 0, false},
    {"cp 2, ep 2",               NULL,    1, 1, 2, 2, 1, 0, false},
    {"dp 2, cp 2, ep 4",         NULL,    1, 2, 2, 4, 1, 0, false},
    {"dp 2, zero 2",             NULL,    1, 2, 1, 0, 2, 0, false},
    {"dp 2, zero 3",             NULL,    1, 2, 1, 0, 3, 0, false},
    {"pp 2, dp 2, zero 3",       NULL,    2, 2, 1, 0, 3, 0, false},
    {"dp 2, cp 2, zero 2",       NULL,    1, 2, 2, 0, 2, 0, false},
    {"dp 2, ep 2, zero 3",       NULL,    1, 2, 1, 2, 3, 0, false},
    {"dp 2, cp 2, ep 2, zero 3", NULL,    1, 2, 2, 2, 3, 0, false},
    {"tp 2",                     NULL,    1, 1, 1, 0, 1, 2, false},
    {"pp 2, tp 2, sp",           "zb-h1", 2, 1, 1, 0, 1, 2, true },
    {"tp 4, sp",                 NULL,    1, 1, 1, 0, 1, 4, true },
    {"cp 2, tp 2, sp",           NULL,    1, 1, 2, 0, 1, 2, true },
};

static enum cs_status try_layout(const struct parallel_values *v, const char *dir,
                                 const struct parallel_layout *l, json_t **out, struct cs_err *err)
{
    json_t *layout = json_pack("{s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:b, s:s*}", "stages",
                               l->stages, "encoder_stages", 1, "replicas", l->replicas, "context",
                               l->context, "experts", l->experts > 1 ? l->experts : 1, "zero",
                               l->zero, "tensors", l->tensors > 1 ? l->tensors : 1, "splits_rows",
                               (int)l->splits_rows, "schedule", l->schedule);
    json_t *request = json_pack("{s:s, s:s, s:s*, s:o}", "dir", dir, "device", v->device,
                                "precision", v->precision, "layout", layout);
    if (request == NULL)
        return cs_fail(err, CS_INVALID, "%s is not valid UTF-8", dir);
    enum cs_status status = cs_ask_worker("--selftest", request, out, err);
    json_decref(request);
    if (status != CS_OK)
        return cs_wrap(err, status, "%s", l->name);
    cs_msg_set_str(*out, "layout", l->name);
    return CS_OK;
}

/* the check that is nearest to its limit, or beyond it */
static const json_t *worst_check(const json_t *outcome)
{
    const json_t *worst = NULL;
    double most = -1;
    size_t i;
    json_t *check;
    json_array_foreach(json_object_get(outcome, "checks"), i, check)
    {
        const double part = cs_msg_num(check, "deviation", 0) / cs_msg_num(check, "limit", 1);
        if (!cs_msg_bool(check, "ok", false))
            return check;
        if (part > most) {
            most = part;
            worst = check;
        }
    }
    return worst;
}

static void print_layouts(const json_t *list)
{
    struct cs_buf text = {0};
    struct cs_table *table = cs_table_new(layout_columns, CS_ARRAY_LEN(layout_columns));
    size_t i;
    json_t *outcome;
    json_array_foreach(list, i, outcome)
    {
        const json_t *check = worst_check(outcome);
        char n[32], deviation[32], limit[32];
        snprintf(n, sizeof n, "%zu", json_array_size(json_object_get(outcome, "checks")));
        snprintf(deviation, sizeof deviation, "%.2g", cs_msg_num(check, "deviation", 0));
        snprintf(limit, sizeof limit, "%.2g", cs_msg_num(check, "limit", 0));
        const char *cells[] = {cs_msg_str(outcome, "layout", ""),
                               n,
                               deviation,
                               limit,
                               cs_msg_bool(outcome, "ok", false) ? "ok" : "BAD",
                               cs_msg_str(check, "what", "")};
        cs_table_add(table, cells);
    }
    cs_table_render(table, cs_cmd_width(), true, &text);
    cs_table_free(table);
    cs_cmd_print(&text);
    cs_buf_free(&text);
}

/* the document of a family, its checks named by their layout */
static json_t *layouts_doc(const char *dir, const json_t *list, bool is_good)
{
    json_t *doc = cs_doc_new("cornstarch.selftest/1"), *checks = json_array(), *outcome, *check;
    const json_t *first = json_array_get(list, 0);
    size_t i, k;
    json_array_foreach(list, i, outcome)
    {
        json_array_foreach(json_object_get(outcome, "checks"), k, check)
        {
            char what[128];
            json_t *named = json_deep_copy(check);
            snprintf(what, sizeof what, "%s: %s", cs_msg_str(outcome, "layout", ""),
                     cs_msg_str(check, "what", ""));
            cs_msg_set_str(named, "what", what);
            json_array_append_new(checks, named);
        }
    }
    cs_msg_set_str(doc, "dir", dir);
    cs_msg_set_str(doc, "family", cs_msg_str(first, "family", ""));
    cs_msg_set_str(doc, "device", cs_msg_str(first, "device", ""));
    cs_msg_set(doc, "checks", checks);
    cs_msg_set_bool(doc, "ok", is_good);
    return doc;
}

static enum cs_status show_layouts(struct cs_cmd *cmd, const char *dir, const json_t *list,
                                   struct cs_err *err)
{
    bool is_good = true;
    size_t i;
    json_t *outcome;
    json_array_foreach(list, i, outcome) is_good &= cs_msg_bool(outcome, "ok", false);
    if (cmd->json) {
        CS_TRY(cs_cmd_print_doc(layouts_doc(dir, list, is_good), err));
    } else {
        print_layouts(list);
        if (is_good)
            cs_say(stdout, "ok: every layout computes what one rank computes\n");
    }
    return is_good ? CS_OK : cs_fail(err, CS_CORRUPT, "%s: a layout differs from one rank", dir);
}

static enum cs_status test_parallel(struct cs_cmd *cmd, struct cs_err *err)
{
    char dir[PATH_MAX];
    if (realpath(cmd->args[0], dir) == NULL)
        return cs_fail_errno(err, "the directory %s", cmd->args[0]);
    json_t *list = json_array();
    enum cs_status status = CS_OK;
    for (size_t i = 0; status == CS_OK && i < CS_ARRAY_LEN(parallel_layouts); i++) {
        json_t *outcome = NULL;
        if (parallel_layouts[i].experts > cs_msg_int(json_array_get(list, 0), "experts", 0))
            continue;
        status = try_layout(cmd->values, dir, &parallel_layouts[i], &outcome, err);
        if (status == CS_PLAN &&
            parallel_layouts[i].tensors > 1) { /* heads that they cannot share */
            status = CS_OK;
            continue;
        }
        if (status == CS_OK)
            json_array_append_new(list, outcome);
    }
    if (status == CS_OK)
        status = show_layouts(cmd, dir, list, err);
    json_decref(list);
    return status;
}

const struct cs_command cs_command_selftest_parallel = {
    .name = "selftest parallel",
    .role = CS_ROLE_VIEWER,
    .usage = "[options] DIR",
    .help = "run and train the model of a golden directory over pipelines, replicas, contexts, "
            "ranks of experts and shared matrices, compare with one rank",
    .run = test_parallel,
    .min_args = 1,
    .max_args = 1,
    CS_COMMAND_OPTIONS(parallel_options, struct parallel_values),
};
