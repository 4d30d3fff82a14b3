/* Finds the directories of the user's own daemon. */
#include "console/link/paths.h"

#include <stdlib.h>

#include "core/program/dirs.h"

static enum cs_status directory(const char *variable,
                                enum cs_status (*dflt)(char *, struct cs_err *),
                                char path[CS_PATH_CAP], struct cs_err *err)
{
    const char *given = getenv(variable);
    if (!given || !given[0])
        return dflt(path, err);
    if (given[0] != '/')
        return cs_fail(err, CS_INVALID, "%s must be an absolute path, not '%s'", variable, given);
    return cs_path(path, err, "%s", given);
}

enum cs_status cs_client_socket(char path[CS_PATH_CAP], struct cs_err *err)
{
    char dir[CS_PATH_CAP];
    CS_TRY(directory("CORNSTARCH_RUNTIME_DIR", cs_dir_runtime, dir, err));
    return cs_path(path, err, "%s/daemon.sock", dir);
}

enum cs_status cs_client_state_dir(char path[CS_PATH_CAP], struct cs_err *err)
{
    return directory("CORNSTARCH_STATE_DIR", cs_dir_state, path, err);
}
