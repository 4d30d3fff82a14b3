/* From a job's document to its graph and plan. */
#include "support/planned.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

#include "core/plan/json/plan_json.h"
#include "core/plan/make/planner.h"
#include "support/need.h"

enum cs_status cs_test_try_plan(struct cs_test_planned *p, json_t *root,
                                const struct cs_cluster *cluster)
{
    *p = (struct cs_test_planned){.arena = cs_arena_new(0), .root = root};
    assert_non_null(root);
    need(cs_spec_read(root, p->arena, &p->spec, &p->err), &p->err);
    need(cs_graph_build(p->spec, true, p->arena, &p->graph, &p->err), &p->err);
    if (cluster != NULL)
        p->cluster = *cluster;
    else
        need(cs_cluster_read(p->spec->cluster, 0, &p->cluster, &p->err), &p->err);
    return cs_plan_make(p->spec, p->graph, &p->cluster, p->arena, &p->plan, &p->err);
}

struct cs_test_planned cs_test_plan_json(json_t *root, const struct cs_cluster *cluster)
{
    struct cs_test_planned p = {.arena = NULL};
    need(cs_test_try_plan(&p, root, cluster), &p.err);
    return p;
}

struct cs_test_planned cs_test_plan(const struct cs_test_spec *options)
{
    return cs_test_plan_json(cs_test_spec_json(options), NULL);
}

void cs_test_plan_reread(struct cs_test_planned *p)
{
    json_t *document = cs_plan_json(p->plan, p->graph);
    need(cs_plan_read(document, p->graph, p->arena, &p->plan, &p->err), &p->err);
    json_decref(document);
}

void cs_test_put_on_one_rank(struct cs_plan *plan)
{
    for (int32_t s = 0; s < plan->n_stages; s++)
        plan->stages[s].rank = 0;
    plan->n_ranks = 1;
    plan->n_groups = 0; /* they were of other ranks */
}

void cs_test_planned_free(struct cs_test_planned *planned)
{
    json_decref(planned->root);
    cs_arena_free(planned->arena);
    *planned = (struct cs_test_planned){.arena = NULL};
}
