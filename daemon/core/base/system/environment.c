/* The environment variables of Cornstarch: the table, and what fits. */
#include "core/base/system/environment.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/near.h"
#include "core/base/str.h"

#define PREFIX "CORNSTARCH_"

enum { MOST_SLIPS = 2 }; /* letters of a name that is another one's by mistake */

static bool is_absolute(const char *text, const char **why)
{
    *why = "an absolute path";
    return text[0] == '/';
}

static bool is_program(const char *text, const char **why)
{
    *why = "a program that can be run";
    struct stat st;
    return stat(text, &st) == 0 && S_ISREG(st.st_mode) && access(text, X_OK) == 0;
}

/* a plain name is looked for where libraries are */
static bool is_library(const char *text, const char **why)
{
    *why = "a library's file that can be read";
    return strchr(text, '/') == NULL || access(text, R_OK) == 0;
}

/* clang-format off */
static const struct cs_variable_row rows[CS_VAR_COUNT] = {
    [CS_VAR_ATTENTION_KERNELS] = {
        .name = PREFIX "ATTENTION_KERNELS",
        .pages = CS_VAR_OF_WORKER,
        .words = {{"mma", "those that every card since compute capability 8.0 can run"},
            {"portable", "those that run anywhere"},
            {"own", "those of the card where it has some"}},
        .help = "for comparisons, on GPUs: the attention kernels",
        .dflt = "own"},
    [CS_VAR_CHANNEL_COPIES] = {
        .name = PREFIX "CHANNEL_COPIES",
        .pages = CS_VAR_OF_WORKER,
        .words = {{"engines", "copy engines, where neither rank has more than six channels"},
            {"nccl", "NCCL, whose kernels hold two multiprocessors a message while it is waited for"}},
        .help = "for comparisons, on GPUs of one machine: what sends rows from stage to stage",
        .dflt = "engines"},
    [CS_VAR_CONTEXT_GROUPS] = {
        .name = PREFIX "CONTEXT_GROUPS",
        .pages = CS_VAR_OF_WORKER,
        .most = 1024,
        .help = "for comparisons, where ranks split the rows of a slot: in how many groups of heads keys and values "
            "travel; as many as divide the heads are taken",
        .dflt = "on GPUs two of 64 MiB or more each, so that those of one group travel while attention works on "
            "another, and three in the backward, the first and the last with as few heads as have 64 MiB; on CPU "
            "ranks 1"},
    [CS_VAR_CONTEXT_OWN_FIRST] = {
        .name = PREFIX "CONTEXT_OWN_FIRST",
        .pages = CS_VAR_OF_WORKER,
        .words = {{"1", "first those of the own rows, while others come, then those; both are merged by their "
            "log-sum-exp"},
            {"0", "all of them at once when they are there"}},
        .help = "for comparisons, where ranks split the rows of a slot and keys and values go between them: which "
            "keys are attended to",
        .dflt = "as the plan says, which takes what costs less"},
    [CS_VAR_FEEDER] = {
        .name = PREFIX "FEEDER",
        .pages = CS_VAR_OF_RUNNER,
        .fits = is_program,
        .help = "for tests: the program to start as the feeder of a job",
        .dflt = "cornstarch-feeder beside the runner"},
    [CS_VAR_GEMM_PLANS] = {
        .name = PREFIX "GEMM_PLANS",
        .pages = CS_VAR_OF_WORKER,
        .words = {{"measured", "those that were the fastest for products that a job uses again and again, measured between "
            "its first steps for about half a second each; steps gain up to one percent, but the same job run again may round differently"},
            {"first", "the library's first choice; always so where ranks share matrices"}},
        .help = "on GPUs: which kernels of the matrix library are taken",
        .dflt = "first"},
    [CS_VAR_GRAPHS] = {
        .name = PREFIX "GRAPHS",
        .pages = CS_VAR_OF_WORKER,
        .words = {{"auto", "where launching them one by one takes the host more than half as long as the device needs"},
            {"off", "never"},
            {"always", "wherever the same launches come again"}},
        .help = "for comparisons, on GPUs: whether the launches of a stage's forward or backward are recorded and "
            "replayed as one. Results are the same to the bit. Where it is set, a line at the end of the log says "
            "how much was replayed",
        .dflt = "auto"},
    [CS_VAR_NVML] = {
        .name = PREFIX "NVML",
        .pages = CS_VAR_OF_CONSOLE | CS_VAR_OF_DAEMON | CS_VAR_OF_RUNNER,
        .words = {{"none", "no library: a machine without GPUs"}},
        .fits = is_library,
        .help = "the library that tells of GPUs, their load and energy, by name or path; consoles ask it for plan, profile, "
            "dump and lua where no daemon runs that could tell",
        .dflt = "libnvidia-ml.so.1"},
    [CS_VAR_REPLICA_CTAS] = {
        .name = PREFIX "REPLICA_CTAS",
        .pages = CS_VAR_OF_WORKER,
        .most = 32,
        .help = "for comparisons, on GPUs: how many multiprocessors a sum or gather over replicas may take",
        .dflt = "32"},
    [CS_VAR_REPLICA_STREAM] = {
        .name = PREFIX "REPLICA_STREAM",
        .pages = CS_VAR_OF_WORKER,
        .words = {{"urgent", "before it"}, {"normal", "not before it"}},
        .help = "for comparisons, on GPUs: whether sums and gathers over replicas come before what computes beside them",
        .dflt = "normal"},
    [CS_VAR_RUNNER] = {
        .name = PREFIX "RUNNER",
        .pages = CS_VAR_OF_DAEMON,
        .fits = is_program,
        .help = "for tests: the program to start as the runner of a job",
        .dflt = "cornstarch-runner beside the daemon"},
    [CS_VAR_RUNTIME_DIR] = {
        .name = PREFIX "RUNTIME_DIR",
        .pages = CS_VAR_OF_CONSOLE | CS_VAR_OF_DAEMON,
        .fits = is_absolute,
        .help = "the runtime directory, where sockets are; also of runners. Options come before it",
        .dflt = "cornstarch in XDG_RUNTIME_DIR; without that, and where it cannot be made or written (a batch job "
            "without a session, a session that has ended), cornstarch-UID in TMPDIR or /tmp. A directory that is a "
            "link, belongs to somebody else or is open to others is refused"},
    [CS_VAR_STATE_DIR] = {
        .name = PREFIX "STATE_DIR",
        .pages = CS_VAR_OF_CONSOLE | CS_VAR_OF_DAEMON,
        .fits = is_absolute,
        .help = "the state directory, for jobs and history. Options come before it",
        .dflt = "cornstarch in XDG_STATE_HOME or ~/.local/state"},
    [CS_VAR_TENSOR_COPIES] = {
        .name = PREFIX "TENSOR_COPIES",
        .pages = CS_VAR_OF_WORKER,
        .words = {{"engines", "copy engines"}, {"nccl", "NCCL"}},
        .help = "for comparisons, where ranks share matrices, on GPUs of one machine: what sends rows between them",
        .dflt = "engines"},
    [CS_VAR_TENSOR_GROUPS] = {
        .name = PREFIX "TENSOR_GROUPS",
        .pages = CS_VAR_OF_WORKER,
        .most = 1024,
        .help = "for comparisons, where ranks share matrices, on GPUs: in how many groups of rows products are made "
            "and summed, of which at most 16 are taken",
        .dflt = "up to 8, of 8 MiB or more each, so that the sum of one runs beside the product of the other"},
    [CS_VAR_WORKER] = {
        .name = PREFIX "WORKER",
        .pages = CS_VAR_OF_RUNNER,
        .fits = is_program,
        .help = "for tests: the program to start as a rank of a job",
        .dflt = "cornstarch-worker beside the runner"},
};

