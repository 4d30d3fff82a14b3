/* Runs the screen. Everything happens on one event loop: keys, resizes, messages,
 * and a timer that draws when something changed. */
#include "console/screen/ui.h"

#include <langinfo.h>
#include <locale.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "console/screen/keys/keys.h"
#include "console/screen/mouse.h"
#include "console/screen/screen.h"
#include "console/screen/terminal/lend.h"
#include "console/screen/ui_private.h"
#include "core/base/say.h"
#include "core/base/str.h"
#include "core/base/system/clock.h"
#include "core/wire/job_state.h"

enum { CLOCK_S = 5, LIST_S = 10 };

enum { INTERRUPT = 3 /* C-c: one is enough in run, as without the screen */ };

/* --- keys and signals ------------------------------------------------------------------------- */

static void set_terminal(struct ui *ui)
{
    if (ui->has_mouse != ui->screen.has_mouse)
        cs_term_mouse(ui->term, ui->screen.has_mouse);
    if (ui->theme != ui->screen.theme)
        cs_term_theme(ui->term, ui->screen.theme, &ui->config.own);
    ui->has_mouse = ui->screen.has_mouse;
    ui->theme = ui->screen.theme;
}

static void pick(struct ui *ui)
{
    struct cs_err err = {.text = ""};
    if (ui->options->pick &&
        ui->options->pick(ui->options->pick_user, ui->store, ui->screen.pick, &err) != CS_OK)
        cs_ui_say(ui, CS_STYLE_WARN, err.text);
}

static void obey(struct ui *ui, unsigned todo)
{
    if (todo & CS_DO_SELECT)
        cs_ui_select_job(ui, ui->screen.cursor_job);
    if (todo & CS_DO_BESIDE) {
        cs_store_set_beside(ui->store, ui->screen.metrics.beside, ui->screen.metrics.n_beside);
        cs_ui_ask_beside(ui);
    }
    if (todo & CS_DO_ORDER)
        cs_ui_send_order(ui);
    if (todo & CS_DO_REPAINT)
        cs_term_repaint(ui->term);
    if (todo & CS_DO_SUSPEND)
        cs_term_suspend(ui->term);
    if (todo & CS_DO_COPY)
        cs_lend_copy(ui->term, &ui->screen, ui->store);
    if (todo & CS_DO_PAGE)
        cs_lend_page(ui->term, &ui->screen, ui->store);
    if (todo & CS_DO_SHELL)
        cs_lend_command(ui->term, ui->screen.shell, ui->options->socket);
    if (todo & CS_DO_PICK)
        pick(ui);
    if (todo & CS_DO_LUA)
        cs_ui_lua_ask(ui);
    if (todo & CS_DO_QUIT)
        event_base_loopbreak(ui->base);
    set_terminal(ui);
    cs_ui_subscribe_view(ui);
    ui->is_dirty = true;
}

/* Pasted text goes into a line that is being typed; anywhere else it is no keys. */
static void paste(struct ui *ui)
{
    size_t n;
    const char *text = cs_term_pasted(ui->term, &n);
    const unsigned todo = cs_screen_paste(&ui->screen, text, n);
    if (todo) {
        obey(ui, todo);
        return;
    }
    snprintf(ui->screen.message, sizeof ui->screen.message,
             "%zu pasted bytes are not taken as keys", n);
    ui->screen.message_style = CS_STYLE_WARN;
}

static void point(struct ui *ui)
{
    const struct cs_term_mouse mouse = cs_term_mouse_at(ui->term);
    int cols, rows;
    cs_term_size(ui->term, &cols, &rows);
    obey(ui, cs_screen_mouse(&ui->screen, ui->store,
                             &(struct cs_mouse){cols, rows, mouse.x, mouse.y, mouse.wheel}));
}

static void on_input(evutil_socket_t fd, short what, void *user)
{
    struct ui *ui = user;
    bool is_gone = false, had_key = false;
    int key;
    (void)fd;
    (void)what;
    while ((key = cs_term_key(ui->term, &is_gone)) >= 0) {
        if (key == CS_KEY_PASTE || key == CS_KEY_MOUSE) {
            key == CS_KEY_PASTE ? paste(ui) : point(ui);
            had_key = true;
            continue;
        }
        const bool is_detach = key == INTERRUPT && ui->options->is_watching && !ui->screen.prompt &&
                               !cs_screen_text(&ui->screen);
        obey(ui, is_detach ? (unsigned)CS_DO_QUIT : cs_screen_key(&ui->screen, ui->store, key));
        had_key = true;
    }
    if (is_gone)
        event_base_loopbreak(ui->base); /* the terminal is gone; jobs are not */
    if (had_key)
        cs_ui_answer(ui);
}

static void on_winch(evutil_socket_t fd, short what, void *user)
{
    struct ui *ui = user;
    (void)fd;
    (void)what;
    cs_term_resize(ui->term);
    cs_ui_answer(ui);
}

static void on_end_signal(evutil_socket_t fd, short what, void *user)
{
    struct ui *ui = user;
    (void)fd;
    (void)what;
    event_base_loopbreak(ui->base);
}

/* elapsed times move on; the list is refreshed now and then, in case a notice was lost */
static void on_clock(evutil_socket_t fd, short what, void *user)
{
    struct ui *ui = user;
    (void)fd;
    (void)what;
    if (ui->client && cs_now_ns() - ui->listed_ns > LIST_S * INT64_C(1000000000) &&
        cs_client_is_connected(ui->client))
        cs_ui_ask_list(ui);
    if (ui->screen.view == CS_VIEW_METRICS)
        cs_ui_ask_beside(ui);
    cs_ui_changed(ui);
}

