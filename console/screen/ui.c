/* Runs the screen. Everything happens on one event loop: keys, resizes, messages,
 * and a timer that draws when something changed. */
#include "console/screen/ui.h"

#include <langinfo.h>
#include <locale.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "console/screen/keys/config.h"
#include "console/screen/keys/keys.h"
#include "console/screen/mouse.h"
#include "console/screen/screen.h"
#include "console/screen/terminal/lend.h"
#include "console/screen/terminal/term_ncurses.h"
#include "core/base/clock.h"
#include "core/base/say.h"
#include "core/base/str.h"
#include "core/wire/job_state.h"
#include "core/wire/wire.h"

enum {
    DRAW_MS = 100,
    PIECE_MS = 10,
    CLOCK_S = 5,
    METRIC_ROWS = 2000,
    EVENT_ROWS = 100,
    LOG_ROWS = 2000,
    LIST_S = 10
};

enum { INTERRUPT = 3 /* C-c: one is enough in run, as without the screen */ };

struct ui {
    struct event_base *base;
    struct cs_client *client;
    const struct cs_ui_options *options;
    struct cs_store *store;
    struct cs_screen screen;
    struct cs_term *term;
    struct cs_canvas *canvas;
    struct event *input, *winch, *ends[3], *draw, *clock;
    uint64_t drawn_version;
    bool is_dirty, is_draw_armed;
    int64_t sub, metrics_id, events_id, show_id, sub_id, order_id; /* of the selected job */
    int64_t logs_id;
    int64_t beside_id[CS_STORE_BESIDE][2]; /* answers about jobs laid over: rows, specification */
    int64_t listed_ns;
    int64_t view_id, view_sub; /* asked for, open: what only the view that is shown needs */
    const char *view_flag;     /* of view_id or view_sub */
    char end_state[16];        /* end of the watched job that was told */
    struct cs_screen_config config;
    bool has_mouse; /* as the terminal was told */
    int theme;
};

/* --- drawing: at most one screen per DRAW_MS -------------------------------------------------- */

static void arm_draw(struct ui *ui)
{
    const struct timeval soon = {0, DRAW_MS * 1000};
    if (!ui->is_draw_armed) {
        ui->is_draw_armed = true;
        event_add(ui->draw, &soon);
    }
}

static void changed(struct ui *ui)
{
    ui->is_dirty = true;
    arm_draw(ui);
}

static void draw_now(struct ui *ui)
{
    int cols, rows;
    cs_term_size(ui->term, &cols, &rows);
    if (cols != cs_canvas_cols(ui->canvas) || rows != cs_canvas_rows(ui->canvas))
        cs_canvas_resize(ui->canvas, cols, rows);
    ui->store->now_ns = cs_wall_ns();
    ui->store->is_measured_held = ui->screen.at.is_held;
    bool is_more = cs_screen_prepare(&ui->screen, ui->store);
    cs_screen_draw(ui->store, &ui->screen, ui->canvas);
    cs_term_flush(ui->term, ui->canvas);
    ui->is_dirty = is_more;
    ui->drawn_version = ui->store->version;
    if (is_more) { /* the next piece, after whatever keys there are */
        ui->is_draw_armed = true;
        event_add(ui->draw, &(const struct timeval){0, PIECE_MS * 1000});
    }
}

static void on_draw(evutil_socket_t fd, short what, void *user)
{
    struct ui *ui = user;
    (void)fd;
    (void)what;
    ui->is_draw_armed = false;
    if (ui->is_dirty || ui->store->version != ui->drawn_version)
        draw_now(ui);
}

/* --- questions to the daemon ------------------------------------------------------------------ */

static int64_t ask(struct ui *ui, const char *type, int64_t job)
{
    json_t *request = cs_msg_new(type);
    if (job > 0)
        cs_msg_set_int(request, "job", job);
    return cs_client_send(ui->client, request);
}

static void ask_list(struct ui *ui)
{
    ui->listed_ns = cs_now_ns();
    ask(ui, "jobs.list", 0);
}

