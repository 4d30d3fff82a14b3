/* Boundary buffers on a device with streams: a buffer whose last use by another stream is not over
 * is left alone, for a stream that waited for it could wait for its own peer. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "worker/boundary.h"

enum { EDGE_ROWS = 4, WIDTH = 8 };

struct event {
    const void *stream;
    bool is_over;
};

static int stream_a, stream_b; /* addresses only */

static enum cs_status fake_alloc(void *handle, size_t bytes, void **p, struct cs_err *err)
{
    (void)handle;
    *p = malloc(bytes);
    return *p != NULL ? CS_OK : cs_fail(err, CS_NO_MEMORY, "no memory");
}

static void fake_free(void *handle, void *p)
{
    (void)handle;
    free(p);
}

static enum cs_status fake_create(void *handle, void **event, struct cs_err *err)
{
    (void)handle;
    *event = calloc(1, sizeof(struct event));
    return *event != NULL ? CS_OK : cs_fail(err, CS_NO_MEMORY, "no memory");
}

static enum cs_status fake_record(void *handle, void *event, void *stream, struct cs_err *err)
{
    struct event *e = event;
    (void)handle;
    (void)err;
    e->stream = stream;
    e->is_over = stream == NULL; /* the test's compute stream is idle */
    return CS_OK;
}

static enum cs_status fake_query(void *handle, void *event, struct cs_err *err)
{
    const struct event *e = event;
    (void)handle;
    return e->is_over ? CS_OK : cs_fail(err, CS_STATE, "not reached");
}

static const struct cs_device_ops fake = {
    .alloc = fake_alloc,
    .free = fake_free,
    .event_create = fake_create,
    .event_destroy = fake_free,
    .event_record = fake_record,
    .event_query = fake_query,
};

static void *take(struct cs_boundary *b, int slot, int is_grad, void *stream)
{
    struct cs_err err = {0};
    void *out;
    assert_int_equal(cs_boundary_take(b, 0, slot, is_grad, EDGE_ROWS, stream, &out, &err), CS_OK);
    return out;
}

static void buffers_wait_for_no_other_stream(void **state)
{
    struct cs_err err = {0};
    struct cs_edge edge = {.width = WIDTH, .max_rows = EDGE_ROWS, .has_grad = true};
    const struct cs_plan plan = {.edges = &edge, .n_edges = 1};
    struct cs_device device = {.ops = cs_ops_cpu(), .mem = &fake};
    struct cs_boundary *b;
    (void)state;
    assert_int_equal(cs_boundary_new(&plan, &device, &b, &err), CS_OK);
    assert_int_equal(cs_boundary_begin(b, 4, &err), CS_OK);

    void *sent = take(b, 0, 0, &stream_a);
    cs_boundary_give(b, 0, 0, 0, &stream_b); /* a message on b uses it, not over */
    void *other = take(b, 1, 0, &stream_a);
    assert_ptr_not_equal(other, sent);
    void *same = take(b, 2, 0, &stream_b); /* behind that message on its own stream */
    assert_ptr_equal(same, sent);

    cs_boundary_give(b, 0, 1, 0, NULL); /* over at once */
    assert_ptr_equal(take(b, 3, 1, &stream_b), other);
    cs_boundary_free(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(buffers_wait_for_no_other_stream)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
