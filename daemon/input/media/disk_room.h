/* The folder of a cache on disk as a whole: DIR/00 to DIR/ff with files of 32 characters' names. How much they hold, and
 * room made among them. */
#ifndef CS_INPUT_MEDIA_DISK_ROOM_H
#define CS_INPUT_MEDIA_DISK_ROOM_H

#include <stdint.h>

#include "core/base/status.h"

/* The folders, where they are not there. */
enum cs_status cs_disk_room_make(const char *dir, struct cs_err *err) CS_NODISCARD;
uint64_t cs_disk_room_bytes(const char *dir);
/* Where there are more than max_bytes, files go, those with the oldest times first, until a tenth is free; files of
 * writers that are gone go after an hour. By one process at a time: where another does it, it is done. */
void cs_disk_room_clear(const char *dir, uint64_t max_bytes);

#endif
