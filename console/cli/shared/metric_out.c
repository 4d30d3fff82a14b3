/* Prints rows of steps in several forms. */
#include "console/cli/shared/metric_out.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/say.h"
#include "core/base/str.h"
#include "core/base/table.h"
#include "core/wire/metric.h"
#include "core/wire/wire.h"

enum { COLUMNS = CS_TABLE_COLUMNS, CELL = 64, STREAM_WIDTH = 13 };

struct cs_metric_out {
    enum cs_metric_form form;
    bool has_all; /* JSON lines: everything a row has */
    int n;
    char name[COLUMNS][CS_METRIC_NAME];
    struct cs_column column[COLUMNS];
    struct cs_table *table;
};

/* --- cells ------------------------------------------------------------------------------------ */

/* " 1.21", false: a list, which has no room in a cell */
static bool member_text(struct cs_buf *out, const char *name, const json_t *one)
{
    const json_t *value = json_is_object(one)
                              ? json_object_iter_value(json_object_iter((json_t *)(uintptr_t)one))
                              : one;
    const char *text = json_string_value(value);
    double number;
    if (text)
        cs_buf_addf(out, "%s %s", name, text);
    else if (cs_json_to_num(value, &number))
        cs_buf_addf(out, "%s %.4g", name, number);
    return out->len > 0;
}

/* "coco 1.21, alpaca 0.87": those that a cell has room for, and "..." */
static void members_text(char out[CELL], const json_t *members)
{
    static const char more[] = ", ...";
    const char *name = NULL;
    json_t *one = NULL;
    struct cs_buf member = {0}, all = {0};
    json_object_foreach((json_t *)(uintptr_t)members, name, one)
    {
        cs_buf_reset(&member);
        if (!member_text(&member, name, one))
            continue;
        if (all.len + member.len + 2 + sizeof more > CELL) {
            cs_buf_adds(&all, all.len > 0 ? more : "...");
            break;
        }
        cs_buf_addf(&all, "%s%s", all.len > 0 ? ", " : "", cs_buf_str(&member));
    }
    cs_str_copy(out, CELL, cs_buf_str(&all));
    cs_buf_free(&member);
    cs_buf_free(&all);
}

static void number_text(char out[CELL], double value)
{
    if (isnan(value))
        snprintf(out, CELL, "nan");
    else
        snprintf(out, CELL, "%.6g", value);
}

/* of a column or metric; "" unknown */
static void cell_text(char out[CELL], const json_t *row, const char *name)
{
    const json_t *value = json_object_get(row, name);
    const double number = cs_metric_get(row, name);
    out[0] = '\0';
    if (json_is_integer(value))
        snprintf(out, CELL, "%lld", (long long)json_integer_value(value));
    else if (json_is_real(value))
        number_text(out, json_real_value(value));
    else if (json_is_string(value))
        cs_str_copy(out, CELL, json_string_value(value));
    else if (json_is_object(value))
        members_text(out, value);
    else if (json_is_array(value)) /* ranks that split rows: the largest work over the mean */
        number_text(out, cs_metric_get(row, "balance"));
    else if (!isnan(number))
        number_text(out, number);
}

/* --- which columns ---------------------------------------------------------------------------- */

static void add_column(struct cs_metric_out *out, const char *name)
{
    for (int i = 0; i < out->n; i++)
        if (strcmp(out->name[i], name) == 0)
            return;
    if (out->n < COLUMNS)
        cs_str_copy(out->name[out->n++], CS_METRIC_NAME, name);
}

static bool is_raw(const json_t *reply, const char *name)
{
    const json_t *columns = cs_msg_arr(reply, "columns");
    for (size_t i = 0; i < json_array_size(columns); i++)
        if (strcmp(json_string_value(json_array_get(columns, i)), name) == 0)
            return true;
    return false;
}

