/* What a lowered plan holds and what its step costs beside the pipeline. */
#include "core/search/account.h"

#include "core/base/units.h"
#include "core/search/job.h"

/* one entry per rank of the pipeline's branches, chunks together */
static void name_stages(const struct cs_trial *t, struct cs_arena *arena,
                        struct cs_search_plan *plan)
{
    int32_t n = 0, base = 0;
    for (int32_t b = 0; b <= t->llm; b++)
        n += t->c->place[b] == CS_PLACE_OWN ? t->c->pp[b] : 0;
    struct cs_search_stage *stage = CS_NEW_ARRAY(arena, struct cs_search_stage, n);
    plan->stage = stage;
    plan->n_stages = n;
    for (int32_t b = 0; b <= t->llm; b++) {
        int32_t pp = t->c->place[b] == CS_PLACE_OWN ? t->c->pp[b] : 0;
        for (int32_t s = 0; s < pp; s++, stage++) {
            *stage = (struct cs_search_stage){
                .name = cs_arena_printf(arena, "%s.%d", t->problem->branch[b].name, s),
                .branch = b,
                .index = s,
                .rank = base};
            for (int32_t c = s; c < cs_trial_stages(t, b); c += pp) {
                const struct cs_stage *st = &t->plan->stages[t->first_stage[b] + c];
                stage->n_layers += st->n_layers;
                stage->fwd_ns += st->fwd_ns;
                stage->bwd_input_ns += st->bwd_input_ns;
                stage->bwd_weight_ns += st->bwd_weight_ns;
            }
            base += t->c->own_dp[b] * t->option[b]->tp * t->option[b]->cp;
        }
    }
}

/* but for what follows from orders */
static void count_layers(const struct cs_trial *t, struct cs_search_stage *st)
{
    int32_t b = st->branch, layer = 0;
    for (int32_t c = 0; c < cs_trial_stages(t, b); c++) {
        int32_t n = t->found->sizes[b][c];
        if (c % t->c->pp[b] == st->index) {
            const struct cs_memory_load load = cs_trial_load(t, b, layer);
            cs_memory_add(t->layer[b] + layer, n, &load, &st->memory);
        }
        layer += n;
    }
    if (t->c->pp[b] == 1) {
        const struct cs_memory_load whole = cs_trial_load(t, b, 0);
        cs_memory_share(&t->option[b]->shared, &whole, &st->memory);
    }
    if (b == t->llm)
        cs_trial_add_encoders(t, &st->memory);
}

/* of each rank, (n_ranks) */
struct between {
    const int64_t *activations, *boundary, *windows;
};

/* Orders of fewer slots keep as much as those of all. */
static enum cs_status count_between(const struct cs_trial *t, struct cs_known_buffers *known,
                                    struct cs_buffer_slots slots, const int64_t *activations,
                                    struct between *out, struct cs_err *err)
{
    const struct cs_trial_job job = cs_trial_job_make(t);
    int32_t *n_buffers = CS_NEW_ARRAY(t->scratch, int32_t, 2 * job.plan->n_edges + 1),
            *same = CS_NEW_ARRAY(t->scratch, int32_t, 2 * job.plan->n_edges + 1);
    int64_t *kept = CS_NEW_ARRAY(t->scratch, int64_t, t->plan->n_ranks + 1);
    const int32_t last = slots.enough + slots.period;
    CS_TRY(cs_search_buffers(known, job.plan, slots, t->scratch, n_buffers, err));
    if (job.has_own_orders)
        CS_TRY(cs_orders_kept(job.plan, slots.slots < last ? slots.slots : last, job.held, kept,
                              same, err));
    *out = (struct between){.activations = job.has_own_orders ? kept : activations,
                            .boundary = cs_trial_job_boundary(t, &job, n_buffers),
                            .windows = cs_trial_job_windows(t, &job)};
    return CS_OK;
}

enum cs_status cs_account_memory(struct cs_trial *t, const struct cs_replay *replay,
                                 struct cs_known_buffers *known, struct cs_buffer_slots all,
                                 struct cs_arena *arena, struct cs_search_plan *plan,
                                 struct cs_err *err)
{
    int32_t *slots = CS_NEW_ARRAY(t->scratch, int32_t, t->plan->n_stages + 1);
    int64_t *bytes = CS_NEW_ARRAY(t->scratch, int64_t, t->plan->n_ranks + 1);
    struct between between;
    cs_replay_peaks(replay, t->group, t->kept, slots, bytes, t->scratch);
    CS_TRY(count_between(t, known, all, bytes, &between, err));
    name_stages(t, arena, plan);
    plan->peak_bytes = 0;
    for (int32_t i = 0; i < plan->n_stages; i++) {
        struct cs_search_stage *st = &plan->stage[i];
        const int32_t rank = t->first_rank[st->branch] + st->index;
        count_layers(t, st);
        st->memory.activations = between.activations[rank];
        st->memory.boundary = between.boundary[rank];
        st->memory.windows = cs_trial_windows(t, st->branch) + between.windows[rank];
        st->in_flight = slots[t->first_stage[st->branch] + st->index];
        int64_t total = cs_memory_total(&st->memory);
        plan->peak_bytes = total > plan->peak_bytes ? total : plan->peak_bytes;
    }
    t->boundary = between.boundary;
    return CS_OK;
}

