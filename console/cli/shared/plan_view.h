/* The plan of a script in the Plan view, without a daemon: on the terminal, else as text. */
#ifndef CS_CONSOLE_CLI_PLAN_VIEW_H
#define CS_CONSOLE_CLI_PLAN_VIEW_H

#include "console/cli/command/cmd.h"
#include "console/screen/dump.h"

/* The specification of a script that returns one plan. */
enum cs_status cs_cmd_eval_plan(const struct cs_cmd *cmd, const char *script, const char *devices,
                                const struct cs_texts *set, struct cs_here *here,
                                struct cs_script_result *out, struct cs_err *err) CS_NODISCARD;
enum cs_status cs_cmd_print_dump(struct cs_dump *dump, struct cs_err *err) CS_NODISCARD;
enum cs_status cs_cmd_plan_view(const struct cs_cmd *cmd, const char *script, const char *devices,
                                const struct cs_texts *set, int pick,
                                struct cs_err *err) CS_NODISCARD;

#endif
