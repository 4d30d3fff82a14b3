/* A process's own name and limits. */
#ifndef CS_BASE_PROCESS_H
#define CS_BASE_PROCESS_H

#include <stdint.h>

/* The name under which it shows in top, ps and /proc/PID/comm. First in main, of every program: what the kernel takes from the executed path is no name where a
 * program executed itself anew ("exe"). The kernel keeps 15 bytes. Threads that are started later
 * have the same name. */
void cs_process_name(const char *program);

/* Raises the limit of open files as far as an ordinary user may (the soft limit to the hard one; our
 * programs use no select). Returns it. */
int64_t cs_process_files(void);

#endif
