/* Private to gpus.c (what there is) and gpus_lease.c (who has it). */
#ifndef CS_SERVER_GPUS_PARTS_H
#define CS_SERVER_GPUS_PARTS_H

#include "gpus/gpus.h"
#include "server/gpus.h"

struct cs_node {
    struct cs_gpus *gpus; /* NULL: none */
    int32_t n_gpus;       /* offered: cuda:0 .. */
    struct cs_here here;
    char note[512];
    int64_t sampled_ns, second_ns; /* last reading, last one of the watch */
    int64_t n_history;
    int8_t history[CS_GPUS_MAX][120]; /* busy percent by n_history, -1 unknown */
};

/* the job that holds a GPU and the rank on it; NULL: nobody */
const struct cs_job *cs_node_holder(const struct cs_server *server, int32_t gpu, int64_t *rank);

#endif
