/* Reads the options of cornstarchd from the command line and the configuration file. */
#include "server/state/config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/say.h"
#include "core/base/str.h"
#include "core/base/system/io.h"
#include "core/base/system/log.h"

static const char *const levels[] = {"error", "warn", "info", "debug", NULL};

#define AT(field) offsetof(struct cs_config, field)
static const struct cs_option options[] = {
    {"config",          'f', CS_OPT_STRING,   0,  0,     NULL,        "FILE",    NULL,   "read options from FILE",
     AT(config_file)                                                                                                                               },
    {"check",           't', CS_OPT_FLAG,     0,  0,     NULL,        NULL,      NULL,   "check the configuration and exit",
     AT(check_only)                                                                                                                                },
    {"background",      'b', CS_OPT_FLAG,     0,  0,     NULL,        NULL,      NULL,   "detach from the terminal",
     AT(is_background)                                                                                                                             },
    {"rebuild",         0,   CS_OPT_FLAG,     0,  0,     NULL,        NULL,      NULL,
     "make the history again from the job directories and exit",                                                                AT(is_rebuild)     },
    {"state-dir",       0,   CS_OPT_STRING,   0,  0,     NULL,        "DIR",     NULL,   "jobs and history live here",
     AT(state_dir)                                                                                                                                 },
    {"runtime-dir",     0,   CS_OPT_STRING,   0,  0,     NULL,        "DIR",     NULL,   "sockets live here",
     AT(runtime_dir)                                                                                                                               },
    {"log-file",        0,   CS_OPT_STRING,   0,  0,     NULL,        "FILE",    NULL,
     "log to FILE instead of standard error",                                                                                   AT(log_file)       },
    {"log-level",       0,   CS_OPT_ENUM,     0,  0,     "info",      NULL,      levels, "least level that is logged",
     AT(log_level)                                                                                                                                 },
    {"cpu-devices",     0,   CS_OPT_INT,      1,  1024,  "8",         NULL,      NULL,   "ranks this node offers on CPU cores",
     AT(cpu_devices)                                                                                                                               },
    {"devices",         0,   CS_OPT_STRING,   0,  0,     "auto",      "WHAT",    NULL,
     "what this node offers: auto, cpu:N or cuda:N; auto: its GPUs where it has some",                                          AT(devices)        },
    {"max-connections", 0,   CS_OPT_INT,      1,  10000, "256",       NULL,      NULL,   "consoles at the same time",
     AT(max_connections)                                                                                                                           },
    {"hello-timeout",   0,   CS_OPT_DURATION, 0,  0,     "5s",        NULL,      NULL,   "time a peer has for its hello",
     AT(hello_timeout_ns)                                                                                                                          },
    {"queue-entries",   0,   CS_OPT_INT,      16, 65536, "1024",      NULL,      NULL,
     "events a slow console may be behind",                                                                                     AT(queue_entries)  },
    {"idle-exit",       0,   CS_OPT_DURATION, 0,  0,     "0s",        NULL,      NULL,
     "end when no console is connected and no job lives for so long; 0s: never",                                                AT(idle_exit_ns)   },
    {"metrics-port",    0,   CS_OPT_INT,      0,  65535, "0",         NULL,      NULL,
     "serve figures of jobs and devices to Prometheus, http://127.0.0.1:PORT/metrics; 0: do not",                               AT(metrics_port)   },
    {"metrics-address", 0,   CS_OPT_STRING,   0,  0,     "127.0.0.1", "ADDRESS", NULL,
     "where that listens; on another than the loopback everybody who reaches it reads names and "
     "figures of all jobs",                                                                                                     AT(metrics_address)},
};

/* of these, not in a file, and which a reload takes over */
static const char *const command_line_only[] = {"config", "check", "background", "rebuild"};

