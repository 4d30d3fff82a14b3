/* Lowering: a plan becomes the programs of its ranks. The schedule's generator makes the orders,
 * the messages are added, the program gets its hash and its proof. */
#include "core/sched/lower/lower.h"

#include "core/base/hash.h"
#include "core/base/units.h"
#include "core/plan/groups.h"
#include "core/sched/lower/messages.h"
#include "core/sched/orders/generator.h"
#include "core/sched/proof/verify.h"

static bool trains_embedding(const struct cs_graph *graph)
{
    for (int32_t i = 0; graph && i < graph->n_params; i++)
        if (graph->params[i].role == CS_PARAM_EMBED && graph->params[i].is_trainable)
            return true;
    return false;
}

/* little-endian, fixed widths: the same bytes on every machine */
static unsigned char *put(unsigned char *to, uint64_t value, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        *to++ = (unsigned char)(value >> (8 * i));
    return to;
}

/* What an action's group is, not where the table has it: the table follows from the plan, whose
 * hash comes first. */
static uint16_t group_code(const struct cs_plan *plan, const struct cs_action *a)
{
    enum { WORLD, TIED, DP, COPIES, TP = UINT16_MAX - 1 };

    if (a->comm < 0)
        return UINT16_MAX;
    const struct cs_group *g = &plan->group[a->comm];
    return (uint16_t)(g->kind == CS_GROUP_WORLD  ? WORLD
                      : g->kind == CS_GROUP_TIED ? TIED
                      : g->kind == CS_GROUP_DP   ? DP
                      : g->kind == CS_GROUP_TP   ? TP
                                                 : COPIES + g->of);
}

static unsigned char *put_action(unsigned char *to, const struct cs_plan *plan,
                                 const struct cs_action *a)
{
    to = put(to, a->op, 1);
    to = put(to, a->is_grad, 1);
    to = put(to, a->lead, 1);
    to = put(to, a->part, 1);
    to = put(to, (uint16_t)a->stage, 2);
    to = put(to, (uint16_t)a->edge, 2);
    to = put(to, (uint16_t)a->peer, 2);
    to = put(to, group_code(plan, a), 2);
    to = put(to, (uint32_t)a->slot, 4);
    return put(to, a->n_deps, 4);
}

enum { ACTION_BYTES = 20, DEP_BYTES = 4, CHUNK_BYTES = 4096 };

static void hash_rank(struct cs_sha256 *sha, const struct cs_plan *plan,
                      const struct cs_rank_program *rank)
{
    unsigned char bytes[CHUNK_BYTES], *to = put(bytes, rank->n_actions, 4);
    for (uint32_t i = 0; i < rank->n_actions; i++) {
        const struct cs_action *a = &rank->actions[i];
        if (bytes + CHUNK_BYTES - to < ACTION_BYTES) {
            cs_sha256_add(sha, bytes, (size_t)(to - bytes));
            to = bytes;
        }
        to = put_action(to, plan, a);
        for (uint32_t d = 0; d < a->n_deps; d++) {
            if (bytes + CHUNK_BYTES - to < DEP_BYTES) {
                cs_sha256_add(sha, bytes, (size_t)(to - bytes));
                to = bytes;
            }
            to = put(to, rank->deps[a->first_dep + d], DEP_BYTES);
        }
    }
    cs_sha256_add(sha, bytes, (size_t)(to - bytes));
}

static void hash_program(struct cs_program *program)
{
    struct cs_sha256 *sha = cs_sha256_new();
    unsigned char bytes[16], *to = bytes;
    to = put(to, (uint32_t)program->n_ranks, 4);
    to = put(to, (uint32_t)program->n_slots, 4);
    to = put(to, program->is_eval, 1);
    cs_sha256_add(sha, "cornstarch.program/2", 20);
    cs_sha256_add(sha, program->plan->hash, sizeof program->plan->hash);
    cs_sha256_add(sha, bytes, (size_t)(to - bytes));
    for (int32_t r = 0; r < program->n_ranks; r++)
        hash_rank(sha, program->plan, &program->rank[r]);
    cs_sha256_end(sha, program->hash);
    cs_sha256_free(sha);
}

