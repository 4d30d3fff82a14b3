/* What the keys of every view do: moving, changing views, help, leaving, orders to jobs. */
#include <stdio.h>
#include <string.h>

#include "console/screen/keys/find.h"
#include "console/screen/keys/keys.h"
#include "console/views/failure.h"
#include "core/wire/job_state.h"

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
    else if (view->move && !screen->failure)
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

/* What covers the view goes away: the list of keys, a failure, which then is told no more. */
static bool close_cover(struct cs_screen *screen)
{
    const bool is_covered = screen->has_help || screen->failure != 0;
    if (screen->failure > screen->dismissed && !screen->has_help)
        screen->dismissed = screen->failure;
    if (!screen->has_help)
        screen->failure = 0;
    screen->has_help = false;
    return is_covered;
}

unsigned cs_act_back(struct cs_screen *screen, const struct cs_store *store, int argument)
{
    (void)argument;
    if (close_cover(screen))
        return CS_DO_DRAW;
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

/* It becomes the selected job: keys then are about it. */
unsigned cs_act_failure(struct cs_screen *screen, const struct cs_store *store, int argument)
{
    const struct cs_store_job *told = cs_failure_to_tell(store, screen);
    const struct cs_store_job *job = cs_screen_job(store, screen);
    (void)argument;
    if (close_cover(screen))
        return CS_DO_DRAW;
    job = job && cs_failure_is(job) ? job : told;
    if (!job) {
        cs_screen_say(screen, CS_STYLE_DIM, "no job failed here");
        return CS_DO_DRAW;
    }
    screen->failure = screen->cursor_job = job->id;
    return job->id != store->job ? CS_DO_SELECT : CS_DO_DRAW;
}

unsigned cs_act_quit(struct cs_screen *screen, const struct cs_store *store, int argument)
{
    (void)store;
    (void)argument;
    return close_cover(screen) ? CS_DO_DRAW : CS_DO_QUIT;
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

unsigned cs_order_job(struct cs_screen *screen, const struct cs_store *store,
                      const struct cs_job_order *what, int64_t id)
{
    const struct cs_store_job *job = cs_store_find(store, id);
    if (!job || store->is_replay) {
        cs_screen_say(screen, CS_STYLE_WARN,
                      job ? "nothing runs here: there is no job to order about"
                          : "there is no job here");
        return CS_DO_DRAW;
    }
    if (!cs_job_order_is_allowed(job->state, what)) {
        snprintf(screen->message, sizeof screen->message, "job %lld is %s: it cannot %s now",
                 (long long)job->id, job->state, what->name);
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

static unsigned order(struct cs_screen *screen, const struct cs_store *store,
                      const struct cs_job_order *what)
{
    const struct cs_store_job *job = cs_screen_job(store, screen);
    return cs_order_job(screen, store, what, job ? job->id : 0);
}

unsigned cs_act_pause(struct cs_screen *screen, const struct cs_store *store, int argument)
{
    const struct cs_store_job *job = cs_screen_job(store, screen);
    const bool is_resting = job && !cs_job_order_is_allowed(job->state, &cs_job_order_pause) &&
                            cs_job_order_is_allowed(job->state, &cs_job_order_resume);
    (void)argument;
    return order(screen, store, is_resting ? &cs_job_order_resume : &cs_job_order_pause);
}

unsigned cs_act_resume(struct cs_screen *screen, const struct cs_store *store, int argument)
{
    const struct cs_view_ops *view = cs_view_ops(screen->view);
    (void)argument;
    if (view->can_run && view->can_run(store, screen) != CS_RUN_NOTHING)
        return view->run(screen, store);
    return order(screen, store, &cs_job_order_resume);
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

/* --- lists ------------------------------------------------------------------------------------ */

unsigned cs_act_find(struct cs_screen *screen, const struct cs_store *store, int argument)
{
    (void)argument;
    if (cs_view_ops(screen->view)->list)
        cs_screen_ask(screen, CS_PROMPT_FIND, "");
    else
        cs_find_first(screen, store); /* says that there is no list */
    return CS_DO_DRAW;
}

unsigned cs_act_filter(struct cs_screen *screen, const struct cs_store *store, int argument)
{
    (void)store;
    (void)argument;
    if (cs_view_ops(screen->view)->list)
        cs_screen_ask(screen, CS_PROMPT_FILTER, screen->filter[screen->view]);
    return CS_DO_DRAW;
}

unsigned cs_act_pager(struct cs_screen *screen, const struct cs_store *store, int argument)
{
    (void)store;
    (void)argument;
    return cs_view_ops(screen->view)->list ? CS_DO_PAGE : CS_DO_DRAW;
}

unsigned cs_act_next(struct cs_screen *screen, const struct cs_store *store, int argument)
{
    cs_find_next(screen, store, argument);
    return CS_DO_DRAW;
}

unsigned cs_act_copy(struct cs_screen *screen, const struct cs_store *store, int argument)
{
    const struct cs_view_list *list = cs_view_ops(screen->view)->list;
    (void)argument;
    if (list && list->count(store, screen) > 0)
        return CS_DO_COPY;
    cs_screen_say(screen, CS_STYLE_DIM, "there is no row to copy here");
    return CS_DO_DRAW;
}
