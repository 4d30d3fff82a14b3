/* Layouts of variants: what the specification or a search says of branches, counted, compared, told. */
#include <stdio.h>
#include <string.h>

#include "console/whatif/variant_private.h"
#include "core/base/str.h"
#include "core/plan/plan_schedule.h"
#include "core/search/search.h"

enum cs_schedule_layout cs_variant_stages(const char *schedule)
{
    const struct cs_schedule_info *info = NULL;
    return cs_plan_schedule_find(schedule, &info, NULL) == CS_OK ? info->layout : CS_LAYOUT_STAGES;
}

bool cs_variant_shares(const struct cs_variant *variant)
{
    return cs_variant_stages(variant->schedule) == CS_LAYOUT_COLOCATED;
}

bool cs_variant_is_mixed(const struct cs_variant *variant)
{
    return strcmp(variant->modality, cs_search_modality_name(CS_SEARCH_MIXED)) == 0;
}

enum cs_placement cs_variant_place(const struct cs_variant *variant, int32_t branch)
{
    const struct cs_placement_info *info = cs_placement_of_modality(variant->modality);
    if (cs_variant_shares(variant))
        return CS_PLACE_COLOCATED;
    if (cs_variant_is_mixed(variant))
        return variant->layout.branch[branch].place;
    return info != NULL ? info->id : CS_PLACE_OWN;
}

bool cs_variant_copies(const struct cs_variant *variant, int32_t branch)
{
    return cs_variant_shares(variant) || cs_variant_place(variant, branch) == CS_PLACE_REPLICATED;
}

/* --- of the specification --------------------------------------------------------------------- */

static struct cs_branch_layout of_spec(const struct cs_spec *spec, const char *branch)
{
    const struct cs_spec_parallel *given = cs_spec_parallel_of(spec, branch);
    struct cs_branch_layout out = {.tp = 1, .cp = 1, .pp = 1, .ep = 1, .shard = 1 + 1};
    if (given == NULL)
        return out;
    out.tp = given->tp > 0 ? given->tp : 1;
    out.sp = out.tp > 1 && given->sp;
    out.cp = given->cp > 0 ? given->cp : 1;
    out.ep = given->ep > 0 ? given->ep : 1;
    out.dp = given->dp;
    out.vpp = given->vpp;
    out.shard = 1 + given->zero;
    if (given->recompute == NULL || !cs_recompute_from_name(given->recompute, &out.recompute))
        out.recompute = CS_RECOMPUTE_NONE;
    return out;
}

struct cs_layout cs_variant_spec_layout(const struct cs_spec *spec, const struct cs_graph *graph)
{
    struct cs_layout l = {.n_branches = graph->n_branches,
                          .llm = graph->llm,
                          .dp = spec->dp > 0 ? spec->dp : 1,
                          .zero = 1};
    for (int32_t b = 0; b < graph->n_branches; b++) {
        const struct cs_placement_info *place =
            b != graph->llm ? cs_spec_placement(spec, graph->branches[b].name) : NULL;
        l.branch[b] = of_spec(spec, graph->branches[b].name);
        l.branch[b].place = place != NULL ? place->id : CS_PLACE_OWN;
    }
    return l;
}

/* --- of a variant ----------------------------------------------------------------------------- */

struct cs_layout cs_variant_layout(const struct cs_variant *variant, const struct cs_graph *graph)
{
    struct cs_layout l = variant->layout;
    for (int32_t b = 0; b < graph->n_branches; b++) {
        struct cs_branch_layout *at = &l.branch[b];
        at->name = graph->branches[b].name;
        at->pp = variant->pp[b];
        at->place = b == graph->llm ? CS_PLACE_OWN : cs_variant_place(variant, b);
    }
    return l;
}

int32_t cs_variant_ranks(const struct cs_variant *variant, const struct cs_graph *graph)
{
    const struct cs_layout l = cs_variant_layout(variant, graph);
    return cs_layout_ranks(&l);
}

int32_t cs_variant_width(const struct cs_variant *variant, const struct cs_graph *graph)
{
    int32_t n = variant->pp[graph->llm];
    for (int32_t b = 0; b < graph->n_branches; b++)
        if (b != graph->llm && cs_placement_table[cs_variant_place(variant, b)].has_own_ranks)
            n += variant->pp[b];
    return n;
}

/* The usual level divides the optimizer; alone, a rank has nothing to divide. */
static int32_t zero_of(const struct cs_layout *l, int32_t branch)
{
    return cs_layout_dp(l, branch) * l->branch[branch].cp > 1 ? cs_layout_zero(l, branch) : 1;
}

