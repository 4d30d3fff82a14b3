/* GPUs and CPU ranks of the daemon's node into the store. What makes no sense is unknown. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "console/store/store.h"
#include "core/base/str.h"
#include "core/wire/wire.h"

static double share(const json_t *value)
{
    double v;
    return cs_json_to_num(value, &v) && v >= 0 && v <= 1 ? v : (double)NAN;
}

static int64_t known(const json_t *o, const char *key)
{
    const json_t *value = json_object_get(o, key);
    return json_is_integer(value) && json_integer_value(value) >= 0 ? json_integer_value(value)
                                                                    : -1;
}

static void read_history(const json_t *list, struct cs_store_gpu *out)
{
    size_t n = json_array_size(list),
           from = n > CS_STORE_GPU_HISTORY ? n - CS_STORE_GPU_HISTORY : 0;
    for (size_t i = from; i < n; i++)
        out->history[out->n_history++] = share(json_array_get(list, i));
}

static void read_processes(const json_t *list, struct cs_store_gpu *out)
{
    out->n_processes = json_is_array(list) ? 0 : -1;
    for (size_t i = 0; i < json_array_size(list) && i < CS_STORE_GPU_PROCESSES; i++) {
        const json_t *o = json_array_get(list, i);
        struct cs_store_gpu_process *p = &out->process[out->n_processes++];
        p->pid = known(o, "pid");
        p->mem_bytes = known(o, "mem_bytes");
        cs_str_copy(p->command, sizeof p->command, cs_msg_str(o, "command", ""));
    }
}

static void read_gpu(const json_t *o, struct cs_store_gpu *out)
{
    const struct {
        int64_t *to;
        const char *key;
    } ints[] = {
        {&out->mem_bytes,      "mem_bytes"     },
        {&out->mem_used_bytes, "mem_used_bytes"},
        {&out->power_mw,       "power_mw"      },
        {&out->power_limit_mw, "power_limit_mw"},
        {&out->temp_c,         "temp_c"        },
        {&out->slowdown_c,     "slowdown_c"    },
        {&out->sm_mhz,         "sm_mhz"        },
        {&out->sm_max_mhz,     "sm_max_mhz"    },
        {&out->mem_mhz,        "mem_mhz"       },
        {&out->energy_mj,      "energy_mj"     },
        {&out->pcie_gen,       "pcie_gen"      },
        {&out->pcie_max_gen,   "pcie_max_gen"  },
        {&out->pcie_width,     "pcie_width"    },
        {&out->pcie_max_width, "pcie_max_width"},
    };

    for (size_t i = 0; i < CS_ARRAY_LEN(ints); i++)
        *ints[i].to = known(o, ints[i].key);
    cs_str_copy(out->name, sizeof out->name, cs_msg_str(o, "name", "?"));
    cs_str_copy(out->model, sizeof out->model, cs_msg_str(o, "model", "?"));
    cs_str_copy(out->error, sizeof out->error, cs_msg_str(o, "error", ""));
    cs_str_copy(out->throttle, sizeof out->throttle, cs_msg_str(o, "throttle", ""));
    out->busy = share(json_object_get(o, "busy"));
    out->mem_busy = share(json_object_get(o, "mem_busy"));
    out->job = known(o, "job");
    out->rank = known(o, "rank");
    cs_str_copy(out->owner, sizeof out->owner, cs_msg_str(o, "owner", ""));
    read_history(cs_msg_arr(o, "history"), out);
    read_processes(json_object_get(o, "processes"), out);
}

void cs_store_gpus_message(struct cs_store *store, const json_t *msg)
{
    struct cs_store_gpus *gpus = &store->gpus;
    const json_t *devices = cs_msg_arr(msg, "devices");
    free(gpus->gpu);
    *gpus = (struct cs_store_gpus){.is_known = true};
    cs_str_copy(gpus->note, sizeof gpus->note, cs_msg_str(msg, "gpus_note", ""));
    gpus->gpu = calloc(json_array_size(devices) + 1, sizeof *gpus->gpu);
    CS_ASSERT(gpus->gpu);
    for (size_t i = 0; i < json_array_size(devices) && gpus->n < CS_STORE_GPUS; i++) {
        const json_t *o = json_array_get(devices, i);
        if (cs_str_starts(cs_msg_str(o, "name", ""), "cuda:") ||
            cs_str_starts(cs_msg_str(o, "name", ""), "cpu:"))
            read_gpu(o, &gpus->gpu[gpus->n++]);
    }
}
