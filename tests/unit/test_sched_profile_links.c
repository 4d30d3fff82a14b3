/* Links that were measured, as plans take them: messages, exchanges of every kind at several sizes, alone and beside
 * products, and what channels hold of a device. */
#include "core/plan/cost/basis/profile.h"
#include "core/plan/cost/links/beside.h"
#include "core/plan/cost/links/links.h"
#include "core/plan/make/planner.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

#include "tests/support/profiled.h"

/* a link's bandwidth is more than the few multiprocessors of a channel move */
static void a_channel_moves_what_its_multiprocessors_can(void **state)
{
    const struct cs_device_class *cpu = cs_device_class_find("cpu");
    (void)state;
    assert_int_equal(cs_channel_of(cs_device_class_find("h200-141g")).bytes_per_s, 68000000000);
    assert_int_equal(cs_channel_of(cs_device_class_find("a40-48g")).bytes_per_s, 28000000000);
    assert_int_equal(cs_channel_of(cpu).bytes_per_s, cpu->link_bytes_per_s);
}

/* Of the 132 multiprocessors of a GPU every channel between two hosts holds some: rows one way, gradients the other.
 * Within one the copy engines move what goes there. */
static void messages_take_their_part_of_a_device(void **state)
{
    static const struct {
        const char *rules;
        int devices_per_node, channels;
    } cases[] = {
        {"train:*",                 1, 2},
        {"freeze:* train:llm.head", 1, 1},
        {"train:*",                 8, 0},
    };

    (void)state;
    for (size_t i = 0; i < CS_ARRAY_LEN(cases); i++) {
        const struct cs_test_spec options = {
            .n_encoders = -1, .llm_layers = 4, .llm_pp = 2, .rules = cases[i].rules};
        struct cs_test_profiled m = {.arena = cs_arena_new(0),
                                     .cluster.devices_per_node = cases[i].devices_per_node};
        json_t *first;
        struct cs_graph *graph = cs_test_graph(&options, m.arena, &first);
        cs_test_profiled_need(&m, cs_test_profiled_make_on(&m, &options,
                                                           cs_test_profile_text(graph, "h100-80g"),
                                                           "h100-80g"));
        const int n = m.plan->stages[0].n_layers - 1,
                  left = 132 - CS_CHANNEL_UNITS * cases[i].channels;
        assert_int_equal(m.plan->stages[0].fwd_ns, ((400 + n * 1000) * 132 + left - 1) / left);
        cs_test_profiled_free(&m, first);
    }
    /* one rank has no messages */
    const struct cs_test_spec alone = {.n_encoders = -1, .llm_layers = 4};
    struct cs_test_profiled m = {.arena = cs_arena_new(0)};
    json_t *first;
    struct cs_graph *graph = cs_test_graph(&alone, m.arena, &first);
    cs_test_profiled_need(&m, cs_test_profiled_make_on(
                                  &m, &alone, cs_test_profile_text(graph, "h100-80g"), "h100-80g"));
    assert_int_equal(m.plan->stages[0].fwd_ns, 400 + 4 * 1000 + 3000);
    cs_test_profiled_free(&m, first);
}

static json_t *link_row(const char *op, int ranks, int latency_ns, int bytes_per_s)
{
    return json_pack("{s:s, s:i, s:i, s:i}", "op", op, "ranks", ranks, "latency_ns", latency_ns,
                     "bytes_per_s", bytes_per_s);
}

