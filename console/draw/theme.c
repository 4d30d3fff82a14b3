/* Gives every role of a cell its colours and attributes, by scheme. */
#include "console/draw/theme.h"

#include <string.h>

#include "core/base/status.h"

enum { BLACK, RED, GREEN, YELLOW, BLUE, MAGENTA, CYAN, WHITE, OWN = -1 };

/* One row per role: the colour scheme, then attributes alone. Blue and yellow, cyan and magenta
 * carry the pairs that must be told apart, which red-green blindness leaves intact. */
/* clang-format off */
static const struct {
    struct cs_look color, mono;
} looks[] = {
    [CS_STYLE_TEXT] =      {{OWN, OWN, 0},               {OWN, OWN, 0}},
    [CS_STYLE_DIM] =       {{OWN, OWN, CS_ATTR_DIM},     {OWN, OWN, CS_ATTR_DIM}},
    [CS_STYLE_TITLE] =     {{CYAN, OWN, 0},              {OWN, OWN, CS_ATTR_BOLD}},
    [CS_STYLE_HEADER] =    {{OWN, OWN, CS_ATTR_BOLD},    {OWN, OWN, CS_ATTR_BOLD}},
    [CS_STYLE_TAB] =       {{OWN, OWN, 0},               {OWN, OWN, 0}},
    [CS_STYLE_TAB_ON] =    {{CYAN, OWN, CS_ATTR_BOLD},   {OWN, OWN, CS_ATTR_BOLD | CS_ATTR_UNDERLINE}},
    [CS_STYLE_KEY] =       {{CYAN, OWN, 0},              {OWN, OWN, CS_ATTR_BOLD}},
    [CS_STYLE_CURSOR] =    {{OWN, OWN, CS_ATTR_REVERSE}, {OWN, OWN, CS_ATTR_REVERSE}},
    [CS_STYLE_FORWARD] =   {{CYAN, OWN, 0},              {OWN, OWN, 0}},
    [CS_STYLE_BACKWARD] =  {{YELLOW, OWN, 0},            {OWN, OWN, CS_ATTR_BOLD}},
    [CS_STYLE_OPTIMIZER] = {{MAGENTA, OWN, 0},           {OWN, OWN, CS_ATTR_UNDERLINE}},
    [CS_STYLE_IDLE] =      {{OWN, OWN, CS_ATTR_DIM},     {OWN, OWN, CS_ATTR_DIM}},
    [CS_STYLE_CRITICAL] =  {{BLACK, CYAN, 0},            {OWN, OWN, CS_ATTR_REVERSE}},
    [CS_STYLE_FROZEN] =    {{BLUE, OWN, CS_ATTR_BOLD},   {OWN, OWN, 0}},
    [CS_STYLE_PASSES] =    {{CYAN, OWN, 0},              {OWN, OWN, 0}},
    [CS_STYLE_TRAINS] =    {{YELLOW, OWN, CS_ATTR_BOLD}, {OWN, OWN, CS_ATTR_BOLD}},
    [CS_STYLE_GOOD] =      {{GREEN, OWN, 0},             {OWN, OWN, 0}},
    [CS_STYLE_WARN] =      {{YELLOW, OWN, 0},            {OWN, OWN, CS_ATTR_BOLD}},
    [CS_STYLE_BAD] =       {{RED, OWN, CS_ATTR_BOLD},    {OWN, OWN, CS_ATTR_BOLD | CS_ATTR_REVERSE}},
    [CS_STYLE_BANNER] =    {{BLACK, YELLOW, 0},          {OWN, OWN, CS_ATTR_REVERSE}},
};

/* clang-format on */

_Static_assert(CS_ARRAY_LEN(looks) == CS_STYLE_COUNT, "a look for every role");

/* Cyan and yellow are hardly seen on white: blue and magenta carry their pairs there. */
static struct cs_look on_bright(struct cs_look look)
{
    if (look.bg == OWN)
        look.fg = look.fg == CYAN ? BLUE : look.fg == YELLOW ? MAGENTA : look.fg;
    return look;
}

/* Colours of xterm whose pairs stay apart for every kind of colour blindness, each with a contrast of at
 * least 4.5 to black (test_console_theme): blues for what passes, oranges for what is paid for. */
enum { SKY = 74, DEEP = 32, PALE = 117, ORANGE = 214, VERMILION = 202, LEMON = 227, SNOW = 231 };

struct safe_look {
    enum cs_style style;
    struct cs_look look;
};

