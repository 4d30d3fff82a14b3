/* Measured costs of layers and of links: complete, plausible, and what planners read. */
#include "worker/measure/links.h"
#include "worker/measure/measure.h"
#include "worker/measure/measure_layer.h"
#include "worker/measure/messenger.h"

#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/plan/cost/basis/operators.h"
#include "core/plan/cost/tensor_share.h"
#include "core/plan/make/planner.h"
#include "support/device.h"
#include "support/lazy_device.h"
#include "support/need.h"
#include "support/spec.h"
#include "worker/device/tape.h"

enum { MOST_LAYERS = 24 };

static int64_t at(const struct cs_profile *p, const char *module, enum cs_layer_kind kind,
                  int64_t rows, int part)
{
    for (int32_t i = 0; i < p->n_rows; i++) {
        const struct cs_quadratic *parts[] = {&p->row[i].fwd, &p->row[i].bwd_input,
                                              &p->row[i].bwd_weight};
        if (p->row[i].kind == kind && strcmp(p->row[i].module, module) == 0)
            return cs_quadratic_ns(parts[part], rows);
    }
    fail_msg("no row for %s", module);
    return 0;
}

/* every kind of layer of every module once, with the key of the model that was asked about */
static void every_kind_of_layer_is_measured(void **state)
{
    static const struct {
        const char *module;
        enum cs_layer_kind kind;
    } kinds[] = {
        {"vision.encoder",   CS_LAYER_EMBED    },
        {"vision.encoder",   CS_LAYER_BLOCK    },
        {"vision.encoder",   CS_LAYER_NORM     },
        {"vision.projector", CS_LAYER_PROJECTOR},
        {"llm",              CS_LAYER_EMBED    },
        {"llm",              CS_LAYER_BLOCK    },
        {"llm",              CS_LAYER_HEAD     },
    };
    const struct cs_test_spec options = {.is_tied = true, .rules = "train:vision.projector"};
    const struct cs_device_class *cpu = cs_device_class_find("cpu");
    struct cs_arena *arena = cs_arena_new(0);
    struct cs_err err = {0};
    struct cs_profile *p, *again;
    json_t *root, *json;
    struct cs_graph *graph = cs_test_graph(&options, arena, &root);
    (void)state;
    need(cs_measure(root, cpu, cs_test_device(), 1, arena, &p, &err), &err);
    assert_int_equal(p->n_rows, CS_ARRAY_LEN(kinds));
    for (size_t i = 0; i < CS_ARRAY_LEN(kinds); i++)
        assert_true(at(p, kinds[i].module, kinds[i].kind, 64, 0) > 0);
    assert_true(at(p, "llm", CS_LAYER_BLOCK, 128, 1) > 0);
    assert_true(at(p, "llm", CS_LAYER_BLOCK, 128, 2) > 0);
    assert_int_equal(at(p, "vision.encoder", CS_LAYER_EMBED, 16, 1), 0); /* nothing is upstream */
    need(cs_profile_check(p, graph, cpu, &err), &err);

    json = cs_profile_json(p);
    need(cs_profile_read(json, arena, &again, &err), &err);
    assert_int_equal(again->n_rows, p->n_rows);
    assert_string_equal(again->key, p->key);

    /* frozen layers leave their parts out when a planner asks */
    struct cs_layer_cost cost;
    for (int32_t l = 0; l < graph->n_layers; l++) {
        const struct cs_layer *layer = &graph->layers[l];
        assert_true(cs_profile_cost(p, graph, layer, (struct cs_profile_ranks){.tp = 1, .cp = 1},
                                    64, &cost));
        assert_true(layer->needs_weight_grad || cost.bwd_weight_ns == 0);
        assert_true(layer->needs_input_grad || cost.bwd_input_ns == 0);
    }
    json_decref(json);
    json_decref(root);
    cs_arena_free(arena);
}

/* Both states of the optimizer where the device has both, whatever the job asks for, of one rank; it keeps fp32
 * again after. */
