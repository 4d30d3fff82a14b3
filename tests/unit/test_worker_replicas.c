/* Where replicas sum on devices, all of them must start the same sums in the same order, or they
 * wait for each other for ever: also when the last slot of a zero-bubble step has rows on one
 * replica and none on another. A device whose communicator only writes down what it is asked
 * for. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/plan/groups.h"
#include "worker/comm/replicas.h"
#include "worker/model/stage.h"

enum { REPLICAS = 2, STAGES = 2, STAGE_LAYERS = 3, BUCKETS = 6, COUNT = 8 };

static struct {
    int32_t bucket[2 * BUCKETS];
    int32_t n;
} started;

static float grads[BUCKETS * COUNT];
static int some_handle; /* an address only */

static enum cs_status fake_create(void *handle, void **out, struct cs_err *err)
{
    (void)handle;
    (void)err;
    *out = &some_handle;
    return CS_OK;
}

static void fake_destroy(void *handle, void *what)
{
    (void)handle;
    (void)what;
}

static enum cs_status fake_alloc(void *handle, size_t bytes, void **out, struct cs_err *err)
{
    (void)bytes;
    return fake_create(handle, out, err);
}

static int own_stream; /* of the device: an address only */
static int n_waits;    /* of that stream */

static enum cs_status fake_wait(void *handle, void *stream, void *event, struct cs_err *err)
{
    (void)handle;
    (void)event;
    (void)err;
    n_waits += stream == &own_stream;
    return CS_OK;
}

static enum cs_status fake_order(void *handle, void *a, void *b, struct cs_err *err)
{
    (void)handle;
    (void)a;
    (void)b;
    (void)err;
    return CS_OK;
}

static enum cs_status fake_id(char id[CS_DEVICE_COMM_ID], struct cs_err *err)
{
    (void)err;
    memset(id, 1, CS_DEVICE_COMM_ID);
    return CS_OK;
}

static enum cs_status fake_open(const char id[CS_DEVICE_COMM_ID], int rank, int n,
                                enum cs_device_comm_kind kind, void **comm, struct cs_err *err)
{
    (void)id;
    (void)rank;
    (void)n;
    (void)kind;
    (void)err;
    *comm = &some_handle;
    return CS_OK;
}

static enum cs_status fake_reduce_scatter(void *comm, const void *from, void *to, size_t count,
                                          enum cs_grad_type type, void *stream, struct cs_err *err)
{
    (void)comm;
    (void)to;
    (void)type;
    (void)stream;
    (void)err;
    assert_int_equal(count, COUNT / REPLICAS);
    assert_true(started.n < 2 * BUCKETS);
    started.bucket[started.n++] = (int32_t)(((const float *)from - grads) / COUNT);
    return CS_OK;
}

static enum cs_status fake_check(void *comm, struct cs_err *err)
{
    (void)comm;
    (void)err;
    return CS_OK;
}

static void fake_close(void *comm)
{
    (void)comm;
}

static enum cs_status fake_exchange(struct cs_comm *comm, struct cs_xfer *xfer, int n,
                                    int deadline_ms, struct cs_err *err)
{
    (void)comm;
    (void)xfer;
    (void)n;
    (void)deadline_ms;
    (void)err;
    return CS_OK;
}

static const struct cs_device_comm_ops fake_comm = {.new_id = fake_id,
                                                    .open = fake_open,
                                                    .reduce_scatter = fake_reduce_scatter,
                                                    .check = fake_check,
                                                    .abort = fake_close,
                                                    .close = fake_close};
static const struct cs_device_ops fake_device = {.comm = &fake_comm,
                                                 .stream_create = fake_create,
                                                 .stream_destroy = fake_destroy,
                                                 .event_create = fake_create,
                                                 .event_destroy = fake_destroy,
                                                 .event_record = fake_order,
                                                 .stream_wait = fake_wait,
                                                 .alloc = fake_alloc,
                                                 .free = fake_destroy};
static const struct cs_comm_table fake_sockets = {.exchange = fake_exchange};

/* Two stages of three layers on one rank, the first of which is frozen; a bucket a layer, and one
 * of the tied head, which is complete after an exchange. */
struct rank {
    struct cs_device device;
    struct cs_comm sockets;
    struct cs_bucket bucket[BUCKETS];
    struct cs_params params;
    struct cs_stage part[STAGES];
    struct cs_stage_model stage[STAGES];
    struct cs_replicas *replicas;
    struct cs_watch watch;
};

static void layer_done(void *user, int32_t layer)
{
    struct rank *r = user;
    assert_int_equal(cs_replicas_layer_done(r->replicas, layer, CS_MADE_BACKWARD, true, NULL),
                     CS_OK);
}

