/* Losses, norms and gradients of the steps: against the golden, and of a layout against one rank. */
#include <math.h>

#include "worker/selftest/outcome.h"

/* as the golden has it */
static double loss_of(const struct cs_outcome *outcome, const struct cs_golden *g, int step)
{
    return outcome->loss[step] + (double)g->balance * outcome->balance[step];
}

/* The experts' balancing loss of the first step, under either name that goldens have for it; where they are
 * without and where none is trained there is nothing to check. */
static enum cs_status check_balance(const struct cs_outcome *outcome, struct cs_golden *g,
                                    struct cs_selftest *out, struct cs_err *err)
{
    static const char *const names[] = {"out.aux_loss", "out.balance"};
    float *want;
    for (size_t i = 0; i < CS_ARRAY_LEN(names); i++) {
        if (!outcome->has_balance || !cs_golden_has(g, names[i]))
            continue;
        CS_TRY(cs_golden_floats(g, names[i], &want, NULL, err));
        cs_selftest_number(g, cs_selftest_add(g, out, "balance loss", 1e-5, 0.1), "of experts",
                           outcome->balance[0], want[0], fabs((double)want[0]));
        return CS_OK;
    }
    return CS_OK;
}

/* Adds a check of mean loss and gradients of the first step. */
enum cs_status cs_outcome_check_first(const struct cs_outcome *outcome, struct cs_golden *g,
                                      struct cs_selftest *out, struct cs_err *err)
{
    float *first;
    CS_TRY(cs_golden_floats(g, "out.loss", &first, NULL, err));
    struct cs_selftest_check *whole = cs_selftest_add(g, out, "loss", 1e-5, 0.1);
    cs_selftest_number(g, whole, "mean", loss_of(outcome, g, 0), first[0], fabs((double)first[0]));
    CS_TRY(check_balance(outcome, g, out, err));
    return cs_outcome_check_gradients(outcome, g, 1.0 / (double)outcome->tokens, out, err);
}

enum cs_status cs_outcome_check_steps(const struct cs_outcome *outcome, struct cs_golden *g,
                                      struct cs_selftest *out, struct cs_err *err)
{
    float *loss, *norm;
    CS_TRY(cs_golden_floats(g, "step.loss", &loss, NULL, err));
    CS_TRY(cs_golden_floats(g, "step.norm", &norm, NULL, err));
    struct cs_selftest_check *losses = cs_selftest_add(g, out, "step loss", 1e-4, 0.1);
    struct cs_selftest_check *norms = cs_selftest_add(g, out, "step norm", 1e-3, 0.1);
    losses->most = norms->most = HUGE_VAL; /* the fifth step may be chaos */
    for (int i = 0; i < CS_GOLDEN_STEPS; i++) {
        cs_selftest_number(g, losses, cs_selftest_step(i), loss_of(outcome, g, i), loss[i], 1);
        cs_selftest_number(g, norms, cs_selftest_step(i), outcome->norm[i], norm[i],
                           (double)norm[i]);
    }
    return CS_OK;
}

/* all that is trained */
static double whole_of(const struct cs_outcome *outcome, const struct cs_golden *g, int step)
{
    const double share = (double)cs_graph_llm(g->graph)->arch.experts.balance;
    return outcome->loss[step] + share * outcome->balance[step];
}

static bool is_recurrent(const struct cs_graph *graph)
{
    for (int32_t i = 0; i < graph->n_layers; i++)
        if (graph->layers[i].kind == CS_LAYER_BLOCK && graph->layers[i].mixer == CS_MIXER_DELTA)
            return true;
    return false;
}

/* Replicas add in another order, and what AdamW makes of such rounding grows with the steps. Ranks that
 * share a stage do so in every row, and some gradients are differences of large numbers (of biases of keys:
 * rounding alone; of decays, which differ as much with the number of rows in a chunk). */
void cs_outcome_check_same(const struct cs_outcome *outcome, const struct cs_outcome *one,
                           const struct cs_golden *g, struct cs_selftest *out)
{
    bool is_split = false;
    for (int32_t s = 0; s < g->plan->n_stages; s++)
        is_split = is_split || cs_plan_stage_ranks(g->plan, s) > 1;
    const double grown = !is_split ? 1e-3 : is_recurrent(g->graph) ? 1e-2 : 2e-3;
    const double later = g->plan->dp > 1 || is_split ? grown : 1e-5, same = is_split ? 1e-4 : 1e-5;
    struct cs_selftest_check *first = cs_selftest_add(g, out, "loss of one rank", 1e-5, 1e-5);
    struct cs_selftest_check *losses =
        cs_selftest_add(g, out, "step loss of one rank", later, later);
    struct cs_selftest_check *gradients =
        cs_selftest_add(g, out, "gradients of one rank", same, same);
    const double floor = cs_outcome_floor(g, 1e-6 * one->norm[0] * (double)one->tokens);
    for (int i = 0; i < CS_GOLDEN_STEPS; i++)
        cs_selftest_number(g, i == 0 ? first : losses, cs_selftest_step(i), whole_of(outcome, g, i),
                           (float)whole_of(one, g, i), one->loss[i]);
    if (one->has_balance)
        cs_selftest_number(g, cs_selftest_add(g, out, "balance loss of one rank", 1e-5, 1e-5),
                           "of experts", outcome->balance[0], (float)one->balance[0],
                           one->balance[0]);
    for (int32_t i = 0; i < g->graph->n_params; i++)
        if (one->grad[i] != NULL)
            cs_selftest_compare(g, gradients,
                                (struct cs_selftest_pair){
                                    .name = g->graph->params[i].name,
                                    .kind = CS_PAIR_VECTOR,
                                    .n = g->graph->params[i].count,
                                    .got = outcome->grad[i],
                                    .want = one->grad[i],
                                    .unit = floor,
                                });
}
