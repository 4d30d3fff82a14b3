/* Plans for every schedule: placing, shares, edges, refusals that say what would fit; the encoding
 * of copies and shares. */
#include "core/plan/plan_schedule.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

#include "core/base/arena.h"
#include "core/model/placements.h"
#include "core/plan/json/plan_json.h"
#include "core/plan/make/planner.h"
#include "tests/support/spec.h"

struct made {
    struct cs_arena *arena;
    json_t *root;
    struct cs_spec *spec;
    struct cs_graph *graph;
    struct cs_plan *plan;
    struct cs_err err;
};

static enum cs_status try_make(struct made *m, const struct cs_test_spec *options,
                               const char *schedule, const char *modality,
                               const struct cs_device_class *device)
{
    struct cs_cluster cluster = {device, 1, 16};
    *m = (struct made){.arena = cs_arena_new(0), .root = cs_test_spec_json(options)};
    if (cs_spec_read(m->root, m->arena, &m->spec, &m->err) != CS_OK ||
        cs_graph_build(m->spec, true, m->arena, &m->graph, &m->err) != CS_OK)
        fail_msg("%s", m->err.text);
    m->spec->schedule = schedule;
    m->spec->modality = modality;
    return cs_plan_make(m->spec, m->graph, &cluster, m->arena, &m->plan, &m->err);
}

static void make(struct made *m, const struct cs_test_spec *options, const char *schedule,
                 const char *modality)
{
    if (try_make(m, options, schedule, modality, cs_device_class_find("cpu")) != CS_OK)
        fail_msg("%s", m->err.text);
}

static void done(struct made *m)
{
    json_decref(m->root);
    cs_arena_free(m->arena);
}

static void check_stage(const struct made *m, int32_t id, const char *name, int32_t rank)
{
    assert_string_equal(m->plan->stages[id].name, name);
    assert_int_equal(m->plan->stages[id].rank, rank);
}

static const struct cs_test_spec two_encoders = {.n_encoders = 2, .llm_pp = 3, .llm_layers = 6};

static void interleaved_gives_every_rank_of_the_llm_two_stages(void **state)
{
    (void)state;
    struct made m;
    make(&m, &(struct cs_test_spec){.llm_layers = 6, .vision_pp = 1, .llm_pp = 3}, "interleaved",
         "encoder-parallel");
    assert_int_equal(m.plan->n_stages, 1 + 6);
    assert_int_equal(m.plan->n_ranks, 4);
    for (int32_t i = 0; i < 6; i++)
        assert_int_equal(m.plan->stages[1 + i].rank, 1 + i % 3);
    check_stage(&m, 4, "llm.3", 1);
    assert_int_equal(m.plan->n_edges, 6);
    assert_int_equal(m.plan->edges[3].from, 3);
    assert_int_equal(m.plan->edges[3].to, 4);
    assert_null(m.plan->share);
    assert_int_equal(cs_plan_check_runs(m.plan, &m.err), CS_OK);
    done(&m);
}

static void check_copies(const struct made *m, bool is_shared)
{
    const struct cs_plan *plan = m->plan;
    assert_int_equal(plan->n_stages, 9);
    assert_int_equal(plan->n_ranks, 3);
    assert_int_equal(plan->n_edges, 6 + 2);
    for (int32_t s = 0; s < 6; s++) {
        const struct cs_branch *branch = &m->graph->branches[s / 3];
        assert_int_equal(plan->stages[s].rank, s % 3);
        assert_int_equal(plan->stages[s].copies, 3);
        assert_int_equal(plan->stages[s].first_layer, branch->first_layer);
        assert_int_equal(plan->stages[s].n_layers, branch->n_layers);
        assert_int_equal(plan->stages[s].fwd_ns, plan->stages[s / 3 * 3].fwd_ns);
        assert_int_equal(plan->edges[s].from, s);
        assert_int_equal(plan->edges[s].to, is_shared ? 6 : 6 + s % 3);
        assert_true(plan->edges[s].has_grad);
        if (is_shared) {
            assert_int_equal(plan->share[s].n, 3);
            assert_int_equal(plan->share[s].at, s % 3);
        }
    }
    check_stage(m, 1, "vision.1", 1);
    check_stage(m, 5, "depth.2", 2);
    check_stage(m, 6, "llm.0", 0);
    check_stage(m, 8, "llm.2", 2);
    assert_int_equal(plan->stages[8].copies, 0);
}

