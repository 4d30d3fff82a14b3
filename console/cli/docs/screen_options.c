/* Options of the console without a command, for parser, help and manual. */
#include "console/cli/docs/screen_options.h"

const char *const cs_screen_colors[] = {"auto", "always", "never", NULL};
const char *const cs_screen_glyphs[] = {"auto", "utf8", "ascii", NULL};

#define AT(field) offsetof(struct cs_screen_values, field)
/* clang-format off */
static const struct cs_option options[] = {
    {"plain", 0, CS_OPT_FLAG, 0, 0, NULL, NULL, NULL, "the list of jobs as text", AT(plain)},
    {"read-only", 0, CS_OPT_FLAG, 0, 0, NULL, NULL, NULL, "give no orders to jobs", AT(read_only)},
    {"color", 0, CS_OPT_ENUM, 0, 0, "auto", NULL, cs_screen_colors, "colours; auto obeys NO_COLOR", AT(color)},
    {"glyphs", 0, CS_OPT_ENUM, 0, 0, "auto", NULL, cs_screen_glyphs, "characters to draw with", AT(glyphs)},
    {"mouse", 0, CS_OPT_FLAG, 0, 0, NULL, NULL, NULL, "clicks choose rows and views, the wheel scrolls; Shift selects text", AT(mouse)},
    {"socket", 'S', CS_OPT_STRING, 0, 0, NULL, "PATH", NULL, "the daemon's socket; default: your own daemon, started when needed", AT(socket)},
    {"json", 0, CS_OPT_FLAG, 0, 0, NULL, NULL, NULL, "the list of jobs as a document", AT(json)},
};

/* clang-format on */

const struct cs_option *cs_cli_screen_options(size_t *n)
{
    *n = CS_ARRAY_LEN(options);
    return options;
}
