/* Private to node.c (what there is) and lease.c (who has it). */
#ifndef CS_SERVER_NODE_PRIVATE_H
#define CS_SERVER_NODE_PRIVATE_H

#include "gpus/gpus.h"
#include "server/node/gpu_watch.h"
#include "server/node/node.h"

/* A look at the process of a CPU rank: its load is what lies between two. */
struct cs_cpu_rank {
    int64_t pid, seen_ns, used_ns;
    double busy; /* share of a core, 0..1, NaN: seen once */
};

/* What this node has. Readings are of the n_shown GPUs in the order of their PCI addresses, the first
 * n_gpus of them are offered. */
struct cs_node {
    struct cs_gpu_watch *watch; /* NULL: no GPUs */
    struct event *on_reading;
    int32_t n_gpus, n_shown; /* offered: cuda:0 ..; all there are */
    char driver[96];
    struct cs_gpu gpu[CS_GPUS_MAX]; /* the last reading */
    struct cs_here here;
    char note[512];
    int64_t read_ns;         /* the last reading */
    int64_t asked_ns;        /* asked for one, 0: not */
    int64_t second_ns;       /* the last reading of the watch was due */
    bool is_second_due;      /* the next reading is one of the watch */
    bool is_answering;       /* what waits is answered now, whatever the age of the reading */
    struct cs_cpu_rank *cpu; /* (n_cpu) the last looks at the CPU ranks in use */
    int64_t n_cpu;
    int64_t n_history;
    int8_t history[CS_GPUS_MAX][120]; /* busy percent by n_history, -1 unknown */
};

/* the job that holds a GPU and the rank on it; NULL: nobody */
const struct cs_job *cs_node_holder(const struct cs_server *server, int32_t gpu, int64_t *rank);

/* sets job, rank, job_name and owner of a device; job NULL: nobody holds it */
void cs_node_set_holder(json_t *device, const struct cs_job *job, int64_t rank);

/* cpu_ranks.c */
void cs_node_add_cpu(const struct cs_server *server, json_t *devices);
json_t *cs_node_command(int64_t pid); /* what a process is called, null: not seen from here */

#endif