static void three_phase_and_anchors_share_the_slots(void **state)
{
    (void)state;
    static const char *const names[] = {"three-phase", "anchors"};
    for (size_t i = 0; i < CS_ARRAY_LEN(names); i++) {
        struct made m;
        make(&m, &two_encoders, names[i], "encoder-colocated");
        assert_non_null(m.plan->share);
        check_copies(&m, true);
        assert_int_equal(m.plan->share[6].n, 0);
        assert_int_equal(cs_plan_check_runs(m.plan, &m.err), CS_OK);
        done(&m);
    }
}

static void replicated_encoders_run_every_slot_on_every_rank(void **state)
{
    (void)state;
    static const char *const names[] = {"1f1b", "gpipe", "zb-h1", "zb-h2"};
    for (size_t i = 0; i < CS_ARRAY_LEN(names); i++) {
        struct made m;
        struct cs_test_spec options = two_encoders;
        options.slots = 8;
        make(&m, &options, names[i], "encoder-replicated");
        assert_null(m.plan->share);
        check_copies(&m, false);
        assert_int_equal(cs_plan_check_runs(m.plan, &m.err), CS_OK);
        done(&m);
    }
}

/* a chain of the LLM's ranks; what encoders take is taken off the first stage */
static void encoders_on_the_first_rank_shorten_its_stage(void **state)
{
    const struct cs_test_spec options = {.vision_layers = 4, .llm_layers = 9, .llm_pp = 3};
    struct made m;
    int64_t busy[3] = {0}, most = 0;
    (void)state;
    make(&m, &options, "1f1b", "encoder-first");
    assert_int_equal(m.plan->n_ranks, 3);
    assert_int_equal(m.plan->n_stages, 4);
    assert_int_equal(m.plan->stages[0].rank, 0);
    for (int s = 0; s < 4; s++) {
        const struct cs_stage *stage = &m.plan->stages[s];
        assert_int_equal(stage->rank, s == 0 ? 0 : s - 1);
        busy[stage->rank] += stage->fwd_ns + stage->bwd_input_ns + stage->bwd_weight_ns;
    }
    assert_true(m.plan->stages[1].n_layers < m.plan->stages[2].n_layers);
    for (int r = 0; r < 3; r++)
        most = busy[r] > most ? busy[r] : most;
    assert_true(3 * most < 2 * (busy[0] + busy[1] + busy[2])); /* nobody has twice the mean */
    assert_int_equal(cs_plan_check_runs(m.plan, &m.err), CS_OK);
    done(&m);
}

/* rank and number of copies of every stage of vision, depth and a language model in two or more */
static void check_places(const struct made *m, const int32_t (*expected)[2], int32_t n)
{
    assert_int_equal(m->plan->n_stages, n);
    for (int32_t s = 0; s < n; s++) {
        const bool is_shared = m->plan->share != NULL && m->plan->share[s].n > 0;
        assert_int_equal(m->plan->stages[s].rank, expected[s][0]);
        assert_int_equal(is_shared ? m->plan->share[s].n : 0, expected[s][1]);
    }
    assert_int_equal(cs_plan_check_runs(m->plan, NULL), CS_OK);
}

