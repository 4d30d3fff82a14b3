/* From a choice to its plan, or to the reason why there is none. */
#include "core/plan/make/planner.h"
#include "core/sched/lower/lower.h"
#include "cover/cover.h"

static enum cs_status check_ranks(const struct cs_plan *plan, struct cs_err *err)
{
    const int32_t ranks = cs_plan_world(plan);
    if (ranks > COVER_RANKS)
        return cs_fail(err, CS_LIMIT, "%d ranks; %d are run here", ranks, (int)COVER_RANKS);
    return CS_OK;
}

static enum cs_status make(struct cover_plan *p, struct cs_err *err)
{
    struct cs_cluster cluster;
    CS_TRY(cs_spec_read(p->root, p->arena, &p->spec, err));
    CS_TRY(cs_graph_build(p->spec, true, p->arena, &p->graph, err));
    CS_TRY(cs_cluster_read(p->spec->cluster, COVER_RANKS, &cluster, err));
    CS_TRY(cs_plan_make(p->spec, p->graph, &cluster, p->arena, &p->plan, err));
    struct cs_program *program;
    CS_TRY(check_ranks(p->plan, err));
    return cs_program_make(p->plan, p->graph, COVER_SLOTS / cs_plan_llm_replicas(p->plan), false,
                           p->arena, &program, err);
}

/* Milder than in other tests: rounding does not grow from step to step where recurrent layers decay fast. */
static void calm(json_t *root)
{
    json_t *module;
    size_t i;
    json_array_foreach(json_object_get(json_object_get(root, "model"), "modules"), i, module)
    {
        json_t *config = json_object_get(module, "config");
        if (config != NULL)
            json_object_set_new(config, "initializer_range", json_real(0.06));
    }
}

enum cs_status cover_plan_open(const struct cs_test_spec *options, struct cover_plan *out,
                               struct cs_err *err)
{
    *out = (struct cover_plan){.arena = cs_arena_new(0), .root = cs_test_spec_json(options)};
    /* AdamW moves as far where a gradient is rounding alone as where it is large: with this it does not */
    json_object_set_new(json_object_get(out->root, "optimizer"), "eps", json_real(1e-3));
    calm(out->root);
    return make(out, err);
}

void cover_plan_close(struct cover_plan *p)
{
    json_decref(p->root);
    cs_arena_free(p->arena);
    *p = (struct cover_plan){.arena = NULL};
}
