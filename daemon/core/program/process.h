/* A process's own name, last words and limits. */
#ifndef CS_BASE_PROCESS_H
#define CS_BASE_PROCESS_H

#include <stdint.h>

/* First in main, of every program (a string that stays). The name under which it shows in top, ps and
 * /proc/PID/comm: what the kernel takes from the executed path is no name where a program executed itself anew
 * ("exe"). The kernel keeps 15 bytes. Threads that are started later have the same name. And where a fault ends
 * it (a segment, a bus, an instruction), stderr says in which calls (cs_calls_print), but of a stack that has run over only the
 * main thread's. Under sanitizers they say it. */
void cs_process_begin(const char *program);

/* Raises the limit of open files as far as an ordinary user may (the soft limit to the hard one; our
 * programs use no select). Returns it. */
int64_t cs_process_files(void);

#endif
