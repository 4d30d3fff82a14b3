/* Exchanges and computing on two streams of a device, moment by moment. */
#include "core/plan/cost/links/beside.h"

#include <math.h>

#include "core/plan/cost/links/links.h"

/* multiprocessors that replicas' exchanges hold while they run */
static const int32_t units_of[CS_LINK_OPS] = {
    [CS_LINK_ALL_GATHER] = CS_GROUP_UNITS,
    [CS_LINK_REDUCE_SCATTER] = CS_GROUP_UNITS,
};

struct cs_beside cs_exchange_beside(const struct cs_device_class *device, enum cs_link_op op,
                                    int64_t n, int64_t bytes)
{
    const int64_t ns = cs_exchange_ns(device, op, n, bytes);
    const struct cs_link_beside *measured = cs_link_beside_of(device, op, n);
    if (measured != NULL) {
        const int64_t waits = n > 1 && bytes > 0 ? cs_exchange_latency_ns(device, op, n) : 0;
        return (struct cs_beside){ns, waits + (int64_t)((double)(ns - waits) * measured->times),
                                  measured->slows};
    }
    return (struct cs_beside){
        ns, ns, device->units > units_of[op] ? (double)units_of[op] / (double)device->units : 0.0};
}

int64_t cs_beside_ns(int64_t works_ns, struct cs_beside exchange)
{
    struct cs_lanes lanes = {0};
    const int64_t number = cs_lanes_exchange(&lanes, exchange);
    cs_lanes_compute(&lanes, works_ns);
    cs_lanes_await(&lanes, number);
    return llround(lanes.now_ns);
}

static struct cs_beside *first_of(struct cs_lanes *lanes)
{
    return &lanes->queue[lanes->over % CS_LANES_QUEUE];
}

static void end_first(struct cs_lanes *lanes)
{
    lanes->over++;
    lanes->left = 1.0;
}

int64_t cs_lanes_exchange(struct cs_lanes *lanes, struct cs_beside exchange)
{
    if (lanes->begun - lanes->over == CS_LANES_QUEUE)
        cs_lanes_await(lanes, lanes->over + 1);
    if (lanes->begun == lanes->over)
        lanes->left = 1.0;
    lanes->queue[lanes->begun % CS_LANES_QUEUE] = exchange;
    return ++lanes->begun;
}

void cs_lanes_compute(struct cs_lanes *lanes, int64_t ns)
{
    double works = (double)ns;
    while (works > 0 && lanes->over < lanes->begun) {
        const struct cs_beside *x = first_of(lanes);
        const double rest = lanes->left * (double)x->beside_ns, speed = 1.0 - x->slows;
        const bool ends_first = rest * speed <= works;
        const double both = ends_first ? rest : works / speed;
        lanes->now_ns += both;
        works -= both * speed;
        lanes->left -= ends_first ? 0 : both / (double)x->beside_ns;
        if (ends_first)
            end_first(lanes);
        else
            return;
    }
    lanes->now_ns += works > 0 ? works : 0;
}

void cs_lanes_await(struct cs_lanes *lanes, int64_t number)
{
    while (lanes->over < number) {
        lanes->now_ns += lanes->left * (double)first_of(lanes)->alone_ns;
        end_first(lanes);
    }
}