static void rank_connect(struct rank *r)
{
    struct cs_stage only = {.rank = 0};
    struct cs_plan plan = {.dp = REPLICAS, .n_ranks = 1, .stages = &only, .n_stages = 1};
    struct cs_arena *arena = cs_arena_new(0);
    cs_plan_make_groups(&plan, arena);
    assert_int_equal(cs_replicas_new(&r->device, &plan, 0, &r->sockets, 1000, &r->replicas, NULL),
                     CS_OK);
    assert_non_null(r->replicas);
    cs_arena_free(arena);
    assert_int_equal(cs_replicas_bind(r->replicas, &r->params, NULL), CS_OK);
    cs_replicas_begin(r->replicas);
    started.n = 0;
}

static void rank_open(struct rank *r)
{
    memset(r, 0, sizeof *r);
    r->device.mem = &fake_device;
    r->sockets.table = &fake_sockets;
    for (int32_t i = 0; i < BUCKETS; i++)
        r->bucket[i] = (struct cs_bucket){.at = i * COUNT,
                                          .n = COUNT,
                                          .first_layer = i < BUCKETS - 1 ? i + 1 : -1,
                                          .end_layer = i < BUCKETS - 1 ? i + 2 : -1,
                                          .zero = 1,
                                          .made = CS_MADE_WITH_WEIGHTS,
                                          .grad = (size_t)i * COUNT * sizeof grads[0],
                                          .own_grad = (size_t)i * COUNT * sizeof grads[0]};
    r->params = (struct cs_params){.device = &r->device,
                                   .bucket = r->bucket,
                                   .n_buckets = BUCKETS,
                                   .n_all_buckets = BUCKETS,
                                   .n_turns = 2,
                                   .state = grads,
                                   .grads = grads,
                                   .grad_size = sizeof grads[0]};
    for (int32_t s = 0; s < STAGES; s++) {
        r->part[s].first_layer = s * STAGE_LAYERS;
        r->part[s].n_layers = STAGE_LAYERS;
        r->stage[s] = (struct cs_stage_model){.stage = &r->part[s], .lowest = s == 0};
    }
    r->watch = (struct cs_watch){.done = layer_done, .user = r};
    rank_connect(r);
}

enum slot { WITH_ROWS, EMPTY, NEVER_SEEN };

/* The weight halves of the last slot, last stage first, then the rest of the sums. n_after: how
 * many had been started after each stage. */
static void step(enum slot slot, int32_t n_after[STAGES], int32_t order[BUCKETS])
{
    struct rank r;
    struct cs_saved nothing = {0};
    rank_open(&r);
    for (int32_t s = STAGES - 1; s >= 0; s--) {
        struct cs_run run = {.watch = &r.watch};
        if (slot != NEVER_SEEN)
            cs_stage_bwd_weight(&r.stage[s], &run, slot == WITH_ROWS ? &nothing : NULL);
        n_after[s] = started.n;
    }
    assert_int_equal(cs_replicas_reduce(r.replicas, NULL), CS_OK);
    assert_int_equal(started.n, BUCKETS); /* each once */
    memcpy(order, started.bucket, BUCKETS * sizeof *order);
    cs_replicas_free(r.replicas);
}

static void an_empty_slot_starts_the_sums_where_one_with_rows_does(void **state)
{
    int32_t n[2][STAGES], order[2][BUCKETS];
    (void)state;
    step(WITH_ROWS, n[0], order[0]);
    step(EMPTY, n[1], order[1]);
    assert_int_equal(n[0][1], STAGE_LAYERS); /* while the first stage is still to come */
    assert_int_equal(n[0][0], BUCKETS - 1);  /* all but the tied head's */
    assert_memory_equal(n[0], n[1], sizeof n[0]);
    assert_memory_equal(order[0], order[1], sizeof order[0]);
}

static void what_no_backward_started_follows_in_the_same_order(void **state)
{
    int32_t n[2][STAGES], order[2][BUCKETS];
    (void)state;
    step(WITH_ROWS, n[0], order[0]);
    step(NEVER_SEEN, n[1], order[1]);
    assert_int_equal(n[1][0], 0);
    assert_memory_equal(order[0], order[1], sizeof order[0]);
    for (int32_t i = 0; i < BUCKETS - 1; i++) /* as backwards go: last layers first */
        assert_int_equal(order[0][i], BUCKETS - 2 - i);
    assert_int_equal(order[0][BUCKETS - 1], BUCKETS - 1);
}

/* ---- halves of a backward wait for what they write ---- */

/* waits of the device before it enters a layer's pass */
static int waits(struct rank *r, int32_t layer, int32_t step, unsigned made)
{
    n_waits = 0;
    assert_int_equal(cs_replicas_enter(r->replicas, layer, step, made, NULL), CS_OK);
    return n_waits;
}

