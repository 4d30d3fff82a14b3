/* Private to node.c (what there is) and lease.c (who has it). */
#ifndef CS_SERVER_NODE_PRIVATE_H
#define CS_SERVER_NODE_PRIVATE_H

#include "gpus/gpus.h"
#include "server/node/gpu_watch.h"
#include "server/node/node.h"

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
    int64_t read_ns;    /* the last reading */
    int64_t asked_ns;   /* asked for one, 0: not */
    int64_t second_ns;  /* the last reading of the watch was due */
    bool is_second_due; /* the next reading is one of the watch */
    bool is_answering;  /* what waits is answered now, whatever the age of the reading */
    int64_t n_history;
    int8_t history[CS_GPUS_MAX][120]; /* busy percent by n_history, -1 unknown */
};

/* the job that holds a GPU and the rank on it; NULL: nobody */
const struct cs_job *cs_node_holder(const struct cs_server *server, int32_t gpu, int64_t *rank);

#endif
