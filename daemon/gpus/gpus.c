/* Reads the node's GPUs with NVML, opened with dlopen. Prototypes are our own: the toolkit's header is
 * not everywhere, and the interface is stable by its own rules (a changed function gets another
 * name). */
#include "gpus/gpus.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "core/base/system/environment.h"

typedef struct nvml_device *device; /* opaque */

enum { OK = 0, NOT_SUPPORTED = 3, LOST = 15, NAME_BYTES = 96 };

enum { CLOCK_SM = 1, CLOCK_MEM = 2, SENSOR_GPU = 0, THRESHOLD_SLOWDOWN = 1 };

struct memory {
    unsigned long long total, free, used;
};

struct memory_v2 { /* the same without what the driver keeps for itself */
    unsigned version;
    unsigned long long total, reserved, free, used;
};

struct busy {
    unsigned gpu, memory;
};

struct process { /* of the second and third version of the call */
    unsigned pid;
    unsigned long long used;
    unsigned gpu_instance, compute_instance;
};

typedef int get_u32(device, unsigned *);
typedef int get_u64(device, unsigned long long *);
typedef int get_of_kind(device, int kind, unsigned *);
typedef int get_text(device, char *, unsigned);

struct nvml {
    int (*init)(void);
    int (*shutdown)(void);
    const char *(*error)(int);
    int (*driver)(char *, unsigned);
    int (*count)(unsigned *);
    int (*by_index)(unsigned, device *);
    get_text *name, *uuid;
    int (*memory)(device, struct memory *);
    int (*memory_v2)(device, struct memory_v2 *);
    int (*busy)(device, struct busy *);
    get_u32 *power, *power_limit, *pcie_gen, *pcie_max_gen, *pcie_width, *pcie_max_width;
    get_of_kind *temperature, *threshold, *clock, *max_clock;
    get_u64 *throttle, *energy;
    int (*processes)(device, unsigned *, struct process *);
};

#define AT(field) offsetof(struct nvml, field)

static const struct {
    const char *name, *older; /* tried when there is no name */
    size_t at;
    bool is_needed;
} functions[] = {
    {"nvmlInit_v2",                             NULL,                                        AT(init),           true },
    {"nvmlShutdown",                            NULL,                                        AT(shutdown),       true },
    {"nvmlErrorString",                         NULL,                                        AT(error),          false},
    {"nvmlSystemGetDriverVersion",              NULL,                                        AT(driver),         false},
    {"nvmlDeviceGetCount_v2",                   NULL,                                        AT(count),          true },
    {"nvmlDeviceGetHandleByIndex_v2",           NULL,                                        AT(by_index),       true },
    {"nvmlDeviceGetName",                       NULL,                                        AT(name),           true },
    {"nvmlDeviceGetUUID",                       NULL,                                        AT(uuid),           false},
    {"nvmlDeviceGetMemoryInfo",                 NULL,                                        AT(memory),         false},
    {"nvmlDeviceGetMemoryInfo_v2",              NULL,                                        AT(memory_v2),      false},
    {"nvmlDeviceGetUtilizationRates",           NULL,                                        AT(busy),           false},
    {"nvmlDeviceGetPowerUsage",                 NULL,                                        AT(power),          false},
    {"nvmlDeviceGetEnforcedPowerLimit",         NULL,                                        AT(power_limit),    false},
    {"nvmlDeviceGetTemperature",                NULL,                                        AT(temperature),    false},
    {"nvmlDeviceGetTemperatureThreshold",       NULL,                                        AT(threshold),      false},
    {"nvmlDeviceGetClockInfo",                  NULL,                                        AT(clock),          false},
    {"nvmlDeviceGetMaxClockInfo",               NULL,                                        AT(max_clock),      false},
    {"nvmlDeviceGetCurrentClocksEventReasons",  "nvmlDeviceGetCurrentClocksThrottleReasons",
     AT(throttle),                                                                                               false},
    {"nvmlDeviceGetTotalEnergyConsumption",     NULL,                                        AT(energy),         false},
    {"nvmlDeviceGetCurrPcieLinkGeneration",     NULL,                                        AT(pcie_gen),       false},
    {"nvmlDeviceGetMaxPcieLinkGeneration",      NULL,                                        AT(pcie_max_gen),   false},
    {"nvmlDeviceGetCurrPcieLinkWidth",          NULL,                                        AT(pcie_width),     false},
    {"nvmlDeviceGetMaxPcieLinkWidth",           NULL,                                        AT(pcie_max_width), false},
    {"nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetComputeRunningProcesses_v2",
     AT(processes),                                                                                              false},
};

