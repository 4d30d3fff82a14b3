/* Turns events and keys into spans, busy times and waits. */
#include "core/trace/span.h"

#include <math.h>

static bool is_action(const struct cs_span_input *in, int rank, const struct cs_event *e)
{
    if (e->kind != CS_EVENT_ACTION || !cs_event_is_sane(e) || e->action >= in->keys[rank].n)
        return false;
    return in->keys[rank].key[e->action].stage < in->n_stages;
}

/* First start and last end of the actions, and their number. */
static int32_t find_bounds(const struct cs_span_input *in, uint64_t *start_ns, uint64_t *end_ns)
{
    int32_t n = 0;
    *start_ns = UINT64_MAX;
    *end_ns = 0;
    for (int r = 0; r < in->n_ranks; r++) {
        for (uint32_t i = 0; i < in->events[r].n; i++) {
            const struct cs_event *e = &in->events[r].event[i];
            if (!is_action(in, r, e))
                continue;
            *start_ns = e->start_ns < *start_ns ? e->start_ns : *start_ns;
            *end_ns = e->end_ns > *end_ns ? e->end_ns : *end_ns;
            n++;
        }
    }
    return n;
}

/* Any number of lengths may be added. */
static void add_ns(int64_t *sum_ns, int64_t length_ns)
{
    *sum_ns = *sum_ns < CS_EVENT_MAX_NS ? *sum_ns + length_ns : *sum_ns;
}

static void add_action(const struct cs_span_input *in, int rank, const struct cs_event *e,
                       struct cs_span_step *out)
{
    struct cs_span *span = &out->span[out->n_spans++];
    *span = (struct cs_span){.start_ns = (int64_t)e->start_ns - out->start_ns,
                             .end_ns = (int64_t)e->end_ns - out->start_ns,
                             .key = in->keys[rank].key[e->action],
                             .rank = rank,
                             .action = e->action,
                             .cpu_us = e->value};
    if (span->key.is_compute && span->key.stage >= 0)
        add_ns(&out->busy_ns[span->key.stage], span->end_ns - span->start_ns);
}

static void add_event(const struct cs_span_input *in, int rank, const struct cs_event *e,
                      struct cs_span_step *out)
{
    if (!cs_event_is_sane(e)) {
        out->n_unknown++;
        return;
    }
    const int64_t length_ns = (int64_t)(e->end_ns - e->start_ns);
    if (is_action(in, rank, e))
        add_action(in, rank, e, out);
    else if (e->kind == CS_EVENT_WAIT && e->value >= 0 && e->value < CS_WAIT_KINDS)
        add_ns(&out->wait_ns[rank][e->value], length_ns);
    else if (e->kind == CS_EVENT_DATA)
        add_ns(&out->data_ns[rank], length_ns);
    else if (e->kind == CS_EVENT_SAVE)
        add_ns(&out->save_ns[rank], length_ns);
    else if (e->kind != CS_EVENT_STEP)
        out->n_unknown++;
}

/* Ranks that work on each stage; spans lie rank by rank. */
static const int32_t *count_ranks(const struct cs_span_step *spans, struct cs_arena *arena)
{
    int32_t *n = CS_NEW_ARRAY(arena, int32_t, spans->n_stages + 1),
            *last = CS_NEW_ARRAY(arena, int32_t, spans->n_stages + 1);
    for (int32_t i = 0; i < spans->n_spans; i++) {
        const struct cs_span *span = &spans->span[i];
        if (!span->key.is_compute || span->key.stage < 0 || last[span->key.stage] > span->rank)
            continue;
        last[span->key.stage] = span->rank + 1;
        n[span->key.stage]++;
    }
    return n;
}

void cs_span_build(const struct cs_span_input *in, struct cs_arena *arena, struct cs_span_step *out)
{
    uint64_t start_ns, end_ns;
    int32_t n = find_bounds(in, &start_ns, &end_ns);
    size_t ranks = (size_t)in->n_ranks;
    const int replicas = in->replicas > 1 ? in->replicas : 1;
    *out = (struct cs_span_step){
        .start_ns = n ? (int64_t)start_ns : 0,
        .makespan_ns = n ? (int64_t)(end_ns - start_ns) : 0,
        .n_ranks = in->n_ranks,
        .n_stages = in->n_stages,
        .replicas = replicas,
        .busy_ns = CS_NEW_ARRAY(arena, int64_t, in->n_stages),
        .bubble = CS_NEW_ARRAY(arena, double, in->n_stages),
        .wait_ns = cs_arena_array(arena, sizeof *out->wait_ns, ranks),
        .data_ns = CS_NEW_ARRAY(arena, int64_t, ranks),
        .save_ns = CS_NEW_ARRAY(arena, int64_t, ranks),
        .span = CS_NEW_ARRAY(arena, struct cs_span, n),
    };
    for (int r = 0; r < in->n_ranks; r++)
        for (uint32_t i = 0; i < in->events[r].n; i++)
            add_event(in, r, &in->events[r].event[i], out);
    const int32_t *ranks_of = count_ranks(out, arena);
    for (int s = 0; s < in->n_stages; s++) {
        out->busy_ns[s] /= ranks_of[s] > replicas ? ranks_of[s] : replicas;
        out->bubble[s] = out->makespan_ns > 0
                             ? 1 - (double)out->busy_ns[s] / (double)out->makespan_ns
                             : (double)NAN;
    }
}
