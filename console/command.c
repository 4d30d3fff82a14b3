/* The table of commands. */
#include "console/command.h"

#include "console/cli/command/registry.h"

static const struct cs_command *const rows[] = {
#define X(name) &cs_command_##name,
    CS_COMMAND_TABLE(X)
#undef X
};

const struct cs_commands cs_commands = {.row = rows, .n = CS_ARRAY_LEN(rows)};
