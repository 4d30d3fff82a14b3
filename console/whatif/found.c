/* Rows of found plans as text. */
#include "console/whatif/found.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/units.h"

static const char *text_of(const json_t *row, const char *key)
{
    const char *text = json_string_value(json_object_get(row, key));
    return text ? text : "";
}

static json_int_t int_of(const json_t *row, const char *key)
{
    return json_integer_value(json_object_get(row, key));
}

static void duration(char out[CS_UNITS_CAP], int64_t ns)
{
    if (ns > 0)
        cs_duration_print(out, CS_UNITS_CAP, (uint64_t)ns);
    else
        snprintf(out, CS_UNITS_CAP, "-");
}

/* "vision tp2 pp1 dp32 full": what is not said is 1, or as usual */
static void branch_text(const json_t *row, const char *name, const json_t *at, struct cs_buf *out)
{
    const char *place = text_of(at, "place");
    cs_buf_addf(out, "  %s", name);
    if (int_of(at, "tp") > 1)
        cs_buf_addf(out, " tp%d", (int)int_of(at, "tp"));
    if (int_of(at, "cp") > 1)
        cs_buf_addf(out, " cp%d", (int)int_of(at, "cp"));
    cs_buf_addf(out, " pp%d", (int)int_of(at, "pp"));
    if (json_is_true(json_object_get(at, "sp")))
        cs_buf_adds(out, " sp");
    if (int_of(at, "ep") > 1)
        cs_buf_addf(out, " ep%d", (int)int_of(at, "ep"));
    if (int_of(at, "vpp") > 1)
        cs_buf_addf(out, " vpp%d", (int)int_of(at, "vpp"));
    if (place[0] && strcmp(place, "own") != 0)
        cs_buf_addf(out, " %s", place);
    else if (int_of(at, "dp") > 0 && int_of(at, "dp") != int_of(row, "dp"))
        cs_buf_addf(out, " dp%d", (int)int_of(at, "dp"));
    if (int_of(at, "zero") > 1)
        cs_buf_addf(out, " zero%d", (int)int_of(at, "zero"));
    if (strcmp(text_of(at, "recompute"), "none") != 0)
        cs_buf_addf(out, " %s", text_of(at, "recompute"));
}

/* "dp 8  vision tp2 pp1  llm tp8 pp4 full  equal-layers  context_rows 256", or the parameters of a sweep */
static void layout_text(const json_t *row, struct cs_buf *out)
{
    const char *name;
    json_t *at;
    json_t *parameters = json_object_get(row, "parameters");
    json_object_foreach(parameters, name, at)
    {
        char *text = json_dumps(at, JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(6));
        cs_buf_addf(out, "%s%s=%s", out->len ? " " : "", name, text ? text : "?");
        free(text);
    }
    if (json_object_size(parameters) > 0)
        return;
    cs_buf_addf(out, "dp %d", (int)int_of(row, "dp"));
    json_object_foreach(json_object_get(row, "parallel"), name, at) branch_text(row, name, at, out);
    if (strcmp(text_of(row, "cut"), "equal-layers") == 0)
        cs_buf_adds(out, "  equal-layers");
    if (int_of(row, "context_rows") > 0)
        cs_buf_addf(out, "  context_rows %d", (int)int_of(row, "context_rows"));
}

/* replicas and slots of each of them make a step's slots */
static void set_rates(const json_t *row, double step_ns, struct cs_found_cells *c)
{
    const double own_ns = json_number_value(json_object_get(row, "step_ns"));
    const double factor = own_ns > 0 && step_ns > 0 ? step_ns / own_ns : 1;
    const json_t *tokens = json_object_get(row, "tokens_per_s");
    duration(c->slot, (int64_t)(factor * json_number_value(json_object_get(row, "slot_ns"))));
    snprintf(c->tokens, sizeof c->tokens, "-");
    if (json_is_number(tokens))
        cs_count_print(c->tokens, sizeof c->tokens,
                       (uint64_t)fmax(0, json_number_value(tokens) / factor));
}

void cs_found_cells(const json_t *row, bool as_job, struct cs_found_cells *c)
{
    const json_t *runs = json_object_get(row, "runs"), *job = json_object_get(row, "job");
    const json_t *of = as_job && json_is_object(job) ? job : row;
    memset(c, 0, sizeof *c);
    snprintf(c->runs, sizeof c->runs, "%s",
             !json_is_boolean(runs) ? "-"
             : json_is_true(runs)   ? "yes"
                                    : "no");
    duration(c->step, int_of(of, "step_ns"));
    duration(c->mean, int_of(row, "mean_ns"));
    duration(c->p95, int_of(row, "p95_ns"));
    duration(c->expected, int_of(row, "score_ns"));
    set_rates(row, (double)int_of(of, "step_ns"), c);
    cs_bytes_print(c->memory, sizeof c->memory, (uint64_t)int_of(of, "peak_memory_bytes"));
    snprintf(c->bubble, sizeof c->bubble, "%.1f%%",
             100 * json_number_value(json_object_get(of, "bubble")));
    snprintf(c->ranks, sizeof c->ranks, "%d", (int)int_of(row, "ranks"));
    layout_text(row, &c->layout);
}
