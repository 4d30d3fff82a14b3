/* What files became, on disk: bytes by a key that says which contents and what was done to them. A folder of a
 * limited size; what was not read for longest goes first. Several processes may share it: entries appear whole
 * (written beside and renamed), one process at a time clears up, and a reader that loses an entry finds it not
 * there. An entry that was damaged is not there either. Thread-safe. */
#ifndef CS_INPUT_MEDIA_DISK_CACHE_H
#define CS_INPUT_MEDIA_DISK_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/status.h"
#include "core/base/str.h"

struct cs_disk_cache;

enum { CS_DISK_KEY = 33 };

/* Makes the folder. max_bytes: of all entries together; for a while there may be a sixteenth more for each process
 * that writes. */
enum cs_status cs_disk_cache_open(const char *dir, uint64_t max_bytes, struct cs_disk_cache **out,
                                  struct cs_err *err) CS_NODISCARD;
void cs_disk_cache_close(struct cs_disk_cache *cache); /* accepts NULL */
/* Of a file, by its bytes or what tells them apart, and what is done to it: settings, and `how` it is cut. */
void cs_disk_cache_key(const void *bytes, size_t n, const char *settings, uint64_t how,
                       char out[CS_DISK_KEY]);
/* Copies n bytes out; false: not there, or of another length. cache NULL: never. */
bool cs_disk_cache_get(struct cs_disk_cache *cache, const char *key, void *data, size_t n);
/* What cannot be written is not kept; where the disk is full nothing more is. */
void cs_disk_cache_put(struct cs_disk_cache *cache, const char *key, const void *data, size_t n);

/* What became of the calls, and the bytes of all entries now. */
struct cs_disk_cache_use {
    uint64_t n_found, n_kept, bytes, max_bytes;
    bool is_full; /* the disk: nothing more is kept */
};

void cs_disk_cache_use(struct cs_disk_cache *cache, struct cs_disk_cache_use *out);
/* "12 files found in it, 3 added; it holds 1.20 GB of 10.0 GB" */
void cs_disk_cache_text(const struct cs_disk_cache_use *use, struct cs_buf *out);

#endif
