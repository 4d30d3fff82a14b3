/* Collects what can be done from here, and finds what fits to the words that are typed. */
#include "console/screen/keys/palette.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "console/screen/keys/keys.h"
#include "core/base/str.h"

/* how well a choice fits: less is better */
enum { FITS_BEGIN, FITS_WORD, FITS_NAME, FITS_HELP, FITS_LETTERS, FITS_NOT };

struct collector {
    const struct cs_screen *screen;
    const struct cs_store *store;
    const char *typed;
    struct cs_choice *out;
    int fit[CS_PALETTE_MOST];
    int n;
};

/* --- fitting ---------------------------------------------------------------------------------- */

static bool has_letters(const char *text, const char *letters, size_t n)
{
    for (; *text && n > 0; text++)
        if (strncasecmp(text, letters, 1) == 0) {
            letters++;
            n--;
        }
    return n == 0;
}

static const char *find_text(const char *text, const char *what, size_t n)
{
    for (; *text; text++)
        if (strncasecmp(text, what, n) == 0)
            return text;
    return NULL;
}

static int fit_word(const struct cs_choice *c, const char *word, size_t n)
{
    const char *at = find_text(c->name, word, n);
    if (at == c->name)
        return FITS_BEGIN;
    for (const char *p = at; p; p = find_text(p + 1, word, n))
        if (p[-1] == ' ')
            return FITS_WORD;
    if (at)
        return FITS_NAME;
    if (find_text(c->help, word, n))
        return FITS_HELP;
    return has_letters(c->name, word, n) ? FITS_LETTERS : FITS_NOT;
}

/* Every word must be there, in any order. */
static int fit_of(const struct cs_choice *c, const char *typed)
{
    int worst = FITS_BEGIN;
    if (strncasecmp(c->name, typed, strlen(typed)) == 0)
        return FITS_BEGIN;
    for (const char *at = typed; *at;) {
        const size_t n = strcspn(at, " ");
        const int fit = n > 0 ? fit_word(c, at, n) : FITS_BEGIN;
        worst = fit > worst ? fit : worst;
        at += n + (at[n] == ' ');
    }
    return worst;
}

/* By fit; those that fit alike stay in their order. The worst gives way where there are too many. */
static void add(struct collector *all, const struct cs_choice *choice)
{
    const int fit = fit_of(choice, all->typed);
    const bool is_full = all->n == CS_PALETTE_MOST;
    if (fit == FITS_NOT || (is_full && fit >= all->fit[all->n - 1]))
        return;
    all->n += !is_full;
    int at = all->n - 1;
    for (; at > 0 && all->fit[at - 1] > fit; at--) {
        all->fit[at] = all->fit[at - 1];
        all->out[at] = all->out[at - 1];
    }
    all->fit[at] = fit;
    all->out[at] = *choice;
}

/* --- what there is ---------------------------------------------------------------------------- */

static void add_views(struct collector *all)
{
    const struct cs_store_job *job = cs_screen_job(all->store, all->screen);
    for (int v = 0; v < CS_VIEW_COUNT; v++) {
        const struct cs_view_ops *view = cs_view_ops((enum cs_view)v);
        struct cs_choice c = {.act = cs_act_view, .argument = v};
        cs_str_copy(c.name, sizeof c.name, cs_view_name((enum cs_view)v));
        snprintf(c.help, sizeof c.help, "show %s", view->title);
        cs_str_copy(c.key, sizeof c.key, view->key);
        if (view->command)
            snprintf(c.shell, sizeof c.shell, "cornstarch-console %s", view->command);
        if (job && view->is_of_job)
            snprintf(c.shell, sizeof c.shell, "cornstarch-console %s %lld", view->command,
                     (long long)job->id);
        else if (view->is_of_job)
            snprintf(c.shell, sizeof c.shell, "cornstarch-console %s ID", view->command);
        add(all, &c);
    }
}

static void add_order(struct collector *all, const struct cs_key_row *row,
                      const struct cs_store_job *job, bool is_named)
{
    struct cs_choice c = {.order = row->order, .job = job->id, .has_more = !is_named};
    const long long id = (long long)job->id;
    cs_str_copy(c.name, sizeof c.name, row->order->name);
    if (is_named)
        snprintf(c.name, sizeof c.name, "%s %lld", row->order->name, id);
    snprintf(c.help, sizeof c.help, "job %lld %.30s: %.60s", id, job->name, row->order->help);
    cs_str_copy(c.key, sizeof c.key, is_named ? "" : row->shown);
    snprintf(c.shell, sizeof c.shell, "cornstarch-console %s %lld", row->order->name, id);
    add(all, &c);
}