static void subscribe(struct ui *ui, int64_t job)
{
    json_t *request = cs_msg_new("sub.open");
    cs_msg_set_int(request, "job", job);
    cs_msg_set_bool(request, "gauges", job != 0);
    cs_msg_set_bool(request, "logs", job != 0);
    cs_msg_set_bool(request, "events", job == 0); /* of all jobs, once */
    int64_t id = cs_client_send(ui->client, request);
    if (job != 0)
        ui->sub_id = id;
}

/* What happened before: state changes and notes, and the newest lines of all logs. What comes live
 * meanwhile is told apart by the store. */
static void ask_past(struct ui *ui)
{
    json_t *events = cs_msg_new("job.events"), *logs = cs_msg_new("job.logs");
    cs_msg_set_int(events, "job", ui->store->job);
    cs_msg_set_int(events, "limit", EVENT_ROWS);
    ui->events_id = cs_client_send(ui->client, events);
    cs_msg_set_int(logs, "job", ui->store->job);
    cs_msg_set_int(logs, "limit", LOG_ROWS);
    ui->logs_id = cs_client_send(ui->client, logs);
    ui->store->wants_past = false;
}

/* Rows after `after`; of a long job each stands for several steps. */
static int64_t ask_rows(struct ui *ui, int64_t job, int64_t after)
{
    json_t *metrics = cs_msg_new("job.metrics");
    const struct cs_store_job *known = cs_store_find(ui->store, job);
    cs_msg_set_int(metrics, "job", job);
    cs_msg_set_int(metrics, "after_step", after);
    cs_msg_set_int(metrics, "limit", 2 * METRIC_ROWS); /* evaluations are always there */
    cs_msg_set_bool(metrics, "fold", true);
    cs_msg_set_int(
        metrics, "every",
        known && known->step - after > METRIC_ROWS ? (known->step - after) / METRIC_ROWS + 1 : 1);
    return cs_client_send(ui->client, metrics);
}

static void ask_beside(struct ui *ui)
{
    for (int i = 0; i < CS_STORE_BESIDE; i++) {
        const struct cs_store_beside *beside = &ui->store->beside[i];
        ui->beside_id[i][0] = ui->beside_id[i][1] = 0;
        if (beside->job == 0 || !ui->client || !cs_client_is_connected(ui->client))
            continue;
        ui->beside_id[i][0] = ask_rows(ui, beside->job, beside->metrics.last_step);
        if (beside->spec == NULL)
            ui->beside_id[i][1] = ask(ui, "job.show", beside->job);
    }
}

/* whether a message answers for a job that is laid over */
static bool take_beside(struct ui *ui, const json_t *msg)
{
    for (int i = 0; i < CS_STORE_BESIDE && cs_msg_is_reply(msg); i++)
        for (int k = 0; k < 2; k++) {
            if (ui->beside_id[i][k] <= 0 || cs_msg_id(msg) != ui->beside_id[i][k])
                continue;
            cs_store_beside_message(ui->store, ui->store->beside[i].job, msg);
            return true;
        }
    return false;
}

static void ask_job(struct ui *ui)
{
    int64_t job = ui->store->job;
    if (job == 0 || !cs_client_is_connected(ui->client))
        return;
    ui->show_id = ask(ui, "job.show", job);
    ui->metrics_id = ask_rows(ui, job, cs_series_last_step(ui->store->loss));
    subscribe(ui, job);
    ask_past(ui);
}

/* What only the view that is shown needs, such as GPUs, which the daemon reads every second, is
 * asked for while somebody looks at it. */
static void subscribe_view(struct ui *ui)
{
    const char *flag = cs_view_ops(ui->screen.view)->subscribe;
    if (!ui->client || !cs_client_is_connected(ui->client) || ui->view_id > 0 ||
        (ui->view_sub > 0 && ui->view_flag == flag))
        return;
    if (ui->view_sub > 0) {
        json_t *close = cs_msg_new("sub.close");
        cs_msg_set_int(close, "sub", ui->view_sub);
        cs_client_send(ui->client, close);
        ui->view_sub = 0;
    }
    if (flag) {
        json_t *open = cs_msg_new("sub.open");
        cs_msg_set_bool(open, "gauges", false);
        cs_msg_set_bool(open, "events", false);
        cs_msg_set_bool(open, flag, true);
        ui->view_id = cs_client_send(ui->client, open);
        ui->view_flag = flag;
    }
}