static const struct {
    const char *name;
    size_t offset;
} reloadable[] = {
    {"cpu-devices",     AT(cpu_devices)     },
    {"max-connections", AT(max_connections) },
    {"hello-timeout",   AT(hello_timeout_ns)},
    {"queue-entries",   AT(queue_entries)   },
    {"idle-exit",       AT(idle_exit_ns)    },
};

bool cs_config_is_reloadable(const char *name)
{
    for (size_t i = 0; i < CS_ARRAY_LEN(reloadable); i++)
        if (strcmp(reloadable[i].name, name) == 0)
            return true;
    return false;
}

bool cs_config_is_for_file(const char *name)
{
    for (size_t i = 0; i < CS_ARRAY_LEN(command_line_only); i++)
        if (strcmp(command_line_only[i], name) == 0)
            return false;
    return true;
}

void cs_config_take_reloadable(struct cs_config *config, const struct cs_config *fresh)
{
    for (size_t i = 0; i < CS_ARRAY_LEN(reloadable); i++)
        memcpy((char *)config + reloadable[i].offset, (const char *)fresh + reloadable[i].offset,
               sizeof(int64_t));
}

static const struct cs_cli program = {
    .name = "cornstarchd",
    .version = CORNSTARCH_VERSION,
    .summary =
        "keeps the training jobs of a node: starts runners, answers consoles, stores history",
    .usage = "[options]",
    .options = options,
    .n_options = CS_ARRAY_LEN(options),
};

const struct cs_cli *cs_config_cli(void)
{
    return &program;
}

static char *add_arg(struct cs_config *out, const char *key, size_t n_key, const char *value)
{
    struct cs_buf arg = {0};
    cs_buf_addf(&arg, "--%.*s=%s", (int)n_key, key, value);
    char **more = realloc(out->file_args, (size_t)(out->n_file_args + 1) * sizeof(char *));
    CS_ASSERT(more != NULL);
    out->file_args = more;
    return out->file_args[out->n_file_args++] = arg.data;
}

static enum cs_status read_line(struct cs_config *out, const char *path, int number, char *line,
                                struct cs_err *err)
{
    char key[64];
    line += strspn(line, " \t");
    size_t n = strlen(line);
    while (n > 0 && strchr(" \t\r", line[n - 1]))
        line[--n] = '\0';
    if (*line == '#' || *line == '\0')
        return CS_OK;
    size_t n_key = strcspn(line, " \t=");
    const char *value = line + n_key + strspn(line + n_key, " \t");
    if (*value++ != '=' || n_key == 0 || n_key >= sizeof(key))
        return cs_fail(err, CS_INVALID, "%s:%d: expected key = value", path, number);
    snprintf(key, sizeof(key), "%.*s", (int)n_key, line);
    if (!cs_config_is_for_file(key))
        return cs_fail(err, CS_INVALID, "%s:%d: %s belongs on the command line", path, number, key);
    value += strspn(value, " \t");
    struct cs_config probe; /* checked here, where the line is known */
    enum cs_status status = cs_options_set(&program, key, value, &probe, err);
    if (status != CS_OK)
        return cs_wrap(err, status, "%s:%d", path, number);
    add_arg(out, line, n_key, value);
    return CS_OK;
}

/* "key = value" lines (# comments; the keys are the long options) become arguments before those of
 * the command line, so that one parser serves both and the command line wins. */
static enum cs_status read_config_file(struct cs_config *out, const char *path, struct cs_err *err)
{
    struct cs_buf text = {0};
    int number = 0;
    enum cs_status status = cs_read_file(path, 1 << 20, &text, err);
    for (char *line = text.data, *next; status == CS_OK && line && *line; line = next) {
        char *newline = strchr(line, '\n');
        next = newline ? newline + 1 : line + strlen(line);
        if (newline)
            *newline = '\0';
        status = read_line(out, path, ++number, line, err);
    }
    cs_buf_free(&text);
    return status;
}

