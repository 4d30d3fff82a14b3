/* The page as a whole: the summary, then every part that has something to show. */
#include "console/report/report.h"

#include <math.h>
#include <string.h>

#include "console/draw/fmt.h"
#include "console/report/html.h"
#include "console/report/report_parts.h"
#include "core/base/system/clock.h"
#include "core/wire/job_state.h"
#include "core/wire/wire.h"

static const struct {
    const char *id, *title;
    cs_report_part *part;
} parts[] = {
    {"warnings",      "Warnings",      cs_report_warnings   },
    {"charts",        "Charts",        cs_report_charts     },
    {"evaluation",    "Evaluation",    cs_report_evaluation },
    {"timeline",      "Timeline",      cs_report_timeline   },
    {"plan",          "Plan",          cs_report_plan       },
    {"memory",        "Memory",        cs_report_memory     },
    {"environment",   "Environment",   cs_report_environment},
    {"specification", "Specification", cs_report_spec       },
};

static void add_time(struct cs_buf *out, const char *name, int64_t wall_ns)
{
    char text[CS_ISO_CAP];
    if (wall_ns <= 0)
        return;
    cs_iso_print(text, sizeof text, wall_ns);
    cs_html_fact(out, name, text);
}

static void add_step_time(struct cs_buf *out, const struct cs_store_job *job)
{
    char predicted[CS_FMT_CAP], measured[CS_FMT_CAP], drift[CS_FMT_CAP];
    cs_fmt_ms(measured, sizeof measured, (double)job->step_ns);
    cs_fmt_ms(predicted, sizeof predicted, (double)job->predicted_step_ns);
    if (job->step_ns <= 0 || job->predicted_step_ns <= 0) {
        cs_html_fact(out, "step time", job->step_ns > 0 ? measured : "");
        return;
    }
    cs_fmt_drift(drift, sizeof drift, (double)job->step_ns / (double)job->predicted_step_ns - 1);
    cs_html_factf(out, "step time", "%s ms, predicted %s ms (%s)", measured, predicted, drift);
}

static void add_figures(struct cs_buf *out, const struct cs_store_job *job)
{
    char loss[CS_FMT_CAP], text[160], elapsed[CS_FMT_CAP];
    const int64_t end_ns = job->ended_ns;
    cs_html_factf(out, "steps", "%lld of %lld", (long long)job->step, (long long)job->steps);
    if (job->step > 0) {
        cs_fmt_known_loss(loss, sizeof loss, job->loss);
        cs_html_fact(out, "loss", loss);
    }
    if (!isnan(job->exact_match))
        cs_html_factf(out, "exact match", "%.4f", job->exact_match);
    add_step_time(out, job);
    cs_fmt_energy(text, sizeof text, job->energy_mj, job->step_energy_mj, job->tokens_per_j);
    cs_html_fact(out, "energy", text);
    if (job->started_ns > 0 && end_ns > job->started_ns) {
        cs_fmt_elapsed(elapsed, sizeof elapsed, end_ns - job->started_ns);
        cs_html_fact(out, "took", elapsed);
    }
}

static void add_summary(const struct cs_report *report, struct cs_buf *out)
{
    const struct cs_store_job *job = cs_store_selected(report->store);
    const bool is_bad = cs_job_state_mood(job->state) == CS_MOOD_BAD;
    cs_buf_addf(out, "<header><h1>job %lld: ", (long long)job->id);
    cs_html_text(out, job->name);
    cs_buf_addf(out, "</h1>\n<p%s>", is_bad ? " class=\"bad\"" : "");
    cs_html_textf(out, "%s%s%s", job->state, job->reason[0] ? ": " : "", job->reason);
    cs_buf_adds(out, "</p></header>\n<table>\n");
    add_figures(out, job);
    cs_html_fact(out, "owner", job->owner);
    cs_html_fact(out, "note", cs_msg_str(report->job, "note", ""));
    add_time(out, "submitted", job->submitted_ns);
    add_time(out, "started", job->started_ns);
    add_time(out, "ended", job->ended_ns);
    if (job->checkpoint_step >= 0)
        cs_html_factf(out, "checkpoint", "step %lld", (long long)job->checkpoint_step);
    add_time(out, "this page", report->wall_ns);
    cs_buf_adds(out, "</table>\n");
}

void cs_report_html(const struct cs_report *report, struct cs_buf *out)
{
    struct cs_buf title = {0}, body = {0};
    const struct cs_store_job *job = cs_store_selected(report->store);
    cs_buf_addf(&title, "job %lld: %s", (long long)job->id, job->name);
    cs_html_begin(out, cs_buf_str(&title));
    add_summary(report, out);
    for (size_t i = 0; i < CS_ARRAY_LEN(parts); i++) {
        cs_buf_reset(&body);
        parts[i].part(report, &body);
        if (body.len == 0)
            continue;
        cs_buf_addf(out, "<section id=\"%s\">\n<h2>%s</h2>\n%s</section>\n", parts[i].id,
                    parts[i].title, cs_buf_str(&body));
    }
    cs_buf_adds(out, "</body>\n</html>\n");
    cs_buf_free(&title);
    cs_buf_free(&body);
}