/* --- life ------------------------------------------------------------------------------------- */

static void open_events(struct ui *ui)
{
    static const int signals[] = {SIGTERM, SIGHUP, SIGINT};
    const struct timeval period = {CLOCK_S, 0};
    ui->input = event_new(ui->base, STDIN_FILENO, EV_READ | EV_PERSIST, on_input, ui);
    ui->winch = evsignal_new(ui->base, SIGWINCH, on_winch, ui);
    ui->draw = evtimer_new(ui->base, cs_ui_on_draw, ui);
    ui->clock = event_new(ui->base, -1, EV_PERSIST, on_clock, ui);
    CS_ASSERT(ui->input && ui->winch && ui->draw && ui->clock);
    for (size_t i = 0; i < CS_ARRAY_LEN(signals); i++) {
        ui->ends[i] = evsignal_new(ui->base, signals[i], on_end_signal, ui);
        CS_ASSERT(ui->ends[i]);
        event_add(ui->ends[i], NULL);
    }
    event_add(ui->input, NULL);
    event_add(ui->winch, NULL);
    event_add(ui->clock, &period);
}

static void free_event(struct event *event)
{
    if (event)
        event_free(event);
}

static void close_all(struct ui *ui)
{
    if (ui->client) {
        cs_client_on_message(ui->client, NULL, NULL);
        cs_client_on_state(ui->client, NULL, NULL);
    }
    cs_ui_lua_close(ui);
    free_event(ui->input);
    free_event(ui->winch);
    free_event(ui->draw);
    free_event(ui->clock);
    for (size_t i = 0; i < CS_ARRAY_LEN(ui->ends); i++)
        free_event(ui->ends[i]);
    cs_term_close(ui->term);
    cs_canvas_free(ui->canvas);
    cs_screen_free(&ui->screen);
}

static void fill_result(const struct ui *ui, struct cs_ui_result *result)
{
    int64_t id = ui->options->job ? ui->options->job : ui->store->job;
    const struct cs_store_job *job = cs_store_find(ui->store, id);
    *result = (struct cs_ui_result){.job = id};
    if (!job)
        return;
    cs_str_copy(result->state, sizeof result->state, job->state);
    result->is_over = cs_state_is_over(job->state);
    if (ui->options->is_watching && cs_job_state_mood(job->state) == CS_MOOD_BAD)
        result->exit = cs_status_exit(CS_JOB_FAILED);
}

static void say_goodbye(const struct cs_ui_result *result)
{
    if (result->job && !result->is_over)
        cs_say(stdout, "detached; job %lld goes on (%s). Come back: cornstarch-console\n",
               (long long)result->job, result->state[0] ? result->state : "unknown");
    else if (result->job)
        cs_say(stdout, "job %lld is %s. Look again: cornstarch-console show %lld\n",
               (long long)result->job, result->state, (long long)result->job);
    fflush(stdout);
}

/* What the user wrote of keys and colours; --color and --mouse come first. */
static void take_config(struct ui *ui)
{
    struct cs_err err = {.text = ""};
    if (cs_screen_config_load(&ui->config, &err) != CS_OK)
        cs_ui_say(ui, CS_STYLE_WARN, err.text);
    ui->screen.config = &ui->config;
    ui->screen.commands = ui->options->commands;
    ui->screen.n_commands = ui->options->n_commands;
    ui->screen.has_mouse = ui->options->has_mouse || ui->config.has_mouse;
    ui->theme = CS_THEME_AUTO;
    if (cs_theme_choose(ui->options->color, getenv("NO_COLOR"), 8) == CS_SCHEME_DEFAULT)
        ui->screen.theme = ui->config.theme;
    cs_term_theme(ui->term, CS_THEME_AUTO, &ui->config.own);
    set_terminal(ui);
}

enum cs_status cs_ui_run(struct event_base *base, struct cs_client *client,
                         const struct cs_ui_options *options, struct cs_ui_result *result,
                         struct cs_err *err)
{
    struct ui ui = {.base = base, .client = client, .options = options};
    setlocale(LC_ALL, "");
    setlocale(LC_NUMERIC, "C");
    CS_TRY(cs_term_open(options->color, &ui.term, err));
    ui.store = options->store ? options->store : cs_store_new();
    ui.canvas = cs_canvas_new(1, 1);
    cs_screen_init(&ui.screen, cs_glyph_choose(options->glyphs, nl_langinfo(CODESET)));
    ui.screen.is_read_only = options->is_read_only;
    ui.screen.view = options->job ? CS_VIEW_PIPELINE : CS_VIEW_JOBS;
    ui.screen.cursor_job = options->job;
    ui.screen.opened_ns = cs_wall_ns();
    if (options->job)
        cs_store_select(ui.store, options->job);
    if (options->store)
        ui.screen.view = CS_VIEW_PLAN;
    if (options->store && ui.store->found.plans)
        ui.screen.plan_part = CS_PLAN_FOUND;
    take_config(&ui);
    open_events(&ui);
    cs_ui_lua_open(&ui);
    if (client) {
        cs_client_on_message(client, cs_ui_on_message, &ui);
        cs_client_on_state(client, cs_ui_on_state, &ui);
        cs_ui_on_state(&ui, cs_client_is_connected(client));
    }
    cs_ui_draw(&ui);
    event_base_dispatch(base);
    fill_result(&ui, result);
    close_all(&ui);
    if (options->store)
        return CS_OK;
    cs_store_free(ui.store);
    if (!options->is_watching || !result->is_over) /* else the caller reports */
        say_goodbye(result);
    return CS_OK;
}
