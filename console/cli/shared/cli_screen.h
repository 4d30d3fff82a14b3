/* The console without a command: the screen, or lines where there is no terminal for it. */
#ifndef CS_CONSOLE_CLI_CLI_SCREEN_H
#define CS_CONSOLE_CLI_CLI_SCREEN_H

#include "console/cli/command/command.h"
#include "core/base/status.h"

enum cs_status cs_cli_screen(const struct cs_commands *all, int argc, char **argv, int *exit_code,
                             struct cs_err *err) CS_NODISCARD;
/* is there a terminal that the screen can be shown on */
bool cs_cli_has_screen(void);
/* the screen on a job of cmd->client; CS_OK when the user left it */
enum cs_status cs_cli_screen_on_job(struct cs_cmd *cmd, int64_t job,
                                    struct cs_err *err) CS_NODISCARD;

struct cs_store;
/* plan number n of those found into the store */
typedef enum cs_status cs_cli_pick(void *user, struct cs_store *store, int n, struct cs_err *err);
/* the screen on a store, without a daemon */
enum cs_status cs_cli_screen_on_store(const struct cs_cmd *cmd, struct cs_store *store,
                                      cs_cli_pick *pick, void *user,
                                      struct cs_err *err) CS_NODISCARD;

#endif
