/* Runs whole steps for a rank: its replica's slots of a manifest, the program for their number, and
 * what came of it. */
#include "worker/train/trainer.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/sched/lower/lower.h"
#include "core/sched/proof/verify.h"
#include "core/spread/first_fit.h"
#include "worker/train/trainer_context.h"

/* Programs differ in the number of slots only; few numbers occur in one run. */
struct cs_program_entry {
    struct cs_program_entry *next;
    int n_slots;
    bool is_eval;
    struct cs_arena *arena;
    struct cs_program *program;
};

/* Steps that are far from what the plan expects make room for themselves when they come. */
enum { SLOTS_AHEAD = 256 };

/* Slots that steps are made ready for before the first one: all that they can have, unless that is far more than
 * the plan expects. */
static int slots_ahead(const struct cs_trainer *t)
{
    const struct cs_plan *plan = t->config.plan;
    const int most = cs_pack_most(t->config.spec->batch_samples, cs_plan_llm_replicas(plan)),
              twice = 2 * plan->slots, ahead = twice > SLOTS_AHEAD ? twice : SLOTS_AHEAD;
    return most < ahead ? most : ahead;
}

/* NULL: no memory, and the array is as it was */
static void *grown(void *array, int32_t have, int32_t want, size_t size)
{
    char *larger = realloc(array, (size_t)want * size);
    if (larger != NULL)
        memset(larger + (size_t)have * size, 0, (size_t)(want - have) * size);
    return larger;
}

/* n slots of all lanes; what is known of inputs stays. */
static enum cs_status make_slot_room(struct cs_trainer *t, int32_t n, struct cs_err *err)
{
    const int32_t have = t->slot_room;
    if (n <= have)
        return CS_OK;
    struct cs_slot *slot = grown(t->slot, have, n, sizeof *slot);
    t->slot = slot != NULL ? slot : t->slot;
    struct cs_slot_counts *own = grown(t->own_counts, have, n, sizeof *own);
    t->own_counts = own != NULL ? own : t->own_counts;
    struct cs_slot_counts *beside = grown(t->beside_counts, have, n, sizeof *beside);
    t->beside_counts = beside != NULL ? beside : t->beside_counts;
    struct cs_input *inputs = grown(t->inputs, have, n, sizeof *inputs);
    t->inputs = inputs != NULL ? inputs : t->inputs;
    if (slot == NULL || own == NULL || beside == NULL || inputs == NULL)
        return cs_fail(err, CS_NO_MEMORY, "no memory for a step of %d slots", n);
    t->slot_room = n;
    return CS_OK;
}

/* All memory that steps will take, before the first one: a job that does not fit does not start. */
static enum cs_status reserve(struct cs_trainer *t, struct cs_err *err)
{
    const struct cs_plan *plan = t->config.plan;
    const bool has_eval = t->config.spec->has_eval;
    struct cs_fullest fullest;
    int n_slots = 0;
    const unsigned needs =
        cs_exec_needs(t->exec, false) | (has_eval ? cs_exec_needs(t->exec, true) : 0u);
    CS_TRY(cs_fullest_new(t->tables, needs, &fullest, err));
    const struct cs_exec_steps steps = {
        .most = cs_plan_own_slots(plan, slots_ahead(t)),
        .usual = plan->slots > 0 ? cs_plan_own_slots(plan, plan->slots) : 1,
        .slot_bytes = fullest.block_bytes,
        .has_eval = has_eval,
    };
    enum cs_status status = cs_exec_reserve(t->exec, &steps, t->tables, &n_slots, err);
    if (status == CS_OK)
        status = make_slot_room(t, n_slots > 1 ? n_slots : 1, err);
    for (int i = 0; status == CS_OK && i < n_slots; i++)
        status = cs_input_reserve(&t->inputs[i], &fullest, err);
    cs_fullest_free(&fullest);
    return status;
}

