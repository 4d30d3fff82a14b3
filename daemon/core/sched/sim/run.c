/* Turns the simulator's inputs into costs of actions and runs the engine. Whole nanoseconds throughout. */
#include "core/sched/sim/run.h"

#include "core/base/philox.h"
#include "core/base/units.h"
#include "core/sched/traits.h"

enum { ONE = 1000, MAX_FACTOR = 1000 * ONE };

struct costs {
    const struct cs_sim_options *options;
    const struct cs_repeat *repeat;
};

static int64_t transfer_ns(const struct cs_sim_options *options, const struct cs_edge *edge)
{
    int64_t bytes = cs_edge_bytes(edge, 4);
    return options->link_bytes_per_s > 0
               ? (int64_t)((double)bytes * 1e9 / (double)options->link_bytes_per_s)
               : 0;
}

/* the plan's stage times, and messages of fp32 rows over the link */
static int64_t default_cost(const struct cs_sim_options *options, const struct cs_plan *plan,
                            const struct cs_action *action)
{
    if (action->op == CS_OP_SEND)
        return options->hop_ns + transfer_ns(options, &plan->edges[action->edge]);
    return cs_action_work_ns(plan, action);
}

/* to the nearest; exact for times below 2^53 and factors up to MAX_FACTOR */
static int64_t times_permille(int64_t ns, int32_t permille)
{
    return ns / ONE * permille + (ns % ONE * permille + ONE / 2) / ONE;
}

static int64_t with_stragglers(const struct costs *c, const struct cs_repeat_origin *at, int64_t ns)
{
    const struct cs_sim_options *o = c->options;
    if (cs_op_stream((enum cs_op)at->action->op) != CS_STREAM_COMPUTE)
        return ns;
    if (o->rank_permille)
        ns = times_permille(
            ns, o->rank_permille[cs_plan_repeated(c->repeat->original->plan, at->copy, at->rank)]);
    if (o->stage_permille && at->action->stage >= 0)
        ns = times_permille(ns, o->stage_permille[at->action->stage]);
    return ns;
}

static int64_t with_jitter(const struct costs *c, const struct cs_repeat_origin *at, int64_t ns)
{
    const struct cs_sim_options *o = c->options;
    if (o->jitter_permille == 0)
        return ns;
    uint64_t rank = (uint64_t)cs_plan_repeated(c->repeat->original->plan, at->copy, at->rank);
    int64_t most = times_permille(ns, o->jitter_permille), n = 2 * most + 1;
    int64_t drawn = (int64_t)(cs_philox_uniform(o->seed, rank, at->action->id) * (double)n);
    ns += (drawn < n ? drawn : n - 1) - most;
    return ns > 0 ? ns : 0;
}

static double engine_cost(void *user, const struct cs_program *program, int rank,
                          const struct cs_action *action)
{
    const struct costs *c = user;
    const struct cs_program *original = c->repeat->original;
    struct cs_repeat_origin at = cs_repeat_origin(c->repeat, rank, action->id);
    (void)program;
    int64_t ns = c->options->cost ? c->options->cost(c->options->user, original, at.rank, at.action)
                                  : default_cost(c->options, original->plan, at.action);
    return (double)with_jitter(c, &at, with_stragglers(c, &at, ns));
}

static double engine_latency(void *user, const struct cs_program *program, int rank,
                             const struct cs_action *action)
{
    const struct costs *c = user;
    struct cs_repeat_origin at = cs_repeat_origin(c->repeat, rank, action->id);
    (void)program;
    if (!c->options->latency)
        return c->options->cost ? 0 : (double)c->options->hop_ns;
    return (double)c->options->latency(c->options->user, c->repeat->original, at.rank, at.action);
}

static bool are_alike(void *user, int32_t a, int32_t b)
{
    const struct costs *c = user;
    int32_t n = c->repeat->original->n_ranks;
    const int32_t *permille = c->options->rank_permille;
    for (int32_t r = 0; permille && r < n; r++)
        if (permille[a * n + r] != permille[b * n + r])
            return false;
    return true;
}

static enum cs_status check_factors(const int32_t *permille, int64_t n, const char *what,
                                    struct cs_err *err)
{
    for (int64_t i = 0; permille && i < n; i++)
        if (permille[i] < 0 || permille[i] > MAX_FACTOR)
            return cs_fail(err, CS_PLAN, "factor of %s %lld is %d thousandths: 0 to %d", what,
                           (long long)i, permille[i], MAX_FACTOR);
    return CS_OK;
}

static enum cs_status check(const struct cs_program *program, const struct cs_sim_options *o,
                            int32_t copies, struct cs_err *err)
{
    int64_t n = (int64_t)copies * program->n_ranks;
    if (copies < 1 || n > INT32_MAX / 2)
        return cs_fail(err, CS_PLAN, "%d %s of %d rank%s: 1 copy to %d ranks", copies,
                       CS_NOUN(copies, "copy", "copies"), program->n_ranks,
                       CS_PLURAL(program->n_ranks), INT32_MAX / 2);
    if (o->jitter_permille < 0 || o->jitter_permille > ONE)
        return cs_fail(err, CS_PLAN, "jitter is %d thousandths: 0 to %d", o->jitter_permille, ONE);
    CS_TRY(check_factors(o->rank_permille, n, "rank", err));
    CS_TRY(check_factors(o->stage_permille, program->plan->n_stages, "stage", err));
    for (int64_t r = 0; o->links && r < n; r++)
        if (o->links->nic[r] < 0 || o->links->nic[r] >= n)
            return cs_fail(err, CS_PLAN, "rank %lld uses NIC %d: 0 to %lld", (long long)r,
                           o->links->nic[r], (long long)n - 1);
    return cs_precedence_check_shape(program, false, err);
}

/* Processes that a rank of the repeated program stands for. */
static const int32_t *twins_of(const struct cs_repeat *repeat, int32_t copies,
                               struct cs_arena *arena)
{
    const struct cs_program *original = repeat->original;
    int32_t *twins = CS_NEW_ARRAY(arena, int32_t, (size_t)repeat->program->n_ranks + 1);
    for (int32_t r = 0; r < repeat->program->n_ranks; r++) {
        const struct cs_rank_shape s = cs_plan_rank_shape(original->plan, r % original->n_ranks);
        const int32_t dp = s.dp > copies ? s.dp / copies : 1;
        twins[r] = s.tp * s.cp * dp;
    }
    return twins;
}

enum cs_status cs_sim_run(const struct cs_program *program, const struct cs_sim_options *options,
                          struct cs_arena *arena, struct cs_sim_run *out, struct cs_err *err)
{
    int32_t copies = options->copies == 0 ? 1 : options->copies;
    bool is_each =
        options->is_full || options->jitter_permille > 0 || options->cores > 0 || options->links;
    struct costs costs = {options, &out->repeat};
    out->repeat.original = program;
    CS_TRY(check(program, options, copies, err));
    CS_TRY(cs_repeat_make(program, copies, is_each ? NULL : are_alike, &costs, arena, &out->repeat,
                          err));
    cs_precedence_build(out->repeat.program, arena, &out->graph);
    struct cs_engine_input input = {
        .cost = engine_cost,
        .latency = engine_latency,
        .user = &costs,
        .cores = options->cores,
        .twins = options->cores > 0 ? twins_of(&out->repeat, copies, arena) : NULL,
        .node = options->links ? options->links->node : NULL,
        .nic = options->links ? options->links->nic : NULL,
        .is_whole = true};
    return cs_engine_run(&out->graph, &input, arena, &out->result, err);
}
