/* Takes the memory of a rank in one piece, as large as the plans of its programs say, and divides
 * it between scratch, kept activations and boundary buffers. */
#include "worker/exec/arena.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/sched/lower/lower.h"

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
    const size_t n_known = (size_t)exec->config.plan->n_stages * CS_MEMORY_KINDS;
    struct cs_fullest fullest = {.block_bytes = 0};
    struct cs_memory_plan *made = NULL;
    void *grown =
        realloc(exec->memory_plan, (size_t)(exec->n_memory_plans + 1) * sizeof *exec->memory_plan);
    if (grown == NULL)
        return cs_fail(err, CS_NO_MEMORY, "no memory to plan that of a program");
    exec->memory_plan = grown;
    if (exec->rehearsed == NULL)
        exec->rehearsed = calloc(n_known + 1, sizeof *exec->rehearsed);
    if (exec->rehearsed == NULL)
        return cs_fail(err, CS_NO_MEMORY, "no memory to plan that of a program");
    struct cs_memory_config config = {.graph = exec->config.graph,
                                      .plan = exec->config.plan,
                                      .device = exec->config.device,
                                      .stage = exec->stage,
                                      .known = exec->rehearsed,
                                      .rank = exec->config.rank};
    if (!cs_memory_is_rehearsed(&config, program)) {
        CS_TRY(cs_fullest_new(tables, cs_exec_needs(exec, program->is_eval), &fullest, err));
        config.fullest = &fullest;
    }
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
                             int n_slots, enum cs_status status, struct cs_err *err)
{
    char device[256];
    struct cs_err why = err != NULL ? *err : (struct cs_err){.status = status};
    describe_device(exec->config.device, device, sizeof device);
    return cs_fail(
        err, status,
        "rank %d needs %.2f GiB for a step of %d slots (%.2f activations, %.2f scratch, %.2f "
        "between stages): %s. Recompute selective or full, fewer seq_tokens, more pipeline stages "
        "or fewer slots need less. %s",
        cs_exec_rank(exec, exec->config.rank), gib(m->kept + m->scratch + m->boundary), n_slots,
        gib(m->kept), gib(m->scratch), gib(m->boundary), device, why.text);
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
static enum cs_status allocate(struct cs_exec *exec, const struct cs_exec_memory *m, int n_slots,
                               struct cs_err *err)
{
    struct cs_device *d = exec->config.device;
    void *arena;
    if (exec->arena != NULL && d->mem != NULL) /* where memory is dear */
        fprintf(stderr, "rank %d: a step of %d slots needs %.1f MiB, %.1f were planned\n",
                cs_exec_rank(exec, exec->config.rank), n_slots, 1024.0 * gib(bytes_of(m)),
                1024.0 * gib(exec->arena_bytes));
    CS_TRY(cs_device_sync(d, err));
    cs_graphs_moved(exec->graphs);
    drop_arena(exec);
    const enum cs_status status = cs_device_alloc(d, bytes_of(m), &arena, err);
    if (status != CS_OK)
        return cannot(exec, m, n_slots, status, err);
    exec->arena = arena;
    exec->arena_bytes = bytes_of(m);
    exec->memory = *m;
    return CS_OK;
}

/* for activations that wait there; nothing of a step is in it */
static enum cs_status take_host(struct cs_exec *exec, size_t bytes, struct cs_err *err)
{
    void *host;
    if (bytes <= exec->host_bytes)
        return CS_OK;
    CS_TRY(cs_device_sync(exec->config.device, err));
    cs_device_free_host(exec->config.device, exec->host);
    exec->host = NULL;
    exec->host_bytes = 0;
    const enum cs_status status = cs_device_alloc_host(exec->config.device, bytes, &host, err);
    if (status != CS_OK)
        return cs_wrap(err, status,
                       "rank %d needs %.2f GiB of the host's memory for activations that wait "
                       "there",
                       cs_exec_rank(exec, exec->config.rank), gib(bytes));
    exec->host = host;
    exec->host_bytes = exec->memory.host = bytes;
    return CS_OK;
}

static enum cs_status plan_of(struct cs_exec *exec, const struct cs_program *program,
                              const struct cs_input_tables *tables,
                              const struct cs_memory_plan **out, struct cs_exec_memory *memory,
                              struct cs_err *err)
{
    *out = find(exec, program);
    if (*out == NULL)
        CS_TRY(add_plan(exec, program, tables, out, err));
    *memory = (struct cs_exec_memory){
        .kept = (*out)->kept,
        .scratch = (*out)->scratch,
        .boundary = cs_boundary_bytes(exec->boundary, (*out)->n_buffers),
        .host = (*out)->host,
    };
    return CS_OK;
}

/* ---- before the first step ---- */

/* What the step of most bytes takes, among those of 1 to n slots. */
struct most {
    struct cs_exec_memory memory;
    size_t host; /* of all of them */
    int n_slots; /* of that step, 0: no number of slots can be run */
};

static enum cs_status look_at(struct cs_exec *exec, int n_slots, bool is_eval,
                              const struct cs_input_tables *tables, struct most *most,
                              struct cs_err *err)
{
    struct cs_arena *arena = cs_arena_new(0);
    struct cs_program *program = NULL;
    const struct cs_memory_plan *plan;
    struct cs_exec_memory m;
    enum cs_status status = cs_program_make(exec->config.plan, exec->config.graph, n_slots, is_eval,
                                            arena, &program, err);
    if (status == CS_OK)
        status = plan_of(exec, program, tables, &plan, &m, err);
    if (status == CS_OK && m.host > most->host)
        most->host = m.host;
    if (status == CS_OK && bytes_of(&m) >= bytes_of(&most->memory)) {
        most->memory = m;
        most->n_slots = n_slots;
    }
    cs_arena_free(arena);
    return status;
}

/* Every number of slots that is usual; of many not each: what lies between takes about as much. */
static int next_number(int n, int to)
{
    const int next = n < 256 ? n + 1 : n + n / 8;
    return n < to && next > to ? to : next;
}

/* Some schedules cannot run few slots; such a step ends the job with what it says. But not all. */
static enum cs_status look_at_all(struct cs_exec *exec, const struct cs_exec_steps *steps, int from,
                                  int to, const struct cs_input_tables *tables, struct most *most,
                                  struct cs_err *err)
{
    struct cs_err why = {0};
    for (int n = from; n <= to; n = next_number(n, to))
        for (int is_eval = 0; is_eval <= steps->has_eval; is_eval++) {
            const enum cs_status status = look_at(exec, n, is_eval != 0, tables, most, &why);
            if (status != CS_OK && (status != CS_PLAN || (n == to && most->n_slots == 0))) {
                if (err != NULL)
                    *err = why;
                return status;
            }
        }
    return CS_OK;
}

/* The rest of the device is for what libraries take while a job runs: a sixteenth is left. */
static bool leaves_some(const struct cs_device *d, size_t bytes)
{
    struct cs_device_properties p = {.name = ""};
    if (d->mem == NULL || d->mem->properties == NULL ||
        d->mem->properties(d->index, &p, NULL) != CS_OK || p.memory_bytes == 0)
        return true;
    return d->allocated + bytes <= p.memory_bytes / 16 * 15;
}

static double mib_of(const struct most *most, size_t n_slots, size_t slot_bytes)
{
    return 1024.0 * gib(bytes_of(&most->memory) + n_slots * slot_bytes);
}

static void say_fewer(const struct cs_exec *exec, const struct cs_exec_steps *steps,
                      const struct most *all, const struct most *few, int usual)
{
    fprintf(stderr,
            "rank %d: steps may have up to %d slots and take %.1f MiB then, more than this device "
            "has left; %.1f MiB are planned, for up to %d. A step of more takes what it needs when "
            "it comes, and ends the job if that is not there. Fewer batch_samples, fewer "
            "seq_tokens or recompute need less.\n",
            cs_exec_rank(exec, exec->config.rank), steps->most,
            mib_of(all, (size_t)steps->most, steps->slot_bytes),
            mib_of(few, (size_t)usual, steps->slot_bytes), usual);
}

enum cs_status cs_exec_reserve(struct cs_exec *exec, const struct cs_exec_steps *steps,
                               const struct cs_input_tables *tables, int *n_slots,
                               struct cs_err *err)
{
    const int usual = steps->usual < steps->most ? steps->usual : steps->most;
    struct most few = {.n_slots = 0};
    CS_TRY(look_at_all(exec, steps, 1, usual, tables, &few, err));
    struct most all = few;
    CS_TRY(look_at_all(exec, steps, usual + 1, steps->most, tables, &all, err));
    const size_t bytes = bytes_of(&all.memory) + (size_t)steps->most * steps->slot_bytes;
    *n_slots = steps->most;
    if (usual < steps->most && leaves_some(exec->config.device, bytes) &&
        allocate(exec, &all.memory, all.n_slots, NULL) == CS_OK)
        return take_host(exec, all.host, err);
    if (usual < steps->most)
        say_fewer(exec, steps, &all, &few, usual);
    *n_slots = usual;
    CS_TRY(allocate(exec, &few.memory, few.n_slots, err));
    return take_host(exec, few.host, err);
}

static bool is_one_piece(const struct cs_scratch *scratch)
{
    return !scratch->is_bound || scratch->n_chunks == 1;
}

bool cs_exec_keeps_plan(const struct cs_exec *exec)
{
    bool keeps = is_one_piece(&exec->scratch);
    for (int32_t s = 0; s < exec->config.plan->n_stages; s++)
        for (int32_t i = 0; i < exec->n_spare[s]; i++)
            keeps &=
                is_one_piece(&exec->spare[s][i]->memory) && is_one_piece(&exec->spare[s][i]->held);
    return keeps;
}

/* ---- steps ---- */

/* Scratch first: it is as large in every program of a kind, so what lies in it keeps its address
 * whatever the number of slots (worker/exec/state/graphs.h). */
enum cs_status cs_exec_use_memory(struct cs_exec *exec, const struct cs_program *program,
                                  const struct cs_input_tables *tables, struct cs_err *err)
{
    struct cs_exec_memory needed;
    CS_TRY(plan_of(exec, program, tables, &exec->planned, &needed, err));
    const struct cs_memory_plan *m = exec->planned;
    if (exec->arena == NULL || bytes_of(&needed) > exec->arena_bytes)
        CS_TRY(allocate(exec, &needed, program->n_slots, err));
    CS_TRY(take_host(exec, needed.host, err));
    cs_scratch_bind(&exec->scratch, exec->arena, m->scratch);
    cs_boundary_follow(exec->boundary, m->n_buffers, m->buffer, exec->arena + m->scratch + m->kept);
    return CS_OK;
}

void cs_exec_free_memory(struct cs_exec *exec)
{
    drop_arena(exec);
    cs_device_free_host(exec->config.device, exec->host);
    for (int32_t i = 0; i < exec->n_memory_plans; i++)
        cs_memory_plan_free(exec->memory_plan[i]);
    free(exec->memory_plan);
    free(exec->rehearsed);
}