static enum cs_status unknown_column(const json_t *reply, const char *name, struct cs_err *err)
{
    struct cs_buf names = {0};
    const json_t *columns = cs_msg_arr(reply, "columns");
    for (size_t i = 0; i < json_array_size(columns); i++)
        cs_buf_addf(&names, "%s%s", i ? ", " : "", json_string_value(json_array_get(columns, i)));
    for (int i = 0; i < cs_n_metrics; i++)
        if (!is_raw(reply, cs_metrics[i].name))
            cs_buf_addf(&names, ", %s", cs_metrics[i].name);
    enum cs_status status = cs_fail(
        err, CS_USAGE, "there is no column \"%s\"; there are %s, and members such as loss/SOURCE",
        name, cs_buf_str(&names));
    cs_buf_free(&names);
    return status;
}

static enum cs_status choose(struct cs_metric_out *out, const char *text, const json_t *reply,
                             struct cs_err *err)
{
    for (const char *at = text; *at != '\0';) {
        const size_t n = strcspn(at, ",");
        char name[CS_METRIC_NAME];
        snprintf(name, sizeof name, "%.*s", (int)n, at);
        if (n >= sizeof name || n == 0 || (!is_raw(reply, name) && cs_metric_find(name) == NULL))
            return unknown_column(reply, name, err);
        if (out->n == COLUMNS)
            return cs_fail(err, CS_USAGE, "more than %d columns", COLUMNS);
        add_column(out, name);
        at += n + (at[n] == ',');
    }
    return CS_OK;
}

static void add_known(void *user, const char *name, double value)
{
    (void)value;
    add_column(user, name);
}

/* step, kind, time, then every metric and member of the first rows */
static void choose_metrics(struct cs_metric_out *out, const json_t *reply)
{
    static const char *const first[] = {"step", "kind", "wall_ns"};
    const json_t *rows = cs_msg_arr(reply, "rows");
    for (size_t i = 0; i < CS_ARRAY_LEN(first); i++)
        add_column(out, first[i]);
    for (int i = 0; i < cs_n_metrics; i++)
        add_column(out, cs_metrics[i].name);
    for (size_t i = 0; i < json_array_size(rows); i++) {
        json_t *row = cs_metric_row(cs_msg_arr(reply, "columns"), json_array_get(rows, i));
        cs_metric_read(row, add_known, out);
        json_decref(row);
    }
}

/* What people look for first, the least of it dropped where there is no room. */
static const struct {
    const char *name;
    int priority;
} usual[] = {
    {"step",         0 },
    {"kind",         0 },
    {"loss",         0 },
    {"exact_match",  3 },
    {"grad_norm",    2 },
    {"lr",           4 },
    {"tokens_per_s", 1 },
    {"step_ms",      1 },
    {"mfu",          6 },
    {"bubble",       7 },
    {"memory_gib",   8 },
    {"data_wait_ms", 9 },
    {"power_w",      10},
};

static int priority_of(const char *name)
{
    for (size_t i = 0; i < CS_ARRAY_LEN(usual); i++)
        if (strcmp(usual[i].name, name) == 0)
            return usual[i].priority;
    return 0;
}

static bool is_known(const json_t *reply, const char *name)
{
    const json_t *rows = cs_msg_arr(reply, "rows");
    bool is_there = is_raw(reply, name);
    for (size_t i = 0; i < json_array_size(rows); i++) {
        json_t *row = cs_metric_row(cs_msg_arr(reply, "columns"), json_array_get(rows, i));
        is_there = json_object_get(row, name) != NULL || !isnan(cs_metric_get(row, name));
        json_decref(row);
        if (is_there)
            break;
    }
    return is_there;
}

static void choose_usual(struct cs_metric_out *out, const json_t *reply)
{
    static const char *const narrow[] = {"step",      "kind",         "loss",    "lr",
                                         "grad_norm", "tokens_per_s", "step_ms", "exact_match"};
    out->has_all = out->form == CS_METRIC_LINES;
    if (out->form == CS_METRIC_CSV)
        choose_metrics(out, reply);
    for (size_t i = 0; out->form == CS_METRIC_TABLE && i < CS_ARRAY_LEN(usual); i++)
        if (is_known(reply, usual[i].name))
            add_column(out, usual[i].name);
    for (size_t i = 0; out->form == CS_METRIC_STREAM && i < CS_ARRAY_LEN(narrow); i++)
        add_column(out, narrow[i]);
}

