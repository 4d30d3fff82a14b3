/* Counts the cores that this process may use. */
#include "core/base/system/cores.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>

#include "core/base/buf.h"
#include "core/base/system/io.h"

enum { PROC_MAX = 65536 };

/* "200000 100000": time in a period; "max 100000": no limit */
static int32_t quota_of(const char *path)
{
    struct cs_err err = {0};
    struct cs_buf text = {0};
    long long quota = 0, period = 0;
    int32_t cores = 0;

    if (cs_read_file(path, PROC_MAX, &text, &err) == CS_OK &&
        sscanf(cs_buf_str(&text), "%lld %lld", &quota, &period) == 2 && quota > 0 && period > 0 &&
        quota / period < INT32_MAX)
        cores = (int32_t)((quota + period - 1) / period);
    cs_buf_free(&text);
    return cores;
}

int32_t cs_cgroup_cores(const char *root, const char *groups)
{
    const char *line = strncmp(groups, "0::/", 4) == 0 ? groups : strstr(groups, "\n0::/");
    char group[CS_PATH_CAP], path[CS_PATH_CAP];
    struct cs_err err = {0};
    int32_t least = 0;

    if (line == NULL)
        return 0;
    line += strcspn(line, "/");
    if (cs_path(group, &err, "%.*s", (int)strcspn(line, "\n"), line) != CS_OK)
        return 0;
    for (char *end = group + strlen(group); end != NULL; end = strrchr(group, '/')) {
        *end = '\0';
        if (cs_path(path, &err, "%s%s/cpu.max", root, group) != CS_OK)
            return least;
        const int32_t cores = quota_of(path);
        least = cores > 0 && (least == 0 || cores < least) ? cores : least;
    }
    return least;
}

int32_t cs_usable_cores(void)
{
    cpu_set_t set;
    struct cs_buf groups = {0};
    struct cs_err err = {0};
    int32_t cores = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 0, quota = 0;

    if (cs_read_file("/proc/self/cgroup", PROC_MAX, &groups, &err) == CS_OK)
        quota = cs_cgroup_cores("/sys/fs/cgroup", cs_buf_str(&groups));
    cs_buf_free(&groups);
    return quota > 0 && (cores == 0 || quota < cores) ? quota : cores;
}

int32_t cs_cores_each(int32_t processes)
{
    const int32_t cores = cs_usable_cores() / (processes > 1 ? processes : 1);
    return cores > 1 ? cores : 1;
}
