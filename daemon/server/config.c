/* See config.h. */
#include "server/config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/io.h"
#include "core/base/log.h"
#include "core/base/options.h"

static const char *const levels[] = {"error", "warn", "info", "debug", NULL};

#define AT(field) offsetof(struct cs_config, field)
static const struct cs_option options[] = {
    {"config", 'f', CS_OPT_STRING, 0, 0, NULL, "FILE", NULL, "read options from FILE", AT(config_file)},
    {"check", 't', CS_OPT_FLAG, 0, 0, NULL, NULL, NULL, "check the configuration and exit", AT(check_only)},
    {"background", 'b', CS_OPT_FLAG, 0, 0, NULL, NULL, NULL, "detach from the terminal", AT(is_background)},
    {"state-dir", 0, CS_OPT_STRING, 0, 0, NULL, "DIR", NULL, "jobs and history live here", AT(state_dir)},
    {"runtime-dir", 0, CS_OPT_STRING, 0, 0, NULL, "DIR", NULL, "sockets live here", AT(runtime_dir)},
    {"log-file", 0, CS_OPT_STRING, 0, 0, NULL, "FILE", NULL, "log to FILE instead of standard error", AT(log_file)},
    {"log-level", 0, CS_OPT_ENUM, 0, 0, "info", NULL, levels, "least level that is logged", AT(log_level)},
    {"cpu-devices", 0, CS_OPT_INT, 1, 1024, "8", NULL, NULL, "ranks this node offers on CPU cores", AT(cpu_devices)},
    {"max-connections", 0, CS_OPT_INT, 1, 10000, "256", NULL, NULL, "consoles at the same time", AT(max_connections)},
    {"hello-timeout", 0, CS_OPT_DURATION, 0, 0, "5s", NULL, NULL, "time a peer has for its hello", AT(hello_timeout_ns)},
    {"queue-entries", 0, CS_OPT_INT, 16, 65536, "1024", NULL, NULL, "events a slow console may be behind", AT(queue_entries)},
};

static const struct cs_cli program = {
    .name = "cornstarchd",
    .version = CORNSTARCH_VERSION,
    .summary = "keeps the training jobs of a node: starts runners, answers consoles, stores history",
    .usage = "[options]",
    .options = options,
    .n_options = CS_ARRAY_LEN(options),
};

/* "key = value" lines (# comments; the keys are the long options) become arguments before those of the
 * command line, so that one parser serves both and the command line wins. */
static enum cs_status add_file_args(const char *path, struct cs_buf *text, char **args, int *n,
                                    int cap, struct cs_err *err)
{
    int number = 0;
    CS_TRY(cs_read_file(path, 1 << 20, text, err));
    for (char *line = text->data, *next; line && *line; line = next) {
        next = strchr(line, '\n');
        if (next)
            *next++ = '\0';
        number++;
        line += strspn(line, " \t");
        if (*line == '#' || *line == '\0')
            continue;
        size_t key = strcspn(line, " \t=");
        const char *value = line + key + strspn(line + key, " \t");
        if (*value++ != '=')
            return cs_fail(err, CS_INVALID, "%s:%d: expected key = value", path, number);
        value += strspn(value, " \t");
        if (*n == cap)
            return cs_fail(err, CS_LIMIT, "%s: more than %d options", path, cap);
        char *arg = malloc(key + strlen(value) + 4); /* lives as long as the process: options point in */
        CS_ASSERT(arg != NULL);
        sprintf(arg, "--%.*s=%s", (int)key, line, value);
        args[(*n)++] = arg;
    }
    return CS_OK;
}

static enum cs_status parse(int argc, char **argv, struct cs_config *out, struct cs_args *args,
                            struct cs_err *err)
{
    enum { FILE_OPTIONS = 256 };
    struct cs_buf text = {0};
    char **all = calloc((size_t)argc + FILE_OPTIONS + 1, sizeof(*all));
    if (!all)
        return cs_fail(err, CS_NO_MEMORY, "no memory for the arguments");
    memcpy(all, argv, (size_t)argc * sizeof(*all)); /* parsing reorders */
    enum cs_status st = cs_options_parse(&program, argc, all, out, args, err);
    if (st == CS_OK && out->config_file && !args->wants_help && !args->wants_version) {
        int n = 1;
        const char *path = out->config_file;
        st = add_file_args(path, &text, all, &n, FILE_OPTIONS, err);
        if (st == CS_OK) {
            memcpy(all + n, argv + 1, (size_t)(argc - 1) * sizeof(*all));
            st = cs_options_parse(&program, n + argc - 1, all, out, args, err);
        }
        if (st != CS_OK)
            st = cs_wrap(err, st, "%s", path);
    }
    cs_buf_free(&text);
    free(all);
    return st;
}

enum cs_status cs_config_read(int argc, char **argv, struct cs_config *out, bool *wants_exit,
                              struct cs_err *err)
{
    struct cs_args args = {0};
    struct cs_buf text = {0};
    *out = (struct cs_config){0};
    *wants_exit = false;
    enum cs_status st = parse(argc, argv, out, &args, err);
    if (st == CS_OK && (args.wants_help || args.wants_version)) {
        if (args.wants_help)
            cs_options_help(&program, 80, &text);
        else
            cs_options_version(&program, &text);
        fputs(cs_buf_str(&text), stdout);
        *wants_exit = true;
    }
    cs_buf_free(&text);
    return st;
}
