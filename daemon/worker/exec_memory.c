/* The arena of a rank: one piece of device memory, divided as worker/memory.h plans; see exec.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "worker/exec_private.h"

static double gib(size_t bytes)
{
    return (double)bytes / 1073741824.0;
}

struct cs_exec_memory cs_exec_memory(const struct cs_exec *exec)
{
    return exec->memory;
}

static const struct cs_memory_plan *find(const struct cs_exec *exec,
                                         const struct cs_program *program)
{
    for (int32_t i = 0; i < exec->n_memory_plans; i++) {
        const struct cs_memory_plan *m = exec->memory_plan[i];
        if (m->n_slots == program->n_slots && m->is_eval == program->is_eval &&
            strcmp(m->program, program->hash) == 0)
            return m;
    }
    return NULL;
}

static enum cs_status add_plan(struct cs_exec *exec, const struct cs_program *program,
                               const struct cs_input_tables *tables,
                               const struct cs_memory_plan **out, struct cs_err *err)
{
    struct cs_fullest fullest;
    struct cs_memory_plan *made = NULL;
    void *grown =
        realloc(exec->memory_plan, (size_t)(exec->n_memory_plans + 1) * sizeof *exec->memory_plan);
    if (grown == NULL)
        return cs_fail(err, CS_NO_MEMORY, "no memory for a plan of it");
    exec->memory_plan = grown;
    CS_TRY(cs_fullest_new(tables, cs_exec_needs(exec, program->is_eval), &fullest, err));
    const struct cs_memory_config config = {.plan = exec->config.plan,
                                            .device = exec->config.device,
                                            .stage = exec->stage,
                                            .fullest = &fullest,
                                            .rank = exec->config.rank};
    const enum cs_status status = cs_memory_plan_new(&config, program, &made, err);
    cs_fullest_free(&fullest);
    if (status == CS_OK)
        exec->memory_plan[exec->n_memory_plans++] = made;
    *out = made;
    return status;
}

/* "cuda:2 (NVIDIA H200) has 139.8 GiB, of which this worker uses 40.2 without them" */
static void describe_device(const struct cs_device *d, char *out, size_t cap)
{
    struct cs_device_properties p = {.name = ""};
    if (d->mem == NULL || d->mem->properties == NULL ||
        d->mem->properties(d->index, &p, NULL) != CS_OK)
        snprintf(out, cap, "this worker uses %.2f GiB without them", gib(d->allocated));
    else
        snprintf(out, cap, "cuda:%d (%s) has %.2f GiB, of which this worker uses %.2f without them",
                 d->index, p.name, gib(p.memory_bytes), gib(d->allocated));
}

static enum cs_status cannot(const struct cs_exec *exec, const struct cs_exec_memory *m,
                             const struct cs_program *program, enum cs_status status,
                             struct cs_err *err)
{
    char device[256];
    struct cs_err why = err != NULL ? *err : (struct cs_err){.status = status};
    describe_device(exec->config.device, device, sizeof device);
    return cs_fail(
        err, status,
        "rank %d needs %.2f GiB for a step of %d slots (%.2f activations, %.2f scratch, %.2f "
        "between stages): %s. Recompute selective or full, fewer seq_tokens, more pipeline stages "
        "or fewer slots need less. %s",
        exec->config.first_rank + exec->config.rank, gib(m->kept + m->scratch + m->boundary),
        program->n_slots, gib(m->kept), gib(m->scratch), gib(m->boundary), device, why.text);
}

static void drop_arena(struct cs_exec *exec)
{
    struct cs_device *d = exec->config.device;
    cs_scratch_bind(&exec->scratch, NULL, 0);
    cs_device_free(d, exec->arena, exec->arena_bytes);
    exec->arena = NULL;
    exec->arena_bytes = 0;
    exec->memory = (struct cs_exec_memory){.kept = 0};
}

static size_t bytes_of(const struct cs_exec_memory *m)
{
    return m->kept + m->scratch + m->boundary;
}

/* One piece for m; nothing of a step is in the old one. */
static enum cs_status allocate(struct cs_exec *exec, const struct cs_exec_memory *m,
                               const struct cs_program *program, struct cs_err *err)
{
    struct cs_device *d = exec->config.device;
    void *arena;
    if (exec->arena != NULL && d->mem != NULL) /* where memory is dear */
        fprintf(stderr, "rank %d: a step of %d slots needs %.1f MiB, %.1f were planned\n",
                exec->config.first_rank + exec->config.rank, program->n_slots,
                1024.0 * gib(bytes_of(m)), 1024.0 * gib(exec->arena_bytes));
    CS_TRY(cs_device_sync(d, err));
    cs_graphs_moved(exec->graphs);
    drop_arena(exec);
    const enum cs_status status = cs_device_alloc(d, bytes_of(m), &arena, err);
    if (status != CS_OK)
        return cannot(exec, m, program, status, err);
    exec->arena = arena;
    exec->arena_bytes = bytes_of(m);
    exec->memory = *m;
    return CS_OK;
}

static enum cs_status reserve(struct cs_exec *exec, const struct cs_program *program,
                              const struct cs_input_tables *tables,
                              const struct cs_memory_plan **out, struct cs_err *err)
{
    *out = find(exec, program);
    if (*out != NULL)
        return CS_OK;
    CS_TRY(add_plan(exec, program, tables, out, err));
    const struct cs_exec_memory m = {
        .kept = (*out)->kept,
        .scratch = (*out)->scratch,
        .boundary = cs_boundary_bytes(exec->boundary, (*out)->n_buffers),
    };
    const bool has_room = exec->arena != NULL && bytes_of(&m) <= exec->arena_bytes;
    return has_room ? CS_OK : allocate(exec, &m, program, err);
}

enum cs_status cs_exec_reserve(struct cs_exec *exec, const struct cs_program *program,
                               const struct cs_input_tables *tables, struct cs_err *err)
{
    const struct cs_memory_plan *plan;
    return reserve(exec, program, tables, &plan, err);
}

/* Scratch first: it is as large in every program of a kind, so what lies in it keeps its address
 * whatever the number of slots (worker/graphs.h). */
enum cs_status cs_exec_use_memory(struct cs_exec *exec, const struct cs_program *program,
                                  const struct cs_input_tables *tables, struct cs_err *err)
{
    CS_TRY(reserve(exec, program, tables, &exec->planned, err));
    const struct cs_memory_plan *m = exec->planned;
    cs_scratch_bind(&exec->scratch, exec->arena, m->scratch);
    cs_boundary_follow(exec->boundary, m->n_buffers, m->buffer, exec->arena + m->scratch + m->kept);
    return CS_OK;
}

void cs_exec_place(struct cs_exec *exec, struct cs_saved *saved, int32_t stage, int32_t slot)
{
    const struct cs_memory_plan *m = exec->planned;
    const struct cs_memory_place *place = &m->place[slot * m->n_stages + stage];
    char *kept = exec->arena + m->scratch;
    cs_scratch_bind(&saved->memory, kept + place->keep, m->stage[stage].keep);
    cs_scratch_bind(&saved->held, kept + place->held, m->stage[stage].held);
}

void cs_exec_free_memory(struct cs_exec *exec)
{
    drop_arena(exec);
    for (int32_t i = 0; i < exec->n_memory_plans; i++)
        cs_memory_plan_free(exec->memory_plan[i]);
    free(exec->memory_plan);
}