static enum cs_status make(struct cs_trainer *t, struct cs_err *err)
{
    const struct cs_trainer_config *c = &t->config;
    const struct cs_plan *plan = c->plan;
    const int world = cs_plan_world(plan), rank = cs_plan_rank_in_replica(plan, c->rank);
    if (c->rank < 0 || c->rank >= world)
        return cs_fail(err, CS_INVALID, "rank %d of a plan with %d ranks", c->rank, world);
    if (world > 1 && c->comm == NULL)
        return cs_fail(err, CS_INVALID, "a plan with %d ranks needs a transport", world);
    const int holders = cs_plan_holders(plan, rank);
    if (holders > 1 && c->replicas == NULL)
        return cs_fail(err, CS_INVALID,
                       "a plan with %d replicas of weights needs their "
                       "communicators",
                       holders);
    t->has_head = plan->stages[plan->head_stage].rank == rank && cs_plan_at(plan, c->rank).tp == 0;
    CS_TRY(cs_device_keep(c->device, c->spec->state, err));
    CS_TRY(cs_input_tables_new(c->graph, c->device, &plan->budget, &t->tables, err));
    CS_TRY(cs_trainer_split_rows(t, err));
    cs_laps_take(c->laps, "tables");
    CS_TRY(cs_params_new(c->graph, plan, c->rank, c->device, &t->params, err));
    cs_laps_take(c->laps, "parameters");
    CS_TRY(cs_tensor_ranks_new(c->rank, t->params, c->comm, c->sharers, c->deadline_ms, &t->tensors,
                               err));
    CS_TRY(
        cs_expert_ranks_new(plan, c->rank, t->params, c->comm, c->deadline_ms, &t->experts, err));
    CS_TRY(cs_copies_new(plan, c->rank, t->params, c->comm, c->copies, c->deadline_ms, &t->copies,
                         err));
    CS_TRY(cs_optim_new(c->spec, c->graph, plan, t->params, c->device, c->rank, &t->optim, err));
    if (c->replicas != NULL)
        CS_TRY(cs_replicas_bind(c->replicas, t->params, err));
    const struct cs_exec_config exec = {
        .graph = t->params->graph,
        .plan = plan,
        .params = t->params,
        .device = c->device,
        .optim = t->optim,
        .comm = world > 1 ? c->comm : NULL,
        .channels = c->channels,
        .context = c->context,
        .sharers = c->sharers,
        .items = c->items,
        .experts = c->experts,
        .replicas = c->replicas,
        .tensors = t->tensors,
        .copies = t->copies,
        .copy_sums = c->copies,
        .ring = c->ring,
        .rank = rank,
        .replica = cs_plan_replica(plan, c->rank),
        .place = cs_plan_place(plan, c->rank),
        .tp = t->params->tp.at,
        .deadline_ms = c->deadline_ms,
    };
    CS_TRY(cs_exec_new(&exec, &t->exec, err));
    CS_TRY(cs_trainer_check_items(t, err));
    cs_laps_take(c->laps, "interpreter");
    CS_TRY(reserve(t, err));
    cs_laps_take(c->laps, "buffers");
    return CS_OK;
}

enum cs_status cs_trainer_new(const struct cs_trainer_config *config, struct cs_trainer **out,
                              struct cs_err *err)
{
    struct cs_trainer *t = calloc(1, sizeof *t);
    *out = NULL;
    if (t == NULL)
        return cs_fail(err, CS_NO_MEMORY, "no memory for the trainer");
    t->config = *config;
    const enum cs_status status = make(t, err);
    t->config.laps = NULL;
    if (status != CS_OK) {
        cs_trainer_free(t);
        return status;
    }
    *out = t;
    return CS_OK;
}

void cs_trainer_free(struct cs_trainer *trainer)
{
    if (trainer == NULL)
        return;
    while (trainer->programs != NULL) {
        struct cs_program_entry *first = trainer->programs;
        trainer->programs = first->next;
        cs_arena_free(first->arena);
        free(first);
    }
    cs_exec_free(trainer->exec);
    cs_optim_free(trainer->optim);
    cs_tensor_ranks_free(trainer->tensors);
    cs_expert_ranks_free(trainer->experts);
    cs_copies_free(trainer->copies);
    cs_params_free(trainer->params);
    for (int32_t i = 0; i < trainer->slot_room; i++)
        cs_input_free(&trainer->inputs[i]);
    free(trainer->inputs);
    free(trainer->slot);
    free(trainer->own_counts);
    free(trainer->beside_counts);
    cs_input_tables_free(trainer->tables);
    free(trainer);
}