static void both_states_are_measured_where_there_are_two(void **state)
{
    const struct cs_test_spec options = {.rules = "train:llm", .llm_keys = CS_TEST_GEMMA4};
    const struct cs_device_class *cpu = cs_device_class_find("cpu");
    const bool has_two = !cs_device_is_f32(cs_test_device());
    struct cs_arena *arena = cs_arena_new(0);
    struct cs_err err = {0};
    struct cs_profile *p;
    json_t *root;
    (void)state;
    struct cs_graph *graph = cs_test_graph(&options, arena, &root);
    json_t *llm = json_array_get(json_object_get(json_object_get(root, "model"), "modules"),
                                 (size_t)graph->n_modules - 1);
    json_object_del(json_object_get(llm, "config"), "tie_word_embeddings"); /* as Gemma's have it */
    need(cs_measure(root, cpu, cs_test_device(), 3, arena, &p, &err), &err);
    assert_true(p->has_step && cs_quadratic_ns(&p->step.update, 1 << 16) > 0);
    assert_int_equal(p->has_step_bf16, has_two);
    assert_int_equal(cs_quadratic_ns(&p->step_bf16.update, 1 << 16) > 0, has_two);
    int32_t shared = 0;
    for (int32_t i = 0; i < p->n_rows; i++) {
        assert_true(p->row[i].tp <= 2); /* of three devices */
        shared += p->row[i].tp == 2;
        if (p->row[i].kind == CS_LAYER_BLOCK && strcmp(p->row[i].module, "llm") == 0)
            assert_int_equal(cs_quadratic_ns(&p->row[i].bwd_weight_bf16, 128) > 0,
                             has_two && p->row[i].tp == 1);
    }
    assert_true(shared > 0);
    assert_false(cs_device_keeps_bf16(cs_test_device()));
    json_decref(root);
    cs_arena_free(arena);
}

/* a wider model is another key, and slower */
static void a_profile_of_other_shapes_is_refused(void **state)
{
    const struct cs_device_class *cpu = cs_device_class_find("cpu");
    struct cs_test_spec options = {.llm_width = 48}, wide = {.llm_width = 192};
    struct cs_arena *arena = cs_arena_new(0);
    struct cs_err err = {0};
    struct cs_profile *p, *q;
    json_t *root, *other;
    (void)state;
    (void)cs_test_graph(&options, arena, &root);
    struct cs_graph *graph = cs_test_graph(&wide, arena, &other);
    need(cs_measure(root, cpu, cs_test_device(), 1, arena, &p, &err), &err);
    need(cs_measure(other, cpu, cs_test_device(), 1, arena, &q, &err), &err);
    assert_int_equal(cs_profile_check(p, graph, cpu, &err), CS_PLAN);
    need(cs_profile_check(q, graph, cpu, &err), &err);
    json_decref(root);
    json_decref(other);
    cs_arena_free(arena);
}

/* ---- on ranks that share matrices ---- */

static const struct cs_profile_row *row_of(const struct cs_profile *p, const struct cs_graph *graph,
                                           const struct cs_layer *layer, int32_t tp, bool sp)
{
    return cs_profile_find(p, graph, layer, (struct cs_profile_ranks){.tp = tp, .cp = 1, .sp = sp});
}

static void is_measured(const struct cs_profile_row *row)
{
    const struct cs_quadratic *parts[] = {&row->fwd, &row->bwd_input, &row->bwd_weight};
    for (size_t i = 0; i < CS_ARRAY_LEN(parts); i++) {
        assert_true(isfinite(parts[i]->a) && isfinite(parts[i]->b) && isfinite(parts[i]->c));
        assert_true(cs_quadratic_ns(parts[i], 128) > 0);
    }
}

