/* Files and directories: whole writes, bounded reads, atomic replacement.
 *
 * All calls retry on EINTR. Paths are limited to CS_PATH_CAP bytes; a longer one is CS_LIMIT. New
 * directories are 0700, new files 0600 unless a mode is given; the umask takes from every mode. (core does no file work of its own;
 * these helpers serve the programs above it.) */
#ifndef CS_BASE_IO_H
#define CS_BASE_IO_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "core/base/buf.h"
#include "core/base/status.h"

#define CS_PATH_CAP 4096

/* path helper: printf into a CS_PATH_CAP buffer, CS_LIMIT when it does not fit */
CS_NODISCARD enum cs_status cs_path(char out[CS_PATH_CAP], struct cs_err *err, const char *fmt, ...)
    CS_PRINTF(3, 4);

CS_NODISCARD enum cs_status cs_write_all(int fd, const void *bytes, size_t n, struct cs_err *err);
/* Every file that a user names is opened by this one: only a regular file, or a link to one, so that
 * a FIFO or a device hangs nobody. CS_INVALID says what it is. bytes (may be NULL): its size. */
CS_NODISCARD enum cs_status cs_open_regular(const char *path, int *fd, uint64_t *bytes,
                                            struct cs_err *err);
/* Reads up to n bytes at `at`, whatever the position of fd; *got is less at the end of the file only.
 * path: for messages. */
CS_NODISCARD enum cs_status cs_read_at(int fd, const char *path, void *out, size_t n, uint64_t at,
                                       size_t *got, struct cs_err *err);
/* appends the whole regular file to out; a file larger than max_bytes is CS_LIMIT, one for which
 * memory does not suffice CS_NO_MEMORY; both leave out as it was */
CS_NODISCARD enum cs_status cs_read_file(const char *path, size_t max_bytes, struct cs_buf *out,
                                         struct cs_err *err);
/* Readers see the old or the new content, also after a crash: temporary file in the same directory,
 * fsync, rename, fsync of the directory. On failure the temporary file is gone. */
CS_NODISCARD enum cs_status cs_write_file_atomic(const char *path, const void *bytes, size_t n,
                                                 mode_t mode, struct cs_err *err);
CS_NODISCARD enum cs_status cs_fsync_dir(const char *path, struct cs_err *err);
/* the directory and its missing parents, mode 0700; an existing directory is fine */
CS_NODISCARD enum cs_status cs_mkdirs(const char *path, struct cs_err *err);
/* the same for what a user asked to be written: others may do with it what the umask leaves them */
CS_NODISCARD enum cs_status cs_mkdirs_shared(const char *path, struct cs_err *err);

#endif