/* the user's file when there is one; "" otherwise */
static void default_file(char path[CS_PATH_CAP])
{
    const char *base = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
    enum cs_status status = CS_NOT_FOUND;
    if (base && base[0] == '/')
        status = cs_path(path, NULL, "%s/cornstarch/cornstarch.conf", base);
    else if (home && home[0] == '/')
        status = cs_path(path, NULL, "%s/.config/cornstarch/cornstarch.conf", home);
    if (status != CS_OK || access(path, R_OK) == -1)
        path[0] = '\0';
}

static enum cs_status parse(int argc, char **argv, struct cs_config *out, struct cs_args *args,
                            struct cs_err *err)
{
    char path[CS_PATH_CAP];
    char **all = malloc(((size_t)argc + 1) * sizeof *all); /* parsing reorders */
    CS_ASSERT(all != NULL);
    memcpy(all, argv, (size_t)argc * sizeof *all);
    enum cs_status status = cs_options_parse(&program, argc, all, out, args, err);
    if (status != CS_OK || args->wants_help || args->wants_version)
        goto out;
    if (out->config_file)
        status = cs_path(path, err, "%s", out->config_file);
    else
        default_file(path);
    if (status == CS_OK && path[0])
        status = read_config_file(out, path, err);
    if (status == CS_OK && out->n_file_args) {
        size_t n = (size_t)out->n_file_args;
        char **more = realloc(all, ((size_t)argc + n + 1) * sizeof *all);
        CS_ASSERT(more != NULL);
        all = more;
        all[0] = argv[0];
        memcpy(all + 1, out->file_args, n * sizeof *all);
        memcpy(all + 1 + n, argv + 1, (size_t)(argc - 1) * sizeof *all);
        status = cs_options_parse(&program, argc + (int)n, all, out, args, err);
    }
out:
    free(all);
    return status;
}

enum cs_status cs_offer_read(const char *text, struct cs_offer *out, struct cs_err *err)
{
    static const char *const names[] = {
        [CS_OFFER_AUTO] = "auto", [CS_OFFER_CPU] = "cpu", [CS_OFFER_CUDA] = "cuda"};
    size_t n = strcspn(text, ":");
    for (int kind = 0; kind < (int)CS_ARRAY_LEN(names); kind++) {
        *out = (struct cs_offer){.kind = (enum cs_offer_kind)kind};
        if (strlen(names[kind]) != n || memcmp(names[kind], text, n) != 0)
            continue;
        if (text[n] == '\0')
            return CS_OK;
        if (kind != CS_OFFER_AUTO && cs_str_to_i64(text + n + 1, &out->n) && out->n >= 1 &&
            out->n <= 1024)
            return CS_OK;
    }
    return cs_fail(err, CS_USAGE, "devices is auto, cpu:N or cuda:N (1..1024), not '%.100s'", text);
}

void cs_config_free(struct cs_config *config)
{
    for (int i = 0; i < config->n_file_args; i++)
        free(config->file_args[i]);
    free(config->file_args);
    config->file_args = NULL;
    config->n_file_args = 0;
}

enum cs_status cs_config_read(int argc, char **argv, struct cs_config *out, bool *wants_exit,
                              struct cs_err *err)
{
    struct cs_args args = {0};
    struct cs_buf text = {0};
    *out = (struct cs_config){0};
    *wants_exit = false;
    enum cs_status status = parse(argc, argv, out, &args, err);
    struct cs_offer offer;
    if (status == CS_OK && out->devices)
        status = cs_offer_read(out->devices, &offer, err);
    if (status == CS_OK && out->devices && offer.kind == CS_OFFER_CPU && offer.n > 0)
        out->cpu_devices = offer.n;
    if (status != CS_OK)
        cs_config_free(out);
    if (status == CS_OK && (args.wants_help || args.wants_version)) {
        if (args.wants_help)
            cs_options_help(&program, 80, &text);
        else
            cs_options_version(&program, &text);
        cs_say_text(stdout, &text);
        *wants_exit = true;
    }
    cs_buf_free(&text);
    return status;
}