/* As many as there are devices, and plans allow: blocks with rows between products whole and split, and heads. */
static void blocks_and_heads_are_measured_on_ranks_that_share_them(void **state)
{
    const struct cs_device_class *cpu = cs_device_class_find("cpu");
    struct cs_arena *arena = cs_arena_new(0);
    struct cs_err err = {0};
    struct cs_profile *p, *again;
    json_t *root;
    struct cs_graph *graph = cs_test_graph(NULL, arena, &root);
    int32_t n[3] = {0};
    (void)state;
    need(cs_measure(root, cpu, cs_test_device(), 8, arena, &p, &err), &err);
    json_t *json = cs_profile_json(p);
    need(cs_profile_read(json, arena, &again, &err), &err);
    for (int32_t l = 0; l < graph->n_layers; l++) {
        const struct cs_layer *layer = &graph->layers[l];
        const bool is_block = layer->kind == CS_LAYER_BLOCK;
        for (int i = 0; i < 3; i++) {
            const int32_t tp = 2 << i, branch = graph->modules[layer->module].branch;
            const bool is_there = (is_block || layer->kind == CS_LAYER_HEAD) &&
                                  cs_tp_check(graph, branch, tp, NULL) == CS_OK;
            const struct cs_profile_row *whole = row_of(again, graph, layer, tp, false),
                                        *split = row_of(again, graph, layer, tp, true);
            assert_int_equal(whole != NULL, is_there);
            assert_int_equal(split != NULL, is_there && is_block);
            n[i] += is_there;
            if (whole != NULL)
                is_measured(whole);
            if (split != NULL)
                is_measured(split);
        }
    }
    assert_true(n[0] > 0 && n[1] > 0);
    assert_int_equal(n[2], 0); /* there are four heads */
    json_decref(json);
    json_decref(root);
    cs_arena_free(arena);
}

/* what is measured is the first of so many ranks: its part of the parameters, and nobody to meet */
static void a_rank_is_measured_with_its_part(const struct cs_subject_config *config, int32_t layer)
{
    struct cs_subject_config own = *config;
    struct cs_subject s;
    struct cs_err err = {0};
    int64_t n = 0, all = 0, ns = 0;
    own.layer = layer;
    const struct cs_layer *l = &own.graph->layers[layer];
    for (int32_t i = l->first_param; i < l->first_param + l->n_params; i++) {
        struct cs_tp_part part;
        cs_tp_part_of(own.graph, &own.graph->params[i], (struct cs_tp){.ranks = own.tp}, &part);
        n += cs_tp_count(&part, &own.graph->params[i]);
        all += own.graph->params[i].count;
    }
    assert_true(n < all);
    need(cs_subject_open(&own, &s, &err), &err);
    assert_int_equal(s.n_params, n);
    for (int split = 0; split < 1 + (l->kind == CS_LAYER_BLOCK); split++) {
        cs_subject_split(&s, split > 0);
        need(cs_subject_rows(&s, 48, 5, 1, &err), &err);
        need(cs_subject_fwd(&s, 2, true, &ns, &err), &err);
        need(cs_subject_bwd(&s, 2, &ns, &err), &err);
        if (own.device->mem != NULL)
            continue;
        assert_int_equal(s.tensors.n_exchanges > 0, split > 0); /* rows that are lent */
        for (size_t i = 0; i < s.y_bytes / sizeof(float); i++)
            assert_true(isfinite(((const float *)s.y)[i]));
    }
    cs_subject_close(&s);
}

static void a_model_is_measured_by_ranks(const struct cs_test_spec *options)
{
    struct cs_arena *arena = cs_arena_new(0);
    struct cs_input_tables *tables;
    struct cs_slot_budget budget;
    struct cs_spec *spec;
    struct cs_err err = {0};
    json_t *root;
    struct cs_graph *graph = cs_test_graph(options, arena, &root);
    need(cs_spec_read(root, arena, &spec, &err), &err);
    need(cs_plan_budget(spec, graph, &budget, &err), &err);
    need(cs_input_tables_new(graph, cs_test_device(), &budget, &tables, &err), &err);
    tables->words = cs_tp_share(tables->vocab, (struct cs_tp){.ranks = 2});
    const struct cs_subject_config config = {.graph = graph,
                                             .budget = &budget,
                                             .tables = tables,
                                             .device = cs_test_device(),
                                             .n_layers = 1,
                                             .tp = 2};
    for (int32_t l = 0; l < graph->n_layers; l++)
        if (cs_tensor_divides(&graph->layers[l]))
            a_rank_is_measured_with_its_part(&config, l);
    cs_input_tables_free(tables);
    json_decref(root);
    cs_arena_free(arena);
}