static void sum(struct rank *r, int32_t layer, unsigned made)
{
    assert_int_equal(cs_replicas_layer_done(r->replicas, layer, made, false, NULL), CS_OK);
}

/* Layers 1 and 3 make gradients in the same memory, each with its input half in one bucket and with the weight half in
 * another. An input half waits for the sum of the other layer's input bucket alone, a weight half for that of the weight
 * bucket, a whole backward for the last of both; nobody waits twice. */
static void halves_wait_for_the_sums_that_read_where_they_write(void **state)
{
    static const unsigned made[] = {CS_MADE_WITH_WEIGHTS, CS_MADE_WITH_INPUT};
    struct cs_layer layers[STAGES * STAGE_LAYERS + 1] = {{.id = 0}};
    struct cs_graph graph = {.layers = layers, .n_layers = STAGES * STAGE_LAYERS};
    (void)state;
    for (int is_whole = 0; is_whole < 2; is_whole++) {
        struct rank r;
        rank_open(&r);
        cs_replicas_free(r.replicas);
        for (int i = 0; i < 4; i++) {
            r.bucket[i].first_layer = 1 + i / 2 * 2;
            r.bucket[i].made = made[i % 2];
            r.bucket[i].zero = 2;
            r.bucket[i].grad = (size_t)(i % 2) * COUNT * sizeof grads[0];
        }
        r.params.n_buckets = r.params.n_all_buckets = 4;
        r.params.graph = &graph;
        r.device.stream = &own_stream;
        rank_connect(&r);
        assert_true(cs_replicas_divides(r.replicas));
        sum(&r, 3, CS_MADE_WITH_WEIGHTS);
        assert_int_equal(waits(&r, 1, -1, CS_MADE_WITH_INPUT), 0);
        sum(&r, 3, CS_MADE_WITH_INPUT);
        if (is_whole) {
            assert_int_equal(waits(&r, 1, -1, CS_MADE_BACKWARD), 1);
        } else {
            assert_int_equal(waits(&r, 1, 0, CS_MADE_WITH_WEIGHTS), 1);
            assert_int_equal(waits(&r, 1, 0, CS_MADE_WITH_WEIGHTS), 0);
            assert_int_equal(waits(&r, 1, -1, CS_MADE_WITH_INPUT), 1);
        }
        assert_int_equal(waits(&r, 1, -1, CS_MADE_BACKWARD), 0);
        cs_replicas_free(r.replicas);
    }
}

/* ---- a second communicator that cannot be opened ---- */

static int n_opened, n_closed, n_aborted;

static enum cs_status open_one_only(const char id[CS_DEVICE_COMM_ID], int rank, int n,
                                    enum cs_device_comm_kind kind, void **comm, struct cs_err *err)
{
    if (++n_opened > 1)
        return cs_fail(err, CS_PEER_GONE, "nobody came");
    return fake_open(id, rank, n, kind, comm, err);
}

static void count_close(void *comm)
{
    (void)comm;
    n_closed++;
}

static void count_abort(void *comm)
{
    (void)comm;
    n_aborted++;
}

/* The first is not closed with others, who wait in the second one or are gone. */
static void who_fails_to_open_waits_for_nobody(void **state)
{
    struct cs_device_comm_ops comm = fake_comm;
    struct cs_device_ops mem = fake_device;
    struct cs_device device = {.mem = &mem};
    struct cs_comm sockets = {.table = &fake_sockets};
    struct cs_stage only = {
        .shape = {.tp = 1, .cp = 1, .ep = 2, .dp = 4}
    };
    struct cs_plan plan = {.dp = 4, .n_ranks = 1, .stages = &only, .n_stages = 1};
    struct cs_arena *arena = cs_arena_new(0);
    struct cs_replicas *replicas;
    struct cs_err err = {0};
    (void)state;
    comm.open = open_one_only;
    comm.close = count_close;
    comm.abort = count_abort;
    mem.comm = &comm;
    cs_plan_make_groups(&plan, arena);
    assert_int_equal(cs_replicas_new(&device, &plan, 0, &sockets, 1000, &replicas, &err),
                     CS_PEER_GONE);
    assert_non_null(strstr(err.text, "connecting rank 0 with its replicas: nobody came"));
    assert_null(replicas);
    assert_int_equal(n_opened, 2);
    assert_int_equal(n_closed, 0);
    assert_int_equal(n_aborted, 1);
    cs_arena_free(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_empty_slot_starts_the_sums_where_one_with_rows_does),
        cmocka_unit_test(what_no_backward_started_follows_in_the_same_order),
        cmocka_unit_test(halves_wait_for_the_sums_that_read_where_they_write),
        cmocka_unit_test(who_fails_to_open_waits_for_nobody),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