enum cs_status cs_account_check(struct cs_trial *t, const struct cs_search_plan *plan,
                                struct cs_err *err)
{
    if (t->problem->mem_bytes <= 0 || plan->peak_bytes <= t->problem->mem_bytes)
        return CS_OK;
    t->nearest = plan->peak_bytes;
    for (int32_t i = 0; i < plan->n_stages; i++) {
        const struct cs_search_stage *st = &plan->stage[i];
        if (cs_memory_total(&st->memory) != plan->peak_bytes)
            continue;
        struct cs_buf text = {0};
        t->tight_branch = st->branch;
        cs_memory_explain(&st->memory, st->rank, st->name, st->in_flight, t->problem->mem_bytes,
                          &text);
        enum cs_status status = cs_fail(err, CS_PLAN, "does not fit: %s", cs_buf_str(&text));
        cs_buf_free(&text);
        return status;
    }
    return CS_OK;
}

static int64_t moved_ns(const struct cs_trial *t, int64_t bytes)
{
    const int64_t bytes_per_s = t->problem->bytes_per_s;
    return bytes_per_s > 0 ? (int64_t)(1e9 * (double)bytes / (double)bytes_per_s) : 0;
}

/* of layers that train */
struct trained {
    int64_t grad_bytes;       /* whole gradients: what a ring over replicas carries */
    int64_t n_grads, n;       /* elements of gradients; parameters that are updated */
    int64_t added_grad_bytes; /* of a tied table's second gradient on the same rank */
};

static void add_layers(const struct cs_search_layer *layer, int32_t n, struct trained *all)
{
    for (int32_t i = 0; i < n; i++) {
        all->grad_bytes += layer[i].grad_bytes;
        all->n_grads += layer[i].n_trained;
        all->n += layer[i].n_trained;
    }
}

static void share_tied(const struct cs_search_layer *shared, struct trained *all)
{
    const bool is_added = shared->grad_bytes == 0; /* one for each layer */
    all->grad_bytes -= shared->grad_bytes;
    all->n -= shared->n_trained;
    all->n_grads -= is_added ? 0 : shared->n_trained;
    all->added_grad_bytes = is_added ? shared->n_trained * 4 : 0;
}

/* of a rank; encoders that share it are not counted */
static struct trained trained_of(const struct cs_trial *t, const struct cs_search_stage *st)
{
    struct trained all = {0};
    int32_t b = st->branch, layer = 0;
    for (int32_t c = 0; c < cs_trial_stages(t, b); c++) {
        if (c % t->c->pp[b] == st->index)
            add_layers(t->layer[b] + layer, t->found->sizes[b][c], &all);
        layer += t->found->sizes[b][c];
    }
    if (t->c->pp[b] == 1)
        share_tied(&t->option[b]->shared, &all);
    return all;
}

/* of an encoder on the LLM's ranks */
static struct trained trained_beside(const struct cs_trial *t, int32_t encoder)
{
    struct trained all = {0};
    if (t->c->place[encoder] != CS_PLACE_OWN)
        add_layers(t->layer[encoder], t->problem->branch[encoder].n_layers, &all);
    return all;
}

/* Gradients to 0, their norm and the update on a rank. Of what replicas share, each does its
 * part. */
static int64_t measured_ns(const struct cs_trial *t, int32_t b, const struct trained *x)
{
    const struct cs_profile_step *step = &t->problem->optimizer.step;
    const int64_t shards = cs_trial_shards(t, b), zero = t->c->zero[b];
    if (x->n_grads == 0)
        return 0;
    return cs_quadratic_ns(&step->clear, x->n_grads) / (zero >= 2 ? shards : 1) +
           (cs_quadratic_ns(&step->norm, x->n) + moved_ns(t, 3 * x->added_grad_bytes) +
            cs_quadratic_ns(&step->update, x->n)) /
               (zero >= 1 ? shards : 1);
}

