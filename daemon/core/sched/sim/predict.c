/* What actions cost on a class of devices, and the step time and bubbles that follow. */
#include "core/sched/sim/predict.h"
#include "core/base/units.h"
#include "core/plan/cost/basis/bytes.h"
#include "core/plan/cost/basis/operators.h"
#include "core/plan/cost/links/edges.h"
#include "core/plan/cost/links/links.h"

#include "core/sched/lower/lower.h"
#include "core/sched/proof/limits.h"
#include "core/sched/sim/forecast.h"
#include "core/sched/sim/overlap.h"
#include "core/sched/traits.h"

static int64_t bytes_ns(int64_t bytes, int64_t bytes_per_s)
{
    return bytes_per_s > 0 ? (int64_t)((double)bytes * 1e9 / (double)bytes_per_s) : 0;
}

/* Slots are prepared once for all stages that a branch has on the rank; measured, else not counted.
 * An accelerator works on the first slot while the host places the others. */
static int64_t prepare_ns(const struct cs_program *program, int rank,
                          const struct cs_device_class *device)
{
    const struct cs_plan *plan = program->plan;
    int64_t sum = 0, most = 0;
    for (int32_t s = 0; s < plan->n_stages; s++) {
        const struct cs_stage *stage = &plan->stages[s];
        if (s > 0 && stage->branch != plan->stages[s - 1].branch) {
            sum += most;
            most = 0;
        }
        if (stage->rank == rank && stage->prepare_ns > most)
            most = stage->prepare_ns;
    }
    return (sum + most) * (device->mem_bytes > 0 ? 1 : program->n_slots);
}

/* what a rank does in a step before its first action */
static int64_t begin_ns(const struct cs_program *program, int rank,
                        const struct cs_device_class *device)
{
    int64_t ns = prepare_ns(program, rank, device);
    for (int32_t s = 0; s < program->plan->n_stages; s++)
        if (program->plan->stages[s].rank == rank)
            ns += program->plan->stages[s].clear_ns;
    return ns;
}

/* The optimizer, of which each rank with the weights does its part, and what else a step does beside slots; all
 * ranks do that at the same time, so it counts where they end together. Not measured: it reads and
 * writes gradients, moments and weights of what trains, bound by memory, with a few operators. */
static int64_t step_ns(const struct cs_program *program, int rank,
                       const struct cs_device_class *device)
{
    const struct cs_plan *plan = program->plan;
    int64_t bytes = 0, update_ns = 0;
    for (int32_t s = 0; s < plan->n_stages; s++) {
        const struct cs_stage *stage = &plan->stages[s];
        if (stage->rank != rank)
            continue;
        update_ns += stage->update_ns / cs_plan_holders(plan, rank);
        if (stage->update_ns == 0)
            bytes += 2 * stage->state_bytes;
    }
    if (bytes > 0)
        update_ns += CS_STEP_OPERATORS * device->operator_ns;
    return begin_ns(program, rank, device) + update_ns + bytes_ns(bytes, device->bytes_per_s);
}

static int64_t norm_ns(const struct cs_program *program, int rank,
                       const struct cs_device_class *device)
{
    const struct cs_plan *plan = program->plan;
    int64_t ns = cs_plan_world(plan) > 1 ? device->link_latency_ns : 0;
    for (int32_t s = 0; s < plan->n_stages; s++)
        if (plan->stages[s].rank == rank)
            ns += plan->stages[s].norm_ns / cs_plan_holders(plan, rank);
    return ns;
}

/* Both ranks send the gradient of their part of the table, over no channel but all of the link, and
 * add what comes: two numbers read, one written. */
static int64_t tied_ns(const struct cs_plan *plan, const struct cs_device_class *device)
{
    return device->link_latency_ns + bytes_ns(plan->tied_bytes, device->link_bytes_per_s) +
           bytes_ns(3 * plan->tied_bytes, device->bytes_per_s);
}

