/* Spreads the samples of a job's steps: weighs them, asks the policy, searches the order of the slots. */
#include "core/spread/step_slots.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/units.h"
#include "core/sched/lower/lower.h"
#include "core/spread/slot_order.h"
#include "core/spread/spread.h"
#include "core/spread/weigh.h"

/* Sums over the steps, for the log. */
struct tally {
    int64_t stream_slots, spread_slots;
    int64_t steps, kept; /* kept: steps of which no policy made slots under the budgets */
    double stream[CS_MAX_ENCODERS + 1], spread[CS_MAX_ENCODERS + 1]; /* by branch */
    double before_ns, after_ns;                                      /* of the order search */
};

struct cs_step_spread {
    const struct cs_spec *spec;
    const struct cs_graph *graph;
    const struct cs_plan *plan;
    struct cs_spread policy; /* without the work */
    struct cs_weigh weigh;
    struct cs_slot_order *order; /* NULL: slots stay in the policy's order */
    struct tally tally;
};

/* Some schedules cannot run a step of few slots. Better said at the start than in the step that has
 * too few. */
static enum cs_status check_fewest(const struct cs_step_spread *b, struct cs_err *err)
{
    const int64_t batch = b->spec->batch_samples;
    const int32_t expected =
        b->plan->slots < CS_STEP_PACK_SLOTS ? b->plan->slots : CS_STEP_PACK_SLOTS;
    const int fewest = b->policy.is_kept ? 1 : batch < expected ? (int)batch : expected;
    struct cs_arena *scratch = cs_arena_new(0);
    struct cs_program *program = NULL;
    const struct cs_program_options options = {.n_slots = cs_plan_own_slots(b->plan, fewest)};
    enum cs_status status =
        cs_program_make_with(b->plan, b->graph, &options, scratch, &program, err);

    cs_arena_free(scratch);
    if (status != CS_OK)
        return cs_wrap(err, status, "balance %s may make %d slot%s of %lld samples",
                       b->spec->balance, fewest, CS_PLURAL(fewest), (long long)batch);
    return CS_OK;
}

enum cs_status cs_step_spread_new(const struct cs_spec *spec, const struct cs_graph *graph,
                                  const struct cs_plan *plan, struct cs_step_spread **out,
                                  struct cs_err *err)
{
    struct cs_spread policy = {.slots = plan->slots, .n_encoders = plan->budget.n_encoders};
    struct cs_step_spread *b = NULL;

    *out = NULL;
    if (!cs_spread_from_name(spec->balance, &policy))
        return cs_fail(err, CS_INVALID, "balance \"%s\" is not known", spec->balance);
    b = calloc(1, sizeof *b);
    CS_ASSERT(b != NULL);
    b->spec = spec;
    b->graph = graph;
    b->plan = plan;
    b->policy = policy;
    cs_weigh_make(graph, plan, &b->weigh);
    if (strcmp(spec->slot_order, "searched") == 0)
        b->order = cs_slot_order_new(plan, graph);
    enum cs_status status = check_fewest(b, err);
    if (status != CS_OK) {
        cs_step_spread_free(b);
        return status;
    }
    *out = b;
    return CS_OK;
}

void cs_step_spread_free(struct cs_step_spread *b)
{
    if (b == NULL)
        return;
    cs_slot_order_free(b->order);
    free(b);
}

/* Work of every sample by branch, in the graph's order. */
static const double **weigh_samples(const struct cs_step_spread *b,
                                    const struct cs_pack_sample *pack, int n,
                                    struct cs_arena *arena)
{
    const double **work = cs_arena_array(arena, sizeof *work, (size_t)b->graph->n_branches);

    for (int32_t k = 0; k < b->graph->n_branches; k++) {
        const int32_t e = b->graph->branches[k].encoder;
        double *of = CS_NEW_ARRAY(arena, double, n);
        for (int i = 0; i < n; i++)
            of[i] = e >= 0 ? cs_weigh_encoder(&b->weigh, e, pack[i].shape[e], pack[i].items[e])
                           : cs_weigh_sample(&b->weigh, pack[i].tokens, pack[i].n_labels,
                                             pack[i].shape, pack[i].items);
        work[k] = of;
    }
    return work;
}

static void note(double *sum, const struct cs_step_spread *b, const double *const *work,
                 const struct cs_pack_sample *pack, int n)
{
    for (int32_t k = 0; k < b->graph->n_branches && k <= CS_MAX_ENCODERS; k++)
        sum[k] += cs_spread_largest(pack, n, work[k]);
}

