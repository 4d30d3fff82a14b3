/* version: of the program and of its protocol. */
#include <stdio.h>

#include "console/cli/command/cmd.h"
#include "console/cli/command/registry.h"
#include "core/base/say.h"
#include "core/wire/wire.h"

static enum cs_status version(struct cs_cmd *cmd, struct cs_err *err)
{
    char protocol[32];
    snprintf(protocol, sizeof protocol, "%d.%d", CS_PROTOCOL_MAJOR, CS_PROTOCOL_MINOR);
    if (!cmd->json) {
        cs_say(stdout, "cornstarch-console %s, protocol %s\n", CORNSTARCH_VERSION, protocol);
        return CS_OK;
    }
    json_t *doc = cs_doc_new("cornstarch.version/1");
    cs_msg_set_str(doc, "version", CORNSTARCH_VERSION);
    cs_msg_set_str(doc, "protocol", protocol);
    return cs_cmd_print_doc(doc, err);
}

const struct cs_command cs_command_version = {
    .name = "version",
    .role = CS_ROLE_VIEWER,
    .usage = "[options]",
    .help = "versions of program and protocol",
    .run = version,
    CS_COMMAND_NO_OPTIONS,
};
