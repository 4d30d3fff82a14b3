/* The slot of context_lab.h on one rank: documents and spans, their split, and a layer of heads. */
#ifndef CS_TESTS_BENCH_CONTEXT_SLOT_H
#define CS_TESTS_BENCH_CONTEXT_SLOT_H

#include "bench/context_lab.h"
#include "support/planned.h"
#include "worker/layer/layers.h"
#include "worker/slot/split.h"

struct cs_context_slot {
    struct cs_test_planned made;
    struct cs_input_tables *tables;
    struct cs_input input; /* placed */
    struct cs_layer_model layer;
    int32_t *doc, *pos, *item, *segment, *ids;
    int64_t pairs;
};

void cs_context_slot_open(struct cs_context_slot *slot, const struct cs_context_lab *lab,
                          struct cs_device *device, int rank);
void cs_context_slot_close(struct cs_context_slot *slot);

#endif
