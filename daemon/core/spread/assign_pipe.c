/* The recurrence of 1F1B over a chain of stages whose slots have different costs. */
#include "core/spread/assign_pipe.h"

#include <math.h>
#include <stdbool.h>

/* Ends of forward and backward of every (stage, place), NAN: not yet. */
struct run {
    const struct cs_pipe *pipe;
    const struct cs_pipe_slots *slots;
    const int32_t *order;
    int32_t stages, n;
    double *fwd, *bwd; /* (stages, n) */
    double *clock;     /* (stages) */
    double *next;      /* (stages) number of the next action, whole */
    double *first_back;
};

/* Action number `a` of a stage under 1F1B: place of the slot, and whether it is a backward. */
static int32_t action_at(int32_t a, int32_t warm_up, int32_t n, bool *is_back)
{
    const int32_t steady = 2 * (n - warm_up), t = a - warm_up;
    *is_back = t >= 0 && (t >= steady || t % 2 == 0);
    if (t < 0)
        return a;
    if (t >= steady)
        return n - warm_up + t - steady;
    return *is_back ? t / 2 : warm_up + t / 2;
}

static double cost_of(const struct run *r, int32_t stage, int32_t place, bool is_back)
{
    const struct cs_pipe_slots *s = r->slots;
    const int32_t slot = r->order ? r->order[place] : place;
    if (stage >= r->pipe->enc_stages)
        return s->llm[slot] * (is_back ? r->pipe->llm_backward : 1) / r->pipe->llm_stages;
    const double work = is_back && s->enc_back ? s->enc_back[slot] : s->enc[slot];
    return work * (is_back ? r->pipe->enc_backward : 1) / r->pipe->enc_stages;
}

/* When the inputs of an action are there; NAN: not yet. */
static double ready_at(const struct run *r, int32_t stage, int32_t place, bool is_back)
{
    if (!is_back)
        return stage == 0 ? 0 : r->fwd[(stage - 1) * r->n + place];
    return stage == r->stages - 1 ? r->fwd[stage * r->n + place]
                                  : r->bwd[(stage + 1) * r->n + place];
}

/* The next action of the stage, if it can start. */
static bool advance(struct run *r, int32_t stage)
{
    bool is_back = false;
    const int32_t depth = r->stages - stage, warm_up = depth < r->n ? depth : r->n;
    if (r->next[stage] >= 2 * r->n)
        return false;
    const int32_t place = action_at((int32_t)r->next[stage], warm_up, r->n, &is_back);
    const double ready = ready_at(r, stage, place, is_back);
    if (isnan(ready))
        return false;
    const double start = fmax(ready, r->clock[stage]);
    r->clock[stage] = start + cost_of(r, stage, place, is_back);
    (is_back ? r->bwd : r->fwd)[stage * r->n + place] = r->clock[stage];
    r->next[stage]++;
    if (is_back && stage == 0 && r->first_back) {
        r->first_back[2 * place] = start;
        r->first_back[2 * place + 1] = r->clock[stage];
    }
    return true;
}

size_t cs_pipe_scratch(const struct cs_pipe *pipe, int32_t slots)
{
    return (size_t)(pipe->enc_stages + pipe->llm_stages) * 2 * ((size_t)slots + 1);
}

double cs_pipe_run(const struct cs_pipe *pipe, const struct cs_pipe_slots *slots,
                   const int32_t *order, double *scratch, double *first_back)
{
    struct run r = {
        .pipe = pipe, .slots = slots, .order = order, .n = slots->n, .first_back = first_back};
    double end = 0;
    r.stages = pipe->enc_stages + pipe->llm_stages;
    r.fwd = scratch;
    r.bwd = r.fwd + (size_t)r.stages * (size_t)r.n;
    r.clock = r.bwd + (size_t)r.stages * (size_t)r.n;
    r.next = r.clock + r.stages;
    for (int32_t i = 0; i < 2 * r.stages * r.n; i++)
        scratch[i] = NAN;
    for (int32_t s = 0; s < r.stages; s++)
        r.clock[s] = r.next[s] = 0;
    for (bool is_moving = true; is_moving;) {
        is_moving = false;
        for (int32_t s = 0; s < r.stages; s++)
            while (advance(&r, s))
                is_moving = true;
        for (int32_t s = r.stages - 2; s >= 0; s--) /* gradients flow the other way */
            while (advance(&r, s))
                is_moving = true;
    }
    for (int32_t s = 0; s < r.stages; s++)
        end = fmax(end, r.clock[s]);
    return end;
}

double cs_pipe_even(const struct cs_pipe *pipe, int32_t slots, double enc_sum, double llm_sum,
                    struct cs_arena *arena)
{
    double *enc = CS_NEW_ARRAY(arena, double, slots), *llm = CS_NEW_ARRAY(arena, double, slots);
    double *scratch = CS_NEW_ARRAY(arena, double, cs_pipe_scratch(pipe, slots));
    const struct cs_pipe_slots even = {slots, enc, NULL, llm};
    for (int32_t i = 0; i < slots; i++) {
        enc[i] = enc_sum / slots;
        llm[i] = llm_sum / slots;
    }
    return cs_pipe_run(pipe, &even, NULL, scratch, NULL);
}
