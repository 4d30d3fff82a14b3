/* What a program takes of a rank's memory: life times of kept activations in the order of its
 * actions, and places for them. */
#include "worker/memory/plan.h"

#include <stdlib.h>
#include <string.h>

#include "core/plan/offload.h"

/* ---- how the program runs stages ---- */

/* the program has an action of the stage that does these parts and no others */
static bool has_parts(const struct cs_rank_program *p, int32_t stage, unsigned parts)
{
    for (uint32_t i = 0; i < p->n_actions; i++)
        if (p->actions[i].stage == stage && cs_op_table[p->actions[i].op].parts == parts)
            return true;
    return false;
}

static struct cs_memory_kind kind_of(const struct cs_rank_program *p, bool is_eval, int32_t stage)
{
    const bool is_split = has_parts(p, stage, CS_PART_INPUT);
    return (struct cs_memory_kind){is_eval, is_split,
                                   !is_split || has_parts(p, stage, CS_PART_BACKWARD)};
}

static struct cs_memory_rehearsal *known_at(const struct cs_memory_config *config,
                                            struct cs_memory_kind k, int32_t stage)
{
    const int i = k.is_eval ? 0 : !k.is_split ? 3 : k.is_whole ? 2 : 1;
    return &config->known[stage * CS_MEMORY_KINDS + i];
}

bool cs_memory_is_rehearsed(const struct cs_memory_config *config, const struct cs_program *program)
{
    const struct cs_rank_program *p = &program->rank[config->rank];
    for (int32_t s = 0; s < config->plan->n_stages; s++)
        if (config->stage[s] != NULL &&
            !known_at(config, kind_of(p, program->is_eval, s), s)->is_done)
            return false;
    return true;
}

/* ---- the program ---- */

struct walk {
    const struct cs_memory_config *config;
    const struct cs_rank_program *p;
    struct cs_memory_plan *out;
    bool *leaves;                /* (n_stages) */
    struct cs_memory_life *life; /* (n_slots, n_stages, 2): kept, held; bytes 0: none */
    uint32_t now;
};

/* the slot in whose place the activations of a slot lie */
static int32_t slot_of(const struct walk *w, int32_t stage, int32_t slot)
{
    const int32_t sets = w->out->offload[stage].sets;
    return sets > 0 ? slot % sets : slot;
}

static struct cs_memory_life *life_of(const struct walk *w, const struct cs_action *a, int is_held)
{
    return &w->life[2 * (slot_of(w, a->stage, a->slot) * w->out->n_stages + a->stage) + is_held];
}

/* alive from now on, to the end unless it ends before */
static void begin(const struct walk *w, const struct cs_action *a, int is_held)
{
    const struct cs_memory_stage *s = &w->out->stage[a->stage];
    struct cs_memory_life *life = life_of(w, a, is_held);
    const bool is_again = w->out->offload[a->stage].sets > 0 && life->bytes > 0;
    *life = (struct cs_memory_life){.bytes = is_held ? s->held : s->keep,
                                    .begin = is_again ? life->begin : w->now,
                                    .end = UINT32_MAX};
}

static void end(const struct walk *w, const struct cs_action *a)
{
    for (int is_held = 0; is_held < 2; is_held++) {
        struct cs_memory_life *life = life_of(w, a, is_held);
        if (life->end == UINT32_MAX || w->out->offload[a->stage].sets > 0)
            life->end = w->now;
    }
}

static void visit(const struct walk *w, const struct cs_action *a)
{
    const struct cs_stage_model *model = a->stage >= 0 ? w->config->stage[a->stage] : NULL;
    const bool keeps = model != NULL && model->has_backward && !w->out->is_eval;
    const unsigned parts = cs_op_table[a->op].parts;
    const bool is_input_half = parts == CS_PART_INPUT;
    if (parts == CS_PART_FORWARD && keeps)
        begin(w, a, 0);
    if (is_input_half)
        begin(w, a, 1);
    if ((parts & CS_PART_WEIGHT) != 0 || (is_input_half && !w->leaves[a->stage]))
        end(w, a);
}

static enum cs_status arrange(struct walk *w, struct cs_err *err)
{
    const int32_t n = w->out->n_slots * w->out->n_stages;
    const size_t kept = cs_memory_arrange(w->life, (uint32_t)(2 * n));
    if (kept == SIZE_MAX)
        return cs_fail(err, CS_NO_MEMORY, "no memory to plan that of %d slots", w->out->n_slots);
    w->out->kept = kept;
    for (int32_t i = 0; i < n; i++) {
        const int32_t stage = i % w->out->n_stages;
        const int32_t as = slot_of(w, stage, i / w->out->n_stages) * w->out->n_stages + stage;
        w->out->place[i] =
            (struct cs_memory_place){.keep = w->life[2 * as].at, .held = w->life[2 * as + 1].at};
    }
    return CS_OK;
}