/* by hand, of the rows of links_are_those_that_were_measured */
static void exchanges_take_what_was_measured(const struct cs_device_class *device)
{
    const int64_t s = 1000000000;
    assert_int_equal(cs_exchange_ns(device, CS_LINK_SEND, 2, 5000), 700 + s);
    assert_int_equal(cs_exchange_ns(device, CS_LINK_ALL_REDUCE, 4, 1000), 6000 + s);
    assert_int_equal(cs_exchange_ns(device, CS_LINK_ALL_REDUCE, 2, 10), 10 + s);
    /* three ranks of a ring: two thirds of the steps of four, 4/3 of the bytes where four send 6/4 */
    assert_in_range(cs_exchange_ns(device, CS_LINK_ALL_REDUCE, 3, 900), 4000 + s * 8 / 10 - 1,
                    4000 + s * 8 / 10 + 1);
    /* more ranks than were measured: from the largest group */
    assert_in_range(cs_exchange_ns(device, CS_LINK_ALL_REDUCE, 16, 1000), 30000 + s * 5 / 4 - 1,
                    30000 + s * 5 / 4 + 1);
    /* not measured: over the ring of the link, here 1000 ns a step and 1500 bytes/s */
    assert_int_equal(cs_exchange_ns(device, CS_LINK_REDUCE_SCATTER, 4, 2000), 3000 + s);
    assert_int_equal(cs_exchange_ns(device, CS_LINK_ALL_TO_ALL, 4, 2000), 1000 + s);
    assert_int_equal(cs_exchange_ns(device, CS_LINK_SHIFT, 4, 1500), 1000 + s);
    assert_int_equal(cs_exchange_ns(device, CS_LINK_ALL_REDUCE, 1, 1000), 0);
    assert_int_equal(cs_exchange_ns(device, CS_LINK_ALL_REDUCE, 4, 0), 0);
    assert_int_equal(cs_channel_of(device).bytes_per_s, 5000);
}

/* Between points what lies between them, beyond them the line; of other groups the bytes' time grows as on a ring. */
static void exchanges_take_what_points_say(struct cs_test_profiled *m, json_t *profile, json_t *row,
                                           const struct cs_cluster *cluster)
{
    static const char *const none[] = {"[[100, 5], [100, 6]]", "[[100, -1]]", "[[100]]",
                                       "[[1.5, 2]]", "[[1, 1], [2, 2], [3, 3], [4, 4], [5, 5]]"};
    struct cs_cluster own = *cluster;
    struct cs_profile *read;
    json_object_set_new(row, "points",
                        json_loads("[[100, 2000], [300, 8000], [900, 9000]]", 0, NULL));
    cs_test_profiled_need(m, cs_profile_read(profile, m->arena, &read, &m->err));
    cs_profile_cluster(read, m->arena, &own);
    const struct cs_device_class *d = own.device;
    assert_int_equal(cs_exchange_ns(d, CS_LINK_ALL_TO_ALL, 2, 100), 2000);
    assert_int_equal(cs_exchange_ns(d, CS_LINK_ALL_TO_ALL, 2, 200), 5000);
    assert_int_equal(cs_exchange_ns(d, CS_LINK_ALL_TO_ALL, 2, 600), 8500);
    assert_int_equal(cs_exchange_ns(d, CS_LINK_ALL_TO_ALL, 2, 1000), 50 + 10000); /* 100 MB/s */
    assert_int_equal(cs_exchange_ns(d, CS_LINK_ALL_TO_ALL, 2, 50), 50 + 500);
    assert_int_equal(cs_exchange_ns(d, CS_LINK_ALL_TO_ALL, 4, 200), 50 + (5000 - 50) * 3 / 2);
    assert_int_equal(cs_exchange_latency_ns(d, CS_LINK_ALL_TO_ALL, 2), 50);
    json_t *again = cs_profile_json(read);
    assert_true(json_equal(json_object_get(again, "links"), json_object_get(profile, "links")));
    json_decref(again);
    for (size_t i = 0; i < CS_ARRAY_LEN(none); i++) {
        json_object_set_new(row, "points", json_loads(none[i], 0, NULL));
        assert_int_equal(cs_profile_read(profile, m->arena, &read, &m->err), CS_INVALID);
        assert_non_null(strstr(m->err.text, "links[4].points"));
    }
    json_object_del(row, "points");
}

/* What every rank sends to the next takes as long in groups of any size; where it was not measured, as in older profiles,
 * as long as an all-to-all of two ranks of twice the bytes. By copy engines it takes nothing from what computes. */
