/* What keys do to the screen: one function per action of the key table. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "console/screen/keys.h"
#include "core/base/str.h"

enum { HALF_PAGE = 10 };

static void say(struct cs_screen *screen, enum cs_style style, const char *text)
{
    cs_str_copy(screen->message, sizeof screen->message, text);
    screen->message_style = style;
}

static int clamp(int value, int low, int high)
{
    return value > high ? high : value < low ? low : value;
}

unsigned cs_act_view(struct cs_screen *screen, const struct cs_store *store, int argument)
{
    (void)store;
    screen->view = (enum cs_view)argument;
    screen->has_help = false;
    return CS_DO_DRAW;
}

unsigned cs_act_cycle(struct cs_screen *screen, const struct cs_store *store, int argument)
{
    int next = ((int)screen->view + argument + CS_VIEW_COUNT) % CS_VIEW_COUNT;
    return cs_act_view(screen, store, next);
}

static int index_of(const struct cs_store *store, int64_t job)
{
    for (int i = 0; i < store->n_jobs; i++)
        if (store->jobs[i].id == job)
            return i;
    return 0;
}

static void move_jobs(struct cs_screen *screen, const struct cs_store *store, int rows)
{
    if (store->n_jobs > 0)
        screen->cursor_job =
            store->jobs[clamp(index_of(store, screen->cursor_job) + rows, 0, store->n_jobs - 1)].id;
}

/* Over the lines that the filter lets through. Reaching the newest line follows again. */
static void move_logs(struct cs_screen *screen, const struct cs_store *store, int rows)
{
    const struct cs_store_lines *logs = &store->logs;
    int64_t oldest = logs->total - logs->n;
    int64_t at = screen->is_log_still ? screen->log_bottom : logs->total - 1;
    int step = rows > 0 ? 1 : -1;
    for (int left = rows * step; left > 0;) {
        int64_t next = at + step;
        while (next >= oldest && next < logs->total &&
               !cs_log_is_shown(screen, cs_store_line(logs, (int)(next - oldest))))
            next += step;
        if (next >= logs->total) {
            screen->is_log_still = false;
            return;
        }
        if (next < oldest)
            break;
        at = next;
        left--;
    }
    screen->is_log_still = true;
    screen->log_bottom = at;
}

static void move_gpus(struct cs_screen *screen, const struct cs_store *store, int rows)
{
    int list[CS_STORE_GPUS];
    int n = cs_gpu_list(store, screen, list, CS_STORE_GPUS);
    screen->gpu_cursor = n > 0 ? clamp(screen->gpu_cursor + rows, 0, n - 1) : 0;
}

unsigned cs_act_gpu_sort(struct cs_screen *screen, const struct cs_store *store, int argument)
{
    (void)store;
    (void)argument;
    screen->gpu_sort = (enum cs_gpu_sort)((screen->gpu_sort + 1) % CS_GPU_SORTS);
    return CS_DO_DRAW;
}

unsigned cs_act_gpu_mine(struct cs_screen *screen, const struct cs_store *store, int argument)
{
    (void)argument;
    screen->gpus_of_job = !screen->gpus_of_job;
    move_gpus(screen, store, 0);
    return CS_DO_DRAW;
}

static void move(struct cs_screen *screen, const struct cs_store *store, int rows)
{
    int n_layers = store->model.graph ? store->model.graph->n_layers : 0;
    if (screen->has_help) {
        screen->help_top = clamp(screen->help_top + rows, 0, 200);
        return;
    }
    switch (screen->view) {
    case CS_VIEW_JOBS:
        move_jobs(screen, store, rows);
        break;
    case CS_VIEW_MODEL: /* a module has a few more rows than layers */
        screen->model_top = clamp(screen->model_top + rows, 0, 2 * n_layers + 8);
        break;
    case CS_VIEW_PIPELINE:
        screen->stage_top = clamp(screen->stage_top + rows, 0, store->n_stages - 1);
        break;
    case CS_VIEW_GPUS:
        move_gpus(screen, store, rows);
        break;
    case CS_VIEW_LOGS:
        move_logs(screen, store, rows);
        break;
    case CS_VIEW_PLAN:
        cs_plan_move(screen, store, rows);
        break;
    case CS_VIEW_COUNT:
        break;
    }
}

