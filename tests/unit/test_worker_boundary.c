/* Places of rows between stages: as planned, counted, and empty after a step that failed. */
#include "worker/exec/state/boundary.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

enum { SLOTS = 3 };

/* rows of an edge with its buffers behind each other, aligned */
enum { FIRST_BYTES = 256, SECOND_BYTES = 1280 };

static struct cs_edge edge[] = {
    {.width = 8, .max_rows = 4, .has_grad = true},
    {.width = 16,          .max_rows = 16            }
};

static const struct cs_plan plan = {.edges = edge, .n_edges = 2};

/* (edges, slots, rows and gradient) */
static const int32_t buffer[] = {0, 1, 1, 0, 0, 0, 0, -1, 1, -1, 0, -1}, n_buffers[] = {2, 2};

static struct cs_boundary *open_boundary(struct cs_device *device, void *memory)
{
    struct cs_err err = {0};
    struct cs_boundary *b;
    cs_device_cpu(device);
    assert_int_equal(cs_boundary_new(&plan, device, &b, &err), CS_OK);
    assert_int_equal(cs_boundary_begin(b, SLOTS, &err), CS_OK);
    cs_boundary_follow(b, n_buffers, buffer, memory);
    return b;
}

static void rows_lie_where_the_plan_says(void **state)
{
    char memory[2 * FIRST_BYTES + 2 * SECOND_BYTES];
    struct cs_device device;
    struct cs_boundary *b = open_boundary(&device, memory);
    (void)state;
    assert_int_equal(cs_boundary_bytes(b, n_buffers), sizeof memory);
    assert_ptr_equal(cs_boundary_take(b, 0, 0, 0, 4), memory);
    assert_ptr_equal(cs_boundary_take(b, 0, 0, 1, 4), memory + FIRST_BYTES);
    assert_ptr_equal(cs_boundary_take(b, 1, 1, 0, 16), memory + 2 * FIRST_BYTES + SECOND_BYTES);
    assert_ptr_equal(cs_boundary_at(b, 0, 0, 1), memory + FIRST_BYTES);
    cs_boundary_give(b, 0, 0, 1);
    assert_null(cs_boundary_at(b, 0, 0, 1));
    assert_ptr_equal(cs_boundary_take(b, 0, 1, 0, 1), memory + FIRST_BYTES);
    cs_boundary_free(b);
}

static void no_rows_have_no_place(void **state)
{
    char memory[2 * FIRST_BYTES + 2 * SECOND_BYTES];
    struct cs_device device;
    struct cs_boundary *b = open_boundary(&device, memory);
    (void)state;
    assert_null(cs_boundary_take(b, 0, 2, 1, 0));
    assert_null(cs_boundary_at(b, 0, 2, 1));
    cs_boundary_free(b);
}

static void a_step_begins_with_nothing_taken(void **state)
{
    char memory[2 * FIRST_BYTES + 2 * SECOND_BYTES];
    struct cs_err err = {0};
    struct cs_device device;
    struct cs_boundary *b = open_boundary(&device, memory);
    (void)state;
    assert_non_null(cs_boundary_take(b, 1, 2, 0, 3));
    assert_int_equal(cs_boundary_begin(b, SLOTS, &err), CS_OK);
    cs_boundary_follow(b, n_buffers, buffer, memory);
    assert_null(cs_boundary_at(b, 1, 2, 0));
    assert_non_null(cs_boundary_take(b, 1, 2, 0, 3));
    cs_boundary_free(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_lie_where_the_plan_says),
        cmocka_unit_test(no_rows_have_no_place),
        cmocka_unit_test(a_step_begins_with_nothing_taken),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
