/* A job watched to its end, in sentences. */
#ifndef CS_CONSOLE_CLI_SHARED_WATCH_H
#define CS_CONSOLE_CLI_SHARED_WATCH_H

#include "console/cli/command/cmd.h"

/* Until it has ended or paused: then its report, and the export to export_dir (NULL: none). Ctrl-C
 * detaches. script: that it came from, NULL not known. */
enum cs_status cs_cmd_watch(struct cs_cmd *cmd, int64_t job, const char *script,
                            const char *export_dir, struct cs_err *err) CS_NODISCARD;
/* has it ended, or paused */
bool cs_cmd_has_settled(const json_t *job);

#endif
