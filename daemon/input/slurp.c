/* Reading a whole file with a size limit. */
#include "input/image.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static enum cs_status read_exactly(int fd, const char *path, char *bytes, size_t size, size_t *got,
                                   struct cs_err *err)
{
    *got = 0;
    while (*got < size) {
        ssize_t r = read(fd, bytes + *got, size - *got);
        if (r == -1 && errno == EINTR)
            continue;
        if (r == -1)
            return cs_fail_errno(err, "%s: read failed", path);
        if (r == 0)
            return cs_fail(err, CS_CORRUPT, "%s: shrank while it was read", path);
        *got += (size_t)r;
    }
    return CS_OK;
}

enum cs_status cs_input_slurp(const char *path, size_t max_bytes, char **out, size_t *n_bytes,
                              struct cs_err *err)
{
    struct stat st;
    enum cs_status status = CS_OK;
    char *bytes = NULL;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

    if (fd == -1)
        return cs_fail_errno(err, "cannot open %s", path);
    if (fstat(fd, &st) == -1) {
        status = cs_fail_errno(err, "cannot stat %s", path);
        goto out;
    }
    if (!S_ISREG(st.st_mode)) {
        status = cs_fail(err, CS_INVALID, "%s is not a regular file", path);
        goto out;
    }
    if ((uint64_t)st.st_size > max_bytes) {
        status = cs_fail(err, CS_LIMIT, "%s: %lld bytes are over the limit of %zu", path,
                         (long long)st.st_size, max_bytes);
        goto out;
    }
    bytes = malloc((size_t)st.st_size + 1);
    if (bytes == NULL) {
        status =
            cs_fail(err, CS_NO_MEMORY, "%s: no memory for %lld bytes", path, (long long)st.st_size);
        goto out;
    }
    status = read_exactly(fd, path, bytes, (size_t)st.st_size, n_bytes, err);
    if (status != CS_OK)
        goto out;
    bytes[*n_bytes] = '\0';
    *out = bytes;
    bytes = NULL;
out:
    free(bytes);
    close(fd);
    return status;
}
