/* One step, rank by rank: as the plan predicts it above as it was measured, on one scale. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "console/draw/axis.h"
#include "console/draw/fmt.h"
#include "console/report/html.h"
#include "console/report/report_parts.h"
#include "core/sched/action.h"

enum { WIDTH = 1160, LEFT = 130, RIGHT = 60, ROW = 20, RANKS = 64 };

static const double least = 0.25; /* of a rectangle, in units of the picture */

struct picture {
    const struct cs_store *store;
    struct cs_axis axis; /* milliseconds */
    struct cs_buf *out;
};

static double x_of(const struct picture *p, int64_t ns)
{
    return LEFT + cs_axis_share(&p->axis, (double)ns / 1e6) * (WIDTH - LEFT - RIGHT);
}

/* class of a span: forward, backward, its weight part alone, update; 0: not drawn */
static char class_of(const struct cs_span *span)
{
    const enum cs_op op = cs_op_of_letter(span->key.letter);
    if (op == CS_OP_STEP)
        return 'U';
    if (!span->key.is_compute)
        return 0;
    if (cs_op_does(op, CS_PART_FORWARD))
        return 'F';
    return cs_op_does(op, CS_PART_INPUT) ? 'B' : cs_op_does(op, CS_PART_WEIGHT) ? 'W' : 0;
}

static const char *stage_name(const struct cs_store *store, int32_t stage)
{
    return stage >= 0 && stage < store->n_stages ? store->stages[stage].name : "";
}

static void draw_span(const struct picture *p, const struct cs_span *span, char class, int y,
                      double *end)
{
    const double from = x_of(p, span->start_ns), to = x_of(p, span->end_ns);
    if (to - *end < least) /* what nobody can see */
        return;
    cs_buf_addf(p->out,
                "<rect class=\"%c\" x=\"%.2f\" y=\"%d\" width=\"%.2f\" height=\"%d\"><title>",
                class, from, y + 2, fmax(to - from - 0.4, least), ROW - 4);
    cs_html_textf(p->out, "%s %c, slot %d: %.3f to %.3f ms", stage_name(p->store, span->key.stage),
                  span->key.letter, (int)span->key.slot + 1, (double)span->start_ns / 1e6,
                  (double)span->end_ns / 1e6);
    cs_buf_adds(p->out, "</title></rect>");
    if (to - from > 14 && span->key.slot >= 0)
        cs_buf_addf(p->out,
                    "<text class=\"mark\" x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%d</text>",
                    (from + to) / 2, y + ROW - 7, (int)span->key.slot + 1);
    cs_buf_addc(p->out, '\n');
    *end = to;
}

static bool has_stage(const struct cs_plan *plan, int32_t stage, int32_t rank)
{
    struct cs_rank_at at;
    return plan && stage < plan->n_stages && cs_plan_rank_at(plan, stage, rank, &at);
}

/* "0 vision.0", "1 llm.0 +1": the rank and its stages */
static void name_rank(const struct cs_store *store, int32_t rank, char *out, size_t cap)
{
    const char *first = NULL;
    int more = -1;
    for (int32_t s = 0; s < store->n_stages; s++)
        if (has_stage(store->model.plan, s, rank) || store->stages[s].rank == rank) {
            first = first ? first : store->stages[s].name;
            more++;
        }
    if (more > 0)
        snprintf(out, cap, "%d %.14s +%d", (int)rank, first, more);
    else
        snprintf(out, cap, "%d %.18s", (int)rank, first ? first : "");
}

