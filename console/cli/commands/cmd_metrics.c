/* metrics: the step series of a job. */
#include <math.h>
#include <stdio.h>

#include "console/cli/command/cmd.h"
#include "console/cli/command/registry.h"
#include "core/base/table.h"
#include "core/wire/wire.h"

/* "coco 1.21, alpaca 0.87" */
static void sources_text(char out[64], const json_t *sources)
{
    const char *name = NULL;
    json_t *one = NULL;
    size_t at = 0;
    out[0] = '\0';
    json_object_foreach((json_t *)(uintptr_t)sources, name, one)
    {
        int n = snprintf(out + at, 64 - at, "%s%s %.4g", at > 0 ? ", " : "", name,
                         cs_msg_num(one, "loss", (double)NAN));
        at = n > 0 && at + (size_t)n < 64 ? at + (size_t)n : at;
    }
}

/* of the ranks that split rows: the largest work over the mean */
static void context_text(char out[64], const json_t *parts)
{
    double most = 0, sum = 0, work;
    size_t i;
    json_t *part;
    json_array_foreach((json_t *)(uintptr_t)parts, i, part)
    {
        work = json_number_value(json_array_get(part, 3));
        most = work > most ? work : most;
        sum += work;
    }
    if (sum > 0)
        snprintf(out, 64, "%.3f", most * (double)json_array_size(parts) / sum);
    else
        snprintf(out, 64, "-");
}

static void cell_text(char out[64], const json_t *value)
{
    if (json_is_integer(value))
        snprintf(out, 64, "%lld", (long long)json_integer_value(value));
    else if (json_is_real(value))
        snprintf(out, 64, "%.6g", json_real_value(value));
    else if (json_is_string(value))
        snprintf(out, 64, "%s", json_string_value(value));
    else if (json_is_object(value))
        sources_text(out, value);
    else if (json_is_array(value))
        context_text(out, value);
    else
        snprintf(out, 64, "-");
}

static void print_rows(const json_t *columns, const json_t *rows)
{
    struct cs_column column[CS_TABLE_COLUMNS] = {{0}};
    char text[CS_TABLE_COLUMNS][64];
    const char *cells[CS_TABLE_COLUMNS];
    struct cs_buf out = {0};
    int n = (int)json_array_size(columns);
    n = n > CS_TABLE_COLUMNS ? CS_TABLE_COLUMNS : n;
    for (int i = 0; i < n; i++)
        column[i] = (struct cs_column){json_string_value(json_array_get(columns, (size_t)i)), 4, 0,
                                       i < 3 ? 0 : i, CS_ALIGN_RIGHT};
    struct cs_table *table = cs_table_new(column, n);
    for (size_t r = 0; r < json_array_size(rows); r++) {
        for (int i = 0; i < n; i++) {
            cell_text(text[i], json_array_get(json_array_get(rows, r), (size_t)i));
            cells[i] = text[i];
        }
        cs_table_add(table, cells);
    }
    cs_table_render(table, cs_cmd_width(), true, &out);
    cs_cmd_print(&out);
    cs_table_free(table);
    cs_buf_free(&out);
}

struct values {
    struct cs_cmd_common common;
    int64_t after, every, limit;
};

#define AT(field) offsetof(struct values, field)
/* clang-format off */
static const struct cs_option options[] = {
    {"after", 0, CS_OPT_INT, -1, INT64_C(9007199254740991), "-1", "STEP", NULL, "rows after this step", AT(after)},
    {"every", 0, CS_OPT_INT, 1, INT64_C(9007199254740991), "1", NULL, NULL, "one row every so many steps", AT(every)},
    {"limit", 'n', CS_OPT_INT, 1, 100000, "10000", NULL, NULL, "at most so many rows", AT(limit)},
};

/* clang-format on */
#undef AT

static enum cs_status metrics(struct cs_cmd *cmd, struct cs_err *err)
{
    const struct values *v = cmd->values;
    json_t *request = NULL, *reply = NULL;
    CS_TRY(cs_cmd_job_request(cmd, "job.metrics", &request, err));
    int64_t id = cs_msg_int(request, "job", 0);
    cs_msg_set_int(request, "after_step", v->after);
    cs_msg_set_int(request, "every", v->every);
    cs_msg_set_int(request, "limit", v->limit);
    CS_TRY(cs_cmd_call(cmd, request, &reply, err));
    enum cs_status status = CS_OK;
    if (cmd->json) {
        json_t *doc = cs_doc_new("cornstarch.metrics/1");
        cs_msg_set_int(doc, "job", id);
        cs_msg_set(doc, "columns", json_incref(cs_msg_arr(reply, "columns")));
        cs_msg_set(doc, "rows", json_incref(cs_msg_arr(reply, "rows")));
        status = cs_cmd_print_doc(doc, err);
    } else {
        print_rows(cs_msg_arr(reply, "columns"), cs_msg_arr(reply, "rows"));
    }
    json_decref(reply);
    return status;
}

const struct cs_command cs_command_metrics = {
    .name = "metrics",
    .role = CS_ROLE_VIEWER,
    .usage = "[options] ID",
    .help = "the step series of a job",
    .run = metrics,
    .min_args = 1,
    .max_args = 1,
    CS_COMMAND_OPTIONS(options, struct values),
};