static void what_is_measured_is_one_of_the_ranks(void **state)
{
    static const struct cs_test_spec models[] = {
        {.is_qwen3 = true},         {.has_experts = true},
        {.is_recurrent = true},     {.llm_keys = CS_TEST_GEMMA4},
        {.llm_keys = CS_TEST_PHI3}, {.vision_keys = CS_TEST_INTERN_VIT},
    };

    (void)state;
    for (size_t i = 0; i < CS_ARRAY_LEN(models); i++)
        a_model_is_measured_by_ranks(&models[i]);
}

/* ---- operators ---- */

/* What a layer runs for a slot, as a tape has it: forward, backward of what it trains and passes. */
static void count_operators(const struct cs_subject_config *config, struct cs_layer_operators *n)
{
    const struct cs_layer_ends ends = {.fill = {NULL}};
    const bool trains = config->graph->layers[config->layer].needs_weight_grad;
    struct cs_subject s;
    struct cs_tape tape;
    struct cs_err err = {0};
    need(cs_subject_open(config, &s, &err), &err);
    need(cs_subject_rows(&s, 48, 5, 1, &err), &err);
    cs_tape_open(&tape, config->device);
    struct cs_ctx ctx = cs_tape_ctx(&tape);
    struct cs_run run = {.device = &tape.recorder,
                         .ops = &tape.ops,
                         .ctx = &ctx,
                         .scratch = &s.scratch,
                         .input = &s.input};
    cs_stage_fwd(s.stage, &run, s.x, &ends, s.y, &s.saved);
    /* a stage keeps what enters it: a copy that is none of its first layer, where anything enters */
    n->fwd = (int32_t)tape.n_calls - (s.x != NULL && s.layer->kind != CS_LAYER_HEAD);
    const int32_t before = (int32_t)tape.n_calls;
    cs_stage_bwd(s.stage, &run, s.dy, s.layer->needs_input_grad ? s.dx : NULL, &ends, &s.saved);
    *(trains ? &n->bwd_weight : &n->bwd_input) = (int32_t)tape.n_calls - before;
    cs_tape_close(&tape);
    cs_subject_close(&s);
}

/* n (graph->n_layers): their forward, and their backward as they train, or pass gradients alone */
static void count_model(struct cs_test_spec options, bool trains, struct cs_layer_operators *n,
                        struct cs_layer_operators *said)
{
    struct cs_arena *arena = cs_arena_new(0);
    struct cs_input_tables *tables;
    struct cs_slot_budget budget;
    struct cs_spec *spec;
    struct cs_err err = {0};
    json_t *root;
    options.rules = trains ? "train:*" : "freeze:*";
    struct cs_graph *graph = cs_test_graph(&options, arena, &root);
    need(cs_spec_read_preview(root, arena, &spec, &err), &err);
    need(cs_plan_budget(spec, graph, &budget, &err), &err);
    need(cs_input_tables_new(graph, cs_test_device(), &budget, &tables, &err), &err);
    assert_true(graph->n_layers <= MOST_LAYERS);
    for (int32_t l = 0; l < graph->n_layers; l++) {
        graph->layers[l].needs_input_grad = graph->layers[l].kind != CS_LAYER_EMBED;
        const struct cs_subject_config config = {.graph = graph,
                                                 .budget = &budget,
                                                 .tables = tables,
                                                 .device = cs_test_device(),
                                                 .layer = l,
                                                 .n_layers = 1,
                                                 .tp = 1};
        count_operators(&config, &n[l]);
        said[l] = cs_layer_operators(graph, &graph->layers[l]);
        for (int32_t f = 0; f < graph->n_feeds; f++) { /* nothing comes from encoders here */
            said[l].fwd -= graph->feeds[f].to_layer == l;
            said[l].bwd_input -= graph->feeds[f].to_layer == l;
        }
        /* it adds the balancing loss of experts */
        said[l].fwd += graph->layers[l].kind == CS_LAYER_HEAD && options.has_experts;
    }
    cs_input_tables_free(tables);
    json_decref(root);
    cs_arena_free(arena);
}