int32_t cs_variant_chunks(const struct cs_variant *variant, int32_t branch)
{
    const int32_t vpp = variant->layout.branch[branch].vpp;
    if (cs_variant_stages(variant->schedule) != CS_LAYOUT_CHUNKS)
        return 1;
    return vpp > 1 ? vpp : CS_PLAN_CHUNKS;
}

static bool has_same_degrees(const struct cs_layout *a, const struct cs_layout *b, int32_t branch)
{
    const struct cs_branch_layout *x = &a->branch[branch], *y = &b->branch[branch];
    return x->tp == y->tp && x->sp == y->sp && x->cp == y->cp &&
           (x->ep > 1 ? x->ep : 1) == (y->ep > 1 ? y->ep : 1) && x->recompute == y->recompute &&
           cs_layout_dp(a, branch) == cs_layout_dp(b, branch) &&
           zero_of(a, branch) == zero_of(b, branch);
}

bool cs_variant_is_equal(const struct cs_variant *a, const struct cs_variant *b,
                         const struct cs_graph *graph)
{
    bool is_equal = strcmp(a->schedule, b->schedule) == 0 && a->is_blind == b->is_blind &&
                    a->slots == b->slots && a->layout.dp == b->layout.dp &&
                    a->context_rows == b->context_rows &&
                    (cs_variant_shares(a) || strcmp(a->modality, b->modality) == 0);
    for (int32_t i = 0; i < graph->n_branches; i++)
        is_equal = is_equal && has_same_degrees(&a->layout, &b->layout, i) &&
                   (i != graph->llm || cs_variant_chunks(a, i) == cs_variant_chunks(b, i)) &&
                   (i == graph->llm || cs_variant_place(a, i) == cs_variant_place(b, i)) &&
                   (a->pp[i] == b->pp[i] || (i != graph->llm && cs_variant_copies(a, i)));
    return is_equal;
}

/* --- as text ---------------------------------------------------------------------------------- */

static void add_degrees(const struct cs_layout *l, int32_t branch, struct cs_buf *out)
{
    static const char *const redone[] = {
        [CS_RECOMPUTE_NONE] = "", [CS_RECOMPUTE_SELECTIVE] = " sel", [CS_RECOMPUTE_FULL] = " full"};
    const struct cs_branch_layout *x = &l->branch[branch];

    const int32_t dp = x->place == CS_PLACE_OWN ? cs_layout_dp(l, branch) : l->dp;
    const int32_t ep = x->ep > 1 ? x->ep : 1, zero = zero_of(l, branch);

    const struct {
        const char *name;
        int32_t n, usual;
    } rows[] = {
        {"tp", x->tp, 1    },
        {"cp", x->cp, 1    },
        {"ep", ep,    1    },
        {"dp", dp,    l->dp},
        {"z",  zero,  1    },
    };

    for (size_t i = 0; i < CS_ARRAY_LEN(rows); i++)
        if (rows[i].n != rows[i].usual)
            cs_buf_addf(out, " %s%d", rows[i].name, rows[i].n);
    cs_buf_adds(out, redone[x->recompute]);
}

static void add_branch(const struct cs_layout *l, int32_t branch, bool shares, bool has_degrees,
                       struct cs_buf *out)
{
    const struct cs_branch_layout *x = &l->branch[branch];
    cs_buf_addf(out, "%s ", x->name);
    if (cs_placement_table[x->place].has_own_ranks)
        cs_buf_addf(out, "%d", x->pp);
    else
        cs_buf_adds(out, shares ? "shared" : cs_placement_table[x->place].name);
    if (has_degrees)
        add_degrees(l, branch, out);
}

/* branches with ranks of their own first: they decide the others' */
void cs_variant_layout_text(const struct cs_variant *variant, const struct cs_graph *graph,
                            bool has_degrees, char *out, size_t cap)
{
    const struct cs_layout l = cs_variant_layout(variant, graph);
    const bool shares = cs_variant_shares(variant);
    struct cs_buf text = {0};
    bool is_first = true;
    if (has_degrees && l.dp > 1)
        cs_buf_addf(&text, "dp %d: ", l.dp);
    for (int pass = 0; pass < 2; pass++)
        for (int32_t b = 0; b < graph->n_branches; b++) {
            if (cs_placement_table[l.branch[b].place].has_own_ranks != (pass == 0))
                continue;
            cs_buf_adds(&text, is_first ? "" : " + ");
            add_branch(&l, b, shares, has_degrees, &text);
            is_first = false;
        }
    cs_str_copy(out, cap, cs_buf_str(&text));
    cs_buf_free(&text);
}
