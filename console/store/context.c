/* What ranks of a context had in the last step of the selected job. */
#include "console/store/store.h"

#include <math.h>

#include "core/wire/wire.h"

enum { FIELDS = 5 };

/* [rank, rows, pairs, flops, wait_us]; false: it makes no sense */
static bool read_part(const json_t *row, struct cs_store_part *out)
{
    double value[FIELDS];
    if (json_array_size(row) != FIELDS)
        return false;
    for (size_t i = 0; i < FIELDS; i++)
        if (!cs_json_to_num(json_array_get(row, i), &value[i]) || !isfinite(value[i]) ||
            value[i] < 0 || value[i] > 9e18)
            return false;
    if (value[0] >= CS_STORE_PARTS)
        return false;
    *out = (struct cs_store_part){.rank = (int32_t)value[0],
                                  .rows = (int64_t)value[1],
                                  .pairs = (int64_t)value[2],
                                  .flops = value[3],
                                  .wait_us = (int64_t)value[4]};
    return true;
}

/* Who splits the same rows: a program of a replica. Without a plan all do. */
static int32_t group_of(const struct cs_store *store, int32_t rank)
{
    const struct cs_plan *plan = store->model.plan;
    if (plan == NULL || rank >= cs_plan_world(plan))
        return 0;
    return cs_plan_replica(plan, rank) * plan->n_ranks + cs_plan_rank_in_replica(plan, rank);
}

/* parts of one group are neighbours: ranks are numbered so */
static void group(struct cs_store *store)
{
    struct cs_store_context *c = &store->context;
    c->balance = (double)NAN;
    for (int begin = 0, end; begin < c->n; begin = end) {
        const int32_t of = group_of(store, c->part[begin].rank);
        double most = 0, sum = 0;
        for (end = begin; end < c->n && group_of(store, c->part[end].rank) == of; end++) {
            most = fmax(most, c->part[end].flops);
            sum += c->part[end].flops;
        }
        for (int i = begin; i < end; i++) {
            c->part[i].group = of;
            c->part[i].most = most;
        }
        if (sum > 0)
            c->balance = fmax(isnan(c->balance) ? 1 : c->balance, most * (end - begin) / sum);
    }
}

void cs_store_context_message(struct cs_store *store, const json_t *msg)
{
    struct cs_store_context *c = &store->context;
    const json_t *rows = cs_msg_arr(msg, "context");
    c->n = 0;
    c->step = cs_msg_int(msg, "step", -1);
    c->step_ns = cs_msg_int(msg, "step_ns", 0);
    for (size_t i = 0; i < json_array_size(rows) && c->n < CS_STORE_PARTS; i++)
        c->n += read_part(json_array_get(rows, i), &c->part[c->n]);
    if (c->n == 0)
        return;
    group(store);
    if (!isnan(c->balance))
        cs_series_put(store->balance, c->step, c->balance);
}
