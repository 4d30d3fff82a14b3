/* The plan as a table, why it is as it is, and the memory that it takes of every rank. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "console/draw/fmt.h"
#include "console/report/html.h"
#include "console/report/report_parts.h"
#include "console/whatif/groups.h"
#include "core/base/units.h"
#include "core/sched/sim/forecast.h"

enum { RANKS = 256 };

static void add_stage(const struct cs_store *store, const struct cs_stage *stage,
                      struct cs_buf *out)
{
    const struct cs_graph *graph = store->model.graph;
    const struct cs_store_stage *known = &store->stages[stage->id];
    char cell[8][96];
    snprintf(cell[0], sizeof cell[0], "%.90s", stage->name);
    cs_groups_of_stage(store->model.plan, stage->id, cell[1], sizeof cell[1]);
    snprintf(cell[2], sizeof cell[2], "%.40s%s%.40s", graph->layers[stage->first_layer].path,
             stage->n_layers > 1 ? " to " : "",
             stage->n_layers > 1 ? graph->layers[stage->first_layer + stage->n_layers - 1].path
                                 : "");
    cs_fmt_ms(cell[3], sizeof cell[3], (double)stage->fwd_ns);
    cs_fmt_ms(cell[4], sizeof cell[4], (double)(stage->bwd_input_ns + stage->bwd_weight_ns));
    cs_fmt_ms(cell[5], sizeof cell[5], known->work_ns);
    cs_fmt_percent(
        cell[6], sizeof cell[6],
        cs_plan_rank_bubble(store->model.plan, store->model.plan->predicted_bubble, stage->rank));
    cs_fmt_gib(cell[7], sizeof cell[7], stage->weight_bytes + stage->state_bytes);
    cs_buf_adds(out, "<tr>");
    for (int i = 0; i < 8; i++)
        cs_html_cell(out, cell[i], i == 1 || i > 2);
    cs_buf_adds(out, "</tr>\n");
}

void cs_report_plan(const struct cs_report *report, struct cs_buf *out)
{
    const struct cs_store_model *model = &report->store->model;
    const struct cs_plan *plan = model->plan;
    char ms[CS_FMT_CAP], groups[160];
    if (plan == NULL)
        return;
    cs_groups_text(plan, model->graph, groups, sizeof groups);
    cs_fmt_ms(ms, sizeof ms, (double)plan->predicted_step_ns);
    cs_buf_adds(out, "<table>\n");
    cs_html_factf(out, "schedule", "%s, %d slot%s a step of %lld token%s", plan->schedule,
                  (int)plan->slots, CS_PLURAL(plan->slots), (long long)plan->budget.seq_tokens,
                  CS_PLURAL(plan->budget.seq_tokens));
    cs_html_factf(out, "ranks", "%d%s%s on %s", (int)cs_plan_world(plan), groups[0] ? ", " : "",
                  groups, model->device ? model->device->name : "an unknown device");
    cs_html_factf(out, "planned", "%s ms a step", ms);
    cs_buf_adds(out, "</table>\n");
    cs_html_table(out, "stage|rank#|layers|forward ms#|backward ms#|measured both#|rank idle, "
                       "planned#|weights, state GiB#");
    for (int32_t s = 0; s < plan->n_stages && s < report->store->n_stages; s++)
        add_stage(report->store, &plan->stages[s], out);
    cs_buf_adds(out, "</tbody></table>\n");
    if (plan->n_why > 0) {
        cs_buf_adds(out, "<h3>Why</h3>\n<ul>\n");
        for (int32_t i = 0; i < plan->n_why; i++)
            cs_html_element(out, "li", NULL, plan->why[i]);
        cs_buf_adds(out, "</ul>\n");
    }
}

/* --- memory ----------------------------------------------------------------------------------- */

static const char *const looks[CS_PREVIEW_HELD] = {
    [CS_PREVIEW_WEIGHTS] = "kF",     [CS_PREVIEW_GRADS] = "kB",     [CS_PREVIEW_OPTIMIZER] = "kU",
    [CS_PREVIEW_ACTIVATIONS] = "kW", [CS_PREVIEW_WORKSPACE] = "kS", [CS_PREVIEW_BOUNDARY] = "kA",
};

static void add_memory(const struct cs_preview *p, int32_t rank, double whole, struct cs_buf *out)
{
    const struct cs_preview_memory *memory = &p->memory[rank];
    char text[CS_FMT_CAP];
    cs_groups_ranks(p->made.plan, rank, text, sizeof text);
    cs_buf_adds(out, "<tr>");
    cs_html_cell(out, text, true);
    for (int h = 0; h < CS_PREVIEW_HELD; h++) {
        cs_fmt_gib(text, sizeof text, memory->bytes[h]);
        cs_html_cell(out, text, true);
    }
    cs_fmt_gib(text, sizeof text, memory->total);
    cs_html_cell(out, text, true);
    cs_buf_adds(out, "<td><span class=\"bar\">");
    for (int h = 0; h < CS_PREVIEW_HELD; h++)
        cs_buf_addf(out, "<i class=\"%s\" style=\"width:%.3f%%\"></i>", looks[h],
                    whole > 0 ? 100 * (double)memory->bytes[h] / whole : 0);
    cs_buf_addf(out, "</span>%s</td></tr>\n",
                (double)memory->total > whole * (1 + 1e-9) ? " <b class=\"bad\">too much</b>" : "");
}

static void add_memory_foot(const struct cs_report *report, int32_t shown, struct cs_buf *out)
{
    const struct cs_device_class *device = report->store->model.device;
    const struct cs_curve *measured = cs_metrics_find(&report->store->metrics, "memory_gib", false);
    char gib[CS_FMT_CAP];
    cs_buf_adds(out, "<p>GiB that a rank needs, as planned.");
    for (int h = 0; h < CS_PREVIEW_HELD; h++)
        cs_buf_addf(out, "<i class=\"key %s\"></i>%s", looks[h],
                    cs_preview_held_name((enum cs_preview_held)h));
    if (device && device->mem_bytes > 0) {
        cs_fmt_gib(gib, sizeof gib, device->mem_bytes);
        cs_html_textf(out, "; a whole bar is the %s GiB of a %s", gib, device->name);
    } else {
        cs_buf_adds(out, "; a whole bar is the fullest rank");
    }
    if (measured && isfinite(measured->last))
        cs_html_textf(out, "; the fullest rank held %.3f GiB at the last step", measured->last);
    if (shown < report->preview->forecast.n_ranks)
        cs_html_textf(out, "; the first %d of %d ranks", (int)shown,
                      (int)report->preview->forecast.n_ranks);
    cs_buf_adds(out, ".</p>\n");
}

void cs_report_memory(const struct cs_report *report, struct cs_buf *out)
{
    const struct cs_preview *p = report->preview;
    if (p->arena == NULL || p->made.plan == NULL || p->error[0] != '\0')
        return;
    const struct cs_device_class *device = report->store->model.device;
    const double whole = device && device->mem_bytes > 0 ? (double)device->mem_bytes
                                                         : (double)p->memory[p->peak_rank].total;
    const int32_t shown = p->forecast.n_ranks < RANKS ? p->forecast.n_ranks : RANKS;
    cs_html_table(
        out, "rank#|weights#|gradients#|optimizer#|activations#|workspace#|boundary#|in all#|");
    for (int32_t r = 0; r < shown; r++)
        add_memory(p, r, whole, out);
    cs_buf_adds(out, "</tbody></table>\n");
    add_memory_foot(report, shown, out);
}
