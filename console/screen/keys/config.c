/* Reads the file of a user of the console. */
#include "console/screen/keys/config.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "console/screen/keys/keys.h"
#include "core/base/near.h"
#include "core/base/str.h"
#include "core/base/system/io.h"

enum { MOST_BYTES = 65536, MOST_LINE = 500 };

/* --- keys ------------------------------------------------------------------------------------- */

static enum cs_status read_keys(struct cs_binding *binding, const char *text, struct cs_err *err)
{
    if (strcmp(text, "none") == 0)
        return CS_OK;
    for (const char *at = text; *at;) {
        const size_t n = strcspn(at, " ");
        if (n > 0 && binding->n == CS_CONFIG_KEYS)
            return cs_fail(err, CS_INVALID, "more than %d keys behind one", CS_CONFIG_KEYS);
        if (n > 0 && !cs_key_parse(at, n, &binding->to[binding->n++]))
            return cs_fail(err, CS_INVALID,
                           "\"%.*s\" is no key; write g, C-d, Alt-x, F5, Enter, PgDn, with spaces "
                           "between them",
                           (int)(n < 40 ? n : 40), at);
        at += n + (at[n] == ' ');
    }
    return binding->n > 0 ? CS_OK
                          : cs_fail(err, CS_INVALID, "no keys; write none to take a key away");
}

/* "F5", "logs.z"; a key may be a dot */
static enum cs_status set_key(struct cs_screen_config *config, const char *name, const char *value,
                              struct cs_err *err)
{
    struct cs_binding binding = {.view = -1};
    const char *dot = strchr(name, '.');
    char word[40] = "";
    enum cs_view view;
    if (dot && dot > name && dot[1])
        snprintf(word, sizeof word, "%.*s", (int)(dot - name < 39 ? dot - name : 39), name);
    if (word[0] && !cs_view_find(word, &view))
        return cs_fail(err, CS_INVALID, "there is no view \"%s\"", word);
    if (word[0])
        binding.view = (int)view;
    name = word[0] ? dot + 1 : name;
    if (!cs_key_parse(name, strlen(name), &binding.key))
        return cs_fail(err, CS_INVALID, "\"%.40s\" is no key", name);
    CS_TRY(read_keys(&binding, value, err));
    if (config->n_bindings == CS_CONFIG_BINDINGS)
        return cs_fail(err, CS_INVALID, "more than %d keys", CS_CONFIG_BINDINGS);
    config->binding[config->n_bindings++] = binding;
    return CS_OK;
}

const struct cs_binding *cs_screen_config_find(const struct cs_screen_config *config,
                                               enum cs_view view, int key)
{
    const struct cs_binding *best = NULL;
    for (int i = 0; config && i < config->n_bindings; i++) {
        const struct cs_binding *binding = &config->binding[i];
        if (binding->key == key && (binding->view == (int)view || binding->view < 0) &&
            (!best || binding->view >= best->view))
            best = binding;
    }
    return best;
}

/* --- lines ------------------------------------------------------------------------------------ */

static enum cs_status set_color(struct cs_screen_config *config, const char *name,
                                const char *value, struct cs_err *err)
{
    return cs_theme_own_set(&config->own, name, value, err);
}

static enum cs_status set_theme(struct cs_screen_config *config, const char *name,
                                const char *value, struct cs_err *err)
{
    char names[120] = "";
    size_t used = 0;
    (void)name;
    for (int i = 0; cs_theme_name(i); i++) {
        if (strcmp(cs_theme_name(i), value) == 0) {
            config->theme = i;
            return CS_OK;
        }
        if (used < sizeof names)
            used += (size_t)snprintf(names + used, sizeof names - used, "%s%s", i ? ", " : "",
                                     cs_theme_name(i));
    }
    return cs_fail(err, CS_INVALID, "there is no theme \"%.40s\"; %s", value, names);
}

static enum cs_status set_mouse(struct cs_screen_config *config, const char *name,
                                const char *value, struct cs_err *err)
{
    (void)name;
    if (strcmp(value, "on") != 0 && strcmp(value, "off") != 0)
        return cs_fail(err, CS_INVALID, "mouse is on or off, not \"%.40s\"", value);
    config->has_mouse = strcmp(value, "on") == 0;
    return CS_OK;
}

