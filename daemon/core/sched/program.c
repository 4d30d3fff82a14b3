/* The operation table, lowering of a plan, and the identity of a program; see program.h. */
#include "core/sched/program.h"

#include "core/base/hash.h"
#include "core/sched/comm.h"
#include "core/sched/order.h"

static const struct {
    const char *letter;
    enum cs_stream stream;
} ops[] = {

#define X(op, letter, stream) {letter, CS_STREAM_##stream},
    CS_OPS_TABLE(X)
#undef X
};
_Static_assert(CS_ARRAY_LEN(ops) == CS_OP_COUNT, "one row per operation");

const char *cs_op_letter(enum cs_op op)
{
    return (unsigned)op < CS_OP_COUNT ? ops[op].letter : "?";
}

enum cs_stream cs_op_stream(enum cs_op op)
{
    return (unsigned)op < CS_OP_COUNT ? ops[op].stream : CS_STREAM_COMPUTE;
}

static bool trains_embedding(const struct cs_graph *graph)
{
    for (int32_t i = 0; graph && i < graph->n_params; i++)
        if (graph->params[i].role == CS_PARAM_EMBED && graph->params[i].is_trainable)
            return true;
    return false;
}

/* little-endian, fixed widths: the same bytes on every machine */
static void add_number(struct cs_sha256 *sha, int64_t value)
{
    unsigned char bytes[8];
    uint64_t bits = (uint64_t)value;
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (unsigned char)(bits >> (8 * i));
    cs_sha256_add(sha, bytes, sizeof bytes);
}

static void hash_rank(struct cs_sha256 *sha, const struct cs_rank_program *rank)
{
    add_number(sha, rank->n_actions);
    for (uint32_t i = 0; i < rank->n_actions; i++) {
        const struct cs_action *a = &rank->actions[i];
        const int64_t field[] = {a->op,   a->is_grad, a->lead, a->part, a->stage,
                                 a->edge, a->peer,    a->comm, a->slot, a->n_deps};
        for (size_t f = 0; f < CS_ARRAY_LEN(field); f++)
            add_number(sha, field[f]);
        for (uint32_t d = 0; d < a->n_deps; d++)
            add_number(sha, rank->deps[a->first_dep + d]);
    }
}

static void hash_program(struct cs_program *program)
{
    struct cs_sha256 *sha = cs_sha256_new();
    cs_sha256_add(sha, "cornstarch.program/1", 20);
    cs_sha256_add(sha, program->plan->hash, sizeof program->plan->hash);
    add_number(sha, program->n_ranks);
    add_number(sha, program->n_slots);
    add_number(sha, program->is_eval);
    for (int32_t r = 0; r < program->n_ranks; r++)
        hash_rank(sha, &program->rank[r]);
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
        return cs_fail(err, CS_PLAN, "%d slots on %d stages: the program is too long", n_slots,
                       plan->n_stages);
    return CS_OK;
}

enum cs_status cs_program_make(const struct cs_plan *plan, const struct cs_graph *graph,
                               int n_slots, bool is_eval, struct cs_arena *arena,
                               struct cs_program **out, struct cs_err *err)
{
    CS_TRY(cs_plan_check_schedule(plan->schedule, err));
    const struct cs_schedule *schedule = cs_schedule_find(plan->schedule);
    if (!schedule)
        return cs_fail(err, CS_PLAN, "schedule \"%s\" has no generator", plan->schedule);
    CS_TRY(check_limits(plan, n_slots, err));
    struct cs_pipeline pipeline;
    cs_pipeline_init(plan, n_slots, is_eval, arena, &pipeline);
    struct cs_order *order = CS_NEW_ARRAY(arena, struct cs_order, plan->n_ranks);
    for (int32_t r = 0; r < plan->n_ranks; r++) {
        cs_order_init(&pipeline, r, arena, &order[r]);
        schedule->order(&pipeline, r, &order[r]);
    }
    struct cs_program *program = CS_NEW(arena, struct cs_program);
    *program = (struct cs_program){
        .plan = plan, .n_ranks = plan->n_ranks, .n_slots = n_slots, .is_eval = is_eval};
    bool has_tied = plan->is_tied_across && !is_eval && trains_embedding(graph);
    cs_comm_pass(&pipeline, order, has_tied, arena, program);
    hash_program(program);
    CS_TRY(cs_program_verify(program, err));
    *out = program;
    return CS_OK;
}