/* --- forms ------------------------------------------------------------------------------------ */

static void add_csv(struct cs_buf *line, const char *text, bool is_first)
{
    cs_buf_adds(line, is_first ? "" : ",");
    if (strpbrk(text, ",\"\r\n") == NULL) {
        cs_buf_adds(line, text);
        return;
    }
    cs_buf_addc(line, '"');
    for (; *text != '\0'; text++)
        cs_buf_adds(line, *text == '"' ? "\"\"" : (char[2]){*text, '\0'});
    cs_buf_addc(line, '"');
}

static void print_line(struct cs_buf *line)
{
    cs_buf_addc(line, '\n');
    cs_cmd_print(line);
    fflush(stdout);
    cs_buf_free(line);
}

static void print_titles(const struct cs_metric_out *out)
{
    struct cs_buf line = {0};
    for (int i = 0; i < out->n; i++)
        if (out->form == CS_METRIC_CSV)
            add_csv(&line, out->name[i], i == 0);
        else
            cs_table_cell(&line, out->name[i], STREAM_WIDTH, CS_ALIGN_RIGHT);
    print_line(&line);
}

static void print_object(const struct cs_metric_out *out, const json_t *row)
{
    struct cs_buf line = {0};
    json_t *object = json_object();
    for (int i = 0; i < out->n; i++) {
        json_t *raw = json_object_get(row, out->name[i]);
        const double number = cs_metric_get(row, out->name[i]);
        if (raw != NULL)
            json_object_set(object, out->name[i], raw);
        else if (!isnan(number))
            json_object_set_new(object, out->name[i], cs_json_num(number));
    }
    char *text = json_dumps(out->has_all ? row : object, JSON_COMPACT);
    cs_buf_adds(&line, text ? text : "{}");
    free(text);
    json_decref(object);
    print_line(&line);
}

static void print_cells(struct cs_metric_out *out, const json_t *row)
{
    char text[COLUMNS][CELL];
    const char *cells[COLUMNS];
    struct cs_buf line = {0};
    for (int i = 0; i < out->n; i++) {
        cell_text(text[i], row, out->name[i]);
        cells[i] = text[i][0] ? text[i] : "-";
        if (out->form == CS_METRIC_CSV)
            add_csv(&line, text[i], i == 0);
        else if (out->form == CS_METRIC_STREAM)
            cs_table_cell(&line, cells[i], STREAM_WIDTH, CS_ALIGN_RIGHT);
    }
    if (out->form == CS_METRIC_TABLE)
        cs_table_add(out->table, cells);
    else
        print_line(&line);
}

enum cs_status cs_metric_out_new(enum cs_metric_form form, const char *columns, const json_t *reply,
                                 struct cs_metric_out **made, struct cs_err *err)
{
    struct cs_metric_out *out = calloc(1, sizeof *out);
    CS_ASSERT(out);
    out->form = form;
    enum cs_status status = CS_OK;
    if (columns)
        status = choose(out, columns, reply, err);
    else
        choose_usual(out, reply);
    if (status != CS_OK) {
        free(out);
        return status;
    }
    for (int i = 0; i < out->n; i++)
        out->column[i] = (struct cs_column){
            out->name[i], 4, 0, columns ? 0 : priority_of(out->name[i]), CS_ALIGN_RIGHT};
    if (form == CS_METRIC_TABLE)
        out->table = cs_table_new(out->column, out->n);
    else if (form != CS_METRIC_LINES)
        print_titles(out);
    *made = out;
    return CS_OK;
}

void cs_metric_out_row(struct cs_metric_out *out, const json_t *row)
{
    if (out->form == CS_METRIC_LINES)
        print_object(out, row);
    else
        print_cells(out, row);
}

void cs_metric_out_end(struct cs_metric_out *out)
{
    struct cs_buf text = {0};
    if (out == NULL)
        return;
    if (out->table) {
        cs_table_render(out->table, cs_cmd_width(), true, &text);
        cs_cmd_print(&text);
    }
    cs_table_free(out->table);
    cs_buf_free(&text);
    free(out);
}
