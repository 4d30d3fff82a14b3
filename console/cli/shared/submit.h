/* A job to the daemon: what would end it is said before it is one. */
#ifndef CS_CONSOLE_CLI_SHARED_SUBMIT_H
#define CS_CONSOLE_CLI_SHARED_SUBMIT_H

#include "console/cli/command/cmd.h"

struct cs_submission {
    const json_t *document;      /* its specification */
    int32_t ranks;               /* of the plan that was previewed, 0: none was */
    bool replans;                /* another plan than previewed is fine */
    const struct cs_texts *tags; /* NULL: none */
    const char *note;            /* NULL: none */
};

/* Warnings go to standard error, and with the job. */
enum cs_status cs_cmd_submit(struct cs_cmd *cmd, const struct cs_submission *what, int64_t *job,
                             struct cs_err *err) CS_NODISCARD;
/* tells its number, or the job with --json */
enum cs_status cs_cmd_print_submitted(struct cs_cmd *cmd, int64_t job,
                                      struct cs_err *err) CS_NODISCARD;
/* job.show; *reply is a new reference */
enum cs_status cs_cmd_show_job(struct cs_cmd *cmd, int64_t job, json_t **reply,
                               struct cs_err *err) CS_NODISCARD;
/* the texts of an option that is given several times, as a list; a new reference */
json_t *cs_option_texts_json(const struct cs_texts *texts);

#endif