static void every_encoder_has_a_place_of_its_own(void **state)
{
    (void)state;
    struct made m;
    struct cs_test_spec options = {.n_encoders = 2, .llm_pp = 2, .vision_place = "own", .slots = 6};
    static const char *const schedules[] = {"1f1b", "gpipe", "zb-h1"};
    static const int32_t shared[][2] =
        {
            {0, 0},
            {1, 2},
            {2, 2},
            {1, 0},
            {2, 0}
    },
                         first[][2] = {{1, 0}, {0, 0}, {1, 0}, {2, 0}},
                         staged[][2] = {{1, 2}, {2, 2}, {0, 0}, {1, 0}, {2, 0}};
    for (size_t i = 0; i < CS_ARRAY_LEN(schedules); i++) {
        make(&m, &options, schedules[i], "encoder-colocated"); /* depth: a copy on both ranks */
        check_places(&m, shared, 5);
        done(&m);
    }
    options.vision_place = "first";
    make(&m, &options, "1f1b", "encoder-parallel");
    check_places(&m, first, 4);
    done(&m);
    options.vision_place = "colocated";
    make(&m, &options, "1f1b", "encoder-parallel");
    check_places(&m, staged, 5);
    done(&m);
}

static void chunks_are_as_many_as_vpp_says(void **state)
{
    (void)state;
    struct made m;
    const struct cs_test_spec options = {
        .n_encoders = 1, .llm_pp = 2, .llm_layers = 7, .llm_vpp = 4, .slots = 4};
    make(&m, &options, "interleaved", "encoder-parallel");
    assert_int_equal(m.plan->n_stages, 1 + 2 * 4);
    assert_int_equal(m.plan->n_ranks, 3);
    for (int32_t s = 1; s < m.plan->n_stages; s++)
        assert_int_equal(m.plan->stages[s].rank, 1 + (s - 1) % 2);
    done(&m);
}

struct refusal {
    struct cs_test_spec options;
    const char *schedule, *modality;
    const char *words[3];
};

