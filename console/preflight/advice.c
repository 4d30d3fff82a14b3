/* What a job's own settings give away: allowed, and hardly ever meant. */
#include "console/preflight/preflight.h"

#include <string.h>

static bool has_no_checkpoint(const struct cs_spec *spec)
{
    return spec->checkpoint_every == 0 && spec->steps > 1;
}

static bool has_late_checkpoint(const struct cs_spec *spec)
{
    return spec->checkpoint_every > spec->steps;
}

static bool has_late_evaluation(const struct cs_spec *spec)
{
    return spec->has_eval && spec->eval_every > spec->steps;
}

static bool has_no_rate(const struct cs_spec *spec)
{
    return spec->lr <= 0;
}

static bool has_no_eps(const struct cs_spec *spec)
{
    return spec->eps <= 0;
}

static bool is_all_warmup(const struct cs_spec *spec)
{
    return spec->warmup_steps >= spec->steps && spec->lr > 0;
}

static bool goes_on_without_updates(const struct cs_spec *spec)
{
    return spec->alert[CS_ALERT_SKIPPED_UPDATES] <= 0;
}

static bool splits_rows(const struct cs_spec *spec)
{
    const struct cs_spec_parallel *llm = cs_spec_parallel_of(spec, "llm");
    return llm != NULL && llm->cp > 1;
}

static bool has_idle_context(const struct cs_spec *spec)
{
    return strcmp(spec->context, "lpt") != 0 && !splits_rows(spec);
}

static bool has_idle_exchange(const struct cs_spec *spec)
{
    return strcmp(spec->context_exchange, "auto") != 0 && !splits_rows(spec);
}

static bool has_idle_stripes(const struct cs_spec *spec)
{
    bool is_shared = false;
    for (int i = 0; i < spec->n_parallel; i++)
        is_shared = is_shared || spec->parallel[i].tp > 1;
    return strcmp(spec->stripes, "auto") != 0 && !is_shared;
}

static bool has_idle_replicas(const struct cs_spec *spec)
{
    const struct cs_spec_parallel *llm = cs_spec_parallel_of(spec, "llm");
    const int32_t dp = llm != NULL && llm->dp > 0 ? llm->dp : spec->dp;
    return spec->batch_samples < dp;
}

struct advice {
    bool (*holds)(const struct cs_spec *spec);
    const char *text;
};

/* clang-format off */
static const struct advice of_plans[] = {
    {has_idle_context, "plan.context changes nothing: rows of llm are not split (plan.parallel.llm.cp is 1)"},
    {has_idle_exchange, "plan.context_exchange changes nothing: rows of llm are not split (plan.parallel.llm.cp is 1)"},
    {has_idle_stripes, "plan.stripes changes nothing: no ranks share matrices (tp is 1 everywhere)"},
};

static const struct advice of_jobs[] = {
    {has_idle_replicas, "batch_samples is below the replicas of llm (dp): in every step some have no sample"},
    {has_no_checkpoint, "checkpoint.every_steps is 0: the only checkpoint is the one at the end, and a job that "
                        "fails before has to start again"},
    {has_late_checkpoint, "checkpoint.every_steps is above steps: the only checkpoint is the one at the end, and a "
                          "job that fails before has to start again"},
    {has_late_evaluation, "eval.every_steps is above steps: the job is evaluated at its end only"},
    {has_no_rate, "optimizer.lr is 0: nothing will change"},
    {has_no_eps, "optimizer.eps is 0: the first parameter whose gradients are 0 makes updates that are no "
                 "numbers; they are skipped, and the job fails"},
    {is_all_warmup, "optimizer.warmup_steps is not below steps: optimizer.lr is never reached"},
    {goes_on_without_updates, "alerts.skipped_updates is off: a job whose loss is no number goes on to its end"},
};

/* clang-format on */

static void advise(const struct advice *advice, size_t n, const struct cs_spec *spec,
                   struct cs_preflight *out)
{
    for (size_t i = 0; i < n; i++)
        if (advice[i].holds(spec))
            cs_preflight_warn(out, "%s", advice[i].text);
}

void cs_preflight_advise(const struct cs_spec *spec, bool is_job, struct cs_preflight *out)
{
    advise(of_plans, CS_ARRAY_LEN(of_plans), spec, out);
    if (is_job)
        advise(of_jobs, CS_ARRAY_LEN(of_jobs), spec, out);
}
