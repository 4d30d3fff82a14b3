/* Where the user's own daemon listens and keeps its jobs. */
#ifndef CS_CONSOLE_LINK_PATHS_H
#define CS_CONSOLE_LINK_PATHS_H

#include "core/base/status.h"
#include "core/base/system/io.h"

/* Where the user's daemon listens: $CORNSTARCH_RUNTIME_DIR or cs_dir_runtime, "daemon.sock". */
enum cs_status cs_client_socket(char path[CS_PATH_CAP], struct cs_err *err) CS_NODISCARD;
/* $CORNSTARCH_STATE_DIR or cs_dir_state */
enum cs_status cs_client_state_dir(char path[CS_PATH_CAP], struct cs_err *err) CS_NODISCARD;

#endif
