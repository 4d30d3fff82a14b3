/* Reads the bytes of media from files, parts of files and memory. */
#include "input/data/media_file.h"

#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/hash.h"
#include "input/picture/image.h"

/* A list is known by what all its frames are known by. */
static enum cs_status key_of_list(const struct cs_dataset *set, const struct cs_media_file *file,
                                  char out[CS_PATH_CAP], struct cs_err *err)
{
    struct cs_buf all = {0};
    enum cs_status status = CS_OK;
    char hash[33];

    for (int32_t i = 0; i < file->n_frames && status == CS_OK; i++) {
        status = cs_media_file_key(set, &file->frames[i], out, err);
        if (status == CS_OK)
            cs_buf_addf(&all, "%s\n", out);
    }
    cs_xxh3_128_hex(cs_buf_str(&all), all.len, hash);
    cs_buf_free(&all);
    return status == CS_OK ? cs_path(out, err, "frames:%s@%g", hash, file->fps) : status;
}

enum cs_status cs_media_file_key(const struct cs_dataset *set, const struct cs_media_file *file,
                                 char out[CS_PATH_CAP], struct cs_err *err)
{
    char hash[33];

    if (file->frames != NULL)
        return key_of_list(set, file, out, err);
    if (file->pack != NULL)
        return cs_path(out, err, "%s#%llu", file->pack, (unsigned long long)file->offset);
    if (file->bytes == NULL)
        return cs_dataset_resolve(set, file, out, err);
    cs_xxh3_128_hex(file->bytes, file->n_bytes, hash);
    return cs_path(out, err, "xxh3:%s", hash);
}

enum cs_status cs_media_file_stamp(const struct cs_dataset *set, const struct cs_media_file *file,
                                   char out[CS_PATH_CAP], struct cs_err *err)
{
    char path[CS_PATH_CAP];
    struct stat st;

    out[0] = '\0';
    if (file->frames != NULL)
        return CS_OK;
    if (file->bytes != NULL)
        return cs_media_file_key(set, file, out, err);
    if (file->pack == NULL)
        CS_TRY(cs_dataset_resolve(set, file, path, err));
    if (stat(file->pack != NULL ? file->pack : path, &st) == -1 || !S_ISREG(st.st_mode))
        return CS_OK;
    return cs_path(out, err, "%s#%llu+%llu:%llu:%llu:%lld.%09ld",
                   file->pack != NULL ? file->pack : path, (unsigned long long)file->offset,
                   (unsigned long long)file->n_bytes, (unsigned long long)st.st_ino,
                   (unsigned long long)st.st_size, (long long)st.st_ctim.tv_sec,
                   st.st_ctim.tv_nsec);
}

static enum cs_status read_part(const struct cs_media_file *file, struct cs_media_bytes *out,
                                struct cs_err *err)
{
    void *room = cs_buf_try_room(&out->held, file->n_bytes + 1);
    enum cs_status status = CS_OK;
    size_t got = 0;
    int fd = -1;

    if (room == NULL)
        return cs_fail(err, CS_NO_MEMORY, "no memory for the %llu bytes of %s",
                       (unsigned long long)file->n_bytes, file->name);
    CS_TRY(cs_open_regular(file->pack, &fd, NULL, err));
    status = cs_read_at(fd, file->pack, room, file->n_bytes, file->offset, &got, err);
    close(fd);
    if (status == CS_OK && got < file->n_bytes)
        status = cs_fail(err, CS_CORRUPT, "%s became shorter", file->pack);
    out->data = room;
    out->n = got;
    return status;
}

static enum cs_status read_whole(const struct cs_dataset *set, const struct cs_media_file *file,
                                 struct cs_media_bytes *out, struct cs_err *err)
{
    char path[CS_PATH_CAP];

    CS_TRY(cs_dataset_resolve(set, file, path, err));
    CS_TRY(cs_read_file(path, CS_IMAGE_MAX_FILE_BYTES, &out->held, err));
    out->data = cs_buf_str(&out->held);
    out->n = out->held.len;
    return CS_OK;
}

enum cs_status cs_media_bytes_read(const struct cs_dataset *set, const struct cs_media_file *file,
                                   struct cs_media_bytes *out, struct cs_err *err)
{
    enum cs_status status = CS_OK;

    *out = (struct cs_media_bytes){.data = file->bytes, .n = file->n_bytes};
    if (file->n_bytes > CS_IMAGE_MAX_FILE_BYTES)
        return cs_fail(err, CS_LIMIT, "%s has %llu bytes, at most %d", file->name,
                       (unsigned long long)file->n_bytes, CS_IMAGE_MAX_FILE_BYTES);
    if (file->bytes == NULL)
        status = file->pack != NULL ? read_part(file, out, err) : read_whole(set, file, out, err);
    if (status != CS_OK)
        cs_media_bytes_free(out);
    return status;
}

enum cs_status cs_media_file_locate(const struct cs_dataset *set, const struct cs_media_file *file,
                                    char path[CS_PATH_CAP], struct cs_media_bytes *out,
                                    struct cs_err *err)
{
    *out = (struct cs_media_bytes){0};
    path[0] = '\0';
    if (file->bytes == NULL && file->pack == NULL)
        return cs_dataset_resolve(set, file, path, err);
    return cs_media_bytes_read(set, file, out, err);
}

void cs_media_bytes_free(struct cs_media_bytes *bytes)
{
    cs_buf_free(&bytes->held);
    *bytes = (struct cs_media_bytes){0};
}

struct cs_media_file cs_media_file_copy(const struct cs_media_file *file, struct cs_arena *arena)
{
    struct cs_media_file out = *file;

    out.name = cs_arena_strdup(arena, file->name);
    out.pack = file->pack != NULL ? cs_arena_strdup(arena, file->pack) : NULL;
    if (file->bytes != NULL) {
        char *bytes = cs_arena_alloc(arena, file->n_bytes + 1);
        memcpy(bytes, file->bytes, file->n_bytes);
        out.bytes = bytes;
    }
    if (file->frames != NULL) {
        struct cs_media_file *frames =
            CS_NEW_ARRAY(arena, struct cs_media_file, file->n_frames + 1);
        for (int32_t i = 0; i < file->n_frames; i++)
            frames[i] = cs_media_file_copy(&file->frames[i], arena);
        out.frames = frames;
    }
    return out;
}