/* Plans count what the worker runs. */
static void layers_run_as_many_operators_as_plans_count(void **state)
{
    static const struct cs_test_spec models[] = {
        {.seed = 1},
        {.is_qwen2 = true},
        {.is_qwen3 = true},
        {.has_experts = true},
        {.is_recurrent = true},
        {.llm_keys = CS_TEST_GEMMA4},
        {.llm_keys = CS_TEST_PHI3},
        {.vision_keys = CS_TEST_INTERN_VIT},
        {.n_encoders = 2},
    };

    (void)state;
    if (cs_test_device()->mem != NULL)
        skip(); /* devices round rows up, and clear what is beyond */
    for (size_t i = 0; i < CS_ARRAY_LEN(models); i++) {
        struct cs_layer_operators counted[3][MOST_LAYERS];
        const struct cs_layer_operators *passing = counted[0], *trained = counted[1],
                                        *said = counted[2];
        memset(counted, 0, sizeof counted);
        count_model(models[i], false, counted[0], counted[2]);
        count_model(models[i], true, counted[1], counted[2]);
        for (int l = 0; l < MOST_LAYERS; l++) {
            assert_int_equal(said[l].fwd, passing[l].fwd);
            assert_int_equal(said[l].fwd, trained[l].fwd);
            assert_int_equal(said[l].bwd_input, passing[l].bwd_input);
            assert_int_equal(said[l].bwd_input + said[l].bwd_weight, trained[l].bwd_weight);
        }
    }
}

/* ---- links ---- */

static int n_there;                           /* devices; any further one cannot be opened */
static const struct cs_device_ops *other_mem; /* of them; NULL: as they have it */

static enum cs_status open_lazy(int index, struct cs_device **out, struct cs_err *err)
{
    if (index >= n_there)
        return cs_fail(err, CS_UNSUPPORTED, "no device %d", index);
    *out = cs_lazy_device_new();
    if (other_mem != NULL)
        (*out)->mem = other_mem;
    return CS_OK;
}

static enum cs_status measure_lazy(int n, struct cs_arena *arena, struct cs_profile *p,
                                   struct cs_err *err)
{
    const struct cs_link_devices devices = {
        .n = n, .bytes = 256 << 10, .open = open_lazy, .close = cs_lazy_device_free};
    *p = (struct cs_profile){.device = "h100-80g"};
    n_there = n < 4 ? n : 3;
    return cs_measure_links(&devices, arena, p, err);
}

static void has_links(const struct cs_profile *p, int n_links)
{
    static const struct {
        const char *op;
        int ranks;
    } all[] = {
        {"send",           2},
        {"all-gather",     2},
        {"reduce-scatter", 2},
        {"all-reduce",     2},
        {"all-to-all",     2},
        {"shift",          2},
        {"all-gather",     4},
        {"reduce-scatter", 4},
        {"all-reduce",     4},
        {"all-to-all",     4},
        {"shift",          4},
    };

    assert_int_equal(p->n_links, n_links);
    for (int i = 0; i < n_links; i++) {
        assert_string_equal(p->link[i].op, all[i].op);
        assert_int_equal(p->link[i].ranks, all[i].ranks);
        assert_true(p->link[i].bytes_per_s > 0 && p->link[i].latency_ns >= 0);
        assert_int_equal(p->link[i].n_points, CS_LINK_POINTS);
        for (int k = 0; k < CS_LINK_POINTS; k++)
            assert_true(p->link[i].point[k].ns > 0 &&
                        (k == 0 || p->link[i].point[k].bytes > p->link[i].point[k - 1].bytes));
        /* beside products on devices alone, where no exchange is faster than alone */
        assert_int_equal(p->link[i].beside_bytes_per_s > 0, strcmp(p->device, "cpu") != 0);
        assert_true(p->link[i].beside_bytes_per_s <= p->link[i].bytes_per_s);
        assert_true(p->link[i].slows >= 0 && p->link[i].slows <= CS_SLOWS_MOST);
        const bool can_copy = strcmp(all[i].op, "shift") == 0 || strcmp(all[i].op, "send") == 0;
        assert_int_equal(p->link[i].by_copy_engines,
                         can_copy && strcmp(p->device, "cpu") != 0 && other_mem == NULL);
    }
}