/* Work of every slot over that of a full one. */
static double *shares(const struct cs_step_spread *b, const double *const *work,
                      const struct cs_pack_sample *pack, int n, int n_slots, struct cs_arena *arena)
{
    double *share = CS_NEW_ARRAY(arena, double, b->graph->n_branches *n_slots);

    for (int32_t k = 0; k < b->graph->n_branches; k++) {
        const double full = cs_weigh_full(&b->weigh, b->graph->branches[k].encoder);
        for (int i = 0; i < n && full > 0; i++)
            if (pack[i].slot >= 0)
                share[k * n_slots + pack[i].slot] += work[k][i] / full;
    }
    return share;
}

static enum cs_status search_order(struct cs_step_spread *b, uint64_t key,
                                   const double *const *work, struct cs_pack_sample *pack, int n,
                                   int n_slots, struct cs_arena *arena, struct cs_err *err)
{
    int32_t *order = CS_NEW_ARRAY(arena, int32_t, n_slots);
    double before = 0, after = 0;

    if (b->order == NULL || n_slots < 2)
        return CS_OK;
    CS_TRY(cs_slot_order_search(b->order, shares(b, work, pack, n, n_slots, arena), n_slots, key,
                                order, &before, &after, err));
    cs_spread_reorder(pack, n, order, n_slots);
    b->tally.before_ns += before;
    b->tally.after_ns += after;
    return CS_OK;
}

enum cs_status cs_step_spread_step(struct cs_step_spread *b, int64_t step,
                                   struct cs_pack_sample *pack, int n, int *n_slots,
                                   struct cs_err *err)
{
    struct cs_arena *arena = cs_arena_new(0);
    const double *const *work = weigh_samples(b, pack, n, arena);
    struct cs_spread policy = b->policy;
    bool is_spread = false;
    enum cs_status status = CS_OK;

    /* a key of its own for every step: 2^64 over the golden ratio spreads neighbours */
    policy.key = b->spec->seed + UINT64_C(0x9e3779b97f4a7c15) * ((uint64_t)step + 1);
    for (int32_t k = 0; k < b->graph->n_branches; k++) {
        const int32_t e = b->graph->branches[k].encoder;
        if (e >= 0)
            policy.enc[e] = work[k];
        else
            policy.llm = work[k];
    }
    /* every replica as many slots, and none of them empty where the policy can */
    const int whole = cs_plan_own_slots(b->plan, *n_slots) * cs_plan_llm_replicas(b->plan);
    policy.slots = whole > policy.slots ? whole : policy.slots;
    note(b->tally.stream, b, work, pack, n);
    b->tally.stream_slots += *n_slots;
    const int most = cs_plan_own_slots(b->plan, CS_STEP_PACK_SLOTS) * cs_plan_llm_replicas(b->plan);
    status = cs_spread(&b->plan->budget, &policy, most, pack, n, n_slots, &is_spread, err);
    if (status == CS_OK)
        status = search_order(b, policy.key, work, pack, n, *n_slots, arena, err);
    note(b->tally.spread, b, work, pack, n);
    b->tally.spread_slots += *n_slots;
    b->tally.steps++;
    b->tally.kept += !policy.is_kept && !is_spread;
    cs_arena_free(arena);
    return status;
}

void cs_step_spread_report(const struct cs_step_spread *b, struct cs_buf *out)
{
    const struct tally *t = &b->tally;
    const double steps = (double)t->steps;

    if (t->steps == 0)
        return;
    cs_buf_addf(out, "balance %s: %lld step%s of %.1f slots; the largest has of the step's work",
                b->spec->balance, (long long)t->steps, CS_PLURAL(t->steps),
                (double)t->spread_slots / steps);
    for (int32_t k = 0; k < b->graph->n_branches && k <= CS_MAX_ENCODERS; k++)
        cs_buf_addf(out, "%s %s %.1f %% (stream order %.1f %%)", k > 0 ? "," : "",
                    b->graph->branches[k].name, 100 * t->spread[k] / steps,
                    100 * t->stream[k] / steps);
    if (t->kept > 0)
        cs_buf_addf(out, "; %lld step%s stayed in stream order: slots are too full",
                    (long long)t->kept, CS_PLURAL(t->kept));
    if (t->before_ns > 0)
        cs_buf_addf(out, "; the searched order saves %.1f %% of the simulated step",
                    100 * (1 - t->after_ns / t->before_ns));
    cs_buf_adds(out, "\n");
}