/* about the job that the keys are about, or about any one whose number is typed */
static void add_orders(struct collector *all, const struct cs_key_row *rows, int n)
{
    const struct cs_store_job *job = cs_screen_job(all->store, all->screen);
    const char *space = strchr(all->typed, ' ');
    if (all->screen->is_read_only || all->store->is_replay)
        return;
    for (int i = 0; i < n; i++) {
        if (!rows[i].order)
            continue;
        if (job)
            add_order(all, &rows[i], job, false);
        for (int j = 0; space && j < all->store->n_jobs; j++)
            add_order(all, &rows[i], &all->store->jobs[j], true);
    }
}

static bool is_view_key(const struct cs_key_row *row)
{
    return row->act == cs_act_view;
}

static void add_keys(struct collector *all, const struct cs_key_row *rows, int n)
{
    for (int i = 0; i < n; i++) {
        struct cs_choice c = {.act = rows[i].act, .argument = rows[i].argument};
        if (rows[i].order || is_view_key(&rows[i]) || rows[i].act == cs_act_command)
            continue;
        cs_str_copy(c.name, sizeof c.name, cs_key_row_help(&rows[i]));
        snprintf(c.help, sizeof c.help, "key of %s", cs_view_ops(all->screen->view)->title);
        cs_str_copy(c.key, sizeof c.key, rows[i].shown);
        add(all, &c);
    }
}

static void add_jobs(struct collector *all)
{
    for (int i = 0; i < all->store->n_jobs; i++) {
        const struct cs_store_job *job = &all->store->jobs[i];
        struct cs_choice c = {.act = cs_act_open, .job = job->id};
        snprintf(c.name, sizeof c.name, "job %lld", (long long)job->id);
        snprintf(c.help, sizeof c.help, "open %.60s, %s", job->name, job->state);
        snprintf(c.shell, sizeof c.shell, "cornstarch-console attach %lld", (long long)job->id);
        add(all, &c);
    }
}

static void add_settings(struct collector *all)
{
    static const struct {
        const char *name, *help;
        cs_key_act *act;
        int argument;
    } settings[] = {
        {"mouse on",  "clicks choose rows and views, the wheel scrolls; Shift selects text",
         cs_act_mouse,                                                                                     1},
        {"mouse off", "the terminal selects text",                                           cs_act_mouse, 0},
    };

    for (size_t i = 0; i < CS_ARRAY_LEN(settings); i++) {
        struct cs_choice c = {.act = settings[i].act, .argument = settings[i].argument};
        cs_str_copy(c.name, sizeof c.name, settings[i].name);
        cs_str_copy(c.help, sizeof c.help, settings[i].help);
        add(all, &c);
    }
    for (int i = 0; cs_theme_name(i); i++) {
        struct cs_choice c = {.act = cs_act_theme, .argument = i};
        snprintf(c.name, sizeof c.name, "theme %s", cs_theme_name(i));
        cs_str_copy(c.help, sizeof c.help, cs_theme_help(i));
        add(all, &c);
    }
}

/* Commands that change something are not for a console that is read-only. */
static void add_commands(struct collector *all)
{
    for (int i = 0; i < all->screen->n_commands; i++) {
        const struct cs_screen_command *command = &all->screen->commands[i];
        struct cs_choice c = {.has_more = true};
        const size_t n = strlen(command->name);
        if (command->changes && all->screen->is_read_only)
            continue;
        snprintf(c.name, sizeof c.name, "!%s", command->name);
        snprintf(c.help, sizeof c.help, "%.118s", command->help);
        snprintf(c.shell, sizeof c.shell, "cornstarch-console %s %s", command->name,
                 command->usage);
        if (strncmp(all->typed, c.name, n + 1) == 0 && all->typed[n + 1] == ' ') {
            cs_str_copy(c.name, sizeof c.name, all->typed);
            snprintf(c.shell, sizeof c.shell, "cornstarch-console %s", all->typed + 1);
        }
        c.act = cs_act_shell;
        add(all, &c);
    }
}

int cs_palette_choices(const struct cs_store *store, const struct cs_screen *screen,
                       struct cs_choice *out)
{
    struct collector all = {screen, store, screen->edit.text, out, {0}, 0};
    struct cs_key_row rows[CS_KEYS];
    const int n = cs_keys_of(screen->view, rows);
    while (*all.typed == ' ')
        all.typed++;
    add_views(&all);
    add_orders(&all, rows, n);
    add_jobs(&all);
    add_settings(&all);
    add_keys(&all, rows, n);
    add_commands(&all);
    return all.n;
}