static void shifts_take_what_was_measured(struct cs_test_profiled *m, json_t *profile,
                                          const struct cs_cluster *cluster)
{
    struct cs_cluster own = *cluster;
    struct cs_profile *read;
    cs_test_profiled_need(m, cs_profile_read(profile, m->arena, &read, &m->err));
    cs_profile_cluster(read, m->arena, &own); /* of two 50 ns and 100 MB/s */
    for (int64_t n = 2; n <= 8; n *= 2) {
        assert_int_equal(cs_exchange_ns(own.device, CS_LINK_SHIFT, n, 1000), 50 + 20000);
        assert_int_equal(cs_exchange_latency_ns(own.device, CS_LINK_SHIFT, n), 50);
    }
    json_t *row = link_row("shift", 2, 20, 200000000);
    json_object_set_new(row, "copy_engines", json_true());
    json_array_append_new(json_object_get(profile, "links"), row);
    cs_test_profiled_need(m, cs_profile_read(profile, m->arena, &read, &m->err));
    assert_true(read->link[5].by_copy_engines && !read->link[4].by_copy_engines);
    cs_profile_cluster(read, m->arena, &own);
    for (int64_t n = 2; n <= 8; n *= 2) {
        const struct cs_beside x = cs_exchange_beside(own.device, CS_LINK_SHIFT, n, 1000);
        assert_true(x.alone_ns == 20 + 5000 && x.beside_ns == x.alone_ns && x.slows <= 0);
        assert_int_equal(cs_exchange_latency_ns(own.device, CS_LINK_SHIFT, n), 20);
    }
    json_t *again = cs_profile_json(read);
    assert_true(json_equal(json_object_get(again, "links"), json_object_get(profile, "links")));
    json_decref(again);
    json_object_set_new(row, "copy_engines", json_string("yes"));
    assert_int_equal(cs_profile_read(profile, m->arena, &read, &m->err), CS_INVALID);
    json_object_set_new(row, "copy_engines", json_true());
}

/* A ring of n ranks takes 2 (n - 1) steps for 2 (n - 1) / n of the bytes; the largest group counts, a message where
 * no ring was measured; the plan's prediction follows. */
static void links_are_those_that_were_measured(void **state)
{
    const struct cs_test_spec options = {.n_encoders = -1, .llm_layers = 2, .llm_pp = 2};
    struct cs_test_profiled m = {.arena = cs_arena_new(0)};
    struct cs_profile *read;
    json_t *first, *links = json_array();
    struct cs_graph *graph = cs_test_graph(&options, m.arena, &first);
    json_t *profile = cs_test_profile_with_step(cs_test_profile_text(graph, "cpu"));
    struct cs_cluster cluster = {cs_device_class_find("cpu"), 1, 8}, own = cluster;
    (void)state;
    cs_profile_cluster(NULL, m.arena, &own);
    assert_ptr_equal(own.device, cluster.device);
    json_object_set_new(profile, "links", links);
    json_array_append_new(links, link_row("send", 2, 700, 5000));
    cs_test_profiled_need(&m, cs_profile_read(profile, m.arena, &read, &m.err));
    cs_profile_cluster(read, m.arena, &own);
    assert_true(own.device->link_latency_ns == 700 && own.device->link_bytes_per_s == 5000);
    assert_true(own.device->flops == cluster.device->flops);
    json_array_append_new(links, link_row("all-reduce", 4, 6000, 1000));
    json_array_append_new(links, link_row("all-gather", 8, 1, 1));
    json_array_append_new(links, link_row("all-reduce", 2, 10, 10));
    cs_test_profiled_need(&m, cs_profile_read(profile, m.arena, &read, &m.err));
    assert_int_equal(read->n_links, 4);
    cs_profile_cluster(read, m.arena, &own);
    assert_true(own.device->link_latency_ns == 1000 && own.device->link_bytes_per_s == 1500);
    exchanges_take_what_was_measured(own.device);
    json_t *again = cs_profile_json(read);
    assert_true(json_equal(json_object_get(again, "links"), links));
    json_decref(again);
    cs_test_profiled_need(&m, cs_test_profiled_make(&m, &options, json_incref(profile)));
    cs_test_profiled_need(&m, cs_spec_cluster(m.spec, NULL, m.arena, &m.cluster, &m.err));
    assert_int_equal(m.cluster.device->link_latency_ns, 1000);
    json_t *row = link_row("all-to-all", 2, 50, 100000000);
    json_array_append_new(links, row);
    exchanges_take_what_points_say(&m, profile, row, &cluster);
    shifts_take_what_was_measured(&m, profile, &cluster);
    json_object_del(json_array_get(links, 0), "bytes_per_s");
    assert_int_equal(cs_profile_read(profile, m.arena, &read, &m.err), CS_INVALID);
    assert_non_null(strstr(m.err.text, "links[0]"));
    json_decref(profile);
    cs_test_profiled_free(&m, first);
}

