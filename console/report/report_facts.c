/* Warnings, evaluations, the machine, the specification. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "console/draw/fmt.h"
#include "console/report/html.h"
#include "console/report/report_parts.h"
#include "core/base/str.h"
#include "core/base/system/clock.h"
#include "core/wire/alarm.h"
#include "core/wire/wire.h"

enum { EVALUATIONS = 200 };

/* --- warnings: alarms of rules, then what was noted as one ------------------------------------ */

static void add_alarms(const json_t *alarms, struct cs_buf *out)
{
    for (size_t i = 0; i < json_array_size(alarms); i++) {
        struct cs_buf text = {0};
        cs_alarm_print(&text, json_array_get(alarms, i));
        cs_html_element(out, "li", NULL, cs_buf_str(&text));
        cs_buf_free(&text);
    }
}

void cs_report_warnings(const struct cs_report *report, struct cs_buf *out)
{
    const struct cs_store_lines *notes = &report->store->notes;
    struct cs_buf list = {0};
    char time[CS_ISO_CAP];
    add_alarms(cs_msg_arr(report->job, "alarms"), &list);
    for (int i = 0; i < notes->n; i++) {
        const struct cs_store_line *line = cs_store_line(notes, i);
        if (line->level != CS_WARN && line->level != CS_ERROR)
            continue;
        cs_iso_print(time, sizeof time, line->wall_ns);
        cs_buf_addf(&list, "<li%s>", line->level == CS_ERROR ? " class=\"bad\"" : "");
        cs_html_textf(&list, "%s  %s: %s", line->wall_ns > 0 ? time : "",
                      line->level == CS_ERROR ? "error" : "warning", line->text);
        cs_buf_adds(&list, "</li>\n");
    }
    if (list.len > 0)
        cs_buf_addf(out, "<ul>\n%s</ul>\n", cs_buf_str(&list));
    cs_buf_free(&list);
}

/* --- evaluations ------------------------------------------------------------------------------ */

static double at_step(const struct cs_curve *curve, int64_t step)
{
    struct cs_series_bucket bucket;
    if (curve == NULL || cs_series_read(curve->series, step, step + 1, 1, &bucket) != 1)
        return (double)NAN;
    return cs_series_mean(&bucket);
}

static void add_evaluation(const struct cs_curve *exact, const struct cs_series_bucket *bucket,
                           struct cs_buf *out)
{
    char cell[3][CS_FMT_CAP];
    const int64_t step = bucket->first_step + bucket->n_steps - 1;
    const double share = at_step(exact, step);
    snprintf(cell[0], sizeof cell[0], "%lld", (long long)step);
    cs_fmt_loss(cell[1], sizeof cell[1], cs_series_mean(bucket));
    snprintf(cell[2], sizeof cell[2], isnan(share) ? "-" : "%.4f", share);
    cs_buf_adds(out, "<tr>");
    for (int i = 0; i < 3; i++)
        cs_html_cell(out, cell[i], true);
    cs_buf_adds(out, "</tr>\n");
}

void cs_report_evaluation(const struct cs_report *report, struct cs_buf *out)
{
    const struct cs_metrics *metrics = &report->store->metrics;
    const struct cs_curve *loss = cs_metrics_find(metrics, "loss", true),
                          *exact = cs_metrics_find(metrics, "exact_match", true);
    if (loss == NULL)
        return;
    struct cs_series_bucket *bucket = calloc(EVALUATIONS, sizeof *bucket);
    CS_ASSERT(bucket);
    const uint32_t n =
        cs_series_read(loss->series, 0, cs_series_last_step(loss->series) + 1, EVALUATIONS, bucket);
    cs_html_table(out, "step#|loss#|exact match#");
    for (uint32_t i = 0; i < n; i++)
        if (bucket[i].n + bucket[i].n_bad > 0)
            add_evaluation(exact, &bucket[i], out);
    cs_buf_adds(out, "</tbody></table>\n");
    free(bucket);
}

/* --- the machine ------------------------------------------------------------------------------ */

static void add_devices(const json_t *devices, struct cs_buf *out)
{
    char name[160];
    for (size_t i = 0; i < json_array_size(devices); i++) {
        const json_t *device = json_array_get(devices, i);
        char gib[CS_FMT_CAP] = "";
        if (cs_str_starts(cs_msg_str(device, "name", ""), "cpu:"))
            continue; /* the processor is named above */
        snprintf(name, sizeof name, "%.150s", cs_msg_str(device, "name", ""));
        cs_fmt_gib(gib, sizeof gib, cs_msg_int(device, "mem_bytes", -1));
        cs_html_factf(out, "device", "%s: %s, %s GiB", name, cs_msg_str(device, "model", ""), gib);
    }
}

static void add_node(const json_t *node, struct cs_buf *out)
{
    char gib[CS_FMT_CAP];
    cs_html_fact(out, "node", cs_msg_str(node, "node", ""));
    cs_html_fact(out, "Cornstarch", cs_msg_str(node, "version", ""));
    cs_html_fact(out, "processor", cs_msg_str(node, "cpu", ""));
    if (cs_msg_int(node, "cores", 0) > 0)
        cs_html_factf(out, "cores", "%lld", (long long)cs_msg_int(node, "cores", 0));
    if (cs_msg_int(node, "mem_bytes", 0) > 0) {
        cs_fmt_gib(gib, sizeof gib, cs_msg_int(node, "mem_bytes", 0));
        cs_html_factf(out, "memory", "%s GiB", gib);
    }
    cs_html_fact(out, "driver", cs_msg_str(node, "driver", ""));
    add_devices(cs_msg_arr(node, "devices"), out);
}

void cs_report_environment(const struct cs_report *report, struct cs_buf *out)
{
    const struct cs_store_job *job = cs_store_selected(report->store);
    cs_buf_adds(out, "<table>\n");
    if (report->node)
        add_node(report->node, out);
    cs_html_fact(out, "ranks on", cs_msg_str(report->job, "device", ""));
    cs_html_fact(out, "directory", job->dir);
    cs_html_fact(out, "specification", job->spec_hash);
    cs_html_fact(out, "plan", job->plan_hash);
    cs_buf_adds(out, "</table>\n");
    if (report->node)
        cs_buf_adds(out, "<p>The node as it is now.</p>\n");
}

void cs_report_spec(const struct cs_report *report, struct cs_buf *out)
{
    char *text = report->spec ? json_dumps(report->spec, JSON_INDENT(2)) : NULL;
    if (text == NULL)
        return;
    cs_buf_adds(out, "<details><summary>as the job was submitted (JSON)</summary>\n");
    cs_html_element(out, "pre", NULL, text);
    cs_buf_adds(out, "</details>\n");
    free(text);
}
