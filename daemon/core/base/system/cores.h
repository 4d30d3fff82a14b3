/* Cores that this process and its children may use. */
#ifndef CS_BASE_CORES_H
#define CS_BASE_CORES_H

#include <stdint.h>

/* Those of its affinity, fewer where control groups (version 2) give it less time: a quota of 2.5
 * cores counts as 3. 0: not known. */
int32_t cs_usable_cores(void);

/* What each of some processes that share them may take: at least 1. */
int32_t cs_cores_each(int32_t processes);

/* The least quota in cores, rounded up, that cpu.max sets below `root` for a group of /proc/self/cgroup
 * (its text) and for the groups around it. 0: none. */
int32_t cs_cgroup_cores(const char *root, const char *groups);

#endif
