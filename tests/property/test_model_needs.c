/* Random models with random trainable sets against a brute-force oracle: a layer needs the gradient
 * of its input when a walk backwards along the edges from it meets a layer with a trainable
 * parameter. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

#include "core/base/philox.h"
#include "core/model/graph.h"
#include "core/model/keeps.h"
#include "support/spec.h"

enum { ROUNDS = 400, MAX_LAYERS = 64 };

struct dice {
    uint64_t round, n;
};

static int roll(struct dice *dice, int sides)
{
    return (int)(cs_philox_uniform(2024, dice->round, dice->n++) * sides);
}

/* The trainable layers as rules, one a layer, in random order between decoys that a later rule
 * undoes. */
static void make_rules(struct dice *dice, const char *const *paths, int n, bool *is_trained,
                       char *out, size_t room)
{
    int mode = roll(dice, 4); /* how much trains: nothing, few, half, most */
    size_t len = (size_t)snprintf(out, room, roll(dice, 2) == 0 ? "train:* " : "");
    for (int i = 0; i < n; i++) {
        is_trained[i] = roll(dice, 4) < mode;
        len += (size_t)snprintf(out + len, room - len, "%s:%s ", is_trained[i] ? "train" : "freeze",
                                paths[i]);
    }
    assert_true(len < room);
    out[len > 0 ? len - 1 : 0] = '\0';
}

static bool is_next(const struct cs_graph *graph, int from, int to)
{
    const struct cs_module *a = &graph->modules[graph->layers[from].module];
    const struct cs_module *b = &graph->modules[graph->layers[to].module];
    if (a->branch == b->branch)
        return to == from + 1;
    bool is_last = from == a->first_layer + a->n_layers - 1 && a->kind == CS_MODULE_PROJECTOR;
    return is_last && to == b->first_layer && b->kind == CS_MODULE_LLM;
}

static bool has_trained_upstream(const struct cs_graph *graph, const bool *is_trained, int layer)
{
    for (int i = 0; i < graph->n_layers; i++) {
        if (is_next(graph, i, layer) &&
            (is_trained[i] || has_trained_upstream(graph, is_trained, i)))
            return true;
    }
    return false;
}

static void check_round(struct dice *dice)
{
    struct cs_arena *arena = cs_arena_new(0);
    const char *paths[MAX_LAYERS];
    bool is_trained[MAX_LAYERS];
    char rules[4096];
    json_t *root = NULL;
    struct cs_test_spec options = {.n_encoders = roll(dice, 3),
                                   .vision_layers = 1 + roll(dice, 3),
                                   .llm_layers = 1 + roll(dice, 4),
                                   .is_tied = roll(dice, 2) == 0,
                                   .has_feature_layer = roll(dice, 2) == 0,
                                   .feature_layer = -1,
                                   .rules = ""};
    options.n_encoders = options.n_encoders == 0 ? -1 : options.n_encoders;
    struct cs_graph *graph = cs_test_graph(&options, arena, &root);
    assert_true(graph->n_layers <= MAX_LAYERS);
    int n = graph->n_layers;
    for (int i = 0; i < n; i++)
        paths[i] = graph->layers[i].path;
    make_rules(dice, paths, n, is_trained, rules, sizeof(rules));
    json_decref(root);
    options.rules = rules;
    graph = cs_test_graph(&options, arena, &root);
    int llm_embed = graph->modules[graph->n_modules - 1].first_layer;
    bool is_head_own = is_trained[n - 1];
    if (graph->is_tied)
        is_trained[n - 1] = is_head_own || is_trained[llm_embed];
    int64_t n_trained = 0;
    for (int i = 0; i < n; i++) {
        const struct cs_layer *layer = &graph->layers[i];
        if (layer->needs_weight_grad != is_trained[i] ||
            layer->needs_input_grad != has_trained_upstream(graph, is_trained, i))
            fail_msg("round %llu, %s, rules %s", (unsigned long long)dice->round, layer->path,
                     rules);
        n_trained += i == n - 1 ? (is_head_own ? layer->n_elements : 0)
                                : (is_trained[i] ? layer->n_elements : 0);
        bool runs_backward = layer->needs_input_grad || layer->needs_weight_grad;
        assert_int_equal(cs_layer_saved_bytes(graph, layer, 16) > 0, runs_backward);
    }
    assert_true(n_trained == graph->n_trained);
    json_decref(root);
    cs_arena_free(arena);
}

static void needs_equal_reachability(void **state)
{
    (void)state;
    for (uint64_t round = 0; round < ROUNDS; round++)
        check_round(&(struct dice){.round = round});
}

/* What one bit means: more training never removes a need. */
static void needs_grow_with_the_trainable_set(void **state)
{
    (void)state;
    for (uint64_t round = 0; round < ROUNDS; round++) {
        struct dice dice = {.round = round + 1000000};
        bool frozen[12], input[2][12], weight[2][12];
        int n = 1 + roll(&dice, 12);
        for (int i = 0; i < n; i++)
            frozen[i] = roll(&dice, 3) > 0;
        cs_graph_needs(frozen, n, input[0], weight[0]);
        frozen[roll(&dice, n)] = false;
        cs_graph_needs(frozen, n, input[1], weight[1]);
        for (int i = 0; i < n; i++) {
            assert_true(input[1][i] || !input[0][i]);
            assert_true(weight[1][i] || !weight[0][i]);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(needs_equal_reachability),
        cmocka_unit_test(needs_grow_with_the_trainable_set),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
