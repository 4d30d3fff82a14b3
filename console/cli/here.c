/* What cs.cluster "here" is in a script: asked of the daemon, or of this machine. */
#include <stdio.h>

#include "console/cli/cmd.h"
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

enum cs_status cs_cmd_here_local(const char *devices, struct cs_here *out, struct cs_err *err)
{
    struct cs_gpus *gpus = NULL;
    char note[256];
    *out = (struct cs_here){0};
    if (devices)
        return cs_here_read(devices, out, err);
    if (cs_gpus_open(NULL, &gpus, NULL) != CS_OK)
        return CS_OK;
    cs_gpus_here(gpus, cs_gpus_count(gpus), out, note, sizeof note);
    if (note[0])
        cs_say(stderr, "cornstarch-console: %s\n", note);
    cs_gpus_close(gpus);
    return CS_OK;
}
