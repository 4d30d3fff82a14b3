/* Programs of stages whose matrices several ranks share: one sum of what they have in parts, and the
 * verifier's rule about it, broken once in every way. */
#include "core/sched/lower/lower.h"
#include "core/sched/proof/verify.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "support/planned.h"

enum { SLOTS = 4 };

struct made {
    struct cs_test_planned job;
    struct cs_program *program;
    struct cs_err err;
};

static void make(struct made *m, const struct cs_test_spec *options, bool is_eval)
{
    *m = (struct made){.job = cs_test_plan(options)};
    if (cs_program_make(m->job.plan, m->job.graph, SLOTS, is_eval, m->job.arena, &m->program,
                        &m->err) != CS_OK)
        fail_msg("%s", m->err.text);
}

static int count(const struct made *m, int rank, enum cs_op op)
{
    int n = 0;
    for (uint32_t i = 0; i < m->program->rank[rank].n_actions; i++)
        n += m->program->rank[rank].actions[i].op == op;
    return n;
}

static struct cs_action *find(const struct made *m, int rank, enum cs_op op)
{
    for (uint32_t i = 0; i < m->program->rank[rank].n_actions; i++)
        if (m->program->rank[rank].actions[i].op == op)
            return &m->program->rank[rank].actions[i];
    fail_msg("rank %d has no %s", rank, cs_op_letter(op));
    return NULL;
}

static void check_refused(struct made *m, const char *words)
{
    assert_int_equal(cs_program_verify(m->program, &m->err), CS_PLAN);
    if (strstr(m->err.text, words) == NULL)
        fail_msg("\"%s\" does not say \"%s\"", m->err.text, words);
    cs_test_planned_free(&m->job);
}

/* vision is rank 0 of the programs; two ranks run the other one, the LLM's */
static const struct cs_test_spec shared = {.llm_tp = 2, .dp = 2, .slots = 2 * SLOTS};

static void ranks_of_a_stage_sum_once_a_step(void **state)
{
    (void)state;
    struct made m;
    make(&m, &shared, false);
    assert_int_equal(cs_program_verify(m.program, &m.err), CS_OK);
    assert_int_equal(m.program->n_ranks, 2);
    assert_int_equal(count(&m, 0, CS_OP_TENSORS), 0);
    assert_int_equal(count(&m, 1, CS_OP_TENSORS), 1);
    assert_true(find(&m, 1, CS_OP_TENSORS)->id < find(&m, 1, CS_OP_REDUCE)->id);
    cs_test_planned_free(&m.job);
    make(&m, &shared, true);
    assert_int_equal(count(&m, 1, CS_OP_TENSORS), 0);
    cs_test_planned_free(&m.job);
    make(&m, &(struct cs_test_spec){.llm_cp = 2}, false);
    assert_int_equal(count(&m, 1, CS_OP_TENSORS), 0);
    cs_test_planned_free(&m.job);
}

static void programs_without_that_sum_are_refused(void **state)
{
    (void)state;
    struct made m;
    make(&m, &shared, false);
    find(&m, 1, CS_OP_NORM)->n_deps = 1; /* of its last backward */
    find(&m, 1, CS_OP_REDUCE)->n_deps = 1;
    check_refused(&m, "rank 1: gradient norm does not wait for the sum over the stage's ranks");
    make(&m, &shared, false);
    find(&m, 1, CS_OP_REDUCE)->n_deps = 1;
    check_refused(&m, "rank 1: sum of the gradients over the replicas does not wait for the sum "
                      "over the stage's ranks");
    make(&m, &shared, false);
    struct cs_action *sum = find(&m, 1, CS_OP_TENSORS);
    sum->comm = find(&m, 1, CS_OP_REDUCE)->comm;
    sum->op = CS_OP_REDUCE;
    check_refused(&m, "rank 1: sum of the gradients over the replicas is there too often");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_of_a_stage_sum_once_a_step),
        cmocka_unit_test(programs_without_that_sum_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
