/* The name under which a process shows in top, ps and /proc/PID/comm. */
#ifndef CS_BASE_PROCESS_H
#define CS_BASE_PROCESS_H

/* First in main, of every program: what the kernel takes from the executed path is no name where a
 * program executed itself anew ("exe"). The kernel keeps 15 bytes. Threads that are started later
 * have the same name. */
void cs_process_name(const char *program);

#endif
