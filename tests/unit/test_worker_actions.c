/* The table of what the worker does for every operation of a program. */
#include "worker/exec/actions.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

/* A row that is left out would end a training run at its first step. Encoders have copies on hosts
 * alone: plans for GPUs are refused. */
static void every_operation_but_copies_on_devices_has_a_row(void **state)
{
    (void)state;
    for (int op = 0; op < CS_OP_COUNT; op++) {
        const struct cs_exec_op *row = &cs_exec_ops[op];
        const bool is_message = cs_op_is((enum cs_op)op, CS_OP_KIND_MESSAGE);
        assert_int_equal(row->device != NULL, op != CS_OP_COPIES);
        assert_int_equal(row->host != NULL, !is_message);
        assert_int_equal(row->on == CS_ON_CHANNEL, is_message);
        assert_true(!row->outlasts_step || row->on == CS_ON_REPLICAS);
    }
}

static void an_action_without_a_row_is_refused_by_name(void **state)
{
    const struct cs_device_ops memory = {.version = CS_DEVICE_VERSION};
    struct cs_device gpu = {.mem = &memory};
    struct cs_exec exec = {.config = {.device = &gpu}};
    const struct cs_action copies = {.id = 7, .op = CS_OP_COPIES}, unknown = {.op = 250};
    struct cs_err err = {0};
    (void)state;
    assert_int_equal(cs_exec_act(&exec, &copies, &err), CS_UNSUPPORTED);
    assert_non_null(strstr(err.text, "action 7 (C)"));
    assert_int_equal(cs_exec_act(&exec, &unknown, &err), CS_UNSUPPORTED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_operation_but_copies_on_devices_has_a_row),
        cmocka_unit_test(an_action_without_a_row_is_refused_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
