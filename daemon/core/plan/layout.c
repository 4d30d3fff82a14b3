/* What a layout must satisfy: the shapes of the model, its placements, the cluster. */
#include "core/plan/layout.h"

#include <string.h>

#include "core/base/units.h"
#include "core/model/tensor_parallel.h"

static const char *const recompute_names[CS_RECOMPUTES] = {"none", "selective", "full"};

const char *cs_recompute_name(enum cs_recompute recompute)
{
    return recompute_names[recompute];
}

bool cs_recompute_from_name(const char *name, enum cs_recompute *out)
{
    for (int i = 0; i < CS_RECOMPUTES; i++)
        if (strcmp(recompute_names[i], name) == 0) {
            *out = (enum cs_recompute)i;
            return true;
        }
    return false;
}

int32_t cs_layout_dp(const struct cs_layout *layout, int32_t branch)
{
    return layout->branch[branch].dp > 0 ? layout->branch[branch].dp : layout->dp;
}

int32_t cs_layout_zero(const struct cs_layout *layout, int32_t branch)
{
    return layout->branch[branch].shard > 0 ? layout->branch[branch].shard - 1 : layout->zero;
}

static int64_t all_ranks(const struct cs_layout *layout)
{
    int64_t ranks = 0;
    for (int32_t b = 0; b < layout->n_branches; b++) {
        const struct cs_branch_layout *at = &layout->branch[b];
        if (at->place == CS_PLACE_OWN)
            ranks += (int64_t)at->pp * at->tp * at->cp * cs_layout_dp(layout, b);
    }
    return ranks;
}

int32_t cs_layout_ranks(const struct cs_layout *layout)
{
    int64_t ranks = all_ranks(layout);
    return ranks > INT32_MAX ? INT32_MAX : (int32_t)ranks;
}

static enum cs_status divides(int32_t tp, const char *what, const struct cs_module *module,
                              int32_t n, struct cs_err *err)
{
    if (n % tp == 0)
        return CS_OK;
    return cs_fail(err, CS_PLAN, "tp = %d does not divide the %s of %s, %d; choose a tp that does",
                   tp, what, module->name, n);
}

enum cs_status cs_layout_check_tp(const struct cs_graph *graph, int32_t branch, int32_t tp,
                                  struct cs_err *err)
{
    for (int32_t m = 0; m < graph->n_modules; m++) {
        const struct cs_module *module = &graph->modules[m];
        if (module->branch != branch)
            continue;
        const struct cs_arch *arch = &module->arch;
        for (int32_t k = 0; k < arch->n_attentions; k++) {
            CS_TRY(divides(tp, "attention heads", module, arch->attention[k].n_heads, err));
            CS_TRY(divides(tp, "key-value heads", module, arch->attention[k].n_kv_heads, err));
        }
        if (module->kind != CS_MODULE_PROJECTOR)
            CS_TRY(divides(tp, "MLP width", module, arch->ffn_width, err));
        CS_TRY(divides(tp, "width", module, arch->width, err));
    }
    return CS_OK;
}

bool cs_layout_stays_in_nodes(const struct cs_layout *layout, int32_t devices_per_node)
{
    int64_t base = 0;
    for (int32_t b = 0; b < layout->n_branches; b++) {
        int64_t block = (int64_t)layout->branch[b].tp * layout->branch[b].cp;
        int64_t n = (int64_t)layout->branch[b].pp * cs_layout_dp(layout, b);
        if (layout->branch[b].place != CS_PLACE_OWN)
            continue;
        /* blocks of a branch follow each other: aligned ones in nodes they divide never straddle */
        if (block > 1 && (devices_per_node % block != 0 || base % block != 0)) {
            for (int64_t i = 0; i < n; i++) {
                int64_t first = base + i * block, last = first + block - 1;
                if (first / devices_per_node != last / devices_per_node)
                    return false;
            }
        }
        base += n * block;
    }
    return true;
}

