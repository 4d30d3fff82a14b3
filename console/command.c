/* See command.h. */
#include "console/command.h"

#include <stdio.h>
#include <string.h>

#include "console/cli/manual.h"
#include "core/base/near.h"

#define AT(field) offsetof(struct cs_cmd_values, field)

const char *const cs_cmd_dtypes[] = {"float32", "bfloat16", NULL};
static const char *const glyph_sets[] = {"utf8", "ascii", NULL}; /* as enum cs_glyph_set */

/* clang-format off */
static const struct cs_option common[] = {
    {"json", 0, CS_OPT_FLAG, 0, 0, NULL, NULL, NULL, "print one JSON document", AT(json)},
    {"socket", 'S', CS_OPT_STRING, 0, 0, NULL, "PATH", NULL, "the daemon's socket; default: your own daemon, started when needed", AT(socket)},
};
static const struct cs_option run_options[] = {
    {"plain", 0, CS_OPT_FLAG, 0, 0, NULL, NULL, NULL, "lines instead of the console", AT(plain)},
    {"detach", 'd', CS_OPT_FLAG, 0, 0, NULL, NULL, NULL, "submit and return", AT(detach)},
    {"replan", 0, CS_OPT_FLAG, 0, 0, NULL, NULL, NULL, "another plan than previewed is fine", AT(replan)},
    {"export", 'o', CS_OPT_STRING, 0, 0, NULL, "DIR", NULL, "write the trained model to DIR at the end", AT(export_dir)},
};
static const struct cs_option plan_options[] = {
    {"top", 'n', CS_OPT_INT, 1, 1000, "10", "N", NULL, "of a sweep or search, the best N plans", AT(limit)},
    {"explain", 0, CS_OPT_FLAG, 0, 0, NULL, NULL, NULL, "why this plan, what binds, what the next ones lose", AT(explain)},
    {"compare", 0, CS_OPT_FLAG, 0, 0, NULL, NULL, NULL, "beside it what other planners choose, at true costs", AT(compare)},
    {"devices", 'D', CS_OPT_STRING, 0, 0, NULL, "CLASS:N", NULL, "what cs.cluster \"here\" is, such as h100-80g:4 or cpu:8; default: the GPUs of this machine, else 8 CPU ranks", AT(devices)},
    {"view", 'v', CS_OPT_FLAG, 0, 0, NULL, NULL, NULL, "look at the plan in the console's Plan view; nothing is submitted", AT(screen)},
};
static const struct cs_option profile_options[] = {
    {"output", 'o', CS_OPT_STRING, 0, 0, NULL, "FILE", NULL, "write the profile to FILE, for cs.plan and cs.search", AT(output)},
    {"devices", 'D', CS_OPT_STRING, 0, 0, NULL, "CLASS:N", NULL, "what cs.cluster \"here\" is, such as h100-80g:4 or cpu:8; default: the GPUs of this machine, else 8 CPU ranks", AT(devices)},
};
static const struct cs_option submit_options[] = {
    {"replan", 0, CS_OPT_FLAG, 0, 0, NULL, NULL, NULL, "another plan than previewed is fine", AT(replan)},
};
static const struct cs_option jobs_options[] = {
    {"limit", 'n', CS_OPT_INT, 1, 10000, "1000", NULL, NULL, "at most so many", AT(limit)},
};
static const struct cs_option metrics_options[] = {
    {"after", 0, CS_OPT_INT, -1, INT64_C(9007199254740991), "-1", "STEP", NULL, "rows after this step", AT(after)},
    {"every", 0, CS_OPT_INT, 1, INT64_C(9007199254740991), "1", NULL, NULL, "one row in so many steps", AT(every)},
    {"limit", 'n', CS_OPT_INT, 1, 100000, "10000", NULL, NULL, "at most so many rows", AT(limit)},
};
static const struct cs_option logs_options[] = {
    {"rank", 'r', CS_OPT_STRING, 0, 0, "0", "N", NULL, "a rank's number, feeder or runner", AT(rank)},
    {"lines", 'n', CS_OPT_INT, 1, 10000, "100", NULL, NULL, "the last so many lines", AT(lines)},
    {"follow", 'f', CS_OPT_FLAG, 0, 0, NULL, NULL, NULL, "go on until the job is over", AT(follow)},
};
static const struct cs_option stop_options[] = {
    {"now", 0, CS_OPT_FLAG, 0, 0, NULL, NULL, NULL, "without a checkpoint", AT(now)},
};
static const struct cs_option export_options[] = {
    {"dtype", 0, CS_OPT_ENUM, 0, 0, "float32", NULL, cs_cmd_dtypes, "type of the written weights", AT(dtype)},
};
static const struct cs_option init_options[] = {
    {"seed", 0, CS_OPT_INT, 0, INT64_MAX, "0", NULL, NULL, "decides the weights", AT(seed)},
    {"text", 0, CS_OPT_STRING, 0, 0, NULL, "FILE", NULL, "build a tokenizer from this text (language models)", AT(text)},
    {"vocab", 0, CS_OPT_INT, 260, 1 << 20, "4096", NULL, NULL, "largest vocabulary of that tokenizer", AT(vocab)},
};
static const struct cs_option shapes_options[] = {
    {"train", 0, CS_OPT_INT, 1, 1000000, "4096", NULL, NULL, "training pictures", AT(train)},
    {"test", 0, CS_OPT_INT, 1, 1000000, "512", NULL, NULL, "held-out pictures", AT(test)},
    {"seed", 0, CS_OPT_INT, 0, INT64_MAX, "1", NULL, NULL, "decides everything", AT(seed)},
};
static const struct cs_option inspect_options[] = {
    {"sample", 'n', CS_OPT_INT, 0, INT64_MAX, "0", "N", NULL, "place in the data set", AT(sample)},
};
static const struct cs_option lua_options[] = {
    {"execute", 'e', CS_OPT_STRING, 0, 0, NULL, "CODE", NULL, "run this text", AT(code)},
    {"meta", 0, CS_OPT_FLAG, 0, 0, NULL, NULL, NULL, "print the types for editors", AT(meta)},
    {"manual", 0, CS_OPT_FLAG, 0, 0, NULL, NULL, NULL, "print the reference part of cornstarch-lua(7)", AT(manual)},
    {"devices", 0, CS_OPT_STRING, 0, 0, NULL, "CLASS:N", NULL, "what cs.cluster \"here\" is, such as h100-80g:4 or cpu:8; default: the GPUs of this machine, else 8 CPU ranks", AT(devices)},
    {"memory", 0, CS_OPT_SIZE, 1 << 20, INT64_C(1) << 40, "64MiB", NULL, NULL, "memory a script may use", AT(memory)},
    {"instructions", 0, CS_OPT_INT, 1000, INT64_MAX, "50000000", NULL, NULL, "instructions a script may use", AT(instructions)},
};
static const struct cs_option dump_options[] = {
    {"replay", 0, CS_OPT_STRING, 0, 0, NULL, "TRACE", NULL, "the trace of a job, in its directory", AT(replay)},
    {"script", 0, CS_OPT_STRING, 0, 0, NULL, "SCRIPT", NULL, "instead of a trace: the plan of a script", AT(script)},
    {"view", 0, CS_OPT_STRING, 0, 0, NULL, "NAME", NULL, "jobs, model, pipeline, gpus, logs or plan; default: pipeline, of a script plan", AT(view)},
    {"devices", 0, CS_OPT_STRING, 0, 0, NULL, "CLASS:N", NULL, "what cs.cluster \"here\" is, such as h100-80g:4 or cpu:8; default: the GPUs of this machine, else 8 CPU ranks", AT(devices)},
    {"size", 0, CS_OPT_STRING, 0, 0, "100x30", "COLSxROWS", NULL, "size of the screen", AT(size)},
    {"glyphs", 0, CS_OPT_ENUM, 0, 0, "utf8", NULL, glyph_sets, "characters to draw with", AT(glyphs)},
    {"keys", 0, CS_OPT_STRING, 0, 0, NULL, "KEYS", NULL, "keys that are typed before the screen is taken", AT(keys)},
};
static const struct cs_option help_options[] = {
    {"list", 0, CS_OPT_FLAG, 0, 0, NULL, NULL, NULL, "every command and option, tab-separated", AT(list)},
    {"mdoc", 0, CS_OPT_FLAG, 0, 0, NULL, NULL, NULL, "the same for the manual page", AT(mdoc)},
    {"part", 0, CS_OPT_ENUM, 0, 0, "commands", NULL, cs_manual_parts, "with --mdoc, another part of the manual pages", AT(part)},
    {"completion", 0, CS_OPT_STRING, 0, 0, NULL, "SHELL", NULL, "script for bash or zsh", AT(completion)},
};

