/* Sets of activations leave the device and come back, stage by stage. */
#include "worker/exec/state/offload.h"

#include <stdlib.h>

#include "core/plan/offload.h"

/* One forward or backward that uses a place. */
struct use {
    int32_t slot;
    bool is_backward;
};

/* A place for a set of activations. */
struct place {
    struct use *use;          /* (n) of the step, in order */
    int32_t n, at;            /* at: the next one */
    void *used, *left, *came; /* events: it was worked on; it is on the host; it is back */
    bool is_leaving, is_coming;
};

struct cs_offload {
    void *out, *in;      /* streams */
    struct place *place; /* (n_stages, CS_OFFLOAD_SETS) */
    size_t *bytes;       /* (n_slots, n_stages) of what a forward kept */
    int32_t n_slots;     /* room */
};

static const struct cs_device_ops *mem_of(const struct cs_exec *exec)
{
    return exec->config.device->mem;
}

static const struct cs_memory_offload *plan_of(const struct cs_exec *exec, int32_t stage)
{
    return &exec->planned->offload[stage];
}

static bool moves(const struct cs_exec *exec, const struct cs_action *a)
{
    return exec->offload != NULL && !exec->program->is_eval && a->stage >= 0 &&
           plan_of(exec, a->stage)->sets > 0;
}

static struct place *place_of(const struct cs_exec *exec, const struct cs_action *a)
{
    return &exec->offload
                ->place[a->stage * CS_OFFLOAD_SETS + a->slot % plan_of(exec, a->stage)->sets];
}

/* where a set lies on the device, and on the host */
static char *here(const struct cs_exec *exec, int32_t stage, int32_t slot)
{
    const struct cs_memory_plan *m = exec->planned;
    return exec->arena + m->scratch + m->place[slot * m->n_stages + stage].keep;
}

static char *there(const struct cs_exec *exec, int32_t stage, int32_t slot)
{
    const struct cs_memory_offload *o = plan_of(exec, stage);
    return exec->host + o->at + (size_t)(slot % o->alive) * exec->planned->stage[stage].keep;
}

/* ---- a step ---- */

static enum cs_status make(struct cs_exec *exec, struct cs_err *err)
{
    const struct cs_device *d = exec->config.device;
    const size_t n = (size_t)exec->config.plan->n_stages * CS_OFFLOAD_SETS;
    struct cs_offload *o = exec->offload = calloc(1, sizeof *o);
    if (o == NULL || (o->place = calloc(n, sizeof *o->place)) == NULL)
        return cs_fail(err, CS_NO_MEMORY, "no memory to move activations");
    CS_TRY(mem_of(exec)->stream_create(d->handle, &o->out, err));
    CS_TRY(mem_of(exec)->stream_create(d->handle, &o->in, err));
    for (size_t i = 0; i < n; i++) {
        if (!exec->config.plan->stages[i / CS_OFFLOAD_SETS].offloads)
            continue;
        CS_TRY(mem_of(exec)->event_create(d->handle, &o->place[i].used, err));
        CS_TRY(mem_of(exec)->event_create(d->handle, &o->place[i].left, err));
        CS_TRY(mem_of(exec)->event_create(d->handle, &o->place[i].came, err));
    }
    return CS_OK;
}

/* room for the uses of every place: two of every slot */
static enum cs_status reserve(struct cs_exec *exec, struct cs_err *err)
{
    struct cs_offload *o = exec->offload;
    const int32_t n = exec->program->n_slots, n_stages = exec->config.plan->n_stages;
    if (n <= o->n_slots)
        return CS_OK;
    size_t *bytes = realloc(o->bytes, (size_t)n * (size_t)n_stages * sizeof *bytes);
    if (bytes == NULL)
        return cs_fail(err, CS_NO_MEMORY, "no memory to move activations of %d slots", n);
    o->bytes = bytes;
    for (int32_t i = 0; i < n_stages * CS_OFFLOAD_SETS; i++) {
        struct use *use = realloc(o->place[i].use, 2 * (size_t)n * sizeof *use);
        if (use == NULL)
            return cs_fail(err, CS_NO_MEMORY, "no memory to move activations of %d slots", n);
        o->place[i].use = use;
    }
    o->n_slots = n;
    return CS_OK;
}

static bool is_stage_work(const struct cs_exec *exec, const struct cs_action *a)
{
    return cs_op_is((enum cs_op)a->op, CS_OP_KIND_WORK) && moves(exec, a);
}

enum cs_status cs_exec_offload_begin(struct cs_exec *exec, struct cs_err *err)
{
    const struct cs_rank_program *p = exec->mine;
    bool any = false;
    for (int32_t s = 0; s < exec->config.plan->n_stages; s++)
        any = any || plan_of(exec, s)->sets > 0;
    if (!any)
        return CS_OK;
    if (exec->offload == NULL)
        CS_TRY(make(exec, err));
    CS_TRY(reserve(exec, err));
    for (int32_t i = 0; i < exec->config.plan->n_stages * CS_OFFLOAD_SETS; i++) {
        struct place *place = &exec->offload->place[i];
        place->n = place->at = 0;
        place->is_leaving = place->is_coming = false;
    }
    for (uint32_t i = 0; i < p->n_fifo[CS_STREAM_COMPUTE]; i++) {
        const struct cs_action *a = &p->actions[p->fifo[CS_STREAM_COMPUTE][i]];
        if (!is_stage_work(exec, a))
            continue;
        struct place *place = place_of(exec, a);
        place->use[place->n++] =
            (struct use){a->slot, !cs_op_does((enum cs_op)a->op, CS_PART_FORWARD)};
    }
    return CS_OK;
}

