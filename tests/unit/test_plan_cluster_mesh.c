/* Rank mesh, groups and cluster presets. Goldens: Cornstarch, rank mesh. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

#include "core/base/buf.h"
#include "core/plan/layout.h"

static struct cs_layout two(int32_t tp_a, int32_t cp_a, int32_t tp_b, int32_t cp_b)
{
    return (struct cs_layout){
        .branch = {{.name = "enc", .tp = tp_a, .cp = cp_a, .pp = 2},
                   {.name = "llm", .tp = tp_b, .cp = cp_b, .pp = 2}},
        .n_branches = 2,
        .llm = 1
    };
}

static void expect_cells(const struct cs_layout *layout, int32_t world, const int32_t *golden,
                         int32_t n)
{
    struct cs_err err = {.text = ""};
    struct cs_mesh *mesh = NULL;
    struct cs_arena *arena = cs_arena_new(0);
    if (cs_mesh_make(layout, world, arena, &mesh, &err) != CS_OK)
        fail_msg("%s", err.text);
    assert_int_equal(mesh->n_stages * mesh->dp * mesh->cp * mesh->tp, n);
    assert_int_equal(mesh->n_ranks, world);
    for (int32_t i = 0; i < n; i++)
        assert_int_equal(mesh->rank[i], golden[i]);
    cs_arena_free(arena);
}

static void mesh_of_24_ranks_repeats_the_narrow_encoder(void **state)
{
    static const int32_t golden[] = {0, 0, 1,  1,  2,  2,  3,  3,  4,  4,  5,  5,  6,  6,  7,  7,
                                     8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23};
    struct cs_layout layout = two(2, 1, 4, 1);
    (void)state;
    expect_cells(&layout, 24, golden, 32);
}

static void mesh_of_16_ranks_with_cp_is_in_order(void **state)
{
    int32_t golden[16];
    struct cs_layout layout = two(2, 2, 2, 2);
    (void)state;
    for (int32_t i = 0; i < 16; i++)
        golden[i] = i;
    expect_cells(&layout, 16, golden, 16);
}

static void mesh_of_18_ranks_and_two_encoders(void **state)
{
    static const int32_t golden[] = {0, 0, 1, 1, 2, 2, 3,  3,  4,  4,  5,  5,  6,  6,
                                     7, 7, 8, 8, 9, 9, 10, 11, 12, 13, 14, 15, 16, 17};
    struct cs_layout layout = {
        .branch = {{.name = "enc1", .tp = 2, .cp = 1, .pp = 2},
                   {.name = "enc2", .tp = 2, .cp = 1, .pp = 3},
                   {.name = "llm", .tp = 4, .cp = 1, .pp = 2}},
        .n_branches = 3,
        .llm = 2
    };
    (void)state;
    expect_cells(&layout, 18, golden, 28);
}

static void replicas_of_27_ranks_fill_54_with_dp_2(void **state)
{
    struct cs_layout layout = {
        .branch = {{.name = "vision", .tp = 2, .cp = 1, .pp = 1},
                   {.name = "audio", .tp = 1, .cp = 1, .pp = 1},
                   {.name = "llm", .tp = 4, .cp = 2, .pp = 3}},
        .n_branches = 3,
        .llm = 2
    };
    struct cs_mesh *mesh = NULL;
    struct cs_err err;
    struct cs_arena *arena = cs_arena_new(0);
    (void)state;
    assert_int_equal(cs_mesh_make(&layout, 54, arena, &mesh, &err), CS_OK);
    assert_int_equal(mesh->dp, 2);
    layout.dp = 2;
    assert_int_equal(cs_layout_ranks(&layout), 54);
    cs_arena_free(arena);
}

static void expect_groups(const struct cs_mesh *mesh, enum cs_group_kind kind, const char *golden,
                          struct cs_arena *arena)
{
    struct cs_group *group = NULL;
    struct cs_buf text = {0};
    int32_t n = cs_mesh_groups(mesh, arena, &group);
    for (int32_t i = 0; i < n; i++) {
        if (group[i].kind != kind)
            continue;
        for (int32_t k = 0; k < group[i].n; k++)
            cs_buf_addf(&text, "%s%d", k ? "," : "(", group[i].rank[k]);
        cs_buf_addc(&text, ')');
    }
    assert_string_equal(cs_buf_str(&text), golden);
    cs_buf_free(&text);
}

static void groups_of_24_ranks_come_in_one_order(void **state)
{
    struct cs_layout layout = two(2, 1, 4, 1);
    struct cs_mesh *mesh = NULL;
    struct cs_err err;
    struct cs_arena *arena = cs_arena_new(0);
    (void)state;
    assert_int_equal(cs_mesh_make(&layout, 24, arena, &mesh, &err), CS_OK);
    expect_groups(mesh, CS_GROUP_PP,
                  "(0,4,8,16)(0,4,9,17)(1,5,10,18)(1,5,11,19)(2,6,12,20)(2,6,13,21)(3,7,14,22)"
                  "(3,7,15,23)",
                  arena);
    expect_groups(mesh, CS_GROUP_DP,
                  "(0,2)(1,3)(4,6)(5,7)(8,12)(9,13)(10,14)(11,15)(16,20)(17,21)(18,22)(19,23)",
                  arena);
    expect_groups(mesh, CS_GROUP_TP,
                  "(0,1)(2,3)(4,5)(6,7)(8,9,10,11)(12,13,14,15)(16,17,18,19)(20,21,22,23)", arena);
    expect_groups(mesh, CS_GROUP_CP, "", arena);
    cs_arena_free(arena);
}

static void broken_meshes_are_refused(void **state)
{
    struct cs_mesh *mesh = NULL;
    struct cs_err err;
    struct cs_arena *arena = cs_arena_new(0);
    struct cs_layout layout = two(2, 1, 3, 1);
    (void)state;
    assert_int_equal(cs_mesh_make(&layout, 10, arena, &mesh, &err), CS_PLAN);
    assert_non_null(strstr(err.text, "must divide"));
    layout = two(2, 1, 4, 1);
    assert_int_equal(cs_mesh_make(&layout, 25, arena, &mesh, &err), CS_PLAN);
    assert_non_null(strstr(err.text, "no multiple"));
    layout.dp = 3;
    assert_int_equal(cs_mesh_make(&layout, 24, arena, &mesh, &err), CS_PLAN);
    layout = two(1, 3, 1, 2);
    assert_int_equal(cs_mesh_make(&layout, 10, arena, &mesh, &err), CS_PLAN);
    layout = two(0, 1, 1, 1);
    assert_int_equal(cs_mesh_make(&layout, 10, arena, &mesh, &err), CS_PLAN);
    cs_arena_free(arena);
}

static void groups_stay_in_nodes_only_when_aligned(void **state)
{
    struct cs_layout layout = {
        .branch = {{.name = "v", .tp = 1, .cp = 1, .pp = 1},
                   {.name = "llm", .tp = 4, .cp = 2, .pp = 2}},
        .n_branches = 2,
        .llm = 1,
        .dp = 1
    };
    (void)state;
    assert_false(cs_layout_stays_in_nodes(&layout, 8)); /* ranks 1..8 */
    layout.dp = 8;
    assert_true(cs_layout_stays_in_nodes(&layout, 8));
    layout.branch[1].cp = 4;
    assert_false(cs_layout_stays_in_nodes(&layout, 8));
}

