/* Parts of reading a plan, in the order in which they are read. Private to the room. */
#ifndef CS_PLAN_JSON_READER_H
#define CS_PLAN_JSON_READER_H

#include "core/plan/json/fields.h"

/* a stage; core/model/spec/keys.c */
enum { CS_PLAN_MOST_SHARED = 64, CS_PLAN_MOST_REPLICAS = 1024 };

struct cs_plan_reader {
    const json_t *json; /* the document */
    const struct cs_graph *graph;
    struct cs_arena *arena;
    struct cs_plan *plan; /* as far as it was read */
};

/* All CS_CORRUPT, with what is wrong.
 * read_stages.c: after slots and dp; n_ranks too */
enum cs_status cs_plan_read_stages(struct cs_plan_reader *r, struct cs_err *err) CS_NODISCARD;
/* read_budget.c */
enum cs_status cs_plan_read_budget(struct cs_plan_reader *r, struct cs_err *err) CS_NODISCARD;
/* read_edges.c: edges, flags and tied stages follow from the rest: read, derived, and demanded to be equal */
enum cs_status cs_plan_read_derived(struct cs_plan_reader *r, struct cs_err *err) CS_NODISCARD;

#endif
