/* Draws batches of samples and deals them to the slots of replicas. */
#include "core/search/problem/samples.h"

#include "core/base/philox.h"
#include "core/spread/defer.h"

enum {
    BATCHES = 8,
    MAX_BATCHES = 256,
    MAX_SAMPLES = 1 << 20,
    MAX_ROWS = 1 << 24,
    MAX_LEAST = 1 << 14
};

/* ceil(ln 0.05 / ln 0.95) */
enum { AGREEING = 59 };

static enum cs_status check_values(const struct cs_search_problem *problem, const int32_t *value,
                                   int32_t n, int32_t branch, bool ascends, struct cs_err *err)
{
    for (int32_t i = 0; i < n; i++)
        if (value[i] < 0 || value[i] > MAX_ROWS || (ascends && i > 0 && value[i] < value[i - 1]))
            return cs_fail(err, CS_INVALID, "samples: rows of %s: value %d is %d: from 0 to %d%s",
                           problem->branch[branch].name, i, value[i], MAX_ROWS,
                           ascends ? ", ascending" : "");
    return CS_OK;
}

enum cs_status cs_samples_check(const struct cs_search_problem *problem,
                                const struct cs_search_samples *s, struct cs_err *err)
{
    if (s->n_batches < 0 || s->n_batches > MAX_BATCHES || s->n_samples < 0 ||
        s->n_samples > MAX_SAMPLES)
        return cs_fail(err, CS_INVALID, "samples: %d batches of %d: at most %d of %d", s->n_batches,
                       s->n_samples, MAX_BATCHES, MAX_SAMPLES);
    if (s->row && (s->n_rows < 1 || s->n_rows > MAX_SAMPLES))
        return cs_fail(err, CS_INVALID, "samples: a list of %d: 1 to %d", s->n_rows, MAX_SAMPLES);
    if (s->row)
        return check_values(problem, s->row, s->n_rows * problem->n_branches, 0, false, err);
    for (int32_t b = 0; b < problem->n_branches; b++) {
        if (s->quantile[b].n < 2)
            return cs_fail(err, CS_INVALID,
                           "samples: %s has %d quantiles of its rows, at least 2 are needed "
                           "(smallest and largest)",
                           problem->branch[b].name, s->quantile[b].n);
        CS_TRY(check_values(problem, s->quantile[b].value, s->quantile[b].n, b, true, err));
    }
    return CS_OK;
}

/* 32 bits of sample i of batch k, draw d */
static uint32_t bits(const struct cs_search_samples *s, int32_t k, int32_t i, int32_t d)
{
    uint32_t counter[4] = {(uint32_t)i, (uint32_t)k, (uint32_t)(d / 4), 0x736d706c}, out[4];
    cs_philox(s->seed, counter, out);
    return out[d % 4];
}

static void draw_one(const struct cs_search_problem *problem, const struct cs_search_samples *s,
                     int32_t k, int32_t i, int32_t *rows)
{
    if (s->row) {
        uint64_t at = ((uint64_t)bits(s, k, i, 0) * (uint64_t)s->n_rows) >> 32;
        for (int32_t b = 0; b < problem->n_branches; b++)
            rows[b] = s->row[(int64_t)at * problem->n_branches + b];
        return;
    }
    for (int32_t b = 0; b < problem->n_branches; b++) {
        const int32_t *value = s->quantile[b].value;
        uint64_t place = (uint64_t)bits(s, k, i, b) * (uint64_t)(s->quantile[b].n - 1);
        uint64_t low = place >> 32, part = place & 0xffffffffu;
        int64_t step = (int64_t)value[low + 1] - value[low];
        rows[b] = value[low] + (int32_t)(((uint64_t)step * part) >> 32);
    }
}