/* what only some placements and families can have */
static enum cs_status check_place(const struct cs_layout *layout, int32_t b, struct cs_err *err)
{
    const struct cs_branch_layout *at = &layout->branch[b];
    const struct cs_branch_layout *llm = &layout->branch[layout->llm];
    int32_t block = llm->tp * llm->cp, own = cs_layout_dp(layout, b);
    if (at->ep > 1 && own * at->cp % at->ep != 0)
        return cs_fail(err, CS_PLAN, "layout of %s: ep = %d does not divide dp * cp = %d * %d",
                       at->name, at->ep, own, at->cp);
    if (own < 1)
        return cs_fail(err, CS_PLAN, "layout of %s: dp = %d: at least one is needed", at->name,
                       own);
    if (at->place != CS_PLACE_OWN && at == llm)
        return cs_fail(err, CS_PLAN, "layout of %s: the LLM has ranks of its own", at->name);
    if (at->place != CS_PLACE_OWN && at->pp != 1)
        return cs_fail(err, CS_PLAN,
                       "layout of %s: pp = %d, but %s encoders stay whole: choose pp 1", at->name,
                       at->pp, cs_placement_table[at->place].name);
    if (at->place == CS_PLACE_COLOCATED && block % (at->tp * at->cp) != 0)
        return cs_fail(err, CS_PLAN,
                       "layout of %s: tp * cp = %d does not divide the %d rank%s of an LLM stage",
                       at->name, at->tp * at->cp, block, CS_PLURAL(block));
    if (at->place == CS_PLACE_REPLICATED && (at->tp != llm->tp || at->cp != llm->cp))
        return cs_fail(err, CS_PLAN,
                       "layout of %s: a replicated encoder has tp %d and cp %d of the LLM",
                       at->name, llm->tp, llm->cp);
    return CS_OK;
}

static enum cs_status check_branch(const struct cs_layout *layout, const struct cs_graph *graph,
                                   int32_t b, struct cs_err *err)
{
    const struct cs_branch_layout *at = &layout->branch[b];
    if (at->tp < 1 || at->cp < 1 || at->pp < 1)
        return cs_fail(err, CS_PLAN, "layout of %s: tp %d, cp %d, pp %d: each starts at 1",
                       at->name, at->tp, at->cp, at->pp);
    if (at->pp > graph->branches[b].n_layers)
        return cs_fail(err, CS_PLAN,
                       "layout of %s: pp = %d asks for more stages than its %d layer%s; choose pp "
                       "<= %d",
                       at->name, at->pp, graph->branches[b].n_layers,
                       CS_PLURAL(graph->branches[b].n_layers), graph->branches[b].n_layers);
    if (at->vpp > 1 && (int64_t)at->pp * at->vpp > graph->branches[b].n_layers)
        return cs_fail(
            err, CS_PLAN,
            "layout of %s: %d stage%s of %d chunks are more than its %d layer%s; lower pp "
            "or vpp",
            at->name, at->pp, CS_PLURAL(at->pp), at->vpp, graph->branches[b].n_layers,
            CS_PLURAL(graph->branches[b].n_layers));
    CS_TRY(cs_ep_check(graph, b, at->ep, err));
    CS_TRY(check_place(layout, b, err));
    enum cs_status status = cs_layout_check_tp(graph, b, at->tp, err);
    return status == CS_OK ? CS_OK : cs_wrap(err, status, "layout of %s", at->name);
}

enum cs_status cs_layout_check(const struct cs_layout *layout, const struct cs_graph *graph,
                               const struct cs_cluster *cluster, struct cs_err *err)
{
    int64_t devices = (int64_t)cluster->n_nodes * cluster->devices_per_node;
    if (layout->n_branches != graph->n_branches)
        return cs_fail(err, CS_PLAN, "the layout has %d %s, the model %d", layout->n_branches,
                       CS_NOUN(layout->n_branches, "branch", "branches"), graph->n_branches);
    if (layout->dp < 1 || layout->zero < 0 || layout->zero > 3)
        return cs_fail(err, CS_PLAN, "dp is %d and zero %d: dp starts at 1, zero is 0 to 3",
                       layout->dp, layout->zero);
    for (int32_t b = 0; b < layout->n_branches; b++)
        CS_TRY(check_branch(layout, graph, b, err));
    if (all_ranks(layout) > devices)
        return cs_fail(
            err, CS_PLAN,
            "the layout needs %lld rank%s (%d replica%s of %lld) but the cluster has %lld "
            "device%s; lower dp, pp, tp or cp",
            (long long)all_ranks(layout), CS_PLURAL(all_ranks(layout)), layout->dp,
            CS_PLURAL(layout->dp), (long long)(all_ranks(layout) / layout->dp), (long long)devices,
            CS_PLURAL(devices));
    if (!layout->may_leave_node && !cs_layout_stays_in_nodes(layout, cluster->devices_per_node))
        return cs_fail(err, CS_PLAN,
                       "a tp * cp group would reach over nodes of %d devices; choose tp * cp that "
                       "divides a node, or say that groups may leave it",
                       cluster->devices_per_node);
    return CS_OK;
}
