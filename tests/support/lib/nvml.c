/* A stand-in for libnvidia-ml.so.1: cards that a text file describes. The file, named by
 * CORNSTARCH_FAKE_NVML and read anew at every question, has lines of
 *
 *   count 2             cards (2 without a file)
 *   fail 9              nvmlInit gives this code
 *   GPU KEY VALUE       KEY as in the table below; GPU a number or * for all; the last line counts
 *   GPU KEY error 3     that question about it fails with the code
 *   GPU process PID BYTES
 *   hold 1              a question about memory is not answered while this line is there
 *
 * Without a line a card is an H100 at work whose energy counter follows the clock. Compiled with
 * FAKE_NVML_OLD it is an old driver without energy and clock reasons. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { OK = 0, UNINITIALIZED = 1, BAD_ARGUMENT = 2, NOT_SUPPORTED = 3, TOO_SMALL = 7, MAX = 16 };

struct nvml_device {
    unsigned index;
};

struct memory {
    unsigned long long total, free, used;
};

struct memory_v2 {
    unsigned version;
    unsigned long long total, reserved, free, used;
};

struct busy {
    unsigned gpu, memory;
};

struct process {
    unsigned pid;
    unsigned long long used;
    unsigned gpu_instance, compute_instance;
};

static struct nvml_device cards[MAX];
static int is_running;

/* the last line that says something about (gpu, key) into out; 0: none */
static int find(int gpu, const char *key, char out[128])
{
    char line[256], who[16], what[32], rest[128];
    const char *path = getenv("CORNSTARCH_FAKE_NVML");
    FILE *file = path ? fopen(path, "r") : NULL;
    int found = 0;
    while (file && fgets(line, sizeof line, file)) {
        rest[0] = '\0';
        if (sscanf(line, "%15s %31s %127[^\n]", who, what, rest) < 2)
            continue;
        int is_mine = gpu < 0
                          ? strcmp(who, key) == 0
                          : (strcmp(who, "*") == 0 || atoi(who) == gpu) && strcmp(what, key) == 0;
        if (is_mine && (gpu < 0 || who[0] == '*' || (who[0] >= '0' && who[0] <= '9'))) {
            snprintf(out, 128, "%s", gpu < 0 ? what : rest);
            found = 1;
        }
    }
    if (file)
        fclose(file);
    return found;
}

static unsigned count(void)
{
    char text[128];
    unsigned n = find(-1, "count", text) ? (unsigned)strtoul(text, NULL, 10) : 2;
    return n < MAX ? n : MAX;
}

/* a number or an error code */
static int number(const struct nvml_device *d, const char *key, unsigned long long dflt,
                  unsigned long long *out)
{
    char text[128];
    if (!is_running)
        return UNINITIALIZED;
    *out = dflt;
    if (!find((int)d->index, key, text))
        return OK;
    if (strncmp(text, "error", 5) == 0)
        return atoi(text + 5);
    *out = strtoull(text, NULL, 10);
    return OK;
}

static int small(const struct nvml_device *d, const char *key, unsigned dflt, unsigned *out)
{
    unsigned long long v = 0;
    int code = number(d, key, dflt, &v);
    *out = (unsigned)v;
    return code;
}