enum cs_status cs_trainer_program(struct cs_trainer *trainer, int n_slots, bool is_eval,
                                  const struct cs_program **out, struct cs_err *err)
{
    for (struct cs_program_entry *e = trainer->programs; e != NULL; e = e->next)
        if (e->n_slots == n_slots && e->is_eval == is_eval) {
            *out = e->program;
            return CS_OK;
        }
    struct cs_program_entry *e = calloc(1, sizeof *e);
    struct cs_arena *arena = cs_arena_new(0);
    struct cs_program *program = NULL;
    enum cs_status status = CS_OK;
    if (e == NULL || arena == NULL)
        status = cs_fail(err, CS_NO_MEMORY, "no memory for a program");
    if (status == CS_OK)
        status = cs_program_make(trainer->config.plan, trainer->config.graph, n_slots, is_eval,
                                 arena, &program, err);
    if (status == CS_OK)
        status = cs_program_verify(program, err);
    if (status != CS_OK) {
        free(e);
        cs_arena_free(arena);
        return status;
    }
    *e = (struct cs_program_entry){trainer->programs, n_slots, is_eval, arena, program};
    trainer->programs = e;
    *out = program;
    return CS_OK;
}

static bool trains_balance(const struct cs_trainer *t)
{
    return cs_experts_loads(&cs_graph_llm(t->config.graph)->arch.experts) > 0;
}

/* slots by their rows */
static double balance_of(const struct cs_input *in)
{
    return in->step_tokens > 0
               ? cs_input_balance(in) * (double)in->n_tokens / (double)in->step_tokens
               : 0;
}

static enum cs_status collect(struct cs_trainer *t, const struct cs_manifest *manifest,
                              struct cs_step_result *result, struct cs_err *err)
{
    for (int32_t s = 0; t->has_head && s < manifest->n_slots; s++) {
        int64_t n_samples, n_exact;
        CS_TRY(cs_input_fetch(&t->inputs[s], err));
        result->loss_sum += t->inputs[s].loss;
        cs_input_by_source(&t->inputs[s], result->source);
        result->balance += balance_of(&t->inputs[s]);
        if (!result->is_eval)
            continue;
        CS_TRY(cs_trainer_gather_correct(t, &t->inputs[s], err));
        cs_input_exact(&t->inputs[s], &n_samples, &n_exact);
        result->n_samples += n_samples;
        result->n_exact += n_exact;
    }
    if (result->is_eval)
        return CS_OK;
    result->grad_norm = t->optim->grad_norm;
    result->lr = t->optim->lr;
    result->is_skipped = t->optim->is_skipped;
    return CS_OK;
}

/* Slots lie side by side in the lanes of the LLM: the slot of a lane at an index of the program. */
static int32_t slot_of(const struct cs_trainer *t, int32_t index, int32_t lane)
{
    const struct cs_plan *plan = t->config.plan;
    return cs_plan_slot(plan, index, cs_plan_replica(plan, t->config.rank), lane);
}

/* The slots of a lane, as a step of its own; its divisor stays that of the whole step. counts: room for all of the
 * manifest's. */
static void take_lane(const struct cs_trainer *t, const struct cs_manifest *manifest, int32_t lane,
                      struct cs_slot_counts *counts, struct cs_manifest *out)
{
    *out = *manifest;
    out->slot = counts;
    out->n_slots = manifest->n_slots / cs_plan_llm_replicas(t->config.plan);
    for (int32_t i = 0; i < out->n_slots; i++)
        counts[i] = manifest->slot[slot_of(t, i, lane)];
}

static enum cs_status take_own(struct cs_trainer *t, const struct cs_manifest *manifest,
                               const struct cs_slot *slots, int64_t *n_labels, struct cs_err *err)
{
    const int dp = cs_plan_llm_replicas(t->config.plan);
    const int32_t lane = t->tables->context.lane;
    if (manifest->n_slots < 1 || manifest->n_slots > CS_STEP_MAX_SLOTS ||
        manifest->n_slots % dp != 0)
        return cs_fail(err, CS_CORRUPT, "the manifest of step %lld has %d slots for %d replicas",
                       (long long)manifest->step, manifest->n_slots, dp);
    CS_TRY(make_slot_room(t, manifest->n_slots, err));
    take_lane(t, manifest, lane, t->own_counts, &t->own);
    *n_labels = 0;
    for (int32_t i = 0; i < t->own.n_slots; i++) {
        t->slot[i] = slots[slot_of(t, i, lane)];
        *n_labels += t->own.slot[i].n_labels;
    }
    return CS_OK;
}

/* What a step has for all ranks. */
struct whole_step {
    const struct cs_manifest *manifest;
    const struct cs_slot *slots;
    const float *const (*patches)[CS_MAX_ENCODERS]; /* of all replicas' slots, may be NULL */
};

static void set_patches(struct cs_input *in, const struct whole_step *step, int32_t slot)
{
    for (int e = 0; step->patches != NULL && e < CS_MAX_ENCODERS; e++)
        in->patches[e] = step->patches[slot][e];
}