static void draw_rank(const struct picture *p, const struct cs_span_step *spans, int32_t rank,
                      int y)
{
    char name[48];
    double end = 0;
    int64_t busy_ns = 0;
    name_rank(p->store, rank, name, sizeof name);
    cs_buf_addf(p->out, "<text x=\"4\" y=\"%d\">", y + ROW - 6);
    cs_html_text(p->out, name);
    cs_buf_addf(p->out,
                "</text><rect class=\"idle\" x=\"%d\" y=\"%d\" width=\"%.2f\" height=\"%d\"/>\n",
                LEFT, y + 2, x_of(p, spans->makespan_ns) - LEFT, ROW - 4);
    for (int32_t i = 0; i < spans->n_spans; i++) {
        const struct cs_span *span = &spans->span[i];
        const char class = span->rank == rank ? class_of(span) : 0;
        if (class == 0)
            continue;
        draw_span(p, span, class, y, &end);
        busy_ns += span->key.is_compute ? span->end_ns - span->start_ns : 0;
    }
    cs_buf_addf(p->out, "<text x=\"%d\" y=\"%d\" text-anchor=\"end\">%.0f%%</text>\n", WIDTH - 4,
                y + ROW - 6,
                spans->makespan_ns > 0 ? 100 * (1 - (double)busy_ns / (double)spans->makespan_ns)
                                       : 0);
}

static void draw_axis(const struct picture *p, int y)
{
    double tick[CS_AXIS_TICKS];
    char label[24];
    const int n = cs_axis_ticks(&p->axis, 10, tick);
    for (int i = 0; i < n; i++) {
        cs_axis_label(label, sizeof label, tick[i], cs_axis_apart(tick, n));
        cs_buf_addf(p->out, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%s</text>\n",
                    x_of(p, (int64_t)(tick[i] * 1e6)), y + 12, label);
    }
    cs_buf_addf(p->out, "<text x=\"%d\" y=\"%d\" text-anchor=\"end\">ms, idle</text>\n", WIDTH - 4,
                y + 12);
}

static void draw(const struct picture *p, const struct cs_timeline *timeline, const char *what)
{
    const struct cs_span_step *spans = &timeline->spans;
    const int shown = spans->n_ranks < RANKS ? spans->n_ranks : RANKS;
    char ms[CS_FMT_CAP];
    cs_fmt_ms(ms, sizeof ms, (double)spans->makespan_ns);
    cs_buf_adds(p->out, "<figure><figcaption><b>");
    cs_html_textf(p->out, "%s: %s ms", what, ms);
    cs_buf_adds(p->out, "</b>");
    if (shown < spans->n_ranks)
        cs_html_textf(p->out, " the first %d of %d ranks", shown, (int)spans->n_ranks);
    cs_buf_addf(p->out, "</figcaption>\n<svg viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"",
                WIDTH, shown * ROW + 18);
    cs_html_textf(p->out, "timeline of a step, %s", what);
    cs_buf_adds(p->out, "\">\n");
    for (int r = 0; r < shown; r++)
        draw_rank(p, spans, r, r * ROW);
    draw_axis(p, shown * ROW);
    cs_buf_adds(p->out, "</svg></figure>\n");
}

void cs_report_timeline(const struct cs_report *report, struct cs_buf *out)
{
    const struct cs_timeline *predicted = &report->store->predicted,
                             *measured = &report->store->measured;
    const double whole_ns = fmax(predicted->arena ? (double)predicted->spans.makespan_ns : 0,
                                 measured->arena ? (double)measured->spans.makespan_ns : 0);
    const struct picture p = {report->store, cs_axis_fit(0, whole_ns / 1e6, false), out};
    char what[64];
    if (whole_ns <= 0)
        return;
    if (predicted->arena)
        draw(&p, predicted,
             report->store->is_calibrated ? "predicted, with measured costs" : "predicted");
    snprintf(what, sizeof what, "measured, step %lld", (long long)measured->step);
    if (measured->arena)
        draw(&p, measured, what);
    cs_buf_adds(out,
                "<p><i class=\"key kF\"></i>forward<i class=\"key kB\"></i>backward<i class=\"key "
                "kW\"></i>its weight part<i class=\"key kU\"></i>update; numbers are slots. "
                "Point at a part to read its times.</p>\n");
}
