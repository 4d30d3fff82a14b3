/* Commands by name, and their options with those that all have. */
#include "console/cli/command/command.h"

#include <stdio.h>
#include <string.h>

#include "core/base/near.h"

enum { MOST_COMMANDS = 128 };

#define AT(field) offsetof(struct cs_cmd_common, field)
/* clang-format off */
static const struct cs_option common[] = {
    {"json", 0, CS_OPT_FLAG, 0, 0, NULL, NULL, NULL, "print one JSON document", AT(json)},
    {"socket", 'S', CS_OPT_STRING, 0, 0, NULL, "PATH", NULL, "the daemon's socket; default: your own daemon, started when needed", AT(socket)},
};

/* clang-format on */

/* words of name when argv starts with them, else 0 */
static int match(const char *name, int n, char *const *argv)
{
    int words = 0;
    for (const char *p = name; *p;) {
        size_t len = strcspn(p, " ");
        if (words >= n || strlen(argv[words]) != len || memcmp(argv[words], p, len) != 0)
            return 0;
        words++;
        p += len + (p[len] == ' ');
    }
    return words;
}

/* one word of "ls ps" */
static bool is_alias(const char *aliases, const char *word)
{
    const size_t n = strlen(word);
    for (const char *at = aliases; at && *at; at += strcspn(at, " "), at += *at == ' ')
        if (strcspn(at, " ") == n && memcmp(at, word, n) == 0)
            return true;
    return false;
}

/* "model" alone, or "model shwo": the commands of a group */
static enum cs_status group_error(const struct cs_commands *all, int n, char *const *argv,
                                  struct cs_err *err)
{
    struct cs_buf list = {0};
    size_t len = strlen(argv[0]);
    for (int i = 0; i < all->n; i++)
        if (strncmp(all->row[i]->name, argv[0], len) == 0 && all->row[i]->name[len] == ' ')
            cs_buf_addf(&list, "%s%s", list.len ? ", " : "", all->row[i]->name);
    if (list.len == 0)
        return CS_OK;
    if (n > 1)
        cs_fail(err, CS_USAGE, "there is no command '%s %s'; there are: %s", argv[0], argv[1],
                cs_buf_str(&list));
    else
        cs_fail(err, CS_USAGE, "'%s' is a group of commands: %s", argv[0], cs_buf_str(&list));
    cs_buf_free(&list);
    return CS_USAGE;
}

bool cs_command_group_help(const struct cs_commands *all, const char *group, struct cs_buf *out)
{
    size_t len = strlen(group), before = out->len;
    for (int i = 0; i < all->n; i++)
        if (strncmp(all->row[i]->name, group, len) == 0 && all->row[i]->name[len] == ' ')
            cs_buf_addf(out, "  %-17s %s\n", all->row[i]->name, all->row[i]->help);
    return out->len > before;
}

enum cs_status cs_command_find(const struct cs_commands *all, int n, char *const *argv,
                               const struct cs_command **out, int *words, struct cs_err *err)
{
    const char *names[MOST_COMMANDS];
    CS_ASSERT(all->n <= MOST_COMMANDS);
    *out = NULL;
    *words = 0;
    for (int i = 0; i < all->n; i++) {
        int m = match(all->row[i]->name, n, argv);
        if (m == 0 && n > 0)
            m = is_alias(all->row[i]->aliases, argv[0]);
        names[i] = all->row[i]->name;
        if (m > *words) {
            *words = m;
            *out = all->row[i];
        }
    }
    if (*out)
        return CS_OK;
    CS_TRY(group_error(all, n, argv, err));
    const char *near = cs_near(argv[0], names, (size_t)all->n);
    if (near)
        return cs_fail(err, CS_USAGE, "there is no command '%s'; did you mean '%s'?", argv[0],
                       near);
    return cs_fail(err, CS_USAGE, "there is no command '%s'; 'cornstarch-console help' lists them",
                   argv[0]);
}

size_t cs_command_options(const struct cs_command *command, struct cs_option *out, size_t cap)
{
    size_t n = 0;
    for (size_t i = 0; command && i < command->n_options && n < cap; i++)
        out[n++] = command->options[i];
    for (size_t i = 0; i < CS_ARRAY_LEN(common) && n < cap; i++)
        out[n++] = common[i];
    return n;
}

struct cs_cli cs_command_cli(const struct cs_command *command, const struct cs_option *options,
                             size_t n_options, char *name, size_t name_cap)
{
    snprintf(name, name_cap, "cornstarch-console %s", command->name);
    return (struct cs_cli){.name = name,
                           .version = CORNSTARCH_VERSION,
                           .summary = command->help,
                           .usage = command->usage,
                           .options = options,
                           .n_options = n_options,
                           .min_args = command->min_args,
                           .max_args = command->max_args};
}