unsigned cs_act_move(struct cs_screen *screen, const struct cs_store *store, int argument)
{
    move(screen, store, argument);
    return CS_DO_DRAW;
}

unsigned cs_act_page(struct cs_screen *screen, const struct cs_store *store, int argument)
{
    move(screen, store, argument * HALF_PAGE);
    return CS_DO_DRAW;
}

unsigned cs_act_edge(struct cs_screen *screen, const struct cs_store *store, int argument)
{
    move(screen, store, argument * 1000000);
    return CS_DO_DRAW;
}

unsigned cs_act_open(struct cs_screen *screen, const struct cs_store *store, int argument)
{
    const struct cs_store_job *job = cs_screen_job(store, screen);
    (void)argument;
    if (!job)
        return CS_DO_DRAW;
    screen->cursor_job = job->id;
    screen->view = CS_VIEW_PIPELINE;
    screen->stage_top = screen->model_top = screen->plan_top = screen->plan_cursor = 0;
    screen->is_log_still = screen->is_held = false;
    return job->id != store->job ? CS_DO_SELECT : CS_DO_DRAW;
}

unsigned cs_act_back(struct cs_screen *screen, const struct cs_store *store, int argument)
{
    (void)argument;
    if (screen->has_help) {
        screen->has_help = false;
        return CS_DO_DRAW;
    }
    return cs_act_view(screen, store, CS_VIEW_JOBS);
}

unsigned cs_act_zoom(struct cs_screen *screen, const struct cs_store *store, int argument)
{
    (void)store;
    screen->zoom = clamp(argument > 0 ? screen->zoom * 2 : screen->zoom / 2, 1, CS_ZOOM_MAX);
    screen->scroll = fmin(screen->scroll, 1 - 1.0 / screen->zoom);
    return CS_DO_DRAW;
}

unsigned cs_act_scroll(struct cs_screen *screen, const struct cs_store *store, int argument)
{
    double quarter = 0.25 / screen->zoom;
    (void)store;
    screen->scroll = fmax(0, fmin(screen->scroll + argument * quarter, 1 - 1.0 / screen->zoom));
    return CS_DO_DRAW;
}

unsigned cs_act_hold(struct cs_screen *screen, const struct cs_store *store, int argument)
{
    (void)store;
    (void)argument;
    screen->is_held = !screen->is_held;
    return CS_DO_DRAW;
}

unsigned cs_act_scale(struct cs_screen *screen, const struct cs_store *store, int argument)
{
    (void)store;
    (void)argument;
    screen->scale = (enum cs_scale)(((int)screen->scale + 1) % CS_SCALE_COUNT);
    return CS_DO_DRAW;
}

unsigned cs_act_level(struct cs_screen *screen, const struct cs_store *store, int argument)
{
    (void)store;
    (void)argument;
    screen->log_level = (enum cs_log_level)(((int)screen->log_level + 1) % CS_LOG_LEVEL_COUNT);
    return CS_DO_DRAW;
}

unsigned cs_act_rank(struct cs_screen *screen, const struct cs_store *store, int argument)
{
    (void)argument;
    if (screen->log_rank == CS_RANK_ALL)
        screen->log_rank = -2;
    else
        screen->log_rank =
            screen->log_rank + 1 < store->n_ranks ? screen->log_rank + 1 : CS_RANK_ALL;
    return CS_DO_DRAW;
}

unsigned cs_act_follow(struct cs_screen *screen, const struct cs_store *store, int argument)
{
    (void)argument;
    screen->is_log_still = !screen->is_log_still;
    screen->log_bottom = store->logs.total - 1;
    return CS_DO_DRAW;
}

