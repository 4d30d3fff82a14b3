/* The whole screen: header, tabs, panes, key line, help. */
#include "console/screen/screen.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "console/draw/fmt.h"
#include "console/draw/widget.h"
#include "console/screen/keys/keys.h"
#include "console/screen/keys/palette.h"
#include "console/screen/panes.h"
#include "console/views/edit_draw.h"
#include "console/views/failure.h"
#include "console/views/state/view.h"
#include "core/base/str.h"
#include "core/base/units.h"
#include "core/wire/job_state.h"

static struct cs_area part(struct cs_area area, struct cs_rect r)
{
    return cs_area_part(area, r.x, r.y, r.w, r.h);
}

/* --- header and tabs -------------------------------------------------------------------------- */

static enum cs_style state_style(const char *state)
{
    enum cs_job_mood mood = cs_job_state_mood(state);
    return mood == CS_MOOD_BAD    ? CS_STYLE_BAD
           : mood == CS_MOOD_GOOD ? CS_STYLE_GOOD
                                  : CS_STYLE_HEADER;
}

static void add_job(struct cs_fields *fields, const struct cs_store *store,
                    const struct cs_store_job *job)
{
    char text[CS_FMT_CAP];
    if (store->is_script)
        cs_fields_add(fields, CS_STYLE_HEADER, 0, "%.40s", job->name);
    else
        cs_fields_add(fields, CS_STYLE_HEADER, 0, "job %lld %.40s", (long long)job->id, job->name);
    cs_fields_add(fields, state_style(job->state), 0, "%s", job->state);
    if (job->step >= 0 && job->steps >= 0)
        cs_fields_add(fields, CS_STYLE_TEXT, 1, "%lld/%lld", (long long)job->step,
                      (long long)job->steps);
    else if (job->step >= 0)
        cs_fields_add(fields, CS_STYLE_TEXT, 1, "step %lld", (long long)job->step);
    if (!isnan(job->loss)) {
        cs_fmt_known_loss(text, sizeof text, job->loss);
        cs_fields_add(fields, CS_STYLE_TEXT, 2, "loss %s", text);
    }
    if (isfinite(cs_store_tokens_per_s(store))) {
        cs_fmt_tokens(text, sizeof text, cs_store_tokens_per_s(store));
        cs_fields_add(fields, CS_STYLE_TEXT, 4, "%s tok/s", text);
    }
    if (cs_store_eta_ns(store, job) >= 0) {
        cs_fmt_elapsed(text, sizeof text, cs_store_eta_ns(store, job));
        cs_fields_add(fields, CS_STYLE_TEXT, 3, "eta %s", text);
    }
}

static void draw_header(const struct cs_store *store, struct cs_area area)
{
    struct cs_fields fields = {0};
    const struct cs_store_job *job = cs_store_selected(store);
    cs_fields_add(&fields, CS_STYLE_TITLE, 6, "cornstarch");
    if (store->node[0])
        cs_fields_add(&fields, CS_STYLE_TEXT, 5, "%.40s", store->node);
    if (job)
        add_job(&fields, store, job);
    else
        cs_fields_add(&fields, CS_STYLE_TEXT, 0, "%d job%s", store->n_jobs,
                      CS_PLURAL(store->n_jobs));
    cs_fields_draw(&fields, area, 1, 0);
}

static void draw_tabs(const struct cs_screen *screen, struct cs_area area, bool is_compact)
{
    int x = 0;
    for (int v = 0; v < CS_VIEW_COUNT; v++) {
        bool is_on = (enum cs_view)v == screen->view;
        const char *title = is_compact ? cs_view_ops((enum cs_view)v)->short_title
                                       : cs_view_ops((enum cs_view)v)->title;
        x += cs_drawf(area, x, 0, is_on ? CS_STYLE_TAB_ON : CS_STYLE_TAB, "%c%s %s%c",
                      is_on ? '[' : ' ', cs_view_ops((enum cs_view)v)->key, title,
                      is_on ? ']' : ' ');
        x += is_compact ? 0 : 1;
    }
}

static void draw_failed(const struct cs_store_job *job, const struct cs_screen *screen,
                        struct cs_area area)
{
    char text[sizeof job->reason + 100];
    snprintf(text, sizeof text, " job %lld is %s   ! why and what to try   %s ", (long long)job->id,
             job->state, job->reason);
    cs_draw_cut(area, 2, 0, area.w - 4, CS_STYLE_BANNER, screen->glyphs, text);
}