/* zero 2 has reduced gradients in its slots and gathers weights only, zero 3 does both in slots */
static int64_t exchange_ns(const struct cs_trial *t, int32_t b, int64_t bytes)
{
    static const int times[] = {2, 2, 1, 0};
    return times[t->c->zero[b]] *
           cs_search_gather_ns(t->problem, cs_trial_shards(t, b), t->option[b]->tp, bytes);
}

/* measured, else what moves: gradients, moments and masters are read and written */
static int64_t optim_ns(const struct cs_trial *t, const struct cs_search_stage *st)
{
    const struct trained own = trained_of(t, st);
    const int64_t bytes = 2 * (st->memory.grads + st->memory.optimizer);
    if (t->problem->optimizer.source == CS_STEP_BYTES)
        return bytes > 0 ? t->problem->step_fixed_ns + moved_ns(t, bytes) : 0;
    int64_t ns = measured_ns(t, st->branch, &own);
    for (int32_t e = 0; st->branch == t->llm && e < t->llm; e++) {
        const struct trained beside = trained_beside(t, e);
        ns += measured_ns(t, e, &beside);
    }
    return ns;
}

void cs_account_step(const struct cs_trial *t, struct cs_search_plan *plan)
{
    int64_t encoders = 0;
    plan->sync_ns = plan->optim_ns = 0;
    for (int32_t e = 0; e < t->llm; e++)
        encoders += exchange_ns(t, e, trained_beside(t, e).grad_bytes);
    for (int32_t i = 0; i < plan->n_stages; i++) {
        const struct cs_search_stage *st = &plan->stage[i];
        int64_t sync = exchange_ns(t, st->branch, trained_of(t, st).grad_bytes) +
                       (st->branch == t->llm ? encoders : 0);
        int64_t optim = optim_ns(t, st);
        plan->sync_ns = sync > plan->sync_ns ? sync : plan->sync_ns;
        plan->optim_ns = optim > plan->optim_ns ? optim : plan->optim_ns;
    }
    plan->step_ns = plan->pipeline_ns + plan->sync_ns + plan->optim_ns;
}

void cs_account_bubbles(const struct cs_trial *t, const struct cs_replay *r, const int64_t *cost,
                        double step_of, struct cs_search_plan *plan)
{
    double *busy = CS_NEW_ARRAY(t->scratch, double, t->plan->n_ranks + 1);
    plan->bubble = 0;
    for (int32_t i = 0; i < r->n_items; i++)
        busy[r->item[i].rank] += (double)cost[i];
    for (int32_t i = 0; i < plan->n_stages; i++) {
        struct cs_search_stage *st = &plan->stage[i];
        int32_t rank = t->first_rank[st->branch] + st->index;
        st->bubble = step_of > 0 ? 1 - busy[rank] / step_of : 0;
        plan->bubble += st->bubble / plan->n_stages;
    }
}

static bool has_beside(const struct cs_trial *t)
{
    for (int32_t e = 0; e < t->llm; e++)
        if (t->c->place[e] != CS_PLACE_OWN)
            return true;
    return false;
}

/* What the columns of a row do not say. */
void cs_account_say(const struct cs_trial *t, struct cs_arena *arena, struct cs_search_plan *plan)
{
    const struct cs_search_stage *worst = &plan->stage[0];
    for (int32_t i = 1; i < plan->n_stages; i++) {
        const struct cs_search_stage *s = &plan->stage[i];
        if (s->fwd_ns + s->bwd_input_ns + s->bwd_weight_ns >
            worst->fwd_ns + worst->bwd_input_ns + worst->bwd_weight_ns)
            worst = s;
    }
    char f[CS_UNITS_CAP], b[CS_UNITS_CAP];
    int64_t bwd = worst->bwd_input_ns + worst->bwd_weight_ns;
    static const char *const rules[] = {[CS_CUT_TRUE] = "",
                                        [CS_CUT_BLIND] = "; cut as if everything trained",
                                        [CS_CUT_LAYERS] = "; stages of equal numbers of layers"};
    cs_duration_print(f, sizeof f, (uint64_t)worst->fwd_ns);
    cs_duration_print(b, sizeof b, (uint64_t)bwd);
    plan->why = cs_arena_printf(
        arena,
        "bottleneck %s: %d layer%s, F %s + B %s a slot%s; %d slot%s of a "
        "replica%s%s",
        worst->name, worst->n_layers, CS_PLURAL(worst->n_layers), f, bwd > 0 ? b : "nothing",
        worst->branch == t->llm && has_beside(t) ? ", encoders on its ranks apart" : "", t->slots,
        CS_PLURAL(t->slots), rules[cs_planner_rules[t->c->planner].cut],
        plan->is_refined ? "; layers moved after the cut" : "");
}
