/* Completes command lines from the table of commands. */
#include "console/cli/docs/complete.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "console/cli/docs/screen_options.h"
#include "console/views/state/view.h"
#include "core/base/str.h"
#include "core/wire/job_state.h"

enum { MAX_OPTIONS = 40 };

void cs_complete_word(struct cs_completion *out, const char *typed, const char *word,
                      const char *help)
{
    if (cs_str_starts(word, typed))
        cs_buf_addf(&out->lines, "%s\t%s\n", word, help);
}

/* --- names of commands ------------------------------------------------------------------------ */

/* The next word of every name that goes on from the words before. */
static void add_names(const struct cs_commands *all, int n, char *const *words,
                      struct cs_completion *out)
{
    char before[128] = "", next[64];
    const char *last = "";
    size_t last_n = 0;
    for (int i = 0; i < n - 1; i++) {
        const size_t used = strlen(before);
        snprintf(before + used, sizeof before - used, "%.40s ", words[i]);
    }
    for (int i = 0; i < all->n; i++) {
        const char *name = all->row[i]->name;
        if (!cs_str_starts(name, before))
            continue;
        name += strlen(before);
        const size_t len = strcspn(name, " ");
        if (len == last_n && memcmp(last, name, len) == 0)
            continue; /* of the same group as the one before */
        last = name;
        last_n = len;
        snprintf(next, sizeof next, "%.*s", (int)len, name);
        cs_complete_word(out, words[n - 1], next,
                         name[len] ? "a group of commands" : all->row[i]->help);
    }
}

/* --- options ---------------------------------------------------------------------------------- */

static void add_options(const struct cs_option *options, size_t n, const char *typed,
                        struct cs_completion *out)
{
    char word[96];
    for (size_t i = 0; i < n; i++) {
        snprintf(word, sizeof word, "--%s", options[i].name);
        cs_complete_word(out, typed, word, options[i].help);
    }
    cs_complete_word(out, typed, "--help", "the options");
}

static const struct cs_option *find_option(const struct cs_option *options, size_t n,
                                           const char *word)
{
    for (size_t i = 0; i < n; i++)
        if ((cs_str_starts(word, "--") && strcmp(word + 2, options[i].name) == 0) ||
            (word[0] == '-' && options[i].letter && word[1] == options[i].letter && !word[2]))
            return options[i].type == CS_OPT_FLAG ? NULL : &options[i];
    return NULL;
}

static void add_states(const char *typed, struct cs_completion *out)
{
    char word[96];
    const char *comma = strrchr(typed, ',');
    const int kept = comma ? (int)(comma - typed) + 1 : 0;
    for (int s = 0; s < CS_JOB_STATE_COUNT; s++) {
        const struct cs_job_state_row *row = cs_job_state_row((enum cs_job_state)s);
        char lower[32];
        cs_str_copy(lower, sizeof lower, row->name);
        for (char *c = lower; *c; c++)
            *c = (char)tolower((unsigned char)*c);
        snprintf(word, sizeof word, "%.*s%s", kept, typed, lower);
        cs_complete_word(out, typed, word, row->help);
    }
}

static void add_views(const char *typed, struct cs_completion *out)
{
    for (int v = 0; v < CS_VIEW_COUNT; v++)
        cs_complete_word(out, typed, cs_view_name((enum cs_view)v),
                         cs_view_ops((enum cs_view)v)->title);
}

static void add_value(const struct cs_option *option, const char *typed, struct cs_completion *out)
{
    const char *kind = option->argname ? option->argname : "";
    for (int i = 0; option->choices && option->choices[i]; i++)
        cs_complete_word(out, typed, option->choices[i], option->help);
    if (option->type == CS_OPT_ENUM)
        return;
    if (strcmp(kind, "STATE") == 0)
        add_states(typed, out);
    else if (strcmp(option->name, "view") == 0 && option->type == CS_OPT_STRING)
        add_views(typed, out);
    cs_str_copy(out->kind, sizeof out->kind, kind[0] ? kind : "VALUE");
}

/* --- arguments -------------------------------------------------------------------------------- */

/* The at-th word of a usage that is no option: "[options] ID [SCRIPT]"; its last with "..." goes on. */
static void kind_of(const char *usage, int at, char *out, size_t cap)
{
    const char *p = usage;
    char word[32] = "";
    bool goes_on = false;
    out[0] = '\0';
    for (int i = -1; *p; p += strspn(p, " ")) {
        size_t n = strcspn(p, " ");
        const char *begin = p + strspn(p, "[");
        const size_t len = strcspn(begin, "] ");
        p += n;
        goes_on = strncmp(begin, "...", 3) == 0;
        if (goes_on)
            break;
        if (strncmp(begin, "options", len) == 0 || *begin == '-')
            continue;
        snprintf(word, sizeof word, "%.*s", (int)len, begin);
        if (++i == at) {
            cs_str_copy(out, cap, word);
            return;
        }
    }
    if (goes_on)
        cs_str_copy(out, cap, word);
}

/* arguments that stand before the last word */
static int count_arguments(const struct cs_option *options, size_t n_options, int n,
                           char *const *words)
{
    int found = 0;
    for (int i = 0; i < n - 1; i++) {
        if (words[i][0] == '-' && words[i][1] != '\0')
            i += find_option(options, n_options, words[i]) != NULL;
        else
            found++;
    }
    return found;
}

static void complete_command(const struct cs_commands *all, const struct cs_command *command, int n,
                             char *const *words, struct cs_completion *out)
{
    struct cs_option options[MAX_OPTIONS];
    const size_t n_options = cs_command_options(command, options, MAX_OPTIONS);
    const char *typed = words[n - 1];
    const struct cs_option *before = n > 1 ? find_option(options, n_options, words[n - 2]) : NULL;
    out->command = command;
    if (before != NULL)
        add_value(before, typed, out);
    else if (typed[0] == '-')
        add_options(options, n_options, typed, out);
    else
        kind_of(command->usage, count_arguments(options, n_options, n, words), out->kind,
                sizeof out->kind);
    if (strcmp(out->kind, "COMMAND") == 0)
        add_names(all, n, words, out);
}

void cs_complete(const struct cs_commands *all, int n, char *const *words,
                 struct cs_completion *out)
{
    const struct cs_command *command = NULL;
    int used = 0;
    size_t n_screen;
    *out = (struct cs_completion){0};
    if (n > 1 && cs_command_find(all, n - 1, words, &command, &used, NULL) == CS_OK)
        complete_command(all, command, n - used, words + used, out);
    if (command == NULL && words[n - 1][0] == '-') {
        const struct cs_option *screen = cs_cli_screen_options(&n_screen);
        add_options(screen, n_screen, words[n - 1], out);
    } else if (command == NULL || (n - used == 1 && used > 0)) {
        add_names(all, n, words, out); /* "model" is a group, and "daemon status" goes on from it */
    }
}
