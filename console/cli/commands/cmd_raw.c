/* raw: requests from standard input, one JSON object per line, and their answers. */
#include <stdio.h>
#include <stdlib.h>

#include "console/cli/command/cmd.h"
#include "console/cli/command/registry.h"
#include "core/base/str.h"
#include "core/wire/line.h"
#include "core/wire/wire.h"

static void print_message(void *user, const json_t *msg)
{
    struct cs_buf line = {0}, safe = {0};
    (void)user;
    if (cs_msg_encode(msg, &line, NULL) == CS_OK)
        cs_str_clean_json(&safe, cs_buf_str(&line), line.len);
    cs_cmd_print(&safe);
    fflush(stdout);
    cs_buf_free(&line);
    cs_buf_free(&safe);
}

/* An answer is printed whatever it is; a refusal is the answer to that line, not our failure. */
static enum cs_status raw_line(struct cs_cmd *cmd, const char *line, size_t n, struct cs_err *err)
{
    json_t *request = NULL, *reply = NULL;
    struct cs_err refused = {.text = ""};
    CS_TRY(cs_line_parse(line, n, &request, err));
    enum cs_status status = cs_client_call(cmd->client, request, &reply, &refused);
    if (status == CS_PEER_GONE || status == CS_UNREACHABLE || status == CS_TIMEOUT) {
        *err = refused;
        return status;
    }
    if (status != CS_OK)
        reply = cs_msg_error(NULL, &refused);
    print_message(NULL, reply);
    json_decref(reply);
    return CS_OK;
}

static enum cs_status raw(struct cs_cmd *cmd, struct cs_err *err)
{
    char *line = NULL;
    size_t cap = 0;
    ssize_t n;
    CS_TRY(cs_cmd_connect(cmd, err));
    cs_client_on_message(cmd->client, print_message, NULL);
    enum cs_status status = CS_OK;
    while (status == CS_OK && (n = getline(&line, &cap, stdin)) > 0) {
        if (line[n - 1] == '\n')
            line[--n] = '\0';
        if (n > 0)
            status = raw_line(cmd, line, (size_t)n, err);
    }
    free(line);
    return status;
}

const struct cs_command cs_command_raw = {
    .name = "raw",
    .role = CS_ROLE_ADMIN,
    .usage = "[options]",
    .help = "send requests, one JSON object per line, print the answers",
    .run = raw,
    CS_COMMAND_NO_OPTIONS,
};