static const struct {
    const char *name; /* with a dot: the beginning of a name */
    enum cs_status (*set)(struct cs_screen_config *, const char *, const char *, struct cs_err *);
} settings[] = {
    {"key.",   set_key  },
    {"color.", set_color},
    {"theme",  set_theme},
    {"mouse",  set_mouse},
};

static enum cs_status set(struct cs_screen_config *config, const char *name, const char *value,
                          struct cs_err *err)
{
    for (size_t i = 0; i < CS_ARRAY_LEN(settings); i++) {
        const size_t n = strlen(settings[i].name);
        const bool is_group = settings[i].name[n - 1] == '.';
        if (is_group ? cs_str_starts(name, settings[i].name) && name[n]
                     : strcmp(name, settings[i].name) == 0)
            return settings[i].set(config, name + (is_group ? n : 0), value, err);
    }
    return cs_fail(err, CS_INVALID,
                   "there is no \"%.40s\"; lines set key.NAME, key.VIEW.NAME, color.ROLE, theme, "
                   "mouse",
                   name);
}

static char *trim(char *text)
{
    size_t n = strlen(text);
    while (n > 0 && isspace((unsigned char)text[n - 1]))
        text[--n] = '\0';
    while (isspace((unsigned char)*text))
        text++;
    return text;
}

/* The name ends at the first " = ", so that "=" and "#" can be keys. */
static enum cs_status read_line(struct cs_screen_config *config, char *line, struct cs_err *err)
{
    char *text = trim(line);
    if (text[0] == '\0' || text[0] == '#')
        return CS_OK;
    char *equals = strstr(text, " = ");
    if (!equals)
        equals = strchr(text, '=');
    if (!equals || equals == text)
        return cs_fail(err, CS_INVALID, "a line is \"name = value\"");
    char *value = equals + (*equals == ' ' ? 3 : 1);
    *equals = '\0';
    char *comment = strstr(value, " # ");
    if (comment)
        *comment = '\0';
    return set(config, trim(text), trim(value), err);
}

enum cs_status cs_screen_config_read(struct cs_screen_config *config, const char *name,
                                     const char *text, struct cs_err *err)
{
    enum cs_status status = CS_OK;
    int number = 1;
    *config = (struct cs_screen_config){.theme = CS_THEME_AUTO};
    for (const char *at = text; *at; number++) {
        const size_t n = strcspn(at, "\n");
        struct cs_err wrong = {.text = ""};
        char line[MOST_LINE + 1];
        snprintf(line, sizeof line, "%.*s", (int)(n < MOST_LINE ? n : MOST_LINE), at);
        const enum cs_status read = n > MOST_LINE
                                        ? cs_fail(&wrong, CS_INVALID, "a line of %zu bytes", n)
                                        : read_line(config, line, &wrong);
        if (read != CS_OK && status == CS_OK)
            status = cs_fail(err, read, "%s:%d: %s", name, number, wrong.text);
        at += n + (at[n] == '\n');
    }
    return status;
}

static bool path_of(char path[CS_PATH_CAP])
{
    const char *config = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
    int n = -1;
    if (config && config[0] == '/')
        n = snprintf(path, CS_PATH_CAP, "%s/cornstarch/console.conf", config);
    else if (home && home[0] == '/')
        n = snprintf(path, CS_PATH_CAP, "%s/.config/cornstarch/console.conf", home);
    return n > 0 && n < CS_PATH_CAP;
}

enum cs_status cs_screen_config_load(struct cs_screen_config *config, struct cs_err *err)
{
    char path[CS_PATH_CAP];
    struct cs_buf text = {0};
    *config = (struct cs_screen_config){.theme = CS_THEME_AUTO};
    if (!path_of(path) || access(path, F_OK) != 0)
        return CS_OK;
    enum cs_status status = cs_read_file(path, MOST_BYTES, &text, err);
    if (status == CS_OK)
        status = cs_screen_config_read(config, path, cs_buf_str(&text), err);
    cs_buf_free(&text);
    return status;
}