static void what_does_not_fit_is_told_what_would(void **state)
{
    (void)state;
    static const struct refusal rows[] = {
        {{.llm_pp = 3},
         "interleaved", "encoder-parallel",
         {"each of the 3 stages of llm in 2 chunks", "6 layers are needed, it has 5",
          "llm.pp <= 2, or 1f1b"}                                                             },
        {{.llm_pp = 2, .vision_pp = 2},
         "interleaved", "encoder-colocated",
         {"does not go with modality encoder-colocated", "choose encoder-parallel", "zb-h1"}  },
        {{.llm_pp = 2},
         "interleaved", "encoder-replicated",
         {"does not go with modality encoder-replicated", "choose encoder-parallel", "1f1b"}  },
        {{.llm_pp = 2},
         "three-phase", "encoder-parallel",
         {"does not go with modality encoder-parallel", "choose encoder-colocated", "gpipe"}  },
        {{.llm_pp = 2},
         "anchors",     "encoder-replicated",
         {"does not go with", "choose encoder-colocated", "1f1b"}                             },
        {{.llm_pp = 2, .vision_pp = 2},
         "three-phase", "encoder-colocated",
         {"whole copy of vision on each rank of llm", "pp = 2", "plan.parallel.vision.pp = 1"}},
        {{.llm_pp = 2, .vision_pp = 2},
         "1f1b",        "encoder-replicated",
         {"whole copy of vision", "encoder-replicated under 1f1b", "vision.pp = 1"}           },
        {{.n_encoders = -1, .llm_pp = 2},
         "three-phase", "encoder-colocated",
         {"the model has none", "encoder-parallel", "1f1b"}                                   },
        {{.n_encoders = -1, .llm_pp = 2},
         "1f1b",        "encoder-replicated",
         {"the model has none", "encoder-parallel", "1f1b"}                                   },
        {{.llm_pp = 2, .slots = 4},
         "zb-h2",       "encoder-parallel",
         {"4 slots on a path of 3 ranks", "at least 5 slots are needed", "zb-h1 takes fewer"} },
        {{.llm_pp = 2, .slots = 4},
         "zb-h2-late",  "encoder-parallel",
         {"schedule zb-h2-late", "at least 5 slots", "zb-h1"}                                 },
        {{.llm_pp = 2, .vision_pp = 2},
         "1f1b",        "encoder-first",
         {"encoder-first puts all of vision", "pp = 2", "plan.parallel.vision.pp = 1"}        },
        {{.llm_pp = 2, .llm_vpp = 3},
         "1f1b",        "encoder-parallel",
         {"plan.parallel.llm.vpp = 3", "1f1b has no chunks", "choose schedule interleaved"}   },
        {{.llm_pp = 2, .llm_vpp = 1},
         "interleaved", "encoder-parallel",
         {"plan.parallel.llm.vpp = 1", "2 chunks of a stage or more", "choose schedule 1f1b"} },
        {{.llm_pp = 2, .llm_vpp = 3},
         "interleaved", "encoder-parallel",
         {"in 3 chunks", "6 layers are needed, it has 5", "llm.pp <= 1"}                      },
        {{.llm_pp = 2, .vision_place = "first"},
         "interleaved", "encoder-parallel",
         {"does not go with plan.parallel.vision.place \"first\"", "choose \"own\"", "1f1b"}  },
        {{.llm_pp = 2, .vision_place = "own"},
         "three-phase", "encoder-colocated",
         {"plan.parallel.vision.place \"own\"", "choose \"colocated\"", "zb-h1"}              },
        {{.llm_pp = 2},
         "1f1b",        "encoder-everywhere",
         {"\"encoder-everywhere\" is not known", "encoder-colocated", "encoder-replicated"}   },
        {{.llm_pp = 2},
         "anchor",      "encoder-colocated",
         {"\"anchor\" is not known", "three-phase", "did you mean \"anchors\""}               },
    };
    for (size_t i = 0; i < CS_ARRAY_LEN(rows); i++) {
        struct made m;
        enum cs_status status = try_make(&m, &rows[i].options, rows[i].schedule, rows[i].modality,
                                         cs_device_class_find("cpu"));
        assert_int_equal(status, CS_PLAN);
        for (size_t w = 0; w < 3; w++)
            if (!strstr(m.err.text, rows[i].words[w]))
                fail_msg("\"%s\" does not say \"%s\"", m.err.text, rows[i].words[w]);
        done(&m);
    }
}

static void every_schedule_of_the_table_makes_a_plan(void **state)
{
    (void)state;
    int n = 0;
    for (; cs_plan_schedule(n); n++) {
        const struct cs_schedule_info *info = cs_plan_schedule(n), *found = NULL;
        struct made m;
        assert_true(strlen(info->help) > 10);
        assert_int_equal(cs_plan_schedule_find(info->name, &found, NULL), CS_OK);
        assert_ptr_equal(found, info);
        make(&m, &(struct cs_test_spec){.llm_pp = 2, .slots = 9}, info->name,
             info->layout == CS_LAYOUT_COLOCATED ? "encoder-colocated" : "encoder-parallel");
        assert_int_equal(cs_plan_check_fits(m.plan, &m.err), CS_OK);
        assert_string_equal(m.plan->schedule, info->name);
        done(&m);
    }
    assert_int_equal(n, 8);
    assert_null(cs_plan_schedule(-1));
}