/* clang-format on */

const struct cs_variable_row *cs_variable_row(enum cs_variable variable)
{
    return &rows[variable];
}

const char *cs_variable_text(enum cs_variable variable)
{
    const char *text = getenv(rows[variable].name);
    return text != NULL && text[0] != '\0' ? text : NULL;
}

bool cs_variable_is(enum cs_variable variable, const char *word)
{
    const char *text = cs_variable_text(variable);
    return text != NULL && strcmp(text, word) == 0;
}

/* 0: no number, or one that is too large */
static int32_t number_of(const char *text, int32_t most)
{
    char *end;
    const long number = text[0] >= '0' && text[0] <= '9' ? strtol(text, &end, 10) : 0;
    return number >= 1 && number <= most && *end == '\0' ? (int32_t)number : 0;
}

int32_t cs_variable_number(enum cs_variable variable)
{
    const char *text = cs_variable_text(variable);
    return text != NULL ? number_of(text, rows[variable].most) : 0;
}

/* "auto, off or always", "a number from 1 to 32", "none or an absolute path" */
static void add_what_fits(const struct cs_variable_row *row, const char *why, struct cs_buf *out)
{
    char number[48];
    const char *parts[CS_VAR_WORDS_MAX + 1];
    int n = 0;
    while (n < CS_VAR_WORDS_MAX && row->words[n].word != NULL) {
        parts[n] = row->words[n].word;
        n++;
    }
    snprintf(number, sizeof number, "a number from 1 to %d", row->most);
    if (row->most > 0)
        parts[n++] = number;
    if (row->fits != NULL)
        parts[n++] = why;
    for (int i = 0; i < n; i++)
        cs_buf_addf(out, "%s%s", i == 0 ? "" : i + 1 < n ? ", " : " or ", parts[i]);
}