enum cs_status cs_exec_offload_before(struct cs_exec *exec, const struct cs_action *action,
                                      struct cs_err *err)
{
    const struct cs_device *d = exec->config.device;
    if (!moves(exec, action))
        return CS_OK;
    struct place *place = place_of(exec, action);
    if (place->is_leaving)
        CS_TRY(mem_of(exec)->stream_wait(d->handle, d->stream, place->left, err));
    if (place->is_coming)
        CS_TRY(mem_of(exec)->stream_wait(d->handle, d->stream, place->came, err));
    place->is_leaving = place->is_coming = false;
    return CS_OK;
}

/* bytes of its place that are taken; what did not fit there is elsewhere and stays */
static size_t extent_of(const struct cs_scratch *memory)
{
    return memory->at == 0 ? memory->offset : memory->chunk[0].bytes;
}

/* what a slot keeps: one without rows keeps nothing */
static enum cs_status copy(struct cs_exec *exec, void *stream, void *to, const void *from,
                           int32_t stage, int32_t slot, struct cs_err *err)
{
    const size_t bytes = exec->offload->bytes[slot * exec->config.plan->n_stages + stage];
    return bytes == 0
               ? CS_OK
               : mem_of(exec)->copy(exec->config.device->handle, stream, to, from, bytes, err);
}

static enum cs_status leave(struct cs_exec *exec, struct place *place, int32_t stage, int32_t slot,
                            struct cs_err *err)
{
    const struct cs_device_ops *mem = mem_of(exec);
    struct cs_offload *o = exec->offload;
    void *handle = exec->config.device->handle;
    place->is_leaving = true;
    CS_TRY(mem->stream_wait(handle, o->out, place->used, err));
    CS_TRY(copy(exec, o->out, there(exec, stage, slot), here(exec, stage, slot), stage, slot, err));
    return mem->event_record(handle, place->left, o->out, err);
}

static enum cs_status come(struct cs_exec *exec, struct place *place, int32_t stage, int32_t slot,
                           struct cs_err *err)
{
    const struct cs_device_ops *mem = mem_of(exec);
    struct cs_offload *o = exec->offload;
    void *handle = exec->config.device->handle;
    CS_TRY(mem->stream_wait(handle, o->in, place->used, err));
    CS_TRY(mem->stream_wait(handle, o->in, place->left, err)); /* of all that left before, too */
    CS_TRY(copy(exec, o->in, here(exec, stage, slot), there(exec, stage, slot), stage, slot, err));
    place->is_coming = true;
    return mem->event_record(handle, place->came, o->in, err);
}

enum cs_status cs_exec_offload_after(struct cs_exec *exec, const struct cs_action *action,
                                     const struct cs_saved *saved, struct cs_err *err)
{
    const struct cs_device *d = exec->config.device;
    if (!moves(exec, action))
        return CS_OK;
    struct place *place = place_of(exec, action);
    const struct use *next = ++place->at < place->n ? &place->use[place->at] : NULL;
    const bool is_forward = cs_op_does((enum cs_op)action->op, CS_PART_FORWARD);
    CS_TRY(mem_of(exec)->event_record(d->handle, place->used, d->stream, err));
    if (is_forward)
        exec->offload->bytes[action->slot * exec->config.plan->n_stages + action->stage] =
            extent_of(&saved->memory);
    if (next == NULL || next->slot == action->slot)
        return CS_OK;
    if (is_forward)
        CS_TRY(leave(exec, place, action->stage, action->slot, err));
    return next->is_backward ? come(exec, place, action->stage, next->slot, err) : CS_OK;
}

/* ---- life ---- */

void cs_exec_offload_free(struct cs_exec *exec)
{
    struct cs_offload *o = exec->offload;
    const struct cs_device_ops *mem = o != NULL ? mem_of(exec) : NULL;
    void *handle = exec->config.device->handle;
    if (o == NULL)
        return;
    for (int32_t i = 0; o->place != NULL && i < exec->config.plan->n_stages * CS_OFFLOAD_SETS;
         i++) {
        struct place *p = &o->place[i];
        void *const event[] = {p->used, p->left, p->came};
        for (size_t k = 0; k < CS_ARRAY_LEN(event); k++)
            if (event[k] != NULL)
                mem->event_destroy(handle, event[k]);
        free(p->use);
    }
    if (o->out != NULL)
        mem->stream_destroy(handle, o->out);
    if (o->in != NULL)
        mem->stream_destroy(handle, o->in);
    free(o->place);
    free(o->bytes);
    free(o);
    exec->offload = NULL;
}
