/* What evaluates in the Lua view: it runs beside the screen and is asked without waiting. Implemented by
 * console/cli/shared/repl, which knows Lua. */
#ifndef CS_CONSOLE_SCREEN_ENGINE_H
#define CS_CONSOLE_SCREEN_ENGINE_H

#include "console/views/state/lua_state.h"

struct cs_engine {
    void *self;
    int fd; /* readable while there are answers */
    /* CS_LUA_RUN a line, CS_LUA_COMPLETE what ends it, CS_LUA_STOP what runs; one after the other */
    void (*ask)(void *self, enum cs_lua_want want, const char *text);
    /* the answers so far */
    void (*take)(void *self, void (*fn)(void *user, enum cs_lua_answer what, const char *text),
                 void *user);
};

#endif
