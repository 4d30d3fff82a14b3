/* The list of jobs that can be laid over the selected one, and the difference of two. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "console/draw/fmt.h"
#include "console/draw/widget.h"
#include "console/store/spec_diff.h"
#include "console/views/metrics/data.h"
#include "core/base/units.h"

enum { DIFF_MAX = 400 };

int cs_metrics_others(const struct cs_store *store, int64_t out[CS_STORE_JOBS])
{
    int n = 0;
    for (int i = 0; i < store->n_jobs; i++)
        if (store->jobs[i].id != store->job)
            out[n++] = store->jobs[i].id;
    return n;
}

static char mark_of(const struct cs_screen *screen, int64_t job)
{
    for (int i = 0; i < screen->metrics.n_beside; i++)
        if (screen->metrics.beside[i] == job)
            return (char)('a' + i);
    return ' ';
}

void cs_metrics_draw_jobs(const struct cs_store *store, const struct cs_screen *screen,
                          struct cs_area area)
{
    int64_t *others = calloc(CS_STORE_JOBS, sizeof *others);
    CS_ASSERT(others);
    const int n = cs_metrics_others(store, others), room = area.h - 2,
              on = cs_screen_clamp(screen->metrics.list_row, 0, n > 0 ? n - 1 : 0);
    const int top = on >= room ? on - room + 1 : 0;
    cs_drawf(area, 1, 0, CS_STYLE_TITLE, "lay over job %lld (at most %d)", (long long)store->job,
             CS_STORE_BESIDE);
    cs_draw(area, 36, 0, CS_STYLE_DIM, "Enter puts it there or takes it off, o back to the charts");
    if (n == 0)
        cs_draw(area, 1, 2, CS_STYLE_DIM, "there is no other job");
    for (int i = top; i < n && i - top < room; i++) {
        const struct cs_store_job *job = cs_store_find(store, others[i]);
        const enum cs_style style = i == on ? CS_STYLE_CURSOR : CS_STYLE_TEXT;
        char loss[CS_FMT_CAP], line[200];
        cs_fmt_known_loss(loss, sizeof loss, job->loss);
        snprintf(line, sizeof line, "%c %6lld  %-28.28s %-9.9s %8lld steps  loss %s",
                 mark_of(screen, job->id), (long long)job->id, job->name, job->state,
                 (long long)(job->step < 0 ? 0 : job->step), loss);
        cs_draw_cut(area, 1, 2 + i - top, area.w - 2, style, screen->glyphs, line);
    }
    free(others);
}

static const struct cs_store_beside *first_beside(const struct cs_store *store)
{
    for (int i = 0; i < CS_STORE_BESIDE; i++)
        if (store->beside[i].job != 0)
            return &store->beside[i];
    return NULL;
}

static void draw_rows(const struct cs_screen *screen, struct cs_area area,
                      const struct cs_spec_difference *rows, int n)
{
    const int w = area.w - 4, path_w = w * 2 / 5, value_w = (w - path_w) / 2, room = area.h - 3,
              top = cs_screen_clamp(screen->metrics.top, 0, n > room ? n - room : 0);
    for (int i = top; i < n && i - top < room; i++) {
        const int y = 3 + i - top;
        cs_draw_cut(area, 1, y, path_w, CS_STYLE_TITLE, screen->glyphs, rows[i].path);
        cs_draw_cut(area, 2 + path_w, y, value_w, CS_STYLE_TEXT, screen->glyphs, rows[i].a);
        cs_draw_cut(area, 3 + path_w + value_w, y, value_w, CS_STYLE_TEXT, screen->glyphs,
                    rows[i].b);
    }
    cs_draw(area, 1, 2, CS_STYLE_DIM, "key");
    cs_draw(area, 2 + path_w, 2, CS_STYLE_DIM, "this job");
    cs_draw(area, 3 + path_w + value_w, 2, CS_STYLE_DIM, "the other");
}

void cs_metrics_draw_diff(const struct cs_store *store, const struct cs_screen *screen,
                          struct cs_area area)
{
    const struct cs_store_beside *other = first_beside(store);
    if (other == NULL || other->spec == NULL || store->model.spec_json == NULL) {
        cs_draw(area, 1, 1, CS_STYLE_DIM,
                other == NULL ? "no job is laid over: o chooses one"
                              : "waiting for the specifications of both jobs");
        return;
    }
    struct cs_spec_difference *rows = calloc(DIFF_MAX, sizeof *rows);
    CS_ASSERT(rows);
    const int n = cs_spec_diff(store->model.spec_json, other->spec, rows, DIFF_MAX);
    cs_drawf(area, 1, 0, CS_STYLE_TITLE, "job %lld and job %lld: %d key%s differ%s",
             (long long)store->job, (long long)other->job, n, CS_PLURAL(n), CS_NOUN(n, "s", ""));
    if (n > 0)
        draw_rows(screen, area, rows, n < DIFF_MAX ? n : DIFF_MAX);
    free(rows);
}
