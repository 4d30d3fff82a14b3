/* Several jobs on a command line: numbers, ranges, 'latest'; lists of them by what they are. */
#ifndef CS_CONSOLE_CLI_SHARED_JOB_IDS_H
#define CS_CONSOLE_CLI_SHARED_JOB_IDS_H

#include "console/cli/command/cmd.h"

enum { CS_JOB_IDS_MAX = 10000 };

struct cs_job_ids {
    int64_t *id; /* in the order given, each once; free with cs_job_ids_free */
    int n;
};

/* "3 5-8 latest" */
enum cs_status cs_job_ids_read(struct cs_cmd *cmd, int n, char *const *words,
                               struct cs_job_ids *out, struct cs_err *err) CS_NODISCARD;
void cs_job_ids_add(struct cs_job_ids *ids, int64_t id);
void cs_job_ids_free(struct cs_job_ids *ids);

/* Sends a request, which is taken, for each of them. Those that do not take it are told, the others go on; the first
 * reason is the error. done: what a person is told of each that did, " is removed"; with --json they are a document,
 * whose text is result. */
enum cs_status cs_job_ids_order(struct cs_cmd *cmd, const struct cs_job_ids *ids, json_t *request,
                                const char *done, const char *result,
                                struct cs_err *err) CS_NODISCARD;
/* cornstarch.result/1 of them */
enum cs_status cs_job_ids_print(const struct cs_job_ids *ids, const char *result,
                                struct cs_err *err) CS_NODISCARD;

/* Which jobs a command is about: options that several have. */
struct cs_job_filter {
    const char *states; /* "failed,lost", or phases: waiting, live, resting, ended; NULL: any */
    struct cs_texts tags;
    const char *owner, *name; /* NULL: any */
};

#define CS_JOB_FILTER_OPTIONS(type, member)                                                        \
    {"state",                                                                                      \
     's',                                                                                          \
     CS_OPT_STRING,                                                                                \
     1,                                                                                            \
     200,                                                                                          \
     NULL,                                                                                         \
     "STATE",                                                                                      \
     NULL,                                                                                         \
     "only in these states, separated by commas; waiting, live, resting and ended are groups",     \
     offsetof(type, member.states)},                                                               \
        {"tag",                                                                                    \
         't',                                                                                      \
         CS_OPT_TEXTS,                                                                             \
         0,                                                                                        \
         64,                                                                                       \
         NULL,                                                                                     \
         "TAG",                                                                                    \
         NULL,                                                                                     \
         "only with this tag; may be given several times",                                         \
         offsetof(type, member.tags)},                                                             \
        {"owner",                                                                                  \
         'u',                                                                                      \
         CS_OPT_STRING,                                                                            \
         0,                                                                                        \
         255,                                                                                      \
         NULL,                                                                                     \
         "USER",                                                                                   \
         NULL,                                                                                     \
         "only of this user",                                                                      \
         offsetof(type, member.owner)},                                                            \
    {                                                                                              \
        "name", 0, CS_OPT_STRING, 0, 255, NULL, "TEXT", NULL,                                      \
            "only with this in the name, without regard to case", offsetof(type, member.name)      \
    }

/* jobs.list of these; *reply is a new reference. CS_USAGE: an unknown state. */
enum cs_status cs_cmd_find_jobs(struct cs_cmd *cmd, const struct cs_job_filter *filter,
                                int64_t limit, json_t **reply, struct cs_err *err) CS_NODISCARD;

/* Asks on the terminal; true: yes. Without a terminal, and without is_yes, CS_USAGE says so. */
enum cs_status cs_cmd_confirm(const char *question, bool is_yes, bool *answer,
                              struct cs_err *err) CS_NODISCARD;

#endif