/* Every kind of exchange in groups of 2, and of 4 where there are as many; of one device nothing. */
static void links_are_measured_between_ranks(void **state)
{
    struct cs_arena *arena = cs_arena_new(0);
    struct cs_err err = {0};
    struct cs_profile p = {.device = "cpu"};
    (void)state;
    need(cs_measure_links(NULL, arena, &p, &err), &err);
    has_links(&p, 11);
    need(measure_lazy(1, arena, &p, &err), &err);
    has_links(&p, 0);
    need(measure_lazy(3, arena, &p, &err), &err);
    has_links(&p, 6);
    cs_arena_free(arena);
}

static int by_nccl(const void *comm)
{
    (void)comm;
    return 0;
}

/* The fourth of four devices is not there: the three others do not wait for it, the error is its own, and what was
 * measured of two stays. Copy engines do not reach from one to another: shifts are measured all the same, as jobs send
 * then, and it is told. */
static void a_device_that_is_missing_is_not_waited_for(void **state)
{
    struct cs_arena *arena = cs_arena_new(0);
    struct cs_err err = {0};
    struct cs_profile p;
    struct cs_device *any = cs_lazy_device_new();
    struct cs_device_ops mem = *any->mem;
    struct cs_device_comm_ops comm = *mem.comm;
    (void)state;
    cs_lazy_device_free(any);
    comm.moves_by_copy_engines = by_nccl;
    mem.comm = &comm;
    other_mem = &mem;
    assert_int_equal(measure_lazy(4, arena, &p, &err), CS_UNSUPPORTED);
    assert_non_null(strstr(err.text, "no device 3"));
    has_links(&p, 6);
    other_mem = NULL;
    cs_arena_free(arena);
}

static enum cs_status open_and_die(int index, struct cs_device **out, struct cs_err *err)
{
    if (index == 1)
        _exit(3);
    return open_lazy(index, out, err);
}

/* Ranks that are children tell why they failed; one that ends without a word is named. */
static void children_tell_why_they_fail(void **state)
{
    struct cs_arena *arena = cs_arena_new(0);
    struct cs_err err = {0};
    struct cs_profile p = {.device = "h100-80g"};
    struct cs_link_devices devices = {.n = 2,
                                      .are_processes = true,
                                      .bytes = 256 << 10,
                                      .open = open_lazy,
                                      .close = cs_lazy_device_free};
    (void)state;
    n_there = 1;
    assert_int_equal(cs_measure_links(&devices, arena, &p, &err), CS_UNSUPPORTED);
    assert_non_null(strstr(err.text, "no device 1"));
    assert_int_equal(p.n_links, 0);
    devices.open = open_and_die;
    n_there = 2;
    assert_int_equal(cs_measure_links(&devices, arena, &p, &err), CS_STATE);
    assert_non_null(strstr(err.text, "the process of rank 1 ended"));
    cs_arena_free(arena);
}

/* ---- a failure beside products ---- */

/* Both ranks have the tables of lazy devices, with calls of their own that count. */
enum { FAILS = 1, BUFFERS = 2 /* of exchanges; what is allocated next is of products */ };

static struct cs_device_ops spied_mem;
static struct cs_device_comm_ops spied_comm;
static const struct cs_device_ops *true_mem;
static void *failing;
static int n_allocated;
static _Atomic int n_closed, n_aborted, n_freed_before;

