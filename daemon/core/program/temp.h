/* Unfinished files and directories: PATH.tmp-PID, beside the PATH that they become when they are whole.
 * What a killed process left is known by its number: nobody has it any more. */
#ifndef CS_BASE_TEMP_H
#define CS_BASE_TEMP_H

#include "core/base/system/io.h"

CS_NODISCARD enum cs_status cs_temp_name(const char *path, char out[CS_PATH_CAP],
                                         struct cs_err *err);
/* Calls drop for everything beside path that a process which is gone left unfinished for it. */
void cs_temp_sweep(const char *path, void (*drop)(const char *leftover));
/* The same, for files. */
void cs_temp_sweep_files(const char *path);
/* Whether path can be written when its time comes: makes a file beside it, and removes it. */
CS_NODISCARD enum cs_status cs_temp_try(const char *path, struct cs_err *err);

#endif
