/* Finds the directories of the user's own daemon. */
#include "console/link/paths.h"

#include "core/program/dirs.h"

enum cs_status cs_client_socket(char path[CS_PATH_CAP], struct cs_err *err)
{
    char dir[CS_PATH_CAP];
    CS_TRY(cs_dir_runtime(dir, err));
    return cs_path(path, err, "%s/daemon.sock", dir);
}

enum cs_status cs_client_state_dir(char path[CS_PATH_CAP], struct cs_err *err)
{
    return cs_dir_state(path, err);
}