static const struct safe_look safe[] = {
    {CS_STYLE_TITLE,     {PALE, OWN, 0}                },
    {CS_STYLE_TAB_ON,    {PALE, OWN, CS_ATTR_BOLD}     },
    {CS_STYLE_KEY,       {PALE, OWN, 0}                },
    {CS_STYLE_FORWARD,   {SKY, OWN, 0}                 },
    {CS_STYLE_BACKWARD,  {ORANGE, OWN, 0}              },
    {CS_STYLE_OPTIMIZER, {SNOW, OWN, CS_ATTR_BOLD}     },
    {CS_STYLE_CRITICAL,  {BLACK, PALE, 0}              },
    {CS_STYLE_FROZEN,    {DEEP, OWN, CS_ATTR_BOLD}     },
    {CS_STYLE_PASSES,    {PALE, OWN, 0}                },
    {CS_STYLE_TRAINS,    {ORANGE, OWN, CS_ATTR_BOLD}   },
    {CS_STYLE_GOOD,      {SKY, OWN, 0}                 },
    {CS_STYLE_WARN,      {LEMON, OWN, 0}               },
    {CS_STYLE_BAD,       {VERMILION, OWN, CS_ATTR_BOLD}},
    {CS_STYLE_BANNER,    {BLACK, ORANGE, 0}            },
};

/* The same on white: darker blues, browns and reds, with a contrast of at least 4.5 to it. */
enum { ROYAL = 27, NAVY = 18, BROWN = 130, PLUM = 89, CRIMSON = 160, INK = 16 };

static const struct safe_look safe_light[] = {
    {CS_STYLE_TITLE,     {ROYAL, OWN, 0}             },
    {CS_STYLE_TAB_ON,    {ROYAL, OWN, CS_ATTR_BOLD}  },
    {CS_STYLE_KEY,       {ROYAL, OWN, 0}             },
    {CS_STYLE_FORWARD,   {ROYAL, OWN, 0}             },
    {CS_STYLE_BACKWARD,  {BROWN, OWN, 0}             },
    {CS_STYLE_OPTIMIZER, {INK, OWN, CS_ATTR_BOLD}    },
    {CS_STYLE_CRITICAL,  {SNOW, ROYAL, 0}            },
    {CS_STYLE_FROZEN,    {NAVY, OWN, CS_ATTR_BOLD}   },
    {CS_STYLE_PASSES,    {ROYAL, OWN, 0}             },
    {CS_STYLE_TRAINS,    {BROWN, OWN, CS_ATTR_BOLD}  },
    {CS_STYLE_GOOD,      {ROYAL, OWN, 0}             },
    {CS_STYLE_WARN,      {PLUM, OWN, CS_ATTR_BOLD}   },
    {CS_STYLE_BAD,       {CRIMSON, OWN, CS_ATTR_BOLD}},
    {CS_STYLE_BANNER,    {SNOW, BROWN, 0}            },
};

_Static_assert(CS_ARRAY_LEN(safe) == CS_ARRAY_LEN(safe_light), "the same roles");

static struct cs_look safe_look(const struct safe_look *rows, enum cs_style style)
{
    for (size_t i = 0; i < CS_ARRAY_LEN(safe); i++)
        if (rows[i].style == style)
            return rows[i].look;
    return looks[style].mono;
}

static const struct {
    const char *name, *help;
} schemes[CS_SCHEME_COUNT] = {
    [CS_SCHEME_DEFAULT] = {"default",    "blue and yellow, cyan and magenta: for a dark background" },
    [CS_SCHEME_LIGHT] = {"light",      "blue and magenta: for a bright background"                },
    [CS_SCHEME_SAFE] = {"safe",
                           "blues and oranges of 256 colours: told apart without red, green or blue"},
    [CS_SCHEME_SAFE_LIGHT] = {"safe-light",
                           "the same for a bright background: blues, browns and reds"               },
    [CS_SCHEME_MONO] = {"mono",       "bold, dim and reverse instead of colours"                 },
    [CS_SCHEME_NONE] = {"none",       "text alone"                                               },
};

const char *cs_theme_name(int scheme)
{
    return scheme >= 0 && scheme < CS_SCHEME_COUNT ? schemes[scheme].name : NULL;
}

const char *cs_theme_help(int scheme)
{
    return scheme >= 0 && scheme < CS_SCHEME_COUNT ? schemes[scheme].help : NULL;
}

struct cs_look cs_theme_look(enum cs_scheme scheme, enum cs_style style)
{
    if (scheme == CS_SCHEME_NONE || style < 0 || style >= CS_STYLE_COUNT)
        return (struct cs_look){OWN, OWN, 0};
    if (scheme == CS_SCHEME_MONO)
        return looks[style].mono;
    if (scheme == CS_SCHEME_SAFE || scheme == CS_SCHEME_SAFE_LIGHT)
        return safe_look(scheme == CS_SCHEME_SAFE ? safe : safe_light, style);
    return scheme == CS_SCHEME_LIGHT ? on_bright(looks[style].color) : looks[style].color;
}

enum cs_scheme cs_theme_choose(const char *color, const char *no_color, int terminal_colors)
{
    if (color && strcmp(color, "never") == 0)
        return CS_SCHEME_MONO;
    if (color && strcmp(color, "always") == 0)
        return CS_SCHEME_DEFAULT;
    if (no_color && no_color[0] != '\0')
        return CS_SCHEME_MONO;
    return terminal_colors >= 8 ? CS_SCHEME_DEFAULT : CS_SCHEME_MONO;
}