/* Gradients of a stage, a part of its state, before the ranks with its weights, so many, divide them. */
static double grad_bytes(const struct cs_plan *plan, const struct cs_stage *stage, int32_t holders,
                         const struct cs_device_class *device)
{
    const struct cs_state_bytes state = cs_state_bytes(plan->keeps_bf16, device);
    const double grad = (double)state.grad, rest = (double)(state.all - state.grad);
    return stage->zero >= 2 ? (double)stage->state_bytes * holders / (double)state.all * grad
                            : (double)stage->state_bytes / (1 + rest / grad / holders);
}

/* ring all-reduce */
static int64_t copies_ns(const struct cs_plan *plan, const struct cs_stage *stage,
                         const struct cs_device_class *device)
{
    int64_t n = stage->copies > 1 ? stage->copies : 1;
    return cs_exchange_ns(device, CS_LINK_ALL_REDUCE, n,
                          (int64_t)grad_bytes(plan, stage, 1, device));
}

/* All gradients of guests, of which each rank that shares their host's matrices makes a part; but for those that replicas
 * divide, which are summed in slots. What blocks have beside their matrices is small. */
static int64_t tensors_ns(const struct cs_program *program, int rank,
                          const struct cs_device_class *device)
{
    const struct cs_plan *plan = program->plan;
    const int32_t n = cs_plan_rank_shape(plan, rank).tp;
    double bytes = 0;
    for (int32_t s = 0; s < plan->n_stages; s++)
        if (plan->stages[s].rank == rank && plan->stages[s].zero < 2 && cs_plan_is_guest(plan, s))
            bytes += grad_bytes(plan, &plan->stages[s], cs_plan_holders(plan, rank), device);
    return cs_exchange_ns(device, CS_LINK_ALL_REDUCE, n, (int64_t)bytes);
}

static int32_t count_buckets(const struct cs_plan *plan, int rank)
{
    int32_t n = 0;
    for (int32_t s = 0; s < plan->n_stages; s++)
        n += plan->stages[s].rank == rank ? plan->stages[s].n_buckets : 0;
    return n;
}

/* Half a ring over the replicas: every rank sends all parts but its own. The weights that return
 * are acts. On accelerators most of it is hidden behind backward and forward;
 * plans that were made from numbers do not say what could be. */
static int64_t replicas_ns(const struct cs_program *program, int rank, enum cs_op op,
                           const struct cs_device_class *device)
{
    const struct cs_plan *plan = program->plan;
    const int32_t n = cs_plan_holders(plan, rank);
    const int element = cs_device_element_bytes(device);
    const int64_t grad_size = cs_state_bytes(plan->keeps_bf16, device).grad;
    double grads = 0;
    if (device->mem_bytes > 0 && count_buckets(plan, rank) > 0)
        return op == CS_OP_REDUCE
                   ? cs_overlap_reduce_ns(program, rank, device)
                   : cs_overlap_gather_ns(program, rank, begin_ns(program, rank, device), device);
    for (int32_t s = 0; s < plan->n_stages; s++) { /* levels 2 and 3 sum, and 3 gathers, in slots */
        const struct cs_stage *stage = &plan->stages[s];
        if (stage->rank != rank || stage->zero >= (op == CS_OP_REDUCE ? 2 : 3))
            continue;
        grads += grad_bytes(plan, stage, n, device);
    }
    const double bytes = op == CS_OP_REDUCE ? grads : grads / (double)grad_size * element;
    return cs_exchange_ns(device, op == CS_OP_REDUCE ? CS_LINK_REDUCE_SCATTER : CS_LINK_ALL_GATHER,
                          n, (int64_t)bytes);
}

static int64_t message_ns(const struct cs_plan *plan, const struct cs_action *action,
                          const struct cs_cluster *cluster)
{
    const enum cs_edge_flow flow = action->is_grad ? CS_FLOW_GRADIENTS : CS_FLOW_ROWS;
    return cs_edge_cost(plan, action->edge, flow, cluster).ns;
}

static int64_t send_cost(const struct cs_program *program, int rank, const struct cs_action *action,
                         const struct cs_device_class *device)
{
    const struct cs_cluster one_node = {.device = device, .n_nodes = 1};
    (void)rank;
    return message_ns(program->plan, action, &one_node);
}