#undef AT

struct cs_gpus {
    void *library;
    bool is_running; /* init succeeded */
    struct nvml nvml;
    char driver[NAME_BYTES];
    int32_t n;
    device device[CS_GPUS_MAX];
    struct cs_gpu gpu[CS_GPUS_MAX];
};

static enum cs_status find_functions(struct cs_gpus *gpus, struct cs_err *err)
{
    for (size_t i = 0; i < CS_ARRAY_LEN(functions); i++) {
        void *symbol = dlsym(gpus->library, functions[i].name);
        if (!symbol && functions[i].older)
            symbol = dlsym(gpus->library, functions[i].older);
        if (!symbol && functions[i].is_needed)
            return cs_fail(err, CS_NOT_FOUND, "NVML has no %s: its driver is too old",
                           functions[i].name);
        memcpy((char *)&gpus->nvml + functions[i].at, &symbol, sizeof symbol);
    }
    return CS_OK;
}

static const char *reason(const struct nvml *nvml, int code)
{
    const char *text = nvml->error ? nvml->error(code) : NULL;
    return text ? text : "unknown error";
}

/* --- one GPU ---------------------------------------------------------------------------------- */

static int64_t u32(get_u32 *get, device d)
{
    unsigned v = 0;
    return get && get(d, &v) == OK ? (int64_t)v : CS_GPU_UNKNOWN;
}

static int64_t u64(get_u64 *get, device d)
{
    unsigned long long v = 0;
    return get && get(d, &v) == OK && v <= INT64_MAX ? (int64_t)v : CS_GPU_UNKNOWN;
}

static int64_t of_kind(get_of_kind *get, device d, int kind)
{
    unsigned v = 0;
    return get && get(d, kind, &v) == OK ? (int64_t)v : CS_GPU_UNKNOWN;
}

static int64_t bytes(unsigned long long v)
{
    return v <= INT64_MAX ? (int64_t)v : CS_GPU_UNKNOWN; /* all bits set: not available */
}

static void read_processes(const struct nvml *nvml, device d, struct cs_gpu *out)
{
    struct process list[CS_GPU_PROCESSES];
    unsigned n = CS_GPU_PROCESSES;
    out->n_processes = -1;
    memset(list, 0, sizeof list);
    if (!nvml->processes || nvml->processes(d, &n, list) != OK)
        return;
    out->n_processes = (int32_t)(n < CS_GPU_PROCESSES ? n : CS_GPU_PROCESSES);
    for (int32_t i = 0; i < out->n_processes; i++)
        out->process[i] =
            (struct cs_gpu_process){.pid = list[i].pid, .mem_bytes = bytes(list[i].used)};
}

static int read_memory(const struct nvml *nvml, device d, struct memory *out)
{
    struct memory_v2 v2 = {.version = sizeof v2 | 2u << 24};
    if (nvml->memory_v2 && nvml->memory_v2(d, &v2) == OK) {
        *out = (struct memory){.total = v2.total, .free = v2.free, .used = v2.used};
        return OK;
    }
    return nvml->memory ? nvml->memory(d, out) : NOT_SUPPORTED;
}

