/* The node's NVIDIA GPUs as their driver tells of them, through NVML opened at run time. Reading
 * only: no function that changes clocks, power limits, modes or partitions is even looked up, and
 * nothing here needs privileges or the CUDA toolkit.
 *
 * Every value has a validity of its own: CS_GPU_UNKNOWN where this card, this driver or this moment
 * does not give it. Figures are of the whole board. */
#ifndef CS_GPUS_GPUS_H
#define CS_GPUS_GPUS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/status.h"

enum { CS_GPUS_MAX = 64, CS_GPU_PROCESSES = 32 };

#define CS_GPU_UNKNOWN INT64_MIN

struct cs_gpu_process {
    int64_t pid, mem_bytes;
};

struct cs_gpu {
    int32_t index; /* among all GPUs of the node, in the order of their PCI addresses */
    char name[96], uuid[96];
    char error[96]; /* why it cannot be read at all, e.g. that it fell off the bus; "" fine */
    int64_t mem_bytes, mem_used_bytes;
    int64_t busy_pct;     /* share of the driver's last window with a kernel running, 0..100 */
    int64_t mem_busy_pct; /* likewise with memory being read or written */
    int64_t power_mw, power_limit_mw;
    int64_t temp_c, slowdown_c; /* slowdown_c: where the card slows itself down */
    int64_t sm_mhz, sm_max_mhz, mem_mhz;
    int64_t throttle;  /* bits of cs_gpu_throttle_text */
    int64_t energy_mj; /* counted since the driver was loaded; moves every 20..100 ms */
    int64_t pcie_gen, pcie_max_gen, pcie_width, pcie_max_width;
    int32_t n_processes; /* -1 unknown */
    struct cs_gpu_process process[CS_GPU_PROCESSES];
};

struct cs_gpus;

/* Opens NVML and finds the GPUs a CUDA program started here would see, in its numbering:
 * CUDA_VISIBLE_DEVICES chooses and orders. library NULL: that of the environment or the driver's.
 * CS_NOT_FOUND with the reason: no library, no driver, no GPU. */
enum cs_status cs_gpus_open(const char *library, struct cs_gpus **out,
                            struct cs_err *err) CS_NODISCARD;
void cs_gpus_close(struct cs_gpus *gpus);          /* accepts NULL */
int32_t cs_gpus_count(const struct cs_gpus *gpus); /* 0 for NULL */
const struct cs_gpu *cs_gpus_at(const struct cs_gpus *gpus, int32_t i);
const char *cs_gpus_driver(const struct cs_gpus *gpus); /* its version, "" unknown */

/* Reads every value of every GPU anew; accepts NULL. */
void cs_gpus_sample(struct cs_gpus *gpus);
/* The energy counter alone, now; CS_GPU_UNKNOWN where there is none. */
int64_t cs_gpus_energy_mj(const struct cs_gpus *gpus, int32_t i);

/* "thermal, power cap" of throttle bits, "" none. Reasons that are no trouble (idle, clocks as the
 * application set them) are left out. */
void cs_gpu_throttle_text(int64_t bits, char *out, size_t cap);

/* What CUDA_VISIBLE_DEVICES makes of n GPUs: out[k] is the GPU behind cuda:k. Entries are numbers
 * or beginnings of UUIDs ("GPU-8f..."); as for CUDA the first that is not valid ends the list.
 * NULL: all. Returns how many. */
int32_t cs_gpus_visible(const char *list, const char *const *uuids, int32_t n,
                        int32_t out[CS_GPUS_MAX]);

#endif