#define OPTIONS(table) table, CS_ARRAY_LEN(table)
#define NO_OPTIONS     NULL, 0
#define VIEWER CS_ROLE_VIEWER
#define OWNER  CS_ROLE_OWNER
#define ADMIN  CS_ROLE_ADMIN
#define FREE   CS_CONFIRM_NONE
#define ASK    CS_CONFIRM_ASK
#define TYPE   CS_CONFIRM_TYPE_ID

static const struct cs_command commands[] = {
    {"run", 0, OWNER, FREE, "[options] SCRIPT", "submit a job and watch it to the end", cs_cmd_run, 1, 1, OPTIONS(run_options)},
    {"submit", 's', OWNER, FREE, "[options] SCRIPT", "submit a job and return", cs_cmd_submit, 1, 1, OPTIONS(submit_options)},
    {"plan", 'p', VIEWER, FREE, "[options] SCRIPT", "the plan of a script: stages, predicted step, bubbles, reasons", cs_cmd_plan_view, 1, 1, OPTIONS(plan_options)},
    {"profile", 0, VIEWER, FREE, "[options] SCRIPT", "measure the layers of a script's model on this machine", cs_cmd_profile, 1, 1, OPTIONS(profile_options)},
    {"jobs", '1', VIEWER, FREE, "[options]", "all jobs, newest first", cs_cmd_jobs, 0, 0, OPTIONS(jobs_options)},
    {"show", 0, VIEWER, FREE, "[options] ID", "everything about one job", cs_cmd_show, 1, 1, NO_OPTIONS},
    {"metrics", 0, VIEWER, FREE, "[options] ID", "the step series of a job", cs_cmd_metrics, 1, 1, OPTIONS(metrics_options)},
    {"logs", 'l', VIEWER, FREE, "[options] ID", "log of a rank, the feeder or the runner", cs_cmd_logs, 1, 1, OPTIONS(logs_options)},
    {"pause", 'P', OWNER, ASK, "[options] ID", "finish the step, write a checkpoint, release the ranks", cs_cmd_pause, 1, 1, NO_OPTIONS},
    {"resume", 'R', OWNER, ASK, "[options] ID", "go on from the newest checkpoint", cs_cmd_resume, 1, 1, NO_OPTIONS},
    {"stop", 'X', OWNER, TYPE, "[options] ID", "end a job after a checkpoint", cs_cmd_stop, 1, 1, OPTIONS(stop_options)},
    {"checkpoint", 'C', OWNER, ASK, "[options] ID", "write a checkpoint after this step", cs_cmd_checkpoint, 1, 1, NO_OPTIONS},
    {"wait", 0, VIEWER, FREE, "[options] ID", "wait until a job has ended or paused; the exit code says how", cs_cmd_wait, 1, 1, NO_OPTIONS},
    {"nodes", 0, VIEWER, FREE, "[options]", "the daemon's node and its devices", cs_cmd_node, 0, 0, NO_OPTIONS},
    {"gpus", '6', VIEWER, FREE, "[options]", "the node's GPUs: load, memory, power, temperature, clocks, who uses them", cs_cmd_gpus, 0, 0, NO_OPTIONS},
    {"export", 'E', OWNER, FREE, "[options] CHECKPOINT|ID DIR", "write a trained model as directories that transformers loads", cs_cmd_export, 2, 2, OPTIONS(export_options)},
    {"model init", 0, OWNER, FREE, "[options] CONFIG DIR", "make a model directory with fresh weights", cs_cmd_model_init, 2, 2, OPTIONS(init_options)},
    {"model show", 0, VIEWER, FREE, "[options] DIR", "family, sizes and tensors of a model directory", cs_cmd_model_show, 1, 1, NO_OPTIONS},
    {"model check", 0, VIEWER, FREE, "[options] DIR", "every tensor is there with its shape", cs_cmd_model_check, 1, 1, NO_OPTIONS},
    {"data make shapes", 0, OWNER, FREE, "[options] DIR", "write the sample data set of coloured shapes", cs_cmd_data_make_shapes, 1, 1, OPTIONS(shapes_options)},
    {"data check", 0, VIEWER, FREE, "[options] SCRIPT", "decode and count every sample of a script's data", cs_cmd_data_check, 1, 1, NO_OPTIONS},
    {"inspect", 0, VIEWER, FREE, "[options] SCRIPT", "one sample as the model sees it, trained tokens marked", cs_cmd_inspect, 1, 1, OPTIONS(inspect_options)},
    {"lua", 0, VIEWER, FREE, "[options] [FILE]", "evaluate a script or a text", cs_cmd_lua, 0, 1, OPTIONS(lua_options)},
    {"dump", 0, VIEWER, FREE, "[options] --replay TRACE", "a screen as text, from a recorded trace or of a script; --view gpus alone: of the daemon's node", cs_cmd_dump, 0, 0, OPTIONS(dump_options)},
    {"doctor", 0, VIEWER, FREE, "[options]", "check terminal, daemon, disk and versions", cs_cmd_doctor, 0, 0, NO_OPTIONS},
    {"daemon start", 0, ADMIN, FREE, "[options]", "start your own daemon", cs_cmd_daemon_start, 0, 0, NO_OPTIONS},
    {"daemon stop", 0, ADMIN, ASK, "[options]", "end the daemon; running jobs go on", cs_cmd_daemon_stop, 0, 0, NO_OPTIONS},
    {"daemon drain", 0, ADMIN, ASK, "[options]", "take no more jobs, pause those that run", cs_cmd_daemon_drain, 0, 0, NO_OPTIONS},
    {"daemon status", 0, VIEWER, FREE, "[options]", "is it running, since when, where", cs_cmd_daemon_status, 0, 0, NO_OPTIONS},
    {"proxy", 0, ADMIN, FREE, "[options]", "the daemon's socket on standard input and output, for ssh", cs_cmd_proxy, 0, 0, NO_OPTIONS},
    {"raw", 0, ADMIN, FREE, "[options]", "send requests, one JSON object per line, print the answers", cs_cmd_raw, 0, 0, NO_OPTIONS},
    {"version", 0, VIEWER, FREE, "[options]", "versions of program and protocol", cs_cmd_version, 0, 0, NO_OPTIONS},
    {"help", '?', VIEWER, FREE, "[options] [COMMAND ...]", "this list, or the options of a command", cs_cmd_help, 0, -1, OPTIONS(help_options)},
};

