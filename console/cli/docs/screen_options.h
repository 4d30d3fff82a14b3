/* Options of the console without a command, for parser, help and manual. */
#ifndef CS_CONSOLE_CLI_SCREEN_OPTIONS_H
#define CS_CONSOLE_CLI_SCREEN_OPTIONS_H

#include <stdbool.h>

#include "core/program/options.h"

struct cs_screen_values {
    bool plain, read_only, json, mouse;
    const char *socket;
    int color, glyphs; /* indices of the words below */
};

extern const char *const cs_screen_colors[], *const cs_screen_glyphs[]; /* NULL-terminated */

const struct cs_option *cs_cli_screen_options(size_t *n);

#endif