static void select_job(struct ui *ui, int64_t job)
{
    if (!ui->client)
        return; /* there is only one */
    if (ui->sub > 0) {
        json_t *close = cs_msg_new("sub.close");
        cs_msg_set_int(close, "sub", ui->sub);
        cs_client_send(ui->client, close);
    }
    ui->sub = 0;
    cs_store_select(ui->store, job);
    ask_job(ui);
}

static void send_order(struct ui *ui)
{
    ui->order_id = ask(ui, ui->screen.order->message, ui->screen.order_job);
    snprintf(ui->screen.message, sizeof ui->screen.message,
             ui->order_id < 0 ? "no connection: %s %lld was not sent" : "%s %lld sent",
             ui->screen.order->message, (long long)ui->screen.order_job);
    ui->screen.message_style = ui->order_id < 0 ? CS_STYLE_BAD : CS_STYLE_DIM;
}

/* --- what comes from the daemon --------------------------------------------------------------- */

static void say(struct ui *ui, enum cs_style style, const char *text)
{
    cs_str_copy(ui->screen.message, sizeof ui->screen.message, text);
    ui->screen.message_style = style;
}

static void tell_end(struct ui *ui)
{
    const struct cs_store_job *job = cs_store_find(ui->store, ui->options->job);
    if (!ui->options->is_watching || !job || strcmp(job->state, ui->end_state) == 0)
        return;
    bool is_paused = strcmp(job->state, "PAUSED") == 0;
    if (!cs_state_is_over(job->state) && !is_paused) {
        ui->end_state[0] = '\0';
        return;
    }
    cs_str_copy(ui->end_state, sizeof ui->end_state, job->state);
    snprintf(ui->screen.message, sizeof ui->screen.message, "job %lld is %s%s%.120s   q leaves",
             (long long)job->id, job->state, job->reason[0] ? ": " : "", job->reason);
    ui->screen.message_style =
        strcmp(job->state, "DONE") == 0 || is_paused ? CS_STYLE_GOOD : CS_STYLE_BAD;
}

static bool is_stale_answer(const struct ui *ui, const json_t *msg)
{
    const struct {
        const char *type;
        int64_t id;
    } rows[] = {
        {"job.metrics", ui->metrics_id},
        {"job.events",  ui->events_id },
        {"job.logs",    ui->logs_id   },
        {"job.show",    ui->show_id   },
    };

    for (size_t i = 0; i < CS_ARRAY_LEN(rows); i++)
        if (cs_msg_is_reply(msg) && strcmp(cs_msg_type(msg), rows[i].type) == 0)
            return cs_msg_id(msg) != rows[i].id;
    return false;
}

static void on_error(struct ui *ui, const json_t *msg)
{
    if (cs_msg_id(msg) >= 0 && cs_msg_id(msg) == ui->logs_id)
        return; /* a daemon that is older than this question */
    struct cs_err err = {.text = ""};
    (void)!cs_msg_to_err(msg, &err);
    say(ui, CS_STYLE_BAD, err.text);
}

static void on_message(void *user, const json_t *msg)
{
    struct ui *ui = user;
    const char *type = cs_msg_type(msg);
    if (take_beside(ui, msg)) {
        changed(ui);
        return;
    }
    if (is_stale_answer(ui, msg))
        return;
    if (strcmp(type, "error") == 0)
        on_error(ui, msg);
    if (strcmp(type, "sub.open") == 0 && cs_msg_id(msg) == ui->sub_id)
        ui->sub = cs_msg_int(msg, "sub", 0);
    if (strcmp(type, "sub.open") == 0 && cs_msg_id(msg) == ui->view_id) {
        ui->view_sub = cs_msg_int(msg, "sub", 0);
        ui->view_id = 0;
        subscribe_view(ui);
    }
    cs_store_message(ui->store, msg);
    if (strcmp(type, "job.show") == 0)
        cs_store_adopt_trace(ui->store);
    if (ui->store->wants_show) {
        ui->store->wants_show = false;
        ui->show_id = ask(ui, "job.show", ui->store->job);
    }
    if (ui->store->wants_past && ui->store->job != 0)
        ask_past(ui);
    tell_end(ui);
    changed(ui);
}