static void presets_name_whole_nodes(void **state)
{
    struct cs_cluster cluster;
    struct cs_err err;
    json_t *name = json_string("h100x8");
    json_t *many = json_pack("{s:s s:i}", "preset", "a40x4", "nodes", 6);
    json_t *unknown = json_string("h100x9");
    (void)state;
    assert_int_equal(cs_cluster_read(name, 8, &cluster, &err), CS_OK);
    assert_string_equal(cluster.device->name, "h100-80g");
    assert_int_equal(cluster.devices_per_node, 8);
    assert_int_equal(cs_cluster_read(many, 8, &cluster, &err), CS_OK);
    assert_int_equal(cluster.n_nodes * cluster.devices_per_node, 24);
    assert_int_equal(cs_cluster_read(unknown, 8, &cluster, &err), CS_INVALID);
    assert_non_null(strstr(err.text, "a40x4, a100x8, h100x8, h200x8"));
    json_decref(name);
    json_decref(many);
    json_decref(unknown);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mesh_of_24_ranks_repeats_the_narrow_encoder),
        cmocka_unit_test(mesh_of_16_ranks_with_cp_is_in_order),
        cmocka_unit_test(mesh_of_18_ranks_and_two_encoders),
        cmocka_unit_test(replicas_of_27_ranks_fill_54_with_dp_2),
        cmocka_unit_test(groups_of_24_ranks_come_in_one_order),
        cmocka_unit_test(broken_meshes_are_refused),
        cmocka_unit_test(groups_stay_in_nodes_only_when_aligned),
        cmocka_unit_test(presets_name_whole_nodes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
