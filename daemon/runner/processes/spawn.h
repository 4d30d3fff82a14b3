/* The start of a child process with exactly the descriptors it shall have; it dies with us. */
#ifndef CS_RUNNER_SPAWN_H
#define CS_RUNNER_SPAWN_H

#include <sys/types.h>

#include "core/base/status.h"
#include "core/base/system/environment.h"

struct cs_spawn {
    const char *path;  /* executable */
    const char *name;  /* of the program */
    const char *title; /* argv[0], as ps shows it; NULL: name */
    const int *fds;    /* (n_fds) become 3, 4, ... in the child; everything else is closed */
    int n_fds;
    int output_fd; /* becomes 1 and 2; 0 is /dev/null */
};

/* *pidfd: readable when the child has ended. The child gets SIGKILL when the calling thread ends;
 * its environment is ours with the thread counts and the locale set as numerics need them. Returns
 * once the program runs; what stops it before that (no descriptors, no such program) is the error,
 * and stands on its output as well. */
enum cs_status cs_spawn(const struct cs_spawn *spawn, pid_t *pid, int *pidfd,
                        struct cs_err *err) CS_NODISCARD;

/* Directory of our executable "/" name, unless the environment variable says otherwise (tests). */
enum cs_status cs_spawn_path(const char *name, enum cs_variable variable, char *out, size_t cap,
                             struct cs_err *err) CS_NODISCARD;

#endif
