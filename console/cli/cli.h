/* The command line: from argv to an exit code. */
#ifndef CS_CONSOLE_CLI_CLI_H
#define CS_CONSOLE_CLI_CLI_H

#include "console/cli/command/command.h"

int cs_cli_main(const struct cs_commands *all, int argc, char **argv);

#endif
