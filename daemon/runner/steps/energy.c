/* Energy of the job's GPUs: differences of the drivers' counters between rows of the journal.
 *
 * What is counted is the whole board of every GPU that has a rank: processors, memory, the wait for
 * data and for other ranks, a checkpoint that falls into the step. Not counted: the host, the
 * network, cooling. The counter moves every 20..100 ms, so that the row of a shorter step may hold
 * nothing or the energy of several; their sum is right. */
#include "runner/steps/energy.h"

#include <stdlib.h>
#include <string.h>

#include "gpus/gpus.h"
#include "runner/state/records.h"

struct cs_energy {
    struct cs_gpus *gpus;
    int32_t n;
    int64_t last_mj[CS_GPUS_MAX];
};

void cs_energy_begin(struct cs_runner *r)
{
    struct cs_err err = {0};
    if (strcmp(r->generation.cluster.device->name, "cpu") == 0 || r->energy)
        return;
    struct cs_energy *energy = calloc(1, sizeof *energy);
    CS_ASSERT(energy);
    r->energy = energy;
    if (cs_gpus_open(NULL, &energy->gpus, &err) != CS_OK)
        cs_run_note(r, CS_INFO, "energy is not measured: %s", err.text);
    energy->n = r->generation.n_ranks < CS_GPUS_MAX ? r->generation.n_ranks : 0;
    for (int32_t i = 0; i < energy->n; i++)
        energy->last_mj[i] = cs_gpus_energy_mj(energy->gpus, r->generation.device[i].index);
}

int64_t cs_energy_take(struct cs_runner *r)
{
    struct cs_energy *energy = r->energy;
    int64_t sum_mj = 0;
    bool is_known = energy && energy->n > 0;
    for (int32_t i = 0; energy && i < energy->n; i++) {
        int64_t now_mj = cs_gpus_energy_mj(energy->gpus, r->generation.device[i].index),
                last_mj = energy->last_mj[i];
        energy->last_mj[i] = now_mj;
        if (now_mj == CS_GPU_UNKNOWN || last_mj == CS_GPU_UNKNOWN || now_mj < last_mj)
            is_known = false; /* also a counter that began anew */
        else
            sum_mj += now_mj - last_mj;
    }
    return is_known ? sum_mj : -1;
}

int64_t cs_energy_mem_bytes(struct cs_runner *r)
{
    struct cs_energy *energy = r->energy;
    int64_t most = 0;
    cs_gpus_sample(energy->gpus);
    for (int32_t i = 0; i < energy->n; i++) {
        const int32_t index = r->generation.device[i].index;
        const struct cs_gpu *gpu = index >= 0 && index < cs_gpus_count(energy->gpus)
                                       ? cs_gpus_at(energy->gpus, index)
                                       : NULL;
        most = gpu && gpu->mem_used_bytes > most ? gpu->mem_used_bytes : most;
    }
    return most;
}

void cs_energy_end(struct cs_runner *r)
{
    if (!r->energy)
        return;
    cs_gpus_close(r->energy->gpus);
    free(r->energy);
    r->energy = NULL;
}
