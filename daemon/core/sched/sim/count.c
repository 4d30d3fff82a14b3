/* Counts what a run of the engine means for stages and ranks. The actions of a rank's
 * compute stream follow each other in time, so one walk along the stream gives every curve. */
#include "core/sched/sim/count.h"

#include "core/sched/traits.h"

struct interval {
    double begin, end;
};

/* the first part of [at, to] in which a message or collective that the action waits for runs */
static bool next_wait(const struct cs_precedence *graph, const struct cs_engine_result *run,
                      int32_t rank, const struct cs_action *a, double at, double to,
                      struct interval *out)
{
    const struct cs_rank_program *rp = &graph->program->rank[rank];
    bool is_found = false;
    for (uint32_t d = 0; d < a->n_deps; d++) {
        uint32_t on = rp->deps[a->first_dep + d], node = graph->base[rank] + on;
        if (cs_op_stream((enum cs_op)rp->actions[on].op) != CS_STREAM_COMM)
            continue;
        double begin = run->start[node] > at ? run->start[node] : at;
        double end = run->end[node] < to ? run->end[node] : to;
        if (begin < end && (!is_found || begin < out->begin)) {
            *out = (struct interval){begin, end};
            is_found = true;
        }
    }
    return is_found;
}

static double waited_for(const struct cs_precedence *graph, const struct cs_engine_result *run,
                         int32_t rank, const struct cs_action *a, double from, double to)
{
    double sum = 0;
    struct interval wait = {0};
    for (double at = from; next_wait(graph, run, rank, a, at, to, &wait); at = wait.end)
        sum += wait.end - wait.begin;
    return sum;
}

struct walk {              /* along the compute stream of a rank */
    double before, idle;   /* end of the action before, idle time so far */
    double *idle_at_first; /* (n_groups) */
};

static void count_action(const struct cs_stage_traits *t, const struct cs_action *a, double start,
                         double end, struct cs_engine_count *c, struct walk *walk, int32_t group)
{
    if (c->first < 0) {
        c->first = start;
        walk->idle_at_first[group] = walk->idle;
    }
    c->last = end;
    c->span_idle = walk->idle - walk->idle_at_first[group];
    c->busy += end - start;
    c->fwd += cs_op_does((enum cs_op)a->op, CS_PART_FORWARD) ? end - start : 0;
    c->left += cs_live_change(t, a);
    int32_t live = c->left > 0 || t->has_backward ? c->left : 1;
    c->peak = live > c->peak ? live : c->peak;
}

void cs_engine_count(const struct cs_precedence *graph, const struct cs_engine_result *run,
                     const int32_t *group, int32_t n_groups, struct cs_arena *arena,
                     struct cs_engine_count *count)
{
    const struct cs_program *program = graph->program;
    const struct cs_stage_traits *traits =
        cs_traits_make(program->plan, program->is_eval, program->share, arena);
    struct walk walk = {.idle_at_first = CS_NEW_ARRAY(arena, double, n_groups + 1)};
    for (int32_t g = 0; g < n_groups; g++)
        count[g] = (struct cs_engine_count){.first = -1};
    for (int32_t r = 0; r < program->n_ranks; r++) {
        const struct cs_rank_program *rp = &program->rank[r];
        walk.before = walk.idle = 0;
        for (uint32_t i = 0; i < rp->n_fifo[CS_STREAM_COMPUTE]; i++) {
            const struct cs_action *a = &rp->actions[rp->fifo[CS_STREAM_COMPUTE][i]];
            uint32_t node = graph->base[r] + a->id;
            double start = run->start[node], end = run->end[node], before = walk.before;
            walk.idle += start - before;
            walk.before = end;
            if (a->stage < 0)
                continue;
            struct cs_engine_count *c = &count[group[a->stage]];
            if (start > before)
                c->exposed += waited_for(graph, run, r, a, before, start);
            count_action(&traits[a->stage], a, start, end, c, &walk, group[a->stage]);
        }
    }
}

static struct cs_engine_rank count_rank(const struct cs_precedence *graph,
                                        const struct cs_engine_result *run,
                                        const struct cs_stage_traits *traits, int32_t r)
{
    const struct cs_rank_program *rp = &graph->program->rank[r];
    const struct cs_stage *stages = graph->program->plan->stages;
    struct cs_engine_rank out = {0};
    double first = -1, last = 0, before = 0;
    int64_t bytes = 0;
    for (uint32_t i = 0; i < rp->n_fifo[CS_STREAM_COMPUTE]; i++) {
        const struct cs_action *a = &rp->actions[rp->fifo[CS_STREAM_COMPUTE][i]];
        uint32_t node = graph->base[r] + a->id;
        double start = run->start[node], end = run->end[node];
        if (start > before)
            out.exposed += waited_for(graph, run, r, a, before, start);
        before = end;
        if (a->stage < 0)
            continue;
        first = first < 0 ? start : first;
        last = end;
        out.busy += end - start;
        bytes += cs_live_change(&traits[a->stage], a) * stages[a->stage].saved_bytes;
        out.peak_bytes = bytes > out.peak_bytes ? bytes : out.peak_bytes;
    }
    out.first = first < 0 ? 0 : first;
    out.last = last;
    out.span_idle = first < 0 ? 0 : last - first - out.busy;
    return out;
}

void cs_engine_ranks(const struct cs_precedence *graph, const struct cs_engine_result *run,
                     struct cs_arena *arena, struct cs_engine_rank *rank)
{
    const struct cs_program *program = graph->program;
    const struct cs_plan *plan = program->plan;
    const struct cs_stage_traits *traits =
        cs_traits_make(plan, program->is_eval, program->share, arena);
    for (int32_t r = 0; r < program->n_ranks; r++)
        rank[r] = count_rank(graph, run, traits, r);
    for (int32_t s = 0; s < plan->n_stages; s++)
        rank[plan->stages[s].rank].peak_bytes +=
            plan->stages[s].weight_bytes + plan->stages[s].state_bytes;
}

double *cs_engine_modules(const struct cs_plan *plan, const struct cs_engine_rank *rank,
                          double makespan, struct cs_arena *arena, int32_t *n_modules)
{
    int32_t n = 0;
    for (int32_t s = 0; s < plan->n_stages; s++)
        n = plan->stages[s].branch >= n ? plan->stages[s].branch + 1 : n;
    double *bubble = CS_NEW_ARRAY(arena, double, n + 1), *busy = CS_NEW_ARRAY(arena, double, n + 1);
    int32_t *ranks = CS_NEW_ARRAY(arena, int32_t, n + 1);
    int32_t *seen = CS_NEW_ARRAY(arena, int32_t, plan->n_ranks + 1); /* branch + 1 */
    for (int32_t s = 0; s < plan->n_stages; s++) {
        int32_t branch = plan->stages[s].branch, r = plan->stages[s].rank;
        if (seen[r] == branch + 1) /* stages come branch by branch */
            continue;
        seen[r] = branch + 1;
        ranks[branch]++;
        busy[branch] += rank[r].busy;
    }
    for (int32_t b = 0; b < n; b++)
        bubble[b] = makespan > 0 && ranks[b] > 0 ? 1 - busy[b] / (ranks[b] * makespan) : 0;
    *n_modules = n;
    return bubble;
}