/* samples that fill the branch which fills first to 7/8, from the first thousand */
static int32_t count_samples(const struct cs_search_problem *problem,
                             const struct cs_search_samples *s, int32_t batch_slots)
{
    enum { PROBES = 1024 };

    double sum[CS_SEARCH_MAX_BRANCHES] = {0}, fullest = 0;
    for (int32_t i = 0; i < PROBES; i++) {
        int32_t rows[CS_SEARCH_MAX_BRANCHES];
        draw_one(problem, s, 0, i, rows);
        for (int32_t b = 0; b < problem->n_branches; b++)
            sum[b] += rows[b];
    }
    for (int32_t b = 0; b < problem->n_branches; b++) {
        double fill =
            problem->branch[b].rows > 0 ? sum[b] / PROBES / (double)problem->branch[b].rows : 0;
        fullest = fill > fullest ? fill : fullest;
    }
    double n = fullest > 0 ? 0.875 * batch_slots / fullest : batch_slots;
    return n < 1 ? 1 : n > MAX_SAMPLES ? MAX_SAMPLES : (int32_t)n;
}

enum cs_status cs_samples_draw(const struct cs_search_problem *problem,
                               const struct cs_search_samples *samples, int32_t batch_slots,
                               struct cs_arena *arena, struct cs_search_batches *out,
                               struct cs_err *err)
{
    CS_TRY(cs_samples_check(problem, samples, err));
    *out = (struct cs_search_batches){
        .n_batches = samples->n_batches ? samples->n_batches : BATCHES,
        .n_samples =
            samples->n_samples ? samples->n_samples : count_samples(problem, samples, batch_slots),
        .n_branches = problem->n_branches};
    int64_t n = (int64_t)out->n_batches * out->n_samples;
    if (n > (int64_t)16 * MAX_SAMPLES)
        return cs_fail(err, CS_INVALID, "samples: %lld in all are too many, at most %d",
                       (long long)n, 16 * MAX_SAMPLES);
    out->rows = CS_NEW_ARRAY(arena, int32_t, n * out->n_branches);
    for (int32_t k = 0; k < out->n_batches; k++)
        for (int32_t i = 0; i < out->n_samples; i++)
            draw_one(problem, samples, k, i,
                     &out->rows[((int64_t)k * out->n_samples + i) * out->n_branches]);
    return CS_OK;
}

/* share of a full slot */
static double work_of(const struct cs_search_branch *branch, int32_t rows)
{
    const double x = branch->rows > 0 ? (double)rows / (double)branch->rows : 0;
    const double item = branch->item_rows > rows ? (double)rows / (double)branch->item_rows : 1;
    return (1 - branch->quad_share) * x +
           branch->quad_share * x * (branch->item_rows > 0 ? item : x);
}

/* true work of a full slot of the branch on one rank */
static double full_ns(const struct cs_search_branch *branch)
{
    double sum = 0;
    for (int32_t i = 0; i < branch->n_layers; i++) {
        const struct cs_search_layer *l = &branch->option[0].layer[i];
        sum += (double)(l->fwd_ns + l->bwd_input_ns + l->bwd_weight_ns);
    }
    return sum;
}

void cs_samples_work(const struct cs_search_problem *problem,
                     const struct cs_search_samples *samples, int32_t stream, int32_t n,
                     double *work)
{
    double full[CS_SEARCH_MAX_BRANCHES];
    for (int32_t b = 0; b < problem->n_branches; b++) {
        full[b] = full_ns(&problem->branch[b]);
        work[b] = 0;
    }
    for (int32_t i = 0; i < n; i++) {
        int32_t rows[CS_SEARCH_MAX_BRANCHES];
        draw_one(problem, samples, MAX_BATCHES + stream, i, rows);
        for (int32_t b = 0; b < problem->n_branches; b++)
            work[b] += full[b] * work_of(&problem->branch[b], rows[b]);
    }
}