/* clang-format on */

const struct cs_command *cs_commands(int *n)
{
    *n = CS_ARRAY_LEN(commands);
    return commands;
}

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

/* "model" alone, or "model shwo": the commands of a group */
static enum cs_status group_error(int n, char *const *argv, struct cs_err *err)
{
    struct cs_buf list = {0};
    size_t len = strlen(argv[0]);
    for (size_t i = 0; i < CS_ARRAY_LEN(commands); i++)
        if (strncmp(commands[i].name, argv[0], len) == 0 && commands[i].name[len] == ' ')
            cs_buf_addf(&list, "%s%s", list.len ? ", " : "", commands[i].name);
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

bool cs_command_group_help(const char *group, struct cs_buf *out)
{
    size_t len = strlen(group), before = out->len;
    for (size_t i = 0; i < CS_ARRAY_LEN(commands); i++)
        if (strncmp(commands[i].name, group, len) == 0 && commands[i].name[len] == ' ')
            cs_buf_addf(out, "  %-17s %s\n", commands[i].name, commands[i].help);
    return out->len > before;
}

enum cs_status cs_command_find(int n, char *const *argv, const struct cs_command **out, int *words,
                               struct cs_err *err)
{
    const char *names[CS_ARRAY_LEN(commands)];
    *out = NULL;
    *words = 0;
    for (size_t i = 0; i < CS_ARRAY_LEN(commands); i++) {
        int m = match(commands[i].name, n, argv);
        names[i] = commands[i].name;
        if (m > *words) {
            *words = m;
            *out = &commands[i];
        }
    }
    if (*out)
        return CS_OK;
    CS_TRY(group_error(n, argv, err));
    const char *near = cs_near(argv[0], names, CS_ARRAY_LEN(commands));
    if (near)
        return cs_fail(err, CS_USAGE, "there is no command '%s'; did you mean '%s'?", argv[0],
                       near);
    return cs_fail(err, CS_USAGE, "there is no command '%s'; 'cornstarch-console help' lists them",
                   argv[0]);
}

size_t cs_command_options(const struct cs_command *command, struct cs_option *out, size_t cap)
{
    size_t n = 0;
    for (size_t i = 0; i < command->n_options && n < cap; i++)
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
