/* Help, listing, manual page and completion from the table of commands. */
#include "console/cli/docs/command_docs.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "console/cli/docs/manual_option.h"
#include "console/cli/docs/screen_options.h"
#include "core/program/mdoc.h"

enum { MAX_OPTIONS = 32 };

static void add_screen_options(struct cs_buf *out, int widest)
{
    size_t n = 0;
    const struct cs_option *options = cs_cli_screen_options(&n);
    cs_buf_adds(out, "\nwithout a command:\n");
    for (size_t i = 0; i < n; i++) {
        cs_buf_addf(out, "  --%-*s  %s", widest - 2, options[i].name, options[i].help);
        for (int c = 0; options[i].choices && options[i].choices[c]; c++)
            cs_buf_addf(out, "%s%s", c ? ", " : ": ", options[i].choices[c]);
        cs_buf_addc(out, '\n');
    }
}

void cs_commands_help(const struct cs_commands *all, int width, struct cs_buf *out)
{
    const struct cs_command *const *c = all->row;
    int n = all->n, widest = 0;
    (void)width;
    for (int i = 0; i < n; i++)
        if ((int)strlen(c[i]->name) > widest)
            widest = (int)strlen(c[i]->name);
    cs_buf_adds(out,
                "usage: cornstarch-console [COMMAND [options] ...]\n\n"
                "Trains multimodal models; without a command the console opens.\n\ncommands:\n");
    for (int i = 0; i < n; i++)
        cs_buf_addf(out, "  %-*s  %s\n", widest, c[i]->name, c[i]->help);
    add_screen_options(out, widest);
    cs_buf_adds(out, "\n'cornstarch-console COMMAND --help' tells the options of a command. Exit "
                     "codes: 0 ok,\n1 usage or input, 2 not found, 3 refused, 4 plan invalid, 5 "
                     "unreachable, 6 job failed.\n");
}

static const char *confirm_name(enum cs_confirm confirm)
{
    static const char *const names[] = {"none", "ask", "type-id"};
    return names[confirm];
}

void cs_commands_list(const struct cs_commands *all, struct cs_buf *out)
{
    const struct cs_command *const *c = all->row;
    int n = all->n;
    for (int i = 0; i < n; i++) {
        struct cs_option options[MAX_OPTIONS];
        struct cs_buf list = {0};
        char name[64], max[16];
        size_t n_options = cs_command_options(c[i], options, MAX_OPTIONS);
        struct cs_cli cli = cs_command_cli(c[i], options, n_options, name, sizeof name);
        snprintf(max, sizeof max, c[i]->max_args < 0 ? "-" : "%d", c[i]->max_args);
        cs_buf_addf(out, "%s\t%c\t%s\t%s\t%d\t%s\t%s\t%s\n", c[i]->name,
                    c[i]->key ? c[i]->key : '-', cs_role_name(c[i]->role),
                    confirm_name(c[i]->confirm), c[i]->min_args, max, c[i]->usage, c[i]->help);
        cs_options_list(&cli, &list);
        for (const char *p = cs_buf_str(&list); *p;) {
            size_t len = strcspn(p, "\n");
            cs_buf_addf(out, "\t%.*s\n", (int)len, p);
            p += len + (p[len] == '\n');
        }
        cs_buf_free(&list);
    }
}

void cs_commands_mdoc(const struct cs_commands *all, struct cs_buf *out)
{
    const struct cs_command *const *c = all->row;
    int n = all->n;
    struct cs_option options[MAX_OPTIONS];
    for (int i = 0; i < n; i++) {
        cs_buf_addf(out, ".It Cm %s Ar ", c[i]->name);
        cs_mdoc_text(out, c[i]->usage);
        cs_buf_addf(out, "\n%c", toupper((unsigned char)c[i]->help[0]));
        cs_mdoc_text(out, c[i]->help + 1);
        cs_buf_adds(out, ".\n");
        if (c[i]->aliases)
            cs_buf_addf(out, "Also:\n.Cm %s .\n", c[i]->aliases);
        if (c[i]->n_options)
            cs_buf_adds(out, ".Bl -tag -width Ds\n");
        for (size_t o = 0; o < c[i]->n_options; o++)
            cs_manual_option(out, &c[i]->options[o]);
        if (c[i]->n_options)
            cs_buf_adds(out, ".El\n");
    }
    cs_buf_adds(out, ".It Em every command\n.Bl -tag -width Ds\n");
    size_t n_common = cs_command_options(NULL, options, MAX_OPTIONS);
    for (size_t o = 0; o < n_common; o++)
        cs_manual_option(out, &options[o]);
    cs_buf_adds(out, ".El\n");
}
