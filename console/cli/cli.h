/* The command line: from argv to an exit code, and what its commands share. */
#ifndef CS_CONSOLE_CLI_CLI_H
#define CS_CONSOLE_CLI_CLI_H

#include "console/command.h"
#include "core/plan/cluster.h"
#include "lua/eval.h"

int cs_cli_main(int argc, char **argv);

/* cmd->client, connected; a daemon is started when --socket names none */
enum cs_status cs_cmd_connect(struct cs_cmd *cmd, struct cs_err *err) CS_NODISCARD;
/* connect, then one call; request's reference is taken */
enum cs_status cs_cmd_call(struct cs_cmd *cmd, json_t *request, json_t **reply,
                           struct cs_err *err) CS_NODISCARD;
/* "12" or "latest" -> the job's number */
enum cs_status cs_cmd_job_id(struct cs_cmd *cmd, const char *text, int64_t *id,
                             struct cs_err *err) CS_NODISCARD;
/* what --json prints: checked against the schema, pretty, on standard output; takes the reference
 */
enum cs_status cs_cmd_print_doc(json_t *doc, struct cs_err *err) CS_NODISCARD;
void cs_cmd_print(const struct cs_buf *text);
/* columns of the terminal on standard output; 0: no terminal, no limit */
int cs_cmd_width(void);
/* A script's document; kind must be a job when is_job, else a plan is fine too. */
enum cs_status cs_cmd_eval(const char *path, bool is_job, const struct cs_here *here,
                           struct cs_script_result *out, struct cs_err *err) CS_NODISCARD;
enum cs_status cs_cmd_eval_with(const char *path, bool is_job, const struct cs_lua_limits *limits,
                                struct cs_script_result *out, struct cs_err *err) CS_NODISCARD;

/* cmd_nodes.c: what cs.cluster "here" is on the node of the daemon, so that preview and run agree
 */
enum cs_status cs_cmd_here(struct cs_cmd *cmd, struct cs_here *out,
                           struct cs_err *err) CS_NODISCARD;
/* the same without a daemon: --devices, else the GPUs of this machine */
enum cs_status cs_cmd_here_local(const struct cs_cmd *cmd, struct cs_here *out,
                                 struct cs_err *err) CS_NODISCARD;

/* cmd_export.c: write the model of a checkpoint of a job directory. step < 0: the newest */
enum cs_status cs_cmd_export_dir(const char *job_dir, const char *ckpt, const char *dir,
                                 const char *dtype, struct cs_buf *report,
                                 struct cs_err *err) CS_NODISCARD;

#endif
