/* Reads the looks that a user gives to roles. */
#include <stdio.h>
#include <string.h>

#include "console/draw/theme.h"
#include "core/base/near.h"
#include "core/base/str.h"

static const char *const roles[CS_STYLE_COUNT] = {
    [CS_STYLE_TEXT] = "text",
    [CS_STYLE_DIM] = "dim",
    [CS_STYLE_TITLE] = "title",
    [CS_STYLE_HEADER] = "header",
    [CS_STYLE_TAB] = "tab",
    [CS_STYLE_TAB_ON] = "tab-on",
    [CS_STYLE_KEY] = "key",
    [CS_STYLE_CURSOR] = "cursor",
    [CS_STYLE_FORWARD] = "forward",
    [CS_STYLE_BACKWARD] = "backward",
    [CS_STYLE_OPTIMIZER] = "optimizer",
    [CS_STYLE_IDLE] = "idle",
    [CS_STYLE_CRITICAL] = "critical",
    [CS_STYLE_FROZEN] = "frozen",
    [CS_STYLE_PASSES] = "passes",
    [CS_STYLE_TRAINS] = "trains",
    [CS_STYLE_GOOD] = "good",
    [CS_STYLE_WARN] = "warn",
    [CS_STYLE_BAD] = "bad",
    [CS_STYLE_BANNER] = "banner",
};

static const char *const colors[] = {"black", "red",     "green", "yellow",
                                     "blue",  "magenta", "cyan",  "white"};

static const struct {
    const char *name;
    uint8_t attr;
} attrs[] = {
    {"bold",      CS_ATTR_BOLD     },
    {"dim",       CS_ATTR_DIM      },
    {"reverse",   CS_ATTR_REVERSE  },
    {"underline", CS_ATTR_UNDERLINE},
};

static bool color_of(const char *word, int16_t *out)
{
    const bool is_bright = cs_str_starts(word, "bright-");
    int64_t number;
    if (strcmp(word, "own") == 0) {
        *out = -1;
        return true;
    }
    for (int i = 0; i < (int)CS_ARRAY_LEN(colors); i++)
        if (strcmp(word + (is_bright ? 7 : 0), colors[i]) == 0) {
            *out = (int16_t)(i + (is_bright ? 8 : 0));
            return true;
        }
    if (!cs_str_to_i64(word, &number) || number < 0 || number > 255)
        return false;
    *out = (int16_t)number;
    return true;
}

static bool take_word(struct cs_look *look, const char *word, bool *is_background)
{
    if (strcmp(word, "on") == 0) {
        *is_background = true;
        return true;
    }
    for (size_t i = 0; i < CS_ARRAY_LEN(attrs); i++)
        if (strcmp(word, attrs[i].name) == 0) {
            look->attrs |= attrs[i].attr;
            return true;
        }
    return color_of(word, *is_background ? &look->bg : &look->fg);
}

enum cs_status cs_theme_own_set(struct cs_theme_own *own, const char *role, const char *text,
                                struct cs_err *err)
{
    struct cs_look look = {-1, -1, 0};
    bool is_background = false;
    int style = 0;
    while (style < CS_STYLE_COUNT && strcmp(roles[style], role) != 0)
        style++;
    if (style == CS_STYLE_COUNT) {
        const char *near = cs_near(role, roles, CS_STYLE_COUNT);
        return cs_fail(err, CS_INVALID, "there is no role \"%.40s\"%s%s%s", role,
                       near ? "; did you mean \"" : "", near ? near : "", near ? "\"?" : "");
    }
    for (const char *at = text; *at;) {
        const size_t n = strcspn(at, " ");
        char word[24];
        snprintf(word, sizeof word, "%.*s", (int)(n < 23 ? n : 23), at);
        if (n > 0 && !take_word(&look, word, &is_background))
            return cs_fail(err, CS_INVALID,
                           "\"%s\" is no colour: a name such as red or bright-red, 0 to 255, own; "
                           "behind \"on\" the background; bold, dim, reverse, underline",
                           word);
        at += n + (at[n] == ' ');
    }
    own->look[style] = look;
    own->has[style] = true;
    return CS_OK;
}
