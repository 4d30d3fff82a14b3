/* Rehearsal of a rank's program; see memory.h. */
#include "worker/memory/plan.h"

#include <stdlib.h>
#include <string.h>

#include "worker/device/tape.h"

/* ---- stages ---- */

/* What is at hand while a stage is rehearsed. */
struct rehearsal {
    const struct cs_memory_config *config;
    const struct cs_stage_model *stage;
    struct cs_tape tape;
    struct cs_ctx ctx;
    struct cs_scratch scratch;
    struct cs_saved saved;
    struct cs_input input;
    struct cs_layer_ends ends;
    void *dy, *dx;       /* some address where the real one is not NULL */
    bool leaves_weights; /* its input half leaves something for the weight half */
};

static struct cs_run run_of(struct rehearsal *r)
{
    cs_tape_clear(&r->tape);
    r->ctx = cs_tape_ctx(&r->tape);
    return (struct cs_run){.device = &r->tape.recorder,
                           .ops = &r->tape.ops,
                           .ctx = &r->ctx,
                           .scratch = &r->scratch,
                           .input = &r->input,
                           .is_rehearsal = true};
}

/* Edges bring and take gradients; one into the LLM's embedding takes those of an encoder's rows. */
static void set_ends(struct rehearsal *r)
{
    const struct cs_plan *plan = r->config->plan;
    for (int32_t i = 0; i < plan->n_edges; i++) {
        const struct cs_edge *edge = &plan->edges[i];
        if (!edge->has_grad)
            continue;
        if (&plan->stages[edge->from] == r->stage->stage)
            r->dy = r;
        if (&plan->stages[edge->to] == r->stage->stage &&
            plan->stages[edge->from].branch == r->stage->stage->branch)
            r->dx = r;
    }
}

static void open_rehearsal(struct rehearsal *r, const struct cs_memory_config *config,
                           const struct cs_stage_model *stage)
{
    memset(r, 0, sizeof *r);
    r->config = config;
    r->stage = stage;
    r->input = config->fullest->input;
    cs_tape_open(&r->tape, config->device);
    cs_scratch_bind_counting(&r->scratch);
    cs_scratch_bind_counting(&r->saved.memory);
    cs_scratch_bind_counting(&r->saved.held);
    set_ends(r);
}

static void close_rehearsal(struct rehearsal *r)
{
    cs_scratch_free(&r->scratch);
    cs_scratch_free(&r->saved.memory);
    cs_scratch_free(&r->saved.held);
    free(r->saved.later.wgrad);
    free(r->saved.kept);
    cs_tape_close(&r->tape);
}

static void forward(struct rehearsal *r, bool keeps)
{
    struct cs_run run = run_of(r);
    cs_scratch_clear(&r->saved.memory);
    cs_stage_fwd(r->stage, &run, r, &r->ends, r, keeps ? &r->saved : NULL);
}

static void backward(struct rehearsal *r, bool is_split)
{
    struct cs_run run = run_of(r);
    r->saved.is_split = is_split;
    cs_stage_bwd(r->stage, &run, r->dy, r->dx, &r->ends, &r->saved);
    if (!is_split)
        return;
    r->leaves_weights = r->saved.later.n > 0;
    run = run_of(r);
    cs_stage_bwd_weight(r->stage, &run, &r->saved);
}

/* the program has an action of the stage that does these parts and no others */
static bool has_parts(const struct cs_rank_program *p, int32_t stage, unsigned parts)
{
    for (uint32_t i = 0; i < p->n_actions; i++)
        if (p->actions[i].stage == stage && cs_op_table[p->actions[i].op].parts == parts)
            return true;
    return false;
}

/* how a program runs a stage, below CS_MEMORY_KINDS */
struct kind {
    bool is_eval, is_split, is_whole;
};

static struct kind kind_of(const struct cs_rank_program *p, bool is_eval, int32_t stage)
{
    const bool is_split = has_parts(p, stage, CS_PART_INPUT);
    return (struct kind){is_eval, is_split, !is_split || has_parts(p, stage, CS_PART_BACKWARD)};
}

static struct cs_memory_rehearsal *known_at(const struct cs_memory_config *config, struct kind k,
                                            int32_t stage)
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

static void rehearse(const struct cs_memory_config *config, struct kind kind, int32_t stage,
                     struct cs_memory_rehearsal *out)
{
    struct rehearsal r;
    const struct cs_stage_model *model = config->stage[stage];
    const bool keeps = model->has_backward && !kind.is_eval;
    open_rehearsal(&r, config, model);
    forward(&r, keeps);
    if (keeps && kind.is_split)
        backward(&r, true);
    if (keeps && kind.is_whole) {
        forward(&r, true);
        backward(&r, false);
    }
    *out = (struct cs_memory_rehearsal){
        .is_done = true,
        .leaves = r.leaves_weights,
        .stage = {r.saved.memory.peak, r.saved.held.peak, r.scratch.peak},
    };
    close_rehearsal(&r);
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

static struct cs_memory_life *life_of(const struct walk *w, const struct cs_action *a, int is_held)
{
    return &w->life[2 * (a->slot * w->out->n_stages + a->stage) + is_held];
}

/* alive from now on, to the end unless it ends before */
static void begin(const struct walk *w, const struct cs_action *a, int is_held)
{
    const struct cs_memory_stage *s = &w->out->stage[a->stage];
    *life_of(w, a, is_held) = (struct cs_memory_life){
        .bytes = is_held ? s->held : s->keep, .begin = w->now, .end = UINT32_MAX};
}

static void end(const struct walk *w, const struct cs_action *a)
{
    for (int is_held = 0; is_held < 2; is_held++) {
        struct cs_memory_life *life = life_of(w, a, is_held);
        life->end = life->end == UINT32_MAX ? w->now : life->end;
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
    for (int32_t i = 0; i < n; i++)
        w->out->place[i] =
            (struct cs_memory_place){.keep = w->life[2 * i].at, .held = w->life[2 * i + 1].at};
    return CS_OK;
}

static enum cs_status plan_all(struct walk *w, struct cs_err *err)
{
    struct cs_memory_plan *out = w->out;
    for (int32_t s = 0; s < out->n_stages; s++) {
        if (w->config->stage[s] == NULL)
            continue;
        const struct kind kind = kind_of(w->p, out->is_eval, s);
        struct cs_memory_rehearsal *r = known_at(w->config, kind, s);
        if (!r->is_done)
            rehearse(w->config, kind, s, r);
        out->stage[s] = r->stage;
        w->leaves[s] = r->leaves;
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
        m->n_buffers = calloc(n_edges + 1, sizeof *m->n_buffers);
        m->buffer = calloc(2 * n_edges * n_slots + 1, sizeof *m->buffer);
    }
    if (m == NULL || w.leaves == NULL || w.life == NULL || m->stage == NULL || m->place == NULL ||
        m->n_buffers == NULL || m->buffer == NULL)
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
    free(plan->n_buffers);
    free(plan->buffer);
    free(plan);
}
