/* Runs a fuzz target without a fuzzer, so that every build compiles it and every test run tries it: on the
 * files that are named and on pseudo-random bytes, the same in every run.
 *
 *   fuzz_NAME [runs] [file or folder ...] */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "support/tmpdir.h"

enum { SIZE_MAX_BYTES = 600 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint64_t random_state = 17;

static uint32_t next(uint32_t below)
{
    random_state = random_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(random_state >> 33) % below;
}

/* The file as it is, and with some bytes exchanged. */
static void run_file(const char *path, int variants)
{
    size_t n = 0;
    char *bytes = tmpdir_read(path, &n);

    if (bytes == NULL)
        return;
    (void)LLVMFuzzerTestOneInput((const uint8_t *)bytes, n);
    for (int i = 0; i < variants && n > 0; i++) {
        uint32_t at = next((uint32_t)n);
        bytes[at] = (char)next(256);
        (void)LLVMFuzzerTestOneInput((const uint8_t *)bytes, n);
    }
    free(bytes);
}

static void run_path(const char *path, int variants)
{
    struct stat st;
    DIR *dir = NULL;

    if (stat(path, &st) != 0)
        return;
    if (!S_ISDIR(st.st_mode)) {
        run_file(path, variants);
        return;
    }
    dir = opendir(path);
    for (struct dirent *entry = NULL; dir != NULL && (entry = readdir(dir)) != NULL;)
        if (entry->d_name[0] != '.')
            run_file(tmpdir_path(path, entry->d_name), variants);
    if (dir != NULL)
        closedir(dir);
}

int main(int argc, char **argv)
{
    const int runs = argc > 1 ? atoi(argv[1]) : 1000;
    uint8_t bytes[SIZE_MAX_BYTES];

    for (int i = 2; i < argc; i++)
        run_path(argv[i], 50);
    for (int run = 0; run < runs; run++) {
        size_t n = next(sizeof bytes);
        for (size_t i = 0; i < n; i++)
            bytes[i] = (uint8_t)next(256);
        (void)LLVMFuzzerTestOneInput(bytes, n);
    }
    return 0;
}