/* What a row asks of the schedule and of the ranks is what the planner does. */
/* Nothing is placed by the modality where every encoder says where it is. */
static void places_of_all_encoders_stand_for_the_modality(void **state)
{
    static const struct {
        const char *schedule, *modality, *place, *same;
    } rows[] = {
        {"three-phase", "encoder-parallel",   "colocated", "encoder-colocated"},
        {"anchors",     "encoder-parallel",   "colocated", "encoder-colocated"},
        {"anchors",     "encoder-replicated", "colocated", "encoder-colocated"},
        {"interleaved", "encoder-colocated",  "own",       "encoder-parallel" },
    };

    (void)state;
    for (size_t i = 0; i < CS_ARRAY_LEN(rows); i++) {
        struct cs_test_spec options = {.llm_pp = 2, .slots = 8};
        struct made placed, asked;
        make(&asked, &options, rows[i].schedule, rows[i].same);
        options.vision_place = rows[i].place;
        make(&placed, &options, rows[i].schedule, rows[i].modality);
        assert_int_equal(placed.plan->n_ranks, asked.plan->n_ranks);
        assert_int_equal(placed.plan->n_stages, asked.plan->n_stages);
        assert_int_equal(placed.plan->predicted_step_ns, asked.plan->predicted_step_ns);
        for (int32_t s = 0; s < asked.plan->n_stages; s++) {
            assert_int_equal(placed.plan->stages[s].rank, asked.plan->stages[s].rank);
            assert_int_equal(placed.plan->stages[s].copies, asked.plan->stages[s].copies);
            assert_int_equal(placed.plan->stages[s].n_layers, asked.plan->stages[s].n_layers);
        }
        done(&placed);
        done(&asked);
    }
}

static void every_placement_of_the_table_does_what_its_row_says(void **state)
{
    (void)state;
    for (int p = 0; p < CS_PLACEMENTS; p++) {
        const struct cs_placement_info *row = &cs_placement_table[p];
        assert_int_equal(row->id, p);
        assert_ptr_equal(cs_placement_of_modality(row->modality), row);
        for (int s = 0; cs_plan_schedule(s) != NULL; s++) {
            const struct cs_schedule_info *schedule = cs_plan_schedule(s);
            const bool copies =
                           row->cut == CS_CUT_COPIES || schedule->layout == CS_LAYOUT_COLOCATED,
                       goes = (row->layouts >> schedule->layout & 1u) != 0;
            struct made m;
            const struct cs_test_spec options = {.llm_pp = 2,
                                                 .llm_layers = 6,
                                                 .slots = 9,
                                                 .vision_pp =
                                                     row->cut == CS_CUT_AS_LLM && !copies ? 2 : 1};
            const enum cs_status status =
                try_make(&m, &options, schedule->name, row->modality, cs_device_class_find("cpu"));
            if (status != (goes ? CS_OK : CS_PLAN))
                fail_msg("%s with %s: %s", row->modality, schedule->name, m.err.text);
            if (goes) {
                const int32_t shared = copies || !row->has_own_ranks ? 2 : 3;
                assert_int_equal(m.plan->n_ranks, shared);
                assert_int_equal(m.plan->stages[0].copies, copies ? 2 : 0);
            } else {
                assert_non_null(strstr(m.err.text, "does not go with modality"));
            }
            done(&m);
        }
    }
    assert_null(cs_placement_of_modality("mixed"));
    assert_string_equal(CS_MODALITY_WORDS,
                        "encoder-parallel|encoder-colocated|encoder-replicated|encoder-first");
    assert_string_equal(CS_MODALITY_SEARCHED_WORDS "|mixed",
                        "encoder-parallel|encoder-colocated|encoder-replicated|mixed");
}

static const struct {
    const char *schedule, *modality;
} kinds[] = {
    {"interleaved", "encoder-parallel"  },
    {"three-phase", "encoder-colocated" },
    {"anchors",     "encoder-colocated" },
    {"1f1b",        "encoder-colocated" },
    {"zb-h1",       "encoder-colocated" },
    {"1f1b",        "encoder-replicated"},
    {"zb-h1",       "encoder-parallel"  },
};

