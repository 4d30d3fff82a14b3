/* The Lua view's engine: what the view wants goes there, answers come when they come. */
#include <unistd.h>

#include "console/screen/engine.h"
#include "console/screen/history.h"
#include "console/screen/ui_private.h"

static void take(void *user, enum cs_lua_answer what, const char *text)
{
    struct ui *ui = user;
    cs_lua_screen_take(cs_lua_screen_of(&ui->screen), what, text);
    if (what == CS_LUA_QUIT && ui->screen.view == CS_VIEW_LUA)
        cs_screen_show(&ui->screen, CS_VIEW_JOBS);
}

void cs_ui_lua_ask(struct ui *ui)
{
    const struct cs_engine *engine = ui->options->engine;
    struct cs_lua_screen *lua = cs_lua_screen_of(&ui->screen);
    if (lua->want == CS_LUA_NOTHING)
        return;
    if (!engine) {
        cs_lua_screen_refuse(lua, "nothing evaluates here; 'cornstarch-console lua' does");
        return;
    }
    const enum cs_lua_want want = lua->want;
    lua->want = CS_LUA_NOTHING;
    engine->ask(engine->self, want, cs_buf_str(&lua->ask));
}

static void on_answers(evutil_socket_t fd, short what, void *user)
{
    struct ui *ui = user;
    const struct cs_engine *engine = ui->options->engine;
    (void)fd;
    (void)what;
    engine->take(engine->self, take, ui);
    cs_ui_lua_ask(ui); /* the next of the lines that were pasted */
    cs_ui_answer(ui);
}

void cs_ui_lua_open(struct ui *ui)
{
    const struct cs_engine *engine = ui->options->engine;
    if (!engine)
        return;
    cs_history_read(cs_lua_screen_of(&ui->screen));
    ui->lua = event_new(ui->base, engine->fd, EV_READ | EV_PERSIST, on_answers, ui);
    CS_ASSERT(ui->lua);
    event_add(ui->lua, NULL);
}

void cs_ui_lua_close(struct ui *ui)
{
    if (!ui->lua)
        return;
    event_free(ui->lua);
    cs_history_write(cs_lua_screen_of(&ui->screen));
}