static bool is_settled(const struct cs_search_problem *problem,
                       const struct cs_search_samples *samples, int32_t ranks, int32_t n)
{
    double work[CS_SEARCH_MAX_BRANCHES];
    int32_t reference[CS_SEARCH_MAX_BRANCHES], share[CS_SEARCH_MAX_BRANCHES];
    cs_samples_work(problem, samples, 0, n, work);
    cs_planner_deal(work, problem->n_branches, ranks, reference);
    for (int32_t k = 1; k <= AGREEING; k++) {
        cs_samples_work(problem, samples, k, n, work);
        cs_planner_deal(work, problem->n_branches, ranks, share);
        for (int32_t b = 0; b < problem->n_branches; b++)
            if (share[b] != reference[b])
                return false;
    }
    return true;
}

int32_t cs_samples_least_batch(const struct cs_search_problem *problem,
                               const struct cs_search_samples *samples, int32_t ranks)
{
    for (int32_t n = 1; n <= MAX_LEAST && ranks >= problem->n_branches; n *= 2)
        if (is_settled(problem, samples, ranks, n))
            return n;
    return 0;
}

static void add_loads(const struct cs_search_problem *problem, const int32_t *rows, int32_t n,
                      const struct cs_assign_result *dealt, struct cs_search_loads *out)
{
    int32_t llm = problem->llm;
    for (int32_t i = 0; i < n; i++)
        out->rows[(int64_t)dealt->replica[i] * out->slots + dealt->llm_slot[i]] +=
            rows[(int64_t)i * problem->n_branches + llm];
    for (int32_t i = 0; i < n; i++)
        for (int32_t b = 0; b < problem->n_branches; b++) {
            double work = work_of(&problem->branch[b], rows[(int64_t)i * problem->n_branches + b]);
            int64_t base = (int64_t)dealt->replica[i] * out->slots;
            int64_t encoded = base + dealt->slot[i], consumed = base + dealt->llm_slot[i];
            out->fwd[b][b == llm ? consumed : encoded] += work;
            out->bwd[b][consumed] += work;
        }
}

enum cs_status cs_samples_deal(const struct cs_search_problem *problem,
                               const struct cs_search_batches *batches, int32_t batch,
                               const struct cs_planner_rules *rules, int32_t replicas,
                               int32_t slots, int32_t enc_stages, int32_t llm_stages,
                               struct cs_arena *arena, struct cs_search_loads *out,
                               struct cs_err *err)
{
    int32_t n = batches->n_samples, llm = problem->llm;
    const int32_t *rows = &batches->rows[(int64_t)batch * n * batches->n_branches];
    double *enc = CS_NEW_ARRAY(arena, double, n + 1), *dec = CS_NEW_ARRAY(arena, double, n + 1);
    double full[CS_SEARCH_MAX_BRANCHES];
    struct cs_assign_result dealt;
    for (int32_t b = 0; b < problem->n_branches; b++)
        full[b] = full_ns(&problem->branch[b]);
    for (int32_t i = 0; i < n; i++)
        for (int32_t b = 0; b < problem->n_branches; b++) {
            double ns =
                full[b] * work_of(&problem->branch[b], rows[(int64_t)i * batches->n_branches + b]);
            *(b == llm ? &dec[i] : &enc[i]) += ns;
        }
    struct cs_assign_samples samples = {.n = n, .enc = enc, .llm = dec};
    struct cs_assign_options options = {.how = rules->how,
                                        .replicas = replicas,
                                        .slots = slots,
                                        .enc_stages = enc_stages,
                                        .llm_stages = llm_stages};
    CS_TRY(cs_assign(&samples, &options, arena, &dealt, err));
    if (rules->defers && slots > 1 && slots <= CS_DEFER_SLOTS)
        CS_TRY(cs_defer(&samples, arena, &dealt, err));
    *out = (struct cs_search_loads){.replicas = replicas, .slots = slots};
    for (int32_t b = 0; b < problem->n_branches; b++) {
        out->fwd[b] = CS_NEW_ARRAY(arena, double, (int64_t)replicas *slots);
        out->bwd[b] = CS_NEW_ARRAY(arena, double, (int64_t)replicas *slots);
    }
    out->rows = CS_NEW_ARRAY(arena, int32_t, (int64_t)replicas * slots);
    add_loads(problem, rows, n, &dealt, out);
    return CS_OK;
}
