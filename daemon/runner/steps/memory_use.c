/* How much memory the ranks hold. */
#include <stdio.h>
#include <unistd.h>

#include "core/base/system/clock.h"
#include "core/wire/wire.h"
#include "runner/steps/energy.h"
#include "runner/steps/parts.h"

/* between two readings: a process is read in microseconds, a GPU's driver in milliseconds */
static const int64_t process_every_ns = INT64_C(250000000), gpu_every_ns = INT64_C(5000000000);

/* bytes of a process in memory; 0: it is gone */
static int64_t resident_bytes(pid_t pid)
{
    char path[64];
    long long pages = 0;
    snprintf(path, sizeof path, "/proc/%d/statm", (int)pid);
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return 0;
    if (fscanf(file, "%*s %lld", &pages) != 1)
        pages = 0;
    fclose(file);
    return pages * sysconf(_SC_PAGESIZE);
}

static int64_t most_of_processes(const struct cs_runner *r)
{
    int64_t most = 0;
    for (int i = 0; i < r->generation.n_ranks; i++) {
        const int64_t bytes = r->child[i].pid > 0 ? resident_bytes(r->child[i].pid) : 0;
        most = bytes > most ? bytes : most;
    }
    return most;
}

void cs_memory_set(struct cs_runner *r, json_t *msg)
{
    const int64_t now_ns = cs_now_ns(), every_ns = r->energy ? gpu_every_ns : process_every_ns;
    if (r->mem_read_ns == 0 || now_ns - r->mem_read_ns >= every_ns) {
        r->mem_bytes = r->energy ? cs_energy_mem_bytes(r) : most_of_processes(r);
        r->mem_read_ns = now_ns;
    }
    if (r->mem_bytes > 0)
        cs_msg_set_int(msg, "mem_bytes", r->mem_bytes);
}