static void encodings_with_copies_and_shares_round_trip(void **state)
{
    (void)state;
    char hash[CS_ARRAY_LEN(kinds)][65];
    for (size_t i = 0; i < CS_ARRAY_LEN(kinds); i++) {
        struct made m;
        struct cs_plan *read = NULL;
        make(&m, &two_encoders, kinds[i].schedule, kinds[i].modality);
        json_t *json = cs_plan_json(m.plan, m.graph), *again;
        if (cs_plan_read(json, m.graph, m.arena, &read, &m.err) != CS_OK)
            fail_msg("%s: %s", kinds[i].schedule, m.err.text);
        assert_string_equal(read->hash, m.plan->hash);
        assert_int_equal(read->n_stages, m.plan->n_stages);
        assert_int_equal(read->share != NULL, m.plan->share != NULL);
        for (int32_t s = 0; s < read->n_stages; s++) {
            assert_int_equal(read->stages[s].copies, m.plan->stages[s].copies);
            if (read->share)
                assert_memory_equal(&read->share[s], &m.plan->share[s], sizeof read->share[s]);
        }
        again = cs_plan_json(read, m.graph);
        assert_true(json_equal(json, again));
        bool has_share =
            json_object_get(json_array_get(json_object_get(json, "stages"), 0), "share") != NULL;
        assert_int_equal(has_share, m.plan->share != NULL); /* only where there is one */
        memcpy(hash[i], m.plan->hash, 65);
        for (size_t k = 0; k < i; k++)
            assert_string_not_equal(hash[i], hash[k]);
        json_decref(json);
        json_decref(again);
        done(&m);
    }
}

static json_t *stage_json(json_t *plan, size_t id)
{
    return json_array_get(json_object_get(plan, "stages"), id);
}

static void damaged_shares_are_refused(void **state)
{
    (void)state;
    struct made m;
    make(&m, &two_encoders, "three-phase", "encoder-colocated");

    struct {
        size_t stage;
        const char *key;
        json_t *value;
        const char *words;
    } rows[] = {
        {1,                           "share",                  json_pack("{s:i,s:i}","n",3, "at", 0), "must be {\"n\": 3, \"at\": 1}"},
        {1,                       "share",                                             json_pack("{s:i,s:i}","n",2, "at", 1), "must be {\"n\": 3, \"at\": 1}"},
        {1,"share",json_pack("{s:i,s:i}","n",3, "at", 3), "stages[1].share must say"},
        {1,                         "share",                  json_pack("{s:i,s:i}","n",0, "at", 0), "stages[1].share must say"},
        {1,      "share",                                                                       json_pack("{s:i}",                                                             "n",                                       3), "stages[1].share must say"},
        {1, "share",                         json_integer(3),"stages[1].share must say"},
        {7,                        "share",                                               json_pack("{s:i,s:i}",                          "n",                                                                            3, "at", 1), "a copy of an encoder"},
        {1,                           "rank",                                                   json_integer(2),"not on the rank of stage 1"},
        {1,                         "n_layers",                       json_integer(1),"does not continue branch vision"},
        {4,            "first_layer",json_integer(0),"stages[4] does not continue"                                     },
        {1,      "share",NULL,"each with its share"},
    };

    for (size_t i = 0; i < CS_ARRAY_LEN(rows); i++) {
        json_t *json = cs_plan_json(m.plan, m.graph);
        struct cs_plan *read = NULL;
        if (rows[i].value)
            json_object_set_new(stage_json(json, rows[i].stage), rows[i].key, rows[i].value);
        else
            json_object_del(stage_json(json, rows[i].stage), rows[i].key);
        enum cs_status status = cs_plan_read(json, m.graph, m.arena, &read, &m.err);
        if (status == CS_OK || !strstr(m.err.text, rows[i].words))
            fail_msg("%zu: status %d, \"%s\" does not say \"%s\"", i, (int)status, m.err.text,
                     rows[i].words);
        json_decref(json);
    }
    /* the same stages under a schedule that has no copies */
    json_t *json = cs_plan_json(m.plan, m.graph);
    struct cs_plan *read = NULL;
    json_object_set_new(json, "schedule", json_string("interleaved"));
    assert_int_equal(cs_plan_read(json, m.graph, m.arena, &read, &m.err), CS_PLAN);
    assert_non_null(strstr(m.err.text, "encoders need ranks of their own"));
    json_decref(json);
    done(&m);
}