static void start_session(struct ui *ui)
{
    const json_t *hello = cs_client_hello(ui->client);
    if (hello)
        cs_str_copy(ui->store->node, sizeof ui->store->node, cs_msg_str(hello, "node", ""));
    ui->sub = ui->view_sub = ui->view_id = 0;
    ask(ui, "node.show", 0);
    ask_list(ui);
    subscribe(ui, 0);
    ask_job(ui);
    ask_beside(ui);
    subscribe_view(ui);
}

static void on_state(void *user, bool is_connected)
{
    struct ui *ui = user;
    cs_store_connected(ui->store, is_connected);
    if (is_connected)
        start_session(ui);
    changed(ui);
}

/* --- keys and signals ------------------------------------------------------------------------- */

/* Pasted text goes into a line that is being typed; anywhere else it is no keys. */
static void paste(struct ui *ui)
{
    size_t n;
    const char *text = cs_term_pasted(ui->term, &n);
    if (cs_screen_paste(&ui->screen, text, n))
        return;
    snprintf(ui->screen.message, sizeof ui->screen.message,
             "%zu pasted bytes are not taken as keys", n);
    ui->screen.message_style = CS_STYLE_WARN;
}

static void set_terminal(struct ui *ui)
{
    if (ui->has_mouse != ui->screen.has_mouse)
        cs_term_mouse(ui->term, ui->screen.has_mouse);
    if (ui->theme != ui->screen.theme)
        cs_term_theme(ui->term, ui->screen.theme, &ui->config.own);
    ui->has_mouse = ui->screen.has_mouse;
    ui->theme = ui->screen.theme;
}

static void obey(struct ui *ui, unsigned todo)
{
    if (todo & CS_DO_SELECT)
        select_job(ui, ui->screen.cursor_job);
    if (todo & CS_DO_BESIDE) {
        cs_store_set_beside(ui->store, ui->screen.metrics.beside, ui->screen.metrics.n_beside);
        ask_beside(ui);
    }
    if (todo & CS_DO_ORDER)
        send_order(ui);
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
    if (todo & CS_DO_QUIT)
        event_base_loopbreak(ui->base);
    set_terminal(ui);
    subscribe_view(ui);
    ui->is_dirty = true;
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
        bool is_detach = key == INTERRUPT && ui->options->is_watching && !ui->screen.prompt;
        obey(ui, is_detach ? (unsigned)CS_DO_QUIT : cs_screen_key(&ui->screen, ui->store, key));
        had_key = true;
    }
    if (is_gone)
        event_base_loopbreak(ui->base);  /* the terminal is gone; jobs are not */
    if (had_key && !ui->is_draw_armed) { /* answer the first key at once, hold back a flood */
        draw_now(ui);
        arm_draw(ui);
    }
}

static void on_winch(evutil_socket_t fd, short what, void *user)
{
    struct ui *ui = user;
    (void)fd;
    (void)what;
    cs_term_resize(ui->term);
    changed(ui);
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
        ask_list(ui);
    if (ui->screen.view == CS_VIEW_METRICS)
        ask_beside(ui);
    changed(ui);
}

/* --- life ------------------------------------------------------------------------------------- */

static void open_events(struct ui *ui)
{
    static const int signals[] = {SIGTERM, SIGHUP, SIGINT};
    const struct timeval period = {CLOCK_S, 0};
    ui->input = event_new(ui->base, STDIN_FILENO, EV_READ | EV_PERSIST, on_input, ui);
    ui->winch = evsignal_new(ui->base, SIGWINCH, on_winch, ui);
    ui->draw = evtimer_new(ui->base, on_draw, ui);
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
        say(ui, CS_STYLE_WARN, err.text);
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
    take_config(&ui);
    open_events(&ui);
    if (client) {
        cs_client_on_message(client, on_message, &ui);
        cs_client_on_state(client, on_state, &ui);
        on_state(&ui, cs_client_is_connected(client));
    }
    draw_now(&ui);
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
