/* The directories of a user and of this program. Console, daemon and runner find the same ones. */
#ifndef CS_BASE_DIRS_H
#define CS_BASE_DIRS_H

#include <stdbool.h>

#include "core/base/system/io.h"

/* $CORNSTARCH_STATE_DIR (CS_INVALID: not an absolute path), $XDG_STATE_HOME/cornstarch, else
 * ~/.local/state/cornstarch. Not created. */
CS_NODISCARD enum cs_status cs_dir_state(char out[CS_PATH_CAP], struct cs_err *err);
/* $CORNSTARCH_RUNTIME_DIR as it is (CS_INVALID: not an absolute path), else $XDG_RUNTIME_DIR/cornstarch; where that cannot be made or written (a batch job without a session, a
 * session that has ended), and without the variable, $TMPDIR (or /tmp) "/cornstarch-UID". Created
 * 0700; CS_REFUSED when it is a link, not ours or open to others: nobody steps aside from that
 * silently. */
CS_NODISCARD enum cs_status cs_dir_runtime(char out[CS_PATH_CAP], struct cs_err *err);
/* The same; why: the reason for which it is not under $XDG_RUNTIME_DIR, "" when it is or the variable
 * is not set. */
CS_NODISCARD enum cs_status cs_dir_runtime_why(char out[CS_PATH_CAP], char *why, size_t cap,
                                               struct cs_err *err);
bool cs_dir_is_ours(const char *path); /* a directory of our user, no link to one */
/* Made if it is missing, and checked: ours, and a file can be made in it. */
CS_NODISCARD enum cs_status cs_dir_check_writable(const char *path, struct cs_err *err);
/* directory of the running executable */
CS_NODISCARD enum cs_status cs_dir_self(char out[CS_PATH_CAP], struct cs_err *err);

#endif
