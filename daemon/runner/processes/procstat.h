/* What /proc says of a process. */
#ifndef CS_RUNNER_PROCSTAT_H
#define CS_RUNNER_PROCSTAT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct cs_procstat {
    char state;        /* 'T' while it is stopped; 0: /proc does not say */
    bool is_ending;    /* it has begun to end, or is a zombie: its files may be closed already */
    uint64_t activity; /* grows while it computes or reads: CPU time and page faults */
};

struct cs_procstat cs_procstat(pid_t pid);

#endif
