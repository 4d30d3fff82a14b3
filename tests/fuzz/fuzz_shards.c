/* libFuzzer target: any bytes as a Parquet file, as a tar archive and as a table (files in memory), every row and sample
 * of them. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "input/data/dataset.h"
#include "input/data/media_file.h"
#include "input/data/parquet/parquet.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { ROWS = 200 };

static void read_rows(int fd)
{
    struct cs_parquet *file = NULL;

    if (cs_parquet_open(fd, "x", &file, NULL) != CS_OK)
        return;
    for (uint64_t i = 0; i < cs_parquet_count(file) && i < ROWS; i++) {
        struct cs_pq_bytes bytes = {0};
        json_t *row = NULL;
        if (cs_parquet_row(file, i, &row, &bytes, NULL) == CS_OK && row == NULL)
            abort();
        json_decref(row);
        cs_pq_bytes_free(&bytes);
    }
    cs_parquet_close(file);
}

static void read_samples(const char *path, struct cs_arena *arena)
{
    const struct cs_record_encoder encoder[] = {
        {.name = "vision", .token = "<image>", .key = ""}
    };
    const struct cs_dataset_options options = {.root = ""};
    struct cs_record_keys *keys = NULL;
    struct cs_dataset *set = NULL;

    if (cs_record_keys_new(encoder, 1, arena, &keys, NULL) != CS_OK)
        abort();
    if (cs_dataset_open(path, &options, keys, &set, NULL) != CS_OK)
        return;
    for (uint64_t i = 0; i < cs_dataset_count(set) && i < ROWS; i++) {
        struct cs_record *record = NULL;
        if (cs_dataset_read(set, i, NULL, &record, NULL) != CS_OK)
            continue;
        for (int f = 0; f < record->n_files[0]; f++) {
            struct cs_media_bytes bytes = {0};
            if (record->files[0][f].pack != NULL &&
                cs_media_bytes_read(set, &record->files[0][f], &bytes, NULL) == CS_OK &&
                bytes.n != record->files[0][f].n_bytes)
                abort();
            cs_media_bytes_free(&bytes);
        }
        cs_record_free(record);
    }
    cs_dataset_close(set);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    int fd = memfd_create("shard", MFD_CLOEXEC);
    struct cs_arena *arena = cs_arena_new(0);
    char path[64], table[64];

    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (fd == -1 || (size > 0 && write(fd, data, size) != (ssize_t)size))
        abort();
    read_rows(fd);
    read_samples(path, arena);
    snprintf(table, sizeof table, "/tmp/fuzz-%ld.csv", (long)getpid()); /* known by its name */
    if (symlink(path, table) == -1)
        abort();
    read_samples(table, arena);
    (void)unlink(table);
    cs_arena_free(arena);
    close(fd);
    return 0;
}