static int64_t tied_cost(const struct cs_program *program, int rank, const struct cs_action *action,
                         const struct cs_device_class *device)
{
    (void)rank;
    (void)action;
    return program->n_ranks > 1 ? tied_ns(program->plan, device) : 0;
}

static int64_t norm_cost(const struct cs_program *program, int rank, const struct cs_action *action,
                         const struct cs_device_class *device)
{
    (void)action;
    return norm_ns(program, rank, device);
}

static int64_t copies_cost(const struct cs_program *program, int rank,
                           const struct cs_action *action, const struct cs_device_class *device)
{
    (void)rank;
    return copies_ns(program->plan, &program->plan->stages[action->stage], device);
}

static int64_t tensors_cost(const struct cs_program *program, int rank,
                            const struct cs_action *action, const struct cs_device_class *device)
{
    (void)action;
    return tensors_ns(program, rank, device);
}

static int64_t step_cost(const struct cs_program *program, int rank, const struct cs_action *action,
                         const struct cs_device_class *device)
{
    (void)action;
    return step_ns(program, rank, device);
}

static int64_t replicas_cost(const struct cs_program *program, int rank,
                             const struct cs_action *action, const struct cs_device_class *device)
{
    return replicas_ns(program, rank, (enum cs_op)action->op, device);
}

/* Of what is not work of a stage. A receive costs nothing: its send does. */
static int64_t (*const costs[CS_OP_COUNT])(const struct cs_program *program, int rank,
                                           const struct cs_action *action,
                                           const struct cs_device_class *device) = {
    [CS_OP_SEND] = send_cost,       [CS_OP_TIED] = tied_cost,       [CS_OP_NORM] = norm_cost,
    [CS_OP_STEP] = step_cost,       [CS_OP_COPIES] = copies_cost,   [CS_OP_REDUCE] = replicas_cost,
    [CS_OP_GATHER] = replicas_cost, [CS_OP_TENSORS] = tensors_cost,
};

int64_t cs_predict_cost(void *user, const struct cs_program *program, int rank,
                        const struct cs_action *action)
{
    if (cs_op_is((enum cs_op)action->op, CS_OP_KIND_WORK))
        return cs_action_work_ns(program->plan, action);
    return costs[action->op] != NULL ? costs[action->op](program, rank, action, user) : 0;
}

/* a cluster whose nodes ranks fill in order */
struct network {
    struct cs_device_class device;
    int32_t per_node; /* ranks */
};

static bool leaves_node(const struct network *net, const struct cs_plan *plan,
                        const struct cs_action *action)
{
    const struct cs_edge *e = &plan->edges[action->edge];
    return cs_plan_leaves_node(plan, plan->stages[e->from].rank, plan->stages[e->to].rank,
                               net->per_node);
}

static int64_t network_cost(void *user, const struct cs_program *program, int rank,
                            const struct cs_action *action)
{
    struct network *net = user;
    const struct cs_cluster cluster = {&net->device, 1, net->per_node};
    return action->op == CS_OP_SEND ? message_ns(program->plan, action, &cluster)
                                    : cs_predict_cost(&net->device, program, rank, action);
}

static int64_t network_latency(void *user, const struct cs_program *program, int rank,
                               const struct cs_action *action)
{
    const struct network *net = user;
    (void)rank;
    return leaves_node(net, program->plan, action) ? net->device.net_latency_ns
                                                   : cs_channel_of(&net->device).latency_ns;
}

/* inputs with the costs of the cluster where they have none */
static struct cs_sim_options network_options(const struct cs_sim_options *inputs,
                                             struct network *net)
{
    struct cs_sim_options options = inputs ? *inputs : (struct cs_sim_options){0};
    if (options.cost)
        return options;
    options.cost = network_cost;
    options.latency = network_latency;
    options.user = net;
    return options;
}

/* every device has a port in its node and a NIC towards others */
static const struct cs_sim_links *network_links(const struct network *net, int64_t n_ranks,
                                                struct cs_arena *arena)
{
    struct cs_sim_links *links = CS_NEW(arena, struct cs_sim_links);
    int32_t *node = CS_NEW_ARRAY(arena, int32_t, n_ranks + 1);
    int32_t *nic = CS_NEW_ARRAY(arena, int32_t, n_ranks + 1);
    for (int32_t r = 0; r < n_ranks; r++) {
        node[r] = net->per_node > 0 ? r / net->per_node : 0;
        nic[r] = r;
    }
    *links = (struct cs_sim_links){node, nic};
    return links;
}