static enum cs_status alloc_spied(void *handle, size_t bytes, void **p, struct cs_err *err)
{
    if (handle == failing && ++n_allocated > BUFFERS)
        return cs_fail(err, CS_NO_MEMORY, "device %d is full", FAILS);
    return true_mem->alloc(handle, bytes, p, err);
}

static void free_spied(void *handle, void *p)
{
    n_freed_before += handle == failing && p != NULL && n_aborted == 0;
    true_mem->free(handle, p);
}

static void close_spied(void *comm)
{
    n_closed++;
    true_mem->comm->close(comm);
}

static void abort_spied(void *comm)
{
    n_aborted++;
    true_mem->comm->abort(comm);
}

static enum cs_status open_spied(int index, struct cs_device **out, struct cs_err *err)
{
    CS_TRY(open_lazy(index, out, err));
    (*out)->mem = &spied_mem;
    if (index == FAILS)
        failing = (*out)->handle;
    return CS_OK;
}

static void spy_on_lazy_devices(void)
{
    static struct cs_device_ops mem;
    struct cs_device *any = cs_lazy_device_new();
    mem = *any->mem;
    cs_lazy_device_free(any);
    n_allocated = n_closed = n_aborted = n_freed_before = 0;
    true_mem = &mem;
    spied_comm = *mem.comm;
    spied_comm.close = close_spied;
    spied_comm.abort = abort_spied;
    spied_mem = mem;
    spied_mem.alloc = alloc_spied;
    spied_mem.free = free_spied;
    spied_mem.comm = &spied_comm;
}

enum { BESIDE_NS = 400000 }; /* that each of the exchanges which are timed together takes */

static enum cs_status elapsed_spied(void *handle, void *begin, void *end, double *ms,
                                    struct cs_err *err)
{
    (void)handle;
    (void)begin;
    (void)end;
    (void)err;
    *ms = 8 * BESIDE_NS * 1e-6;
    return CS_OK;
}

static enum cs_status open_timed(int index, struct cs_device **out, struct cs_err *err)
{
    CS_TRY(open_lazy(index, out, err));
    (*out)->mem = &spied_mem;
    return CS_OK;
}

/* What an exchange takes that is no part of its bytes is left out, as of those alone. */
static void bytes_beside_products_have_no_latency(void **state)
{
    enum { BYTES = 256 << 10 };

    struct cs_arena *arena = cs_arena_new(0);
    struct cs_err err = {0};
    struct cs_profile p = {.device = "h100-80g"};
    const struct cs_link_devices devices = {
        .n = 2, .bytes = BYTES, .open = open_timed, .close = cs_lazy_device_free};
    (void)state;
    n_there = 2;
    failing = NULL;
    spy_on_lazy_devices();
    spied_mem.event_elapsed = elapsed_spied;
    need(cs_measure_links(&devices, arena, &p, &err), &err);
    assert_true(p.n_links > 0);
    for (int32_t i = 0; i < p.n_links; i++) {
        const struct cs_profile_link *l = &p.link[i];
        const double bytes_ns = fmax((double)(BESIDE_NS - l->latency_ns), 1);
        const double want = fmin(BYTES * 1e9 / bytes_ns, (double)l->bytes_per_s);
        assert_true(fabs((double)l->beside_bytes_per_s - want) <= 1 + 1e-9 * want);
    }
    cs_arena_free(arena);
}

/* Who has no memory for products, when exchanges have been measured, ends its communicators without its peer, before
 * anything else; the peer does the same, and the reason is the one of who failed. */
static void a_failure_beside_products_waits_for_nobody(void **state)
{
    struct cs_arena *arena = cs_arena_new(0);
    struct cs_err err = {0};
    struct cs_profile p = {.device = "h100-80g"};
    const struct cs_link_devices devices = {
        .n = 2, .bytes = 256 << 10, .open = open_spied, .close = cs_lazy_device_free};
    (void)state;
    n_there = 2;
    spy_on_lazy_devices();
    assert_int_equal(cs_measure_links(&devices, arena, &p, &err), CS_NO_MEMORY);
    assert_non_null(strstr(err.text, "device 1 is full"));
    assert_int_equal(p.n_links, 0);
    assert_int_equal(n_closed, 0);
    assert_int_equal(n_aborted, 2 * CS_LINK_OPS);
    assert_int_equal(n_freed_before, 0);
    cs_arena_free(arena);
}

