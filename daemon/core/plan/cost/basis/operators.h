/* What operators of a layer take however few rows it has. A device has to be told of each, to fill up and to run dry
 * again: layers of small models take little else. What they take beside grows with the rows, and says a roofline. */
#ifndef CS_PLAN_COST_OPERATORS_H
#define CS_PLAN_COST_OPERATORS_H

#include "core/model/graph.h"
#include "core/plan/cluster.h"
#include "core/plan/cost/basis/profile.h"

/* Of a step, beside its layers: gradients to 0, their squares and what the host waits to read of them, the optimizer. */
enum { CS_STEP_OPERATORS = 6 };

struct cs_layer_operators {
    int32_t fwd, bwd_input, bwd_weight;
};

/* Operators that the worker runs for a layer on one rank with rows (daemon/worker/model): forward, for gradients that
 * pass, for weights that train, whatever is frozen. Exchanges between ranks are none. */
struct cs_layer_operators cs_layer_operators(const struct cs_graph *graph,
                                             const struct cs_layer *layer);
/* What they take on the device, of the passes that the layer has as it is frozen. */
struct cs_layer_cost cs_operators_cost(const struct cs_graph *graph, const struct cs_layer *layer,
                                       const struct cs_device_class *device);

#endif
