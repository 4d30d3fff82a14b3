/* A job's document with all that is made from it up to its plan. What is refused fails the test
 * with the error's text. */
#ifndef CS_TESTS_SUPPORT_PLANNED_H
#define CS_TESTS_SUPPORT_PLANNED_H

#include "core/plan/plan.h"
#include "support/spec.h"

struct cs_test_planned {
    struct cs_arena *arena;
    json_t *root;
    struct cs_spec *spec;
    struct cs_graph *graph;
    struct cs_plan *plan;
    struct cs_cluster cluster;
    struct cs_err err; /* of cs_test_try_plan */
};

/* On the cluster that the document names. */
struct cs_test_planned cs_test_plan(const struct cs_test_spec *options);
/* The plan is from now on that which its own document says, as ranks of jobs have it. */
void cs_test_plan_reread(struct cs_test_planned *planned);
/* The same of a document, which is stolen; cluster NULL: the document's. */
struct cs_test_planned cs_test_plan_json(json_t *root, const struct cs_cluster *cluster);
/* The same of a document that may have no plan there, which is what is returned. */
enum cs_status cs_test_try_plan(struct cs_test_planned *p, json_t *root,
                                const struct cs_cluster *cluster);
/* All stages on rank 0, whatever the job's modality says. */
void cs_test_put_on_one_rank(struct cs_plan *plan);
void cs_test_planned_free(struct cs_test_planned *planned);

#endif