enum { MESSAGES = 50, WORDS = 3000 };

/* Sends back what comes, one more; until an exchange fails. Returns what failed. */
static void *answer(void *comm)
{
    static enum cs_status status;
    struct cs_messenger *m;
    static int heard[WORDS];
    need(cs_messenger_new(comm, &m, NULL), NULL);
    for (status = CS_OK; status == CS_OK;) {
        struct cs_xfer in = {.peer = 0, .data = heard, .bytes = sizeof heard},
                       out = {.peer = 0, .data = heard, .bytes = sizeof heard, .is_send = 1};
        status = cs_messenger_move(m, &in, 30000, NULL);
        for (int i = 0; i < WORDS; i++)
            heard[i]++;
        if (status == CS_OK)
            status = cs_messenger_move(m, &out, 30000, NULL);
    }
    cs_messenger_free(m);
    return &status;
}

static void messengers_move_what_they_are_given_until_one_fails(void **state)
{
    int pair[2], numbers[WORDS];
    struct cs_comm *comm[2];
    struct cs_messenger *m;
    pthread_t thread;
    void *status;
    struct cs_err err = {0};
    (void)state;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    for (int r = 0; r < 2; r++) {
        int fds[2] = {-1, -1};
        fds[1 - r] = pair[r];
        need(cs_comm_socket_new(r, 2, fds, &comm[r], &err), &err);
    }
    assert_int_equal(pthread_create(&thread, NULL, answer, comm[1]), 0);
    need(cs_messenger_new(comm[0], &m, &err), &err);
    for (int k = 0; k < MESSAGES; k++) {
        for (int i = 0; i < WORDS; i++)
            numbers[i] = k + i;
        struct cs_xfer out = {.peer = 1, .data = numbers, .bytes = sizeof numbers, .is_send = 1},
                       in = {.peer = 1, .data = numbers, .bytes = sizeof numbers};
        need(cs_messenger_move(m, &out, 30000, &err), &err);
        need(cs_messenger_move(m, &in, 30000, &err), &err);
        for (int i = 0; i < WORDS; i++)
            assert_int_equal(numbers[i], k + i + 1);
    }
    comm[0]->table->abort(comm[0]);
    pthread_join(thread, &status);
    assert_int_equal(*(enum cs_status *)status, CS_PEER_GONE);
    struct cs_xfer late = {.peer = 1, .data = numbers, .bytes = sizeof numbers};
    assert_int_equal(cs_messenger_move(m, &late, 30000, &err), CS_INTERRUPTED);
    assert_non_null(strstr(err.text, "aborted"));
    cs_messenger_free(m);
    for (int r = 0; r < 2; r++)
        comm[r]->table->free(comm[r]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kind_of_layer_is_measured),
        cmocka_unit_test(layers_run_as_many_operators_as_plans_count),
        cmocka_unit_test(both_states_are_measured_where_there_are_two),
        cmocka_unit_test(a_profile_of_other_shapes_is_refused),
        cmocka_unit_test(blocks_and_heads_are_measured_on_ranks_that_share_them),
        cmocka_unit_test(what_is_measured_is_one_of_the_ranks),
        cmocka_unit_test(links_are_measured_between_ranks),
        cmocka_unit_test(messengers_move_what_they_are_given_until_one_fails),
        cmocka_unit_test(bytes_beside_products_have_no_latency),
        cmocka_unit_test(a_device_that_is_missing_is_not_waited_for),
        cmocka_unit_test(children_tell_why_they_fail),
        cmocka_unit_test(a_failure_beside_products_waits_for_nobody),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
