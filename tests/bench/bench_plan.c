/* The planner: how long a search takes from 64 to 4096 ranks, with how much memory, and what it
 * finds: at full slots, then ranked by ragged batches; and what other planners choose. The model of
 * lua/examples/omni-4096.lua: two frozen encoders, an LLM of 70 billion parameters that trains.
 * Prints; asserts nothing about time. Usage: bench_plan */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "core/search/search.h"

static double now_ms(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static json_t *encoder(const char *name, const char *token, int width, int layers, int image)
{
    return json_pack("{s:s s:s s:s s:s s:s s:i s:{s:s s:i s:i s:i s:i s:i s:i s:i s:s}}", "name",
                     name, "kind", "encoder", "dir", "", "init", "random", "token", token,
                     "feature_layer", -1, "config", "model_type", "siglip_vision_model",
                     "hidden_size", width, "intermediate_size", 4 * width, "num_hidden_layers",
                     layers, "num_attention_heads", width / 64, "image_size", image, "patch_size",
                     14, "num_channels", 3, "hidden_act", "gelu_pytorch_tanh");
}

static json_t *projector(const char *name)
{
    return json_pack("{s:s s:s s:s s:i}", "name", name, "kind", "projector", "family", "mlp",
                     "layers", 2);
}

static json_t *document(void)
{
    json_t *llm =
        json_pack("{s:s s:s s:s s:s s:{s:s s:i s:i s:i s:i s:i s:i s:i s:f s:s}}", "name", "llm",
                  "kind", "llm", "dir", "", "init", "random", "config", "model_type", "llama",
                  "hidden_size", 8192, "intermediate_size", 28672, "num_hidden_layers", 80,
                  "num_attention_heads", 64, "num_key_value_heads", 8, "vocab_size", 128256,
                  "max_position_embeddings", 131072, "rms_norm_eps", 1e-5, "hidden_act", "silu");
    json_t *modules =
        json_pack("[o o o o o]", encoder("audio.encoder", "<audio>", 1280, 32, 336),
                  projector("audio.projector"), encoder("vision.encoder", "<image>", 3072, 48, 448),
                  projector("vision.projector"), llm);
    return json_pack(
        "{s:s s:s s:i s:i s:i s:{s:o s:[{s:s s:s} {s:s s:s}]} s:{s:s s:{s:{s:i} s:{s:i} s:{s:i}} "
        "s:i s:i s:{s:i s:i}} s:{s:s s:s s:s} s:{s:s s:f}}",
        "schema", "cornstarch.job/1", "name", "omni", "seed", 0, "steps", 1, "batch_samples", 1,
        "model", "modules", modules, "rules", "op", "train", "glob", "*.projector", "op", "train",
        "glob", "llm", "plan", "cluster", "here", "parallel", "vision", "pp", 1, "audio", "pp", 1,
        "llm", "pp", 1, "seq_tokens", 8192, "slots", 4, "encoder_rows", "vision", 4096, "audio",
        2304, "data", "format", "llava", "json", "/none", "images", "", "optimizer", "kind",
        "adamw", "lr", 1e-3);
}

/* rows of pictures, of sound, of the LLM: a third of the samples has no picture */
static const int32_t pictures[] = {0, 0, 1024, 4096}, sounds[] = {0, 0, 0, 576},
                     tokens[] = {64, 700, 2000, 6000, 8192};

static struct cs_search_samples samples_of(const struct cs_graph *graph)
{
    struct cs_search_samples samples = {.n_batches = 8, .seed = 1};
    for (int32_t b = 0; b < graph->n_branches; b++) {
        const int32_t *value = graph->branches[b].encoder < 0                   ? tokens
                               : strcmp(graph->branches[b].name, "vision") == 0 ? pictures
                                                                                : sounds;
        samples.quantile[b].value = value;
        samples.quantile[b].n = value == tokens ? 5 : 4;
    }
    return samples;
}

struct timed {
    double ms, cpu_ms;
    enum cs_status status;
    struct cs_search_result result;
    struct cs_err err;
};

static struct timed search(const struct cs_spec *spec, const struct cs_graph *graph, int32_t nodes,
                           const struct cs_search_options *options, struct cs_arena *arena)
{
    struct cs_cluster cluster = {cs_device_class_find("h100-80g"), nodes, 8};
    struct timed t;
    double begin = now_ms(CLOCK_MONOTONIC), cpu = now_ms(CLOCK_PROCESS_CPUTIME_ID);
    t.status = cs_search(spec, graph, &cluster, NULL, options, arena, &t.result, &t.err);
    t.ms = now_ms(CLOCK_MONOTONIC) - begin;
    t.cpu_ms = now_ms(CLOCK_PROCESS_CPUTIME_ID) - cpu;
    return t;
}

static void print_row(const struct cs_spec *spec, const struct cs_graph *graph, int32_t nodes)
{
    struct cs_search_options options = {.batch_slots = 1024, .explains = true};
    struct cs_search_samples samples = samples_of(graph);
    struct rusage usage;
    struct cs_arena *arena = cs_arena_new(0);
    struct timed full = search(spec, graph, nodes, &options, arena);
    options.samples = &samples;
    struct timed ragged = search(spec, graph, nodes, &options, arena);
    getrusage(RUSAGE_SELF, &usage);
    printf("%6d %7.0f %7.0f %9.0f %8.1f ", nodes * 8, full.ms, full.cpu_ms, ragged.cpu_ms,
           (double)usage.ru_maxrss / 1024);
    if (full.status != CS_OK || ragged.status != CS_OK) {
        printf("%s\n", full.status != CS_OK ? full.err.text : ragged.err.text);
    } else {
        const struct cs_search_plan *p = &full.result.plan[0], *q = &ragged.result.plan[0];
        const struct cs_branch_layout *llm = &p->layout.branch[p->layout.llm];
        printf("%8lld %5d %8.2f %8.2f %8.2f %6d  %s dp %d, llm tp %d cp %d pp %d %s\n",
               (long long)full.result.n_scored, full.result.n_simulated, (double)p->step_ns / 1e9,
               (double)q->mean_ns / 1e9, (double)q->p95_ns / 1e9, p->n_ranks, p->schedule,
               p->layout.dp, llm->tp, llm->cp, llm->pp, cs_recompute_name(llm->recompute));
    }
    cs_arena_free(arena);
}

/* what every planner chooses, on the same ragged batches */
static void compare(const struct cs_spec *spec, const struct cs_graph *graph, int32_t nodes)
{
    struct cs_search_options options = {.batch_slots = 1024};
    struct cs_search_samples samples = samples_of(graph);
    struct cs_arena *arena = cs_arena_new(0);
    options.samples = &samples;
    struct timed t = search(spec, graph, nodes, &options, arena);
    for (int p = 0; t.status == CS_OK && p < CS_PLANNERS; p++) {
        const struct cs_search_plan *plan = t.result.choice[p].plan;
        if (!plan) {
            printf("%6d %-10s %s\n", nodes * 8, cs_planner_rules[p].name,
                   t.result.choice[p].why_not);
            continue;
        }
        printf("%6d %-10s %8.2f %8.2f %8.2f %6.2fx %6d  %s, dp", nodes * 8,
               cs_planner_rules[p].name, (double)plan->step_ns / 1e9, (double)plan->mean_ns / 1e9,
               (double)plan->p95_ns / 1e9, (double)plan->mean_ns / (double)t.result.plan[0].mean_ns,
               plan->n_ranks, plan->schedule);
        for (int32_t b = 0; b < plan->layout.n_branches; b++)
            printf(" %d", cs_layout_dp(&plan->layout, b));
        printf("\n");
    }
    cs_arena_free(arena);
}

int main(void)
{
    struct cs_err err;
    struct cs_spec *spec = NULL;
    struct cs_graph *graph = NULL;
    struct cs_arena *arena = cs_arena_new(0);
    json_t *root = document();
    enum cs_status status = cs_spec_read(root, arena, &spec, &err);
    if (status == CS_OK)
        status = cs_graph_build(spec, true, arena, &graph, &err);
    if (status == CS_OK) {
        printf(" ranks      ms  cpu ms ragged ms  max MiB   scored  sim.   step s   mean s    p95 s"
               "   used  fastest plan\n");
        for (int32_t nodes = 8; nodes <= 512; nodes *= 2)
            print_row(spec, graph, nodes);
        printf("\n ranks planner      step s   mean s    p95 s against   used  schedule, dp of "
               "branches\n");
        for (int32_t nodes = 8; nodes <= 512; nodes *= 8)
            compare(spec, graph, nodes);
    } else {
        fprintf(stderr, "%s\n", err.text);
    }
    json_decref(root);
    cs_arena_free(arena);
    return status == CS_OK ? 0 : 1;
}
