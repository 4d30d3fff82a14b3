/* The file of a user of the console: keys, colours, the mouse. A line is "name = value":
 *
 *     key.F5 = 7            F5 does what 7 does
 *     key.logs.z = w G      in Logs: two keys, one after the other
 *     key.X = none          does nothing
 *     color.bad = bright-red bold
 *     theme = light
 *     mouse = on
 *
 * "#" begins a comment. What it cannot read is told with its line, and the rest holds. */
#ifndef CS_CONSOLE_SCREEN_KEYS_CONFIG_H
#define CS_CONSOLE_SCREEN_KEYS_CONFIG_H

#include "console/views/state/state.h"
#include "core/base/buf.h"

enum { CS_CONFIG_BINDINGS = 128, CS_CONFIG_KEYS = 32 };

struct cs_binding {
    int view; /* enum cs_view, -1 every one */
    int key;
    int to[CS_CONFIG_KEYS], n; /* n 0: it does nothing */
};

struct cs_screen_config {
    struct cs_binding binding[CS_CONFIG_BINDINGS];
    int n_bindings;
    struct cs_theme_own own;
    int theme; /* CS_THEME_AUTO: not chosen */
    bool has_mouse;
};

/* CS_INVALID: the first line that is wrong, "NAME:3: ..."; the others hold */
enum cs_status cs_screen_config_read(struct cs_screen_config *config, const char *name,
                                     const char *text, struct cs_err *err) CS_NODISCARD;
/* $XDG_CONFIG_HOME/cornstarch/console.conf, else that of ~/.config; none: nothing is set */
enum cs_status cs_screen_config_load(struct cs_screen_config *config,
                                     struct cs_err *err) CS_NODISCARD;
/* NULL: the key is not bound in this view; one of the view alone wins */
const struct cs_binding *cs_screen_config_find(const struct cs_screen_config *config,
                                               enum cs_view view, int key);

#endif