static void draw_rule(const struct cs_store *store, const struct cs_screen *screen,
                      struct cs_area area)
{
    cs_fill(area, 0, 0, area.w, CS_STYLE_DIM, cs_glyph(screen->glyphs, CS_GLYPH_HLINE));
    const struct cs_store_job *failed = cs_failure_to_tell(store, screen);
    if (!store->is_connected)
        cs_draw(area, 2, 0, CS_STYLE_BANNER, " no connection: these values are old; trying again ");
    else if (failed && !screen->failure)
        draw_failed(failed, screen, area);
}

/* --- key line --------------------------------------------------------------------------------- */

static void draw_prompt(const struct cs_screen *screen, struct cs_area area)
{
    static const char *const marks[] = {
        [CS_PROMPT_FIND] = "/", [CS_PROMPT_FILTER] = "only rows with: ", [CS_PROMPT_COMMAND] = ":"};
    if (screen->prompt >= CS_PROMPT_FIND) {
        cs_edit_draw(&screen->edit, marks[screen->prompt], area, 1, 0, true);
        return;
    }
    const char *verb = screen->order ? screen->order->name : "";
    long long job = (long long)screen->order_job;
    if (!screen->order)
        cs_drawf(area, 1, 0, CS_STYLE_BANNER, " %s  y yes, any other key no ", screen->question);
    else if (screen->prompt == CS_PROMPT_CONFIRM)
        cs_drawf(area, 1, 0, CS_STYLE_BANNER, " %s job %lld?  y yes, any other key no ", verb, job);
    else
        cs_drawf(area, 1, 0, CS_STYLE_BANNER,
                 " %s job %lld: type its number, then Enter (Esc: no) > %s_ ", verb, job,
                 screen->typed);
}

/* What the key does now, NULL: nothing. Orders can be given to the job under the cursor, in its state; R may run
 * what is no job yet instead. */
static const char *offer(const struct cs_store *store, const struct cs_screen *screen,
                         const struct cs_key_row *row)
{
    const struct cs_view_ops *view = cs_view_ops(screen->view);
    const struct cs_store_job *job = row->order ? cs_screen_job(store, screen) : NULL;
    if (!row->order)
        return row->label[0] ? row->label : NULL;
    if (row->act == cs_act_resume && view->can_run &&
        view->can_run(store, screen) != CS_RUN_NOTHING)
        return view->can_run(store, screen) == CS_RUN_READY ? "run" : NULL;
    return !screen->is_read_only && !store->is_replay && job != NULL &&
                   cs_job_order_is_allowed(job->state, row->order)
               ? row->label
               : NULL;
}

static void draw_keys(const struct cs_store *store, const struct cs_screen *screen,
                      struct cs_area area)
{
    struct cs_fields fields = {0};
    struct cs_key_row rows[CS_KEYS];
    const int n =
        cs_screen_text(screen) ? cs_keys_text(screen->view, rows) : cs_keys_of(screen->view, rows);
    if (screen->prompt != CS_PROMPT_NONE) {
        draw_prompt(screen, area);
        return;
    }
    if (screen->message[0]) {
        cs_draw_cut(area, 1, 0, area.w - 2, screen->message_style, screen->glyphs, screen->message);
        return;
    }
    for (int i = 0; i < n; i++) {
        const char *label = offer(store, screen, &rows[i]);
        char shown[16];
        if (!label)
            continue;
        snprintf(shown, sizeof shown, "%.*s", (int)strcspn(rows[i].shown, " "), rows[i].shown);
        cs_fields_add(&fields, CS_STYLE_KEY, rows[i].priority, "%s %s", shown, label);
    }
    if (screen->is_read_only)
        cs_fields_add(&fields, CS_STYLE_DIM, 6, "read-only");
    cs_fields_draw(&fields, area, 1, 0);
}

/* --- help ------------------------------------------------------------------------------------- */

enum { HELP_KEYS = 14 /* column of what a key does */, HELP_WIDEST = 110 };

/* lines of the help: some above the area, some below it */
struct page {
    struct cs_area area; /* below the heading */
    int top, y;
};

static bool is_on_page(const struct page *page)
{
    const int y = page->y - page->top;
    return y >= 0 && y < page->area.h;
}

/* What the view shows: its text for the manual, whose lines end where sentences do. */
static void put_text(struct page *page, const char *help)
{
    struct cs_buf text = {0};
    for (; *help; help++)
        cs_buf_addc(&text, *help == '\n' ? ' ' : *help);
    const int width = page->area.w - 2 < HELP_WIDEST ? page->area.w - 2 : HELP_WIDEST;
    for (const char *at = cs_buf_str(&text); *at; page->y++) {
        const size_t n = cs_wrap_next(at, width);
        if (is_on_page(page))
            cs_draw_n(page->area, 1, page->y - page->top, CS_STYLE_TEXT, at, n);
        at += n;
    }
    page->y++;
    cs_buf_free(&text);
}