static enum cs_status check_limits(const struct cs_plan *plan, int n_slots, struct cs_err *err)
{
    if (n_slots < 1)
        return cs_fail(err, CS_PLAN, "a program of %d slots: at least one is needed", n_slots);
    if (plan->n_stages > INT16_MAX || plan->n_edges > INT16_MAX || plan->n_ranks > INT16_MAX)
        return cs_fail(err, CS_PLAN, "%d stages on %d ranks: programs have at most %d",
                       plan->n_stages, plan->n_ranks, INT16_MAX);
    if ((int64_t)n_slots * (plan->n_stages + plan->n_edges) > INT32_MAX / 8)
        return cs_fail(err, CS_PLAN, "%d slot%s on %d stage%s: the program is too long", n_slots,
                       CS_PLURAL(n_slots), plan->n_stages, CS_PLURAL(plan->n_stages));
    return CS_OK;
}

static enum cs_status check_lead(const struct cs_pipeline *pipeline, struct cs_err *err)
{
    const struct cs_program_options *o = pipeline->options;
    bool leads = false;
    if (o->ahead < 0 || o->window < 0 || o->lead_before < 0 || o->lead_after < 0)
        return cs_fail(err, CS_PLAN, "numbers of slots are not negative");
    if (o->lead_before > o->n_slots || o->lead_after > o->n_slots)
        return cs_fail(err, CS_PLAN, "%d leading slots in a step of %d",
                       o->lead_before > o->lead_after ? o->lead_before : o->lead_after, o->n_slots);
    for (int32_t r = 0; r < pipeline->n_ranks; r++)
        leads = leads || pipeline->node[r].leads;
    if (!leads && o->lead_before + o->lead_after > 0)
        return cs_fail(err, CS_PLAN,
                       "no slots of the next step can be computed: only encoders without any "
                       "backward, on ranks of their own, may lead");
    return CS_OK;
}

static enum cs_status lower(const struct cs_plan *plan, const struct cs_graph *graph,
                            const struct cs_program_options *options, struct cs_arena *scratch,
                            struct cs_arena *arena, struct cs_program **out, struct cs_err *err)
{
    struct cs_pipeline pipeline;
    struct cs_order *order = NULL;
    CS_TRY(check_limits(plan, options->n_slots, err));
    plan = cs_plan_with_groups(plan, arena);
    if (cs_plan_collectives(plan) > INT16_MAX)
        return cs_fail(err, CS_PLAN, "%d groups of ranks: programs have at most %d",
                       cs_plan_collectives(plan), INT16_MAX);
    const struct cs_slot_share *share = options->share ? options->share : plan->share;
    cs_pipeline_init(plan, options, cs_traits_make(plan, options->is_eval, share, scratch), scratch,
                     &pipeline);
    CS_TRY(check_lead(&pipeline, err));
    CS_TRY(cs_orders_make(&pipeline, scratch, &order, err));
    struct cs_program *program = CS_NEW(arena, struct cs_program);
    *program = (struct cs_program){.plan = plan,
                                   .n_ranks = plan->n_ranks,
                                   .n_slots = options->n_slots,
                                   .is_eval = options->is_eval,
                                   .ahead = options->ahead,
                                   .lead_before = options->lead_before,
                                   .lead_after = options->lead_after,
                                   .share = share};
    bool has_tied = plan->is_tied_across && !options->is_eval && trains_embedding(graph);
    cs_messages_add(&pipeline, order, has_tied, arena, program);
    hash_program(program);
    CS_TRY(cs_program_verify(program, err));
    *out = program;
    return CS_OK;
}

enum cs_status cs_program_make_with(const struct cs_plan *plan, const struct cs_graph *graph,
                                    const struct cs_program_options *options,
                                    struct cs_arena *arena, struct cs_program **out,
                                    struct cs_err *err)
{
    struct cs_arena *scratch = cs_arena_new(0);
    enum cs_status status = lower(plan, graph, options, scratch, arena, out, err);
    cs_arena_free(scratch);
    return status;
}

enum cs_status cs_program_make(const struct cs_plan *plan, const struct cs_graph *graph,
                               int n_slots, bool is_eval, struct cs_arena *arena,
                               struct cs_program **out, struct cs_err *err)
{
    struct cs_program_options options = {.n_slots = n_slots, .is_eval = is_eval};
    CS_TRY(cs_plan_check_runs(plan, err));
    return cs_program_make_with(plan, graph, &options, arena, out, err);
}
