/* Tries settings of the branch that is full, from the one that costs least time. */
#include "core/plan/make/fits.h"

#include <stdio.h>
#include <string.h>

enum { MOST_NAMED = 5, ENDLESS_NODES = 65536 };

/* one setting of a branch; text: of a word, else number */
struct remedy {
    const char *key, *text;
    int32_t number;
};

static const struct remedy remedies[] = {
    {"recompute", "selective", 0},
    {"recompute", "full",      0},
    {"zero",      NULL,        2},
    {"zero",      NULL,        3},
    {"offload",   "host",      0},
    {"cp",        NULL,        2},
    {"cp",        NULL,        4},
    {"cp",        NULL,        8},
    {"tp",        NULL,        2},
    {"tp",        NULL,        4},
    {"tp",        NULL,        8},
};

struct trial {
    const struct cs_graph *graph;
    struct cs_cluster cluster;
    struct cs_spec spec;
    struct cs_spec_parallel *own; /* of the branch, in spec; NULL: it has none */
    cs_plan_once once;
};

static struct trial trial_of(const struct cs_spec *spec, const struct cs_graph *graph,
                             const struct cs_cluster *cluster, cs_plan_once once)
{
    struct trial t = {.graph = graph, .cluster = *cluster, .spec = *spec, .once = once};
    t.cluster.n_nodes = ENDLESS_NODES;
    return t;
}

static void find_branch(struct trial *t, int32_t branch)
{
    t->own = NULL;
    for (int32_t i = 0; i < t->spec.n_parallel; i++)
        if (strcmp(t->spec.parallel[i].branch, t->graph->branches[branch].name) == 0)
            t->own = &t->spec.parallel[i];
    if (t->own != NULL && t->own->recompute == NULL) /* a plan that was found says less */
        t->own->recompute = "none";
    if (t->own != NULL && t->own->offload == NULL)
        t->own->offload = "none";
}

/* is_short: it is memory that is missing, nothing else */
static bool fits(const struct trial *t, bool *is_short)
{
    struct cs_arena *arena = cs_arena_new(0);
    struct cs_plan *plan;
    int32_t full = -1;
    const bool is_good =
        t->once(&t->spec, t->graph, &t->cluster, arena, &plan, &full, NULL) == CS_OK;
    cs_arena_free(arena);
    *is_short = !is_good && full >= 0;
    return is_good;
}

/* false: it has the setting, or more of it */
static bool apply(struct cs_spec_parallel *own, const struct remedy *r)
{
    const struct cs_spec_parallel before = *own;
    if (strcmp(r->key, "recompute") == 0 && strcmp(own->recompute, "full") != 0)
        own->recompute = r->text;
    else if (strcmp(r->key, "offload") == 0)
        own->offload = r->text;
    else if (strcmp(r->key, "zero") == 0 && own->zero < r->number)
        own->zero = r->number;
    else if (strcmp(r->key, "cp") == 0 && own->cp < r->number)
        own->cp = r->number;
    else if (strcmp(r->key, "tp") == 0 && own->tp < r->number)
        own->tp = r->number;
    return before.zero != own->zero || before.tp != own->tp || before.cp != own->cp ||
           strcmp(before.recompute, own->recompute) != 0 ||
           strcmp(before.offload, own->offload) != 0;
}

/* The fewest stages, more than it has; 0: none. */
static int32_t stages_that_fit(const struct trial *from, int32_t branch)
{
    struct trial t = *from;
    bool is_short;
    find_branch(&t, branch);
    for (int32_t pp = t.own->pp + 1; pp <= t.graph->branches[branch].n_layers; pp++) {
        t.own->pp = pp;
        if (fits(&t, &is_short))
            return pp;
    }
    return 0;
}

static int add(char *out, size_t cap, int at, const char *branch, const struct remedy *r, int n)
{
    char value[32];
    const size_t left = at < (int)cap ? cap - (size_t)at : 0;
    if (r->text != NULL)
        snprintf(value, sizeof value, "\"%s\"", r->text);
    else
        snprintf(value, sizeof value, "%d", r->number);
    return at + snprintf(out + (left > 0 ? at : 0), left, "%sparallel.%s.%s = %s%s",
                         n == 0 ? "; " : ", ", branch, r->key, value, n == 0 ? " fits" : " too");
}

/* each alone; returns how many are named */
static int name_single(const struct trial *from, int32_t branch, char *out, size_t cap)
{
    const char *name = from->graph->branches[branch].name, *last = "";
    const struct remedy more = {"pp", NULL, stages_that_fit(from, branch)};
    int n = 0, at = 0;
    if (more.number > 0)
        at = add(out, cap, at, name, &more, n++);
    for (size_t i = 0; i < CS_ARRAY_LEN(remedies) && n < MOST_NAMED; i++) {
        struct trial t = *from;
        bool is_short;
        find_branch(&t, branch);
        if (strcmp(last, remedies[i].key) == 0 || !apply(t.own, &remedies[i]) ||
            !fits(&t, &is_short))
            continue; /* the least of a kind is enough */
        at = add(out, cap, at, name, &remedies[i], n++);
        last = remedies[i].key;
    }
    return n;
}

/* one on top of the other, until it fits: what helps and can be had */
static void name_together(const struct trial *from, int32_t branch, char *out, size_t cap)
{
    struct trial t = *from;
    find_branch(&t, branch);
    const struct cs_spec_parallel before = *t.own;
    for (size_t i = 0; i < CS_ARRAY_LEN(remedies); i++) {
        const struct cs_spec_parallel last = *t.own;
        bool is_short = false;
        if (!apply(t.own, &remedies[i]))
            continue;
        if (!fits(&t, &is_short)) {
            if (!is_short) /* it cannot be had */
                *t.own = last;
            continue;
        }
        int n = snprintf(out, cap, "; parallel.%s fits with recompute = \"%s\"", before.branch,
                         t.own->recompute);
        if (t.own->zero != before.zero && n < (int)cap)
            n += snprintf(out + n, cap - (size_t)n, ", zero = %d", t.own->zero);
        if (strcmp(t.own->offload, before.offload) != 0 && n < (int)cap)
            n += snprintf(out + n, cap - (size_t)n, ", offload = \"%s\"", t.own->offload);
        if (t.own->cp != before.cp && n < (int)cap)
            n += snprintf(out + n, cap - (size_t)n, ", cp = %d", t.own->cp);
        if (t.own->tp != before.tp && n < (int)cap)
            snprintf(out + n, cap - (size_t)n, ", tp = %d", t.own->tp);
        return;
    }
}

void cs_plan_what_fits(const struct cs_spec *spec, const struct cs_graph *graph,
                       const struct cs_cluster *cluster, int32_t branch, cs_plan_once once,
                       char *out, size_t cap)
{
    struct trial t = trial_of(spec, graph, cluster, once);
    out[0] = '\0';
    find_branch(&t, branch);
    if (t.own != NULL && name_single(&t, branch, out, cap) == 0)
        name_together(&t, branch, out, cap);
}