/* The memory question tells whether the card is there at all. */
static void read_gpu(const struct nvml *nvml, device d, struct cs_gpu *out)
{
    struct memory memory = {0};
    struct busy busy = {0};
    int code = read_memory(nvml, d, &memory);
    bool has_memory = code == OK;
    bool has_busy = nvml->busy && nvml->busy(d, &busy) == OK;
    out->error[0] = '\0';
    if (code == LOST)
        snprintf(out->error, sizeof out->error, "%s", reason(nvml, code));
    out->mem_bytes = has_memory ? bytes(memory.total) : CS_GPU_UNKNOWN;
    out->mem_used_bytes = has_memory ? bytes(memory.used) : CS_GPU_UNKNOWN;
    out->busy_pct = has_busy && busy.gpu <= 100 ? (int64_t)busy.gpu : CS_GPU_UNKNOWN;
    out->mem_busy_pct = has_busy && busy.memory <= 100 ? (int64_t)busy.memory : CS_GPU_UNKNOWN;
    out->power_mw = u32(nvml->power, d);
    out->power_limit_mw = u32(nvml->power_limit, d);
    out->temp_c = of_kind(nvml->temperature, d, SENSOR_GPU);
    out->slowdown_c = of_kind(nvml->threshold, d, THRESHOLD_SLOWDOWN);
    out->sm_mhz = of_kind(nvml->clock, d, CLOCK_SM);
    out->sm_max_mhz = of_kind(nvml->max_clock, d, CLOCK_SM);
    out->mem_mhz = of_kind(nvml->clock, d, CLOCK_MEM);
    out->throttle = u64(nvml->throttle, d);
    out->energy_mj = u64(nvml->energy, d);
    out->pcie_gen = u32(nvml->pcie_gen, d);
    out->pcie_max_gen = u32(nvml->pcie_max_gen, d);
    out->pcie_width = u32(nvml->pcie_width, d);
    out->pcie_max_width = u32(nvml->pcie_max_width, d);
    read_processes(nvml, d, out);
}

/* --- which GPUs ------------------------------------------------------------------------------- */

/* One entry of the list: its GPU, -1 not valid. */
static int32_t visible_one(const char *entry, size_t len, const char *const *uuids, int32_t n)
{
    if (len > 0 && strspn(entry, "0123456789") >= len) {
        long v = strtol(entry, NULL, 10);
        return v < n ? (int32_t)v : -1;
    }
    int32_t found = -1;
    for (int32_t i = 0; len > 0 && i < n; i++) {
        if (strncasecmp(uuids[i], entry, len) != 0)
            continue;
        if (found >= 0)
            return -1; /* more than one begins so */
        found = i;
    }
    return found;
}

int32_t cs_gpus_visible(const char *list, const char *const *uuids, int32_t n,
                        int32_t out[CS_GPUS_MAX])
{
    int32_t used = 0;
    n = n < CS_GPUS_MAX ? n : CS_GPUS_MAX;
    for (int32_t i = 0; !list && i < n; i++)
        out[used++] = i;
    for (const char *at = list; at && *at && used < n;) {
        at += strspn(at, " \t");
        size_t len = strcspn(at, ", \t");
        int32_t gpu = visible_one(at, len, uuids, n);
        for (int32_t k = 0; k < used && gpu >= 0; k++)
            gpu = out[k] == gpu ? -1 : gpu;
        if (gpu < 0)
            break;
        out[used++] = gpu;
        at += len;
        at += strspn(at, ", \t");
    }
    return used;
}

static enum cs_status find_gpus(struct cs_gpus *gpus, struct cs_err *err)
{
    const struct nvml *nvml = &gpus->nvml;
    const char *uuids[CS_GPUS_MAX];
    char text[CS_GPUS_MAX][NAME_BYTES] = {{0}};
    device all[CS_GPUS_MAX] = {0};
    int32_t visible[CS_GPUS_MAX];
    unsigned n = 0;
    int code = nvml->count(&n);
    if (code != OK)
        return cs_fail(err, CS_NOT_FOUND, "NVML does not count the GPUs: %s", reason(nvml, code));
    n = n < CS_GPUS_MAX ? n : CS_GPUS_MAX;
    for (unsigned i = 0; i < n; i++) {
        uuids[i] = text[i];
        if (nvml->by_index(i, &all[i]) == OK && nvml->uuid)
            (void)!nvml->uuid(all[i], text[i], NAME_BYTES);
    }
    gpus->n = cs_gpus_visible(getenv("CUDA_VISIBLE_DEVICES"), uuids, (int32_t)n, visible);
    for (int32_t k = 0; k < gpus->n; k++) {
        struct cs_gpu *gpu = &gpus->gpu[k];
        gpus->device[k] = all[visible[k]];
        gpu->index = visible[k];
        snprintf(gpu->uuid, sizeof gpu->uuid, "%s", text[visible[k]]);
        if (!gpus->device[k] || nvml->name(gpus->device[k], gpu->name, NAME_BYTES) != OK)
            snprintf(gpu->name, sizeof gpu->name, "unknown GPU");
    }
    if (gpus->n == 0)
        return cs_fail(err, CS_NOT_FOUND,
                       n == 0 ? "the driver knows no GPU" : "CUDA_VISIBLE_DEVICES hides every GPU");
    return CS_OK;
}

