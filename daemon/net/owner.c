/* Claims directories by locks of the process, and finds who has claimed one. */
#include "net/owner.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/str.h"
#include "core/wire/line.h"
#include "core/wire/wire.h"

enum { MAX_BYTES = 2 * CS_PATH_CAP };

static const struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};

/* What the file says; who holds the lock is the kernel's word. */
static void read_owner(int fd, struct cs_owner *out)
{
    char text[MAX_BYTES];
    json_t *said = NULL;
    struct flock held = whole;
    *out = (struct cs_owner){0};
    const ssize_t n = pread(fd, text, sizeof text, 0);
    if (n > 0 && cs_line_parse(text, (size_t)n, &said, NULL) == CS_OK) {
        cs_str_copy(out->node, sizeof out->node, cs_msg_str(said, "node", ""));
        cs_str_copy(out->socket, sizeof out->socket, cs_msg_str(said, "socket", ""));
        out->pid = cs_msg_int(said, "pid", 0);
    }
    json_decref(said);
    if (fcntl(fd, F_GETLK, &held) == 0 && held.l_type != F_UNLCK && held.l_pid > 0)
        out->pid = held.l_pid;
}

void cs_owner_name(const struct cs_owner *owner, char *out, size_t cap)
{
    char here[256] = "";
    gethostname(here, sizeof here - 1);
    const bool is_far = owner->node[0] && strcmp(owner->node, here) != 0;
    if (owner->pid <= 0)
        snprintf(out, cap, "a process%s%s", is_far ? " on node " : "", is_far ? owner->node : "");
    else
        snprintf(out, cap, "process %lld%s%s", (long long)owner->pid, is_far ? " on node " : "",
                 is_far ? owner->node : "");
}

bool cs_owner_find(const char *dir, struct cs_owner *out)
{
    char path[CS_PATH_CAP];
    struct flock held = whole;
    if (cs_path(path, NULL, "%s/daemon.lock", dir) != CS_OK)
        return false;
    const int fd = open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK);
    if (fd == -1)
        return false;
    const bool is_held = fcntl(fd, F_GETLK, &held) == 0 && held.l_type != F_UNLCK;
    if (is_held)
        read_owner(fd, out);
    close(fd);
    return is_held;
}

static enum cs_status refuse(int fd, const char *path, struct cs_err *err)
{
    struct cs_owner owner;
    char name[300];
    read_owner(fd, &owner);
    cs_owner_name(&owner, name, sizeof name);
    return cs_fail(err, CS_EXISTS,
                   "another cornstarchd owns %.*s (%s); 'cornstarch-console daemon stop' ends it, "
                   "its jobs go on",
                   (int)(strrchr(path, '/') - path), path, name);
}

static enum cs_status lock(const char *path, int *out, struct cs_err *err)
{
    const int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd == -1)
        return cs_fail_errno(err, "opening %s", path);
    enum cs_status status = CS_OK;
    if (fcntl(fd, F_SETLK, &whole) == -1)
        status = errno == EACCES || errno == EAGAIN ? refuse(fd, path, err)
                                                    : cs_fail_errno(err, "locking %s", path);
    if (status != CS_OK) {
        close(fd);
        return status;
    }
    *out = fd;
    return CS_OK;
}

enum cs_status cs_claim_take(struct cs_claim *claim, const char *dir, struct cs_err *err)
{
    claim->fd = -1;
    CS_TRY(cs_path(claim->path, err, "%s/daemon.lock", dir));
    return lock(claim->path, &claim->fd, err);
}

bool cs_claim_is_there(const struct cs_claim *claim)
{
    struct stat ours, there;
    return fstat(claim->fd, &ours) == 0 && stat(claim->path, &there) == 0 &&
           ours.st_dev == there.st_dev && ours.st_ino == there.st_ino;
}

enum cs_status cs_claim_keep(struct cs_claim *claim, struct cs_err *err)
{
    int fd = -1;
    if (cs_claim_is_there(claim))
        return CS_OK;
    CS_TRY(lock(claim->path, &fd, err));
    close(claim->fd);
    claim->fd = fd;
    return CS_OK;
}

enum cs_status cs_claim_say(const struct cs_claim *claim, const char *socket, struct cs_err *err)
{
    char node[256] = "";
    struct cs_buf text = {0};
    gethostname(node, sizeof node - 1);
    json_t *said =
        json_pack("{s:I,s:s,s:s}", "pid", (json_int_t)getpid(), "node", node, "socket", socket);
    if (said == NULL)
        return cs_fail(err, CS_INVALID, "the path %s is not UTF-8", socket);
    cs_json_canonical(said, &text);
    json_decref(said);
    enum cs_status status = CS_OK;
    if (pwrite(claim->fd, text.data, text.len, 0) != (ssize_t)text.len ||
        ftruncate(claim->fd, (off_t)text.len) == -1)
        status = cs_fail_errno(err, "writing %s", claim->path);
    cs_buf_free(&text);
    return status;
}

void cs_claim_drop(struct cs_claim *claim)
{
    if (claim->fd != -1)
        close(claim->fd);
    claim->fd = -1;
}
