/* What the keys of every view do: moving, changing views, help, leaving, orders to jobs. */
#include <stdio.h>
#include <string.h>

#include "console/screen/keys.h"

enum { HALF_PAGE = 10, MOST_HELP = 200 /* rows of the list of keys */ };

unsigned cs_act_view(struct cs_screen *screen, const struct cs_store *store, int argument)
{
    (void)store;
    cs_screen_show(screen, (enum cs_view)argument);
    return CS_DO_DRAW;
}

unsigned cs_act_cycle(struct cs_screen *screen, const struct cs_store *store, int argument)
{
    int next = ((int)screen->view + argument + CS_VIEW_COUNT) % CS_VIEW_COUNT;
    return cs_act_view(screen, store, next);
}

static void move(struct cs_screen *screen, const struct cs_store *store, int rows)
{
    const struct cs_view_ops *view = cs_view_ops(screen->view);
    if (screen->has_help)
        screen->help_top = cs_screen_clamp(screen->help_top + rows, 0, MOST_HELP);
    else if (view->move)
        view->move(screen, store, rows);
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

unsigned cs_act_back(struct cs_screen *screen, const struct cs_store *store, int argument)
{
    (void)argument;
    if (screen->has_help) {
        screen->has_help = false;
        return CS_DO_DRAW;
    }
    const struct cs_view_ops *view = cs_view_ops(screen->view);
    if (view->back && view->back(screen))
        return CS_DO_DRAW;
    return cs_act_view(screen, store, CS_VIEW_JOBS);
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

/* --- orders to a job -------------------------------------------------------------------------- */

static unsigned order(struct cs_screen *screen, const struct cs_store *store,
                      const struct cs_job_order *what)
{
    const struct cs_store_job *job = cs_screen_job(store, screen);
    if (!job || store->is_replay) {
        cs_screen_say(screen, CS_STYLE_WARN,
                      job ? "nothing runs here: there is no job to order about"
                          : "there is no job here");
        return CS_DO_DRAW;
    }
    if (cs_state_is_over(job->state)) {
        snprintf(screen->message, sizeof screen->message, "job %lld is over (%s)",
                 (long long)job->id, job->state);
        screen->message_style = CS_STYLE_WARN;
        return CS_DO_DRAW;
    }
    screen->order = what;
    screen->order_job = job->id;
    screen->typed[0] = '\0';
    if (what->confirm == CS_CONFIRM_NONE)
        return CS_DO_ORDER;
    screen->prompt = what->confirm == CS_CONFIRM_TYPE_ID ? CS_PROMPT_TYPE : CS_PROMPT_CONFIRM;
    return CS_DO_DRAW;
}

unsigned cs_act_pause(struct cs_screen *screen, const struct cs_store *store, int argument)
{
    const struct cs_store_job *job = cs_screen_job(store, screen);
    bool is_paused = job && strcmp(job->state, "PAUSED") == 0;
    (void)argument;
    return order(screen, store, is_paused ? &cs_job_order_resume : &cs_job_order_pause);
}

unsigned cs_act_checkpoint(struct cs_screen *screen, const struct cs_store *store, int argument)
{
    (void)argument;
    return order(screen, store, &cs_job_order_checkpoint);
}

unsigned cs_act_stop(struct cs_screen *screen, const struct cs_store *store, int argument)
{
    (void)argument;
    return order(screen, store, &cs_job_order_stop);
}

static unsigned give_up(struct cs_screen *screen)
{
    screen->prompt = CS_PROMPT_NONE;
    cs_screen_say(screen, CS_STYLE_DIM, "nothing was done");
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