/* slots of a stage whose activations are kept at once, at most */
static int32_t alive_at_once(const struct walk *w, int32_t stage)
{
    int32_t alive = 0, most = 0;
    for (uint32_t i = 0; i < w->p->n_actions; i++) {
        const struct cs_action *a = &w->p->actions[i];
        const unsigned parts = a->stage == stage ? cs_op_table[a->op].parts : 0;
        alive += parts == CS_PART_FORWARD ? 1 : (parts & CS_PART_WEIGHT) != 0 ? -1 : 0;
        most = alive > most ? alive : most;
    }
    return most;
}

static void plan_offload(struct walk *w, int32_t stage)
{
    struct cs_memory_offload *o = &w->out->offload[stage];
    const bool moves = w->config->plan->stages[stage].offloads && !w->out->is_eval &&
                       w->config->device->mem != NULL;
    const int32_t alive = moves ? alive_at_once(w, stage) : 0;
    *o = (struct cs_memory_offload){
        .sets = cs_offload_sets(alive), .alive = alive, .at = w->out->host};
    if (o->sets > 0)
        w->out->host += (size_t)alive * w->out->stage[stage].keep;
}

static enum cs_status plan_all(struct walk *w, struct cs_err *err)
{
    struct cs_memory_plan *out = w->out;
    for (int32_t s = 0; s < out->n_stages; s++) {
        if (w->config->stage[s] == NULL)
            continue;
        const struct cs_memory_kind kind = kind_of(w->p, out->is_eval, s);
        struct cs_memory_rehearsal *r = known_at(w->config, kind, s);
        if (!r->is_done)
            cs_memory_rehearse(w->config, kind, s, r);
        out->stage[s] = r->stage;
        w->leaves[s] = r->leaves;
        plan_offload(w, s);
        out->scratch = out->stage[s].scratch > out->scratch ? out->stage[s].scratch : out->scratch;
    }
    /* the merged list has the order of each stream */
    for (w->now = 0; w->now < w->p->n_actions; w->now++)
        visit(w, &w->p->actions[w->now]);
    return arrange(w, err);
}

enum cs_status cs_memory_plan_new(const struct cs_memory_config *config,
                                  const struct cs_program *program, struct cs_memory_plan **out,
                                  struct cs_err *err)
{
    const size_t n_stages = (size_t)config->plan->n_stages, n_slots = (size_t)program->n_slots;
    const size_t n_edges = (size_t)config->plan->n_edges;
    struct cs_memory_plan *m = calloc(1, sizeof *m);
    struct walk w = {.config = config,
                     .p = &program->rank[config->rank],
                     .out = m,
                     .leaves = calloc(n_stages + 1, sizeof *w.leaves),
                     .life = calloc(2 * n_slots * n_stages + 1, sizeof *w.life)};
    enum cs_status status = CS_OK;
    *out = NULL;
    if (m != NULL) {
        m->n_slots = program->n_slots;
        m->n_stages = config->plan->n_stages;
        m->is_eval = program->is_eval;
        memcpy(m->program, program->hash, sizeof m->program);
        m->stage = calloc(n_stages + 1, sizeof *m->stage);
        m->place = calloc(n_slots * n_stages + 1, sizeof *m->place);
        m->offload = calloc(n_stages + 1, sizeof *m->offload);
        m->n_buffers = calloc(n_edges + 1, sizeof *m->n_buffers);
        m->buffer = calloc(2 * n_edges * n_slots + 1, sizeof *m->buffer);
    }
    if (m == NULL || w.leaves == NULL || w.life == NULL || m->stage == NULL || m->place == NULL ||
        m->offload == NULL || m->n_buffers == NULL || m->buffer == NULL)
        status = cs_fail(err, CS_NO_MEMORY, "no memory to plan that of %zu slots", n_slots);
    else
        status = plan_all(&w, err);
    if (status == CS_OK)
        status = cs_memory_buffers(program, config->rank, m->buffer, m->n_buffers, err);
    free(w.leaves);
    free(w.life);
    if (status == CS_OK)
        *out = m;
    else
        cs_memory_plan_free(m);
    return status;
}

void cs_memory_plan_free(struct cs_memory_plan *plan)
{
    if (plan == NULL)
        return;
    free(plan->stage);
    free(plan->place);
    free(plan->offload);
    free(plan->n_buffers);
    free(plan->buffer);
    free(plan);
}
