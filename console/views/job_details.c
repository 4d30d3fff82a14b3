/* Jobs: what is known of the job under the cursor. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "console/draw/fmt.h"
#include "console/draw/widget.h"
#include "console/views/failure.h"
#include "console/views/job_rows.h"
#include "core/base/units.h"

enum { AT = 12, MOST_ROWS = 4, ROOMY = 14 /* rows: where fields may take more than one */ };

struct detail {
    struct cs_area area;
    enum cs_glyph_set glyphs;
    int y;
};

static void put(struct detail *d, const char *label, const char *fmt, ...) CS_PRINTF(3, 4);

static void put(struct detail *d, const char *label, const char *fmt, ...)
{
    char text[1024];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    cs_draw(d->area, 1, d->y, CS_STYLE_TITLE, label);
    d->y += cs_draw_wrap(d->area, AT, d->y, d->area.w - AT - 1, d->area.h < ROOMY ? 1 : MOST_ROWS,
                         CS_STYLE_TEXT, d->glyphs, text);
}

static void put_modules(struct detail *d, const struct cs_graph *graph)
{
    struct cs_buf line = {0};
    for (int32_t m = 0; m < graph->n_modules; m++) {
        int64_t n = 0, trained = 0;
        char count[CS_FMT_CAP];
        const struct cs_module *module = &graph->modules[m];
        for (int32_t l = 0; l < module->n_layers; l++) {
            n += graph->layers[module->first_layer + l].n_elements;
            trained += graph->layers[module->first_layer + l].n_trained;
        }
        cs_fmt_count(count, sizeof count, n);
        cs_buf_addf(&line, "%s%s %s %s", m ? "   " : "", module->name, count,
                    trained == 0   ? "frozen"
                    : trained == n ? "TRAIN"
                                   : "part TRAIN");
    }
    put(d, "model", "%s", cs_buf_str(&line));
    cs_buf_free(&line);
}

static void put_plan(struct detail *d, const struct cs_store *store)
{
    const struct cs_plan *plan = store->model.plan;
    char ms[CS_FMT_CAP];
    cs_fmt_ms(ms, sizeof ms,
              store->predicted.arena ? (double)store->predicted.spans.makespan_ns : (double)NAN);
    put(d, "plan", "%s   %d stage%s, %d rank%s   %s   %d slot%s x %d token%s   predicted %s ms",
        store->model.spec->modality, plan->n_stages, CS_PLURAL(plan->n_stages), cs_plan_world(plan),
        CS_PLURAL(cs_plan_world(plan)), plan->schedule, plan->slots, CS_PLURAL(plan->slots),
        plan->budget.seq_tokens, CS_PLURAL(plan->budget.seq_tokens), ms);
}

static void put_loss(struct detail *d, const struct cs_store *store)
{
    double low, high;
    char from[CS_FMT_CAP], to[CS_FMT_CAP];
    int width = d->area.w - 40 < 64 ? d->area.w - 40 : 64;
    if (cs_series_last_step(store->loss) < 0 || width < 8)
        return;
    cs_draw(d->area, 1, d->y, CS_STYLE_TITLE, "loss");
    int n = cs_spark_draw(store->loss, d->area, AT, d->y, width, d->glyphs, &low, &high);
    cs_fmt_known_loss(from, sizeof from, low);
    cs_fmt_known_loss(to, sizeof to, high);
    cs_drawf(d->area, AT + n + 2, d->y++, CS_STYLE_DIM, "%s to %s", from, to);
}

static void put_now(struct detail *d, const struct cs_store *store, const struct cs_store_job *job)
{
    char ms[CS_FMT_CAP], lr[CS_FMT_CAP] = "-", norm[CS_FMT_CAP], tokens[CS_FMT_CAP],
                         balance[CS_FMT_CAP];
    cs_fmt_ms(ms, sizeof ms, job->step_ns > 0 ? (double)job->step_ns : (double)NAN);
    cs_fmt_known_loss(norm, sizeof norm, store->train.grad_norm);
    cs_fmt_tokens(tokens, sizeof tokens, cs_store_tokens_per_s(store));
    if (isfinite(store->train.lr))
        snprintf(lr, sizeof lr, "%.3g", store->train.lr);
    put(d, "now", "%s ms/step   %s tok/s   grad norm %s   lr %s", ms, tokens, norm, lr);
    cs_fmt_known_loss(balance, sizeof balance, store->train.aux_loss);
    if (isfinite(store->train.aux_loss))
        put(d, "balance", "%s: loss of the experts' balance, beside that of the tokens", balance);
}

static enum cs_style level_style(int level)
{
    return level == CS_ERROR ? CS_STYLE_BAD : level == CS_WARN ? CS_STYLE_WARN : CS_STYLE_TEXT;
}

