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

struct cs_plan_view {
    const char *devices; /* as --devices names them, NULL: those here */
    const struct cs_texts *set;
    bool is_plain; /* lines for a screen reader, also on a terminal */
    int pick;      /* of a search, from 1; 0: the fastest that jobs run */
};

/* The plan of a script, of a search its plans as well. */
enum cs_status cs_cmd_plan_view(const struct cs_cmd *cmd, const char *script,
                                const struct cs_plan_view *view, struct cs_err *err) CS_NODISCARD;

#endif
