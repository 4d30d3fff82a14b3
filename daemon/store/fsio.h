/* File helpers of the store: atomic writes with a running hash, JSON files, directory trees.
 *
 * A file being written lives beside its target as PATH.tmp-PID; it is fsynced, renamed over PATH
 * and the directory is fsynced, so PATH is the old content, the new content, or absent. When the
 * disk or RLIMIT_FSIZE is full the error is CS_NO_SPACE with path and bytes needed (the process
 * must ignore SIGXFSZ). No function follows a name that came out of a file without
 * cs_fs_is_plain_name. */
#ifndef CS_STORE_FSIO_H
#define CS_STORE_FSIO_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/status.h"
#include "core/base/system/io.h"

enum { CS_FS_JSON_MAX_BYTES = 64 * 1024 * 1024 }; /* tokenizer.json of Gemma 3 has 33 MB */

struct cs_fs_out; /* one file being written */

/* needed_bytes: what the file will take, for the message when space ends */
enum cs_status cs_fs_out_open(const char *path, uint64_t needed_bytes, struct cs_fs_out **out,
                              struct cs_err *err) CS_NODISCARD;
enum cs_status cs_fs_out_write(struct cs_fs_out *out, const void *data, size_t bytes,
                               struct cs_err *err) CS_NODISCARD;
/* fsync, rename, fsync the directory; xxh3 (NULL or 32 hex digits + NUL) of all bytes written */
enum cs_status cs_fs_out_commit(struct cs_fs_out *out, char xxh3[33],
                                struct cs_err *err) CS_NODISCARD;
void cs_fs_out_close(struct cs_fs_out *out); /* frees; removes the file when not committed */

enum cs_status cs_fs_write(const char *path, const void *data, size_t bytes, char xxh3[33],
                           struct cs_err *err) CS_NODISCARD;
/* indented, sorted keys, newline at the end; bytes (may be NULL): size written */
enum cs_status cs_fs_write_json(const char *path, const json_t *json, char xxh3[33],
                                uint64_t *bytes, struct cs_err *err) CS_NODISCARD;
/* whole file, at most max_bytes; *data is malloc'ed and NUL-terminated */
enum cs_status cs_fs_read(const char *path, size_t max_bytes, char **data, size_t *bytes,
                          struct cs_err *err) CS_NODISCARD;
/* one JSON object without duplicate keys */
enum cs_status cs_fs_read_json(const char *path, json_t **out, struct cs_err *err) CS_NODISCARD;
enum cs_status cs_fs_copy(const char *from, const char *to, struct cs_err *err) CS_NODISCARD;
enum cs_status cs_fs_hash(const char *path, char xxh3[33], uint64_t *bytes,
                          struct cs_err *err) CS_NODISCARD;

/* path and everything under it, never through a symbolic link; absent is fine */
enum cs_status cs_fs_remove_tree(const char *path, struct cs_err *err) CS_NODISCARD;
enum cs_status cs_fs_parent(const char *path, char out[CS_PATH_CAP],
                            struct cs_err *err) CS_NODISCARD;
bool cs_fs_exists(const char *path);
/* Bytes that others than root may still write where path is, or the nearest directory above it that
 * is there. */
enum cs_status cs_fs_free_bytes(const char *path, uint64_t *out, struct cs_err *err) CS_NODISCARD;
/* non-empty, no '/', no '\\', not "." or "..", no control character: safe to append
 * to a directory */
bool cs_fs_is_plain_name(const char *name);

#endif