static void wait_while_held(void)
{
    char text[128];
    while (find(-1, "hold", text))
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

int nvmlInit_v2(void);
int nvmlShutdown(void);
const char *nvmlErrorString(int code);
int nvmlSystemGetDriverVersion(char *out, unsigned cap);
int nvmlDeviceGetCount_v2(unsigned *out);
int nvmlDeviceGetHandleByIndex_v2(unsigned index, struct nvml_device **out);
int nvmlDeviceGetName(struct nvml_device *d, char *out, unsigned cap);
int nvmlDeviceGetUUID(struct nvml_device *d, char *out, unsigned cap);
int nvmlDeviceGetMemoryInfo(struct nvml_device *d, struct memory *out);
int nvmlDeviceGetMemoryInfo_v2(struct nvml_device *d, struct memory_v2 *out);
int nvmlDeviceGetUtilizationRates(struct nvml_device *d, struct busy *out);
int nvmlDeviceGetPowerUsage(struct nvml_device *d, unsigned *out);
int nvmlDeviceGetEnforcedPowerLimit(struct nvml_device *d, unsigned *out);
int nvmlDeviceGetTemperature(struct nvml_device *d, int sensor, unsigned *out);
int nvmlDeviceGetTemperatureThreshold(struct nvml_device *d, int kind, unsigned *out);
int nvmlDeviceGetClockInfo(struct nvml_device *d, int kind, unsigned *out);
int nvmlDeviceGetMaxClockInfo(struct nvml_device *d, int kind, unsigned *out);
int nvmlDeviceGetCurrentClocksThrottleReasons(struct nvml_device *d, unsigned long long *out);
int nvmlDeviceGetTotalEnergyConsumption(struct nvml_device *d, unsigned long long *out);
int nvmlDeviceGetCurrPcieLinkGeneration(struct nvml_device *d, unsigned *out);
int nvmlDeviceGetMaxPcieLinkGeneration(struct nvml_device *d, unsigned *out);
int nvmlDeviceGetCurrPcieLinkWidth(struct nvml_device *d, unsigned *out);
int nvmlDeviceGetMaxPcieLinkWidth(struct nvml_device *d, unsigned *out);
int nvmlDeviceGetComputeRunningProcesses_v3(struct nvml_device *d, unsigned *n,
                                            struct process *out);

int nvmlInit_v2(void)
{
    char text[128];
    if (find(-1, "fail", text))
        return atoi(text);
    is_running = 1;
    for (unsigned i = 0; i < MAX; i++)
        cards[i].index = i;
    return OK;
}

int nvmlShutdown(void)
{
    is_running = 0;
    return OK;
}

const char *nvmlErrorString(int code)
{
    return code == 9 ? "Driver Not Loaded" : code == 15 ? "GPU is lost" : "Some Error";
}

int nvmlSystemGetDriverVersion(char *out, unsigned cap)
{
    snprintf(out, cap, "580.95.05");
    return OK;
}

int nvmlDeviceGetCount_v2(unsigned *out)
{
    *out = count();
    return is_running ? OK : UNINITIALIZED;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, struct nvml_device **out)
{
    unsigned long long v;
    if (index >= count())
        return BAD_ARGUMENT;
    *out = &cards[index];
    return number(&cards[index], "handle", 0, &v);
}

int nvmlDeviceGetName(struct nvml_device *d, char *out, unsigned cap)
{
    char text[128] = "NVIDIA H100 80GB HBM3";
    (void)find((int)d->index, "name", text);
    if (strncmp(text, "error", 5) == 0)
        return atoi(text + 5);
    if (strlen(text) + 1 > cap)
        return TOO_SMALL;
    memcpy(out, text, strlen(text) + 1);
    return OK;
}

int nvmlDeviceGetUUID(struct nvml_device *d, char *out, unsigned cap)
{
    snprintf(out, cap, "GPU-%x1111111-2222-3333-4444-555555555555", d->index + 10);
    return OK;
}

/* used: with what the driver keeps for itself */
int nvmlDeviceGetMemoryInfo(struct nvml_device *d, struct memory *out)
{
    wait_while_held();
    int code = number(d, "mem_total", 85520809984ULL, &out->total);
    if (code != OK)
        return code;
    code = number(d, "mem_used", 15252586496ULL, &out->used);
    out->used += out->used < out->total / 2 ? 600000000 : 0;
    out->free = out->total - out->used;
    return code;
}

#ifndef FAKE_NVML_OLD
int nvmlDeviceGetMemoryInfo_v2(struct nvml_device *d, struct memory_v2 *out)
{
    if (out->version != (sizeof *out | 2u << 24))
        return BAD_ARGUMENT;
    out->reserved = 600000000;
    wait_while_held();
    int code = number(d, "mem_total", 85520809984ULL, &out->total);
    if (code != OK)
        return code;
    code = number(d, "mem_used", 15252586496ULL, &out->used);
    out->free = out->total - out->used - out->reserved;
    return code;
}
#endif

int nvmlDeviceGetUtilizationRates(struct nvml_device *d, struct busy *out)
{
    int code = small(d, "busy", 71, &out->gpu);
    return code != OK ? code : small(d, "mem_busy", 30, &out->memory);
}

int nvmlDeviceGetPowerUsage(struct nvml_device *d, unsigned *out)
{
    return small(d, "power", 262000, out);
}

int nvmlDeviceGetEnforcedPowerLimit(struct nvml_device *d, unsigned *out)
{
    return small(d, "power_limit", 700000, out);
}

int nvmlDeviceGetTemperature(struct nvml_device *d, int sensor, unsigned *out)
{
    return sensor == 0 ? small(d, "temp", 58, out) : BAD_ARGUMENT;
}

int nvmlDeviceGetTemperatureThreshold(struct nvml_device *d, int kind, unsigned *out)
{
    return kind == 1 ? small(d, "slowdown", 87, out) : NOT_SUPPORTED;
}

int nvmlDeviceGetClockInfo(struct nvml_device *d, int kind, unsigned *out)
{
    return kind == 1   ? small(d, "sm_mhz", 1755, out)
           : kind == 2 ? small(d, "mem_mhz", 2619, out)
                       : NOT_SUPPORTED;
}

int nvmlDeviceGetMaxClockInfo(struct nvml_device *d, int kind, unsigned *out)
{
    return kind == 1 ? small(d, "sm_max_mhz", 1980, out) : NOT_SUPPORTED;
}

#ifndef FAKE_NVML_OLD
int nvmlDeviceGetCurrentClocksThrottleReasons(struct nvml_device *d, unsigned long long *out)
{
    return number(d, "throttle", 0, out);
}

/* refreshed every 100 ms, as the driver's */
int nvmlDeviceGetTotalEnergyConsumption(struct nvml_device *d, unsigned long long *out)
{
    struct timespec now;
    unsigned power = 0;
    clock_gettime(CLOCK_MONOTONIC, &now);
    int code = nvmlDeviceGetPowerUsage(d, &power);
    unsigned long long tenths =
        (unsigned long long)now.tv_sec * 10 + (unsigned long long)now.tv_nsec / 100000000;
    code = code != OK ? code : number(d, "energy", tenths * power / 10, out);
    return code;
}

int nvmlDeviceGetCurrPcieLinkGeneration(struct nvml_device *d, unsigned *out)
{
    return small(d, "pcie_gen", 5, out);
}

int nvmlDeviceGetMaxPcieLinkGeneration(struct nvml_device *d, unsigned *out)
{
    return small(d, "pcie_max_gen", 5, out);
}

int nvmlDeviceGetCurrPcieLinkWidth(struct nvml_device *d, unsigned *out)
{
    return small(d, "pcie_width", 16, out);
}

int nvmlDeviceGetMaxPcieLinkWidth(struct nvml_device *d, unsigned *out)
{
    return small(d, "pcie_max_width", 16, out);
}
#endif

/* one process at most */
int nvmlDeviceGetComputeRunningProcesses_v3(struct nvml_device *d, unsigned *n, struct process *out)
{
    char text[128];
    unsigned long long used = 0;
    unsigned pid = 0;
    int has_one = find((int)d->index, "process", text);
    if (has_one && strncmp(text, "error", 5) == 0)
        return atoi(text + 5);
    if (has_one && *n < 1)
        return TOO_SMALL;
    *n = has_one ? 1 : 0;
    if (has_one && sscanf(text, "%u %llu", &pid, &used) == 2)
        out[0] = (struct process){.pid = pid, .used = used};
    return OK;
}