enum cs_status cs_plan_predict(struct cs_plan *plan, const struct cs_graph *graph,
                               const struct cs_cluster *cluster, struct cs_arena *arena,
                               struct cs_err *err)
{
    return cs_plan_predict_with(plan, graph, cluster, NULL, arena, err);
}

enum cs_status cs_plan_predict_with(struct cs_plan *plan, const struct cs_graph *graph,
                                    const struct cs_cluster *cluster,
                                    const struct cs_sim_options *inputs, struct cs_arena *arena,
                                    struct cs_err *err)
{
    struct network net = {*cluster->device, cluster->devices_per_node};
    struct cs_sim_options options = network_options(inputs, &net);
    struct cs_arena *scratch = cs_arena_new(0);
    struct cs_program *program = NULL;
    struct cs_sim_result result;
    struct cs_program_options how = {.n_slots = cs_plan_own_slots(plan, plan->slots)};
    struct cs_program_limits limits = {net.device.mem_bytes,
                                       net.device.mem_bytes > 0 ? CS_MAX_CHANNELS : 0};
    enum cs_status status = cs_program_make_with(plan, graph, &how, scratch, &program, err);
    if (status == CS_OK)
        status = cs_program_check_limits(program, &limits, err);
    if (status == CS_OK)
        status = cs_simulate(program, &options, scratch, &result, err);
    if (status == CS_OK) {
        plan->predicted_step_ns = result.makespan_ns;
        plan->predicted_bubble = CS_NEW_ARRAY(arena, double, plan->n_stages);
        for (int32_t s = 0; s < plan->n_stages; s++)
            plan->predicted_bubble[s] = result.bubble[s];
    }
    cs_arena_free(scratch);
    return status == CS_OK ? CS_OK : cs_wrap(err, status, "predicting the step time");
}

/* the plan under another schedule */
static enum cs_status as_asked(const struct cs_plan *plan,
                               const struct cs_forecast_options *options, struct cs_plan *out,
                               struct cs_err *err)
{
    *out = *plan;
    if (options->schedule)
        out->schedule = options->schedule;
    if (options->slots < 0)
        return cs_fail(err, CS_PLAN, "%d slot%s: at least one is needed", options->slots,
                       CS_PLURAL(options->slots));
    if (options->slots > 0)
        out->slots = options->slots;
    return CS_OK;
}

enum cs_status cs_forecast_plan(const struct cs_plan *plan, const struct cs_graph *graph,
                                const struct cs_cluster *cluster,
                                const struct cs_forecast_options *options, struct cs_arena *arena,
                                struct cs_forecast *out, struct cs_err *err)
{
    struct cs_arena *scratch = cs_arena_new(0);
    struct network net = {*cluster->device, cluster->devices_per_node};
    struct cs_plan asked;
    struct cs_program *program = NULL;
    enum cs_status status = as_asked(plan, options, &asked, err);
    struct cs_program_options how = {.n_slots = cs_plan_own_slots(&asked, asked.slots)};
    if (status == CS_OK)
        status = cs_program_make_with(&asked, graph, &how, scratch, &program, err);
    if (status == CS_OK) {
        struct cs_sim_options sim = network_options(options->sim, &net);
        int64_t copies = sim.copies > 1 ? sim.copies : 1;
        if (options->shares_links && !sim.links)
            sim.links = network_links(&net, copies * asked.n_ranks, scratch);
        const struct cs_needs_of of = {.plan = &asked,
                                       .graph = cs_plan_rank_graph(graph, &asked, scratch),
                                       .cluster = cluster,
                                       .element = cs_device_element_bytes(&net.device)};
        status = cs_forecast_with_needs(program, &sim, &of, arena, out, err);
    }
    cs_arena_free(scratch);
    return status == CS_OK || !options->schedule
               ? status
               : cs_wrap(err, status, "simulating %s", options->schedule);
}
