/* Finds the directories of a user: state, sockets, programs. */
#include "core/program/dirs.h"

#include <errno.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/system/environment.h"

/* the variable's value when it is an absolute path, as the XDG rules want; else NULL */
static const char *absolute_env(const char *name)
{
    const char *value = getenv(name);
    return value && value[0] == '/' ? value : NULL;
}

/* *is_given false: the variable is not set */
static enum cs_status given_dir(enum cs_variable variable, bool *is_given, char out[CS_PATH_CAP],
                                struct cs_err *err)
{
    const char *value = cs_variable_text(variable);
    *is_given = value != NULL;
    CS_TRY(cs_variable_check(variable, err));
    return value != NULL ? cs_path(out, err, "%s", value) : CS_OK;
}

enum cs_status cs_dir_state(char out[CS_PATH_CAP], struct cs_err *err)
{
    bool is_given;
    CS_TRY(given_dir(CS_VAR_STATE_DIR, &is_given, out, err));
    if (is_given)
        return CS_OK;
    const char *base = absolute_env("XDG_STATE_HOME");
    if (base)
        return cs_path(out, err, "%s/cornstarch", base);
    const char *home = absolute_env("HOME");
    if (!home) {
        const struct passwd *pw = getpwuid(geteuid());
        home = pw ? pw->pw_dir : NULL;
    }
    if (!home)
        return cs_fail(err, CS_NOT_FOUND, "no home directory: set HOME or XDG_STATE_HOME");
    return cs_path(out, err, "%s/.local/state/cornstarch", home);
}

static enum cs_status check_private(const char *path, struct cs_err *err)
{
    struct stat sb;
    if (lstat(path, &sb) == -1)
        return cs_fail_errno(err, "looking at %s", path);
    if (!S_ISDIR(sb.st_mode))
        return cs_fail(err, CS_REFUSED, "%s is not a directory", path);
    if (sb.st_uid != geteuid())
        return cs_fail(err, CS_REFUSED, "%s belongs to user %u, not to us; set XDG_RUNTIME_DIR",
                       path, (unsigned)sb.st_uid);
    if (sb.st_mode & 077)
        return cs_fail(err, CS_REFUSED, "%s is open to other users (mode %03o); chmod 700 it", path,
                       (unsigned)(sb.st_mode & 0777));
    return CS_OK;
}

/* Makes the directory, not its parents: a session's is made by who opens the session. *is_usable
 * false: it is not there and cannot be made, or nothing can be made in it; err says why. */
static enum cs_status try_private(const char *path, bool *is_usable, struct cs_err *err)
{
    *is_usable = mkdir(path, 0700) == 0 || errno == EEXIST;
    if (!*is_usable)
        return cs_fail_errno(err, "creating directory %s", path);
    CS_TRY(check_private(path, err));
    *is_usable = access(path, W_OK | X_OK) == 0;
    return *is_usable ? CS_OK : cs_fail_errno(err, "writing to directory %s", path);
}

enum cs_status cs_dir_runtime_why(char out[CS_PATH_CAP], char *why, size_t cap, struct cs_err *err)
{
    const char *base = absolute_env("XDG_RUNTIME_DIR"), *tmp = absolute_env("TMPDIR");
    struct cs_err first;
    bool is_usable, is_given;
    why[0] = '\0';
    CS_TRY(given_dir(CS_VAR_RUNTIME_DIR, &is_given, out, err));
    if (is_given)
        return CS_OK;
    if (base) {
        CS_TRY(cs_path(out, err, "%s/cornstarch", base));
        enum cs_status status = try_private(out, &is_usable, &first);
        if (status == CS_OK)
            return CS_OK;
        if (is_usable) /* it is there, and somebody else may look into it */
            return cs_fail(err, status, "%s", first.text);
        snprintf(why, cap, "%s", first.text);
    }
    CS_TRY(cs_path(out, err, "%s/cornstarch-%u", tmp ? tmp : "/tmp", (unsigned)geteuid()));
    enum cs_status status = try_private(out, &is_usable, err);
    return status == CS_OK || !why[0] ? status : cs_wrap(err, status, "%s, and in its place", why);
}

enum cs_status cs_dir_runtime(char out[CS_PATH_CAP], struct cs_err *err)
{
    char why[1024];
    return cs_dir_runtime_why(out, why, sizeof why, err);
}

bool cs_dir_is_ours(const char *path)
{
    struct stat sb;
    return lstat(path, &sb) == 0 && S_ISDIR(sb.st_mode) && sb.st_uid == geteuid();
}

enum cs_status cs_dir_check_writable(const char *path, struct cs_err *err)
{
    struct stat sb;
    CS_TRY(cs_mkdirs(path, err));
    if (stat(path, &sb) == 0 && sb.st_uid != geteuid() && geteuid() != 0)
        return cs_fail(err, CS_REFUSED, "%s belongs to user %u, not to us", path,
                       (unsigned)sb.st_uid);
    if (access(path, W_OK | X_OK) == -1)
        return cs_fail_errno(err, "nothing can be written in %s", path);
    return CS_OK;
}

enum cs_status cs_dir_self(char out[CS_PATH_CAP], struct cs_err *err)
{
    char self[CS_PATH_CAP];
    ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
    if (n == -1)
        return cs_fail_errno(err, "finding this program's own path");
    self[n] = '\0';
    strcpy(out, self);
    char *slash = strrchr(out, '/');
    if (!slash)
        return cs_fail(err, CS_INTERNAL, "own path %s is not absolute", out);
    slash[slash == out ? 1 : 0] = '\0';
    return CS_OK;
}
