/* Reads /proc/PID/stat. */
#include "runner/processes/procstat.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { PF_EXITING = 4 }; /* of the kernel's flags of a task */

struct cs_procstat cs_procstat(pid_t pid)
{
    char path[64], text[512];
    unsigned flags = 0;
    unsigned long minflt = 0, majflt = 0, utime = 0, stime = 0;
    struct cs_procstat out = {0};
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd == -1)
        return out;
    const ssize_t n = read(fd, text, sizeof text - 1);
    close(fd);
    text[n > 0 ? n : 0] = '\0';
    const char *name_end = strrchr(text, ')'); /* a name may hold blanks and brackets */
    if (name_end == NULL || name_end[1] != ' ')
        return out;
    out.state = name_end[2];
    /* state ppid pgrp session tty tpgid flags minflt cminflt majflt cmajflt utime stime */
    if (sscanf(name_end + 2, "%*c %*s %*s %*s %*s %*s %u %lu %*s %lu %*s %lu %lu", &flags, &minflt,
               &majflt, &utime, &stime) == 5)
        out.activity = (uint64_t)minflt + majflt + utime + stime;
    out.is_ending = out.state == 'Z' || out.state == 'X' || (flags & PF_EXITING) != 0;
    return out;
}
