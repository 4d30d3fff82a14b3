/* The table of commands: the rows that the files of console/cli define. */
#ifndef CS_CONSOLE_COMMAND_H
#define CS_CONSOLE_COMMAND_H

#include "console/cli/command/command.h"

extern const struct cs_commands cs_commands;

#endif