static enum cs_status start(struct cs_gpus *gpus, const char *library, struct cs_err *err)
{
    gpus->library = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    if (!gpus->library)
        return cs_fail(err, CS_NOT_FOUND, "no NVIDIA driver: %s", dlerror());
    CS_TRY(find_functions(gpus, err));
    int code = gpus->nvml.init();
    if (code != OK)
        return cs_fail(err, CS_NOT_FOUND, "NVML does not start: %s", reason(&gpus->nvml, code));
    gpus->is_running = true;
    if (!gpus->nvml.driver || gpus->nvml.driver(gpus->driver, NAME_BYTES) != OK)
        gpus->driver[0] = '\0';
    return find_gpus(gpus, err);
}

enum cs_status cs_gpus_open(const char *library, struct cs_gpus **out, struct cs_err *err)
{
    const char *given = library ? library : cs_variable_text(CS_VAR_NVML);
    *out = NULL;
    if (given && strcmp(given, "none") == 0)
        return cs_fail(err, CS_NOT_FOUND, "GPUs are switched off by %s",
                       cs_variable_row(CS_VAR_NVML)->name);
    struct cs_gpus *gpus = calloc(1, sizeof *gpus);
    if (!gpus)
        return cs_fail(err, CS_NO_MEMORY, "no memory for the list of GPUs");
    enum cs_status status = start(gpus, given ? given : "libnvidia-ml.so.1", err);
    if (status != CS_OK) {
        cs_gpus_close(gpus);
        return status;
    }
    cs_gpus_sample(gpus);
    *out = gpus;
    return CS_OK;
}

void cs_gpus_close(struct cs_gpus *gpus)
{
    if (!gpus)
        return;
    if (gpus->is_running)
        (void)!gpus->nvml.shutdown();
    if (gpus->library)
        dlclose(gpus->library);
    free(gpus);
}

int32_t cs_gpus_count(const struct cs_gpus *gpus)
{
    return gpus ? gpus->n : 0;
}

const struct cs_gpu *cs_gpus_at(const struct cs_gpus *gpus, int32_t i)
{
    return &gpus->gpu[i];
}

const char *cs_gpus_driver(const struct cs_gpus *gpus)
{
    return gpus ? gpus->driver : "";
}

/* A card without a handle is asked nothing: the library would read through the pointer. */
void cs_gpus_sample(struct cs_gpus *gpus)
{
    static const struct nvml none = {0};
    for (int32_t i = 0; i < cs_gpus_count(gpus); i++) {
        read_gpu(gpus->device[i] ? &gpus->nvml : &none, gpus->device[i], &gpus->gpu[i]);
        if (!gpus->device[i])
            snprintf(gpus->gpu[i].error, sizeof gpus->gpu[i].error, "the driver gives no handle");
    }
}

int64_t cs_gpus_energy_mj(const struct cs_gpus *gpus, int32_t i)
{
    if (!gpus || i < 0 || i >= gpus->n || !gpus->device[i])
        return CS_GPU_UNKNOWN;
    return u64(gpus->nvml.energy, gpus->device[i]);
}

void cs_gpu_throttle_text(int64_t bits, char *out, size_t cap)
{
    static const struct {
        int64_t bit;
        const char *text;
    } reasons[] = {
        {0x04, "power cap"        },
        {0x08, "hardware slowdown"},
        {0x20, "thermal"          },
        {0x40, "hardware thermal" },
        {0x80, "power brake"      },
    };

    size_t used = 0;
    out[0] = '\0';
    for (size_t i = 0; bits != CS_GPU_UNKNOWN && i < CS_ARRAY_LEN(reasons) && used < cap; i++) {
        if (!(bits & reasons[i].bit))
            continue;
        int n = snprintf(out + used, cap - used, "%s%s", used ? ", " : "", reasons[i].text);
        used += n > 0 ? (size_t)n : 0;
    }
}