/* rows of a note that may take so many */
static int rows_of(const struct detail *d, const struct cs_store *store, int note, int most)
{
    const int rows = cs_wrap_rows(cs_store_line(&store->notes, note)->text, d->area.w - AT - 1);
    return rows < most ? rows : most;
}

/* The newest that there is room for, whole as far as all of them are there then. */
static void put_notes(struct detail *d, const struct cs_store *store)
{
    const int room = d->area.h - d->y - 1, n = store->notes.n;
    int most = MOST_ROWS + 1, used = room + 1, first = n;
    while (used > room && --most > 0) {
        used = 0;
        for (int i = 0; i < n; i++)
            used += rows_of(d, store, i, most);
    }
    most = most > 0 ? most : 1;
    for (used = 0; first > 0 && used + rows_of(d, store, first - 1, most) <= room; first--)
        used += rows_of(d, store, first - 1, most);
    d->y += first < n;
    for (int i = first; i < n; i++) {
        const struct cs_store_line *note = cs_store_line(&store->notes, i);
        char clock[CS_FMT_CAP];
        cs_fmt_clock(clock, sizeof clock, note->wall_ns);
        cs_draw(d->area, 1, d->y, CS_STYLE_DIM, clock);
        d->y += cs_draw_wrap(d->area, AT, d->y, d->area.w - AT - 1, most, level_style(note->level),
                             d->glyphs, note->text);
    }
}

/* the worst one; all are among the notes, and in 'show' */
static void put_alarms(struct detail *d, const struct cs_store_job *job)
{
    char more[32] = "";
    if (job->n_alarms == 0)
        return;
    if (job->n_alarms > 1)
        snprintf(more, sizeof more, "(1 of %d) ", job->n_alarms);
    cs_draw(d->area, 1, d->y, CS_STYLE_TITLE, "alarm");
    cs_draw_cut(d->area, AT, d->y, d->area.w - AT - 1, CS_STYLE_TEXT, d->glyphs, more);
    const int at = AT + (int)strlen(more);
    cs_draw_cut(d->area, at, d->y++, d->area.w - 1 - at, level_style(job->alarm_level), d->glyphs,
                job->alarm);
}

static void put_title(struct detail *d, const struct cs_store_job *job)
{
    char title[128];
    cs_fill(d->area, 0, 0, d->area.w, CS_STYLE_DIM, cs_glyph(d->glyphs, CS_GLYPH_HLINE));
    snprintf(title, sizeof title, " %lld %s ", (long long)job->id, job->name);
    cs_draw_cut(d->area, 2, 0, d->area.w - 4, CS_STYLE_TITLE, d->glyphs, title);
    d->y = 1;
}

void cs_job_details(const struct cs_store *store, const struct cs_screen *screen,
                    const struct cs_store_job *job, struct cs_area area)
{
    struct detail d = {.area = area, .glyphs = screen->glyphs};
    char submitted[CS_FMT_CAP];
    d.y = cs_failure_draw(store, screen, job, area);
    const bool has_failed = d.y > 0;
    if (!has_failed)
        put_title(&d, job);
    cs_fmt_clock(submitted, sizeof submitted, job->submitted_ns);
    put(&d, "submitted", "%s by %s   spec %.8s   plan %.8s   generation %lld", submitted,
        job->owner[0] ? job->owner : "-", job->spec_hash[0] ? job->spec_hash : "-",
        job->plan_hash[0] ? job->plan_hash : "-", (long long)job->generation);
    if (job->checkpoint_step >= 0 && !has_failed)
        put(&d, "checkpoint", "step %lld", (long long)job->checkpoint_step);
    if (job->place > 0)
        put(&d, "queue", "place %lld", (long long)job->place);
    if (job->reason[0] && !has_failed)
        put(&d, "reason", "%s", job->reason);
    if (job->tags[0])
        put(&d, "tags", "%s", job->tags);
    if (job->note[0])
        put(&d, "note", "%s", job->note);
    put_alarms(&d, job);
    if (isfinite(job->exact_match))
        put(&d, "held-out", "exact match %.3f", job->exact_match);
    char energy[120];
    cs_fmt_energy(energy, sizeof energy, job->energy_mj, job->step_energy_mj, job->tokens_per_j);
    if (energy[0])
        put(&d, "energy", "%s", energy);
    if (job->id != store->job) {
        put(&d, "", "Enter opens it");
        return;
    }
    if (store->model.graph)
        put_modules(&d, store->model.graph);
    if (store->model.plan)
        put_plan(&d, store);
    if (store->model_error[0])
        put(&d, "problem", "%s", store->model_error);
    put_now(&d, store, job);
    put_loss(&d, store);
    put_notes(&d, store);
}
