/* Help, listing, manual page and completion from the table of commands. */
#ifndef CS_CONSOLE_CLI_COMMAND_DOCS_H
#define CS_CONSOLE_CLI_COMMAND_DOCS_H

#include "console/cli/command/command.h"

void cs_commands_help(const struct cs_commands *all, int width, struct cs_buf *out);
/* One line per command: name, key, role, confirmation, min and max arguments (- any), usage, help;
 * then its options as cs_options_list prints them, indented by a tab. Tab-separated. */
void cs_commands_list(const struct cs_commands *all, struct cs_buf *out);
void cs_commands_mdoc(const struct cs_commands *all,
                      struct cs_buf *out); /* of cornstarch-console.1 */
/* completion.c: script for a shell: bash, zsh, fish; false: another */
bool cs_commands_completion(const char *shell, struct cs_buf *out);

#endif
