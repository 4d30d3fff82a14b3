/* What cs.cluster "here" is in a script: asked of the daemon, or of this machine. */
#include <stdio.h>
#include <string.h>

#include "console/cli/command/cmd.h"
#include "core/base/say.h"
#include "core/wire/wire.h"
#include "gpus/here.h"

enum cs_status cs_cmd_here(struct cs_cmd *cmd, struct cs_here *out, struct cs_err *err)
{
    json_t *reply = NULL;
    *out = (struct cs_here){0};
    CS_TRY(cs_cmd_call(cmd, cs_msg_new("node.show"), &reply, err));
    const char *text = cs_msg_str(reply, "here", "");
    enum cs_status status = text[0] ? cs_here_read(text, out, err) : CS_OK;
    json_decref(reply);
    return status;
}

/* What a daemon that runs offers; false: none answers. note: why one cannot be asked. */
static bool ask_running(const struct cs_cmd *cmd, struct cs_here *out, struct cs_buf *note)
{
    enum { ASK_NS = 2000000000 };

    struct cs_client *client = NULL;
    json_t *reply = NULL;
    struct cs_err err = {0};
    enum cs_status status = cs_client_connect_running(NULL, cmd->socket, &client, &err);
    if (status == CS_OK)
        status = cs_client_call_for(client, cs_msg_new("node.show"), ASK_NS, &reply, &err);
    if (status == CS_OK)
        status = cs_here_read(cs_msg_str(reply, "here", "cpu:8"), out, &err);
    json_decref(reply);
    cs_client_free(client);
    if (status == CS_TIMEOUT || status == CS_UNSUPPORTED)
        cs_buf_addf(note, "%s; asking this machine instead\n", err.text);
    return status == CS_OK;
}

enum cs_status cs_cmd_here_noted(const struct cs_cmd *cmd, const char *devices, struct cs_here *out,
                                 struct cs_buf *notes, struct cs_err *err)
{
    struct cs_gpus *gpus = NULL;
    char note[256];
    *out = (struct cs_here){0};
    if (devices)
        return cs_here_read(devices, out, err);
    if (ask_running(cmd, out, notes))
        return CS_OK;
    if (cs_gpus_open(NULL, &gpus, NULL) != CS_OK)
        return CS_OK;
    cs_gpus_here(gpus, cs_gpus_count(gpus), out, note, sizeof note);
    if (note[0])
        cs_buf_addf(notes, "%s\n", note);
    cs_gpus_close(gpus);
    return CS_OK;
}

enum cs_status cs_cmd_here_local(const struct cs_cmd *cmd, const char *devices, struct cs_here *out,
                                 struct cs_err *err)
{
    struct cs_buf notes = {0};
    enum cs_status status = cs_cmd_here_noted(cmd, devices, out, &notes, err);
    const char *at = cs_buf_str(&notes);
    while (at != NULL && *at != '\0') {
        const size_t n = strcspn(at, "\n");
        cs_say(stderr, "cornstarch-console: %.*s\n", (int)n, at);
        at += n + (at[n] == '\n');
    }
    cs_buf_free(&notes);
    return status;
}