/* Where slots lie side by side: the input of a lane at an index, those of other lanes behind the own ones. */
static struct cs_input *input_of(const struct cs_trainer *t, int32_t index, int32_t lane)
{
    const struct cs_input_context *c = &t->tables->context;
    if (lane == c->lane)
        return &t->inputs[index];
    const int32_t other = lane - (lane > c->lane);
    return &t->inputs[t->own.n_slots + index * (c->lanes - 1) + other];
}

/* The slots of the other lanes, of whose items this rank may have some. */
static enum cs_status prepare_beside(struct cs_trainer *t, const struct whole_step *step,
                                     struct cs_err *err)
{
    const struct cs_input_context *c = &t->tables->context;
    for (int32_t l = 0; l < c->lanes; l++) {
        if (l == c->lane)
            continue;
        take_lane(t, step->manifest, l, t->beside_counts, &t->beside);
        for (int32_t i = 0; i < t->beside.n_slots; i++) {
            const int32_t s = slot_of(t, i, l);
            CS_TRY(cs_input_prepare(input_of(t, i, l), t->tables, &t->beside, i, &step->slots[s],
                                    CS_INPUT_BESIDE, err));
            set_patches(input_of(t, i, l), step, s);
        }
    }
    return CS_OK;
}

static void join_lanes(struct cs_trainer *t, int32_t i)
{
    const int32_t lanes = t->tables->context.lanes;
    const struct cs_input **beside =
        cs_scratch_take(&t->inputs[i].memory, (size_t)lanes * sizeof *beside);
    for (int32_t l = 0; l < lanes; l++)
        beside[l] = input_of(t, i, l);
    cs_input_join(&t->inputs[i], beside);
}

/* All slots before the first action: one that is corrupt voids the step before anything is sent or
 * updated. The interpreter places them. */
static enum cs_status prepare(struct cs_trainer *t, const struct whole_step *step, unsigned needs,
                              struct cs_err *err)
{
    const bool has_lanes = t->tables->context.lanes > 1;
    int64_t n_tokens = 0;
    for (int32_t s = 0; s < step->manifest->n_slots; s++)
        n_tokens += step->manifest->slot[s].n_tokens;
    if (has_lanes)
        CS_TRY(prepare_beside(t, step, err));
    for (int32_t i = 0; i < t->own.n_slots; i++) {
        struct cs_input *in = &t->inputs[i];
        CS_TRY(cs_input_prepare(in, t->tables, &t->own, i, &t->slot[i], needs, err));
        in->step_tokens = n_tokens;
        in->step_labels = step->manifest->trained_tokens;
        set_patches(in, step, slot_of(t, i, t->tables->context.lane));
        if (has_lanes)
            join_lanes(t, i);
        CS_TRY(cs_input_make_room(in, err));
    }
    return CS_OK;
}

enum cs_status cs_trainer_step(struct cs_trainer *trainer, const struct cs_manifest *manifest,
                               const struct cs_slot *slots,
                               const float *const (*patches)[CS_MAX_ENCODERS],
                               struct cs_step_result *result, struct cs_err *err)
{
    const struct cs_program *program;
    const struct cs_manifest *own = &trainer->own;
    const int dp = cs_plan_llm_replicas(trainer->config.plan);
    const struct whole_step whole = {manifest, slots, patches};
    int64_t n_labels = 0;
    CS_TRY(take_own(trainer, manifest, slots, &n_labels, err));
    *result = (struct cs_step_result){
        .is_eval = manifest->kind == CS_STEP_EVAL,
        .has_loss = trainer->has_head,
        .has_balance = trainer->has_head && trains_balance(trainer),
        .trained_tokens = dp > 1 ? n_labels : manifest->trained_tokens,
        .grad_norm = NAN,
    };
    const unsigned needs = cs_exec_needs(trainer->exec, result->is_eval);
    CS_TRY(cs_trainer_program(trainer, own->n_slots, result->is_eval, &program, err));
    CS_TRY(prepare(trainer, &whole, needs, err));
    if (trainer->tables->context.ranks > 1)
        result->trained_tokens = cs_trainer_labels_here(trainer);
    CS_TRY(cs_exec_run(trainer->exec, program, own, trainer->inputs, &result->counts, err));
    result->context = cs_trainer_context_figures(trainer, result->counts.context_wait_ns);
    for (int32_t s = 0; s < own->n_slots; s++)
        CS_TRY(cs_input_check(&trainer->inputs[s], err));
    return collect(trainer, own, result, err);
}
