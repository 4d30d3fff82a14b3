/* The table of what the worker does for every operation of a program. */
#include "worker/exec/actions.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

/* A row that is left out would end a training run at its first step. */
static void every_operation_has_a_row(void **state)
{
    (void)state;
    for (int op = 0; op < CS_OP_COUNT; op++) {
        const struct cs_exec_op *row = &cs_exec_ops[op];
        const bool is_message = cs_op_is((enum cs_op)op, CS_OP_KIND_MESSAGE);
        assert_non_null(row->device);
        assert_int_equal(row->host != NULL, !is_message);
        assert_int_equal(row->on == CS_ON_CHANNEL, is_message);
        assert_true(!row->outlasts_step || row->on == CS_ON_REPLICAS);
    }
}

static void an_action_without_a_row_is_refused_by_name(void **state)
{
    struct cs_device host = {.mem = NULL};
    struct cs_exec exec = {.config = {.device = &host}};
    const struct cs_action message = {.id = 7, .op = CS_OP_SEND}, unknown = {.op = 250};
    struct cs_err err = {0};
    (void)state;
    assert_int_equal(cs_exec_act(&exec, &message, &err), CS_UNSUPPORTED);
    assert_non_null(strstr(err.text, "action 7 ("));
    assert_int_equal(cs_exec_act(&exec, &unknown, &err), CS_UNSUPPORTED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_operation_has_a_row),
        cmocka_unit_test(an_action_without_a_row_is_refused_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