/* Beside products bytes take longer and latency does not; groups that were not measured so, and kinds, are as alone and
 * hold their multiprocessors. */
static void exchanges_beside_computing_are_those_that_were_measured(void **state)
{
    const struct cs_test_spec options = {.n_encoders = -1};
    struct cs_arena *arena = cs_arena_new(0);
    struct cs_profile *read;
    struct cs_err err = {.text = ""};
    json_t *first, *links = json_array(), *row = link_row("all-gather", 2, 1000, 2000000000);
    struct cs_graph *graph = cs_test_graph(&options, arena, &first);
    json_t *profile = cs_test_profile_text(graph, "h100-80g");
    struct cs_cluster own = {cs_device_class_find("h100-80g"), 1, 8};
    const double held = 32.0 / own.device->units;
    (void)state;
    json_object_set_new(row, "beside_bytes_per_s", json_integer(500000000));
    json_object_set_new(row, "slows", json_real(0.375));
    json_array_append_new(links, row);
    json_array_append_new(links, link_row("send", 2, 700, 8000));
    json_object_set_new(json_array_get(links, 1), "beside_bytes_per_s", json_integer(5000));
    json_object_set_new(json_array_get(links, 1), "slows", json_real(0.125));
    json_array_append_new(links, link_row("all-reduce", 2, 1000, 1000000000));
    json_array_append_new(links, link_row("reduce-scatter", 2, 1000, 1000000000));
    json_object_set_new(profile, "links", links);
    assert_int_equal(cs_profile_read(profile, arena, &read, &err), CS_OK);
    cs_profile_cluster(read, arena, &own);
    struct cs_beside x = cs_exchange_beside(own.device, CS_LINK_ALL_GATHER, 2, 8000);
    assert_true(x.alone_ns == 1000 + 4000 && llabs(x.beside_ns - (1000 + 16000)) <= 4);
    assert_float_equal(x.slows, 0.375, 1e-9);
    assert_true(cs_channel_of(own.device).latency_ns == 700 &&
                cs_channel_of(own.device).bytes_per_s == 5000);
    x = cs_exchange_beside(own.device, CS_LINK_ALL_GATHER, 1, 8000);
    assert_true(x.alone_ns == 0 && x.beside_ns == 0);
    x = cs_exchange_beside(own.device, CS_LINK_REDUCE_SCATTER, 2, 8000);
    assert_true(x.alone_ns == 1000 + 8000 && x.beside_ns == x.alone_ns);
    assert_float_equal(x.slows, held, 1e-9);
    json_t *again = cs_profile_json(read);
    assert_true(json_equal(json_object_get(again, "links"), links));
    json_decref(again);
    json_object_set_new(row, "slows", json_real(1));
    assert_int_equal(cs_profile_read(profile, arena, &read, &err), CS_INVALID);
    assert_non_null(strstr(err.text, "slows"));
    json_object_del(row, "slows");
    assert_int_equal(cs_profile_read(profile, arena, &read, &err), CS_INVALID);
    assert_non_null(strstr(err.text, "links[0]"));
    json_decref(profile);
    json_decref(first);
    cs_arena_free(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_channel_moves_what_its_multiprocessors_can),
        cmocka_unit_test(messages_take_their_part_of_a_device),
        cmocka_unit_test(links_are_those_that_were_measured),
        cmocka_unit_test(exchanges_beside_computing_are_those_that_were_measured),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