unsigned cs_act_help(struct cs_screen *screen, const struct cs_store *store, int argument)
{
    (void)store;
    (void)argument;
    screen->has_help = !screen->has_help;
    screen->help_top = 0;
    return CS_DO_DRAW;
}

unsigned cs_act_quit(struct cs_screen *screen, const struct cs_store *store, int argument)
{
    (void)store;
    (void)argument;
    if (screen->has_help) {
        screen->has_help = false;
        return CS_DO_DRAW;
    }
    return CS_DO_QUIT;
}

unsigned cs_act_repaint(struct cs_screen *screen, const struct cs_store *store, int argument)
{
    (void)screen;
    (void)store;
    (void)argument;
    return CS_DO_REPAINT;
}

unsigned cs_act_suspend(struct cs_screen *screen, const struct cs_store *store, int argument)
{
    (void)screen;
    (void)store;
    (void)argument;
    return CS_DO_SUSPEND;
}

/* --- orders to a job ---------------------------------------------------------------------------
 */

static unsigned order(struct cs_screen *screen, const struct cs_store *store, const char *type,
                      int confirm)
{
    const struct cs_store_job *job = cs_screen_job(store, screen);
    if (!job || store->is_replay) {
        say(screen, CS_STYLE_WARN,
            job ? "nothing runs here: there is no job to order about" : "there is no job here");
        return CS_DO_DRAW;
    }
    if (cs_state_is_over(job->state)) {
        snprintf(screen->message, sizeof screen->message, "job %lld is over (%s)",
                 (long long)job->id, job->state);
        screen->message_style = CS_STYLE_WARN;
        return CS_DO_DRAW;
    }
    screen->order = type;
    screen->order_job = job->id;
    screen->typed[0] = '\0';
    if (confirm == CS_CONFIRM_NONE)
        return CS_DO_ORDER;
    screen->prompt = confirm == CS_CONFIRM_TYPE_ID ? CS_PROMPT_TYPE : CS_PROMPT_CONFIRM;
    return CS_DO_DRAW;
}

unsigned cs_act_pause(struct cs_screen *screen, const struct cs_store *store, int argument)
{
    const struct cs_store_job *job = cs_screen_job(store, screen);
    bool is_paused = job && strcmp(job->state, "PAUSED") == 0;
    return order(screen, store, is_paused ? "job.resume" : "job.pause", argument);
}

unsigned cs_act_checkpoint(struct cs_screen *screen, const struct cs_store *store, int argument)
{
    return order(screen, store, "job.checkpoint", argument);
}

unsigned cs_act_stop(struct cs_screen *screen, const struct cs_store *store, int argument)
{
    return order(screen, store, "job.stop", argument);
}

static unsigned give_up(struct cs_screen *screen)
{
    screen->prompt = CS_PROMPT_NONE;
    say(screen, CS_STYLE_DIM, "nothing was done");
    return CS_DO_DRAW;
}

static unsigned accept_typed(struct cs_screen *screen)
{
    char id[24];
    snprintf(id, sizeof id, "%lld", (long long)screen->order_job);
    if (strcmp(id, screen->typed) != 0)
        return give_up(screen);
    screen->prompt = CS_PROMPT_NONE;
    return CS_DO_ORDER;
}

unsigned cs_prompt_key(struct cs_screen *screen, int key)
{
    size_t n = strlen(screen->typed);
    if (screen->prompt == CS_PROMPT_CONFIRM) {
        if (key != 'y' && key != 'Y')
            return give_up(screen);
        screen->prompt = CS_PROMPT_NONE;
        return CS_DO_ORDER;
    }
    if (key == CS_KEY_ENTER)
        return accept_typed(screen);
    if (key == CS_KEY_ESC || key == 3)
        return give_up(screen);
    if (key == CS_KEY_BACKSPACE && n > 0)
        screen->typed[n - 1] = '\0';
    else if (key >= '0' && key <= '9' && n + 1 < sizeof screen->typed) {
        screen->typed[n] = (char)key;
        screen->typed[n + 1] = '\0';
    }
    return CS_DO_DRAW;
}
