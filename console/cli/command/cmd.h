/* What commands share: the connection, a job's number, documents and text on standard output, the
 * evaluation of scripts, and the few things that one command does for another. */
#ifndef CS_CONSOLE_CLI_CMD_H
#define CS_CONSOLE_CLI_CMD_H

#include "console/cli/command/command.h"
#include "core/plan/cluster.h"
#include "lua/eval.h"

/* cmd->client, connected; a daemon is started when --socket names none */
enum cs_status cs_cmd_connect(struct cs_cmd *cmd, struct cs_err *err) CS_NODISCARD;
/* connect, then one call; request's reference is taken */
enum cs_status cs_cmd_call(struct cs_cmd *cmd, json_t *request, json_t **reply,
                           struct cs_err *err) CS_NODISCARD;
/* "12" or "latest" -> the job's number */
enum cs_status cs_cmd_job_id(struct cs_cmd *cmd, const char *text, int64_t *id,
                             struct cs_err *err) CS_NODISCARD;
/* a request about the job that the first argument names */
enum cs_status cs_cmd_job_request(struct cs_cmd *cmd, const char *type, json_t **request,
                                  struct cs_err *err) CS_NODISCARD;
/* what --json prints: checked against the schema, pretty, on standard output; takes the
 * reference */
enum cs_status cs_cmd_print_doc(json_t *doc, struct cs_err *err) CS_NODISCARD;
/* "cornstarch.jobinfo/1" of a job.show or job.wait reply */
json_t *cs_cmd_job_doc(const json_t *reply);
void cs_cmd_print(const struct cs_buf *text);
/* columns of the terminal on standard output; 0: no terminal, no limit */
int cs_cmd_width(void);

/* A script's document; kind must be a job when is_job, else a plan is fine too. */
/* set: of --set, NULL: none */
enum cs_status cs_cmd_eval(const char *path, bool is_job, const struct cs_here *here,
                           const struct cs_texts *set, struct cs_script_result *out,
                           struct cs_err *err) CS_NODISCARD;
enum cs_status cs_cmd_eval_with(const char *path, bool is_job, const struct cs_lua_limits *limits,
                                struct cs_script_result *out, struct cs_err *err) CS_NODISCARD;
/* a sweep of jobs (CS_SCRIPT_JOBS) */
enum cs_status cs_cmd_eval_jobs(const char *path, const struct cs_lua_limits *limits,
                                struct cs_script_result *out, struct cs_err *err) CS_NODISCARD;
/* here.c: what cs.cluster "here" is on the node of the daemon, so that preview and run agree */
enum cs_status cs_cmd_here(struct cs_cmd *cmd, struct cs_here *out,
                           struct cs_err *err) CS_NODISCARD;
/* The same for commands that need no daemon: `devices` as --devices names them; NULL: what a daemon
 * that runs offers, without one the GPUs of this machine. */
enum cs_status cs_cmd_here_local(const struct cs_cmd *cmd, const char *devices, struct cs_here *out,
                                 struct cs_err *err) CS_NODISCARD;
/* ... and what is to be told of it, lines, is the caller's to tell */
enum cs_status cs_cmd_here_noted(const struct cs_cmd *cmd, const char *devices, struct cs_here *out,
                                 struct cs_buf *notes, struct cs_err *err) CS_NODISCARD;

/* job_figures.c: figures of a job object as text, "-" where unknown */
void cs_cmd_number(char out[32], const json_t *job, const char *key, double scale, int decimals,
                   const char *unit);
/* the exit code of a command that waited for the job: as it says, else that of its state */
int cs_cmd_job_exit(const json_t *job);
void cs_cmd_mean_bubble(char out[32], const json_t *job);
/* job_list.c: jobs as a table, or as a document with --json; the reference is taken */
enum cs_status cs_cmd_print_jobs(struct cs_cmd *cmd, json_t *reply,
                                 struct cs_err *err) CS_NODISCARD;

struct cs_cmd_exporting {
    const char *dtype;
    json_t **rows; /* NULL, or it is verified: what was compared, a new list */
};
/* export_dir.c: write the model of a checkpoint of a job directory; ckpt NULL: the newest */
enum cs_status cs_cmd_export_dir(const char *job_dir, const char *ckpt, const char *dir,
                                 const struct cs_cmd_exporting *how, struct cs_buf *report,
                                 struct cs_err *err) CS_NODISCARD;

#endif