static bool is_word(const struct cs_variable_row *row, const char *text)
{
    for (int i = 0; i < CS_VAR_WORDS_MAX && row->words[i].word != NULL; i++)
        if (strcmp(row->words[i].word, text) == 0)
            return true;
    return false;
}

enum cs_status cs_variable_check(enum cs_variable variable, struct cs_err *err)
{
    const struct cs_variable_row *row = &rows[variable];
    const char *text = cs_variable_text(variable), *why = "";
    if (text == NULL || is_word(row, text) || number_of(text, row->most) > 0 ||
        (row->fits != NULL && row->fits(text, &why)))
        return CS_OK;
    struct cs_buf fits = {0};
    add_what_fits(row, why, &fits);
    cs_fail(err, CS_INVALID, "the environment variable %s must be %s, not '%s'", row->name,
            cs_buf_str(&fits), text);
    cs_buf_free(&fits);
    return CS_INVALID;
}

/* A name that is not in the table may be of another program; one that nearly is, is a slip. */
static enum cs_status check_name(const char *entry, struct cs_err *err)
{
    const char *names[CS_VAR_COUNT];
    char name[64];
    const size_t n = strcspn(entry, "=") - strlen(PREFIX);
    if (n >= sizeof name)
        return CS_OK;
    memcpy(name, entry + strlen(PREFIX), n);
    name[n] = '\0';
    for (int i = 0; i < CS_VAR_COUNT; i++)
        names[i] = rows[i].name + strlen(PREFIX);
    const char *near = cs_near(name, names, CS_VAR_COUNT);
    const int letters = near != NULL ? cs_near_distance(near, name) : 0;
    if (letters == 0 || letters > MOST_SLIPS)
        return CS_OK;
    return cs_fail(err, CS_INVALID,
                   "no environment variable " PREFIX "%s is known; did you mean " PREFIX "%s?",
                   name, near);
}

extern char **environ;

enum cs_status cs_environment_check(struct cs_err *err)
{
    for (enum cs_variable v = 0; v < CS_VAR_COUNT; v++)
        CS_TRY(cs_variable_check(v, err));
    for (char **entry = environ; entry != NULL && *entry != NULL; entry++)
        if (cs_str_starts(*entry, PREFIX))
            CS_TRY(check_name(*entry, err));
    return CS_OK;
}
