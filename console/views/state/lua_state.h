/* What stands in the Lua view: the lines that were typed and what came of them, and the line that is being
 * typed. The view asks (want), the owner of the screen answers (cs_lua_screen_take); what evaluates is not
 * known here. */
#ifndef CS_CONSOLE_VIEWS_STATE_LUA_STATE_H
#define CS_CONSOLE_VIEWS_STATE_LUA_STATE_H

#include "console/draw/theme.h"
#include "console/views/state/edit.h"
#include "core/base/buf.h"

enum { CS_LUA_LINES = 5000 /* kept; the oldest go */, CS_LUA_HISTORY = 1000, CS_LUA_OFFERS = 200 };

enum cs_lua_want {
    CS_LUA_NOTHING,
    CS_LUA_RUN,      /* the line `ask` */
    CS_LUA_COMPLETE, /* what may the end of `ask` become? */
    CS_LUA_STOP      /* the chunk that runs */
};

/* What answers: lines and names, then one that ends it. */
enum cs_lua_answer {
    CS_LUA_SAID,  /* text: lines */
    CS_LUA_WRONG, /* an error, the same */
    CS_LUA_OFFER, /* text: a word */
    CS_LUA_OFFERED,
    CS_LUA_MORE, /* the chunk goes on */
    CS_LUA_DONE,
    CS_LUA_QUIT /* the user wants to leave */
};

struct cs_lua_line {
    char *text; /* UTF-8 without control characters; owned */
    enum cs_style style;
};

struct cs_lua_screen {
    struct cs_edit edit;
    struct cs_lua_line line[CS_LUA_LINES];
    int n_lines;
    int back;                      /* lines that the cursor is before the newest */
    bool is_busy;                  /* a chunk runs */
    bool is_begun;                 /* more lines of a chunk are to come */
    bool is_left;                  /* keys are those of the screen, not typed */
    char *history[CS_LUA_HISTORY]; /* the newest last; owned */
    int n_history, at_history;
    int n_known;                /* of history: lines that were there at the start */
    char kept[CS_EDIT_CAP];     /* what stood in the line before history was gone through */
    char *offer[CS_LUA_OFFERS]; /* names that Tab found; owned */
    int n_offers;
    bool has_offers;       /* they are shown */
    struct cs_buf pending; /* pasted lines, and those that were typed while a chunk runs */
    enum cs_lua_want want;
    struct cs_buf ask;
};

struct cs_screen;
/* of a screen; made when it is asked for first */
struct cs_lua_screen *cs_lua_screen_of(struct cs_screen *screen);
void cs_lua_screen_free(struct cs_lua_screen *lua); /* accepts NULL */

/* A line for the history, the oldest first. */
void cs_lua_screen_remember(struct cs_lua_screen *lua, const char *text);
void cs_lua_screen_say(struct cs_lua_screen *lua, enum cs_style style, const char *text);
void cs_lua_screen_take(struct cs_lua_screen *lua, enum cs_lua_answer what, const char *text);
/* Nobody evaluates here: an answer to what is wanted. */
void cs_lua_screen_refuse(struct cs_lua_screen *lua, const char *why);
/* The line that stands there is finished. */
void cs_lua_screen_enter(struct cs_lua_screen *lua);
void cs_lua_screen_paste(struct cs_lua_screen *lua, const char *text, size_t n);
/* the line before (-1) or after (1) that begins as what was typed */
void cs_lua_screen_recall(struct cs_lua_screen *lua, int direction);
void cs_lua_screen_complete(struct cs_lua_screen *lua);
/* C-c: stops what runs, else gives up what is typed; false: there is nothing of either */
bool cs_lua_screen_break(struct cs_lua_screen *lua);

#endif
