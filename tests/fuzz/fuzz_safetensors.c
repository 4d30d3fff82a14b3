/* libFuzzer target: any bytes as a safetensors file. Every tensor that is accepted must be
 * readable. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "store/safetensors.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[64];
    struct cs_err err;
    struct cs_st_file *file = NULL;
    int fd = memfd_create("fuzz", MFD_CLOEXEC);
    if (fd == -1)
        return 0;
    if (size > 0 && write(fd, data, size) != (ssize_t)size) {
        close(fd);
        return 0;
    }
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    if (cs_st_open(path, &file, &err) == CS_OK) {
        for (int i = 0; i < cs_st_count(file); i++) {
            const struct cs_st_tensor *t = cs_st_at(file, i);
            const volatile char *bytes = t->data;
            float value = 0;
            if (t->count == 0)
                continue;
            (void)bytes[(uint64_t)t->count * cs_dtype_bytes(t->dtype) - 1];
            if (t->dtype <= CS_F64 && cs_st_read_f32(t, t->count - 1, 1, &value, &err) != CS_OK)
                abort();
            if (cs_st_find(file, t->name) != t)
                abort();
        }
        cs_st_close(file);
    }
    close(fd);
    return 0;
}
