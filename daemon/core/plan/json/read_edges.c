/* Reads edges, and demands of them and of flags what the stages ask for. */
#include <stdio.h>
#include <string.h>

#include "core/plan/derive.h"
#include "core/plan/json/reader.h"
#include "core/plan/primitive.h"

/* What is derived of an edge stays, and of its flows those are striped that can be. */
static enum cs_status read_striped(struct cs_plan_reader *r, const json_t *json, int32_t e,
                                   const char *where, struct cs_err *err)
{
    const json_t *value = json_object_get(json, "striped");
    const char *word = json_string_value(value);
    struct cs_edge *edge = &r->plan->edges[e];
    unsigned bits = 0;
    while (word != NULL && bits < (1u << CS_FLOWS) &&
           (cs_plan_striped_words[bits] == NULL || strcmp(word, cs_plan_striped_words[bits]) != 0))
        bits++;
    if (value != NULL && (word == NULL || bits == (1u << CS_FLOWS)))
        return cs_fail(err, CS_CORRUPT,
                       "plan: %s.striped must be \"rows\", \"gradients\" or \"both\"", where);
    for (int f = 0; f < CS_FLOWS; f++) {
        edge->is_striped[f] = (bits >> f & 1) != 0;
        if (edge->is_striped[f] && !cs_edge_can_stripe(r->plan, e, (enum cs_edge_flow)f))
            return cs_fail(err, CS_CORRUPT,
                           "plan: %s.striped is \"%s\": who receives is on the same ranks, or no "
                           "ranks share its matrices",
                           where, word);
    }
    return CS_OK;
}

enum cs_status cs_plan_read_derived(struct cs_plan_reader *r, struct cs_err *err)
{
    struct cs_plan *plan = r->plan, want = *plan;
    want.stages = CS_NEW_ARRAY(r->arena, struct cs_stage, plan->n_stages);
    memcpy(want.stages, plan->stages, (size_t)plan->n_stages * sizeof *want.stages);
    cs_plan_derive(r->graph, r->arena, &want);
    for (int32_t s = 0; s < plan->n_stages; s++)
        if (plan->stages[s].has_backward != want.stages[s].has_backward ||
            plan->stages[s].needs_input_grad != want.stages[s].needs_input_grad)
            return cs_fail(
                err, CS_CORRUPT,
                "plan: stages[%d] (%s): gradients differ from what the model's trainable "
                "set asks for",
                s, plan->stages[s].name);
    const json_t *list = json_object_get(r->json, "edges");
    if (!json_is_array(list) || json_array_size(list) != (size_t)want.n_edges)
        return cs_fail(err, CS_CORRUPT, "plan: edges must have %d entries", want.n_edges);
    plan->n_edges = want.n_edges;
    plan->edges = CS_NEW_ARRAY(r->arena, struct cs_edge, want.n_edges);
    for (int32_t e = 0; e < want.n_edges; e++) {
        struct cs_edge *edge = &plan->edges[e];
        const struct cs_edge *w = &want.edges[e];
        char where[32];
        snprintf(where, sizeof where, "edges[%d]", e);
        CS_TRY(
            cs_plan_read_fields(json_array_get(list, (size_t)e), edge, CS_PLAN_EDGE, where, err));
        if (edge->id != w->id || edge->from != w->from || edge->to != w->to ||
            edge->width != w->width || edge->has_grad != w->has_grad ||
            edge->max_rows != w->max_rows)
            return cs_fail(err, CS_CORRUPT,
                           "plan: %s must be %s -> %s, width %d, %s gradient, %lld rows", where,
                           want.stages[w->from].name, want.stages[w->to].name, w->width,
                           w->has_grad ? "with" : "without", (long long)w->max_rows);
        *edge = *w; /* what is not encoded, too */
        CS_TRY(read_striped(r, json_array_get(list, (size_t)e), e, where, err));
    }
    if (json_is_true(json_object_get(r->json, "is_tied_across")) != want.is_tied_across ||
        plan->embed_stage != want.embed_stage || plan->head_stage != want.head_stage)
        return cs_fail(err, CS_CORRUPT,
                       "plan: embed_stage, head_stage, is_tied_across must be %d, %d, %s",
                       want.embed_stage, want.head_stage, want.is_tied_across ? "true" : "false");
    plan->is_tied_across = want.is_tied_across;
    plan->tied_bytes = want.tied_bytes;
    return CS_OK;
}
