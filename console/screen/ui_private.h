/* What the parts of the screen share: the state of a console that runs. */
#ifndef CS_CONSOLE_SCREEN_UI_PRIVATE_H
#define CS_CONSOLE_SCREEN_UI_PRIVATE_H

#include <event2/event.h>

#include "console/screen/keys/config.h"
#include "console/screen/terminal/term_ncurses.h"
#include "console/screen/ui.h"
#include "console/views/state/view.h"

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
    int64_t drawn_ns, draw_at_ns; /* last; next, 0: nothing is to be drawn */
    bool is_dirty;
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
    struct event *lua; /* answers of the engine */
};

/* ui_draw.c */
void cs_ui_changed(struct ui *ui); /* there is news, which is drawn soon */
void cs_ui_answer(struct ui *ui);  /* to what somebody did: drawn at once */
void cs_ui_draw(struct ui *ui);    /* now */
void cs_ui_on_draw(evutil_socket_t fd, short what, void *ui);
void cs_ui_say(struct ui *ui, enum cs_style style, const char *text);

/* ui_link.c: questions to the daemon */
void cs_ui_ask_list(struct ui *ui);
void cs_ui_ask_beside(struct ui *ui); /* jobs laid over in Metrics */
/* What only the view that is shown needs, such as GPUs, which the daemon reads every second, is
 * asked for while somebody looks at it. */
void cs_ui_subscribe_view(struct ui *ui);
void cs_ui_select_job(struct ui *ui, int64_t job);
void cs_ui_send_order(struct ui *ui);

/* ui_messages.c: what comes from the daemon */
void cs_ui_on_message(void *ui, const json_t *msg);
void cs_ui_on_state(void *ui, bool is_connected);
void cs_ui_start_session(struct ui *ui); /* ui_link.c */
void cs_ui_ask_past(struct ui *ui);
void cs_ui_ask_show(struct ui *ui);

/* ui_lua.c: the engine of the Lua view */
void cs_ui_lua_open(struct ui *ui);
void cs_ui_lua_ask(struct ui *ui); /* what the view wants */
void cs_ui_lua_close(struct ui *ui);

#endif