static void put_keys(struct page *page, const struct cs_key_row *rows, int n)
{
    for (int i = 0; i < n; i++, page->y++) {
        const int y = page->y - page->top;
        if (!is_on_page(page))
            continue;
        cs_draw(page->area, 1, y, CS_STYLE_KEY, rows[i].shown);
        const int used =
            cs_draw(page->area, HELP_KEYS, y, CS_STYLE_TEXT, cs_key_row_help(&rows[i]));
        if (rows[i].order && HELP_KEYS + used + 4 < page->area.w)
            cs_drawf(page->area, HELP_KEYS + used + 2, y, CS_STYLE_DIM,
                     "(cornstarch-console %s ID)", rows[i].order->name);
    }
}

static int put_help(struct page *page, const struct cs_screen *screen)
{
    struct cs_key_row rows[CS_KEYS];
    const struct cs_view_ops *view = cs_view_ops(screen->view);
    page->y = 0;
    put_text(page, view->help);
    if (view->text) {
        put_keys(page, rows, cs_keys_text(screen->view, rows));
        page->y++;
    }
    put_keys(page, rows, cs_keys_of(screen->view, rows));
    return page->y;
}

/* what the view shows, and its keys */
static void draw_help(const struct cs_screen *screen, struct cs_area area)
{
    struct page page = {.area = cs_area_part(area, 0, 2, area.w, area.h - 2), .top = INT_MAX};
    const int total = put_help(&page, screen), last = total - page.area.h;
    page.top = screen->help_top < last ? screen->help_top : last;
    page.top = page.top > 0 ? page.top : 0;
    cs_drawf(area, 1, 0, CS_STYLE_TITLE, "%s: what it shows, and its keys",
             cs_view_ops(screen->view)->title);
    cs_draw_right(area, area.w - 1, 0, CS_STYLE_DIM,
                  last > 0 ? "? or Esc closes this, j/k scrolls it" : "? or Esc closes this");
    (void)put_help(&page, screen);
}

/* --- all -------------------------------------------------------------------------------------- */

static void draw_side(const struct cs_store *store, const struct cs_screen *screen,
                      const struct cs_panes *panes, struct cs_area area)
{
    for (int y = panes->pane[0].y; y < panes->bottom_rule.y; y++)
        cs_draw(area, panes->divider_x, y, CS_STYLE_DIM, cs_glyph(screen->glyphs, CS_GLYPH_VLINE));
    for (int i = 1; i < panes->n; i++) {
        struct cs_area title = part(area, panes->title[i]);
        cs_fill(title, 0, 0, title.w, CS_STYLE_DIM, cs_glyph(screen->glyphs, CS_GLYPH_HLINE));
        cs_drawf(title, 1, 0, CS_STYLE_TITLE, " %s ", cs_view_ops(panes->view[i])->title);
        cs_view_ops(panes->view[i])->draw(store, screen, part(area, panes->pane[i]));
    }
}

void cs_screen_draw(const struct cs_store *store, const struct cs_screen *screen,
                    struct cs_canvas *canvas)
{
    struct cs_area area = cs_canvas_area(canvas);
    struct cs_panes panes = cs_panes_of(area.w, area.h, screen->view);
    cs_canvas_clear(canvas);
    draw_header(store, part(area, panes.header));
    if (panes.kind == CS_PANES_LINE)
        return;
    draw_tabs(screen, part(area, panes.tabs), panes.kind == CS_PANES_COMPACT);
    draw_rule(store, screen, part(area, panes.top_rule));
    const struct cs_store_job *failed = cs_store_find(store, screen->failure);
    if (screen->has_help)
        draw_help(screen, part(area, panes.pane[0]));
    else if (!failed || cs_failure_draw(store, screen, failed, part(area, panes.pane[0])) == 0)
        cs_view_ops(screen->view)->draw(store, screen, part(area, panes.pane[0]));
    if (panes.n > 1)
        draw_side(store, screen, &panes, area);
    if (!store->is_connected)
        for (int i = 0; i < panes.n; i++)
            cs_restyle(part(area, panes.pane[i]), CS_STYLE_DIM);
    cs_fill(area, 0, panes.bottom_rule.y, area.w, CS_STYLE_DIM,
            cs_glyph(screen->glyphs, CS_GLYPH_HLINE));
    if (screen->prompt == CS_PROMPT_COMMAND) /* covers the rule too */
        cs_palette_draw(store, screen, cs_area_part(area, 0, 3, area.w, area.h - 4));
    draw_keys(store, screen, part(area, panes.keys));
}