static void copies_count_against_the_memory_of_their_rank(void **state)
{
    (void)state;
    struct made m;
    struct cs_device_class small = *cs_device_class_find("a40-48g");
    make(&m, &two_encoders, "three-phase", "encoder-colocated");
    int64_t most = 0;
    for (int32_t r = 0; r < m.plan->n_ranks; r++) {
        int64_t bytes = 0;
        for (int32_t s = 0; s < m.plan->n_stages; s++)
            if (m.plan->stages[s].rank == r)
                bytes += m.plan->stages[s].weight_bytes;
        most = bytes > most ? bytes : most;
    }
    done(&m);
    small.mem_bytes = most; /* weights alone would just fit */
    assert_int_equal(try_make(&m, &two_encoders, "three-phase", "encoder-colocated", &small),
                     CS_PLAN);
    done(&m);
    small.mem_bytes = INT64_C(1) << 30;
    assert_int_equal(try_make(&m, &two_encoders, "three-phase", "encoder-colocated", &small),
                     CS_OK);
    done(&m);
}

/* costs are sums and quotients of doubles, rounded once: the same on every machine and from every
 * compiler; and plans of before there were copies keep their hash */
static void hashes_are_the_same_everywhere(void **state)
{
    (void)state;

    static const struct {
        const char *schedule, *modality, *device, *hash;
    } rows[] = {
        {"1f1b",        "encoder-parallel",   "cpu",
         "ae116eeca6b00a73b88ae3667e73dbd46350318559f73a21cdbbb88ccb83b612"},
        {"gpipe",       "encoder-parallel",   "h100-80g",
         "83e0d7bae2859fefe1ddd8eace758abcfb2ae2a70542446ab2514ec18bf6cc06"},
        {"interleaved", "encoder-parallel",   "h100-80g",
         "f997de7bb33e37719de1aefdf5d4da125fa3caa62637faecdbdef19138d0bf68"},
        {"anchors",     "encoder-colocated",  "a40-48g",
         "fce63f4324fc70388998bdc249aaa956fa10bd5d20c031037d749cc15a884301"},
        {"zb-h1",       "encoder-replicated", "a40-48g",
         "a782ea3c5e395ee6c33b2d7f40690932a9b99b7a04fac0b91cf20dd42c4cc09c"},
    };

    for (size_t i = 0; i < CS_ARRAY_LEN(rows); i++) {
        struct made m;
        if (try_make(&m, &two_encoders, rows[i].schedule, rows[i].modality,
                     cs_device_class_find(rows[i].device)) != CS_OK)
            fail_msg("%s", m.err.text);
        if (strcmp(m.plan->hash, rows[i].hash) != 0)
            fail_msg("%s on %s: %s, not %s", rows[i].schedule, rows[i].device, m.plan->hash,
                     rows[i].hash);
        done(&m);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(interleaved_gives_every_rank_of_the_llm_two_stages),
        cmocka_unit_test(three_phase_and_anchors_share_the_slots),
        cmocka_unit_test(replicated_encoders_run_every_slot_on_every_rank),
        cmocka_unit_test(encoders_on_the_first_rank_shorten_its_stage),
        cmocka_unit_test(every_encoder_has_a_place_of_its_own),
        cmocka_unit_test(chunks_are_as_many_as_vpp_says),
        cmocka_unit_test(what_does_not_fit_is_told_what_would),
        cmocka_unit_test(every_schedule_of_the_table_makes_a_plan),
        cmocka_unit_test(places_of_all_encoders_stand_for_the_modality),
        cmocka_unit_test(every_placement_of_the_table_does_what_its_row_says),
        cmocka_unit_test(encodings_with_copies_and_shares_round_trip),
        cmocka_unit_test(damaged_shares_are_refused),
        cmocka_unit_test(hashes_are_the_same_everywhere),
        cmocka_unit_test(copies_count_against_the_memory_of_their_rank),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
